"""Checks a machine with a GPU in ten minutes: tests of what only a GPU does, then how fast it trains and translates.

    make gpu                                  or: python -m benchmarks.gpu [--out FOLDER] [--minutes 9.5] [--steps ...]

Each step is a program of its own with a limit of its own: one that hangs or crashes ends alone. After each step the
results are on the disk (``results.json`` in the folder, with what earlier calls have left there), and whatever it has
said (``log.txt``). The most telling steps come first; those for which no time is left are named at the end with the
command that does them. The exit code is 0 if all steps that were asked for have passed.

With ``--device cpu`` every step does tiny work on the CPU: to see, without a GPU, that the programs run.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

from benchmarks.graphics import Sampler
from benchmarks.side_by_side import ROOT
from benchmarks.tables import per_second, share_of_peak

#: How many times as long a step may take on the CPU, where compiling alone takes minutes.
SLOWER = 4
#: A step for which less time than this is left does not begin.
SHORTEST = 15.0
#: Lines of a failed step's output that are shown and kept.
LINES = 25
#: The environment variable by which all processes of a step are known, wherever they have gone.
MARK = "DRAGOMAN_GPU_STEP"

Found = dict[str, Any]


def of_tests(folder: Path) -> Found:
    """Return how many tests have passed, and which have not."""
    file = folder / "junit.xml"
    if not file.is_file():
        return {"passed": 0}
    cases = list(ElementTree.parse(file).getroot().iter("testcase"))
    failed = [case.get("name") for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = {str(case.get("name")): str(skip.get("message")) for case in cases for skip in case.findall("skipped")}
    passed = len(cases) - len(failed) - len(skipped)
    return {"passed": passed, "failed": failed, "skipped": skipped}


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

    """

    name: str
    command: list[str]
    seconds: int
    read: Callable[[Path], Found]
    on_cpu: list[str] | None = None

    def filled(self, device: str, folder: Path) -> list[str]:
        """Return the command line."""
        words = self.on_cpu if device == "cpu" and self.on_cpu else self.command
        return [sys.executable, *(word.replace("{device}", device).replace("{folder}", str(folder)) for word in words)]


def tests(name: str, seconds: int) -> Step:
    """Return a step that runs the tests of a file of tests/gpu."""
    options = ["-m", "gpu", "-p", "no:cacheprovider", "-o", "junit_family=xunit1", "--junitxml", "{folder}/junit.xml"]
    return Step(name, ["-m", "pytest", f"tests/gpu/test_{name}.py", *options], seconds, of_tests)


def fed(kind: str, seconds: int) -> Step:
    """Return a step that trains on what the loader delivers."""
    command = ["-m", "benchmarks.fed", kind, "--device", "{device}", "--json", "{folder}/found.json"]
    toy = [*command, "--toy", "--updates", "6", "--workers", "1"]
    return Step(f"fed_{kind}", command, seconds, of_program, toy)


def compared(name: str, arms: list[str], on_cpu: list[str], seconds: int, *, called: str = "") -> Step:
    """Return a step that runs some arms of a benchmark, at toy size others."""
    command = ["-m", "benchmarks", "run", name, "--out", "{folder}", "--rounds"]
    toy = [*command, "1", "--threads", "1", "--arms", *on_cpu]
    return Step(called or name, [*command, "5", "--arms", *arms], seconds, of_comparison, toy)


