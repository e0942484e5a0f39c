"""Whoever foretells counts is tested for it: a wrong count is a wrong weight, once there are several batches."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def foretelling() -> list[Path]:
    """Return the files that define ``counts(batch)`` in a class with ``terms``, ``evaluate`` or ``forward``."""
    found = []
    for path in sorted(path for room in ("shared", "mt", "st") for path in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                methods = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
                if "counts" in methods and methods & {"terms", "evaluate", "forward"}:
                    found.append(path.relative_to(ROOT))
    return sorted(set(found))


@pytest.mark.parametrize("path", foretelling(), ids=str)
def test_the_mirrored_test_compares_counts(path):
    if path.name == "objective.py":  # the interface
        return
    test = ROOT / "tests" / path.parent / f"test_{path.name}"
    assert test.is_file(), f"{path} defines counts(batch), and {test.relative_to(ROOT)} is not there"
    text = test.read_text(encoding="utf-8")
    problem = f"{test.relative_to(ROOT)} does not compare counts(batch) with those of the loss (Loss.check)"
    assert "counts(" in text, problem
