"""Phases that do little, for tests of runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from dragoman import DataError, Manifest, UsageError
from dragoman.mt.fitting_each import FitEach
from dragoman.shared.batches.find import find_manifests
from dragoman.shared.machine.workspace import Phase, Workspace
from dragoman.shared.training.initialise import Initialise
from dragoman.shared.training.tracking import check_libraries
from tests.shared.recipe_parts import Slab


class Count(Phase):
    """Writes a file for each of its updates; goes on after the last one that is there."""

    extendable: ClassVar[tuple[str, ...]] = ("updates",)

    def __init__(
        self,
        *,
        updates: int,
        total: int = 0,
        rate: float = 1.0,
        reads: list[str] | None = None,
        manifests: list[str] | None = None,
        fails_after: int = -1,
    ) -> None:
        if updates < 0:
            raise UsageError(f"updates must not be negative: {updates}")
        self.updates = updates
        self.total = total
        self.rate = rate
        self.reads = reads or []
        self.manifests = manifests or []
        self.fails_after = fails_after

    def run(self, workspace: Workspace) -> None:
        for file in self.reads:
            Path(file).read_text()
        for update in range(1, self.updates + 1):
            if update - 1 == self.fails_after:
                raise DataError("broken: line 3: 'x'")
            place = workspace.folder / f"{update}.txt"
            if not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(str(sum(len(Manifest.open(path)) for path in find_manifests(self.manifests))))
                with open(workspace.output / "work.txt", "a") as file:
                    file.write(f"{workspace.phase}{update} ")


class Starts(Count):
    """Notes the folders that it would be initialised from."""

    def __init__(self, *, updates: int, initialise: list[Initialise] | None = None) -> None:
        super().__init__(updates=updates)
        self.initialise = initialise or []

    def run(self, workspace: Workspace) -> None:
        super().run(workspace)
        (workspace.folder / "starts.txt").write_text(" ".join(str(start.folder) for start in self.initialise))


class Draws(Count):
    """Notes what its slabs draw, and then changes them."""

    def __init__(self, *, updates: int = 1, slabs: list[Slab]) -> None:
        super().__init__(updates=updates)
        self.slabs = slabs

    def run(self, workspace: Workspace) -> None:
        super().run(workspace)
        (workspace.folder / "drawn.txt").write_text(" ".join(slab.draw() for slab in self.slabs))
        for slab in {id(slab): slab for slab in self.slabs}.values():
            slab.size += 100
        (workspace.folder / "changed.txt").write_text(" ".join(slab.draw() for slab in self.slabs))


def worked(folder: Path) -> list[str]:
    """Return what was done in a run's folder, in order: "fit1", "fit2", ..."""
    file = folder / "work.txt"
    return file.read_text().split() if file.exists() else []


class Tracked(Count):
    """Has an argument that changes nothing of what it writes."""

    aside: ClassVar[tuple[str, ...]] = ("trackers",)

    def __init__(self, *, updates: int, rate: float = 1.0, trackers: list[Any] | None = None) -> None:
        super().__init__(updates=updates, rate=rate)
        self.trackers = trackers or []

    def check_libraries(self) -> None:
        check_libraries(self.trackers)


class TrackedEach(Phase):
    """Makes its phase itself, as FitEach does."""

    aside: ClassVar[tuple[str, ...]] = FitEach.aside

    def __init__(self, *, fit: Callable[..., Tracked]) -> None:
        self.fit = fit

    def run(self, workspace: Workspace) -> None:
        self.fit().run(workspace)


class Keeps(Count):
    """Has arguments on which what it writes does not depend, one inside of another."""

    without_effect: ClassVar[tuple[str, ...]] = ("checkpoints.name", "passes")

    def __init__(self, *, updates: int, checkpoints: Any, passes: Any = None, fails_after: int = -1) -> None:
        super().__init__(updates=updates, fails_after=fails_after)


class Chooses(Count):
    """Has an argument by which it chooses from what there is."""

    choices: ClassVar[tuple[str, ...]] = ("kind",)

    def __init__(self, *, updates: int, kind: str, reads: list[str], rate: float = 1.0) -> None:
        super().__init__(updates=updates, rate=rate, reads=reads)


class Measures(Count):
    """Only measures what it reads."""

    measures: ClassVar[bool] = True
