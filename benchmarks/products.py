"""The products that searches and training steps are made of: ours beside torch's own functions, by turns.

    python -m benchmarks.products [--threads 2] [--rounds 31]

First linear maps (shared/nn/linear.py, which asks oneDNN, against F.linear, which asks MKL), in searches and then with
all their gradients, then attention of a few queries (shared/nn/attention.py, batched products against the fused
kernel). Matrices take turns, so that none is in a cache only because it was used last. Prints medians, and how many
times faster ours is.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from itertools import cycle
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional as F

from shared.nn.attention import by_products
from shared.nn.linear import linear, onednn
from shared.processor import processor
from shared.training.memory import keep_freed_memory

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


def compare_attention(sentences: int, heads: int, memory: int, queries: int, rounds: int) -> tuple[float, float]:
    """Time attention to memories that are up to a fifth shorter than the longest: ours, torch's."""
    mask = torch.arange(memory) < torch.randint(memory * 4 // 5, memory + 1, (sentences, 1, 1, 1))
    q = torch.randn(sentences, queries, heads, HEAD).transpose(1, 2)
    k, v = (torch.randn(sentences, heads, memory, HEAD) for _ in range(2))
    return seconds(
        lambda: by_products(q, k, v, mask), lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask), rounds
    )


@torch.no_grad()
def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=31)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    print(f"{processor()}, {arguments.threads} threads, torch {torch.__version__}; oneDNN: {onednn().value}")
    for title, learn, numbers in (("linear map", False, ROWS), ("with gradients", True, LEARNT_ROWS)):
        print(f"\n| {title} | rows | ours, ms | F.linear, ms | times faster |\n| --- | ---: | ---: | ---: | ---: |")
        for inputs, outputs in MAPS:
            for rows in numbers:
                ours, theirs = (1e3 * took for took in compare_map(rows, inputs, outputs, arguments.rounds, learn))
                print(f"| {inputs} -> {outputs} | {rows} | {ours:.3g} | {theirs:.3g} | {theirs / ours:.2f} |")
    print("\n| sentences x heads | memory | queries | ours, ms | kernel, ms | times faster |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for sentences, heads, memory in MEMORIES:
        for queries in QUERIES:
            ours, theirs = compare_attention(sentences, heads, memory, queries, arguments.rounds)
            cells = f"{sentences} x {heads} | {memory} | {queries} | {1e3 * ours:.3g} | {1e3 * theirs:.3g}"
            print(f"| {cells} | {theirs / ours:.2f} |")


if __name__ == "__main__":
    main()
