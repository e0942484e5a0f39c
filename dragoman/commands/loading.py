"""The models that a command's options name, and the machine that they run on."""

from __future__ import annotations

from pathlib import Path

from dragoman.commands.model_options import ModelOptions
from dragoman.commands.options import command_line
from dragoman.placing.budgets import loader
from dragoman.shared.errors import UsageError
from dragoman.shared.machine.device import Machine
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.systems.combining import load_combined
from dragoman.shared.systems.system import System


def load_models(model: Path, options: ModelOptions, machine: Machine, *, ctc: bool = False) -> System:
    """Load a model folder and those that the options put beside it, for the engine that they name and searches there.

    Raises:
        UsageError: if the engine cannot read a CTC head, or has no place for the model.
    """
    if options.engine == "ctranslate2":
        from dragoman.exchange.ctranslate2 import CTranslate2System

        if ctc:
            raise UsageError("--ctc needs the native engine")
        return CTranslate2System.open(model, machine.device).for_task(reads=options.inputs, writes=options.writes)
    return load_combined(
        model,
        machine.device,
        autocast_dtype=machine.autocast_dtype,
        ensemble=options.ensemble or [],
        language_model=options.lm,
        lm_weight=options.lm_weight,
        ctc=ctc,
        ctc_weight=options.ctc_weight,
        reads=options.inputs,
        writes=options.writes,
        load=loader(options.memory, machine, alone=not options.ensemble and options.lm is None),
    )


def workspace_for(output: Path, models: ModelOptions, phase: str) -> Workspace:
    """Return the workspace of a command: its folder, and the machine that the options name."""
    return Workspace(
        output=output, device=models.device, precision=models.precision, command=command_line(), phase=phase
    )
