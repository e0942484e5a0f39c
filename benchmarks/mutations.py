"""Do the tests notice? Random mutations of the code, each judged by the test file of the same path alone.

    python -m benchmarks.mutations SEED COUNT [--at shared/search/rules.py[:40]] [--limit 300] [--memory 12]

Each mutation changes one place of one file of dragoman, mt, shared or st, in a temporary copy of the project: a
comparison, an operator, a constant, a condition, an argument, a result; or it deletes a statement. The same seed makes
the same mutations of the same code. A test that does not end within its limit of seconds, or of GiB, has noticed.

Texts (messages among them), annotations, decorators and `strict=` of zip are left alone. Of the rest, some mutations
are equivalent to the code; who reads the list has to say which.

mutmut and cosmic-ray make every mutation of every function and have one command for all tests; neither draws a sample,
nor gives each file a test of its own.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from benchmarks.side_by_side import ROOT

ROOMS = ("dragoman", "mt", "shared", "st")
COMPARISONS: dict[type[ast.cmpop], list[type[ast.cmpop]]] = {
    ast.Lt: [ast.LtE, ast.GtE],
    ast.LtE: [ast.Lt, ast.Gt],
    ast.Gt: [ast.GtE, ast.LtE],
    ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
    ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
#: Makes another node of a copy of one.
Change: TypeAlias = Callable[[ast.AST], ast.AST]
#: Fields of nodes in which nothing is changed.
LEFT_ALONE = {"annotation", "returns", "decorator_list", "exc", "type_params"}


@dataclass(frozen=True)
class Mutation:
    """One change: where, and how a node is to become another one.

    Attributes:
        file: relative to the root.
        line: of the node.
        number: of the node in the order of ``ast.walk``.
        kind: "comparison", "operator", "condition", "constant", "argument", "result" or "statement".
        change: makes the new node of a copy of the old one.

    """

    file: Path
    line: int
    number: int
    kind: str
    change: Change

    def apply(self, source: str) -> tuple[str, str]:
        """Return the source of the mutated file, and the change in words."""
        tree = ast.parse(source)
        old = list(ast.walk(tree))[self.number]
        new = self.change(copy.deepcopy(old))
        mutated = _Replace(old, new).visit(tree)
        return ast.unparse(ast.fix_missing_locations(mutated)), f"{_shown(old)}  ->  {_shown(new)}"


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def _shown(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 90 else text[:87] + "..."


def files_with_tests(root: Path = ROOT) -> dict[Path, Path]:
    """Return the files that have a test file of the same path, with it; both relative to the root."""
    files = sorted(path.relative_to(root) for room in ROOMS for path in (root / room).rglob("*.py"))
    tests = {file: Path("tests", file.parent, f"test_{file.name}") for file in files}
    return {file: test for file, test in tests.items() if (root / test).is_file()}


def mutations(file: Path, source: str) -> Iterator[Mutation]:
    """Yield every mutation of a file."""
    tree = ast.parse(source)
    numbers = {id(node): number for number, node in enumerate(ast.walk(tree))}
    for node in _reached(tree):
        for kind, change in _changes(node):
            line = next(part.lineno for part in ast.walk(node) if hasattr(part, "lineno"))
            yield Mutation(file, line, numbers[id(node)], kind, change)


def _reached(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that may be changed."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in LEFT_ALONE:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_idle(child):
                yield from _reached(child)


def _is_idle(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.keyword) and node.arg == "strict")


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    """Yield the kind of each change of a node, and what makes it."""
    match node:
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                for other in COMPARISONS[type(op)]:
                    yield "comparison", _with(ops=[*ops[:place], other(), *ops[place + 1 :]])
        case ast.BinOp(op=op) | ast.AugAssign(op=op):
            if type(op) in OPERATORS and not _is_type(node):
                yield "operator", _with(op=OPERATORS[type(op)]())
        case ast.BoolOp(op=op):
            yield "condition", _with(op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield "condition" if isinstance(node.op, ast.Not) else "operator", lambda _: operand
        case ast.If() | ast.While() | ast.IfExp():
            yield "condition", _with(test=ast.UnaryOp(ast.Not(), node.test))
        case ast.comprehension(ifs=[_, *_] as conditions):
            yield "condition", _with(ifs=conditions[1:])
        case ast.Constant(value=bool() as value):
            yield "constant", _with(value=not value)
        case ast.Constant(value=int() as value):
            yield "constant", _with(value=value + 1)
        case ast.Constant(value=float() as value):
            yield "constant", _with(value=value * 2 + 1)
        case ast.Call(args=arguments, keywords=keywords):
            if arguments and not isinstance(arguments[-1], ast.Starred):
                yield "argument", _with(args=arguments[:-1])
            for place, keyword in enumerate(keywords):
                if keyword.arg not in (None, "strict"):
                    yield "argument", _with(keywords=keywords[:place] + keywords[place + 1 :])
        case ast.Return(value=ast.expr() as value):
            if not (isinstance(value, ast.Constant) and value.value is None):
                yield "result", _with(value=ast.Constant(None))
        case ast.Expr(value=ast.Constant()):
            return  # a docstring, or the dots of a protocol
        case ast.Raise() | ast.Continue() | ast.Break() | ast.Expr() | ast.Delete():
            yield "statement", lambda _: ast.Pass()
    if isinstance(node, ast.AugAssign):
        yield "statement", lambda _: ast.Pass()


def _is_type(node: ast.AST) -> bool:
    """Tell whether an operator joins types: ``str | None``."""
    return any(isinstance(part, ast.Constant) and part.value is None for part in ast.iter_child_nodes(node))


def _with(**values: object) -> Change:
    def change(node: ast.AST) -> ast.AST:
        for name, value in values.items():
            setattr(node, name, value)
        return node

    return change


def draw(seed: int, count: int, root: Path = ROOT) -> list[Mutation]:
    """Draw mutations: for each a file, then a kind, so that neither long files nor calls have most of them."""
    rng, files = random.Random(seed), list(files_with_tests(root))
    drawn: list[Mutation] = []
    while len(drawn) < count:
        file = rng.choice(files)
        known = list(mutations(file, (root / file).read_text(encoding="utf-8")))
        if known:
            kind = rng.choice(sorted({mutation.kind for mutation in known}))
            drawn.append(rng.choice([mutation for mutation in known if mutation.kind == kind]))
    return drawn


def at(place: str, root: Path = ROOT) -> list[Mutation]:
    """Return all mutations of a file, or of a line of it: FILE or FILE:LINE."""
    name, _, line = place.partition(":")
    known = mutations(Path(name), (root / name).read_text(encoding="utf-8"))
    return [mutation for mutation in known if line in ("", str(mutation.line))]


def copied(root: Path, target: Path) -> None:
    """Copy what git knows, or would take, of the project."""
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=root, capture_output=True, check=True
    )
    for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
        if (root / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name, follow_symlinks=False)  # links to rooms stay links


def passes(tests: Sequence[Path], root: Path, *, limit: float, memory: int) -> bool:
    """Tell whether tests pass, within limits of seconds and of bytes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *map(str, tests)],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (memory, memory)),
    )
    try:
        return process.wait(timeout=limit) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int, help="0 with --at: all")
    parser.add_argument("--at", help="FILE or FILE:LINE: mutations of this place alone")
    parser.add_argument("--limit", type=float, default=300, help="seconds of a test file")
    parser.add_argument("--memory", type=int, default=12, help="GiB of address space of a test file")
    given = parser.parse_args()
    limits = {"limit": given.limit, "memory": given.memory << 30}
    noticed = 0
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        root = Path(folder)
        copied(ROOT, root)
        chosen = at(given.at, root)[: given.count or None] if given.at else draw(given.seed, given.count, root)
        tests = {mutation.file: files_with_tests(root)[mutation.file] for mutation in chosen}
        if not passes(sorted({*tests.values()}), root, **limits | {"limit": given.limit * len(tests)}):
            sys.exit(
                f"the code as it is fails, or takes too long or too much: pytest {' '.join(map(str, tests.values()))}"
            )
        for mutation in chosen:
            source = (root / mutation.file).read_text(encoding="utf-8")
            mutated, words = mutation.apply(source)
            (root / mutation.file).write_text(mutated, encoding="utf-8")
            survived = passes([tests[mutation.file]], root, **limits)
            (root / mutation.file).write_text(source, encoding="utf-8")
            noticed += not survived
            print(f"{'SURVIVED' if survived else 'noticed '} {mutation.file}:{mutation.line}  {words}", flush=True)
    print(f"{noticed} of {len(chosen)} noticed")


if __name__ == "__main__":
    main()
