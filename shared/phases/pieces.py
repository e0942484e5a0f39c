"""The phases that train a tokenizer, and that count its pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from glob import glob
from itertools import islice
from os.path import isfile
from typing import ClassVar

import numpy as np

from dragoman.shared.batches.find import find_manifests
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.processes import MainPhase
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.ranges import PositiveInt, Share
from dragoman.shared.text.balance import balanced
from dragoman.shared.text.normalise import Normalizer, apply
from dragoman.shared.text.piece_counts import write_counts
from dragoman.shared.text.piece_file import NFC
from dragoman.shared.text.piece_model import check_training, train_sentencepiece
from dragoman.shared.text.rewritten import rewritten
from dragoman.shared.text.tokenizer import SentencePieceTokenizer, Tokenizer


class TrainTokenizer(MainPhase):
    """Train a SentencePiece model on text columns of manifests; writes ``tokenizer.model``.

    Args:
        manifests: where the text comes from, as paths or patterns.
        columns: the columns to read: "source_text", "target_text".
        kind: "unigram", "bpe" or "char".
        size: number of pieces; fewer if the text does not yield this many.
        alpha: languages are sampled in proportion to their share to this power (1: as they are, 0: equally often).
        coverage: the share of characters that become pieces of their own; the rest is spelled in bytes.
        normalisation: what the tokenizer does to texts: "nfc", "identity", "nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf"
            (the last two in lower case); see :func:`dragoman.shared.text.piece_model.train_sentencepiece`.
        normalizers: changes to the texts of each column, those of the model's fields, so that both see the same text.
        limit: the largest number of sentences that are used.
        dev: further manifests, as paths or patterns, from which nothing is learnt, if they exist: see :meth:`work`.
    """

    aside: ClassVar[tuple[str, ...]] = ("dev",)

    def __init__(
        self,
        *,
        manifests: list[str],
        columns: list[str],
        kind: str = "unigram",
        size: int = 8000,
        alpha: Share = 1.0,
        coverage: float = 1.0,
        normalisation: str = NFC,
        normalizers: dict[str, list[Normalizer]] | None = None,
        limit: PositiveInt = 5_000_000,
        dev: list[str] | None = None,
    ) -> None:
        _check_columns(columns, normalizers)
        check_training(kind=kind, size=size, coverage=coverage, normalisation=normalisation)
        self.manifests = list(manifests)
        self.columns = list(columns)
        self.kind = kind
        self.size = size
        self.alpha = alpha
        self.coverage = coverage
        self.limit = limit
        self.normalisation = normalisation
        self.normalizers = dict(normalizers or {})
        self.dev = list(dev or [])

    def work(self, workspace: Workspace) -> None:
        """Train, and warn of texts that are rewritten; the same texts and seed give the same model."""
        texts: dict[str, list[str]] = {}
        for language, text in changed_texts(self.manifests, self.columns, self.normalizers):
            texts.setdefault(language, []).append(text)
        if not texts:
            raise DataError(f"{', '.join(self.manifests)}: no text in {', '.join(self.columns)}")
        mixed = balanced(texts, alpha=self.alpha, seed=workspace.seed_for("tokenizer"), limit=self.limit)
        out = workspace.folder / "tokenizer.model"
        train_sentencepiece(
            mixed, out, kind=self.kind, size=self.size, coverage=self.coverage, normalisation=self.normalisation
        )
        seen = [text for group in texts.values() for text in group]
        dev = [path for path in self.dev if isfile(path) or glob(path)]  # a run without training needs none
        seen += [text for _, text in changed_texts(dev, self.columns, self.normalizers)]
        problem = rewritten(seen, SentencePieceTokenizer(model=str(out), tags=[]))
        if problem:
            workspace.log.warning("%s: %s", out, problem)


class CountPieces(MainPhase):
    """Count a tokenizer's pieces in texts; writes ``pieces.tsv``.

    Args:
        manifests: where the texts come from, by a name for each kind of text, as paths or patterns.
        tokenizer: whose pieces are counted.
        normalizers: changes to the texts of a kind, by the same name, so that those are counted that a model reads.
        column: the column to read: "source_text" or "target_text".
        limit: the largest number of texts of each manifest, from the first.

    Raises:
        UsageError: for another column or another name.
    """

    def __init__(
        self,
        *,
        manifests: dict[str, list[str]],
        tokenizer: Tokenizer,
        normalizers: dict[str, list[Normalizer]] | None = None,
        column: str = "source_text",
        limit: PositiveInt = 1_000_000,
    ) -> None:
        _check_columns([column], None)
        unknown = {*(normalizers or {})} - {*manifests}
        if unknown:
            raise UsageError(f"normalizers of {sorted(unknown)} without manifests")
        self.by_name = {name: list(paths) for name, paths in manifests.items()}
        self.manifests = [path for paths in manifests.values() for path in paths]
        self.tokenizer = tokenizer
        self.normalizers = dict(normalizers or {})
        self.column = column
        self.limit = limit

    def work(self, workspace: Workspace) -> None:
        """Count.

        Raises:
            DataError: if there is no text.
        """
        counts = np.zeros(self.tokenizer.size, dtype=np.int64)
        limit = 2 if workspace.debug else self.limit
        for name, paths in self.by_name.items():
            for _, text in changed_texts(paths, [self.column], {self.column: self.normalizers.get(name, [])}, limit):
                np.add.at(counts, self.tokenizer.encode(text), 1)
        if not counts.any():
            raise DataError(f"{', '.join(self.manifests)}: no text in {self.column}")
        write_counts(counts, self.tokenizer, workspace.folder / "pieces.tsv")


def _check_columns(columns: list[str], normalizers: dict[str, list[Normalizer]] | None) -> None:
    """Raise UsageError for columns that hold no text."""
    named = [*columns, *(normalizers or {})]
    unknown = [column for column in named if column not in ("source_text", "target_text")]
    if unknown or not columns:
        raise UsageError(f"columns must be source_text and target_text, not {unknown or columns}")


def changed_texts(
    manifests: Sequence[str], columns: list[str], normalizers: dict[str, list[Normalizer]], limit: int | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the language and the changed text of each row and column, of each manifest from the first up to a limit."""
    for path in find_manifests(manifests):
        manifest = Manifest.open(path)
        for column in columns:
            languages = manifest.column(column.replace("_text", "_language")).to_pylist()
            texts = manifest.column(column).to_pylist()
            for language, text in islice(zip(languages, texts, strict=True), limit):
                changed = apply(normalizers.get(column, []), text or "", language)
                if changed:
                    yield language, changed
