"""fairseq's arm of benchmarks/waveform_training.py: wav2vec2, its criterion, its Trainer; in fairseq's environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fairseq
import numpy as np
import torch
from fairseq import tasks
from torch import Tensor

from benchmarks import waveform_training as setting
from benchmarks.fairseq_training import FairseqTrainer, work_on_current_torch
from benchmarks.training import without_noise, worker
from benchmarks.waveform_training import Drawn, Work, frames_of, sounds
from benchmarks.worker import serve


class PretrainingTrainer(FairseqTrainer):
    """Trains wav2vec 2.0; with ``given`` distractors, codes are chosen without noise."""

    def __init__(self, work: Work, dropout: float, rate: float, given: Drawn | None) -> None:
        convolutions = [(work.channels, kernel, stride) for kernel, stride in setting.CONVOLUTIONS]
        flags = [".", "--task", "audio_pretraining", "--arch", "wav2vec2", "--conv-feature-layers", str(convolutions)]
        flags += ["--encoder-layers", str(work.layers), "--encoder-embed-dim", str(work.width)]
        flags += ["--encoder-ffn-embed-dim", str(work.feedforward), "--encoder-attention-heads", str(work.heads)]
        flags += ["--conv-pos", str(setting.POSITIONS), "--conv-pos-groups", str(setting.POSITION_GROUPS)]
        flags += ["--quantize-targets", "--latent-vars", str(work.entries), "--latent-groups", str(setting.GROUPS)]
        flags += ["--latent-dim", str(work.codes_width), "--final-dim", str(work.codes_width)]
        flags += [
            "--latent-temp",
            f"({setting.CODE_TEMPERATURE},{setting.CODE_TEMPERATURE},1.0)",
            "--logit-temp",
            str(setting.TEMPERATURE),
        ]
        flags += ["--mask-prob", str(setting.MASKED_SHARE), "--mask-length", str(setting.SPAN)]
        flags += ["--num-negatives", str(work.distractors)]
        flags += ["--dropout-input", str(dropout), "--dropout-features", str(dropout)]
        criterion = ["--criterion", "wav2vec", "--infonce", "--loss-weights", f"[{setting.DIVERSITY}, 0.0]"]
        super().__init__(flags, tasks.setup_task, work, dropout, rate, criterion)
        self.check = given is not None
        if given is not None:
            distractors = torch.tensor(given[1])  # (B, M, K)
            self.model.sample_negatives = lambda y, *_, **__: (chosen(y, distractors), None)

    def update(self, batch: dict[str, Any]) -> None:
        """Do one update."""
        with without_noise(self.check):
            super().update(batch)

    @torch.no_grad()
    def loss(self, batch: dict[str, Any]) -> float:
        """Return the loss per masked frame, without dropout."""
        self.model.eval()
        self.model.quantizer.train()
        with without_noise(True):
            loss, size, _ = self.criterion(self.model, self.trainer._prepare_sample(batch)[0])
        return float(loss) / float(size)


def chosen(y: Tensor, distractors: Tensor) -> Tensor:
    """Return (K, B, M, C): of the masked frames y (B, M, C) those whose numbers are given (B, M, K)."""
    rows = torch.arange(len(y))[:, None, None]
    return y[rows, distractors.to(y.device)].permute(2, 0, 1, 3)


def batch_of(waveforms: Tensor, given: Drawn | None = None) -> dict[str, Any]:
    """Make a batch."""
    net_input = {"source": waveforms}
    if given is not None:
        masked = np.zeros((len(waveforms), frames_of(waveforms.shape[1])), bool)
        np.put_along_axis(masked, np.array(given[0]), True, 1)
        net_input["mask_indices"] = torch.from_numpy(masked)
    return {"id": torch.arange(len(waveforms)), "net_input": net_input}


def setup() -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
    """Set up, as :func:`benchmarks.worker.serve` wants it."""
    work_on_current_torch()
    work = Work.of_argument()
    given = work.drawn()
    return worker(
        lambda dropout, rate: (
            PretrainingTrainer(work, dropout, rate, None)
            if dropout
            else PretrainingTrainer(work.exact, 0.0, rate, given)
        ),
        [batch_of(sounds(work.rows, work.seconds))],
        batch_of(sounds(*setting.CHECKED), given),
        work.rows * work.seconds,
        work.device,
        fairseq=fairseq.__version__,
    )


if __name__ == "__main__":
    serve(setup)
