"""The contents of a module: its parameters by name, and whether it is in training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import nn

from dragoman.shared.errors import DataError


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put a module into eval mode for a while; afterwards each of its parts is in the mode that it was in.

    ``module.train(was_training)`` would also wake up the parts that were frozen in eval mode.
    """
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def contiguous(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copy tensors that share memory (tied embeddings) apart, which is what the file format asks for."""
    seen: set[int] = set()
    result = {}
    for name, tensor in state.items():
        tensor = tensor.detach().cpu().contiguous()
        memory = tensor.untyped_storage().data_ptr()  # of views of one tensor, too
        result[name] = tensor.clone() if memory in seen else tensor
        seen.add(memory)
    return result


def check_fit(module: nn.Module, tensors: Mapping[str, torch.Tensor], source: str) -> None:
    """Compare a state dict with a module; either may be on the meta device, where nothing has values.

    Raises:
        DataError: naming the source and what is missing, unexpected, differently shaped or of another kind.
    """
    expected = module.state_dict()
    problems = [f"missing {name}" for name in expected if name not in tensors]
    problems += [f"unexpected {name}" for name in tensors if name not in expected]
    given = {name: (one.shape, one.dtype) for name, one in tensors.items() if name in expected}
    problems += [
        f"{name} is {tuple(given[name][0])} instead of {tuple(own.shape)}"
        for name, own in expected.items()
        if name in given and given[name][0] != own.shape
    ]
    problems += [
        f"{name} holds {given[name][1]} instead of {own.dtype}"
        for name, own in expected.items()
        if name in given and given[name][1].is_floating_point != own.is_floating_point()
    ]
    if problems:
        more = f" and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise DataError(f"{source}: does not fit the model: {'; '.join(problems[:5])}{more}")


def load_exactly(module: nn.Module, tensors: dict[str, torch.Tensor], source: str) -> None:
    """Load a state dict that must match in every name and shape.

    Raises:
        DataError: naming the source and what is missing, unexpected, differently shaped or of another kind.
    """
    check_fit(module, tensors, source)
    module.load_state_dict(tensors)
