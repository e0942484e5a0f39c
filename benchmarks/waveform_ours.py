"""Our arm of benchmarks/waveform_training.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import training
from benchmarks import waveform_training as setting
from benchmarks.ours import moved
from benchmarks.training import BETAS, CLIP, EPSILON, fill, without_noise
from benchmarks.waveform_training import Drawn, Work, sounds
from benchmarks.worker import serve
from dragoman.exchange.fairseq.fairseq_names import PARTS
from dragoman.exchange.fairseq.fairseq_wav2vec2 import names_of
from dragoman.exchange.wav2vec2_model import WaveformPlan, counterparts, system_around
from dragoman.shared.batch import Batch
from dragoman.shared.machine.settings import prepare_process
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.nn.quantiser import ContrastiveHead, ProductQuantiser
from dragoman.shared.padded import Padded
from dragoman.shared.training.compiling import compile_layers
from dragoman.shared.training.history import Meter
from dragoman.shared.training.optimizer import Adam
from dragoman.shared.training.update import Learner
from dragoman.st.wav2vec2 import DISTRACTORS, MASKED, ContrastivePretraining


def plan(work: Work, dropout: float) -> WaveformPlan:
    """Return the architecture."""
    return WaveformPlan(
        convolutions=[[work.channels, kernel, stride] for kernel, stride in setting.CONVOLUTIONS],
        bias=False,
        norm_each=False,
        projected=True,
        layer={
            "width": work.width,
            "heads": work.heads,
            "feedforward": work.feedforward,
            "dropout": dropout,
            "activation": "gelu",
            "pre_norm": False,
        },
        layers=work.layers,
        kernel=setting.POSITIONS,
        groups=setting.POSITION_GROUPS,
        normalisation=None,
        masking={"probability": setting.MASKED_SHARE, "span": setting.SPAN, "least": 2},
        frame_dropout=dropout,
    )


def objective_of(work: Work, dropout: float) -> ContrastivePretraining:
    """Build the model and its loss."""
    quantiser = ProductQuantiser(
        inputs=work.channels, width=work.codes_width, groups=setting.GROUPS, entries=work.entries, dropout=dropout
    )
    head = ContrastiveHead(quantiser=quantiser, width=work.width, compared=work.codes_width)
    system = system_around(plan(work, dropout).build("", {"contrastive": head}), None, None, "")
    return ContrastivePretraining(
        system=system,
        distractors=work.distractors,
        temperature=setting.TEMPERATURE,
        diversity=setting.DIVERSITY,
        penalty=0.0,
        code_temperature=[setting.CODE_TEMPERATURE, setting.CODE_TEMPERATURE, 1.0],
    )


def names(name: str, work: Work) -> tuple[str, ...]:
    """Return what a parameter is called in fairseq."""
    return counterparts(name, names_of(plan(work, 0.0)), dict(PARTS))


def parts(model: nn.Module, work: Work) -> Iterator[tuple[str, Tensor]]:
    """Yield fairseq's parameters, which are parts of ours; its codes of all groups stand in one row."""
    for name, values in model.named_parameters():
        theirs = names(name, work)
        if not theirs:
            raise ValueError(f"{name} has no counterpart")
        whole = values.detach()
        whole = whole.view(1, -1, whole.shape[-1]) if name.endswith(".codes") else whole
        yield from zip(theirs, whole.chunk(len(theirs)), strict=True)


class Trainer:
    """Does updates by Learner, as Fit does.

    Args:
        work: the model and its data.
        dropout: of sub-layers, of projected frames and of what is quantised.
        rate: the learning rate.
        given: masks and distractors, in place of drawn ones; codes are then chosen without noise.

    """

    def __init__(self, work: Work, dropout: float, rate: float, given: Drawn | None) -> None:
        compile = "auto" if given is None else False
        self.workspace = Workspace(Path(), device=work.device, precision=work.precision, compile=compile)
        prepare_process(work.device)  # as Fit.run does
        self.objective = objective_of(work, dropout).to(work.device)
        self.model = self.objective.model
        self.given = given
        fill(parts(self.model, work))
        if given is not None:
            self.objective.prepare = self.prepared  # type: ignore[method-assign]
        optimizer = Adam(betas=list(BETAS), eps=EPSILON).build(self.objective)
        self.learner = Learner(self.objective, self.objective, optimizer, CLIP)
        self.learner.at(1, rate)
        if self.workspace.compile:
            compile_layers(self.objective)

    def prepared(self, batch: Batch) -> Batch:
        """Add what is given to a batch."""
        assert self.given is not None
        steps, distractors = (torch.tensor(drawn) for drawn in self.given)
        lengths = self.objective.embedding.lengths(batch["speech"].lengths)
        masked = torch.zeros(len(steps), int(lengths.max()), dtype=torch.bool).scatter_(1, steps, True)
        counts = torch.full((len(steps),), steps.shape[1])
        drawn = {MASKED: Padded(masked, lengths.cpu()), DISTRACTORS: Padded(distractors, counts)}
        return batch.with_fields(**drawn).to(self.workspace.device)

    def update(self, batch: Batch) -> None:
        """Do one update."""
        with without_noise(self.given is not None):
            self.learner.update([batch], Meter(), self.workspace)

    @torch.no_grad()
    def loss(self, batch: Batch) -> float:
        """Return the loss per masked frame, without dropout."""
        self.objective.eval()
        self.objective.head.quantiser.train()
        with self.workspace.autocast(), without_noise(True):
            return self.objective(self.prepared(batch)).total().item()


def batch_of(waveforms: Tensor) -> Batch:
    """Make a batch."""
    speech = Padded(waveforms, torch.full((len(waveforms),), waveforms.shape[1]), full=True)
    return Batch({"speech": speech}, ids=[str(number) for number in range(len(waveforms))])


def counted(objective: ContrastivePretraining, batch: Batch) -> int:
    """Count the floating point operations of the matrix products and convolutions of a forward and backward pass."""
    objective.train()
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        objective(objective.prepare(batch)).total().backward()
    return int(counter.get_total_flops())


def setup() -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
    """Set up, as :func:`benchmarks.worker.serve` wants it."""
    work = Work.of_argument()
    given = work.drawn()
    batches = [batch_of(sounds(work.rows, work.seconds))]
    told, repeat = training.worker(
        lambda dropout, rate: Trainer(work, dropout, rate, None) if dropout else Trainer(work.exact, 0.0, rate, given),
        batches,
        batch_of(sounds(*setting.CHECKED)),
        work.rows * work.seconds,
        work.device,
    )
    objective = objective_of(work, 0.0)
    told |= {"flops": counted(objective, batches[0]), "bytes": moved(objective, 1)}
    return told | {"bytes_of": "parameters, gradients and moments"}, repeat


if __name__ == "__main__":
    serve(setup)
