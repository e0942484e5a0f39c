"""A frozen part stays in eval mode inside a module that is trained, and lets gradients through."""

import torch
from torch import nn

from dragoman.mt.frozen import HoldsFrozen, frozen


class Model(HoldsFrozen):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.reader = frozen(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)))


def test_a_frozen_part():
    model = Model()
    for mode in (True, False, True):
        assert model.train(mode).first.training is mode
        assert not any(part.training for part in model.reader.modules())
    assert {name.partition(".")[0] for name in model.state_dict()} == {"first", "reader"}
    model.reader(model.first(torch.ones(1, 2))).sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is not None] == [
        "first.weight",
        "first.bias",
    ]
    assert not any(parameter.requires_grad for parameter in model.reader.parameters())
