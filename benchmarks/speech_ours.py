"""Our arm of benchmarks/speech_training.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.ours import worker
from benchmarks.speech_training import CHECKED, END, Work
from benchmarks.text_training import PADDING
from benchmarks.worker import serve
from dragoman.exchange.fairseq.fairseq_names import counterparts
from dragoman.exchange.fairseq.fairseq_s2t import subsampler_counterparts
from dragoman.shared.batch import Batch
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.fbank import Fbank, UtteranceNorm
from dragoman.shared.nn.heads import TiedProjection
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.positions import SinusoidalPositions
from dragoman.shared.nn.speech import SpeechEmbedding
from dragoman.shared.nn.subsampler import Conv1dSubsampler
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.nn.translator import Translator
from dragoman.shared.padded import Padded


def translator(work: Work, dropout: float) -> Translator:
    """Build the model."""

    def layer(memories: list[str] | None = None) -> Layer:
        return Layer(
            width=work.width, heads=work.heads, feedforward=work.feedforward, memories=memories, dropout=dropout
        )

    positions = SinusoidalPositions(width=work.width)
    speech = SpeechEmbedding(
        frontend=Fbank(bins=work.bins),
        normalisation=UtteranceNorm(),
        subsampler=Conv1dSubsampler(inputs=work.bins, channels=work.channels, width=work.width),
        positions=positions,
        dropout=dropout,
    )
    target = TextEmbedding(
        vocabulary=work.vocabulary, width=work.width, padding=PADDING, positions=positions, dropout=dropout
    )
    return Translator(
        embeddings={"speech": speech},
        encoder=Encoder(layer=layer(), layers=work.encoder_layers),
        target_embedding=target,
        decoder=Decoder(layer=layer(["source"]), layers=work.decoder_layers),
        projection=TiedProjection(embedding=target),
    )


def names(name: str) -> tuple[str, ...]:
    """Return what a parameter is called in fairseq."""
    return subsampler_counterparts(name) or counterparts(name)


def batch_of(sounds: Tensor, labels: list[list[int]]) -> Batch:
    """Make a batch."""
    speech = Padded(sounds, torch.full((len(sounds),), sounds.shape[1]), full=True)
    target = Padded.from_sequences([torch.tensor([END, *row]) for row in labels], PADDING)
    return Batch({"speech": speech, "target": target}, ids=[str(number) for number in range(len(labels))])


def batches(work: Work) -> list[Batch]:
    """Make all batches."""
    return [batch_of(*pair) for pair in zip(work.sounds(), work.labels(), strict=True)]


def setup() -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
    """Set up, as :func:`benchmarks.worker.serve` wants it."""
    work = Work.of_argument()
    place = Workspace(Path(), device=work.device, precision=work.precision, compile=work.compile)
    few = batch_of(work.sounds()[-1][:CHECKED], work.labels()[-1][:CHECKED])
    return worker(lambda dropout: translator(work, dropout), batches(work), few, work.seconds, place, names)


if __name__ == "__main__":
    serve(setup)
