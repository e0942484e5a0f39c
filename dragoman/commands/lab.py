"""``dragoman lab``: the experiments that a file lists, as many at once as the device holds, until time is up.

    experiments:
        - recipe: help/mt_from_mbart
          arm: few                          # of the recipe
          against: [none, help/mt]          # arms of the recipe, or other recipes, with keys of their own if need be
          keys: {updates: 2000}             # of the recipe and of what it is compared with
          phase: evaluate                   # to compare, if the recipe has several evaluations
          minutes: 10                       # of training that one run may take; it is stopped then, and stays undone
    seeds: [1, 2, 3]                        # of all, unless an experiment has its own
    keys: {results_folder: lab}             # of all
    at_once: 8                              # runs side by side on a device; by default 1 on the CPU, and on a GPU
    gigabytes: 8                            # as many as have this much of its memory each

A run that several experiments name is done once, and so is one inside others, such as their pre-training. Keys on the
command line are of all runs, stronger than those above; with ``--debug`` each does two updates, to see that all work.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired

from dragoman.commands.seeds import Arm, arms_of, check_arms, check_one_evaluation, folder, report
from dragoman.commands.side_by_side import Run, Shift, places_on
from dragoman.exchange.foreign_settings import read_yaml
from dragoman.runs.running import is_finished
from dragoman.shared.errors import DataError, UsageError, check_number
from dragoman.shared.machine.device import Machine
from dragoman.shared.machine.records import check_record
from dragoman.shared.machine.stopping import Interrupted
from dragoman.shared.recipe.inner import debug_folder
from dragoman.shared.recipe.tree import parse_value

_COMMON = {"seeds": NotRequired[list[int]], "keys": NotRequired[dict[str, Any]]}
#: What a file says, and what an experiment in it.
FILE = {
    **{"experiments": list[dict[str, Any]], **_COMMON},
    **{"at_once": NotRequired[int | None], "gigabytes": NotRequired[float]},
}
EXPERIMENT = {
    **{"recipe": str, **_COMMON, "arm": NotRequired[str | None], "against": NotRequired[str | list[str] | None]},
    **{"phase": NotRequired[str | None], "minutes": NotRequired[float]},
}
#: Of a GPU's memory, by default for each run.
GIGABYTES = 8.0
#: Seconds before the end at which runs are asked to stop: they write down their state.
TO_STOP = 18.0


@dataclass(frozen=True)
class Experiment:
    """A recipe's arm over several seeds, and what it is compared with.

    Attributes:
        arms: with each control (the arm itself first); one of it alone, if there is no control.
        phase: the evaluation to compare.
        minutes: the longest that one run may take.
    """

    arms: list[list[Arm]]
    phase: str | None
    minutes: float | None

    def runs(self) -> Iterator[Run]:
        """Yield all runs by seed, so that what is there after a while can be compared."""
        different = {id(arm): arm for both in self.arms for arm in both}
        for seed in self.arms[0][0].recipes:
            for arm in different.values():
                yield Run([*arm.words, "--seed", str(seed)], arm.recipes[seed], self.minutes)


def run_lab(
    file: Path, overrides: Sequence[str] = (), *, minutes: float | None, into: Path | None = None, command: str
) -> bool:
    """Do the experiments of a file, and write and print their table, with what is missing.

    Finished runs are kept, and interrupted ones go on, whichever call began them. One that fails does not keep the
    others from running; a later call tries it again.

    Args:
        file: of the form above.
        overrides: keys of all runs, as on the command line; a control's own keys are stronger.
        minutes: after which all is stopped and the table is made; 0 begins nothing; None means when all is done.
        into: the folder for results.jsonl and RESULTS.md, ``report.txt`` with all comparisons, and ``logs``; by default
            that of the file's name, with "-debug" behind it if runs are for debugging.
        command: how this was started, for the record.

    Returns:
        Whether all runs have come to their end.

    Raises:
        DataError: if the file cannot be read.
        UsageError: if it names what is not there, or two different runs in one folder; or if ``minutes`` is less than
            half of one.
        Interrupted: after Ctrl-C; the same command goes on.
    """
    if minutes:
        check_number("--minutes", minutes, least=0.5)
    asked, experiments = read_lab(file, overrides)
    runs = _different(run for experiment in experiments for run in experiment.runs())
    devices = {str(run.recipe.options["device"]) for run in runs.values()}
    if len(devices) > 1:
        raise UsageError(f"{file}: runs on {', '.join(sorted(devices))}: a file is for one device")
    machine = Machine(device=devices.pop())
    if into is None:
        debug = any(run.recipe.options["debug"] for run in runs.values())
        into = Path(debug_folder(str(file.with_suffix(""))) if debug else file.with_suffix(""))
    into.mkdir(parents=True, exist_ok=True)
    end = float("inf") if minutes is None else time.monotonic() + minutes * 60 - TO_STOP
    places = places_on(machine.device, asked.get("at_once"), float(asked.get("gigabytes", GIGABYTES)))
    print(f"{len(experiments)} experiments, {len(runs)} runs, {len(places)} at once on {machine.device}", flush=True)
    try:
        Shift(list(runs.values()), places, into / "logs", end).work()
    except KeyboardInterrupt as error:
        raise Interrupted(f"{file}: stopped; the same command goes on from there") from error
    with open(into / "report.txt", "w", encoding="utf-8") as text, redirect_stdout(text):
        without = [problem for experiment in experiments for problem in _reported(experiment, into, command)]
    table = into / "RESULTS.md"
    print(f"\n{table.read_text(encoding='utf-8') if table.exists() else 'nothing was measured yet'}")
    missing = [f"{run}: {run.state}" for run in runs.values() if not is_finished(run.recipe)]
    for title, lines in (("missing", missing), ("not compared", without)):
        print("".join(f"{line}\n" for line in (f"{title}:", *lines)) if lines else "", end="")
    print(f"{len(runs) - len(missing)} of {len(runs)} runs are done; all comparisons: {into / 'report.txt'}")
    return not missing


def read_lab(file: Path, overrides: Sequence[str] = ()) -> tuple[dict[str, Any], list[Experiment]]:
    """Read a file of experiments: what it says of all, and each with its recipes loaded.

    Args:
        file: of the form above.
        overrides: as for :func:`run_lab`.

    Raises:
        DataError: if it cannot be read, or a value is not of its kind.
        UsageError: as :func:`~dragoman.commands.seeds.arms_of`.
    """
    asked = _checked(read_yaml(file, "a file of experiments"), str(file), FILE)
    if not asked["experiments"]:
        raise DataError(f"{file}: experiments: there is none")
    experiments = []
    for number, found in enumerate(asked["experiments"], 1):
        one = _checked(found, f"{file}: experiment {number}", EXPERIMENT)
        keys = [*as_words(asked.get("keys", {})), *as_words(one.get("keys", {})), *overrides]
        seeds = one.get("seeds", asked.get("seeds", [1]))
        against = one.get("against") or []
        controls = [against] if isinstance(against, str) else against or [None]
        try:
            arms = [arms_of(one["recipe"], keys, seeds=seeds, arm=one.get("arm"), against=name) for name in controls]
            for both in arms:
                _check(both, one.get("phase"))
        except UsageError as error:
            raise UsageError(f"{file}: experiment {number}: {error}") from error
        for both in arms:
            both[0] = arms[0][0]
        if (minutes := one.get("minutes")) is not None:
            check_number(f"{file}: experiment {number}: minutes", minutes, above=0)
        experiments.append(Experiment(arms, one.get("phase"), minutes))
    return asked, experiments


def _check(arms: list[Arm], phase: str | None) -> None:
    """Refuse, before anything is trained, arms that cannot be compared."""
    for recipe in (arm.any_recipe for arm in arms):
        if phase is None:
            check_one_evaluation(recipe)
        elif phase.partition("/")[0] not in recipe.plan:  # "evaluate/fr": that of one of several models
            raise UsageError(f"{recipe.source}: no phase {phase!r}; there are {', '.join(recipe.plan)}")
    if len({folder(arm.any_recipe) for arm in arms}) < len(arms):
        raise UsageError(f"both recipes would run in {folder(arms[0].any_recipe)}: give one a folder with --run NAME")


def _checked(found: Any, where: str, kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a file says if it is of the right kinds, and nothing else stands there."""
    found = check_record(found, where, kinds, "what dragoman lab reads")
    for name in found:
        if name not in kinds:
            raise DataError(f"{where}: {name!r} is not known; there are {', '.join(kinds)}")
    return found


