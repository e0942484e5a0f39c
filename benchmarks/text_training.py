"""Training steps of a text translator beside fairseq's and transformers'.

All arms train one model (a pre-norm Transformer with one matrix for source, target and output, sinusoidal positions)
from the same parameters on the same batches: label smoothing 0.1, dropout 0.1 of embeddings and of what sub-layers add,
gradients clipped to norm 1, Adam. Before anything is timed, each arm does a few updates without dropout; the losses
before and after must agree. One repetition is an update on each batch.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from benchmarks.side_by_side import Arm, Benchmark, fairseq_python, multiplies_bf16

PADDING, END, FIRST_WORD = 1, 2, 4  # fairseq's numbers
CHECKED = 4  # rows of a batch that are enough to compare losses


@dataclass(frozen=True)
class Work:
    """The model that is trained, and its data; as JSON, the argument of workers."""

    width: int = 512
    heads: int = 8
    feedforward: int = 2048
    layers: int = 6
    vocabulary: int = 32000
    tokens: int = 700  # target tokens of each batch, about
    lengths: tuple[int, ...] = (30,)  # of the longest sentence of each batch
    precision: str = "fp32"
    device: str = "cpu"
    compile: bool = False

    @classmethod
    def of_argument(cls) -> Work:
        """Read the first argument of the command line."""
        return cls(**json.loads(sys.argv[1]))

    def pairs(self) -> list[list[tuple[list[int], list[int]]]]:
        """Return batches of pairs of sentences, with the end symbol.

        As of a sorted corpus: the shortest sentence of a batch has four fifths of the longest one's words.
        """
        draw = random.Random(1)

        def sentence(longest: int) -> list[int]:
            size = draw.randint(longest - longest // 5, longest) - 1
            return [*(draw.randrange(FIRST_WORD, self.vocabulary) for _ in range(size)), END]

        return [
            [(sentence(longest), sentence(longest)) for _ in range(round(self.tokens / longest / 0.9))]
            for longest in self.lengths
        ]


def padded(rows: Iterable[list[int]]) -> list[list[int]]:
    """Fill up rows at their ends."""
    rows = list(rows)
    longest = max(map(len, rows))
    return [row + [PADDING] * (longest - len(row)) for row in rows]


def target_tokens(pairs: list[list[tuple[list[int], list[int]]]]) -> int:
    """Return the number of labels of all batches."""
    return sum(len(target) for batch in pairs for _, target in batch)


# -- what is compared ------------------------------------------------------------------------------------------------

#: How far losses may be apart: of the same sums in another order, and of two ways to round to bf16.
CLOSE, LOOSE = 1e-3, 2e-2


def compared(
    name: str, title: str, works: list[Work], notes: list[str] | None = None, absent: dict[str, str] | None = None
) -> Benchmark:
    """Return a benchmark of ours, transformers and fairseq doing each work, with the peak of each precision.

    ``absent`` says why fairseq is to be left out, if it is.
    """
    fairseq = None if absent else fairseq_python()
    if not fairseq and not absent:
        absent = {"fairseq": "it has no environment; make fairseq-env"}
    arms: list[Arm] = []
    for work in works:
        common: dict[str, Any] = {
            "peak": f"matrix peak {work.precision}",
            "tolerance": CLOSE if work.precision == "fp32" else LOOSE,
        }

        def arm(who: str, module: str, work: Work = work, common: dict[str, Any] = common, **given: Any) -> Arm:
            about = work.precision + (" compiled" if work.compile else "")
            return Arm(f"{who} {about}", ["-m", f"benchmarks.{module}", json.dumps(asdict(work))], **common, **given)

        arms += [arm("ours", "text_ours", ours=True), arm("transformers", "text_transformers")]
        if fairseq and not work.compile:  # what fairseq is made of cannot be compiled
            arms.append(arm("fairseq", "text_fairseq", python=fairseq))
    arms += [peak(*kind) for kind in dict.fromkeys((work.precision, work.device) for work in works)]
    return Benchmark(name, title, "target tokens", arms, notes=notes or [], absent=absent or {})


def need_bf16(name: str) -> None:
    """Refuse a benchmark on a processor that has to imitate bf16, at a hundredth of its speed.

    Raises:
        SystemExit: if it is one.

    """
    if not multiplies_bf16():
        raise SystemExit(f"{name} needs a processor that multiplies in bf16 (avx512_bf16 or amx_bf16)")


def peak(precision: str, device: str) -> Arm:
    """Return the arm that measures the matrix peak."""
    dtype, size = {"fp32": "float32", "bf16": "bfloat16"}[precision], "2048" if device == "cpu" else "8192"
    command = ["-m", "benchmarks.matrix_peak", "--dtype", dtype, "--size", size, "--device", device]
    return Arm(f"matrix peak {precision}", command)


def described(work: Work) -> str:
    """Return a work's sizes."""
    return (
        f"{work.layers}+{work.layers} layers, {work.width}/{work.feedforward}, vocabulary {work.vocabulary:,}; batches "
        f"of about {work.tokens:,} target tokens in sentences of up to {' and '.join(map(str, work.lengths))}."
    )


def text_base() -> Benchmark:
    """Train a Transformer base (6+6, 512/2048, vocabulary 32,000), fp32: ours, transformers, fairseq."""
    work = Work()
    return compared("text_base", f"Training step, text, fp32: {described(work)}", [work])


def text_small() -> Benchmark:
    """Train 6+6, 512/1024, vocabulary 32,000, fp32."""
    work = Work(feedforward=1024)
    return compared("text_small", f"Training step, text, fp32: {described(work)}", [work])


def text_bf16() -> Benchmark:
    """Train a Transformer base in bf16 autocast and in fp32, on a processor that multiplies in bf16."""
    need_bf16("text_bf16")
    work = Work()
    note = "bf16 is autocast here and for transformers; fairseq's --bf16 converts the model"
    works = [work, replace(work, precision="bf16")]
    return compared("text_bf16", f"Training step, text, bf16 and fp32: {described(work)}", works, [note])


def text_250k() -> Benchmark:
    """Train 6+6, 512/2048 with 250,000 symbols, fp32: time and peak memory."""
    work = Work(vocabulary=250_000, tokens=1000)
    return compared("text_250k", f"Training step, text, fp32: {described(work)}", [work])


def text_250k_large() -> Benchmark:
    """Train the same with batches of about 2,048 target tokens, for memory: logits grow with them."""
    work = Work(vocabulary=250_000, tokens=2048)
    absent = {"fairseq": "three models of this size need more than the memory of a small machine"}
    return compared("text_250k_large", f"Training step, text, fp32: {described(work)}", [work], absent=absent)


BENCHMARKS = {build.__name__: build for build in (text_base, text_small, text_bf16, text_250k, text_250k_large)}
