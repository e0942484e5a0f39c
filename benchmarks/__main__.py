"""Lists and runs the benchmarks.

    python -m benchmarks                                       what there is
    python -m benchmarks run NAME ... [--rounds 10] [--threads 2] [--arms "ours fp32" ...]
    python -m benchmarks report            RESULTS.md and the README's table of speed, from benchmarks/results/*.json

fairseq is found in .fairseq-env (``make fairseq-env``) or where FAIRSEQ_ENV says.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import json
from collections.abc import Callable
from pathlib import Path

from benchmarks.readme import put, speed
from benchmarks.side_by_side import Benchmark, cores, run
from benchmarks.tables import markdown, write

HERE = Path(__file__).parent
RESULTS = HERE / "results"
#: Modules with BENCHMARKS: by name, functions without arguments that return a Benchmark.
MODULES = ["text_training", "speech_training", "waveform_training", "gpu_training", "translation"]
INTRODUCTION = """\
# Speed and memory, side by side

Written by `python -m benchmarks report` from `results/*.json`; how each is measured stands in `side_by_side.py`. Ratios
are of medians over rounds in which all arms took turns, with 95 % intervals; each processor has its own table. The
floor is the time that the matrix products alone would take at the speed of one large product, measured in the same
rounds; "of the peak" is its share of the time. Where the load is far above the number of cores, seconds say how often
others had their turn, and CPU time is the better guide.

The peak is that of the quicker library: on AMD's processors with AVX-512 oneDNN's, which is twice MKL's. Ours asks it
there (`shared/nn/cpu.py`; which product is taken where: `python -m benchmarks.products`).

The machine was not equally fast for all tables: each has its date and the peak in its own rounds. text_250k is older
than `shared/nn/lookup.py`, with which the same command found 4.38 GB for ours; text_250k_large is not. Ours in bf16 is
measured anew in translation_bf16 alone: in the other tables of translation it is older than matrices that are stored
for it (`python -m benchmarks.products --bf16`).

What holds the rest, by `python -m benchmarks.step_profile` and torch's profiler on a search: in a step of text, what
is not a product with weights is attention, whose kernel asks MKL, the copies that gradients of matrices are made
from, the softmax over the vocabulary, and Adam; as for memory with 250,000 symbols, the parameters with gradient and
moments alone are two fifths of transformers' peak. In a step of speech it is attention, convolutions backward, ReLU,
and products whose inner dimension is 256. In a search it is products of few rows, which read a matrix for little
work, attention (every head of every beam sees keys of its own) and the copying of caches as beams change.
"""


def benchmarks() -> dict[str, Callable[[], Benchmark]]:
    """Return all that compare, by name."""
    found: dict[str, Callable[[], Benchmark]] = {}
    for module in MODULES:
        found |= importlib.import_module(f"benchmarks.{module}").BENCHMARKS
    return found


def programs() -> dict[str, str]:
    """Return the programs that stand for themselves, with the first lines of their docstrings."""
    found = {}
    for path in sorted(HERE.glob("[!_]*.py")):
        source = path.read_text(encoding="utf-8")
        if 'if __name__ == "__main__"' in source and "benchmarks.worker" not in source:
            found[path.stem] = (ast.get_docstring(ast.parse(source)) or "").splitlines()[0]
    return found


def chosen(benchmark: Benchmark, names: list[str] | None) -> Benchmark:
    """Return a benchmark with some of its arms only, and the peaks that they name."""
    if names is None:
        return benchmark
    unknown = set(names) - {arm.name for arm in benchmark.arms}
    if unknown:
        raise SystemExit(f"{benchmark.name} has no arm {sorted(unknown)}, only {[arm.name for arm in benchmark.arms]}")
    peaks = {arm.peak for arm in benchmark.arms if arm.name in names}
    return dataclasses.replace(benchmark, arms=[arm for arm in benchmark.arms if arm.name in {*names, *peaks}])


def report() -> None:
    """Write RESULTS.md and the README's table of speed."""
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    (HERE / "RESULTS.md").write_text("\n".join([INTRODUCTION, *map(markdown, results)]), encoding="utf-8")
    put(HERE.parent / "README.md", speed(results))


def main() -> None:
    """Do what is asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command")
    runs = commands.add_parser("run", help="run benchmarks that compare")
    runs.add_argument("names", nargs="+", metavar="NAME")
    runs.add_argument("--rounds", type=int, default=10)
    runs.add_argument("--threads", type=int, default=cores())
    runs.add_argument("--arms", nargs="+", help="only these")
    runs.add_argument("--out", type=Path, default=RESULTS, help="where results go")
    commands.add_parser("report", help="write RESULTS.md and the README's table of speed")
    arguments = parser.parse_args()
    known = benchmarks()
    if arguments.command == "report":
        report()
    elif arguments.command == "run":
        for name in arguments.names:
            if name not in known:
                parser.error(f"there is no {name!r}, only {', '.join(known)}")
            benchmark = chosen(known[name](), arguments.arms)
            result = run(benchmark, rounds=arguments.rounds, threads=arguments.threads)
            write(result, arguments.out)
            print(markdown(result))
    else:
        print("compared with others (python -m benchmarks run NAME):")
        for name, build in known.items():
            print(f"  {name:26} {(build.__doc__ or '').splitlines()[0]}")
        print("programs of their own (python -m benchmarks.NAME --help):")
        for name, line in programs().items():
            print(f"  {name:26} {line}")


if __name__ == "__main__":
    main()
