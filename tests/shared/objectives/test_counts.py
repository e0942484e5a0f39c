"""Whoever foretells counts is tested for it: a wrong count is a wrong weight, once there are several batches."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
INTERFACES = {"Objective", "Part"}


def foretelling() -> Iterator[tuple[Path, str]]:
    """Yield classes that define ``counts(batch)`` beside ``terms``, ``evaluate`` or ``forward``, with their files."""
    for path in sorted(path for room in ("shared", "mt", "st") for path in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name not in INTERFACES:
                methods = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
                if "counts" in methods and methods & {"terms", "evaluate", "forward"}:
                    yield path.relative_to(ROOT), node.name


def test_parts_and_objectives_are_found():
    assert len({*foretelling()}) > 8


@pytest.mark.parametrize(("path", "name"), [*foretelling()])
def test_the_mirrored_test_compares_counts(path, name):
    test = ROOT / "tests" / path.parent / f"test_{path.name}"
    assert test.is_file(), f"{path} defines {name}.counts(batch), and {test.relative_to(ROOT)} is not there"
    text = test.read_text(encoding="utf-8")
    problem = f"{test.relative_to(ROOT)} does not compare counts(batch) with those of the loss (Loss.check)"
    assert "counts(" in text and name in text, f"{name}: {problem}"