BOTH, BOTH_ON_CPU = ["ours bf16", "ours bf16 compiled"], ["ours fp32", "ours fp32 compiled"]
STEPS = [
    Step(
        "machine",
        ["-m", "benchmarks.graphics", "--device", "{device}", "--json", "{folder}/found.json"],
        90,
        of_program,
    ),
    tests("numbers", 90),
    tests("optimizers", 90),
    tests("compiled", 200),
    tests("largest", 150),
    tests("resumed", 150),
    tests("processes", 120),
    compared("gpu_text_big", BOTH, BOTH_ON_CPU, 200),
    fed("text", 100),
    compared("gpu_speech_medium", BOTH, BOTH_ON_CPU, 200),
    fed("speech", 100),
    compared(
        "gpu_waveform_base",
        ["ours bf16", "transformers bf16"],
        ["ours fp32", "transformers fp32"],
        150,
        called="pretraining_beside_transformers",
    ),
    fed("waveform", 100),
    compared("translation_fixed", ["ours", "ours bf16"], ["ours"], 150, called="beam_search"),
    compared(
        "gpu_text_big",
        ["ours bf16", "transformers bf16"],
        ["ours fp32", "transformers fp32"],
        150,
        called="beside_transformers",
    ),
    compared(
        "translation_fixed",
        ["ours", "ours bf16", "transformers bf16"],
        ["ours", "transformers"],
        150,
        called="beam_search_beside_transformers",
    ),
]


class Results:
    """The record of all steps, on the disk after each.

    Args:
        folder: where ``results.json`` and ``log.txt`` are.
        about: what is known of this call; it is kept beside each step.

    """

    def __init__(self, folder: Path, about: Found) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self.log, self.about = folder / "results.json", folder / "log.txt", about
        self.steps: Found = json.loads(self.path.read_text(encoding="utf-8"))["steps"] if self.path.is_file() else {}

    def note(self, name: str, **values: Any) -> None:
        """Replace what is known of a step."""
        self.steps[name] = values | self.about
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps({"steps": self.steps}, indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, self.path)


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
        given |= {"DRAGOMAN_BENCHMARK_TOY": "1", "DRAGOMAN_BENCHMARK_INPUTS": "8"}
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
    with TemporaryDirectory() as folder, open(results.log, "a+b") as log, Sampler() as sampler:
        command = step.filled(device, Path(folder))
        log.write(f"\n== {step.name}: {shlex.join(command)}\n".encode())
        log.flush()
        begin = log.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=ROOT, env=environment(device, mark), start_new_session=True
        )
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
        except (ValueError, KeyError, ElementTree.ParseError) as error:  # cut off while it was written
            found = {"unreadable": str(error)}
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
    wrong, left = [], []
    for step in steps:
        remaining = deadline - time.monotonic()
        if remaining < SHORTEST:
            left.append(step.name)
            continue
        limit = step.seconds * (SLOWER if device == "cpu" else 1)
        status = do(step, device, min(limit, remaining), results)
        print(line(step.name, results.steps[step.name]), flush=True)
        if status != "passed":
            wrong.append(step.name)
            print("".join(f"    {said}\n" for said in results.steps[step.name]["says"]), flush=True)
    if left:
        again = [sys.executable, "-m", "benchmarks.gpu", "--device", device, "--out", str(folder), "--steps", *left]
        print(f"no time was left for {', '.join(left)}: {shlex.join(again)}")
    print(f"{len(steps) - len(wrong) - len(left)} of {len(steps)} steps passed; {results.path}")
    return wrong + left


def main() -> None:
    """Do what is asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"], help="cpu: tiny work, without a GPU")
    parser.add_argument("--out", type=Path, default=ROOT / "gpu", help="folder of results.json and log.txt")
    parser.add_argument("--minutes", type=float, default=9.5, help="for all steps together")
    parser.add_argument("--steps", nargs="+", metavar="STEP", help=f"only these: {', '.join(s.name for s in STEPS)}")
    arguments = parser.parse_args()
    known = {step.name: step for step in STEPS}
    unknown = sorted(set(arguments.steps or []) - set(known))
    if unknown:
        parser.error(f"there is no step {unknown[0]!r}, only {', '.join(known)}")
    chosen = [known[name] for name in arguments.steps] if arguments.steps else STEPS
    wrong = run(chosen, device=arguments.device, folder=arguments.out, minutes=arguments.minutes)
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
