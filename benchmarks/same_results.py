"""Do two revisions of this project train the same models and write the same outputs, to the last bit?

    python -m benchmarks.same_results OLD NEW [--updates 20] [--recipes almanac/mt ...] [--keep FOLDER]

A refactoring must answer yes. Each revision is checked out into a folder of its own and runs each recipe with the same
small keys; then the losses of every update report, the weights of every model folder and every hypothesis are compared.
Prints a line per recipe; the exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RECIPES = ["almanac/mt", "almanac/st", "almanac/st_from_asr_mt", "almanac/mbart"]
#: By recipe: the phases that run another recipe, which gets the same keys.
INNER = {"almanac/st_from_asr_mt": ["asr", "mt"]}
#: Columns of history.jsonl that depend on the clock.
OF_THE_CLOCK = ("tokens_per_second", "seconds")


def keys(recipe: str, updates: int, precision: str) -> list[str]:
    """Return the keys of the command line that make a recipe small; the same for both revisions."""
    small = {"updates": updates, "warmup": 5, "utterances": 200, "validation.limit": 10, "validation.first": 0}
    small |= {"beam": 2, "rules.minimum_length": 5, "rules.maximum_length_extra": 20}
    if recipe == "almanac/mbart":
        for key in ("utterances", "beam", "rules.minimum_length", "rules.maximum_length_extra"):
            del small[key]
        small["sentences"] = 400
    words = ["--noprogressbar", "--device", "cpu", "--precision", precision]
    for prefix in ["", *(f"phases.{phase}." for phase in INNER.get(recipe, []))]:
        for key, value in small.items():
            if not (prefix and key == "utterances"):  # handed on by the recipe
                words += [f"--{prefix}{key}", str(value)]
    return words


def run(tree: Path, place: Path, recipe: str, words: list[str]) -> None:
    """Run a recipe of a checked-out revision in a folder of its own."""
    environment = os.environ | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "dragoman", "run", recipe, *words]
    subprocess.run(command, cwd=place, env=environment, check=True)


def results(place: Path) -> dict[str, Any]:
    """Return what must be equal, by file: rows of histories, hashes of weights, hypotheses."""
    found: dict[str, Any] = {}
    for file in sorted((place / "results").rglob("*")):
        name = file.relative_to(place).as_posix()
        if file.name == "history.jsonl":
            rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
            found[name] = [{key: row[key] for key in row if key not in OF_THE_CLOCK} for row in rows]
        elif file.name == "model.safetensors":
            found[name] = hashlib.sha256(file.read_bytes()).hexdigest()
        elif file.suffix == ".tsv":
            found[name] = file.read_text(encoding="utf-8")
    return found


def check_out(revision: str, place: Path) -> None:
    """Write the files of a revision into a new folder."""
    place.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(place)], input=archive, check=True)


def main() -> None:
    """Compare two revisions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="a revision: a commit, a branch, a tag")
    parser.add_argument("new", help="another one")
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--precision", default="fp32", help="fp32 or bf16")
    parser.add_argument("--recipes", nargs="+", default=RECIPES)
    parser.add_argument("--keep", type=Path, help="a new folder that keeps the runs; by default a temporary one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        places = {}
        for name, revision in (("old", options.old), ("new", options.new)):
            check_out(revision, folder / name / "tree")
            places[name] = folder / name / "runs"
            places[name].mkdir()
        equal = True
        for recipe in options.recipes:
            words = keys(recipe, options.updates, options.precision)
            for name, place in places.items():
                run(folder / name / "tree", place, recipe, words)
            old, new = (results(place) for place in places.values())
            different = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
            weights = sum(name.endswith(".safetensors") for name in old)
            equal = equal and not different and weights > 0
            print(f"{recipe}: {len(old)} files, {weights} of them weights: ", end="")
            print(f"DIFFERENT: {', '.join(different)}" if different else "identical", flush=True)
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
