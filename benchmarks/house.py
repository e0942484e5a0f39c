"""Measure the house: lines by room, circles of imports, the wheel, results, and a recipe's visits in run_recipe.

    python -m benchmarks.house [--wheel FOLDER]

Lines are all lines, and those of code: without blank ones, comments and docstrings. A visit is a function that is given
a recipe, or is a method of one, while own/mt is run as far as its tokenizer: what must be read to follow it.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from dragoman.runs.running import run_recipe
from dragoman.shared.recipe.recipe import Recipe

ROOT = Path(__file__).parents[1]
ROOMS = ("dragoman", "shared", "mt", "st", "tests", "benchmarks")
#: Pairs for the recipe that is run, own/mt, as far as its tokenizer.
PAIRS = [(f"the {n} red houses", f"die {n} roten Häuser") for n in range(100)]


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", type=Path, help="folder to build the wheel in; without it, none is built")
    given = parser.parse_args()
    print(f"{'room':28}{'files':>6}{'lines':>8}{'code':>8}")
    for room in rooms():
        files = python_files(room)
        counts = [count(file.read_text(encoding="utf-8")) for file in files]
        name = str(room.relative_to(ROOT))
        print(f"{name:28}{len(files):6}{sum(c[0] for c in counts):8,}{sum(c[1] for c in counts):8,}")
    for kind, pattern in (("recipes", "recipes/**/*.yaml"), ("documents", "docs/*.md")):
        texts = [path.read_text(encoding="utf-8") for path in ROOT.glob(pattern)]
        print(f"{kind:28}{len(texts):6}{sum(text.count(chr(10)) for text in texts):8,}")
    for path in sorted(ROOT.glob("recipes/*/results.jsonl")):
        table = path.with_name("RESULTS.md").read_text(encoding="utf-8").count("\n")
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e6:.2f} MB; RESULTS.md: {table} lines")
    found = circles()
    print(f"circles of imports: {len(found)}" + "".join(f"\n  {' '.join(sorted(circle))}" for circle in found))
    visits = visits_of_a_recipe()
    print(f"visits of a recipe in run_recipe: {len(visits)} functions, {sum(visits.values())} calls")
    if given.wheel:
        words = ["pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(given.wheel), str(ROOT)]
        subprocess.run([sys.executable, "-m", *words], check=True)
        for wheel in given.wheel.glob("*.whl"):
            print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB")


def rooms() -> list[Path]:
    """Return the packages at the top, and those just inside of shared and dragoman; links are left out."""
    inside = [path for top in ("shared", "dragoman") for path in sorted((ROOT / top).iterdir())]
    return [ROOT / room for room in ROOMS] + [
        path for path in inside if path.is_dir() and not path.is_symlink() and path.name != "__pycache__"
    ]


def python_files(room: Path) -> list[Path]:
    """Return the modules below a folder."""
    return sorted(room.rglob("*.py"))


def count(source: str) -> tuple[int, int]:
    """Return the lines of a module, and those that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            lines |= {*range(token.start[0], token.end[0] + 1)} if token.string else set()
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and body:
            first = body[0]
            if isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str):
                lines -= {*range(first.lineno, (first.end_lineno or first.lineno) + 1)}
    return source.count("\n"), len(lines)


def circles() -> list[set[str]]:
    """Return the modules that import each other in a circle, inside functions too."""
    import networkx

    files = [file for room in ROOMS[:4] for file in python_files(ROOT / room)]
    names = {file: ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files}
    known = {name.removeprefix("dragoman."): file for file, name in names.items()}
    graph = networkx.DiGraph()
    for name, file in known.items():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                targets = [(f"{node.module}.{alias.name}", node.module) for alias in node.names]
            else:
                targets = [(alias.name, "") for alias in node.names] if isinstance(node, ast.Import) else []
            for choices in targets:
                target = next((t for choice in choices if (t := choice.removeprefix("dragoman.")) in known), name)
                if target != name:
                    graph.add_edge(name, target)
    return [circle for circle in networkx.strongly_connected_components(graph) if len(circle) > 1]


def visits_of_a_recipe() -> Counter[str]:
    """Run a recipe; return how often each function was called that was given it."""
    visits: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call":
            given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            if any(isinstance(frame.f_locals.get(name), Recipe) for name in given):
                visits[f"{code.co_filename}:{code.co_qualname}"] += 1

    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        data.mkdir()
        for split in ("train", "dev", "test"):
            lines = [f"{source} {split}\t{target} {split}\n" for source, target in PAIRS]
            (data / f"{split}.tsv").write_text("en\tde\n" + "".join(lines), encoding="utf-8")
        given = {"data_folder": str(data), "source_language": "en", "target_language": "de", "pieces": 300}
        recipe = Recipe.load(
            "own/mt", given | {"output_folder": f"{folder}/run", "device": "cpu", "noprogressbar": True}
        )
        sys.setprofile(note)
        try:
            run_recipe(recipe, until="tokenizer")
        finally:
            sys.setprofile(None)
    return visits


if __name__ == "__main__":
    main()
