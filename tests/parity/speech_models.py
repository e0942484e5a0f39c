"""Shared helpers of the tests that compare speech models with transformers; they do not import it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import soundfile
import torch

from dragoman.shared.batch import Batch
from dragoman.shared.padded import Padded
from tests.parity.compared import Compared, weighted

LETTERS = ["<pad>", "<s>", "</s>", "<unk>", "|", *"ETAONI'"]


def read(files: list[str]) -> list[torch.Tensor]:
    return [torch.from_numpy(soundfile.read(file, dtype="float32")[0]) for file in files]


def features_of(extractor: Any, folder: Path, file: str) -> torch.Tensor:
    """Return what a class of transformers, with the settings of a folder, computes of a sound."""
    reader = extractor.from_pretrained(folder)
    return reader(read([file])[0].numpy(), sampling_rate=16000, return_tensors="pt").input_features


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


def check_gradients(ours, theirs, names, found: Compared) -> None:
    found.gradients(ours, names, {name: parameter.grad for name, parameter in theirs.named_parameters()})


def same_outputs(model: Any, theirs: Any, files: list[str], features: Any, prefix: list[int], found: Compared) -> None:
    """Compare states and logits of sounds, ours in one batch and theirs alone; leave the gradients of both."""
    encoding = model.encode(Batch({"speech": Padded.from_sequences(read(files), padding=0.5)}))
    tokens = torch.tensor([prefix])
    batch = Padded(tokens.expand(len(files), -1), torch.full((len(files),), len(prefix)))
    logits = model.project(model.decode(batch, encoding))
    total: Any = 0
    for file, states, ours in zip(files, encoding.memories["source"].rows(), logits, strict=True):
        expected = theirs(features(file), decoder_input_ids=tokens)
        found.close("states", states, expected.encoder_last_hidden_state[0])
        found.close("logits", ours, expected.logits[0])
        total = total + weighted(expected.logits[0])
    total.backward()
    sum(weighted(ours) for ours in logits).backward()


def without_noise(logits: torch.Tensor, tau: float, hard: bool) -> torch.Tensor:
    """Take the most probable entry, with the gradient of the softmax at the temperature, as the fixtures do.

    The sum is exact: transformers compares vectors, not entries, to find distractors that equal the true frame, and
    the rounding of torch's function hides some of them.
    """
    soft = (logits / tau).softmax(-1)
    return torch.nn.functional.one_hot(soft.argmax(-1), soft.shape[-1]) + (soft - soft.detach())
