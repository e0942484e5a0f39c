"""fairseq's arm of benchmarks/text_training.py: its Trainer's train_step; runs in fairseq's own environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fairseq
import torch
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationTask

from benchmarks.fairseq_training import FairseqTrainer, work_on_current_torch
from benchmarks.text_training import CHECKED, END, Work, padded, target_tokens
from benchmarks.training import worker
from benchmarks.worker import serve


def trainer(work: Work, dropout: float, rate: float) -> FairseqTrainer:
    """Build model, criterion and trainer as fairseq-train does."""
    flags = ["data-bin", "--task", "translation", "-s", "en", "-t", "de", "--arch", "transformer"]
    flags += ["--share-all-embeddings", "--encoder-normalize-before", "--decoder-normalize-before"]
    for side in ("encoder", "decoder"):
        flags += [f"--{side}-layers", str(work.layers), f"--{side}-embed-dim", str(work.width)]
        flags += [f"--{side}-ffn-embed-dim", str(work.feedforward), f"--{side}-attention-heads", str(work.heads)]
    symbols = Dictionary()
    for number in range(len(symbols), work.vocabulary):
        symbols.add_symbol(f"w{number}")
    return FairseqTrainer(flags, lambda task: TranslationTask(task, symbols, symbols), work, dropout, rate)


def batch_of(pairs: list[tuple[list[int], list[int]]]) -> dict[str, Any]:
    """Make a batch."""
    source = [source for source, _ in pairs]
    net_input = {
        "src_tokens": torch.tensor(padded(source)),
        "src_lengths": torch.tensor([len(row) for row in source]),
        "prev_output_tokens": torch.tensor(padded([END, *target[:-1]] for _, target in pairs)),
    }
    target = torch.tensor(padded(target for _, target in pairs))
    tokens = sum(len(target) for _, target in pairs)
    return {
        "id": torch.arange(len(pairs)),
        "nsentences": len(pairs),
        "ntokens": tokens,
        "net_input": net_input,
        "target": target,
    }


def setup() -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
    """Set up, as :func:`benchmarks.worker.serve` wants it."""
    work_on_current_torch()
    work = Work.of_argument()
    pairs = work.pairs()
    return worker(
        lambda dropout, rate: trainer(work, dropout, rate),
        [batch_of(some) for some in pairs],
        batch_of(pairs[-1][:CHECKED]),
        target_tokens(pairs),
        work.device,
        fairseq=fairseq.__version__,
    )


if __name__ == "__main__":
    serve(setup)
