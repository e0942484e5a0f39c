"""Sentence pairs mined from texts of two languages: BUCC's task, by the margins of sentence vectors.

Legend: M and N sentences of either language, K neighbours, D width.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.shared.batches.find import find_manifests
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.stream import Budget
from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.representations import sentence_vectors
from dragoman.shared.evaluation.scores import Score
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases.evaluating import MeasureManifests
from dragoman.shared.ranges import NonNegativeInt
from dragoman.shared.systems.reading_model import ReadingModel

#: How many cosines are held at once.
BLOCK = 2**26
#: How far a threshold is below the score of the last pair that is taken, at most.
SLACK = 1e-3


class Candidate(NamedTuple):
    """A pair of sentences that may be translations: their places, and how far they stand out."""

    one: int
    other: int
    score: float


class F1(NamedTuple):
    """The quality of pairs, in per cent, and the least score of a pair."""

    f1: float
    precision: float
    recall: float
    threshold: float


def nearest(queries: Tensor, candidates: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return cosines (M, K) and places (M, K) of the candidates (N, D) nearest to each query (M, D), best first."""
    one, other = F.normalize(queries, dim=-1), F.normalize(candidates, dim=-1)
    rows = max(1, BLOCK // len(other))
    found = [(block @ other.T).topk(min(count, len(other)), -1) for block in one.split(rows)]
    return torch.cat([each.values for each in found]), torch.cat([each.indices for each in found])


def mine(one: Tensor, other: Tensor, neighbours: int = 4) -> list[Candidate]:
    """Return sentences (M, D) with sentences (N, D) of which either is the other's best, each once, best first.

    Args:
        one: vectors of the sentences of one language.
        other: of the other.
        neighbours: the score is the pair's cosine over the mean cosine of both with so many nearest ones (ratio margin:
            Artetxe and Schwenk 2019, ACL, equations 2 and 4, retrieval "max"); 0: the cosine.
    """
    count = max(neighbours, 1)
    scored = []
    sides = (one, other), (other, one)
    tables = [nearest(*side, count) for side in sides]
    means = [cosines.mean(1) for cosines, _ in tables]
    for side, (cosines, places) in enumerate(tables):
        scores = cosines / ((means[side][:, None] + means[1 - side][places]) / 2) if neighbours else cosines
        best, which = scores.max(1)
        partners = places.gather(1, which[:, None])[:, 0].tolist()
        pairs = enumerate(partners) if side == 0 else ((partner, place) for place, partner in enumerate(partners))
        scored += [Candidate(*pair, score) for pair, score in zip(pairs, best.tolist(), strict=True)]
    taken: list[Candidate] = []
    seen: tuple[set[int], set[int]] = set(), set()
    for pair in sorted({*scored}, key=lambda pair: (-pair.score, pair)):
        if pair.one not in seen[0] and pair.other not in seen[1]:
            taken.append(pair)
            seen[0].add(pair.one)
            seen[1].add(pair.other)
    return taken


def judged(pairs: list[Candidate], right: set[tuple[int, int]], threshold: float | None = None) -> F1:
    """Return how good pairs are whose score is at least a threshold; None: that with which F1 is highest.

    Args:
        pairs: best first.
        right: the places of sentences that are translations.
        threshold: the least score.
    """
    hits, best = 0, F1(0.0, 0.0, 0.0, float("inf"))
    below = [pair.score for pair in pairs[1:]] + [-float("inf")]
    for number, (pair, lower) in enumerate(zip(pairs, below, strict=False), 1):
        if threshold is not None and pair.score < threshold:
            break
        hits += (pair.one, pair.other) in right
        half = max((pair.score + lower) / 2, pair.score - SLACK)  # rounding must not shut out what is as good
        found = F1(200 * hits / (number + len(right)), 100 * hits / number, 100 * hits / len(right), half)
        if threshold is not None or found.f1 > best.f1:
            best = found
    return best if threshold is None else best._replace(threshold=threshold)


class Mine(MeasureManifests):
    """Find the translations among sentences of two languages of which most have none (BUCC: Zweigenbaum et al. 2018).

    A manifest has rows of both languages, with the text in ``source_text`` and, in ``counterpart``, the id of the row
    that is the translation, or nothing. A sentence's vector is the mean of the encoder's states. Scores: "mining_f1".

    Args:
        model: a model folder, of a translator or of an encoder alone.
        dev: manifests by which the least score of a pair is chosen, for tests in folders of the same names.
        manifests: the tests, as paths or patterns.
        budget: how large a batch may be.
        tap: take the states behind this layer, or of this one of the model's taps; None: the encoder's output.
        neighbours: see :func:`mine`; XTREME's tables have 0 (Hu et al. 2020).

    Raises:
        DataError: if a test has no dev, a manifest does not have two languages, or a counterpart is no row.
    """

    measured = ReadingModel

    def __init__(
        self,
        *,
        model: str,
        dev: list[str],
        manifests: list[str],
        budget: Budget,
        tap: int | str | None = None,
        neighbours: NonNegativeInt = 4,
    ) -> None:
        super().__init__(model=model, manifests=manifests, budget=budget)
        self.dev = list(dev)
        self.tap = tap
        self.neighbours = neighbours

    def measure(
        self, system: ReadingModel, manifest: Manifest, name: str, workspace: Workspace
    ) -> tuple[list[Score], dict[str, Any]]:
        """Return F1, and precision, recall and threshold beside it."""
        folder = manifest.path.parent.name
        devs = [path for path in find_manifests(self.dev) if path.parent.name == folder]
        if len(devs) != 1:
            raise DataError(f"{manifest.path}: {len(devs)} manifests for development are in a folder {folder}, not one")
        threshold = judged(*self._mined(system, Manifest.open(devs[0]), workspace)).threshold
        found = judged(*self._mined(system, Manifest.open(manifest.path), workspace), threshold)
        states = "states" if self.tap is None else f"states of tap {self.tap}"
        how = f"ratio margin {self.neighbours}" if self.neighbours else "cosine"
        score = Score("mining_f1", found.f1, f"vectors:mean of {states}|{how}|threshold:dev", len(manifest))
        beside = {"precision": round(found.precision, 2), "recall": round(found.recall, 2)}
        return [score], beside | {"threshold": threshold if isfinite(threshold) else None}

    def _mined(
        self, system: ReadingModel, manifest: Manifest, workspace: Workspace
    ) -> tuple[list[Candidate], set[tuple[int, int]]]:
        """Return the pairs that are found in a manifest, and those that are right, by places in each language."""
        if workspace.debug:
            manifest = _some(manifest)
        codes = manifest.column("source_language").to_pylist()
        found = sorted({*codes}, key=lambda code: (code == "en", code))
        if len(found) != 2:
            raise DataError(f"{manifest.path}: two languages are mined, not {', '.join(found) or 'none'}")
        sides = [manifest.select([place for place, code in enumerate(codes) if code == wanted]) for wanted in found]
        vectors = [
            sentence_vectors(system, side, "source_text", self.budget, workspace, tap=self.tap) for side in sides
        ]
        places = {id: place for place, id in enumerate(sides[1].column("id").to_pylist())}
        columns = (sides[0].column(name).to_pylist() for name in ("id", "counterpart"))
        right = set()
        for place, (id, counterpart) in enumerate(zip(*columns, strict=True)):
            if counterpart and counterpart not in places:
                raise DataError(f"{manifest.path}: row {id!r}: its counterpart {counterpart!r} is no row in {found[1]}")
            if counterpart:
                right.add((place, places[counterpart]))
        if not right:
            raise DataError(f"{manifest.path}: no row has a counterpart")
        return mine(vectors[0], vectors[1], self.neighbours), right


def _some(manifest: Manifest) -> Manifest:
    """Return two pairs of a manifest, whose first two rows need not be one."""
    ids, partners = (manifest.column(name).to_pylist() for name in ("id", "counterpart"))
    wanted = [id for id, partner in zip(ids, partners, strict=True) if partner][:2]
    wanted += [partner for id, partner in zip(ids, partners, strict=True) if id in wanted]
    return manifest.select([place for place, id in enumerate(ids) if id in wanted])
