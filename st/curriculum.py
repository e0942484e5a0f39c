r"""Curriculum pre-training: a speech encoder learns to transcribe, then to understand words, then to translate.

Wang et al. 2020, ACL, "Curriculum Pre-training for End-to-End Speech Translation", section 3. The elementary course is
speech recognition with the lower layers of the encoder, L_ASR = a L_CTC + (1 - a) L_CE. In the advanced course, the
recordings are aligned with the words of their transcripts, and the whole encoder learns

    L_FMLM = sum over hidden words w of KL(q_w || softmax(A mean h^N_w))       frame-based masked language model
    L_FBLT = sum over words w of KL(u_w || softmax(C mean h^L_w))              frame-based bilingual lexicon translation

where h^N are the states of the layer N with which transcribing ended, h^L those of the last one, the mean is over the
states of a word, q_w is uniform over the pieces of the word, and u_w over those of the words that translate it (no loss
if none does). Of the words, 15 % are hidden: their frames become the mean of the utterance. Last, the encoder and a new
decoder learn to translate.

Differs from the paper: words are found in the sound by the recogniser's CTC head (``AlignSpeech``), not the Montreal
Forced Aligner, and linked with their translations by IBM model 1 with links near the diagonal (``AlignWords``), not
GIZA++ (another aligner's links can be given); one-dimensional convolutions; no pitch features; features are normalised
by utterance; scores are divided by the length to the power of 0.2, where the paper's 0.2 is ESPnet's bonus for each
token.

Not established, and chosen here: FBLT hears the hidden words, since both losses share one pass; sums of both losses are
over words; FMLM reads the states of layer N through the norm that they had in the recogniser, and the norm above layer
L is new; learning rate and smoothing. The norm of layer N and the projections, which belong to the losses, are left
behind after pre-training.

Not implemented: all courses at once, a decoder that begins as a text translator's.

Legend: B rows, N samples, T frames, S states, W words of a row, P pieces of words, M words that are asked for, D width,
V vocabulary.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from dragoman.shared.batch import Batch, naming_longest
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.heads import OutputProjection
from dragoman.shared.nn.layer import EncoderLayer
from dragoman.shared.nn.speech import SpeechEmbedding
from dragoman.shared.nn.transformer import Encoder
from dragoman.shared.nn.translator import SPEECH, EncoderModel
from dragoman.shared.objectives.objective import Term
from dragoman.shared.objectives.parts import Part
from dragoman.shared.padded import Padded

#: Batch fields of ``SpokenWords``.
WORDS, HIDDEN = f"{SPEECH}.words", f"{SPEECH}.hidden"


class HidingEncoder(EncoderModel):
    """An encoder of speech that does not hear the words which the batch says are hidden.

    Args:
        embeddings: see ``EncoderModel``; that of "speech" is a ``SpeechEmbedding``.
        encoder: see ``EncoderModel``.
        heads: see ``EncoderModel``.
        normalised: the layer whose tap has a norm of its own, since it was the last of a smaller encoder; None, or
            layers that normalise what they give (``pre_norm: False``): none.

    Raises:
        ValueError: if that layer is not tapped.
    """

    def __init__(
        self,
        *,
        embeddings: dict[str, nn.Module],
        encoder: Encoder,
        heads: dict[str, nn.Module] | None = None,
        normalised: int | None = None,
    ) -> None:
        super().__init__(embeddings=embeddings, encoder=encoder, heads=heads)
        if normalised is not None and normalised not in encoder.taps:
            raise ValueError(f"layer {normalised} cannot be normalised: the encoder's taps are {encoder.taps}")
        self.normalised = normalised
        layer = cast(EncoderLayer, encoder.layers[0])
        self.tap_norm = layer.new_norm() if normalised is not None and layer.pre_norm else None

    def tap(self, encoding: Encoding, name: int | str) -> Padded:
        """Return the states (B, S, D) of a tap, normalised if they have a norm."""
        states = super().tap(encoding, name)
        return states if self.tap_norm is None or name != self.normalised else states.map(self.tap_norm)

    def embed(self, batch: Batch, field: str | None = None) -> Padded:
        """Embed a field (B, S, D); of speech, the frames of hidden words become the mean of their utterance."""
        field = field or self.default_field(batch)
        if field != SPEECH or HIDDEN not in batch:
            return super().embed(batch, field)
        embedding, speech = cast(SpeechEmbedding, self.embeddings[SPEECH]), batch[SPEECH]
        frames = cast(Any, embedding.frontend).lengths(speech.lengths)
        segments = touched(batch[WORDS].values, embedding.hop)
        chosen = batch[HIDDEN].values & batch[HIDDEN].mask
        hidden = (inside(segments, int(frames.max())) & chosen[..., None]).any(1)  # (B, T)
        with naming_longest(batch, SPEECH):
            return cast(Padded, embedding(speech, hidden))


class WordPrediction(Part):
    """KL divergence of a word's pieces from what is predicted of the mean of its states, per word that is asked for.

    Terms: ``name``, and reported only: ``<name>_accuracy``, the share of words whose most probable piece is theirs.

    Args:
        name: of the term.
        field: what is predicted, of ``SpokenWords``: "said", a word's own pieces, or "translated".
        tap: the layer of the encoder whose states are read.
        width: D.
        vocabulary: V, of the tokenizer of the pieces.
        hidden: ask for hidden words alone.
        weight: factor of the term in the loss.
    """

    def __init__(
        self,
        *,
        name: str,
        field: Literal["said", "translated"],
        tap: int,
        width: int,
        vocabulary: int,
        hidden: bool = False,
        weight: float = 1.0,
    ) -> None:
        super().__init__(source=SPEECH)
        self.name = name
        self.field = f"{SPEECH}.{field}"
        self.tap = tap
        self.hidden = hidden
        self.weight = weight
        self.projection = OutputProjection(width=width, vocabulary=vocabulary)

    def check(self, model: Any) -> None:
        """Raise UsageError if the model's encoder is not tapped at the layer."""
        if self.tap not in model.taps:
            raise UsageError(f"{self.name} reads the states of layer {self.tap}, but the model's taps are {model.taps}")

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the number of words that are asked for."""
        count = self._asked(batch).sum()
        return {self.name: count, f"{self.name}_accuracy": count}

    def terms(self, model: Any, batch: Batch, encoding: Encoding) -> dict[str, Term]:
        """Take the mean of each word's states, and compare what is predicted of it with the word's pieces."""
        states, asked = model.tap(encoding, self.tap), self._asked(batch)
        # The last frames of a recording do not fill a window: a word that is said there has the last state.
        segments = cut(touched(batch[WORDS].values, model.embeddings[SPEECH].stride), states.lengths)
        means = segment_means(states.values, segments)[asked]  # (M, D)
        log_p = self.projection(means).float().log_softmax(-1)  # (M, V)
        word, piece, share = self._wanted(batch, asked)
        divergence = (share * (share.log() - log_p[word, piece])).sum()
        right = (log_p.argmax(-1)[word] == piece).sum()
        count = asked.sum()
        return {
            self.name: Term(divergence, count, self.weight),
            f"{self.name}_accuracy": Term(right, count, 0.0),
        }

    def _wanted(self, batch: Batch, asked: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return of each piece of the words that are asked for its word's number among these, its id and its share.

        Of ``asked`` (B, W), words are numbered row by row, as they are when it chooses them.
        """
        pieces, shares = batch[self.field], batch[f"{self.field}_shares"].values
        word, id = pieces.values.unbind(-1)  # (B, P)
        row = torch.arange(len(batch), device=asked.device)[:, None].expand_as(word)
        numbers = (asked.flatten().cumsum(0) - 1).reshape(asked.shape)  # (B, W)
        real = pieces.mask & asked[row, word]
        return numbers[row, word][real], id[real], shares[real]

    def _asked(self, batch: Batch) -> Tensor:
        """Return which words have pieces, of hidden ones if only they are asked for, (B, W) bool."""
        pieces, hidden = batch[self.field], batch[HIDDEN]
        wanted = torch.zeros_like(hidden.values, dtype=torch.int64)
        if wanted.shape[1]:
            wanted.scatter_add_(1, pieces.values[..., 0], pieces.mask.long())
        asked = (wanted > 0) & hidden.mask
        return asked & hidden.values if self.hidden else asked


