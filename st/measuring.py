"""The phase that takes means and deviations of features over a corpus."""

from __future__ import annotations

from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from dragoman.shared.batches.find import find_manifests
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.batches.stream import Budget
from dragoman.shared.errors import DataError
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.machine.processes import MainPhase
from dragoman.shared.machine.progress import progress_bar
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases.evaluating import opened
from dragoman.shared.ranges import NonNegativeInt


class MeasureFeatures(MainPhase):
    """Take the mean and the standard deviation of each feature over all frames of recordings (fairseq's global CMVN).

    Writes ``features.safetensors``: "mean" and "deviation", (F,) float32, by which ``FeatureStatistics`` fills a
    GlobalNorm.

    Args:
        manifests: of the recordings, as paths or patterns.
        frontend: waveforms (B, N) to features (B, T, F), such as an Fbank.
        budget: the size of a batch.
        limit: how many recordings of each manifest are looked at, from the first; 0: all.
    """

    def __init__(self, *, manifests: list[str], frontend: nn.Module, budget: Budget, limit: NonNegativeInt = 0) -> None:
        self.manifests = list(manifests)
        self.frontend = frontend
        self.budget = budget
        self.limit = limit

    @torch.inference_mode()
    def work(self, workspace: Workspace) -> None:
        """Measure, and write what was measured.

        Raises:
            DataError: if there is no recording, or one cannot be read.
        """
        self.frontend.eval().to(workspace.device)
        frames, total, squares = 0, torch.zeros(()), torch.zeros(())
        for path in find_manifests(self.manifests):
            manifest = opened(path, workspace)
            rows = manifest.select(range(min(self.limit or len(manifest), len(manifest))))
            fields: dict[str, Any] = {"speech": SpeechField()}
            with progress_bar(enabled=workspace.show_progress) as bar:
                task = bar.add_task("measuring", total=len(rows), status="")
                for batch, numbers in Loader.evaluation(rows, fields, self.budget, workspace.workers):
                    features = self.frontend(batch.to(workspace.device)["speech"])
                    real = features.values[features.mask].double().cpu()
                    frames, total = frames + len(real), total + real.sum(0)
                    squares = squares + real.square().sum(0)
                    bar.advance(task, len(numbers))
        if not frames:
            raise DataError(f"{' '.join(self.manifests)}: hold no recording to measure features of")
        mean = total / frames
        deviation = (squares / frames - mean.square()).clamp(min=0).sqrt()
        workspace.folder.mkdir(parents=True, exist_ok=True)
        with replaced_file(workspace.folder / "features.safetensors") as temporary:
            save_file({"mean": mean.float(), "deviation": deviation.float()}, temporary)
        workspace.log.info("%s: %d features of %s frames", workspace.phase, len(mean), f"{frames:,}")
