"""Fused Adam against the formula; 8-bit moments near it; updates that are not finite change nothing."""

import copy

import pytest
import torch

from dragoman.shared.training.optimizer import Adam, Adam8bit, clip_gradient, set_learning_rate, step_if_finite
from tests.shared.training.test_optimizer import large, tensors, train

pytestmark = pytest.mark.gpu


def adamw(parameter, gradients, *, rate, decay, betas=(0.9, 0.98), eps=1e-8):
    """Loshchilov and Hutter 2019, algorithm 2, in float64."""
    x = parameter.detach().double().cpu()
    first, second = torch.zeros_like(x), torch.zeros_like(x)
    for step, gradient in enumerate(gradients, start=1):
        g = gradient.double().cpu()
        first = betas[0] * first + (1 - betas[0]) * g
        second = betas[1] * second + (1 - betas[1]) * g**2
        mean, square = first / (1 - betas[0] ** step), second / (1 - betas[1] ** step)
        x = x - rate * decay * x - rate * mean / (square.sqrt() + eps)
    return x


def test_fused_adam_is_the_formula(device):
    model = large(device)
    optimizer = Adam(weight_decay=0.1, multipliers={"0.bias": 0.5}).build(model)
    generator = torch.Generator().manual_seed(3)
    names = [name for name, _ in model.named_parameters()]
    given = {n: [torch.randn(p.shape, generator=generator) for _ in range(6)] for n, p in model.named_parameters()}
    rates = {name: 0.005 if name == "0.bias" else 0.01 for name in given}
    wanted = {n: adamw(p, given[n], rate=rates[n], decay=0.1) for n, p in model.named_parameters()}
    for step in range(6):
        for name, parameter in model.named_parameters():
            parameter.grad = given[name][step].to(device)
        set_learning_rate(optimizer, 0.01)
        assert step_if_finite(optimizer, torch.tensor(1.0, device=device)).item() == 0
    for name in names:
        torch.testing.assert_close(model.state_dict()[name].double().cpu(), wanted[name], atol=1e-6, rtol=1e-5)


@pytest.fixture(params=[Adam, Adam8bit])
def settings(request):
    if request.param is Adam8bit:
        pytest.importorskip("bitsandbytes")
    return request.param(weight_decay=0.1)


@pytest.mark.parametrize("updates", [0, 3])
def test_an_update_that_is_not_finite_changes_nothing(settings, device, updates):
    model = large(device)
    optimizer = settings.build(model)
    train(model, optimizer, updates)
    weights, state = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict()["state"])
    set_learning_rate(optimizer, 0.1)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    model[2].weight.grad[0, 0] = float("nan")
    assert step_if_finite(optimizer, clip_gradient(optimizer, 1.0)).item() == 1
    assert all(torch.equal(weights[name], tensor) for name, tensor in model.state_dict().items())
    for index, moments in optimizer.state_dict()["state"].items():
        for name, tensor in moments_of(moments).items():
            before = moments_of(state[index])[name] if updates else torch.zeros_like(tensor)
            assert torch.equal(tensor, before), name


def moments_of(state):
    """Return the moments of one parameter, as either optimiser keeps them."""
    nested = any(isinstance(value, dict) for value in state.values())
    return tensors(state) if nested else {name: state[name] for name in ("exp_avg", "exp_avg_sq")}


def test_8_bit_moments_are_near_those_of_32_bits_and_a_quarter_of_their_size(device):
    pytest.importorskip("bitsandbytes")
    exact, rough = large(device), large(device)
    before = copy.deepcopy(exact.state_dict())
    wanted = train(exact, Adam(weight_decay=0.1).build(exact), 30)
    settings = Adam8bit(weight_decay=0.1)
    optimizer = settings.build(rough)
    assert train(rough, optimizer, 30) == pytest.approx(wanted, rel=0.01)
    for name, tensor in exact.state_dict().items():
        way = tensor - before[name]
        distance = float((rough.state_dict()[name] - tensor).norm() / way.norm())
        assert distance < 0.1 and (distance > 0 or tensor.numel() < 4096), name
    for parameter in rough.parameters():
        state = optimizer.state[parameter]
        sizes = [state[name].numel() * state[name].element_size() for name in state if name.startswith(("sta", "abs"))]
        assert sum(sizes) == settings.state_bytes(parameter)
        assert (state["state1"].dtype == torch.uint8) == (parameter.numel() >= 4096)


def test_a_run_goes_on_bit_for_bit(settings, device, tmp_path):
    whole, cut = large(device), large(device)
    train(whole, settings.build(whole), 8)
    optimizer = settings.build(cut)
    train(cut, optimizer, 5)
    torch.save({"model": cut.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "training.pt")
    saved = torch.load(tmp_path / "training.pt", map_location="cpu", weights_only=True)
    resumed = large(device)
    resumed.load_state_dict(saved["model"])
    optimizer = settings.build(resumed)
    optimizer.load_state_dict(saved["optimizer"])
    train(resumed, optimizer, 3, first=5)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], tensor), name
