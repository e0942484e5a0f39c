"""The divergence from a teacher's distribution against torch's, in whole and in pieces."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dragoman.mt.divergence import divergence
from tests.small import refuses

ROWS, WIDTH, VOCABULARY = 7, 5, 11


def given(bias):
    generator = torch.Generator().manual_seed(1)
    states = torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64, requires_grad=True)
    projection = nn.Linear(WIDTH, VOCABULARY, bias=bias).double()
    wanted = torch.randn(ROWS, VOCABULARY, generator=generator, dtype=torch.float64) * 2
    counted = torch.tensor([True, True, False, True, False, True, True])
    return states, projection, wanted, counted


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("chunk", [1, 3 * VOCABULARY, 2**24])
def test_value_and_gradients_are_torchs(bias, chunk):
    states, projection, wanted, counted = given(bias)
    learned = [states, *projection.parameters()]
    found = divergence(states, projection, lambda part: wanted[part], counted, chunk=chunk) * 3
    log_p = F.linear(states, projection.weight, projection.bias).log_softmax(-1)
    each = F.kl_div(log_p, wanted.log_softmax(-1), reduction="none", log_target=True).sum(-1)
    expected = each[counted].sum() * 3
    torch.testing.assert_close(found, expected)
    for one, other in zip(torch.autograd.grad(found, learned), torch.autograd.grad(expected, learned), strict=True):
        torch.testing.assert_close(one, other)


def test_nothing_is_kept_without_gradients():
    states, projection, wanted, counted = given(bias=False)
    with torch.no_grad():
        found = divergence(states, projection, lambda part: wanted[part], counted)
    assert not found.requires_grad and found > 0


def test_under_autocast_it_is_near():
    states, projection, wanted, counted = given(bias=True)
    states, projection = states.detach().float().requires_grad_(), projection.float()
    exact = divergence(states, projection, lambda part: wanted[part].float(), counted)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = divergence(states, projection, lambda part: wanted[part].float(), counted)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, exact, rtol=0.03, atol=0.03)
    one, other = (torch.autograd.grad(value, states)[0] for value in (found, exact))
    torch.testing.assert_close(one, other, rtol=0.1, atol=0.05)


def test_a_second_backward_pass_is_refused():
    states, projection, wanted, counted = given(bias=False)
    found = divergence(states, projection, lambda part: wanted[part], counted)
    found.backward(retain_graph=True)
    refuses(RuntimeError, "for one backward pass", found.backward)


def test_what_does_not_fit_is_refused():
    states, projection, wanted, counted = given(bias=False)
    for teacher, rows, chunk, said in (
        (wanted, counted[:-1], 99, r"states \(7, 5\) and counted \(6,\)"),
        (wanted, counted, 0, "chunk must be at least 1, not 0"),
        (wanted[:, :-1], counted, 99, r"the teacher's logits are \(7, 10\), but the decoder's \(7, 11\)"),
    ):
        refuses(ValueError, said, divergence, states, projection, teacher.__getitem__, rows, chunk=chunk)
