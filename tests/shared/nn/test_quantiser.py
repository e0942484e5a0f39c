"""The product quantiser against loops over elements and groups."""

import math

import pytest
import torch

from dragoman.shared.nn.quantiser import ContrastiveHead, ProductQuantiser, perplexity
from dragoman.shared.padded import Padded
from tests.small import refuses


def quantiser(**arguments) -> ProductQuantiser:
    torch.manual_seed(1)
    return ProductQuantiser(**{"inputs": 5, "width": 6, "groups": 3, "entries": 4} | arguments)


def test_each_group_gives_its_most_probable_code_and_padding_takes_no_part() -> None:
    module = quantiser().eval()
    x = Padded(torch.randn(2, 7, 5), torch.tensor([7, 4]))
    found = module(x)
    probabilities, usage = torch.zeros(3, 4), torch.zeros(3, 4)
    for row, length in enumerate((7, 4)):
        for place in range(length):
            logits = x.values[row, place] @ module.logits.weight.T + module.logits.bias
            for group in range(3):
                own = logits[4 * group : 4 * group + 4]
                best = int(own.argmax())
                expected = module.codes[group, best]
                torch.testing.assert_close(found.vectors[row, place, 2 * group : 2 * group + 2], expected)
                assert found.entries[row, place, group] == best
                probabilities[group] += own.exp() / own.exp().sum() / 11
                usage[group, best] += 1 / 11
    torch.testing.assert_close(found.probabilities, probabilities)
    torch.testing.assert_close(found.usage, usage)


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
    ProductQuantiser(inputs=1, width=1, groups=1, entries=1)
    for sizes, said in (
        ({"dropout": -0.1}, "ProductQuantiser: dropout must be at least 0 and below 1, not -0.1"),
        ({"dropout": 1.0}, "ProductQuantiser: dropout must be at least 0 and below 1, not 1.0"),
        ({"groups": 0}, "ProductQuantiser: groups must be at least 1, not 0"),
        ({"entries": 0}, "ProductQuantiser: entries must be at least 1, not 0"),
        ({"width": 5, "entries": 3}, "the width 5 cannot be divided into 2 groups"),
    ):
        refuses(ValueError, f"^{said}$", ProductQuantiser, inputs=4, **sizes)
    head = ContrastiveHead(quantiser=plain, width=6)
    assert head.states.weight.shape == (256, 6) and head.targets.weight.shape == (256, 256)
    for sizes in ({"width": 0}, {"width": 6, "compared": 0}):
        said = f"^ContrastiveHead: {[*sizes][-1]} must be at least 1, not 0$"
        refuses(ValueError, said, ContrastiveHead, quantiser=plain, **sizes)
    ContrastiveHead(quantiser=plain, width=1, compared=1)


def test_dropout_is_of_the_inputs_in_training() -> None:
    torch.manual_seed(0)
    quantiser = ProductQuantiser(inputs=4, width=4, groups=1, entries=3, dropout=0.999999)
    x = Padded(torch.randn(1, 50, 4) * 9, torch.tensor([50]))
    uniform = torch.full((1, 3), 1 / 3)
    torch.testing.assert_close(quantiser(x).probabilities, uniform)
    assert not torch.allclose(quantiser.eval()(x).probabilities, uniform, atol=0.01)
