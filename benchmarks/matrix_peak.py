"""An arm that measures the matrix peak: products of two square matrices, as large as makes sense.

    python -m benchmarks.matrix_peak --dtype float32 --size 2048 [--device cuda]

One repetition does as many products as take about a second.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch

from benchmarks.worker import serve

SECONDS = 1.0


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()

    def setup() -> tuple[dict[str, Any], Any]:
        size, dtype = arguments.size, getattr(torch, arguments.dtype)
        a, b = (torch.randn(size, size, device=arguments.device, dtype=dtype) for _ in range(2))
        out = torch.empty_like(a)

        def products(number: int) -> None:
            for _ in range(number):
                torch.mm(a, b, out=out)
            if a.is_cuda:
                torch.cuda.synchronize()

        products(1)
        clock = time.perf_counter()
        products(1)
        number = max(1, round(SECONDS / (time.perf_counter() - clock)))

        def repeat() -> dict[str, Any]:
            products(number)
            return {"work": 2 * size**3 * number}

        return {"versions": {"torch": torch.__version__}}, repeat

    serve(setup)


if __name__ == "__main__":
    main()
