"""Dropout against its definition."""

import pytest
import torch

from dragoman.shared.nn.dropout import dropout


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.999999])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_shares_scale_and_gradient(probability, dtype):
    torch.manual_seed(1)
    x = torch.full((301, 333), 2.0, dtype=dtype, requires_grad=True)
    y = dropout(x, probability, training=True)
    share = (y == 0).double().mean().item()
    deviation = (probability * (1 - probability) / x.numel()) ** 0.5
    assert abs(share - probability) < 5 * deviation + 2**-17
    kept = y[y != 0]
    assert kept.numel() == 0 or kept.min() == kept.max()
    if probability < 0.9:
        assert kept[0].item() == pytest.approx(2 / (1 - probability), rel=1e-2 if dtype == torch.bfloat16 else 1e-4)
        assert y.double().mean().item() == pytest.approx(2.0, abs=0.05)
    y.sum().backward()
    torch.testing.assert_close(x.grad * 2, y.detach())  # the same elements, by the same factor


def test_each_bit_of_a_drawn_number_is_used_on_its_own():
    torch.manual_seed(1)
    dropped = (dropout(torch.ones(40_000, 4), 0.25, training=True) == 0).double()
    assert (dropped.mean(0) - 0.25).abs().max() < 0.02  # four elements share one number
    together = (dropped.T @ dropped / len(dropped)).fill_diagonal_(0.0625)
    assert (together - 0.0625).abs().max() < 0.01


def test_seed_evaluation_and_odd_shapes():
    x = torch.randn(3, 5, 7)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(dropout(x, 0.5, training=True))
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])
    assert dropout(x, 0.5, training=False) is x and dropout(x, 0.0, training=True) is x
    for shape in ((), (1,), (0, 3)):
        assert dropout(torch.ones(shape), 0.5, training=True).shape == shape
    turned = dropout(torch.ones(64, 96).T, 0.5, training=True)
    assert turned.shape == (96, 64) and 0 < turned.sum() < 2 * turned.numel()


def test_compiled_layers_use_torchs_own():
    compiled = torch.compile(lambda x: dropout(x, 0.5, training=True), backend="eager", fullgraph=True)
    assert set(compiled(torch.ones(1000)).unique().tolist()) == {0.0, 2.0}
