r"""FAT-MLM: one masked model of speech, its transcript and its translation, or any of them.

Zheng et al. 2021, ICML, "Fused Acoustic and Text Encoding for Multimodal Bilingual Pretraining and Speech Translation",
arXiv 2102.05766, section 3.

Whatever a row has of speech ``s``, transcript ``x`` and translation ``y`` is embedded, each with positions and a type
vector of its own, and joined end to end; one Transformer reads it. Spans of frames and single tokens are masked. The
loss at masked places is

    L = ||s - deconvolution(h_s)||^2 + CE(x | h_x) + CE(y | h_y)

So a stream may hold triples, recordings with transcripts, sentence pairs, sound or text alone. The
result initialises the encoder and the decoder of a translator (FAT-ST), which learns to translate from speech and from
transcripts: L_ST + L_MT.

Differs from the paper: the subsampler is one-dimensional; on Almanac FAT-MLM starts from a recogniser, kinds of data
alternate by update instead of adding up, and FAT-ST has CTC, whose weight is taken from that of translating speech
(0.7, beside 1 of translating transcripts; arm ``even`` weighs both alike, as the paper does). Above wav2vec 2.0
(recipes/base/fat_waveform.yaml) everything is our reading: the paper hears by filterbanks.

Not established, and chosen here: layers and widths (second-hand: 12 + 6 layers of 256); a masked share of 30 % for
frames and tokens, spans of 10 frames, BERT's 80/10/10 for tokens; one vocabulary for both languages; all three terms
weigh 1, the first as a mean over features, so that all are of the same order; only masked frames count, where the
paper's formula adds up all (``everywhere``); two transposed convolutions with kernels of 4 and 32 channels (on Almanac
8); half as many batches of sound alone as of triples, and a quarter as many of texts alone for each language; updates,
rates and the weight of translating transcripts; the decoder starts as the encoder's first layers, with its attention to
the encoder at random.

Legend: B rows, N samples, T frames, F features of a frame, S states of the sound, L joined states, D width, C channels.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.shared.batch import Batch, naming_longest
from dragoman.shared.described import Described
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.joined import JoinedEncoder
from dragoman.shared.nn.linear import Linear
from dragoman.shared.nn.spans import SpanMasking
from dragoman.shared.nn.speech import SpeechEmbedding
from dragoman.shared.nn.translator import SPEECH
from dragoman.shared.nn.waveform import WaveformEmbedding
from dragoman.shared.objectives.by_field import FieldObjective
from dragoman.shared.objectives.objective import Term
from dragoman.shared.objectives.parts import Part, check_head
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import PositiveInt

#: The batch field with the masked frames, (B, T) bool.
MASKED = "speech.masked"


class MaskedFilterbank(Described, nn.Module):
    """Speech as filterbank features, spans of which a trained vector replaces before they are subsampled.

    Args:
        embedding: of waveforms, by way of features.
        masking: of features; its width is their number, F. It says how much is masked.
    """

    def __init__(self, *, embedding: SpeechEmbedding, masking: SpanMasking) -> None:
        super().__init__()
        bins = getattr(embedding.frontend, "bins", masking.width)
        if masking.width != bins:
            raise ValueError(f"masks of width {masking.width} do not fit features of {bins} bins")
        if embedding.augmentation is not None or embedding.waveform_augmentation is not None:
            raise UsageError("frames are masked by the objective: set spec_augment and waveform_augmentation to null")
        self.embedding = embedding
        self.masking = masking
        self.bins = masking.width

    def draw(self, speech: Padded) -> Padded:
        """Draw which frames of waveforms (B, N) to mask: (B, T) bool."""
        lengths = cast(Any, self.embedding.frontend).lengths(speech.lengths)
        return Padded(self.masking.draw_frames(lengths, int(lengths.max())), lengths)

    def target(self, speech: Padded) -> Padded:
        """Return the normalised features (B, T, F), which are to be reconstructed."""
        return self.embedding.features(speech)

    def forward(self, speech: Padded, masked: Padded | None = None) -> Padded:
        """Embed waveforms (B, N), with the given frames (B, T) masked: (B, S, D)."""
        features = self.embedding.features(speech)
        if masked is not None:
            features = self.masking.hide(features, masked.values)
        return self.embedding.embed(features)


class MaskedWaveform(Described, nn.Module):
    """Speech by the convolutions of wav2vec 2.0, one frame of which lasts as long as two of the filterbank.

    The filterbank is what is reconstructed here too: the convolutions' own output would change while it is learned.

    Args:
        embedding: of waveforms; it must have a ``masking``, which says how much is masked.
        frontend: waveforms to the features (B, T, F) to be reconstructed, such as an Fbank.
        normalisation: of those, such as an UtteranceNorm.
    """

    STRIDE = 2

    def __init__(self, *, embedding: WaveformEmbedding, frontend: nn.Module, normalisation: nn.Module) -> None:
        super().__init__()
        if embedding.masking is None:
            raise ValueError("the embedding of waveforms has no masking")
        self.embedding = embedding
        self.frontend = frontend
        self.normalisation = normalisation
        self.bins = int(cast(Any, frontend).bins)

    def draw(self, speech: Padded) -> Padded:
        """Draw which frames of waveforms (B, N) to mask: (B, T) bool, alike for the two that share a vector."""
        lengths = self.embedding.lengths(speech.lengths)
        masking = cast(SpanMasking, self.embedding.masking)
        masked = masking.draw_frames(lengths, int(lengths.max())).repeat_interleave(self.STRIDE, dim=1)
        frames = cast(Any, self.frontend).lengths(speech.lengths)
        return Padded(masked[:, : int(frames.max())], frames)

    def target(self, speech: Padded) -> Padded:
        """Return the normalised features (B, T, F), which are to be reconstructed."""
        return self.normalisation(self.frontend(speech))

    def forward(self, speech: Padded, masked: Padded | None = None) -> Padded:
        """Embed waveforms (B, N), with the given frames (B, T) masked: (B, S, D)."""
        frames = self.embedding.frames(speech)
        if masked is None:
            return self.embedding.embed(frames, torch.zeros_like(frames.mask))
        return self.embedding.embed(frames, masked.values[:, :: self.STRIDE])


class Deconvolution(Described, nn.Module):
    """States to features: a projection, and two transposed convolutions over time and frequency.

    Each doubles the number of features, and multiplies the number of frames by its stride. A row's result does not
    depend on the others of its batch: states beyond its length count as zero.

    Args:
        width: D.
        bins: F, a multiple of 4.
        channels: C, of what is convolved.
        strides: over time; together, how many frames a state stands for.
    """

    def __init__(
        self,
        *,
        width: int,
        bins: PositiveInt = 80,
        channels: PositiveInt = 32,
        strides: list[Literal[1, 2]] | None = None,
    ) -> None:
        super().__init__()
        strides = [2, 2] if strides is None else list(strides)
        if len(strides) != 2:
            raise ValueError(f"strides must be two numbers, not {strides}")
        if bins % 4:
            raise ValueError(f"bins must be a multiple of 4, not {bins}")
        self.bins = bins
        self.channels = channels
        self.strides = strides
        self.projection = Linear(width, channels * bins // 4)
        nn.init.xavier_uniform_(self.projection.weight)
        nn.init.zeros_(self.projection.bias)
        # A kernel of 4 with stride 2, and one of 3 with stride 1, multiply the length by exactly their stride.
        self.convolutions = nn.ModuleList(
            nn.ConvTranspose2d(channels, outputs, (2 + stride, 4), stride=(stride, 2), padding=1)
            for outputs, stride in zip((channels, 1), strides, strict=True)
        )

    def forward(self, states: Padded, lengths: Tensor) -> Padded:
        """Return features (B, T, F) of states (B, S, D) for rows of `lengths` frames, (B,) int64.

        Raises:
            ValueError: if the longest row has more frames than its states stand for, or as many fewer as a state.
        """
        frames = int(lengths.max())
        rate = self.strides[0] * self.strides[1]
        if not 0 <= rate * states.values.shape[1] - frames < rate:
            raise ValueError(f"{states.values.shape[1]} states cannot stand for {frames} frames, {rate} each")
        values = self.projection(states.values) * states.mask[..., None]
        x = values.unflatten(-1, (self.channels, self.bins // 4)).transpose(1, 2)  # (B, C, S, F / 4)
        first, second = self.convolutions
        inner = states.lengths * self.strides[0]
        x = F.gelu(first(x))
        real = torch.arange(x.shape[2], device=x.device) < inner[:, None]
        x = second(x * real[:, None, :, None])
        return Padded(x[:, 0, :frames], lengths)


class FatModel(JoinedEncoder):
    """One encoder of all that a batch has of its embeddings' fields, spans of whose speech can be masked.

    Args:
        embeddings: by batch field; that of "speech" masks frames, such as a MaskedFilterbank.
        encoder: of the joined embeddings (B, L, D).
        heads: by name: a MaskedTokenHead for each text, and a Deconvolution for speech.
    """

    def embed(self, batch: Batch, field: str | None = None) -> Padded:
        """Embed a field (B, S, D); of speech, with the frames masked that the batch names."""
        if field == SPEECH and MASKED in batch:
            with naming_longest(batch, SPEECH):
                return self.embeddings[SPEECH](batch[SPEECH], batch[MASKED])
        return super().embed(batch, field)


class MaskedFrames(Part):
    """Squared error of reconstructed frames, mean over features, per masked frame; term "speech".

    Args:
        head: name of the Deconvolution in ``model.heads``.
        weight: factor of the term in the loss.
        everywhere: frames that were not masked count as well.
    """

    field = SPEECH

    def __init__(self, *, head: str = SPEECH, weight: float = 1.0, everywhere: bool = False) -> None:
        super().__init__()
        self.head = head
        self.weight = weight
        self.everywhere = everywhere

    def check(self, model: Any) -> None:
        """Raise UsageError if the model lacks the head, or that makes other features than are asked for."""
        check_head(model, self.head)
        made, asked = model.heads[self.head].bins, model.embeddings[SPEECH].bins
        if made != asked:
            raise UsageError(f"head {self.head!r} makes features of {made} bins, but those of the speech have {asked}")

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the number of frames that count."""
        return {SPEECH: self._counted(batch).sum()}

    def terms(self, model: Any, batch: Batch, encoding: Encoding) -> dict[str, Term]:
        """Reconstruct the features from the states, and compare."""
        target = model.embeddings[SPEECH].target(batch[SPEECH])
        rebuilt = model.heads[self.head](encoding.memories[SPEECH], target.lengths)
        errors = (rebuilt.values.float() - target.values).square().mean(-1)  # (B, T)
        counted = self._counted(batch)
        return {SPEECH: Term(errors.masked_fill(~counted, 0.0).sum(), counted.sum(), self.weight)}

    def _counted(self, batch: Batch) -> Tensor:
        masked = batch[MASKED]
        return masked.mask if self.everywhere else masked.values & masked.mask


class FusedMasking(FieldObjective):
    """Masks frames, and adds up the parts whose field a batch has.

    Args:
        system: whose model is a FatModel.
        parts: a MaskedFrames, and ``MaskedTokens`` for each text; each names its ``field``. Tokens are masked by the
            fields of the streams (``MaskedText``).
    """

    prepares_alone: ClassVar[bool] = True

    def prepare(self, batch: Batch) -> Batch:
        """Draw the frames to mask."""
        if SPEECH not in batch:
            return batch
        return batch.with_fields(**{MASKED: self.model.embeddings[SPEECH].draw(batch[SPEECH])})
