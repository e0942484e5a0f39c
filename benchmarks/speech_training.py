"""Training steps of a speech translator, from waveforms in memory, beside fairseq's S2T and speechbrain's Transformer.

12+6 layers of 256/2048 over 80 log-mel bins and convolutions of stride 4 (s2t_transformer_s). Features are made in the
step: here in the batch, by fairseq's way one utterance at a time with torchaudio (its loader would do it in processes
that share the cores with training), by speechbrain's modules in the batch. fairseq's arm trains the same model from the
same parameters, and its losses must agree. speechbrain's has two-dimensional convolutions and other positions; sizes,
waveforms, labels and optimiser are the same. The waveforms of a batch are equally long, so nobody computes padding.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from benchmarks.side_by_side import Arm, Benchmark, fairseq_python
from benchmarks.text_training import CLOSE, END, FIRST_WORD, LOOSE, need_bf16, peak

if TYPE_CHECKING:
    from torch import Generator, Tensor

RATE = 16000
TOKENS_A_SECOND = 4
CHECKED = 2  # rows of a batch that are enough to compare losses


@dataclass(frozen=True)
class Work:
    """The model that is trained, and its data; as JSON, the argument of workers."""

    width: int = 256
    heads: int = 4
    feedforward: int = 2048
    encoder_layers: int = 12
    decoder_layers: int = 6
    channels: int = 1024
    bins: int = 80
    vocabulary: int = 8000
    batches: tuple[tuple[int, float], ...] = ((10, 3.0), (3, 10.0))  # rows, and the seconds of each
    precision: str = "fp32"
    device: str = "cpu"
    compile: bool = False

    @classmethod
    def of_argument(cls) -> Work:
        """Read the first argument of the command line."""
        return cls(**json.loads(sys.argv[1]))

    def sounds(self) -> list[Tensor]:
        """Return the waveforms of each batch, (B, N) in [-1, 1]: noise that swells."""
        import torch

        generator = torch.Generator().manual_seed(1)
        return [swelling(rows, seconds, generator) for rows, seconds in self.batches]

    def labels(self) -> list[list[list[int]]]:
        """Return the tokens of each batch, with the end symbol."""
        draw = random.Random(1)
        return [
            [[*draw.choices(range(FIRST_WORD, self.vocabulary), k=int(seconds * TOKENS_A_SECOND)), END]] * rows
            for rows, seconds in self.batches
        ]

    @property
    def seconds(self) -> float:
        """Return the audio of all batches."""
        return sum(rows * seconds for rows, seconds in self.batches)


def swelling(rows: int, seconds: float, generator: Generator) -> Tensor:
    """Return waveforms (B, N) in [-1, 1]: noise that swells."""
    import torch

    time = torch.arange(int(seconds * RATE)) / RATE
    swell = 0.6 + 0.4 * torch.sin(2 * math.pi * 4 * time)
    return 0.1 * swell * torch.randn(rows, len(time), generator=generator).clamp(-5, 5)


def compared(name: str, title: str, works: list[Work]) -> Benchmark:
    """Return a benchmark of ours, fairseq and speechbrain doing each work, with the peak of each precision."""
    fairseq = fairseq_python()
    arms: list[Arm] = []
    for work in works:
        about = work.precision + (" compiled" if work.compile else "")
        close = CLOSE if work.precision == "fp32" else LOOSE

        def arm(who: str, module: str, tolerance: float, work: Work = work, about: str = about, **given: Any) -> Arm:
            command = ["-m", f"benchmarks.{module}", json.dumps(asdict(work))]
            return Arm(f"{who} {about}", command, peak=f"matrix peak {work.precision}", tolerance=tolerance, **given)

        arms += [arm("ours", "speech_ours", close, ours=True)]
        if fairseq and not work.compile:
            arms.append(arm("fairseq", "speech_fairseq", close, python=fairseq))
        arms.append(arm("speechbrain", "speech_speechbrain", math.inf))
    arms += [peak(*kind) for kind in dict.fromkeys((work.precision, work.device) for work in works)]
    absent = {} if fairseq else {"fairseq": "it has no environment; make fairseq-env"}
    other = "speechbrain's model has two-dimensional convolutions and other positions; its losses are not compared"
    return Benchmark(name, title, "seconds of audio", arms, notes=[other], absent=absent)


def described(work: Work) -> str:
    """Return a work's sizes."""
    batches = " and ".join(f"{rows} x {seconds:g} s" for rows, seconds in work.batches)
    return (
        f"{work.encoder_layers}+{work.decoder_layers} layers, {work.width}/{work.feedforward}, vocabulary "
        f"{work.vocabulary:,}, from waveforms; an update on each of the batches {batches}."
    )


def speech_small() -> Benchmark:
    """Train s2t_transformer_s (12+6, 256/2048) from waveforms, fp32: ours, fairseq, speechbrain."""
    work = Work()
    return compared("speech_small", f"Training step, speech, fp32: {described(work)}", [work])


def speech_bf16() -> Benchmark:
    """Train s2t_transformer_s in bf16 autocast and in fp32, on a processor that multiplies in bf16."""
    need_bf16("speech_bf16")
    work = Work()
    works = [work, replace(work, precision="bf16")]
    return compared("speech_bf16", f"Training step, speech, bf16 and fp32: {described(work)}", works)


BENCHMARKS: dict[str, Callable[[], Benchmark]] = {build.__name__: build for build in (speech_small, speech_bf16)}
