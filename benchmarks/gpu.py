"""Checks a machine with a GPU in two calls of eight minutes: all that decides, then two updates of every recipe.

    make gpu                                  or: python -m benchmarks.gpu [--out FOLDER] [--minutes 8]
    make gpu GPU="--part recipes"                 sixteen processes share them out
    make gpu GPU="--steps machine numbers"        only some steps

The first call tries what no card has run yet, each beside products in fp32, then trains and searches as we do by
default, beside transformers; then come the tests of what only a GPU does, and training that the loader feeds.

Each step is a program of its own with a limit of its own: one that hangs or crashes ends alone. After each step the
results are on the disk (``results.json`` in the folder, with what earlier calls have left there), and whatever it has
said (``logs``). Comparisons go to benchmarks/results as well: ``python -m benchmarks report`` writes the tables. The
most telling steps come first; those for which no time is left are named at the end with the command that does them.
The exit code is 0 if all steps that were asked for have passed.

With ``--device cpu`` every step does tiny work on the CPU: to see, without a GPU, that the programs run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.graphics import Sampler
from benchmarks.side_by_side import ROOT
from benchmarks.tables import per_second, share_of_peak

#: Where results of all machines are, which README's table is written from.
RESULTS = ROOT / "benchmarks" / "results"
#: How many times as long a step may take on the CPU, where compiling alone takes minutes.
SLOWER = 4
#: A step for which less time than this is left does not begin.
SHORTEST = 15.0
#: Lines of a failed step's output that are shown and kept.
LINES = 25
#: The environment variable by which all processes of a step are known, wherever they have gone.
MARK = "DRAGOMAN_GPU_STEP"
#: What tests note, in the folder of their step (benchmarks/noting.py).
NOTES = "tests.jsonl"

Found = dict[str, Any]


def of_tests(folder: Path) -> Found:
    """Return how many tests have passed before time was up, and which have not, with the reason."""
    file = folder / NOTES
    notes = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []
    of = {kind: {one["name"]: one["why"] for one in notes if one["outcome"] == kind} for kind in ("failed", "skipped")}
    return {"passed": sum(one["outcome"] == "passed" for one in notes), **of}


def of_program(folder: Path) -> Found:
    """Return what a program has written."""
    file = folder / "found.json"
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}


def of_comparison(folder: Path) -> Found:
    """Return the rates and shares of the arms of a benchmark."""
    found: Found = {}
    for file in folder.glob("*.json"):
        result = json.loads(file.read_text(encoding="utf-8"))
        arms = result["arms"]
        peaks = {arm["peak"] for arm in arms.values()}
        found = {"unit": result["unit"], "absent": result["absent"], "arms": {}}
        for name, arm in arms.items():
            if name in peaks:
                found["arms"][name] = {"tflops": round(per_second(arm) / 1e12, 2)}
                continue
            found["arms"][name] = {
                "units_per_second": round(per_second(arm), 1),
                "share_of_peak": share_of_peak(arm, arms, "seconds"),
                "seconds": round(median(one["seconds"] for one in arm["repetitions"]), 4),
                "memory_gb": round(max(one["peak_memory"] for one in arm["repetitions"]) / 1e9, 2),
            }
    return found


@dataclass(frozen=True)
class Step:
    """One thing to do.

    Attributes:
        name: on the command line and in the results.
        command: what Python is given; ``{device}`` and ``{folder}`` are filled in.
        seconds: the most that it may take.
        read: what it has found, from the folder that it was given.
        on_cpu: the command at toy size, if it is another.
        group: steps of one group that follow each other run at the same time; "" for none.
        given: variables of its environment.

    """

    name: str
    command: list[str]
    seconds: int
    read: Callable[[Path], Found]
    on_cpu: list[str] | None = None
    group: str = ""
    given: dict[str, str] = field(default_factory=dict)

    def filled(self, device: str, folder: Path) -> list[str]:
        """Return the command line."""
        words = self.on_cpu if device == "cpu" and self.on_cpu else self.command
        return [sys.executable, *(word.replace("{device}", device).replace("{folder}", str(folder)) for word in words)]


PYTEST = ["-m", "pytest", "-m", "gpu", "-p", "no:cacheprovider", "-p", "benchmarks.noting"]


def tests(name: str, seconds: int) -> Step:
    """Return a step that runs the tests of a file of tests/gpu, beside those of the others."""
    return Step(name, [*PYTEST, f"tests/gpu/test_{name}.py"], seconds, of_tests, group="tests")


def recipes(share: int) -> Step:
    """Return a step that does two updates of each recipe of a share, beside the other shares."""
    name, command = f"recipes_{share:02}", [*PYTEST, "tests/recipes/test_on_gpu.py"]
    return Step(name, command, 420, of_tests, group="recipes", given={"DRAGOMAN_RECIPES_SHARE": f"{share}/{SHARES}"})


def fed(kind: str, seconds: int) -> Step:
    """Return a step that trains on what the loader delivers."""
    command = ["-m", "benchmarks.fed", kind, "--device", "{device}", "--json", "{folder}/found.json"]
    toy = [*command, "--toy", "--updates", "6", "--workers", "1"]
    return Step(f"fed_{kind}", command, seconds, of_program, toy)


def compared(name: str, arms: list[str], on_cpu: list[str], seconds: int) -> Step:
    """Return a step that runs some arms of a benchmark, at toy size others."""
    command = ["-m", "benchmarks", "run", name, "--out", "{folder}", "--rounds"]
    toy = [*command, "1", "--threads", "1", "--arms", *on_cpu]
    return Step(name, [*command, "5", "--arms", *arms], seconds, of_comparison, toy)


def beside_transformers(name: str, ours: str, on_cpu: str, seconds: int) -> Step:
    """Return a step that runs our default beside transformers."""
    return compared(name, [ours, "transformers bf16"], [on_cpu, "transformers fp32"], seconds)


TESTS = {"numbers": 90, "optimizers": 90, "compiled": 200, "largest": 150, "resumed": 150, "processes": 120}
DECIDING = [
    Step(
        "machine",
        ["-m", "benchmarks.graphics", "--device", "{device}", "--json", "{folder}/found.json"],
        60,
        of_program,
    ),
    Step(
        "first_tries",
        ["-m", "benchmarks.first_tries", "--device", "{device}", "--json", "{folder}/found.json"],
        90,
        of_program,
    ),
    beside_transformers("gpu_text_big", "ours bf16 compiled", "ours fp32 compiled", 120),
    compared("gpu_speech_medium", ["ours bf16 compiled"], ["ours fp32"], 120),
    beside_transformers("gpu_waveform_base", "ours bf16", "ours fp32", 120),
    compared("translation_fixed", ["ours", "ours bf16", "transformers bf16"], ["ours", "transformers"], 100),
    *(tests(name, seconds) for name, seconds in TESTS.items()),
    *(fed(kind, 80) for kind in ("text", "speech", "waveform")),
]
#: How many processes share the recipes, and how many of them run at toy size, a recipe each.
SHARES, TOY_SHARES = 16, 2
PARTS = {"decides": DECIDING, "recipes": [recipes(share) for share in range(SHARES)]}
STEPS = [step for steps in PARTS.values() for step in steps]


class Results:
    """The record of all steps, on the disk after each.

    Args:
        folder: where ``results.json``, the logs and the results of comparisons are.
        about: what is known of this call; it is kept beside each step.

    """

    def __init__(self, folder: Path, about: Found) -> None:
        self.path, self.logs, self.about, self.lock = folder / "results.json", folder / "logs", about, threading.Lock()
        self.logs.mkdir(parents=True, exist_ok=True)
        self.steps: Found = json.loads(self.path.read_text(encoding="utf-8"))["steps"] if self.path.is_file() else {}

    def note(self, name: str, **values: Any) -> None:
        """Replace what is known of a step."""
        with self.lock:
            self.steps[name] = values | self.about
            temporary = self.path.with_suffix(".tmp")
            temporary.write_text(json.dumps({"steps": self.steps}, indent=1) + "\n", encoding="utf-8")
            os.replace(temporary, self.path)

    def keep(self, folder: Path) -> None:
        """Keep the results of a comparison here, and those of a GPU beside those of processors."""
        kept = [self.path.parent / "results", *([RESULTS] if self.about["device"] == "cuda" else [])]
        for file, place in itertools.product(folder.glob("*.json"), kept):
            place.mkdir(exist_ok=True)
            shutil.copy(file, place)


def environment(device: str, mark: str) -> dict[str, str]:
    """Return the variables of a step."""
    given = {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "PYTHONUNBUFFERED": "1",
        "HF_HUB_OFFLINE": "1",
        "DRAGOMAN_TEST_DEVICE": device,
        "DRAGOMAN_BENCHMARK_DEVICE": device,
        MARK: mark,
    }
    if device == "cpu":
        given |= {"DRAGOMAN_BENCHMARK_TOY": "1", "DRAGOMAN_BENCHMARK_INPUTS": "8", "DRAGOMAN_RECIPES_MOST": "1"}
    return os.environ | given


def end(mark: str) -> None:
    """Kill all processes of a step, also those that went into sessions of their own (Linux)."""
    wanted = f"{MARK}={mark}".encode()
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (place / "environ").read_bytes().split(b"\0"):
                os.kill(int(place.name), signal.SIGKILL)


def do(step: Step, device: str, seconds: float, results: Results) -> str:
    """Do a step in at most `seconds` seconds, note what was found, and return its status."""
    mark = uuid.uuid4().hex
    results.note(step.name, status="running")
    clock = time.monotonic()
    with TemporaryDirectory() as folder, open(results.logs / f"{step.name}.txt", "w+b") as log, Sampler() as sampler:
        command = step.filled(device, Path(folder))
        log.write(f"== {shlex.join(command)}\n".encode())
        log.flush()
        begin = log.seek(0, os.SEEK_END)
        given = environment(device, mark) | step.given | {"DRAGOMAN_GPU_NOTES": str(Path(folder, NOTES))}
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=given, start_new_session=True)
        try:
            code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            process.kill()
            end(mark)
            process.wait()
        took = time.monotonic() - clock
        log.seek(begin)
        said = log.read().decode(errors="replace").splitlines()[-LINES:]
        try:
            found = step.read(Path(folder))
        except (ValueError, KeyError) as error:  # cut off while it was written
            found = {"unreadable": str(error)}
        if step.read is of_comparison and code == 0:
            results.keep(Path(folder))
    status = "passed"
    if code is None:
        status = f"stopped after {seconds:.0f} s"
    elif code or found.get("passed") == 0 or not found:
        status = "failed"
    graphics = {} if device == "cpu" else sampler.found()
    failure = {} if status == "passed" else {"exit_code": code, "says": said}
    results.note(step.name, status=status, seconds=round(took, 1), found=found, utilisation=graphics, **failure)
    return status


def line(name: str, record: Found) -> str:
    """Return a step's line of the table."""
    return f"{name:34} {record['status']:22} {record.get('seconds', 0):6.0f} s  {summary(record.get('found', {}))}"


