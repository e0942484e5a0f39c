"""The one console of the process and its progress bars."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

#: On terminals with fewer columns, the elapsed time is left out.
NARROW = 60


@cache
def console() -> Console:
    """Return the console on standard error that the log and the bars share."""
    return Console(stderr=True, soft_wrap=True)


@contextmanager
def progress(description: str, *, enabled: bool) -> Iterator[Callable[[int, int | None], None]]:
    """Show one bar; the block gets a function to call with what is done and what there is to do (None: unknown)."""
    with progress_bar(enabled=enabled) as bar:
        task = bar.add_task(description, total=None, status="")

        def show(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total)

        yield show


def progress_bar(*, enabled: bool) -> Progress:
    """Return a progress display: description, bar, count, elapsed and remaining time; below, free text (``status``)."""
    elapsed = [TimeElapsedColumn(table_column=Column(no_wrap=True))] if console().width >= NARROW else []
    return _Bars(
        _Description(),
        BarColumn(bar_width=None),
        # of columns that must not wrap, none is made narrower while there are others
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        *elapsed,
        TextColumn("left"),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
        console=console(),
        disable=not enabled,
        transient=True,
    )


class _Bars(Progress):
    """Bars whose ``status`` has a line of its own: beside the bar, it would push the numbers off the terminal."""

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the bars, then each status, cut off at the terminal's width."""
        yield self.make_tasks_table(self.tasks)
        for task in self.tasks:
            if task.fields["status"]:
                yield Text(task.fields["status"], no_wrap=True, overflow="ellipsis")


class _Description(ProgressColumn):
    """The description, which gives way to the numbers; it may hold a path, so brackets in it are no markup."""

    def render(self, task: Task) -> Text:
        """Return the description on one line."""
        return Text(task.description, no_wrap=True, overflow="ellipsis")
