"""Vectors of words and sentences in several languages, and the distances between those that mean the same.

Legend: N words or sentences, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from shared.corpus.fields import Field, TextField, reading
from shared.corpus.loader import Loader
from shared.corpus.manifest import Manifest
from shared.corpus.stream import Budget
from shared.errors import DataError, UsageError
from shared.machine.workspace import Workspace
from shared.nn.state import evaluating
from shared.nn.translator import MEMORY
from shared.systems.system import System


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


def sentence_vectors(
    system: System, manifest: Manifest, column: str, budget: Budget, workspace: Workspace, field: str = "source"
) -> Tensor:
    """Return (N, D) float32: the means of the encoder's states for a column of texts, whatever the side it is on.

    Raises:
        DataError: if a row lacks the text.
        UsageError: if the system does not read text.

    """
    fields: dict[str, Field] = {field: reading(field=text_reader(system, field), column=column)}
    model: Any = system.model
    vectors: Tensor | None = None
    with evaluating(system), torch.inference_mode():
        for batch, numbers in Loader.evaluation(manifest, fields, budget, workspace.workers):
            with workspace.autocast():
                encoding = model.encode(batch.to(system.device), field)
            means = encoding.memories[MEMORY].mean().float().cpu()
            vectors = means.new_zeros(len(manifest), means.shape[1]) if vectors is None else vectors
            vectors[torch.from_numpy(np.asarray(numbers))] = means
    if vectors is None:
        raise DataError(f"{manifest.path}: holds no rows")
    return vectors


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
    vectors: Tensor | None = None
    with evaluating(system), torch.inference_mode():
        for batch, numbers in Loader.evaluation(manifest, fields, budget, workspace.workers):
            batch = batch.to(system.device)
            with workspace.autocast():
                states = model.decode(batch["target"], model.encode(batch, field))  # (B, T, D)
            last = (batch["target"].lengths - 1)[:, None, None].expand(-1, 1, states.shape[-1])
            found = states.gather(1, last)[:, 0].float().cpu()
            vectors = found.new_zeros(len(manifest), found.shape[1]) if vectors is None else vectors
            vectors[torch.from_numpy(np.asarray(numbers))] = found
    if vectors is None:
        raise DataError(f"{manifest.path}: holds no rows")
    return vectors


def retrieved(queries: Tensor, candidates: Tensor, texts: Sequence[str]) -> int:
    """Count the queries (N, D) whose most similar candidate (N, D) by cosine is their own.

    Args:
        queries: of sentences.
        candidates: of their translations, in the same order.
        texts: of the candidates: one that is spelled like the right one is right, too.

    """
    found = (F.normalize(queries, dim=-1) @ F.normalize(candidates, dim=-1).T).argmax(1).tolist()
    return sum(texts[place] == texts[number] for number, place in enumerate(found))


def text_reader(system: System, field: str) -> TextField:
    """Return the text field that a system reads.

    Raises:
        UsageError: if it reads no such field, or it is not of text.

    """
    found = system.inputs.get(field)
    if not isinstance(found, TextField):
        raise UsageError(f"the system reads {', '.join(system.inputs) or 'nothing'}, not a text field {field!r}")
    return found
