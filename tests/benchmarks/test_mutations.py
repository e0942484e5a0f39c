"""Mutations change one place, in each of the ways that there are, and nothing that cannot matter."""

import ast
from pathlib import Path

import pytest

from benchmarks.mutations import ROOT, at, draw, files_with_tests, mutations, passes

SOURCE = '''"""What it is."""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import this


def weigh(x: "int | None", y: int = 3) -> float | None:
    """Say 1 + 1."""
    if x < 0 and not y:
        raise ValueError(f"{x + 1} is below {0}")
    for one, other in zip([x], [y], strict=True):
        x += float(one, base=other)
    kept = [n for n in range(y) if n]
    print("a text")
    return -x * 2.5 if kept else None
'''

EXPECTED = {
    ("comparison", "x < 0  ->  x <= 0"),
    ("comparison", "x < 0  ->  x >= 0"),
    ("condition", "x < 0 and (not y)  ->  x < 0 or not y"),
    ("condition", "not y  ->  y"),
    ("condition", "-x * 2.5 if kept else None  ->  -x * 2.5 if not kept else None"),
    ("condition", "for n in range(y) if n  ->  for n in range(y)"),
    ("operator", "x += float(one, base=other)  ->  x -= float(one, base=other)"),
    ("operator", "-x * 2.5  ->  -x / 2.5"),
    ("operator", "-x  ->  x"),
    ("constant", "3  ->  4"),
    ("constant", "0  ->  1"),
    ("constant", "2.5  ->  6.0"),
    ("argument", "float(one, base=other)  ->  float(base=other)"),
    ("argument", "float(one, base=other)  ->  float(one)"),
    ("argument", "zip([x], [y], strict=True)  ->  zip([x], strict=True)"),
    ("argument", "range(y)  ->  range()"),
    ("argument", "print('a text')  ->  print()"),
    ("result", "return -x * 2.5 if kept else None  ->  return None"),
    ("statement", "print('a text')  ->  pass"),
    ("statement", "x += float(one, base=other)  ->  pass"),
}


def test_every_kind_of_change_and_no_other():
    made = {(mutation.kind, mutation.apply(SOURCE)[1]) for mutation in mutations(Path("a.py"), SOURCE)}
    shown = {pair for pair in made if not pair[1].startswith(("if x < 0", "raise "))}
    assert shown == EXPECTED
    assert {kind for kind, words in made - shown} == {"condition", "statement"} and len(made - shown) == 2


def test_a_mutation_changes_one_line_of_the_code():
    plain = ast.unparse(ast.parse(SOURCE)).splitlines()
    for mutation in mutations(Path("a.py"), SOURCE):
        mutated = mutation.apply(SOURCE)[0].splitlines()
        assert len(mutated) == len(plain) and sum(a != b for a, b in zip(mutated, plain, strict=True)) == 1
        assert 0 < mutation.line <= len(SOURCE.splitlines())


def test_a_seed_draws_the_same_places_again():
    told, again, other = ([(m.file, m.number, m.kind) for m in draw(seed, 12)] for seed in (5, 5, 6))
    assert told == again != other
    files = files_with_tests()
    assert {file for file, _, _ in told} <= files.keys() and all((ROOT / test).is_file() for test in files.values())
    place = draw(5, 1)[0]
    lines = at(f"{place.file}:{place.line}")
    assert {m.line for m in lines} == {place.line} and place.number in {m.number for m in lines}
    assert len(at(str(place.file))) >= len(lines)


@pytest.mark.slow
def test_tests_pass_or_fail_or_are_stopped(tmp_path):
    bodies = {"good": "pass", "bad": "assert False", "slow": "while True: pass", "big": "bytes(1 << 40)"}
    for name, body in bodies.items():
        (tmp_path / f"test_{name}.py").write_text(f"def test_it():\n    {body}\n")
    limits = {"limit": 60, "memory": 2 << 30}
    found = {name: passes([Path(f"test_{name}.py")], tmp_path, **limits) for name in ("good", "bad", "big")}
    assert found == {"good": True, "bad": False, "big": False}
    assert not passes([Path("test_slow.py")], tmp_path, limit=3, memory=2 << 30)
