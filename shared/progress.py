"""The one console of the process and its progress bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


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
    """Return a progress display: description, bar, count, elapsed and remaining time, and free text (``status``)."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[status]}"),
        console=console(),
        disable=not enabled,
        transient=True,
    )
