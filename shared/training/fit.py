"""The training loop: a phase that fits an objective to streams of batches.

One update (shared/training/update.py) = ``grad_accumulation_factor`` batches a process, or, with ``passes``, of all
processes together. The device is never waited for inside of one: what the progress bar shows is read every
``REPORT_EVERY`` updates.

A checkpoint holds all that the rest of the run depends on, so that a run that was killed anywhere goes on bit for bit
from its last one; what had been noted of the updates after that is forgotten, since they are done again. It is written
while the next updates are done (shared/training/saving.py).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from rich.progress import Progress, TaskID

from dragoman.shared.batch import Batch
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.stream import Stream
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.files import discard_folder, replaced_folder
from dragoman.shared.machine.processes import activity, barrier, gather, join, on_all, on_main, wrap
from dragoman.shared.machine.progress import progress_bar
from dragoman.shared.machine.settings import prepare_process
from dragoman.shared.machine.stopping import Interrupted, Stop
from dragoman.shared.machine.workspace import Phase, Stopwatch, Workspace
from dragoman.shared.objectives.objective import Objective
from dragoman.shared.ranges import NonNegativeFloat, PositiveInt
from dragoman.shared.training.checkpoints import Checkpoints, list_checkpoints, load_objective
from dragoman.shared.training.compiling import compile_layers
from dragoman.shared.training.history import History, Meter, report, status
from dragoman.shared.training.initialise import Initialiser
from dragoman.shared.training.loss_scale import loss_scaler
from dragoman.shared.training.notes import alternating_notes, size_notes, time_left, warm_up_notes
from dragoman.shared.training.optimizer import Adam
from dragoman.shared.training.part_files import Part
from dragoman.shared.training.passes import passes_of
from dragoman.shared.training.position import Position
from dragoman.shared.training.resuming import planned_for, restore
from dragoman.shared.training.saving import Saver
from dragoman.shared.training.scheduled import Scheduled
from dragoman.shared.training.schedules import Schedule
from dragoman.shared.training.sizes import check_accumulation, check_copy, training_bytes
from dragoman.shared.training.tracking import Tracker, Trackers, check_libraries, check_trackers
from dragoman.shared.training.update import Learner, same_randomness_after, try_largest
from dragoman.shared.training.validation import Validation

if TYPE_CHECKING:
    from dragoman.shared.training.fsdp import Shards

REPORT_EVERY = 25
#: The folder of the plans of epochs, which the processes of a machine share.
PLANS = "plans"


@dataclass
class Running:
    """The objects that the methods of a Fit share while it runs.

    ``began`` is the update after which this process has begun, when its ``stopwatch`` started.
    """

    workspace: Workspace
    learner: Learner
    updates: int
    position: Position
    meter: Meter
    history: History
    saver: Saver
    stop: Stop
    stopwatch: Stopwatch
    began: int

    @property
    def left(self) -> str:
        """The time until the last update, in words."""
        update = self.position.update
        return time_left(update - self.began, self.stopwatch.seconds, self.updates - update)

    @property
    def last(self) -> bool:
        """True once all updates are done."""
        return self.position.update >= self.updates


class Fit(Phase):
    """Train an objective.

    Writes ``system/`` (the description of the system being trained), ``checkpoints/``, ``history.jsonl``,
    ``training.png`` and TensorBoard files.

    Args:
        objective: what to minimise; it owns the system.
        streams: where batches come from.
        optimizer: the optimiser's settings.
        schedule: the learning rate.
        updates: how many updates to do.
        validation: how to score on held-out data, or None.
        checkpoints: which checkpoints to keep.
        initialise: what parameters begin as, such as those of model folders (Initialise), in this order.
        grad_accumulation_factor: batches per update and process.
        passes: in how many passes each process computes a batch, which all of them share: what an update is then
            depends on the recipe alone. "auto" takes as few as fit into the memory of a GPU, found by trial; a pass on
            a CPU has at most 16,384 tokens or 480 s. By default, each process has a batch of its own, computed at once.
        max_grad_norm: the norm that the whole gradient is clipped to; 0 for no clipping.
        scheduled: numbers of the objective's modules that follow the update, such as dropout, by regular expression
            (see shared/training/scheduled.py).
        trackers: what gets losses and scores, beside TensorBoard: wandb, mlflow, or objects (see
            shared/training/tracking.py).
    """

    extendable: ClassVar[tuple[str, ...]] = ("updates", "validation.patience")
    without_effect: ClassVar[tuple[str, ...]] = ("checkpoints.keep", "passes")
    aside: ClassVar[tuple[str, ...]] = ("trackers",)
    later: ClassVar[dict[str, None]] = {"grid": None}

    def __init__(
        self,
        *,
        objective: Objective,
        streams: list[Stream],
        optimizer: Adam,
        schedule: Schedule,
        updates: PositiveInt,
        validation: Validation | None = None,
        checkpoints: Checkpoints | None = None,
        initialise: list[Initialiser] | None = None,
        grad_accumulation_factor: PositiveInt = 1,
        passes: PositiveInt | Literal["auto"] | None = None,
        max_grad_norm: NonNegativeFloat = 0.0,
        scheduled: dict[str, Schedule] | None = None,
        trackers: str | list[Tracker | str] | None = None,
    ) -> None:
        self.objective = objective
        self.streams = streams
        self.optimizer = optimizer
        self.schedule = schedule
        self.updates = updates
        self.validation = validation
        self.checkpoints = checkpoints or Checkpoints()
        self.initialise = initialise or []
        held_out = validation.manifests if validation else []
        self.manifests = [*(str(path) for stream in streams for path in (*stream.paths, *stream.turned)), *held_out]
        self.accumulation = grad_accumulation_factor
        self.passes = passes
        self.max_grad_norm = max_grad_norm
        self.scheduled = dict(scheduled or {})
        self.trackers = check_trackers(trackers or [])

    @staticmethod
    def left_nothing(folder: Path) -> bool:
        """Tell whether there is no checkpoint, so that nothing was learned."""
        return not list_checkpoints(folder / "checkpoints")

    def memory_needed(self) -> int:
        """Return the bytes of the parameters, and of the gradients and moments of those that learn."""
        return training_bytes(self.objective, self.optimizer)

    def check_libraries(self) -> None:
        """Refuse trackers whose libraries are not installed."""
        check_libraries(self.trackers)

    def run(self, workspace: Workspace) -> None:
        """Train until ``updates`` are done or validation stops it.

        Raises:
            DataError: if a loss or gradient was not finite, if data cannot be read or a checkpoint not be written.
            UsageError: if settings do not fit together.
            Interrupted: after Ctrl-C or SIGTERM, when a checkpoint is written.
        """
        join(workspace)
        device = torch.device(workspace.device)
        divides = workspace.sharding != "none" and workspace.world > 1
        if divides and self.passes == "auto":
            raise UsageError("passes: auto tries a whole model: with sharding, give a number")
        prepare_process(device)
        self.objective.check_streams([stream.name for stream in self.streams])
        if self.validation is not None:
            self.validation.check(self.objective, self.streams)
        late = divides and not getattr(self.optimizer.tuning, "four_bit", False)  # which are made on a GPU
        objective = self.objective if late else self.objective.to(device)
        checkpoints = list_checkpoints(workspace.folder / "checkpoints")
        share = _share(workspace) if divides else (0, 1)  # whose file of moments only one process may look at
        training = on_all(lambda: checkpoints[-1].training(share), workspace) if checkpoints else None
        if training is None:
            self._initialise(workspace, objective)  # before adapters take the names of what they adapt
        optimizer = self.optimizer.build(objective)
        if workspace.compile:  # before anything is tried, which then takes the memory that training does
            compile_layers(objective, device=workspace.device)
        loader = self._loader(workspace, objective, training)
        if workspace.main or divides:
            check_copy(objective, self.optimizer, share[1], workspace.device)
        updates = min(self.updates, 2) if workspace.debug else self.updates
        trackers = Trackers([] if workspace.debug else self.trackers, workspace.log.warning)
        meter, history = Meter(), History(workspace.folder, writing=workspace.main, trackers=trackers)
        scaler = loss_scaler(workspace)
        if training is None:
            if rows := history.rows():
                message = "%s: warning: no checkpoint is left, though it had come to update %d: it begins anew"
                workspace.log.warning(message, workspace.phase, rows[-1]["update"])
            position = self._begin(workspace, objective, loader)
        else:
            objective.system.check_files(workspace.folder / "system")
        scheduled = Scheduled(objective, self.scheduled)
        shards = _divided(objective, optimizer, workspace) if divides else None
        if training is not None:
            on_all(lambda: load_objective(objective, checkpoints[-1], share), workspace)
            with checkpoints[-1].restoring():
                position = restore(training, optimizer, scaler, meter, workspace)
                if position.epoch > position.update * self.accumulation or position.batch > loader.length(
                    position.epoch
                ):
                    raise ValueError(f"there is no batch {position.batch} of epoch {position.epoch}")
            del training  # the moments are in the optimiser now
            begun = loader.planned if self.passes is None else workspace.world
            shared = f", with the batches of {begun} processes" if begun != workspace.world else ""
            workspace.log.info("%s: going on after update %d%s", workspace.phase, position.update, shared)
        model = objective if shards else wrap(objective, workspace)
        learner = Learner(objective, model, optimizer, self.max_grad_norm, scheduled, scaler, shards)
        now = max(position.update, 1)
        learner.at(now, self.schedule(now))  # for a validation that is still due
        if device.type == "cuda" and position.update == 0 and self.passes != "auto" and not divides:
            try_largest(objective, self.optimizer, loader, workspace)
        history.cut(position.update)
        self._go_further(position, updates, history, workspace)
        with (
            closing(history),  # after errors and interruptions as well, or trackers would show a run that goes on
            Stop() as stop,
            Saver(self.checkpoints, learner, history, loader.planned, self.optimizer.adapter_scale, workspace) as saver,
            progress_bar(enabled=workspace.show_progress) as bar,
            closing(loader),  # or its workers would live until Python collects its garbage, in a later phase
            closing(_steps(loader, position)) as source,
        ):
            running = Running(
                workspace, learner, updates, position, meter, history, saver, stop, Stopwatch(), position.update
            )
            self._until_the_end(running, source, bar)
            history.plot()
        barrier(workspace)
        on_main(lambda: discard_folder(workspace.folder / PLANS), workspace)

    def _until_the_end(self, running: Running, source: Iterator[list[Batch]], bar: Progress) -> None:
        """Train, validate and save by turns; raise Interrupted after a signal, when a checkpoint is written."""
        workspace, position, stop, saver = running.workspace, running.position, running.stop, running.saver
        task = bar.add_task(workspace.title, total=running.updates, completed=position.update, status="")
        while position.due or not (running.last or position.finished):
            if not position.due:
                self._advance(running, source, bar, task)
            activity.at("")
            due, score = position.due, self._validate(running) if position.due else None
            activity.at("waits")
            asked, failed = map(any, zip(*gather((stop.asked, saver.failed), workspace), strict=True))
            activity.at("")
            if failed:
                saver.wait()
            scheduled = due or running.last or position.update % self.checkpoints.every == 0
            if scheduled or asked:
                _check_finite(running)
                saver.save(position, running.meter, score, interim=not scheduled)
            if asked:
                saver.wait()
                raise Interrupted(
                    f"{workspace.output}: stopped at update {position.update} of {running.updates}; "
                    "the same command goes on from there"
                )
        saver.wait()

    def _advance(self, running: Running, source: Iterator[list[Batch]], bar: Progress, task: TaskID) -> None:
        """Do the next update, and report if it is time."""
        workspace, position, meter = running.workspace, running.position, running.meter
        rate = self.schedule(position.update + 1)
        running.learner.at(position.update + 1, rate)
        # Of the first update, the workers start, and layers are compiled.
        activity.at("reads" if position.update > running.began else "", position.update + 1)
        batches = [batch for _ in range(self.accumulation) for batch in next(source)]
        running.learner.update(batches, meter, workspace)
        position.update += 1
        now = position.update
        position.due = self.validation is not None and (self.validation.due(now) or running.last)
        bar.update(task, completed=now)
        if now % REPORT_EVERY == 0 or running.last:
            _check_finite(running)
            row = report(gather(meter.state(), workspace)) | {"update": now, "epoch": position.epoch, "lr": rate}
            if running.learner.scaler.is_enabled():
                row["loss_scale"] = running.learner.scaler.get_scale()
            meter.reset()
            running.history.add(row)
            early = " at most" if self.validation is not None and self.validation.patience else ""
            line = status(row) + ("" if running.last else f" | {running.left} left{early}")
            bar.update(task, status=line)
            soon = now == running.began + REPORT_EVERY  # the time that is left is wanted before much of it has passed
            if not workspace.show_progress and (now % (REPORT_EVERY * 8) == 0 or running.last or soon):
                workspace.log.info("%s: update %d of %d, %s", workspace.phase, now, running.updates, line)

    def _loader(self, workspace: Workspace, objective: Objective, training: dict[str, Any] | None) -> Loader:
        """Return what reads the streams, for as many passes as fit into memory; say what it will read."""
        plans = workspace.folder / PLANS
        on_main(lambda: discard_folder(plans), workspace)  # what a start that was killed has left
        loader = Loader(
            streams=self.streams,
            seed=workspace.seed_for(workspace.phase, "data"),
            workers=workspace.workers,
            rank=workspace.rank,
            world=workspace.world,
            planned=None if self.passes else planned_for(training, objective, workspace),
            passes=1 if self.passes else None,
            pin_memory=workspace.device.startswith("cuda"),
            mapped_in=plans,
        )
        if self.passes is not None:
            loader.passes = passes_of(
                self.passes,
                loader,
                workspace,
                attempt=lambda: try_largest(objective, self.optimizer, loader, workspace),
            )
            workspace.log.info("%s: each process computes a batch in %d passes", workspace.phase, loader.passes)
        check_accumulation(self.accumulation, loader, workspace.device)
        notes = warm_up_notes(self.schedule, self.updates) + alternating_notes(self.streams, self.accumulation)
        for line in [*(loader.report() if workspace.main else ()), *notes]:
            workspace.log.info("%s: %s", workspace.phase, line)
        for line in loader.crowding() if workspace.main else ():
            workspace.log.warning("%s: %s", workspace.phase, line)
        return loader

    def _initialise(self, workspace: Workspace, objective: Objective) -> None:
        for initialise in self.initialise:
            for line in initialise.apply(objective.system):
                workspace.log.info("%s: %s", workspace.phase, line)

    def _begin(self, workspace: Workspace, objective: Objective, loader: Loader) -> Position:
        """Describe the system that begins."""
        if workspace.main:
            with replaced_folder(workspace.folder / "system") as temporary:
                objective.system.save_description(temporary)
        else:  # all were built alike; from here on, each drops other units
            torch.manual_seed(workspace.seed_for(workspace.phase, "rank", workspace.rank))
        parameters = sum(p.numel() for p in objective.parameters() if p.requires_grad)
        workspace.log.info("%s: %.2f M trainable parameters", workspace.phase, parameters / 1e6)
        if not self.initialise:
            rows = sum(len(kept) for stream in loader.streams for kept in stream.table.kept)
            for line in size_notes(parameters, rows, workspace.recipe, workspace.command):
                workspace.log.warning("%s: %s", workspace.phase, line)
        return Position()

    def _go_further(self, position: Position, updates: int, history: History, workspace: Workspace) -> None:
        """Let a training that has stopped early go on, if it is given more patience or more updates than it had."""
        validation = self.validation
        if validation is None or not position.finished:
            return
        position.finished = on_main(lambda: validation.out_of_patience(history.scores(), position.forgiven), workspace)
        if position.finished and updates > position.end > 0:
            position.finished, position.forgiven = False, position.update

    def _validate(self, running: Running) -> float | None:
        """Validate, all processes together; None if one was cut short by a signal, and it is still due."""
        workspace, position, history = running.workspace, running.position, running.history
        validation, objective = self.validation, running.learner.objective
        assert validation is not None
        try:
            with running.stop.at_once(), same_randomness_after(workspace), running.learner.whole():
                torch.manual_seed(workspace.seed)  # masks that an objective draws are the same in each validation
                with torch.compiler.set_stance("force_eager"):  # a search would fill the cache with odd sizes
                    stream = validation.chosen(self.streams)
                    share = validation.share(objective, stream, workspace)
        except KeyboardInterrupt:
            share = None
        # From here on, a signal only asks: who left in the middle of this would be waited for.
        shares = [one for one in gather(share, workspace) if one is not None]
        if len(shares) < workspace.world:
            return None

        def measure() -> tuple[float, bool]:
            one = validation.judge(shares, objective, workspace)
            row = {"update": position.update, "epoch": position.epoch}
            history.add(row | {"validation": one.values, "score": one.score})
            workspace.log.info("%s: update %d, dev %s", workspace.phase, position.update, one)
            history.plot()
            return one.score, validation.out_of_patience(history.scores(), position.forgiven)

        position.due = False
        score, position.finished = on_main(measure, workspace)
        if position.finished:
            position.end = running.updates
            workspace.log.info(
                "%s: no better score in %d validations: it stops; with more patience or updates, it goes on from here",
                workspace.phase,
                validation.patience,
            )
        return score


def _share(workspace: Workspace) -> Part:
    from dragoman.shared.training.fsdp import share_of  # as below

    return share_of(workspace)


def _divided(objective: Objective, optimizer: torch.optim.Optimizer, workspace: Workspace) -> Shards:
    from dragoman.shared.training.fsdp import Shards  # a third of a second, which other runs need not wait

    workspace.log.info("%s: %d processes share parameters, gradients and moments", workspace.phase, workspace.world)
    return Shards(objective, optimizer, workspace)


def _steps(loader: Loader, position: Position) -> Generator[list[Batch], None, None]:
    """Yield the batches of each step for ever, from the position on, which says what comes after the last one taken."""
    while True:
        empty = True
        start = position.batch
        for number, batches in enumerate(loader.steps(position.epoch, start=start), start=1):
            empty = False
            position.batch = start + number
            yield batches
        if empty and position.batch == 0:
            raise DataError("the streams hold no batch: every row was filtered out")
        position.epoch += 1
        position.batch = 0


def _check_finite(running: Running) -> None:
    """Stop if an update was skipped since the last check; before a checkpoint, so that it comes before the error."""
    workspace = running.workspace
    ids = [name for names in gather(running.meter.skipped_rows(), workspace) for name in names]
    if ids:
        advice = "; in fp16 nothing may be above 65504: bf16 or fp32 may do" if workspace.precision == "fp16" else ""
        raise DataError(
            f"{workspace.phase}: shortly before update {running.position.update}, a loss or gradient was not finite "
            f"(such updates change nothing); the rows of the first such update are {', '.join(ids)}{advice}"
        )
