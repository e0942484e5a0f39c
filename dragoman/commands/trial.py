"""One trial of a batch size: the worst batches of a stream through real updates, in a process that may die of it."""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import threading
import time
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from dragoman.shared.batches.loader import Loader
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.settings import is_out_of_memory
from dragoman.shared.machine.workspace import Stopwatch, Workspace
from dragoman.shared.recipe.recipe import Recipe
from dragoman.shared.recipe.run_keys import RUN_OPTIONS
from dragoman.shared.training.compiling import compile_layers
from dragoman.shared.training.fit import Fit
from dragoman.shared.training.history import Meter
from dragoman.shared.training.update import Learner

#: Share of a GPU's free memory that is used if no limit is given; the rest is for what other libraries take.
SHARE_OF_GPU = 0.95
#: Updates on ordinary batches that are timed.
TIMED = 2
#: Exit code of a process that has ended itself because it took too much memory.
TOO_MUCH = 77


@dataclass(frozen=True)
class Trial:
    """The result of a trial.

    Attributes:
        fits: whether it survived.
        peak: bytes at most: of the GPU's memory, or of the process on a CPU; 0 if it did not survive.
        seconds: per update of ordinary batches.
        tokens_per_second: target tokens, without padding, of these updates.
        batches: of an epoch with this budget.
    """

    fits: bool
    peak: int = 0
    seconds: float = 0.0
    tokens_per_second: float = 0.0
    batches: int = 0


def try_out(source: str, overrides: list[str], *, phase: str, stream: int, limit: int | None) -> Trial:
    """Train a little in a process of its own, as a phase of a recipe would.

    Args:
        source: the recipe.
        overrides: as on the command line.
        phase: a Fit.
        stream: number of the stream whose batches are tried.
        limit: bytes that the process (on a CPU) or its part of the GPU's memory may grow to.

    Raises:
        DataError, UsageError: those of the process, for example of a stream that would drop too many rows.
    """
    context = multiprocessing.get_context("spawn")  # nothing of this process counts, and a GPU cannot be forked
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sender, source, overrides, phase, stream, limit))
    process.start()
    sender.close()
    try:
        answer = receiver.recv()
    except EOFError:
        answer = None
    process.join()
    if isinstance(answer, Trial):
        return answer
    if isinstance(answer, Exception):
        raise answer
    if process.exitcode in (TOO_MUCH, -9):  # it ended itself, or the system did it
        return Trial(fits=False)
    raise DataError(f"a trial of {source} ended with exit code {process.exitcode}; see its message above")


def _child(sender: Connection, source: str, overrides: list[str], phase: str, stream: int, limit: int | None) -> None:
    try:
        recipe = Recipe.load(source, overrides)
        options = {key: recipe.options[key] for key in RUN_OPTIONS}
        workspace = Workspace(Path(recipe.value("output_folder")), seed=recipe.value("seed"), phase=phase, **options)
        torch.manual_seed(workspace.seed)
        _limit(workspace.device, limit)
        answer: Trial | Exception = measure(recipe.plan[phase].build(), stream, workspace)
    except (DataError, UsageError) as error:
        answer = error
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        answer = Trial(fits=False)
    sender.send(answer)


def measure(fit: Fit, stream: int, workspace: Workspace) -> Trial:
    """Do updates on the worst batches of a stream, then on a few ordinary ones, which are timed."""
    device = torch.device(workspace.device)
    objective = fit.objective.to(device)
    learner = Learner(objective, objective, fit.optimizer.build(objective), fit.max_grad_norm)
    learner.at(1, fit.schedule(1))
    loader = Loader(streams=[fit.streams[stream]], seed=workspace.seed)
    if workspace.compile:
        compile_layers(objective)
    worst = list(loader.largest())
    for batch in [*worst, worst[0]]:  # once more, now that the optimiser's moments are there
        # of accumulated batches, all but the first find the gradients in memory: two are as bad as eight
        learner.update([batch] * min(fit.accumulation, 2), Meter(), workspace)
    meter, ordinary = Meter(), loader.epoch(0)
    updates = [batches for _ in range(TIMED) if (batches := list(islice(ordinary, fit.accumulation)))]
    stopwatch = Stopwatch()
    for batches in updates:
        learner.update(batches, meter, workspace)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    seconds = stopwatch.seconds
    peak = torch.cuda.max_memory_reserved(device) if device.type == "cuda" else peak_memory()
    return Trial(True, peak, seconds / len(updates), meter.tokens / seconds, loader.length(0))


def peak_memory() -> int:
    """Return the most bytes that were ever in this process's memory."""
    if sys.platform == "linux":  # what getrusage says is never below what the parent process had
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _limit(device: str, limit: int | None) -> None:
    if device.startswith("cuda"):
        free, total = torch.cuda.mem_get_info(device)
        torch.cuda.set_per_process_memory_fraction(min(limit or SHARE_OF_GPU * free, total) / total, device)
    elif limit is not None:
        if peak_memory() > limit:
            raise UsageError(f"a limit of {limit / 1024**3:.2f} GB is less than the process takes without any model")
        threading.Thread(target=_watch, args=(limit,), daemon=True).start()


def _watch(limit: int) -> None:
    """End this process as soon as it has taken more than ``limit`` bytes."""
    while peak_memory() <= limit:
        time.sleep(0.01)
    os._exit(TOO_MUCH)
