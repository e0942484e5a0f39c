"""Our arm of benchmarks/text_training.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.ours import worker
from benchmarks.text_training import CHECKED, END, PADDING, Work, target_tokens
from benchmarks.worker import serve
from dragoman.exchange.fairseq.fairseq_names import counterparts
from dragoman.shared.batch import Batch
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.heads import TiedProjection
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.positions import SinusoidalPositions
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.nn.translator import Translator
from dragoman.shared.padded import Padded

names = counterparts


def translator(work: Work, dropout: float) -> Translator:
    """Build the model."""

    def embedding(shared_with: TextEmbedding | None = None) -> TextEmbedding:
        return TextEmbedding(
            vocabulary=work.vocabulary,
            width=work.width,
            padding=PADDING,
            positions=SinusoidalPositions(width=work.width),
            dropout=dropout,
            shared_with=shared_with,
        )

    def layer(memories: list[str] | None = None) -> Layer:
        return Layer(
            width=work.width, heads=work.heads, feedforward=work.feedforward, memories=memories, dropout=dropout
        )

    source = embedding()
    target = embedding(source)
    return Translator(
        embeddings={"source": source},
        encoder=Encoder(layer=layer(), layers=work.layers),
        target_embedding=target,
        decoder=Decoder(layer=layer(["source"]), layers=work.layers),
        projection=TiedProjection(embedding=target),
    )


def batch_of(pairs: list[tuple[list[int], list[int]]]) -> Batch:
    """Make a batch; the start symbol is the end symbol, as in fairseq."""
    sides = {"source": [source for source, _ in pairs], "target": [[END, *target] for _, target in pairs]}
    fields = {side: Padded.from_sequences([torch.tensor(row) for row in rows], PADDING) for side, rows in sides.items()}
    return Batch(fields, ids=[str(number) for number in range(len(pairs))])


def batches(work: Work) -> list[Batch]:
    """Make all batches."""
    return [batch_of(pairs) for pairs in work.pairs()]


def setup() -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
    """Set up, as :func:`benchmarks.worker.serve` wants it."""
    work = Work.of_argument()
    place = Workspace(Path(), device=work.device, precision=work.precision, compile=work.compile)
    pairs = work.pairs()
    few = batch_of(pairs[-1][:CHECKED])
    return worker(lambda dropout: translator(work, dropout), batches(work), few, target_tokens(pairs), place, names)


if __name__ == "__main__":
    serve(setup)
