"""Generators whose every distribution is known, so that a test can compute what search should find."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import torch

from dragoman.shared.batch import Batch
from dragoman.shared.generator import Encoding
from dragoman.shared.padded import Padded

PAD, START, END, VOCABULARY = 0, 1, 2, 9


class Table:
    """Distributions drawn at random for each (source, history), the same whatever the batch looks like."""

    def __init__(
        self, seed: int, vocabulary: int = VOCABULARY, impossible: float = 0.0, sharpness: float = 1.5
    ) -> None:
        self.seed, self.vocabulary, self.impossible, self.sharpness = seed, vocabulary, impossible, sharpness
        self.steps: list[int] = []  # rows of each step

    def logits(self, source: list[int], history: list[int]) -> np.ndarray:
        """Return logits (V,) float32 after a history that begins with the start symbol."""
        rng = np.random.default_rng(zlib.crc32(repr((self.seed, source, history)).encode()))
        logits = rng.normal(size=self.vocabulary) * self.sharpness
        banned = rng.random(self.vocabulary) < self.impossible
        banned[END] = False
        logits[banned] = -np.inf
        return logits.astype(np.float32)

    def log_probabilities(self, source: list[int], history: list[int]) -> np.ndarray:
        """Return the logarithm of the softmax of the logits, in double precision."""
        logits = self.logits(source, history).astype(np.float64)
        return logits - np.logaddexp.reduce(logits)

    def encode(self, batch: Batch) -> Encoding:
        """Hand the source tokens through."""
        source = batch["source"]
        return Encoding({"source": Padded(source.values[..., None].float(), source.lengths)})

    def start(self, encoding: Encoding, prefix: Padded | None) -> TableState:
        """Remember sources and histories."""
        sources = [row[:, 0].long().tolist() for row in encoding.memories["source"].rows()]
        histories = [[] for _ in sources] if prefix is None else prefix.values.tolist()
        return TableState(list(zip(sources, histories, strict=True)), 1)

    def step(self, tokens: torch.Tensor, state: TableState) -> tuple[torch.Tensor, TableState]:
        """Look the distributions up."""
        self.steps.append(len(tokens))
        rows = [
            (source, [*history, token]) for (source, history), token in zip(state.rows, tokens.tolist(), strict=True)
        ]
        logits = np.stack([self.logits(source, history) for source, history in rows])
        return torch.from_numpy(logits), TableState(rows, state.beams)


class TableState:
    """Histories of B x K rows."""

    def __init__(self, rows: list[tuple[list[int], list[int]]], beams: int) -> None:
        self.rows, self.beams = rows, beams

    def fork(self, beams: int) -> TableState:
        """Repeat each row."""
        assert self.beams == 1
        return TableState([row for row in self.rows for _ in range(beams)], beams)

    def reorder(self, index: torch.Tensor) -> TableState:
        """Take rows, insisting on the protocol: beams of a sentence stay side by side and come from one sentence."""
        sentences = (index // self.beams).view(-1, self.beams)
        assert (sentences == sentences[:, :1]).all()
        assert (sentences[1:, 0] > sentences[:-1, 0]).all()
        return TableState([self.rows[i] for i in index.tolist()], self.beams)


def make_batch(sources: list[list[int]]) -> Batch:
    """Make a batch of source token lists; the ids say which is which."""
    padded = Padded.from_sequences([torch.tensor(source, dtype=torch.int64) for source in sources])
    return Batch({"source": padded}, ids=[f"id{i}" for i in range(len(sources))])


def make_prefix(rows: list[list[int]]) -> Padded:
    """Make forced beginnings."""
    return Padded.from_sequences([torch.tensor(row, dtype=torch.int64) for row in rows], padding=PAD)


@pytest.fixture
def world() -> type:
    """Everything above, for tests that cannot import this file by name."""

    class World:
        pad, start, end, vocabulary = PAD, START, END, VOCABULARY
        table, batch, prefix = staticmethod(Table), staticmethod(make_batch), staticmethod(make_prefix)

        @staticmethod
        def find(search, model, sources, prefixes=None):
            """Search for rows of source tokens, or a batch; without forced beginnings, after the start symbol."""
            batch = sources if isinstance(sources, Batch) else make_batch(sources)
            prefix = make_prefix(prefixes or [[START]] * len(batch))
            return search.search(model, batch, prefix=prefix, end=END, padding=PAD)

        @staticmethod
        def sources(seed: int, rows: int) -> list[list[int]]:
            rng = np.random.default_rng(seed)
            return [rng.integers(0, 50, size=rng.integers(1, 8)).tolist() for _ in range(rows)]

    return World
