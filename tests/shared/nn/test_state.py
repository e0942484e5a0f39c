"""The contents of a module: modes that come back, copies that share nothing, parameters that must all fit."""

import pytest
import torch
from torch import nn

from dragoman.shared.errors import DataError
from dragoman.shared.nn.state import contiguous, evaluating, load_exactly


def test_every_part_is_afterwards_in_the_mode_that_it_was_in():
    module = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout()))
    module[1].eval()
    with pytest.raises(KeyError), evaluating(module):
        assert not any(part.training for part in module.modules())
        raise KeyError
    assert [part.training for part in module.modules()] == [True, True, False, False]


def test_copies_share_no_memory():
    whole = torch.arange(6.0)
    state = contiguous({"a": whole, "b": whole[2:], "c": whole.view(2, 3).T, "d": whole})
    assert len({tensor.untyped_storage().data_ptr() for tensor in state.values()}) == 4
    assert state["b"].tolist() == [2, 3, 4, 5] and state["c"].tolist() == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        ({"weight": None}, "missing weight"),
        ({"other": torch.zeros(1)}, "unexpected other"),
        ({"weight": torch.zeros(3, 2)}, r"weight is \(3, 2\) instead of \(2, 3\)"),
        ({"bias": torch.zeros(2, dtype=torch.int64)}, "bias holds torch.int64 instead of torch.float32"),
    ],
)
def test_parameters_that_do_not_fit_are_named_and_none_is_loaded(harm, message):
    module = nn.Linear(3, 2)
    before = module.bias.detach().clone()
    tensors = {"weight": torch.ones(2, 3), "bias": torch.ones(2)} | harm
    with pytest.raises(DataError, match=f"^file: does not fit the model: {message}$"):
        load_exactly(module, {name: tensor for name, tensor in tensors.items() if tensor is not None}, "file")
    assert torch.equal(module.bias, before)


def test_parameters_that_fit_are_loaded():
    module = nn.Linear(3, 2)
    load_exactly(module, {"weight": torch.ones(2, 3), "bias": torch.full((2,), 7.0)}, "file")
    assert module.weight.tolist() == [[1] * 3] * 2 and module.bias.tolist() == [7, 7]
