"""An arm that measures what limits all others: products of two large square matrices, and copies of a large tensor.

    python -m benchmarks.matrix_peak --dtype float32 --size 2048 [--device cuda]

One repetition does as many products as take about a second, which are its work and its time, and then a few copies,
of which it tells how many bytes a second were read and written. The product is the quicker one of torch's own and ours
(shared/nn/linear.py), which on some processors asks another library.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.worker import serve
from dragoman.shared.machine.settings import keep_freed_memory
from dragoman.shared.nn.linear import linear

SECONDS = 1.0
COPIED, COPIES = 2**28, 3  # bytes, of which as many are read as written


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()

    keep_freed_memory(arguments.device)  # as all that it is compared with

    def setup() -> tuple[dict[str, Any], Any]:
        size, dtype = arguments.size, getattr(torch, arguments.dtype)
        a, b = (torch.randn(size, size, device=arguments.device, dtype=dtype) for _ in range(2))
        out = torch.empty_like(a)
        source, copy = (torch.zeros(COPIED, dtype=torch.uint8, device=arguments.device) for _ in range(2))

        def wait() -> None:
            if a.is_cuda:
                torch.cuda.synchronize()

        def products(product: Callable[[], object], number: int) -> float:
            clock = time.perf_counter()
            for _ in range(number):
                product()
            wait()
            return time.perf_counter() - clock

        kinds: list[Callable[[], object]] = [lambda: torch.mm(a, b, out=out), lambda: linear(a, b)]
        for kind in kinds:
            products(kind, 1)
        took, quickest = min(((products(kind, 3) / 3, kind) for kind in kinds), key=lambda pair: pair[0])
        number = max(1, round(SECONDS / took))

        def repeat() -> dict[str, Any]:
            cpu = time.process_time()
            seconds = {"seconds": products(quickest, number), "cpu_seconds": time.process_time() - cpu}
            clock = time.perf_counter()
            for _ in range(COPIES):
                copy.copy_(source)
            wait()
            bandwidth = 2 * COPIES * COPIED / (time.perf_counter() - clock)
            return {"work": 2 * size**3 * number, "bytes_per_second": bandwidth, **seconds}

        return {"versions": {"torch": torch.__version__}}, repeat

    serve(setup)


if __name__ == "__main__":
    main()
