"""The products that searches and training steps are made of: ours beside torch's own functions, by turns.

    python -m benchmarks.products [--bf16] [--threads 2] [--rounds 31]

First linear maps (shared/nn/linear.py, which asks oneDNN, against F.linear, which asks MKL), in searches and then with
all their gradients, then attention of a few queries (shared/nn/attention.py, batched products against the fused
kernel). Matrices take turns, so that none is in a cache only because it was used last. Prints medians, and how many
times faster ours is. With ``--bf16``, those of a search under autocast: ours has its matrices as a loaded model has.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from functools import partial
from itertools import cycle
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.shared.machine.processor import processor
from dragoman.shared.machine.settings import keep_freed_memory
from dragoman.shared.nn.attention import by_products
from dragoman.shared.nn.cpu import onednn
from dragoman.shared.nn.linear import linear, stored_for_search

ROWS, LEARNT_ROWS = (1, 5, 20, 80, 320, 2000), (80, 700, 2000)
#: In and out of linear maps: of models of width 256 and 512, up to a vocabulary.
MAPS = (
    (256, 256),
    (256, 768),
    (256, 2048),
    (2048, 256),
    (256, 8000),
    (512, 512),
    (512, 2048),
    (2048, 512),
    (512, 32000),
)
#: Sentences, heads, and the length of a memory; queries of each head.
MEMORIES, QUERIES = ((64, 8, 24), (64, 8, 60), (16, 4, 125), (16, 4, 361), (4, 4, 125)), (2, 5, 8, 16)
#: Rows that have a past each, heads, and its length; one query of each head.
PASTS = ((320, 8, 6), (320, 8, 24), (80, 4, 24), (20, 8, 24))
HEAD = 64
TOGETHER = 2**25  # bytes of the matrices that take turns: a cache holds no more


def seconds(first: Callable[[], Tensor], second: Callable[[], Tensor], rounds: int) -> tuple[float, float]:
    """Return the median times of two functions, called by turns in random order."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for arm in random.sample(range(2), 2):
            clock = time.perf_counter()
            (first, second)[arm]()
            times[arm].append(time.perf_counter() - clock)
    return median(times[0]), median(times[1])


def compare_map(rows: int, inputs: int, outputs: int, rounds: int, learn: bool = False) -> tuple[float, float]:
    """Time a linear map, with its gradients if asked for: ours, torch's."""
    x, bias = torch.randn(rows, inputs, requires_grad=learn), torch.randn(outputs, requires_grad=learn)
    number = max(1, TOGETHER // (4 * inputs * outputs))
    matrices = cycle([torch.randn(outputs, inputs, requires_grad=learn) for _ in range(number)])
    of_result = torch.randn(rows, outputs)

    def step(apply: Callable[..., Tensor]) -> Tensor:
        given = (x, next(matrices), bias)
        result = apply(*given)
        return torch.autograd.grad(result, given, of_result)[0] if learn else result

    with torch.set_grad_enabled(learn):
        return seconds(lambda: step(linear), lambda: step(F.linear), rounds)


def compare_stored_map(rows: int, inputs: int, outputs: int, rounds: int) -> tuple[float, float]:
    """Time a linear map under autocast to bfloat16, of a matrix that was stored for it and of one in float32."""
    x, bias = torch.randn(rows, inputs), torch.randn(outputs)
    number = max(1, TOGETHER // (4 * inputs * outputs))
    matrices = [torch.randn(outputs, inputs) for _ in range(number)]
    plain, stored = cycle(matrices), cycle([stored_for_search(matrix, torch.bfloat16) for matrix in matrices])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return seconds(lambda: linear(x, next(stored), bias), lambda: F.linear(x, next(plain), bias), rounds)


def compare_attention(
    sentences: int, heads: int, memory: int, queries: int, rounds: int, dtype: torch.dtype
) -> tuple[float, float]:
    """Time attention to memories that are up to a fifth shorter than the longest: ours, torch's."""
    mask: Tensor | None = torch.arange(memory) < torch.randint(memory * 4 // 5, memory + 1, (sentences, 1, 1, 1))
    q = torch.randn(sentences, queries, heads, HEAD, dtype=dtype).transpose(1, 2)
    k, v = (torch.randn(sentences, heads, memory, HEAD, dtype=dtype) for _ in range(2))
    if queries == 1:  # of a past, which stands element by element and is seen whole
        mask, (k, v) = None, torch.randn(2, sentences, memory, heads, HEAD, dtype=dtype).transpose(2, 3)
    return seconds(
        lambda: by_products(q, k, v, mask), lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask), rounds
    )


@torch.no_grad()
def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=31)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    print(f"{processor()}, {arguments.threads} threads, torch {torch.__version__}; oneDNN: {onednn().value}")
    kinds: tuple[tuple[str, Callable[..., tuple[float, float]], tuple[int, ...]], ...] = (
        ("linear map", compare_map, ROWS),
        ("with gradients", partial(compare_map, learn=True), LEARNT_ROWS),
    )
    for title, compare, numbers in (("linear map", compare_stored_map, ROWS),) if arguments.bf16 else kinds:
        print(f"\n| {title} | rows | ours, ms | F.linear, ms | times faster |\n| --- | ---: | ---: | ---: | ---: |")
        for inputs, outputs in MAPS:
            for rows in numbers:
                ours, theirs = (1e3 * took for took in compare(rows, inputs, outputs, arguments.rounds))
                print(f"| {inputs} -> {outputs} | {rows} | {ours:.3g} | {theirs:.3g} | {theirs / ours:.2f} |")
    print("\n| sentences x heads | memory | queries | ours, ms | kernel, ms | times faster |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    shapes = [(*memory, queries) for memory in MEMORIES for queries in QUERIES]
    shapes += [(*past, 1) for past in PASTS] if arguments.bf16 else []
    for shape in shapes:
        took = compare_attention(*shape, arguments.rounds, torch.bfloat16 if arguments.bf16 else torch.float32)
        ours, theirs = (1e3 * time for time in took)
        sentences, heads, memory, queries = shape
        print(f"| {sentences} x {heads} | {memory} | {queries} | {ours:.3g} | {theirs:.3g} | {theirs / ours:.2f} |")


if __name__ == "__main__":
    main()