def summary(found: Found) -> str:
    """Return the figures of a step that a person looks at first."""
    if "arms" in found:
        rates = (
            f"{name}: {arm['units_per_second']:,.0f} {found['unit']}/s"
            + (f", {arm['share_of_peak']} of the peak" if arm["share_of_peak"] else "")
            for name, arm in found["arms"].items()
            if "units_per_second" in arm
        )
        return "; ".join(rates)
    if "units_per_second" in found:
        waiting, busy = found["share_of_time_waiting_for_data"], found["share_of_peak"]
        rate = f"{found['units_per_second']:,.0f} {found['unit']}/s"
        return f"{rate}, {busy:.0%} of the peak, {waiting:.0%} of the time waiting for data"
    if "passed" in found:
        skipped = f", {len(found['skipped'])} skipped" if found.get("skipped") else ""
        return f"{found['passed']} passed, {len(found.get('failed', []))} failed{skipped}"
    if "tries" in found:
        wrong = [name for name, one in found["tries"].items() if not one["right"]]
        return f"{len(found['tries'])} tried; wrong: {', '.join(wrong) or 'nothing'}"
    if "tflops" in found:
        name = found.get("gpu", {}).get("name", "CPU")
        return f"{name}, torch {found['torch']}, bf16 {found['tflops']['bf16']:,.0f} TFLOP/s"
    return ""


