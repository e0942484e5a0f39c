"""The product quantiser against loops over elements and groups."""

import math

import pytest
import torch
from torch.nn import functional as F

from dragoman.shared.nn.quantiser import ContrastiveHead, ProductQuantiser, perplexity
from dragoman.shared.padded import Padded
from tests.small import refuses


def quantiser(**arguments) -> ProductQuantiser:
    torch.manual_seed(1)
    return ProductQuantiser(**{"inputs": 5, "width": 6, "groups": 3, "entries": 4} | arguments)


def test_each_group_gives_its_most_probable_code_and_padding_takes_no_part() -> None:
    module = quantiser().eval()
    x = Padded(torch.randn(2, 7, 5), torch.tensor([7, 4]))
    found, real = module(x), x.mask
    logits = (x.values[real] @ module.logits.weight.T + module.logits.bias).view(11, 3, 4)
    best = logits.argmax(-1)
    assert torch.equal(found.entries[real], best)
    codes = torch.cat([module.codes[group, best[:, group]] for group in range(3)], dim=1)
    torch.testing.assert_close(found.vectors[real], codes)
    torch.testing.assert_close(found.probabilities, logits.softmax(-1).mean(0))
    torch.testing.assert_close(found.usage, F.one_hot(best, 4).float().mean(0))


def test_perplexity_of_hand_values() -> None:
    assert perplexity(torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])) == 2
    torch.testing.assert_close(perplexity(torch.full((2, 320), 1 / 320)), torch.tensor(640.0))
    expected = 2 + math.exp(-0.25 * math.log(0.25) - 0.75 * math.log(0.75))
    torch.testing.assert_close(perplexity(torch.tensor([[0.5, 0.5], [0.25, 0.75]])), torch.tensor(expected))


def test_in_training_the_vector_is_one_code_and_the_gradient_that_of_the_softmax() -> None:
    """Straight through: forward as hard, backward as soft, at the temperature and with the noise that was drawn."""
    module = quantiser(groups=1, width=2).train()
    x = Padded(torch.randn(1, 9, 5), torch.tensor([9]))
    direction = torch.randn(1, 9, 2)
    torch.manual_seed(3)
    found = module(x, 0.7)
    for place in range(9):
        torch.testing.assert_close(found.vectors[0, place], module.codes[0, int(found.entries[0, place, 0])])
    (gradient,) = torch.autograd.grad((found.vectors * direction).sum(), module.logits.weight)
    torch.manual_seed(3)
    noise = -torch.empty(1, 9, 1, 4).exponential_().log()
    logits = module.logits(x.values)[:, :, None] + noise
    soft = (logits / 0.7).softmax(-1)
    assert torch.equal(soft.argmax(-1), found.entries)
    (expected,) = torch.autograd.grad((soft[:, :, 0] @ module.codes[0] * direction).sum(), module.logits.weight)
    torch.testing.assert_close(gradient, expected, atol=1e-5, rtol=1e-4)


def test_a_low_temperature_changes_gradients_and_not_how_often_an_entry_is_drawn() -> None:
    module = quantiser(groups=1, width=2).train()
    x = Padded(torch.randn(1, 1, 5).expand(1, 20000, 5), torch.tensor([20000]))
    expected = module.logits(x.values[0, 0]).softmax(-1)
    for temperature in (2.0, 0.5):
        drawn = torch.bincount(module(x, temperature).entries[0, :, 0], minlength=4) / 20000
        torch.testing.assert_close(drawn, expected, atol=0.02, rtol=0)


def test_new_logits_and_codes_are_drawn_as_published() -> None:
    module = ProductQuantiser(inputs=512)
    assert module.codes.shape == (2, 320, 128) and 0 <= module.codes.min() < 0.01 and 0.99 < module.codes.max() <= 1
    assert float(module.logits.weight.detach().std()) == pytest.approx(1, abs=0.01)
    assert not module.logits.bias.any()


def test_sizes_and_defaults() -> None:
    plain = ProductQuantiser(inputs=4)
    assert (plain.width, plain.groups, plain.entries, plain.dropout) == (256, 2, 320, 0.0)
    assert plain.codes.shape == (2, 320, 128) and plain.logits.weight.shape == (640, 4)
    said = "^the width 5 cannot be divided into 2 groups$"
    refuses(ValueError, said, ProductQuantiser, inputs=4, width=5, entries=3)
    head = ContrastiveHead(quantiser=plain, width=6)
    assert head.states.weight.shape == (256, 6) and head.targets.weight.shape == (256, 256)


def test_dropout_is_of_the_inputs_in_training() -> None:
    torch.manual_seed(0)
    quantiser = ProductQuantiser(inputs=4, width=4, groups=1, entries=3, dropout=0.999999)
    x = Padded(torch.randn(1, 50, 4) * 9, torch.tensor([50]))
    uniform = torch.full((1, 3), 1 / 3)
    torch.testing.assert_close(quantiser(x).probabilities, uniform)
    assert not torch.allclose(quantiser.eval()(x).probabilities, uniform, atol=0.01)
