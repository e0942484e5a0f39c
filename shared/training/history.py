"""What is remembered of a training run: running means, ``history.jsonl``, TensorBoard and the curve."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shared.batch import Batch
from shared.files import replaced_file
from shared.objectives.objective import Loss


class Meter:
    """Sums on the device between two reports; ``read`` is the only place that waits for it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.reset()

    def reset(self) -> None:
        """Start anew."""
        self.sums: dict[str, Tensor] = {}
        self.counts: dict[str, Tensor] = {}
        self.weights: dict[str, float] = {}
        self.skipped = torch.zeros((), device=self.device)
        self.norm = torch.zeros((), device=self.device)
        self.updates = 0
        self.tokens = 0
        self.started = time.monotonic()

    def count(self, batches: list[Batch]) -> None:
        """Count the target tokens of batches that are still on the CPU."""
        for batch in batches:
            if "target" in batch:
                self.tokens += int(batch["target"].lengths.sum())

    def add(self, loss: Loss) -> None:
        """Add a loss to the running sums."""
        for name, term in loss.parts.items():
            self.sums[name] = self.sums.get(name, 0.0) + term.sum.detach()
            self.counts[name] = self.counts.get(name, 0) + term.count
            self.weights[name] = term.weight

    def add_skipped(self, skipped: Tensor) -> None:
        """Add the flag of an update."""
        self.skipped = self.skipped + skipped
        self.updates += 1

    def add_norm(self, norm: Tensor) -> None:
        """Add a gradient norm."""
        self.norm = self.norm + norm

    def read(self) -> dict[str, Any]:
        """Return the means since the last report, and start anew."""
        parts = {
            name: float(total) / max(1.0, float(self.counts[name])) if torch.isfinite(total) else float(total)
            for name, total in self.sums.items()
        }
        row = {
            "loss": sum(self.weights[name] * value for name, value in parts.items()),
            "parts": parts,
            "grad_norm": float(self.norm) / max(1, self.updates),
            "skipped": float(self.skipped),
            "tokens_per_second": self.tokens / max(1e-9, time.monotonic() - self.started),
        }
        self.reset()
        return row


class History:
    """The record of a training run: rows of JSON, a TensorBoard file, ``training.png``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "history.jsonl"
        self.writer: Any = None

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows, oldest first."""
        if not self.path.is_file():
            return []
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").split("\n") if line.endswith("}")]

    def cut(self, update: int) -> None:
        """Forget what came after an update (it will be done again)."""
        rows = [row for row in self.rows() if row["update"] <= update]
        with replaced_file(self.path) as temporary:
            temporary.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def add(self, row: dict[str, Any]) -> None:
        """Append a row: means since the last report, or ``validation`` scores."""
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if self.writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self.writer = SummaryWriter(str(self.folder / "tensorboard"), purge_step=row["update"])
        scalars = {f"validation/{name}": value for name, value in row.get("validation", {}).items()}
        scalars |= {f"train/{name}": value for name, value in row.get("parts", {}).items()}
        scalars |= {f"train/{name}": row[name] for name in ("lr", "grad_norm", "tokens_per_second") if name in row}
        for name, value in scalars.items():
            self.writer.add_scalar(name, value, row["update"])

    def plot(self) -> None:
        """Draw ``training.png``."""
        from shared.evaluation.plots import plot_training

        if self.writer is not None:
            self.writer.flush()
        plot_training(self.rows(), self.folder / "training.png")