def commit() -> str:
    """Return the commit of this clone, "" where git or its folder are missing."""
    with suppress(OSError):
        done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip()
    return ""


def run(steps: list[Step], *, device: str, folder: Path, minutes: float) -> list[str]:
    """Do steps in order, as long as there is time; return the names of those that did not pass."""
    deadline = time.monotonic() + 60 * minutes
    results = Results(folder, {"device": device, "date": time.strftime("%Y-%m-%d %H:%M"), "commit": commit()})
    wrong, left = list[str](), list[str]()

    def one(step: Step) -> None:
        remaining = deadline - time.monotonic()
        if remaining < SHORTEST:
            left.append(step.name)
            return
        limit = step.seconds * (SLOWER if device == "cpu" else 1)
        status = do(step, device, min(limit, remaining), results)
        told = line(step.name, results.steps[step.name])
        if status != "passed":
            wrong.append(step.name)
            told += "".join(f"\n    {said}" for said in results.steps[step.name]["says"])
        print(told, flush=True)

    for _, group in itertools.groupby(steps, lambda step: step.group or step.name):
        together = list(group)
        with ThreadPoolExecutor(len(together) if device == "cuda" else 1) as pool:
            list(pool.map(one, together))
    if left:
        again = [sys.executable, "-m", "benchmarks.gpu", "--device", device, "--out", str(folder), "--steps", *left]
        print(f"no time was left for {', '.join(left)}: {shlex.join(again)}")
    print(f"{len(steps) - len(wrong) - len(left)} of {len(steps)} steps passed; {results.path}")
    return wrong + left


def main() -> None:
    """Do what is asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"], help="cpu: tiny work, without a GPU")
    parser.add_argument("--out", type=Path, default=ROOT / "gpu", help="folder of results.json and logs")
    parser.add_argument("--minutes", type=float, default=8.0, help="for all steps together")
    parser.add_argument("--part", default="decides", choices=PARTS, help="a call of eight minutes (decides)")
    parser.add_argument("--steps", nargs="+", metavar="STEP", help=f"only these: {', '.join(s.name for s in STEPS)}")
    arguments = parser.parse_args()
    known = {step.name: step for step in STEPS}
    unknown = sorted(set(arguments.steps or []) - set(known))
    if unknown:
        parser.error(f"there is no step {unknown[0]!r}, only {', '.join(known)}")
    chosen = [known[name] for name in arguments.steps or []] or PARTS[arguments.part]
    if arguments.device == "cpu" and not arguments.steps and arguments.part == "recipes":
        chosen = chosen[:TOY_SHARES]
    wrong = run(chosen, device=arguments.device, folder=arguments.out, minutes=arguments.minutes)
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
