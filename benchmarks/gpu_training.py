"""The training benchmarks at the sizes of one GPU, in bf16, layers compiled and not: they need CUDA.

The share "of the peak" in the table is the model FLOP utilisation: counted products of the model's forward and backward
pass, without recomputation, at the speed of one large bf16 product, over the time of whole updates. Peak memory is what
torch's allocator has handed out. Where the time goes: ``python -m benchmarks.step_profile NAME``.

DRAGOMAN_BENCHMARK_TOY=1 makes the models tiny and trains them on the CPU in fp32: to see that the programs run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

from benchmarks import speech_training, text_training, waveform_training
from benchmarks.side_by_side import Benchmark

BIG = text_training.Work(
    width=1024, heads=16, feedforward=4096, vocabulary=64000, tokens=16000, lengths=(20, 40, 80), device="cuda"
)
WIDE = replace(BIG, width=512, heads=8, feedforward=2048, vocabulary=250_000, tokens=8000)
SPEECH = speech_training.Work(
    width=512, heads=8, vocabulary=10000, batches=((133, 3.0), (40, 10.0), (16, 25.0)), device="cuda"
)
WAVEFORM = waveform_training.Work(rows=12, seconds=15.0, device="cuda")
WORKS: dict[str, Any] = {"text": BIG, "speech": SPEECH, "waveform": WAVEFORM}
TOY = os.environ.get("DRAGOMAN_BENCHMARK_TOY") == "1"


def toy(kind: str) -> Any:
    """Return tiny sizes for "text", "speech" or "waveform", on the CPU."""
    if kind == "waveform":
        sizes = {"width": 32, "heads": 2, "feedforward": 64, "layers": 1, "channels": 16, "codes_width": 16}
        return replace(WAVEFORM, **sizes, entries=20, distractors=10, rows=2, seconds=2.0, device="cpu")
    small = {"width": 32, "heads": 2, "feedforward": 64, "vocabulary": 100, "device": "cpu"}
    if kind == "text":
        return replace(BIG, **small, layers=1, tokens=200, lengths=(20,))
    return replace(SPEECH, **small, encoder_layers=1, decoder_layers=1, channels=16, batches=((2, 25.0),))


def works(kind: str) -> list[Any]:
    """Return what is trained: plain layers and compiled ones."""
    work = replace(toy(kind), precision="fp32") if TOY else replace(WORKS[kind], precision="bf16")
    return [work, replace(work, compile=True)]


def on_gpu(build: Callable[[], Benchmark]) -> Callable[[], Benchmark]:
    """Let a benchmark say what it needs."""

    @wraps(build)
    def checked() -> Benchmark:
        import torch

        if not TOY and not torch.cuda.is_available():
            raise SystemExit(f"{build.__name__} needs a GPU with CUDA and bf16, and this torch finds none")
        return build()

    return checked


@on_gpu
def gpu_text_big() -> Benchmark:
    """Train a Transformer big (6+6, 1024/4096, vocabulary 64,000) in bf16 on a GPU, compiled and not."""
    title = f"Training step, text, bf16 on a GPU: {text_training.described(BIG)}"
    return text_training.compared("gpu_text_big", title, works("text"))


@on_gpu
def gpu_text_250k() -> Benchmark:
    """Train 6+6, 512/2048 with 250,000 symbols in bf16 on a GPU: time and peak memory."""
    title = f"Training step, text, bf16 on a GPU: {text_training.described(WIDE)}"
    return text_training.compared("gpu_text_250k", title, [replace(WIDE, precision="bf16")])


@on_gpu
def gpu_speech_medium() -> Benchmark:
    """Train s2t_transformer_m (12+6, 512/2048) from waveforms in bf16 on a GPU, compiled and not."""
    title = f"Training step, speech, bf16 on a GPU: {speech_training.described(SPEECH)}"
    return speech_training.compared("gpu_speech_medium", title, works("speech"))


@on_gpu
def gpu_waveform_base() -> Benchmark:
    """Pre-train wav2vec 2.0 base on 12 x 15 s in bf16 on a GPU: ours, transformers."""
    work = replace(toy("waveform"), precision="fp32") if TOY else replace(WAVEFORM, precision="bf16")
    title = f"Pre-training step, bf16 on a GPU: {waveform_training.described(WAVEFORM)}"
    return waveform_training.compared("gpu_waveform_base", title, work)


BENCHMARKS = {build.__name__: build for build in (gpu_text_big, gpu_text_250k, gpu_speech_medium, gpu_waveform_base)}
