"""The arm of the library transformers in benchmarks/text_training.py: M2M100's model, torch's fused AdamW.

Attention is torch's (``sdpa``), the loss torch's own; no Trainer stands around it, so this is the best it can do.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import transformers
from torch.nn import functional as F
from transformers import M2M100Config, M2M100ForConditionalGeneration

from benchmarks.text_training import CHECKED, END, PADDING, Work, padded, target_tokens
from benchmarks.training import BETAS, CLIP, EPSILON, SMOOTHING, fill, worker
from benchmarks.worker import serve

IGNORED = -100


class Trainer:
    """A model with its optimiser."""

    def __init__(self, work: Work, dropout: float, rate: float) -> None:
        self.work = work
        config = M2M100Config(
            vocab_size=work.vocabulary,
            d_model=work.width,
            encoder_layers=work.layers,
            decoder_layers=work.layers,
            encoder_attention_heads=work.heads,
            decoder_attention_heads=work.heads,
            encoder_ffn_dim=work.feedforward,
            decoder_ffn_dim=work.feedforward,
            dropout=dropout,
            attention_dropout=0.0,
            activation_dropout=0.0,
            encoder_layerdrop=0.0,
            decoder_layerdrop=0.0,
            scale_embedding=True,
            use_cache=False,
            attn_implementation="sdpa",
        )
        self.model = M2M100ForConditionalGeneration(config)
        fill(
            (name.removeprefix("model.").replace("shared.", "encoder.embed_tokens."), values)
            for name, values in self.model.named_parameters()
        )
        self.model.to(work.device)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=rate, betas=BETAS, eps=EPSILON, weight_decay=0.0, fused=True
        )
        if work.compile:
            self.model.compile(dynamic=True)

    def losses_of(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the loss per token."""
        vocabulary = self.work.vocabulary
        on_device = {name: values.to(self.work.device, non_blocking=True) for name, values in batch.items()}
        labels = on_device.pop("labels")
        context: Any = nullcontext()
        if self.work.precision == "bf16":
            context = torch.autocast(self.work.device.split(":")[0], dtype=torch.bfloat16)
        with context:
            logits = self.model(**on_device).logits
            return F.cross_entropy(
                logits.view(-1, vocabulary),
                labels.view(-1),
                ignore_index=IGNORED,
                label_smoothing=SMOOTHING * vocabulary / (vocabulary - 1),  # as fairseq divides it
            )

    def update(self, batch: dict[str, torch.Tensor]) -> None:
        """Do one update."""
        self.model.train()
        self.losses_of(batch).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    @torch.no_grad()
    def loss(self, batch: dict[str, torch.Tensor]) -> float:
        """Return the loss per token, without dropout."""
        self.model.eval()
        return self.losses_of(batch).item()


def batch_of(pairs: list[tuple[list[int], list[int]]]) -> dict[str, torch.Tensor]:
    """Make a batch."""
    source = torch.tensor(padded(source for source, _ in pairs))
    labels = torch.tensor(padded(target for _, target in pairs))
    prefix = torch.tensor(padded([END, *target[:-1]] for _, target in pairs))
    return {
        "input_ids": source,
        "attention_mask": (source != PADDING).long(),
        "decoder_input_ids": prefix,
        "labels": labels.masked_fill(labels == PADDING, IGNORED),
    }


def setup() -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
    """Set up, as :func:`benchmarks.worker.serve` wants it."""
    work = Work.of_argument()
    pairs = work.pairs()
    return worker(
        lambda dropout, rate: Trainer(work, dropout, rate),
        [batch_of(some) for some in pairs],
        batch_of(pairs[-1][:CHECKED]),
        target_tokens(pairs),
        work.device,
        transformers=transformers.__version__,
    )


if __name__ == "__main__":
    serve(setup)
