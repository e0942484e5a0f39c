"""The optimiser: multipliers, and updates that are not finite."""

import copy

import pytest
import torch
from torch import nn

from shared.errors import UsageError
from shared.training.optimizer import Adam, clip_gradient, set_learning_rate, step_if_finite


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


def test_an_update_that_is_not_finite_changes_nothing():
    model = nn.Linear(3, 1)
    optimizer = Adam(weight_decay=0.1).build(model)
    set_learning_rate(optimizer, 0.1)
    model.weight.grad, model.bias.grad = torch.ones(1, 3), torch.ones(1)
    step_if_finite(optimizer, torch.tensor(1.0))
    weights, state = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict()["state"])
    model.weight.grad[0, 0] = float("nan")
    assert step_if_finite(optimizer, torch.tensor(float("nan"))).item() == 1
    assert all(torch.equal(weights[name], tensor) for name, tensor in model.state_dict().items())
    for index, moments in optimizer.state_dict()["state"].items():
        assert all(torch.equal(moments[name], state[index][name]) for name in moments)


def test_a_pattern_that_matches_nothing_is_refused():
    with pytest.raises(UsageError, match="tail"):
        Adam(multipliers={"tail": 0.0}).build(nn.Linear(1, 1))


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
