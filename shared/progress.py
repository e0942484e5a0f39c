"""The one console of the process and its progress bars."""

from __future__ import annotations

from functools import cache

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@cache
def console() -> Console:
    """Return the console on standard error that the log and the bars share."""
    return Console(stderr=True, soft_wrap=True)


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
