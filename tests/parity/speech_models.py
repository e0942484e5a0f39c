"""Shared helpers of the tests that compare speech models with transformers; they do not import it."""

from __future__ import annotations

import soundfile
import torch

from tests.parity.compared import Compared

LETTERS = ["<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONI'"]


def read(files: list[str]) -> list[torch.Tensor]:
    return [torch.from_numpy(soundfile.read(file, dtype="float32")[0]) for file in files]


def disturbed(model: torch.nn.Module, size: float) -> torch.nn.Module:
    """Leave nothing at 0 or 1, where mistakes hide; vectors of padding stay zero."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * size)
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
                module.weight[module.padding_idx] = 0
    return model.eval()


def weighted(x: torch.Tensor) -> torch.Tensor:
    return (x * torch.linspace(-1, 1, x.numel()).view_as(x)).sum()


def check_gradients(ours, theirs, names, found: Compared) -> None:
    gradients = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    compared = 0
    for name, parameter in ours.named_parameters():
        parts = [gradients[part] for part in names(name)]
        if any(part is None for part in parts):
            assert parameter.grad is None or not parameter.grad.any(), name
            continue
        expected = torch.cat(parts)
        size = expected.abs().max().clamp(min=1)
        found.close("gradients", parameter.grad / size, expected / size, message=name)
        compared += 1
    assert compared > 25
