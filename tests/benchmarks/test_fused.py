"""The kernels that a compiler makes: hand values of small functions."""

import torch
from torch.nn import functional as F

SINGLE, HALF = torch.float32, torch.bfloat16


def kernels(*given):
    from benchmarks import fused  # and with it torch._inductor, for three seconds

    return fused.kernels(*given)


def test_elements_are_one_kernel_forward_and_one_backward_by_hand():
    """Two inputs are read, sums and a mask of bytes written; then mask and gradient are read, and one is written."""
    shape = (64, 128)
    found = kernels(lambda x, y: (x * 2 + y).relu().sum(-1), (shape, SINGLE, True), (shape, SINGLE, False))
    size = 64 * 128 * 4
    assert found.fused == [2, 2 * size + size // 4 + 64 * 4 + size // 4 + 64 * 4 + size]
    assert found.own == [0, 0]


def test_products_and_attention_stay_kernels_of_their_own():
    found = kernels(lambda x, w: F.linear(x, w).relu(), ((64, 128), HALF, True), ((32, 128), HALF, True))
    assert found.own[0] == 3 and found.fused[0] == 2
    heads = ((2, 4, 16, 64), HALF, True)
    found = kernels(lambda *heads: F.scaled_dot_product_attention(*heads, is_causal=True), *[heads] * 3)
    assert found.own[0] == 1 + 3


def test_a_function_that_learns_nothing_has_no_backward_pass():
    found = kernels(lambda x: x.exp() + 1, ((16,), SINGLE, False))
    assert found.fused == [1, 2 * 64]
