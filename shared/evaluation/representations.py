"""Vectors of words and sentences in several languages, and the distances between those that mean the same.

Legend: N words or sentences, B rows of a batch, T symbols, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import Field, TextField, reading
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.stream import Budget
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.nn.state import evaluating
from dragoman.shared.nn.transformer import Encoder
from dragoman.shared.nn.translator import MEMORY
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.systems.system import System


@dataclass(frozen=True)
class Similarity:
    """Cosines of words and their translations.

    Attributes:
        pairs: how many pairs of words.
        translations: mean cosine of a word and its translation.
        others: mean cosine of a word and the translation of another one, which is what there is without any meaning.
    """

    pairs: int
    translations: float
    others: float


def word_vectors(system: System, words: Sequence[str], field: str = "source") -> Tensor:
    """Return (N, D) float32: the mean of the token vectors of each word's pieces.

    Raises:
        DataError: for a word without pieces.
        UsageError: if the system does not read text.
    """
    reader = text_reader(system, field)
    model: Any = system.model
    weight = model.embeddings[field].weight.detach().float()
    vectors = []
    for word in words:
        pieces = reader.tokenizer.encode(word)
        if not pieces:
            raise DataError(f"{word!r} has no pieces")
        vectors.append(weight[pieces].mean(0))
    return torch.stack(vectors)


def similarity(one: Tensor, other: Tensor) -> Similarity:
    """Compare words (N, D) with their translations (N, D), at least two of them."""
    if len(one) < 2:
        raise DataError(f"{len(one)} pairs of words are too few to compare")
    cosines = F.normalize(one, dim=-1) @ F.normalize(other, dim=-1).T  # (N, N)
    diagonal = cosines.diagonal().sum()
    rest = (cosines.sum() - diagonal) / (len(one) * (len(one) - 1))
    return Similarity(len(one), float(diagonal) / len(one), float(rest))


def principal_axes(vectors: Tensor, count: int = 2) -> Tensor:
    """Return the coordinates (N, count) on the axes of greatest variance, the greatest first; signs are fixed.

    Each axis points to where its largest entry is positive, so that pictures of two runs can be compared.
    """
    centred = vectors.double() - vectors.double().mean(0)
    _, _, axes = torch.linalg.svd(centred, full_matrices=False)
    axes = axes[:count]
    largest = axes.gather(1, axes.abs().argmax(1, keepdim=True))
    return centred @ (axes * largest.sign()).T


def row_vectors(
    system: ReadingModel,
    manifest: Manifest,
    fields: dict[str, Field],
    vectors: Callable[[Batch], Tensor],
    budget: Budget,
    workspace: Workspace,
) -> Tensor:
    """Return (N, D) float32: of each row what ``vectors`` makes of batches, (B, D), in the order of the rows.

    Raises:
        DataError: if there are no rows, a row lacks a field, or vectors of rows have different lengths.
    """
    table: Tensor | None = None
    with evaluating(system), torch.inference_mode():
        for batch, numbers in Loader.evaluation(manifest, fields, budget, workspace.workers):
            with workspace.autocast():
                some = vectors(batch.to(system.device)).float().cpu()
            if table is None:
                table = some.new_empty(len(manifest), some.shape[1])
            if some.shape[1] != table.shape[1]:
                raise DataError(f"{manifest.path}: rows have different numbers of states: compare their means")
            table[torch.from_numpy(numbers)] = some
    if table is None:
        raise DataError(f"{manifest.path}: holds no rows")
    return table


def sentence_vectors(
    system: ReadingModel,
    manifest: Manifest,
    column: str,
    budget: Budget,
    workspace: Workspace,
    field: str = "source",
    tap: int | str | None = None,
) -> Tensor:
    """Return (N, D) float32: the means of the encoder's states, behind a layer or of a tap, for a column of texts.

    Raises:
        DataError: if a row lacks the text.
        UsageError: if the system does not read text, or its model has no such layer or tap.
    """
    model: Any = system.model
    if tap is not None and tap not in model.taps:
        if not isinstance(tap, int) or not isinstance(model.encoder, Encoder) or tap > len(model.encoder.layers):
            raise UsageError(f"the model has no layer or tap {tap!r}, only taps {model.taps}")
        model.encoder.taps.append(tap)

    def means(batch: Batch) -> Tensor:
        encoding = model.encode(batch, field)
        return (encoding.memories[MEMORY] if tap is None else model.tap(encoding, tap)).mean()

    fields: dict[str, Field] = {field: reading(field=text_reader(system, field), column=column)}
    return row_vectors(system, manifest, fields, means, budget, workspace)


def last_states(
    system: System, manifest: Manifest, column: str, budget: Budget, workspace: Workspace, field: str = "source"
) -> Tensor:
    """Return (N, D) float32: the decoder's state of the last symbol when a text is on both sides of a translator.

    Raises:
        DataError: if a row lacks the text, or there are none.
        UsageError: if the system does not read text.
    """
    fields: dict[str, Field] = {
        field: reading(field=text_reader(system, field), column=column),
        "target": reading(field=system.output, column=column),
    }
    model: Any = system.model

    def last(batch: Batch) -> Tensor:
        states = model.decode(batch["target"], model.encode(batch, field))  # (B, T, D)
        ends = (batch["target"].lengths - 1)[:, None, None].expand(-1, 1, states.shape[-1])
        return states.gather(1, ends)[:, 0]

    return row_vectors(system, manifest, fields, last, budget, workspace)


def retrieved(queries: Tensor, candidates: Tensor, texts: Sequence[str]) -> int:
    """Count the queries (N, D) whose most similar candidate (N, D) by cosine is their own.

    Args:
        queries: of sentences.
        candidates: of their translations, in the same order.
        texts: of the candidates: one that is spelled like the right one is right, too.
    """
    nearest = (F.normalize(queries, dim=-1) @ F.normalize(candidates, dim=-1).T).argmax(1).tolist()
    return sum(texts[place] == texts[number] for number, place in enumerate(nearest))


def text_reader(system: ReadingModel, field: str) -> TextField:
    """Return the text field that a system reads.

    Raises:
        UsageError: if it reads no such field, or it is not of text.
    """
    reader = system.inputs.get(field)
    if not isinstance(reader, TextField):
        raise UsageError(f"the system reads {', '.join(system.inputs) or 'nothing'}, not a text field {field!r}")
    return reader
