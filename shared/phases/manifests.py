"""The phases that make manifests: writing a generated corpus, preparing corpora on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shared.corpus.preparation import prepare
from shared.corpus.reader import Corpus
from shared.corpus.report import render
from shared.machine.processes import MainPhase
from shared.machine.progress import progress
from shared.machine.workspace import Workspace


class Write(MainPhase):
    """Make a corpus that is generated, not read; what is complete stays.

    Args:
        corpus: has ``root``, and ``write(progress=...)``.

    """

    def __init__(self, *, corpus: Any) -> None:
        self.corpus = corpus

    def outputs(self) -> list[Path]:
        """Name the corpus' folder."""
        return [Path(self.corpus.root)]

    def work(self, workspace: Workspace) -> None:
        """Write the corpus."""
        with progress("corpus", enabled=workspace.show_progress) as show:
            self.corpus.write(progress=show)


class Prepare(MainPhase):
    """Turn corpora on disk into manifests, ``<out>/<pair>/<split>.arrow``; what is there and unchanged stays.

    Args:
        corpora: readers (see mt/corpora and st/corpora).
        out: the folder for the manifests; several recipes may share it.
        skip_bad: leave training rows out that cannot be used, and list them in ``<split>.skipped.tsv``; otherwise they
            are an error, as they always are in other splits.

    """

    def __init__(self, *, corpora: list[Corpus], out: str, skip_bad: bool = False) -> None:
        self.corpora = corpora
        self.out = Path(out)
        self.skip_bad = skip_bad

    def outputs(self) -> list[Path]:
        """Name the folder of the manifests."""
        return [self.out]

    def manifests_to_write(self) -> list[Path]:
        """Name the manifest of each split of each corpus."""
        return [self.out / corpus.folder / f"{split}.arrow" for corpus in self.corpora for split in corpus.splits()]

    def work(self, workspace: Workspace) -> None:
        """Prepare every corpus and log its table."""
        for corpus in self.corpora:
            with progress(f"{corpus.name} {corpus.folder}", enabled=workspace.show_progress) as show:
                reports = prepare(corpus, self.out, progress=show, skip_bad=self.skip_bad)
            workspace.log.info("%s %s\n%s", corpus.name, corpus.folder, render(reports))
