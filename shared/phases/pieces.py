"""The phases that train a tokenizer, and that count its pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from shared.corpus.find import find_manifests
from shared.corpus.manifest import Manifest
from shared.corpus.normalise import Normalizer, apply
from shared.errors import DataError, UsageError
from shared.machine.processes import MainPhase
from shared.machine.workspace import Workspace
from shared.text.balance import balanced, check_balance
from shared.text.piece_counts import write_counts
from shared.text.piece_model import check_training, train_sentencepiece
from shared.text.tokenizer import Tokenizer


class TrainTokenizer(MainPhase):
    """Train a SentencePiece model on text columns of manifests; writes ``tokenizer.model``.

    Args:
        manifests: where the text comes from, as paths or patterns.
        columns: the columns to read: "source_text", "target_text".
        kind: "unigram", "bpe" or "char".
        size: number of pieces; fewer if the text does not yield this many.
        alpha: languages are sampled in proportion to their share to this power (1: as they are, 0: equally often).
        coverage: the share of characters that become pieces of their own; the rest is spelled in bytes.
        normalisation: SentencePiece's rule: "nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf" (both lower case), "identity".
        normalizers: changes to the texts of each column, those of the model's fields, so that both see the same text.
        limit: the largest number of sentences that are used.

    """

    def __init__(
        self,
        *,
        manifests: list[str],
        columns: list[str],
        kind: str = "unigram",
        size: int = 8000,
        alpha: float = 1.0,
        coverage: float = 1.0,
        normalisation: str = "nmt_nfkc",
        normalizers: dict[str, list[Normalizer]] | None = None,
        limit: int = 5_000_000,
    ) -> None:
        _check_columns(columns, normalizers)
        check_training(kind=kind, size=size, coverage=coverage, normalisation=normalisation)
        check_balance(alpha, limit)
        self.manifests = list(manifests)
        self.columns = list(columns)
        self.kind = kind
        self.size = size
        self.alpha = alpha
        self.coverage = coverage
        self.limit = limit
        self.normalisation = normalisation
        self.normalizers = dict(normalizers or {})

    def work(self, workspace: Workspace) -> None:
        """Train; the same texts and seed give the same model."""
        texts: dict[str, list[str]] = {}
        for language, text in _texts(self.manifests, self.columns, self.normalizers):
            texts.setdefault(language, []).append(text)
        if not texts:
            raise DataError(f"{', '.join(self.manifests)}: no text in {', '.join(self.columns)}")
        mixed = balanced(texts, alpha=self.alpha, seed=workspace.seed_for("tokenizer"), limit=self.limit)
        out = workspace.folder / "tokenizer.model"
        train_sentencepiece(
            mixed,
            out,
            kind=self.kind,
            size=self.size,
            coverage=self.coverage,
            normalisation=self.normalisation,
        )


class CountPieces(MainPhase):
    """Count a tokenizer's pieces in text columns of manifests; writes ``pieces.tsv``.

    Args:
        manifests: where the text comes from, as paths or patterns.
        columns: the columns to read: "source_text", "target_text".
        tokenizer: whose pieces are counted.
        normalizers: changes to the texts of each column, as for :class:`TrainTokenizer`.

    """

    def __init__(
        self,
        *,
        manifests: list[str],
        columns: list[str],
        tokenizer: Tokenizer,
        normalizers: dict[str, list[Normalizer]] | None = None,
    ) -> None:
        _check_columns(columns, normalizers)
        self.manifests = list(manifests)
        self.columns = list(columns)
        self.tokenizer = tokenizer
        self.normalizers = dict(normalizers or {})

    def work(self, workspace: Workspace) -> None:
        """Count.

        Raises:
            DataError: if there is no text.

        """
        counts = np.zeros(self.tokenizer.size, dtype=np.int64)
        for _, text in _texts(self.manifests, self.columns, self.normalizers):
            np.add.at(counts, self.tokenizer.encode(text), 1)
        if not counts.any():
            raise DataError(f"{', '.join(self.manifests)}: no text in {', '.join(self.columns)}")
        write_counts(counts, self.tokenizer, workspace.folder / "pieces.tsv")


def _check_columns(columns: list[str], normalizers: dict[str, list[Normalizer]] | None) -> None:
    """Raise UsageError for columns that hold no text."""
    named = [*columns, *(normalizers or {})]
    unknown = [column for column in named if column not in ("source_text", "target_text")]
    if unknown or not columns:
        raise UsageError(f"columns must be source_text and target_text, not {unknown or columns}")


def _texts(
    manifests: Sequence[str], columns: list[str], normalizers: dict[str, list[Normalizer]]
) -> Iterator[tuple[str, str]]:
    """Yield the language and the changed text of each row and column."""
    for path in find_manifests(manifests):
        manifest = Manifest.open(path)
        for column in columns:
            languages = manifest.column(column.replace("_text", "_language")).to_pylist()
            for language, text in zip(languages, manifest.column(column).to_pylist(), strict=True):
                changed = apply(normalizers.get(column, []), text or "", language)
                if changed:
                    yield language, changed
