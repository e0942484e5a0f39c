"""The terminal during a training run: count, total and time left, however narrow it is."""

import io
import re

import pytest
from rich.console import Console

from dragoman.shared.machine import progress

STATUS = "cross_entropy 5.123 ctc 4.234 | 12,345 tokens/s | lr 1.00e-04"


def screen(monkeypatch, width, description, total=100_000):
    """The lines of a bar on a terminal of that width."""
    console = Console(file=io.StringIO(), width=width, color_system=None, soft_wrap=True)
    monkeypatch.setattr(progress, "console", lambda: console)
    bar = progress.progress_bar(enabled=True)
    bar.add_task(description, total=total, completed=12_345, status=STATUS)
    console.print(bar.get_renderable())
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("description", ["fit", "mustc /data/corpora/must-c/[2]/english-german/tst-COMMON"])
def test_a_bar_shows_count_total_and_time_left(monkeypatch, width, description):
    bar, status = screen(monkeypatch, width, description)
    assert len(bar) <= width and len(status) <= width
    assert "12345/100000" in bar and re.search(r"left (-|\d+):", bar), bar
    assert status == STATUS if width >= 80 else status.startswith("cross_entropy 5.123 ctc 4.234") and status[-1] == "…"
    if width == 200:
        assert bar.startswith(description), "brackets are no markup"


def test_a_bar_without_a_total_shows_the_count(monkeypatch):
    bar, _ = screen(monkeypatch, 40, "almanac", total=None)
    assert bar.startswith("almanac") and "12345/?" in bar


def test_a_narrow_terminal_has_no_elapsed_time(monkeypatch):
    for width, times in ((59, 1), (60, 2)):
        bar, _ = screen(monkeypatch, width, "fit")
        assert len(re.findall(r"\d:\d\d|-:--", bar)) == times, bar


def test_the_block_of_a_bar_says_what_is_done(monkeypatch):
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
    monkeypatch.setattr(progress, "console", lambda: console)
    made = []
    bar_of = progress.progress_bar
    monkeypatch.setattr(progress, "progress_bar", lambda *, enabled: made.append(bar_of(enabled=enabled)) or made[-1])
    for enabled in (True, False):
        with progress.progress("align", enabled=enabled) as show:
            show(3, 10)
            [task] = made[-1].tasks
            assert (task.description, task.completed, task.total) == ("align", 3, 10)
            assert made[-1].disable is not enabled and made[-1].live.transient
            show(4, None)
            assert task.completed == 4
    assert progress.console() is console


def test_the_console_is_one_and_writes_to_standard_error():
    assert progress.console() is progress.console()
    assert progress.console().stderr and progress.console().soft_wrap


def test_a_bar_without_a_status_is_one_line(monkeypatch):
    console = Console(file=io.StringIO(), width=100, color_system=None, soft_wrap=True)
    monkeypatch.setattr(progress, "console", lambda: console)
    bar = progress.progress_bar(enabled=True)
    bar.add_task("fit", total=2, status="")
    bar.add_task("test", total=2, status="half")
    console.print(bar.get_renderable())
    first, second, status = console.file.getvalue().splitlines()
    assert first.startswith("fit") and second.startswith("test") and status == "half"
