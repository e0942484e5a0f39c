"""The arm of the library transformers in benchmarks/waveform_training.py: Wav2Vec2ForPreTraining, torch's fused AdamW.

Attention is torch's (``sdpa``); no Trainer stands around it, so this is the best it can do.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor
from transformers import Wav2Vec2Config, Wav2Vec2ForPreTraining
from transformers.models.wav2vec2.modeling_wav2vec2 import _compute_mask_indices, _sample_negative_indices

from benchmarks import waveform_training as setting
from benchmarks.training import BETAS, CLIP, EPSILON, fill, without_noise, worker
from benchmarks.waveform_ours import names, objective_of, plan
from benchmarks.waveform_training import Drawn, Work, frames_of, sounds
from benchmarks.worker import serve
from dragoman.exchange.huggingface import hf_wav2vec2
from dragoman.exchange.wav2vec2_model import counterparts


def names_of_fairseq(work: Work) -> dict[str, str]:
    """Return fairseq's names of parameters by those of transformers."""
    with torch.device("meta"):
        model = objective_of(work, 0.0).model
    whole = hf_wav2vec2.names_of(plan(work, 0.0))
    pairs = [(counterparts(name, whole, hf_wav2vec2.PARTS), names(name, work)) for name, _ in model.named_parameters()]
    return {theirs: known for parts, others in pairs for theirs, known in zip(parts, others, strict=True)}


class Trainer:
    """A model with its optimiser; ``check`` leaves out the noise of choosing codes."""

    def __init__(self, work: Work, dropout: float, rate: float, check: bool) -> None:
        self.work, self.check = work, check
        config = Wav2Vec2Config(
            hidden_size=work.width,
            num_hidden_layers=work.layers,
            num_attention_heads=work.heads,
            intermediate_size=work.feedforward,
            hidden_dropout=dropout,
            attention_dropout=0.0,
            activation_dropout=0.0,
            feat_proj_dropout=dropout,
            feat_quantizer_dropout=dropout,
            layerdrop=0.0,
            conv_dim=[work.channels] * len(setting.CONVOLUTIONS),
            conv_kernel=[kernel for kernel, _ in setting.CONVOLUTIONS],
            conv_stride=[stride for _, stride in setting.CONVOLUTIONS],
            num_conv_pos_embeddings=setting.POSITIONS,
            num_conv_pos_embedding_groups=setting.POSITION_GROUPS,
            num_codevectors_per_group=work.entries,
            num_codevector_groups=setting.GROUPS,
            codevector_dim=work.codes_width,
            proj_codevector_dim=work.codes_width,
            num_negatives=work.distractors,
            contrastive_logits_temperature=setting.TEMPERATURE,
            diversity_loss_weight=setting.DIVERSITY,
            attn_implementation="sdpa",
        )
        self.model = Wav2Vec2ForPreTraining(config)
        known = names_of_fairseq(work)
        fill((known[name.removeprefix("wav2vec2.")], values) for name, values in self.model.named_parameters())
        self.model.set_gumbel_temperature(setting.CODE_TEMPERATURE)
        self.model.to(work.device)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=rate, betas=BETAS, eps=EPSILON, weight_decay=0.0, fused=True
        )

    def loss_of(self, batch: dict[str, Tensor]) -> Tensor:
        """Return the loss per masked frame."""
        on_device = {name: values.to(self.work.device, non_blocking=True) for name, values in batch.items()}
        context: Any = nullcontext()
        if self.work.precision == "bf16":
            context = torch.autocast(self.work.device.split(":")[0], dtype=torch.bfloat16)
        with context:
            return self.model(**on_device).loss / on_device["mask_time_indices"].sum()

    def update(self, batch: dict[str, Tensor]) -> None:
        """Do one update."""
        self.model.train()
        with without_noise(self.check):
            self.loss_of(batch).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    @torch.no_grad()
    def loss(self, batch: dict[str, Tensor]) -> float:
        """Return the loss per masked frame, without dropout."""
        self.model.eval()
        self.model.quantizer.train()
        with without_noise(True):
            return self.loss_of(batch).item()


def batch_of(waveforms: Tensor, masked: np.ndarray, distractors: np.ndarray) -> dict[str, Tensor]:
    """Make a batch."""
    return {
        "input_values": waveforms,
        "mask_time_indices": torch.from_numpy(masked),
        "sampled_negative_indices": torch.from_numpy(distractors),
    }


def with_drawn(waveforms: Tensor, work: Work) -> dict[str, Tensor]:
    """Make a batch with masks and distractors as the library draws them."""
    shape = (len(waveforms), frames_of(waveforms.shape[1]))
    masked = _compute_mask_indices(shape, setting.MASKED_SHARE, setting.SPAN, min_masks=2)
    return batch_of(waveforms, masked, _sample_negative_indices(shape, work.distractors, masked))


def with_given(waveforms: Tensor, work: Work, given: Drawn) -> dict[str, Tensor]:
    """Make a batch with given masks and distractors, which are numbered through the batch here."""
    rows, frames = len(waveforms), frames_of(waveforms.shape[1])
    masked, distractors = np.zeros((rows, frames), bool), np.zeros((rows, frames, work.distractors), int)
    for row, (steps, others) in enumerate(zip(*given, strict=True)):
        masked[row, steps] = True
        distractors[row, steps] = row * frames + np.array(steps)[np.array(others)]
    return batch_of(waveforms, masked, distractors)


def setup() -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
    """Set up, as :func:`benchmarks.worker.serve` wants it."""
    work = Work.of_argument()
    np.random.seed(1)
    return worker(
        lambda dropout, rate: Trainer(work if dropout else work.exact, dropout, rate, check=not dropout),
        [with_drawn(sounds(work.rows, work.seconds), work)],
        with_given(sounds(*setting.CHECKED), work, work.drawn()),
        work.rows * work.seconds,
        work.device,
        transformers=transformers.__version__,
    )


if __name__ == "__main__":
    serve(setup)
