"""fairseq's Trainer for the training benchmarks, on a torch that is years younger; runs in fairseq's environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import metrics
from fairseq.modules import TransformerEncoderLayer
from fairseq.trainer import Trainer

from benchmarks.training import BETAS, CLIP, EPSILON, SMOOTHING, fill


def work_on_current_torch() -> None:
    """Undo what keeps fairseq 0.12.2 from running on it, or from being measured.

    It takes a fast path for inference that is not torch's any more, and forgets the peak of a GPU's memory after each
    update.
    """
    build = TransformerEncoderLayer.__init__

    def without_fast_path(self: Any, *given: Any, **named: Any) -> None:
        build(self, *given, **named)
        self.can_use_fastpath = False

    TransformerEncoderLayer.__init__ = without_fast_path
    torch.cuda.reset_peak_memory_stats = lambda *_: None  # benchmarks/training.py has a name of its own for it


class FairseqTrainer:
    """Model, criterion and Trainer as fairseq-train builds them, without data on disk.

    Args:
        flags: of fairseq-train: task and model.
        build_task: makes the task from its settings.
        work: with ``precision`` and ``device``.
        dropout: of embeddings and sub-layers.
        rate: the learning rate.
        criterion: its flags; cross entropy with label smoothing by default.

    """

    def __init__(
        self,
        flags: list[str],
        build_task: Callable[[Any], Any],
        work: Any,
        dropout: float,
        rate: float,
        criterion: Sequence[str] = ("--criterion", "label_smoothed_cross_entropy", "--label-smoothing", str(SMOOTHING)),
    ) -> None:
        flags = [*flags, "--dropout", str(dropout), "--attention-dropout", "0", "--activation-dropout", "0"]
        flags += criterion
        flags += ["--optimizer", "adam", "--adam-betas", str(BETAS), "--adam-eps", str(EPSILON)]
        flags += ["--lr-scheduler", "fixed", "--lr", str(rate), "--clip-norm", str(CLIP), "--max-tokens", "100000"]
        flags += ["--distributed-world-size", "1"]
        flags += ["--cpu"] * (work.device == "cpu") + ["--bf16"] * (work.precision == "bf16")
        parser = options.get_training_parser()
        settings = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, flags))
        settings.common.tpu = False  # implied by --bf16, which GPUs and CPUs can do as well
        task = build_task(settings.task)
        self.model = task.build_model(settings.model)
        fill((name.replace("transformer_layers", "layers"), x) for name, x in self.model.named_parameters())
        self.criterion = task.build_criterion(settings.criterion)
        self.trainer = Trainer(settings, task, self.model, self.criterion)
        self.trainer.lr_step_begin_epoch(1)

    def update(self, batch: dict[str, Any]) -> None:
        """Do one update."""
        with metrics.aggregate(new_root=True):
            self.trainer.train_step([batch], raise_oom=True)  # or it would leave the update out

    @torch.no_grad()
    def loss(self, batch: dict[str, Any]) -> float:
        """Return the loss per token, without dropout."""
        self.model.eval()
        batch, _ = self.trainer._prepare_sample(batch)
        loss, size, _ = self.criterion(self.model, batch)
        return float(loss) / float(size)
