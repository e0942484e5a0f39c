"""The largest batches that a device survives, found by trying: ``dragoman batch-size``.

The budget of each stream is doubled until a trial does not survive, and what lies between is bisected. A trial does
updates on the batches that need the most memory (see dragoman/commands/trial.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.commands.trial import Trial, try_out
from dragoman.runs.running import run_recipe
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.device import Machine
from dragoman.shared.recipe.recipe import Recipe
from dragoman.shared.recipe.tree import arguments_in

#: The search ends when what survives and what does not differ by less than this factor.
CLOSE = 1.1
#: Batches that an epoch has at least, if the data allow it: with fewer updates, little is learnt from it.
LEAST_BATCHES = 10
#: Doublings and halvings at most: a thousandth to a thousand times the recipe's budget.
DOUBLINGS = 10


@dataclass(frozen=True)
class Setting:
    """The settings that decide how large the batches of a stream are.

    Attributes:
        stream: its name.
        number: its place among the streams of the phase.
        kind: "seconds", "tokens" or "rows".
        key: the recipe's key for it.
        value: what the recipe says.
    """

    stream: str
    number: int
    kind: str
    key: str
    value: float


def print_batch_sizes(source: str, overrides: Sequence[str], *, memory: str | None, phase: str | None) -> None:
    """Search the largest budget of each stream, and print what was tried and what to use.

    Args:
        source: a recipe; its phases before the training are run first, as far as that was not done.
        overrides: of its keys, as on the command line.
        memory: the limit, "4GB"; on a GPU it may be left out.
        phase: the training phase; by default the last one.

    Raises:
        UsageError: for a recipe that trains nothing, or in passes, or a CPU without a limit.
        DataError: if not even the smallest batches fit.
    """
    recipe = Recipe.load(source, overrides)
    recipe.check()
    name = training_phase(recipe, phase)
    if recipe.plan[name].arguments.get("passes") is not None:
        raise UsageError(
            f"{recipe.source}: phase {name!r} computes updates in passes: its budget says how much an update is, and "
            "what fits into memory is found when it runs; --passes null finds the largest batch computed at once"
        )
    limit = None if memory is None else in_bytes(memory)
    device = Machine(device=recipe.options["device"]).device
    if not device.startswith(("cpu", "cuda")):
        raise UsageError(f"device {device!r}: memory can be measured on cpu and cuda only")
    if device == "cpu" and limit is None:
        raise UsageError("a CPU has no limit of its own: say how much memory may be used, for example --memory 4GB")
    earlier = recipe.phases[: recipe.phases.index(name)]
    if earlier:
        run_recipe(recipe, until=earlier[-1])
    sizes = []
    fewer = False
    for setting in settings(recipe, name, source, overrides):
        print(f"stream {setting.stream!r} of phase {name!r} on {device}, at most {_memory(limit)}")
        print(f"{setting.key:>20}  peak memory  batches  s/update  tokens/s", flush=True)

        def attempt(value: float, setting: Setting = setting) -> Trial:
            nonlocal fewer
            changed = [*overrides, f"--{setting.key}={_shown(value)}"]
            trial = try_out(source, changed, phase=name, stream=setting.number, limit=limit)
            print(_line(value, trial), flush=True)
            fewer = fewer or trial.fits and trial.batches < LEAST_BATCHES
            return trial

        largest = search(setting.value, attempt, whole=setting.kind != "seconds")
        sizes.append(f"--{setting.key} {_shown(largest)}")
    if fewer:
        print(f"larger batches fit into memory, but an epoch of this data would have fewer than {LEAST_BATCHES}")
    print("use: " + " ".join(sizes))


def search(start: float, attempt: Callable[[float], Trial], *, whole: bool) -> float:
    """Return the largest value found that fits and leaves an epoch enough batches: doubling or halving, then bisection.

    Args:
        start: what to try first.
        attempt: tries a value.
        whole: whether values are whole numbers.

    Raises:
        DataError: if nothing that was tried fits.
    """
    trials: dict[float, Trial] = {}

    def fits(value: float) -> bool:
        trials[value] = attempt(value)
        return trials[value].fits and trials[value].batches >= LEAST_BATCHES

    good, bad = start, start
    if fits(start):
        for _ in range(DOUBLINGS):
            bad = 2 * good
            if not fits(bad):
                break
            good = bad
        else:
            return good
    else:
        for _ in range(DOUBLINGS):
            good = _rounded(bad / 2, whole)
            try:
                if good in trials or fits(good):
                    break
            except DataError as error:  # too small for the rows
                if trials[bad].fits:
                    return bad
                raise DataError(f"a budget of {_shown(bad)} does not fit into memory, and {error}") from error
            bad = good
        if not trials[good].fits:
            raise DataError(f"not even a budget of {_shown(bad)} fits into memory")
    while bad > CLOSE * good:
        middle = _rounded((good * bad) ** 0.5, whole)
        if middle in trials:
            break
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


def settings(recipe: Recipe, phase: str, source: str, overrides: Sequence[str]) -> list[Setting]:
    """Return what sets the budget of each stream of a phase.

    Raises:
        UsageError: if no key of the recipe sets one.
    """
    keys = []
    for number, (name, budget) in enumerate(_budgets(recipe, phase)):
        kind = next(kind for kind in ("seconds", "tokens", "rows") if budget.get(kind) is not None)
        value = budget[kind]
        for key in _candidates(recipe, kind, value):
            other = Recipe.load(source, [*overrides, f"--{key}={_shown(2 * value)}"])
            if _budgets(other, phase)[number][1][kind] == 2 * value:
                keys.append(Setting(name, number, kind, key, value))
                break
        else:
            raise UsageError(f"{recipe.source}: no key sets the {kind} of the budget of stream {name!r}: give it one")
    return keys


def training_phase(recipe: Recipe, name: str | None = None) -> str:
    """Return the name of the last phase that trains on streams, or check that the one named does.

    Raises:
        UsageError: if it does not, or none does.
    """
    training = [name for name, phase in recipe.plan.items() if "streams" in phase.arguments]
    if not training:
        raise UsageError(f"{recipe.source}: no phase trains on streams")
    if name is not None and name not in training:
        raise UsageError(f"{recipe.source}: phase {name!r} does not train; those that do: {', '.join(training)}")
    return name or training[-1]


def in_bytes(text: str) -> int:
    """Read "4GB", "4 GiB" (1024^3 is meant by both), "800MB".

    Raises:
        UsageError: if it is something else.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT])i?B?\s*", text, re.IGNORECASE)
    if not match or float(match[1]) == 0:
        raise UsageError(f"memory is a number and KB, MB, GB or TB, for example 4GB, not {text!r}")
    return int(float(match[1]) * 1024 ** (" KMGT".index(match[2].upper())))


