"""The optimiser: multipliers, and updates that are not finite."""

import copy

import pytest
import torch
from torch import nn

from dragoman.shared.errors import UsageError
from dragoman.shared.training import optimizer as optimizers
from dragoman.shared.training.optimizer import Adam, Adam8bit, clip_gradient, set_learning_rate, step_if_finite
from dragoman.shared.training.schedules import Steps
from tests.small import refuses


def test_first_step_is_the_learning_rate_times_the_sign():
    model = nn.ModuleDict({"body": nn.Linear(2, 2), "head": nn.Linear(2, 1)})
    before = copy.deepcopy(model.state_dict())
    optimizer = Adam(multipliers={r"body\..*": 0.0, r"head\.bias": 0.1}, eps=0.0).build(model)
    set_learning_rate(optimizer, 0.01)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, -3.0)
    assert step_if_finite(optimizer, torch.tensor(1.0)).item() == 0
    after = model.state_dict()
    assert torch.equal(after["body.weight"], before["body.weight"])
    torch.testing.assert_close(after["head.weight"], before["head.weight"] + 0.01)
    torch.testing.assert_close(after["head.bias"], before["head.bias"] + 0.001)


def test_an_optimizer_of_elsewhere_has_its_multipliers_in_its_groups():
    one, other = (nn.Parameter(torch.ones(1)) for _ in range(2))
    optimizer = torch.optim.SGD([{"params": [one], "multiplier": 0.5}, {"params": [other], "multiplier": 1}], lr=9.0)
    set_learning_rate(optimizer, 0.2)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.1, 0.2])


def tensors(state):
    """Return the moments of one parameter, which 8-bit ones have one level deeper, without that library's constants."""
    inner = next((value for value in state.values() if isinstance(value, dict)), state)
    return {name: tensor for name, tensor in inner.items() if not name.startswith("qmap")}


@pytest.mark.parametrize("updates", [0, 3])
@pytest.mark.parametrize("settings", [Adam, Adam8bit])
def test_an_update_that_is_not_finite_changes_nothing(settings, updates):
    if settings is Adam8bit:
        pytest.importorskip("bitsandbytes")
    model = large()
    optimizer = settings(weight_decay=0.1).build(model)
    train(model, optimizer, updates)
    weights, state = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict()["state"])
    set_learning_rate(optimizer, 0.1)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    model[2].weight.grad[0, 0] = float("inf")
    assert step_if_finite(optimizer, clip_gradient(optimizer, 1.0)).item() == 1
    assert all(torch.equal(weights[name], tensor) for name, tensor in model.state_dict().items())
    for index, moments in optimizer.state_dict()["state"].items():
        for name, tensor in tensors(moments).items():
            assert torch.equal(tensor, tensors(state[index])[name] if updates else torch.zeros_like(tensor)), name


def test_a_pattern_that_matches_nothing_is_refused():
    refuses(UsageError, "tail", Adam(multipliers={"tail": 0.0}).build, nn.Linear(1, 1))


def test_what_is_frozen_counts_in_no_norm_and_stays_whatever_its_gradient():
    model = nn.ModuleDict({"body": nn.Linear(2, 1, bias=False), "head": nn.Linear(2, 1, bias=False)})
    before = copy.deepcopy(model.state_dict())
    optimizer = Adam(multipliers={r"body\..*": 0.0}, eps=0.0, weight_decay=0.1).build(model)
    set_learning_rate(optimizer, 0.01)
    model["body"].weight.grad = torch.tensor([[float("nan"), 1000.0]])
    model["head"].weight.grad = torch.tensor([[3.0, 4.0]])
    norm = clip_gradient(optimizer, 2.5)
    assert norm.item() == pytest.approx(5.0)
    torch.testing.assert_close(model["head"].weight.grad, torch.tensor([[1.5, 2.0]]))
    assert step_if_finite(optimizer, norm).item() == 0
    assert torch.equal(model["body"].weight, before["body.weight"])
    assert not torch.equal(model["head"].weight, before["head.weight"])
    model["head"].weight.grad = torch.tensor([[3.0, 4.0]])
    assert clip_gradient(optimizer, 0.0).item() == pytest.approx(5.0)
    assert model["head"].weight.grad.tolist() == [[3.0, 4.0]]


