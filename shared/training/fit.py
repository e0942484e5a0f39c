"""The training loop: a phase that fits an objective to streams of batches.

One update = ``grad_accumulation_factor`` batches a process. Each part of the loss is divided by its own count over the
whole global batch (all accumulated batches of all ranks), before clipping; the device is never waited for inside a
step: what the progress bar shows is read every ``REPORT_EVERY`` updates.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from shared.batch import Batch
from shared.corpus.loader import Loader
from shared.corpus.stream import Stream
from shared.errors import DataError, UsageError
from shared.files import replaced_folder
from shared.objectives.objective import Loss, Objective
from shared.progress import progress_bar
from shared.training.checkpoints import Checkpoints, list_checkpoints, load_objective
from shared.training.distributed import add_up, barrier, join, wrap
from shared.training.history import History, Meter
from shared.training.initialise import Initialise
from shared.training.optimizer import Adam, set_learning_rate, step_if_finite
from shared.training.schedules import Schedule
from shared.training.validation import Validation
from shared.workspace import Phase, Workspace

REPORT_EVERY = 25


class Interrupted(DataError):
    """The run was asked to stop (Ctrl-C), has saved its state, and can go on from there."""


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
        initialise: parameters to take from model folders before the first update.
        grad_accumulation_factor: batches per update and process.
        max_grad_norm: the norm that the whole gradient is clipped to; 0 for no clipping.

    """

    def __init__(
        self,
        *,
        objective: Objective,
        streams: list[Stream],
        optimizer: Adam,
        schedule: Schedule,
        updates: int,
        validation: Validation | None = None,
        checkpoints: Checkpoints | None = None,
        initialise: list[Initialise] | None = None,
        grad_accumulation_factor: int = 1,
        max_grad_norm: float = 0.0,
    ) -> None:
        if updates < 1 or grad_accumulation_factor < 1 or max_grad_norm < 0:
            raise UsageError(
                "need updates >= 1, grad_accumulation_factor >= 1 and max_grad_norm >= 0, not "
                f"{updates}, {grad_accumulation_factor} and {max_grad_norm}"
            )
        self.objective, self.streams = objective, streams
        self.optimizer, self.schedule, self.updates = optimizer, schedule, updates
        self.validation, self.checkpoints = validation, checkpoints or Checkpoints()
        self.initialise = initialise or []
        self.accumulation, self.max_grad_norm = grad_accumulation_factor, max_grad_norm

    def run(self, workspace: Workspace) -> None:
        """Train until ``updates`` are done, validation stops it, or Ctrl-C."""
        join(workspace)
        updates = min(self.updates, 2) if workspace.debug else self.updates
        device = torch.device(workspace.device)
        objective = self.objective.to(device)
        optimizer = self.optimizer.build(objective)
        loader = Loader(
            streams=self.streams,
            seed=workspace.seed_for(workspace.phase, "data"),
            workers=workspace.workers,
            rank=workspace.rank,
            world=workspace.world,
            pin_memory=device.type == "cuda",
        )
        for line in loader.report():
            workspace.log.info("%s: %s", workspace.phase, line)
        history = History(workspace.folder)
        progress = self._restore(workspace, objective, optimizer)
        history.cut(progress["update"])
        if workspace.compile:
            compile_layers(objective)
        model = wrap(objective, workspace, several_streams=len(self.streams) > 1)
        if device.type == "cuda" and progress["update"] == 0:
            self._try_largest(model, objective, loader, workspace)
        source = _batches(loader, progress)
        meter = Meter(device)
        with _stop_signal() as stop, progress_bar(enabled=workspace.show_progress) as bar:
            task = bar.add_task(workspace.phase, total=updates, completed=progress["update"], status="")
            while progress["update"] < updates and not progress["finished"]:
                rate = self.schedule(progress["update"] + 1)
                set_learning_rate(optimizer, rate)
                batches = [next(source) for _ in range(self.accumulation)]
                self.update(model, objective, optimizer, batches, meter, workspace)
                progress["update"] += 1
                now = progress["update"]
                bar.update(task, completed=now)
                last = now == updates
                if now % REPORT_EVERY == 0 or last:
                    row = meter.read() | {"update": now, "epoch": progress["epoch"], "lr": rate}
                    _check_finite(row, batches)
                    history.add(row)
                    bar.update(task, status=_status(row))
                    if not workspace.show_progress and workspace.main and (now % (REPORT_EVERY * 8) == 0 or last):
                        workspace.log.info("%s: update %d of %d, %s", workspace.phase, now, updates, _status(row))
                due = self.validation is not None and (self.validation.due(now) or last)
                score = self._validate(objective, workspace, progress, history) if due else None
                if due or last or stop.asked or now % self.checkpoints.every == 0:
                    self._save(workspace, objective, optimizer, progress, score)
                if stop.asked and not last:
                    raise Interrupted(
                        f"{workspace.output}: stopped at update {now} of {updates}; the same command goes on from there"
                    )
        if workspace.main:
            history.plot()
        barrier(workspace)

    def update(
        self,
        model: nn.Module,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        batches: list[Batch],
        meter: Meter,
        workspace: Workspace,
    ) -> None:
        """Do one update on the batches of this process."""
        device = torch.device(workspace.device)
        meter.count(batches)
        model.eval()
        with torch.no_grad():
            on_device = [objective.prepare(batch.to(device)) for batch in batches]
        model.train()
        local: dict[str, Tensor] = {}
        for batch in on_device:
            for name, count in objective.counts(batch).items():
                local[name] = local[name] + count if name in local else count
        counts = add_up(local, workspace, device)
        for number, batch in enumerate(on_device, start=1):
            if isinstance(model, nn.parallel.DistributedDataParallel):
                model.require_backward_grad_sync = number == len(on_device)  # gradients travel once per update
            with workspace.autocast():
                loss: Loss = model(batch)
                # DDP averages over ranks; counts are global already, so the average has to become a sum again
                total = loss.total(counts) * workspace.world
            total.backward()
            meter.add(loss)
        norm = nn.utils.clip_grad_norm_(objective.parameters(), self.max_grad_norm or math.inf)
        meter.add_skipped(step_if_finite(optimizer, norm))
        meter.add_norm(norm)
        optimizer.zero_grad(set_to_none=True)

    def _try_largest(self, model: nn.Module, objective: Objective, loader: Loader, workspace: Workspace) -> None:
        """Run the largest batches once, without an update: what does not fit into memory is known at once."""
        state = torch.get_rng_state(), torch.cuda.get_rng_state()
        for batch in loader.largest():
            try:
                with workspace.autocast():
                    total = model(objective.prepare(batch.to(workspace.device))).total()
                total.backward()
            except torch.OutOfMemoryError as error:
                shapes = {name: tuple(field.values.shape) for name, field in batch.fields.items()}
                raise DataError(
                    f"stream {batch.stream!r}: a batch of {shapes} does not fit into the GPU's memory; "
                    "make the budget smaller and grad_accumulation_factor larger"
                ) from error
        objective.zero_grad(set_to_none=True)
        torch.set_rng_state(state[0])
        torch.cuda.set_rng_state(state[1])

    def _restore(self, workspace: Workspace, objective: Objective, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Load the newest checkpoint, or initialise; return the position: update, epoch, batch, finished."""
        found = list_checkpoints(workspace.folder / "checkpoints")
        if not found:
            for initialise in self.initialise:
                for line in initialise.apply(objective.system):
                    workspace.log.info("%s: %s", workspace.phase, line)
            if workspace.main:
                with replaced_folder(workspace.folder / "system") as temporary:
                    objective.system.save_description(temporary)
            parameters = sum(p.numel() for p in objective.parameters() if p.requires_grad)
            workspace.log.info("%s: %.2f M trainable parameters", workspace.phase, parameters / 1e6)
            return {"update": 0, "epoch": 0, "batch": 0, "finished": False}
        newest = found[-1]
        load_objective(objective, newest)
        training = newest.training()
        optimizer.load_state_dict(training["optimizer"])
        torch.set_rng_state(training["random"]["cpu"])
        if training["random"]["cuda"] and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(training["random"]["cuda"])
        progress = dict(training["progress"])
        workspace.log.info("%s: going on after update %d", workspace.phase, progress["update"])
        return progress

    def _save(
        self,
        workspace: Workspace,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        progress: dict[str, Any],
        score: float | None,
    ) -> None:
        if workspace.main:
            cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
            training = {
                "optimizer": optimizer.state_dict(),
                "random": {"cpu": torch.get_rng_state(), "cuda": cuda},
                "progress": dict(progress),
            }
            meta = {"update": progress["update"], "epoch": progress["epoch"], "score": score}
            self.checkpoints.save(workspace.folder / "checkpoints", objective, training, meta)
        barrier(workspace)

    def _validate(
        self, objective: Objective, workspace: Workspace, progress: dict[str, Any], history: History
    ) -> float | None:
        assert self.validation is not None
        state = torch.get_rng_state()
        row = self.validation.run(objective, self.streams[0], workspace)
        torch.set_rng_state(state)
        history.add(
            {
                "update": progress["update"],
                "epoch": progress["epoch"],
                "validation": row.values,
                "score": row.score,
            }
        )
        workspace.log.info("%s: update %d, dev %s", workspace.phase, progress["update"], row)
        if workspace.main:
            history.plot()
        if self.validation.out_of_patience([past["score"] for past in history.rows() if "validation" in past]):
            workspace.log.info("%s: no better score in %d validations", workspace.phase, self.validation.patience)
            progress["finished"] = True
        return row.score


def _batches(loader: Loader, progress: dict[str, Any]) -> Iterator[Batch]:
    """Yield batches for ever, from the position on; ``progress`` always says what comes after the last one taken."""
    while True:
        empty = True
        for batch in loader.epoch(progress["epoch"], start=progress["batch"]):
            empty = False
            progress["batch"] += 1
            yield batch
        if empty and progress["batch"] == 0:
            raise DataError("the streams hold no batch: every row was filtered out")
        progress["epoch"] += 1
        progress["batch"] = 0


def compile_layers(objective: nn.Module) -> None:
    """Compile the layers of encoder and decoder, for any length."""
    from shared.nn.transformer import Layer

    for module in objective.modules():
        if isinstance(module, Layer):
            module.compile(dynamic=True)


def _check_finite(row: dict[str, Any], batches: list[Batch]) -> None:
    if row["skipped"]:
        ids = [name for batch in batches for name in batch.ids]
        raise DataError(
            f"update {row['update']}: {row['skipped']:.0f} updates since the last report had a loss or gradient that "
            f"is not finite (they changed nothing); the newest rows are {', '.join(ids[:8])}"
        )


def _status(row: dict[str, Any]) -> str:
    parts = " ".join(f"{name} {value:.3f}" for name, value in row["parts"].items())
    return f"{parts} | {row['tokens_per_second']:,.0f} tokens/s | lr {row['lr']:.2e}"


class _stop_signal:  # noqa: N801 - reads as a verb where it is used
    """While it is entered, the first Ctrl-C (or SIGTERM) sets ``asked``; the second one stops at once."""

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> _stop_signal:
        self.before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, _frame: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
