"""Tries on a card what has only run on a device that is not there: each against products in fp32, a line each.

    python -m benchmarks.first_tries [--device cuda] [--json FILE]

What is found is the largest difference as a share of the largest number, beside the most that rounding explains. A try
that raises is said to have done so, and the others are done; the exit code is 1 if any went wrong. On the CPU the tries
take what a CPU has in place of it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from dragoman.shared.nn import kernels
from dragoman.shared.nn.casting import cast_together
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.linear import Linear, write_product
from dragoman.shared.nn.transformer import Encoder
from dragoman.shared.padded import Padded
from dragoman.shared.training.compiling import compile_layers
from dragoman.shared.training.optimizer import Adam, clip_gradient, set_learning_rate, step_if_finite

#: By how much results in bf16 may be off, which has eight bits of mantissa; in fp32.
HALF, SINGLE = 2e-2, 1e-5
#: Of attention: rows, heads, width of a head.
ROWS, HEADS, SIZE = 4, 4, 64


def off(found: Tensor, expected: Tensor) -> float:
    """Return the largest difference as a share of the largest number."""
    return ((found.double() - expected.double()).abs().max() / expected.double().abs().max()).item()


def product_added(device: str) -> float:
    """Add a product of bf16 to sums in fp32 (``addmm`` with ``out_dtype``)."""
    a, b = torch.randn(96, 512, device=device).bfloat16(), torch.randn(512, 64, device=device).bfloat16()
    sums = torch.randn(96, 64, device=device)
    expected = sums.double() + a.double() @ b.double()
    write_product(sums, a, b, add=True)
    return off(sums, expected)


def clipped_by_optimizer(device: str) -> float:
    """Clip inside of the fused optimiser (``grad_scale``), beside clipping first and Adam after it."""
    torch.manual_seed(0)
    ours, plain = (nn.Linear(64, 64).to(device) for _ in range(2))
    plain.load_state_dict(ours.state_dict())
    learning = Adam(betas=[0.9, 0.98]).build(ours)
    beside = torch.optim.Adam(plain.parameters(), lr=1e-2, betas=(0.9, 0.98), eps=learning.defaults["eps"], fused=False)
    for _ in range(3):
        for one, other in zip(ours.parameters(), plain.parameters(), strict=True):
            one.grad = 10 * torch.randn_like(one)
            other.grad = one.grad.clone()
        set_learning_rate(learning, 1e-2)
        step_if_finite(learning, clip_gradient(learning, 1.0))
        nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        beside.step()
    return max(off(one, other) for one, other in zip(ours.parameters(), plain.parameters(), strict=True))


def cast_at_once(device: str) -> float:
    """Cast matrices together (``_foreach_copy_``): product and gradients beside those of autocast."""
    layers = nn.Sequential(*(Linear(64, 64) for _ in range(3))).to(device)
    x = torch.randn(32, 64, device=device)
    found: list[list[Tensor]] = []
    for dtype in (torch.bfloat16, None):
        layers.zero_grad()
        with cast_together(layers, dtype):
            with torch.autocast(device, dtype=torch.bfloat16):
                result = layers(x)
            result.float().square().sum().backward()
        found.append([result, *(p.grad.clone() for p in layers.parameters() if p.grad is not None)])
    return max(itertools.starmap(off, zip(*found, strict=True)))


def attention_of(order: tuple[SDPBackend, ...], masked: bool, length: int) -> Callable[[str], float]:
    """Return what attends by the first kernel of an order that can, with gradients, beside products in fp32."""

    def attend(device: str) -> float:
        torch.manual_seed(0)
        heads = [torch.randn(ROWS, HEADS, length, SIZE, device=device) for _ in range(3)]
        lengths = torch.arange(ROWS, device=device) * (length // ROWS) + 1
        mask = (torch.arange(length, device=device) < lengths[:, None])[:, None, None] if masked else None
        found: list[list[Tensor]] = []
        for kinds, dtype in (((SDPBackend.MATH,), torch.float32), (order, torch.bfloat16)):
            given = [x.to(dtype, copy=True).requires_grad_() for x in heads]
            with sdpa_kernel(list(kinds), set_priority=True):
                result = F.scaled_dot_product_attention(*given, attn_mask=mask)
            result.float().square().sum().backward()
            found.append([result, *(x.grad for x in given if x.grad is not None)])
        return max(off(one, expected) for expected, one in zip(*found, strict=True))

    return attend


def compiled_choice(device: str) -> float:
    """Compile layers that choose by length, and meet a shape until cuDNN is asked, beside plain layers."""
    torch.manual_seed(0)
    layer = {"width": HEADS * SIZE, "heads": HEADS, "feedforward": 256, "dropout": 0.0}
    compiled, plain = (Encoder(layer=Layer(**layer), layers=2).to(device) for _ in range(2))  # type: ignore[arg-type]
    plain.load_state_dict(compiled.state_dict())
    compile_layers(compiled, backend="eager" if device == "cpu" else "inductor")
    counters.clear()
    worst = 0.0
    again = 1 if device == "cpu" else kernels.PAYS // 2 + 1  # a CPU has no kernel that waits until a shape recurs
    for rows, length in [(8, 24), (8, 96), (6, 30), *[(8, 96)] * again, (7, 100)]:
        x = torch.randn(rows, length, HEADS * SIZE, device=device)
        lengths = torch.arange(rows, device=device) % length + 1
        with torch.autocast(device, dtype=torch.bfloat16):
            found = compiled(Padded(x, lengths))[0].values
        with torch.no_grad():
            expected = plain(Padded(x, lengths))[0].values
        found.float().square().mean().backward()
        real = Padded(x, lengths).mask
        worst = max(worst, off(found[real], expected[real]))
    print(f"    {counters['stats']['unique_graphs']} versions of the layers were compiled")
    return worst


def tf32_products(device: str) -> float:
    """Multiply in TF32."""
    a, b = torch.randn(256, 256, device=device), torch.randn(256, 256, device=device)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if device == "cuda" else before)
    try:
        return off(a @ b, a.double() @ b.double())
    finally:
        torch.set_float32_matmul_precision(before)


def bias_gradient(device: str) -> float:
    """Sum gradients over rows by a product with ones, which a compiler makes one kernel of where a sum is two.

    Sums of bias gradients are 95 of 1,224 launches of an update of gpu_speech_medium, 1.4 of 31.7 GB; where its layers
    are compiled, some 180 of 1,138. Both are timed, for the rows of 400 seconds of sound.
    """
    rows = 100 if device == "cpu" else 10000
    worst = 0.0
    for width in (512, 1536, 2048):
        gradient = torch.randn(rows, width, device=device).bfloat16()
        ones = torch.ones(1, rows, device=device, dtype=torch.bfloat16)
        summed, product = lambda x=gradient: x.sum(0), lambda x=gradient, one=ones: torch.mm(one, x)[0]
        worst = max(worst, off(product(), gradient.double().sum(0)))
        by_sum, by_product = seconds_of(summed, device), seconds_of(product, device)
        print(f"    {width}: {by_sum:.1e} s by a sum, {by_product:.1e} s by a product")
    return worst


def seconds_of(function: Callable[[], Any], device: str, times: int = 50) -> float:
    """Return how long a call takes."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    function()
    wait()
    clock = time.perf_counter()
    for _ in range(times):
        function()
    wait()
    return (time.perf_counter() - clock) / times


