"""Parameters that are cast together: the same bits as by autocast, in losses and gradients, with fewer operators."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from dragoman.shared.nn.casting import GROUP, cast_together
from dragoman.shared.nn.linear import Linear


class Model(nn.Module):
    """A matrix that is used twice, one that is shared, one that is frozen, one that is not used, one without a bias."""

    def __init__(self, recompute: bool, more: int = 0) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.shared, self.frozen, self.unused = (Linear(8, 8) for _ in range(4))
        self.last = Linear(8, 8, bias=False)
        self.shared.weight = self.first.weight
        self.frozen.requires_grad_(False)
        self.more = nn.ModuleList([Linear(8, 8) for _ in range(more)])
        self.exact = Linear(8, 8).double()
        self.recompute = recompute

    def forward(self, x: Tensor) -> Tensor:
        x = self.frozen(self.first(self.first(x)).relu())
        x = checkpoint(self.shared, x, use_reentrant=False) if self.recompute else self.shared(x)
        for layer in self.more:
            x = x + layer(x)
        return self.last(x).float().square().sum()


class Casts(TorchDispatchMode):
    """Counts the operators that change a type."""

    def __init__(self) -> None:
        super().__init__()
        self.single = self.together = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.single += func is torch.ops.aten._to_copy.default and args[0].dim() == 2 and args[0].shape == (8, 8)
        self.together += func is torch.ops.aten._foreach_copy_.default
        return func(*args, **(kwargs or {}))


def update(model: Model, dtype: torch.dtype | None) -> tuple[Tensor, dict[str, Tensor | None]]:
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(2))
    with cast_together(model, dtype):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(x)
        loss.backward()
    return loss.detach(), {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_losses_and_gradients_are_the_same_bits(recompute, compiled):
    plain, other = Model(recompute), Model(recompute)
    if compiled:
        torch._dynamo.reset()
        other.first.compile(backend="aot_eager", dynamic=True)
    for _ in range(2):
        (loss, gradients), (found, given) = update(plain, None), update(other, torch.bfloat16)
        assert torch.equal(found, loss)
        for name, gradient in gradients.items():
            assert (given[name] is None) == (gradient is None), name
            assert gradient is None or (torch.equal(given[name], gradient) and gradient.dtype == torch.float32), name
    assert given["unused.weight"] is given["frozen.weight"] is None


def test_what_is_cast_are_few_operators_and_gone_afterwards():
    model = Model(False, more=GROUP)  # and as many biases
    with Casts() as plain:
        update(model, None)
    with Casts() as casts:
        update(model, torch.bfloat16)
    assert plain.together == 0 and plain.single >= 2 * GROUP
    assert casts.together == 2 * 3 and casts.single == 0  # three groups, forward and backward
    assert all(layer.cast is None for layer in model.modules() if isinstance(layer, Linear))


def test_an_error_leaves_nothing_behind_and_copies_are_not_kept():
    model = Model(False)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ZeroDivisionError), cast_together(model, torch.bfloat16):
        assert model.first.cast[0].dtype == torch.bfloat16 and model.exact.cast is None
        assert model.shared.cast[0] is model.first.cast[0] and model.last.cast[1] is None
        assert model.state_dict().keys() == before.keys()
        raise ZeroDivisionError
    assert model.first.cast is None
