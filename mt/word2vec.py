"""Word vectors by skip-grams with negative sampling (word2vec).

Mikolov et al. 2013, arXiv 1310.4546, section 2. Of every word c and each word o of its window, with the vectors v and u
of a word as centre and as context, and K negatives k that are drawn in proportion to their frequency to the power 3/4,

    L = - log s(u_o . v_c) - sum_k log s(- u_k . v_c),

where s is the sigmoid. Windows are drawn from 1 to the largest, so that near words count more. The result are the
vectors v. Other than in the authors' program, pairs are taken in batches in a random order, by Adam: the same texts and
seed give the same vectors, whatever the machine's number of threads.

Legend: V words, D width, N words of text, P pairs of a batch, K negatives.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.mt.vector_tables import WordVectors
from dragoman.shared.batches.find import find_manifests
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.errors import DataError
from dragoman.shared.machine.processes import MainPhase
from dragoman.shared.machine.progress import progress
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.ranges import NonNegativeFloat, PositiveFloat, PositiveInt
from dragoman.shared.text import languages
from dragoman.shared.text.case import lower
from dragoman.shared.text.tokenizer import Tokenizer
from dragoman.shared.text.word_spans import words

#: Words of text whose pairs are held in memory at a time.
CHUNK = 1 << 20
#: The power of frequencies by which negatives are drawn.
FLATTENED = 0.75
#: Numbers are words here, as they are in no lexicon: languages that share nothing else share them (seed "numerals").
_NUMBER = re.compile(r"\d+")


class SkipGram(nn.Module):
    """The vectors of words as centres and as contexts.

    Args:
        words: V.
        width: D.
    """

    def __init__(self, *, words: int, width: int) -> None:
        super().__init__()
        self.centres = nn.Embedding(words, width, sparse=True)
        self.contexts = nn.Embedding(words, width, sparse=True)
        nn.init.uniform_(self.centres.weight, -0.5 / width, 0.5 / width)
        nn.init.zeros_(self.contexts.weight)

    def forward(self, centres: Tensor, contexts: Tensor, negatives: Tensor) -> Tensor:
        """Return the loss of pairs (P,), (P,) with negatives (P, K), summed."""
        vectors = self.centres(centres)
        true = (vectors * self.contexts(contexts)).sum(-1)
        false = torch.einsum("pd,pkd->pk", vectors, self.contexts(negatives))
        return F.softplus(-true).sum() + F.softplus(false).sum()


def window_pairs(
    ids: np.ndarray, sentences: np.ndarray, window: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return centres and contexts (pairs,) in a random order.

    Args:
        ids: (N,) words of text, one sentence after another.
        sentences: (N,) the number of each word's sentence.
        window: the largest distance; each centre's is drawn from 1 to it.
        rng: the source of random numbers.
    """
    reach = rng.integers(1, window + 1, len(ids))
    pairs = []
    for distance in range(1, min(window, len(ids) - 1) + 1):
        together = sentences[distance:] == sentences[:-distance]
        first = np.flatnonzero(together & (reach[:-distance] >= distance))
        second = np.flatnonzero(together & (reach[distance:] >= distance)) + distance
        pairs += [(ids[first], ids[first + distance]), (ids[second], ids[second - distance])]
    if not pairs:
        return ids[:0], ids[:0]
    centres, contexts = (np.concatenate(side) for side in zip(*pairs, strict=True))
    order = rng.permutation(len(centres))
    return centres[order], contexts[order]


