"""Pre-training steps of wav2vec 2.0, from waveforms in memory, beside transformers and fairseq.

All arms have the same model with the same parameters, and their losses must agree before and after some updates: for
these, masks and distractors are given, codes are chosen without noise, and precision is single. Where time is taken
they are drawn: here and by fairseq in the step, for transformers before it, as its collator does in another process.
Left out is what not all three have: the penalty, and the factor of gradients that reach the convolutions.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from benchmarks.side_by_side import Arm, Benchmark, fairseq_python
from benchmarks.speech_training import RATE, swelling
from benchmarks.text_training import CLOSE, peak

if TYPE_CHECKING:
    from torch import Tensor

CONVOLUTIONS = ((10, 5), *((3, 2),) * 4, *((2, 2),) * 2)  # kernel and stride
POSITIONS, POSITION_GROUPS = 128, 16  # of the convolution that gives positions
GROUPS = 2  # of the quantiser
MASKED_SHARE, SPAN = 0.65, 10
DIVERSITY, TEMPERATURE, CODE_TEMPERATURE = 0.1, 0.1, 2.0
CHECKED = (2, 1.0)  # rows and seconds that are enough to compare losses

#: Of each row, the masked frames; and for each of them, distractors, which number the row's masked frames.
Drawn = tuple[list[list[int]], list[list[list[int]]]]


@dataclass(frozen=True)
class Work:
    """The model that is trained, and its data; as JSON, the argument of workers."""

    width: int = 768
    heads: int = 12
    feedforward: int = 3072
    layers: int = 12
    channels: int = 512
    codes_width: int = 256
    entries: int = 320
    distractors: int = 100
    rows: int = 2
    seconds: float = 8.0
    precision: str = "fp32"
    device: str = "cpu"

    @classmethod
    def of_argument(cls) -> Work:
        """Read the first argument of the command line."""
        return cls(**json.loads(sys.argv[1]))

    @property
    def exact(self) -> Work:
        """The same in single precision, in which losses are compared.

        In bf16 libraries choose other codes for some frames, and after Adam's first update, which is as large whatever
        the gradient is, losses were 4.57 (ours) and 4.29 (transformers) on an H100; in fp32 both are 4.567.
        """
        return replace(self, precision="fp32")

    def drawn(self) -> Drawn:
        """Return masks and distractors of the rows that losses are compared on, equally many of each row."""
        rows, seconds = CHECKED
        frames = frames_of(int(seconds * RATE))
        draw = random.Random(1)
        masked, distractors = [], []
        for _ in range(rows):
            spans = sorted(draw.sample(range(frames // SPAN), k=frames // SPAN // 2))
            steps = [SPAN * span + step for span in spans for step in range(SPAN)]
            others = [[other for other in range(len(steps)) if other != own] for own in range(len(steps))]
            masked.append(steps)
            distractors.append([draw.choices(known, k=self.distractors) for known in others])
        return masked, distractors


def sounds(rows: int, seconds: float) -> Tensor:
    """Return waveforms (B, N) in [-1, 1]."""
    import torch

    return swelling(rows, seconds, torch.Generator().manual_seed(1))


def frames_of(samples: int) -> int:
    """Return how many frames the convolutions make of that many samples."""
    for kernel, stride in CONVOLUTIONS:
        samples = (samples - kernel) // stride + 1
    return samples


def compared(name: str, title: str, work: Work) -> Benchmark:
    """Return a benchmark of ours, transformers and fairseq, with the matrix peak."""
    fairseq = fairseq_python()

    def arm(who: str, python: str = sys.executable, ours: bool = False) -> Arm:
        command = ["-m", f"benchmarks.waveform_{who}", json.dumps(asdict(work))]
        matrix = f"matrix peak {work.precision}"
        return Arm(f"{who} {work.precision}", command, python, ours=ours, peak=matrix, tolerance=CLOSE)

    arms = [arm("ours", ours=True), arm("transformers")]
    if fairseq:
        arms.append(arm("fairseq", fairseq))
    arms.append(peak(work.precision, work.device))
    absent = {} if fairseq else {"fairseq": "it has no environment; make fairseq-env"}
    notes = [
        "transformers' masks and distractors are drawn before time is taken, ours and fairseq's in the step",
        "no penalty, no scaled gradients, no layers left out; dropout 0.1",
    ]
    return Benchmark(name, title, "seconds of audio", arms, notes=notes, absent=absent)


def described(work: Work) -> str:
    """Return the sizes of the model and its data, in a sentence."""
    return (
        f"wav2vec 2.0, {work.layers} layers, {work.width}/{work.feedforward}, {work.channels} channels, {GROUPS} x "
        f"{work.entries} codes, {work.distractors} distractors; an update on {work.rows} x {work.seconds:g} s."
    )


def wav2vec2_base() -> Benchmark:
    """Pre-train wav2vec 2.0 base (12 layers, 768/3072) on 2 x 8 s, fp32: ours, transformers, fairseq."""
    work = Work()
    return compared("wav2vec2_base", f"Pre-training step, fp32: {described(work)}", work)


BENCHMARKS: dict[str, Callable[[], Benchmark]] = {"wav2vec2_base": wav2vec2_base}