def _budgets(recipe: Recipe, phase: str) -> list[tuple[str, dict[str, Any]]]:
    """Return name and arguments of the budget of each stream."""
    streams = [arguments_in(stream) for stream in recipe.plan[phase].arguments["streams"]]
    return [(stream["name"], arguments_in(stream["budget"])) for stream in streams]


def _candidates(recipe: Recipe, kind: str, value: float) -> list[str]:
    """Return keys that may set a budget: those with its value, and those of streams."""
    direct, inside = [], []
    for key in recipe.keys:
        try:
            given = recipe.value(key)
        except UsageError:  # a key that is unused here, and refers to something without a value
            continue
        if isinstance(given, int | float) and given == value:
            direct.append(key)
        elif "budget" in arguments_in(given) and arguments_in(arguments_in(given)["budget"]).get(kind) == value:
            inside.append(f"{key}.budget.{kind}")
    return direct + inside


def _rounded(value: float, whole: bool) -> float:
    """Round to three digits, which a person can remember."""
    rounded = float(f"{value:.3g}")
    return max(1, round(rounded)) if whole else rounded


def _shown(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.10g}" if value % 1 else f"{value:.1f}"


def _memory(size: int | None) -> str:
    return "what is free" if size is None else f"{size / 1024**3:.2f} GB"


def _line(value: float, trial: Trial) -> str:
    if not trial.fits:
        return f"{_shown(value):>20}  does not fit"
    memory = f"{_memory(trial.peak):>11}  {trial.batches:>7,}"
    return f"{_shown(value):>20}  {memory}  {trial.seconds:>8.2f}  {trial.tokens_per_second:>8,.0f}"
