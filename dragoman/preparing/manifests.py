"""The phase that makes manifests of corpora on disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from dragoman.preparing.preparation import prepare
from dragoman.preparing.report import render
from dragoman.shared.machine.processes import MainPhase
from dragoman.shared.machine.progress import progress
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.preparing.reader import Corpus
from dragoman.shared.ranges import Range
from dragoman.shared.recipe.belonging import check_belonging
from dragoman.shared.sound.audio import END_TOLERANCE, LATEST

#: The files that a corpus is read from are named if they are not more.
NAMED = 12


class Prepare(MainPhase):
    """Turn corpora on disk into manifests, ``<out>/<pair>/<split>.arrow``; what is there and unchanged stays.

    Args:
        corpora: readers (see mt/corpora and st/corpora).
        out: the folder for the manifests; several recipes may share it.
        skip_bad: leave training rows out that cannot be used, and list them in ``<split>.skipped.tsv``; otherwise they
            are an error, as they always are in other splits.
        end_tolerance: seconds by which a segment may run past the end of its recording; it is then cut there.
    """

    later: ClassVar[Mapping[str, Any]] = {"held_out": 0.0}

    def __init__(
        self,
        *,
        corpora: list[Corpus],
        out: str,
        skip_bad: bool = False,
        end_tolerance: Annotated[float, Range(least=0, most=LATEST)] = END_TOLERANCE,
    ) -> None:
        self.corpora = corpora
        self.out = Path(out)
        self.skip_bad = skip_bad
        self.end_tolerance = end_tolerance

    def outputs(self) -> list[Path]:
        """Name the folder of the manifests."""
        return [self.out]

    def manifests_to_write(self) -> list[Path]:
        """Name the manifest of each split of each corpus."""
        return [self.out / corpus.folder / f"{split}.arrow" for corpus in self.corpora for split in corpus.splits()]

    def work(self, workspace: Workspace) -> None:
        """Prepare every corpus and log its table."""
        for corpus in self.corpora:
            check_belonging(self.out / corpus.folder, corpus.arguments)
            files = dict.fromkeys(path.name for split in corpus.splits() for path in corpus.inputs(split))
            if len(files) <= NAMED:
                workspace.log.info("%s: reads %s; manifests in %s", workspace.phase, ", ".join(files), self.out)
            with progress(f"{corpus.name} {corpus.folder}", enabled=workspace.show_progress) as show:
                reports = prepare(
                    corpus, self.out, progress=show, skip_bad=self.skip_bad, end_tolerance=self.end_tolerance
                )
            workspace.log.info("%s %s\n%s", corpus.name, corpus.folder, render(reports))
