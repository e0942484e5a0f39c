"""The terminal during a training run: count, total and time left, however narrow it is."""

import io
import re

import pytest
from rich.console import Console

from shared.machine import progress

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