class TrainVectors(MainPhase):
    """Learn vectors of words and numbers, in lower case, or of a tokenizer's pieces; writes ``<language>.vec``.

    Args:
        manifests: of the texts, as paths or patterns.
        language: of the texts that are read.
        column: where they are: "source_text" or "target_text".
        tokenizer: whose pieces take the place of words; None: words. Without spaces between words, each is a character.
        width: D.
        window: the largest distance between a word and its context.
        negatives: K.
        epochs: how often the texts are read.
        least: words that come less often have no vector.
        subsample: of a word with frequency f, a share of 1 - sqrt(subsample / f) is left out in each epoch; 0: none.
        learning_rate: at the start; it falls to 0.
        batch: P.

    Raises:
        DataError: for an unknown language code.
    """

    def __init__(
        self,
        *,
        manifests: list[str],
        language: str,
        column: Literal["source_text", "target_text"] = "source_text",
        tokenizer: Tokenizer | None = None,
        width: PositiveInt = 512,
        window: PositiveInt = 10,
        negatives: PositiveInt = 10,
        epochs: PositiveInt = 10,
        least: PositiveInt = 5,
        subsample: NonNegativeFloat = 0.0,
        learning_rate: PositiveFloat = 0.005,
        batch: PositiveInt = 2048,
    ) -> None:
        self.manifests = list(manifests)
        self.language = languages.check(language)
        self.column = column
        self.tokenizer = tokenizer
        self.width = width
        self.window = window
        self.negatives = negatives
        self.epochs = epochs
        self.least = least
        self.subsample = subsample
        self.learning_rate = learning_rate
        self.batch = batch

    def work(self, workspace: Workspace) -> None:
        """Learn.

        Raises:
            DataError: if fewer than two words come often enough.
        """
        texts = [*map(self._words, self._texts())]
        counts = Counter(word for text in texts for word in text)
        words = sorted((word for word in counts if counts[word] >= self.least), key=lambda word: (-counts[word], word))
        if len(words) < 2:
            raise DataError(
                f"{', '.join(self.manifests)}: {len(words)} words of language {self.language} come {self.least} times "
                "in the texts, too few to learn from"
            )
        vectors = self._learn(texts, words, np.array([counts[word] for word in words]), workspace)
        WordVectors(words, vectors).write(workspace.folder / f"{self.language}.vec")

    def _texts(self) -> Iterator[str]:
        """Yield the texts of the language."""
        spoken = self.column.replace("_text", "_language")
        for path in find_manifests(self.manifests):
            manifest = Manifest.open(path)
            columns = (manifest.column(name).to_pylist() for name in (spoken, self.column))
            yield from (text for language, text in zip(*columns, strict=True) if text and language == self.language)

    def _words(self, text: str) -> list[str]:
        """Return the words or pieces of a text."""
        if self.tokenizer is not None:
            return [self.tokenizer.symbol(id) for id in self.tokenizer.encode(text)]
        spans = sorted([*words(text, self.language), *(match.span() for match in _NUMBER.finditer(text))])
        return [lower(text[start:end], self.language) for start, end in spans]

    def _learn(self, texts: list[list[str]], words: list[str], counts: np.ndarray, workspace: Workspace) -> Tensor:
        """Return the vectors (V, D)."""
        places = {word: place for place, word in enumerate(words)}
        rows = [[places[word] for word in text if word in places] for text in texts]
        ids = np.fromiter((place for row in rows for place in row), dtype=np.int64)
        sentences = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
        share = counts / counts.sum()
        kept = np.minimum(1.0, np.sqrt(self.subsample / share)) if self.subsample else np.ones(len(words))
        drawn = torch.from_numpy(counts**FLATTENED)
        starts = range(0, len(ids), CHUNK)
        epochs = 1 if workspace.debug else self.epochs
        with torch.random.fork_rng(devices=[]), progress(workspace.phase, enabled=workspace.show_progress) as show:
            torch.manual_seed(workspace.seed_for("vectors", self.language))
            rng = np.random.default_rng(workspace.seed_for("pairs", self.language))
            model = SkipGram(words=len(words), width=self.width)
            optimizer = torch.optim.SparseAdam(model.parameters(), lr=self.learning_rate)
            for epoch in range(epochs):
                total, pairs = 0.0, 0
                for number, start in enumerate(starts):
                    done = epoch * len(starts) + number
                    part = slice(start, start + CHUNK)
                    stay = rng.random(len(ids[part])) < kept[ids[part]]
                    sides = window_pairs(ids[part][stay], sentences[part][stay], self.window, rng)
                    rates = self.learning_rate * (1 - np.array([done, done + 1]) / (epochs * len(starts)))
                    total += self._train(model, optimizer, sides, drawn, rates)
                    pairs += len(sides[0])
                    show(done + 1, epochs * len(starts))
                workspace.log.info("epoch %d: %d pairs, loss %.3f of a pair", epoch + 1, pairs, total / max(1, pairs))
        return model.centres.weight.detach()

    def _train(
        self,
        model: SkipGram,
        optimizer: torch.optim.Optimizer,
        sides: tuple[np.ndarray, np.ndarray],
        drawn: Tensor,
        rates: np.ndarray,
    ) -> float:
        """Go through pairs, with learning rates between two; return the sum of their losses."""
        total = 0.0
        for begin in range(0, len(sides[0]), self.batch):
            optimizer.param_groups[0]["lr"] = float(np.interp(begin / len(sides[0]), [0, 1], rates))
            centres, contexts = (torch.from_numpy(side[begin : begin + self.batch]) for side in sides)
            negatives = drawn.multinomial(len(centres) * self.negatives, replacement=True)
            loss = model(centres, contexts, negatives.view(-1, self.negatives))
            optimizer.zero_grad()
            (loss / len(centres)).backward()
            optimizer.step()
            total += float(loss.detach())
        return total
