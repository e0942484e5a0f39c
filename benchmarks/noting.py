"""A plugin of pytest that notes what becomes of each test as soon as it ends: `make gpu` cuts tests off.

DRAGOMAN_GPU_NOTES=FILE python -m pytest -p benchmarks.noting ...
"""

from __future__ import annotations

import json
import os
from typing import Any


def pytest_runtest_logreport(report: Any) -> None:
    """Add a line of JSON: name, outcome, seconds, and for what fails or is skipped the last line of why."""
    if report.when != "call" and report.outcome == "passed":
        return
    said = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    last = ([""] + [line for line in said.splitlines() if line.strip()])[-1]
    why = next((line[1:].strip() for line in said.splitlines() if line.startswith("E ")), last)
    line = {"name": report.nodeid.split("::", 1)[-1], "outcome": report.outcome, "seconds": round(report.duration, 1)}
    with open(os.environ["DRAGOMAN_GPU_NOTES"], "a", encoding="utf-8") as file:
        file.write(json.dumps(line | ({"why": why[:300]} if report.outcome != "passed" else {})) + "\n")