EFFICIENT, CUDNN, FLASH, MATH = kernels.EFFICIENT, kernels.CUDNN, kernels.FLASH, SDPBackend.MATH
#: What is tried, by its line: what does it, and how far it may be off.
TRIES: dict[str, tuple[Callable[[str], float], float]] = {
    "addmm with out_dtype": (product_added, SINGLE),
    "fused optimiser with grad_scale": (clipped_by_optimizer, SINGLE),
    "_foreach_copy_ of casts": (cast_at_once, HALF),
    "attention, memory-efficient, 20, mask": (attention_of((EFFICIENT, MATH), True, 20), HALF),
    "attention, memory-efficient, 20": (attention_of((EFFICIENT, MATH), False, 20), HALF),
    "attention, cuDNN alone, 96, mask": (attention_of((CUDNN,), True, 96), HALF),
    "attention, cuDNN alone, 101, mask": (attention_of((CUDNN,), True, 101), HALF),
    "attention, flash alone, 96": (attention_of((FLASH,), False, 96), HALF),
    "compiled layers that choose": (compiled_choice, HALF),
    "TF32": (tf32_products, 2e-3),
    "bias gradients by a product": (bias_gradient, HALF),
}


def tried(device: str) -> dict[str, Any]:
    """Try all, print a line each, and return what was found."""
    found: dict[str, Any] = {}
    for name, (function, most) in TRIES.items():
        if device == "cpu" and "alone" in name:  # a CPU has no such kernel
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                error = function(device)
            most = HALF if device == "cpu" else most  # which adds products that are rounded already
            one: dict[str, Any] = {"off": error, "most": most, "right": error <= most}
        except Exception as raised:  # whatever it is, the other tries are worth something
            said = (str(raised).splitlines() or [""])[0]
            one = {"right": False, "raised": f"{type(raised).__name__}: {said[:300]}"}
        found[name] = one
        about = one.get("raised") or f"off by {one['off']:.1e}, {most:.0e} at most"
        print(f"{'right' if one['right'] else 'WRONG':6} {name:40} {about}", flush=True)
    return found


def main() -> None:
    """Try, print, and write JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = tried(arguments.device)
    if arguments.json:
        arguments.json.write_text(json.dumps({"tries": found}, indent=1) + "\n", encoding="utf-8")
    raise SystemExit(0 if all(one["right"] for one in found.values()) else 1)


if __name__ == "__main__":
    main()
