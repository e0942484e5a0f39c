"""Pre-trained encoders of waveforms as modules of ours, whichever toolkit wrote the checkpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from dragoman.exchange.vocabularies.vocabulary import VocabularyTokenizer
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.errors import DataError, one_line
from dragoman.shared.nn.heads import CtcHead
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.quantiser import ContrastiveHead, ProductQuantiser
from dragoman.shared.nn.spans import SpanMasking
from dragoman.shared.nn.transformer import Encoder
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.nn.waveform import ConvolutionalPositions, WaveformConvolutions, WaveformEmbedding, WaveformNorm
from dragoman.shared.systems.ctc_system import CtcSystem
from dragoman.shared.systems.encoder_system import EncoderSystem
from dragoman.shared.systems.reading_model import ReadingModel

SPEECH = "embeddings.speech"
QUANTISER = "heads.contrastive.quantiser"
PROJECTIONS, KINDS = ("states", "targets"), ("weight", "bias")

#: Modules by their name in ``model.heads``.
Heads = Mapping[str, CtcHead | ContrastiveHead]


@dataclass(frozen=True)
class WaveformPlan:
    """The architecture of an encoder, as a checkpoint describes it.

    Attributes:
        convolutions: channels, kernel and stride of each.
        bias: of the convolutions.
        norm_each: all convolutions are followed by a norm of channels, not only the first by one over time.
        projected: frames are projected to the width.
        layer: arguments of its layers.
        layers: how many.
        kernel: of the convolution that gives positions.
        groups: likewise.
        normalisation: what is added to the variance by which waveforms are divided; None if they are taken as they are.
        masking: arguments of the masking, or None if the checkpoint has no vector for it.
        frame_dropout: of projected frames.
        layer_drop: the probability with which layers are left out in training.
        gradient_scale: of the convolutions.
    """

    convolutions: list[list[int]]
    bias: bool
    norm_each: bool
    projected: bool
    layer: dict[str, Any]
    layers: int
    kernel: int
    groups: int
    normalisation: float | None
    masking: dict[str, Any] | None
    frame_dropout: float = 0.0
    layer_drop: float = 0.0
    gradient_scale: float = 1.0

    def build(self, source: str, heads: Heads) -> EncoderModel:
        """Build the model, with fresh parameters.

        Args:
            source: the file, for messages.
            heads: those that the checkpoint has.

        Raises:
            DataError: if what it says does not fit together.
        """
        width, epsilon = self.layer["width"], self.layer.get("norm_epsilon", 1e-5)
        try:
            embedding = WaveformEmbedding(
                convolutions=WaveformConvolutions(
                    convolutions=self.convolutions,
                    bias=self.bias,
                    norm_each=self.norm_each,
                    gradient_scale=self.gradient_scale,
                ),
                positions=ConvolutionalPositions(width=width, kernel=self.kernel, groups=self.groups),
                normalisation=None if self.normalisation is None else WaveformNorm(epsilon=self.normalisation),
                masking=None if self.masking is None else SpanMasking(width=width, **self.masking),
                projected=self.projected,
                norm=not self.layer["pre_norm"],
                dropout=self.layer["dropout"],
                frame_dropout=self.frame_dropout,
                norm_epsilon=epsilon,
            )
            encoder = Encoder(
                layer=Layer(**self.layer),
                layers=self.layers,
                taps=[self.layers] if "ctc" in heads else None,
                layer_drop=self.layer_drop,
            )
        except (TypeError, ValueError) as error:
            raise DataError(f"{source}: its settings do not fit together ({one_line(error)[:300]})") from error
        return EncoderModel(embeddings={"speech": embedding}, encoder=encoder, heads=dict(heads))


def pretraining_head(tensors: dict[str, Tensor], names: Mapping[str, str], groups: int, dropout: float) -> Heads:
    """Return the head of contrastive pre-training, {"contrastive": head}, or {} if the checkpoint lacks a part of it.

    Args:
        tensors: of the checkpoint; that of the codes gets the shape that it has here.
        names: beginnings of names, ours and theirs.
        groups: of the quantiser.
        dropout: of what it quantises.
    """
    ours = ("logits.weight", "logits.bias", "codes")
    theirs = [theirs_of(f"{QUANTISER}.{name}", names) for name in ours]
    theirs += [theirs_of(f"heads.contrastive.{name}.{kind}", names) for name in PROJECTIONS for kind in KINDS]
    if any(name not in tensors for name in theirs):
        return {}
    logits, codes = tensors[theirs[0]], tensors[theirs[2]]
    if groups < 1 or len(logits) % groups or codes.dim() != 3 or codes.shape[1] != len(logits):
        return {}  # groups that share their codes, for example
    tensors[theirs[2]] = codes.reshape(groups, -1, codes.shape[-1])
    compared, width = tensors[theirs[3]].shape
    quantiser = ProductQuantiser(
        inputs=logits.shape[1],
        width=groups * codes.shape[-1],
        groups=groups,
        entries=len(logits) // groups,
        dropout=dropout,
    )
    return {"contrastive": ContrastiveHead(quantiser=quantiser, width=width, compared=compared)}


def theirs_of(name: str, whole: Mapping[str, str]) -> str:
    """Return the name there of one of our tensors outside of the layers."""
    [theirs] = counterparts(name, whole, {})
    return theirs


def counterparts(name: str, whole: Mapping[str, str], parts: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the names there of the tensors that one of ours is made of, one below the other.

    Args:
        name: ours.
        whole: beginnings of names, ours and theirs, the first that fits being meant.
        parts: of a layer, ours and theirs.
    """
    layer = re.fullmatch(r"(encoder\.layers\.\d+)\.(.+)\.(weight|bias)", name)
    if layer:
        place, part, kind = layer.groups()
        return tuple(f"{place}.{theirs}.{kind}" for theirs in parts[part])
    for ours, theirs in whole.items():
        if name == ours or name.startswith(ours + "."):
            return (theirs + name[len(ours) :],)
    return ()


def system_around(
    model: EncoderModel, tokenizer: VocabularyTokenizer | None, languages: list[str] | None, source: str
) -> ReadingModel:
    """Put what a system needs around an encoder.

    Args:
        model: with a head for CTC if there is a tokenizer.
        tokenizer: of the transcripts; None for an encoder without a head, which writes nothing.
        languages: that it was trained on.
        source: the checkpoint, for messages.

    Raises:
        DataError: if the languages of transcripts are not named.
    """
    if tokenizer is None:
        return EncoderSystem(model=model, inputs={"speech": SpeechField()}, source_languages=languages)
    if not languages:
        raise DataError(f"{source}: does not say its language: name it with --source-languages")
    return CtcSystem(
        model=model,
        inputs={"speech": SpeechField()},
        output=TextField(column="source_text", tokenizer=tokenizer, prefix=[], suffix=[]),
        output_name="transcript",
        source_languages=list(languages),
        target_languages=list(languages),
    )
