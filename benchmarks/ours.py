"""The common part of our arms of the training benchmarks: updates by Fit, as in a recipe, without loader and files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import training
from benchmarks.training import BETAS, CLIP, EPSILON, SMOOTHING, fill
from dragoman.shared.batch import Batch
from dragoman.shared.machine.settings import prepare_process
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.objectives.cross_entropy import CrossEntropy
from dragoman.shared.objectives.parts import EncoderDecoderObjective
from dragoman.shared.training.compiling import compile_layers
from dragoman.shared.training.history import Meter
from dragoman.shared.training.optimizer import Adam
from dragoman.shared.training.update import Learner

Names = Callable[[str], tuple[str, ...]]


class Holder(nn.Module):
    """A system with what an objective needs of it for training."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model


class Trainer:
    """Does updates.

    Args:
        model: a Translator; it is filled with the values that all arms begin with.
        workspace: device, precision, compile.
        rate: the learning rate.
        names: of the parameters in fairseq.

    """

    def __init__(self, model: nn.Module, workspace: Workspace, rate: float, names: Names) -> None:
        prepare_process(workspace.device)  # as Fit.run does
        fill(parts(model, names))
        self.model = model
        self.objective = EncoderDecoderObjective(system=Holder(model), parts=[CrossEntropy(label_smoothing=SMOOTHING)])
        self.objective.to(workspace.device)
        self.workspace = workspace
        optimizer = Adam(betas=list(BETAS), eps=EPSILON).build(self.objective)
        self.learner = Learner(self.objective, self.objective, optimizer, CLIP)
        self.learner.at(1, rate)
        if workspace.compile:
            compile_layers(self.objective)

    def update(self, batch: Batch) -> None:
        """Do one update."""
        self.learner.update([batch], Meter(), self.workspace)

    @torch.no_grad()
    def loss(self, batch: Batch) -> float:
        """Return the loss per token, without dropout."""
        self.objective.eval()
        with self.workspace.autocast():
            return self.objective(batch.to(self.workspace.device)).total().item()


def counted(model: nn.Module, batches: list[Batch]) -> int:
    """Count the floating point operations of the matrix products of forward and backward passes, without doing them."""
    objective = EncoderDecoderObjective(
        system=Holder(model.to("meta")), parts=[CrossEntropy(label_smoothing=SMOOTHING)]
    )
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        for batch in batches:
            objective(batch.to("meta")).total().backward()
    return counter.get_total_flops()


def moved(model: nn.Module, updates: int) -> int:
    """Return the bytes that updates have to move if no cache holds the model, activations aside.

    Of each parameter, in fp32: its value is read by the forward and by the backward pass, its gradient is written, read
    to be clipped, and read by Adam, which also reads and writes the value and both moments.
    """
    return updates * 4 * (2 + 1 + 1 + 1 + 6) * sum(p.numel() for p in model.parameters())


def parts(model: nn.Module, names: Names) -> Iterator[tuple[str, Tensor]]:
    """Yield fairseq's parameters, which are parts of ours."""
    for name, values in model.named_parameters():
        theirs = names(name)
        if not theirs:
            raise ValueError(f"{name} has no counterpart")
        yield from zip(theirs, values.detach().chunk(len(theirs)), strict=True)


def worker(
    build: Callable[[float], nn.Module],
    batches: list[Batch],
    checked: Batch,
    work: float,
    place: Workspace,
    names: Names,
) -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
    """Set up our arm of a benchmark.

    Args:
        build: makes the model with a given dropout.
        batches: as in benchmarks/training.py.
        checked: likewise.
        work: likewise.
        place: device, precision, compile.
        names: of the parameters in fairseq.

    """
    told, repeat = training.worker(
        lambda dropout, rate: Trainer(build(dropout), place, rate, names), batches, checked, work, place.device
    )
    told |= {"flops": counted(build(0.0), batches), "bytes": moved(build(0.0), len(batches))}
    return told | {"bytes_of": "parameters, gradients and moments"}, repeat