# -- segments: stretches of elements, by the first one and the one after the last ------------------------------------


def touched(samples: Tensor, stride: int) -> Tensor:
    """Return the elements that stretches of samples touch, where every ``stride`` samples an element begins.

    Args:
        samples: (..., 2) int64: first sample, and the one behind the last.
        stride: of the elements.

    Returns:
        (..., 2) int64: first element (rounded down), and the one behind the last (rounded up).
    """
    first, end = samples.unbind(-1)
    return torch.stack([first // stride, -(-end // stride)], dim=-1)


def cut(segments: Tensor, lengths: Tensor) -> Tensor:
    """Return segments (B, W, 2) of rows of ``lengths`` (B,) elements: what is behind the last one becomes that one."""
    first, end = segments.unbind(-1)
    length = lengths[:, None]
    first = first.minimum(length - 1)
    return torch.stack([first, end.minimum(length).maximum(first + 1)], dim=-1)


def inside(segments: Tensor, length: int) -> Tensor:
    """Return which of L elements each segment (B, W, 2) has, (B, W, L) bool."""
    places = torch.arange(length, device=segments.device)
    return (places >= segments[..., :1]) & (places < segments[..., 1:])


def segment_means(states: Tensor, segments: Tensor) -> Tensor:
    """Return the mean of the states (B, L, D) in each segment (B, W, 2): (B, W, D), 0 where a segment has none."""
    weights = inside(segments, states.shape[1]).to(states.dtype)
    return (weights / weights.sum(-1, keepdim=True).clamp(min=1)) @ states