@pytest.mark.parametrize("settings", [Adam, Adam8bit])
def test_a_factor_that_follows_the_update_freezes_parameter_and_moments_while_it_is_0(settings):
    if settings is Adam8bit:
        pytest.importorskip("bitsandbytes")
    model = nn.ModuleDict({"body": nn.Linear(2, 1, bias=False), "head": nn.Linear(2, 1, bias=False)})
    steps = Steps(values=[0.0, 0.5, 0.0, 1.0], after=[2, 3, 4])
    adam = settings(multipliers={r"body\..*": steps}, weight_decay=0.1, eps=0.0)
    optimizer = adam.build(model)
    body = model["body"].weight
    kept = []
    for update in range(1, 6):
        set_learning_rate(optimizer, 0.01, update)
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 3.0)
        before, moments = body.detach().clone(), copy.deepcopy(optimizer.state.get(body, {}))
        step_if_finite(optimizer, clip_gradient(optimizer, 0.0))
        kept.append(torch.equal(before, body) and str(moments) == str(optimizer.state.get(body, {})))
        if update == 3:  # the first step of these parameters, whatever the number of updates
            torch.testing.assert_close(body, before * (1 - 0.005 * 0.1) - 0.005)
        groups = optimizer.state_dict()["param_groups"]
        assert [group["multiplier"] for group in groups] == [steps(update), 1.0]
    assert kept == [True, True, False, True, False]


def large(device="cpu") -> nn.Module:
    """Return a model with parameters whose moments are quantised, and small ones whose moments are not."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(96, 128), nn.ReLU(), nn.Linear(128, 50)).to(device)


@pytest.fixture
def adam8bit():
    pytest.importorskip("bitsandbytes")
    return Adam8bit


def train(model, optimizer, updates, *, first=0):
    """Fit noise on fixed inputs; return the losses."""
    losses = []
    device = next(model.parameters()).device
    for number in range(first, first + updates):
        generator = torch.Generator().manual_seed(number)
        inputs, wanted = (torch.randn(16, size, generator=generator).to(device) for size in (96, 50))
        loss = (model(inputs) - wanted).square().mean()
        loss.backward()
        set_learning_rate(optimizer, 0.002)
        step_if_finite(optimizer, clip_gradient(optimizer, 1.0))
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def test_updates_with_8_bit_moments_are_near_those_with_32(adam8bit):
    exact, rough = large(), large()
    before = copy.deepcopy(exact.state_dict())
    settings = {"weight_decay": 0.1, "multipliers": {"0.bias": 0.5}}
    wanted = train(exact, Adam(**settings).build(exact), 30)
    assert train(rough, adam8bit(**settings).build(rough), 30) == pytest.approx(wanted, rel=0.01)
    for name, tensor in exact.state_dict().items():
        way = tensor - before[name]
        distance = (rough.state_dict()[name] - tensor).norm() / way.norm()
        assert distance < 0.1, name
        assert distance > 0 or tensor.numel() < 4096


def test_8_bit_moments_take_a_quarter_of_the_memory(adam8bit):
    model, settings = large(), adam8bit()
    optimizer = settings.build(model)
    train(model, optimizer, 1)
    for parameter in model.parameters():
        state = optimizer.state[parameter]
        moments = [state[name] for name in ("state1", "state2", "absmax1", "absmax2") if name in state]
        assert sum(tensor.numel() * tensor.element_size() for tensor in moments) == settings.state_bytes(parameter)
        assert (state["state1"].dtype == torch.uint8) == (parameter.numel() >= 4096)
    weight = model[0].weight
    assert Adam().state_bytes(weight) == 8 * 96 * 128 and settings.state_bytes(weight) == (2 + 8 / 256) * 96 * 128


def test_with_8_bit_moments_a_run_goes_on_bit_for_bit(adam8bit, tmp_path):
    whole, cut = large(), large()
    train(whole, adam8bit().build(whole), 8)
    optimizer = adam8bit().build(cut)
    train(cut, optimizer, 5)
    torch.save({"model": cut.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "training.pt")
    saved = torch.load(tmp_path / "training.pt", weights_only=True)
    resumed = large()
    resumed.load_state_dict(saved["model"])
    optimizer = adam8bit().build(resumed)
    optimizer.load_state_dict(saved["optimizer"])
    train(resumed, optimizer, 3, first=5)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], tensor), name


def test_without_the_library_8_bit_moments_are_refused(monkeypatch):
    monkeypatch.setattr(optimizers, "find_spec", lambda name: None)
    refuses(UsageError, r"bitsandbytes: pip install 'dragoman\[adam8bit\]'", Adam8bit)
