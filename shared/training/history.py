"""The record of a training run: sums between reports, ``history.jsonl``, TensorBoard, trackers and the curve.

TensorBoard and matplotlib are extras: without them, a training says once that their files are left out.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, NotRequired

import torch
from torch import Tensor

from dragoman.shared.batch import Batch
from dragoman.shared.errors import DataError
from dragoman.shared.machine.extras import present
from dragoman.shared.machine.files import replaced_file, sync
from dragoman.shared.machine.records import parse_record
from dragoman.shared.objectives.objective import Loss
from dragoman.shared.sound.audio import SAMPLE_RATE
from dragoman.shared.training.tracking import Trackers

#: What the rows of a history say, of training or of a validation.
_ROW: dict[str, Any] = {
    "update": int,
    "loss": NotRequired[float],
    "parts": NotRequired[dict[str, float]],
    "lr": NotRequired[float],
    "validation": NotRequired[dict[str, float]],
    "score": NotRequired[float],
}
_SCALARS = ("lr", "grad_norm", "loss_scale", "tokens_per_second", "sound_per_second")


class Meter:
    """Sums on the device between two reports; ``state`` and ``skipped_rows`` alone wait for it."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start anew."""
        # By name and weight: streams may weigh terms of one name differently, and a weight may grow with the update.
        self.sums: dict[str, dict[float, Tensor | float]] = {}
        self.counts: dict[str, Tensor | float] = {}
        self.norm: Tensor | float = 0.0
        self.updates: Tensor | int = 0
        self.tokens = 0
        self.sound = 0.0
        self.skipped: list[Tensor] = []
        self.ids: list[list[str]] = []
        self.started = time.monotonic()

    def count(self, batches: list[Batch]) -> None:
        """Count the target tokens of batches on the CPU, or else sound, or else source tokens; remember rows."""
        self.ids.append([name for batch in batches for name in batch.ids])
        for batch in batches:
            if "target" in batch:
                self.tokens += int(batch["target"].lengths.sum())
            elif "speech" in batch:
                self.sound += int(batch["speech"].lengths.sum()) / SAMPLE_RATE
            elif "source" in batch:
                self.tokens += int(batch["source"].lengths.sum())

    def add(self, loss: Loss) -> None:
        """Add a loss to the running sums."""
        for name, term in loss.parts.items():
            sums = self.sums.setdefault(name, {})
            sums[term.weight] = sums.get(term.weight, 0.0) + term.sum.detach()
            self.counts[name] = self.counts.get(name, 0.0) + term.count

    def add_update(self, norm: Tensor, skipped: Tensor) -> None:
        """Add an update's gradient norm, and the flag (1.0) of one that was skipped and must not have been.

        In fp16 some are skipped, which changes nothing but the scale of the next loss: their norm counts for nothing.
        """
        done = torch.isfinite(norm)
        self.norm = self.norm + norm.where(done, 0)
        self.updates = self.updates + done
        self.skipped.append(skipped)

    def skipped_rows(self) -> list[str]:
        """Return the ids of the rows of the first update that was skipped, none if all were done."""
        flags = torch.stack(self.skipped).tolist() if self.skipped else []
        return next((ids for ids, flag in zip(self.ids, flags, strict=True) if flag), [])

    def state(self) -> dict[str, Any]:
        """Return the sums since the last report, as plain data."""
        return {
            "sums": {name: {w: float(value) for w, value in sums.items()} for name, sums in self.sums.items()},
            "counts": {name: float(value) for name, value in self.counts.items()},
            "norm": float(self.norm),
            "updates": int(self.updates),
            "tokens": self.tokens,
            "sound": self.sound,
            "seconds": time.monotonic() - self.started,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what ``state`` has returned."""
        weights = state.get("weights", {})  # older checkpoints have one weight of each name, and one sum
        self.sums = {n: {weights[n]: sums} if n in weights else dict(sums) for n, sums in state["sums"].items()}
        self.counts = dict(state["counts"])
        self.norm = state["norm"]
        self.updates = state["updates"]
        self.tokens = state["tokens"]
        self.sound = state.get("sound", 0.0)  # older checkpoints lack it
        self.started = time.monotonic() - state["seconds"]


def report(states: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the means of what the meters of all ranks have seen.

    "tokens_per_second" is of target tokens, "sound_per_second" of seconds of sound in batches without them, if any;
    in batches with neither, source tokens count.
    """
    parts: dict[str, float] = {}
    loss = 0.0
    for name in {name: None for state in states for name in state["sums"]}:
        count = max(1.0, sum(state["counts"].get(name, 0.0) for state in states))
        sums: dict[float, float] = {}
        for state in states:
            for weight, value in state["sums"].get(name, {}).items():
                sums[weight] = sums.get(weight, 0.0) + value
        parts[name] = sum(sums.values()) / count
        loss += sum(weight * (value / count) for weight, value in sums.items())
    seconds = max(1e-9, states[0]["seconds"])
    sound = sum(state["sound"] for state in states)
    row = {
        "loss": loss,
        "parts": parts,
        "grad_norm": states[0]["norm"] / max(1, states[0]["updates"]),  # of the whole gradient, so the same on all
        "tokens_per_second": sum(state["tokens"] for state in states) / seconds,
    }
    return row | ({"sound_per_second": sound / seconds} if sound else {})


def status(row: dict[str, Any]) -> str:
    """Return a row of :func:`report` on a line."""
    parts = " ".join(f"{name} {value:.3f}" for name, value in row["parts"].items())
    speeds = [f"{row['tokens_per_second']:,.0f} tokens/s"] if row["tokens_per_second"] else []
    speeds += [f"{row['sound_per_second']:,.0f} s of sound/s"] if "sound_per_second" in row else []
    return " | ".join([parts, *speeds, f"lr {row['lr']:.2e}"])


class History:
    """The record of a training run: rows of JSON, a TensorBoard file, ``training.png``.

    Args:
        folder: where they are.
        writing: whether to write them; False makes ``cut``, ``add`` and ``plot`` do nothing (ranks other than 0).
        trackers: what gets the numbers as well.
    """

    def __init__(self, folder: Path, *, writing: bool = True, trackers: Trackers | None = None) -> None:
        self.folder = folder
        self.writing = writing
        self.trackers = trackers if writing else None
        self.path = folder / "history.jsonl"
        self.writer: Any = None

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows, oldest first; a last one that a kill has cut off does not count.

        Raises:
            DataError: naming a line that is not a row.
        """
        if not self.path.is_file():
            return []
        try:
            lines = self.path.read_text(encoding="utf-8").split("\n")[:-1]
        except UnicodeDecodeError as error:
            raise DataError(f"{self.path}: not a history ({error})") from error
        rows = []
        for number, line in enumerate(lines, start=1):
            rows.append(parse_record(line, f"{self.path}, line {number}", _ROW, "a row of a history"))
        return rows

    def scores(self) -> dict[int, float]:
        """Return the score of each validation by its update."""
        return {row["update"]: row["score"] for row in self.rows() if "score" in row}

    def cut(self, update: int) -> None:
        """Begin after an update, and forget what came after it (it will be done again).

        Raises:
            DataError: as :meth:`rows`.
            UsageError: if a tracker cannot begin.
        """
        if not self.writing:
            return
        rows = [row for row in self.rows() if row["update"] <= update]
        with replaced_file(self.path) as temporary:
            temporary.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        if self.trackers is not None:  # last: after an error, nobody would end them
            self.trackers.begin(self.folder)

    def add(self, row: dict[str, Any]) -> None:
        """Append a row: means since the last report, or ``validation`` scores."""
        if not self.writing:
            return
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            raise DataError(f"{self.path}: cannot be written ({error.strerror})") from error
        if self.writer is None and present("tensorboard", "tensorboard", "curves are not written for TensorBoard"):
            from torch.utils.tensorboard import SummaryWriter

            self.writer = SummaryWriter(str(self.folder / "tensorboard"), purge_step=row["update"])
        scalars = {f"validation/{name}": value for name, value in row.get("validation", {}).items()}
        scalars |= {f"train/{name}": value for name, value in row.get("parts", {}).items()}
        scalars |= {f"train/{name}": row[name] for name in _SCALARS if name in row}
        if self.writer is not None:
            for name, value in scalars.items():
                self.writer.add_scalar(name, value, row["update"])
            self.writer.flush()
        if self.trackers is not None:
            self.trackers.track(scalars, row["update"])

    def sync(self) -> None:
        """Flush the rows to the disk: a checkpoint after which they are missing would be worth less."""
        if self.writing and self.path.is_file():
            sync(self.path)

    def plot(self) -> None:
        """Draw ``training.png``, if matplotlib is there."""
        if not self.writing or not present("matplotlib", "plots", "training.png is not drawn"):
            return
        from dragoman.shared.evaluation.plots import plot_training

        plot_training(self.rows(), self.folder / "training.png")

    def close(self) -> None:
        """Finish the TensorBoard file, and tell the trackers."""
        try:
            if self.writer is not None:
                self.writer.close()
        finally:
            if self.trackers is not None:
                self.trackers.close()