def as_words(keys: Mapping[str, Any]) -> list[str]:
    """Return keys as on the command line."""
    return [
        word
        for key, value in keys.items()
        for word in (f"--{key}", value if _is_text(value, key) else json.dumps(value, ensure_ascii=False))
    ]


def _is_text(value: Any, key: str) -> bool:
    """Tell whether a value is text that the command line takes as such, or as what its tag says: not "007"."""
    if not isinstance(value, str):
        return False
    node = parse_value(value, key)
    return bool(node.tag) or isinstance(node.value, str)


def _different(runs: Iterator[Run]) -> dict[Path, Run]:
    """Return each run once, by its folder.

    Raises:
        UsageError: if a folder would be that of two.
    """
    by_folder: dict[Path, Run] = {}
    for run in runs:
        first = by_folder.setdefault(folder(run.recipe), run)
        if first is not run and first.recipe.flat() != run.recipe.flat():
            raise UsageError(f"{first} and {run} would run in {folder(run.recipe)}: give one a name, --run NAME")
        if first is not run and None not in (first.minutes, run.minutes):
            first.minutes = max(first.minutes or 0.0, run.minutes or 0.0)
        elif first is not run:
            first.minutes = None
    return by_folder


def _reported(experiment: Experiment, into: Path, command: str) -> Iterator[str]:
    """Write the results of what is finished of an experiment; yield what could not be compared, and why."""
    for arms in experiment.arms:
        print(f"\n== {' against '.join(shlex.join(arm.words) for arm in arms)} ==")
        if len(arms) == 2:
            check_arms(*arms)
        try:
            report(arms, phase=experiment.phase, into=into, command=command)
        except DataError as error:
            print(error)
            yield str(error)
            with suppress(DataError):  # what there is of the arm alone; why there is none is said already
                report(arms[:1], phase=experiment.phase, into=into, command=command)
