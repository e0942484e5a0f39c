"""Compiling the layers of an objective (torch.compile)."""

from __future__ import annotations

import os
import shutil
import sys

import torch
from torch import nn

from dragoman.shared.errors import UsageError
from dragoman.shared.machine.device import Machine
from dragoman.shared.nn.layer import EncoderLayer

BACKEND = "inductor"
#: How many versions of a layer are compiled before the rest runs uncompiled. Lengths are dynamic, but a batch of one
#: row, a first step, evaluation, another set of memories, or another kernel of attention each need their own.
VERSIONS = 24
#: What chooses kernels of attention (shared/nn/kernels.py) may be in code that torch keeps on disk: what it is given is
#: a part of the code's name there.
CACHED = ("torch.nn.attention._sdpa_kernel", "torch.nn.attention._backend_from_string")


def loss_backend(machine: Machine) -> str | None:
    """Return what compiles the losses of a run; None on a CPU, where plain ones work on what a cache holds."""
    return BACKEND if machine.compile and machine.device != "cpu" else None


def compile_layers(objective: nn.Module, *, backend: str = BACKEND, device: str = "") -> None:
    """Compile the layers in place, for batches of any size and the device, by default theirs; parameters keep names.

    Raises:
        UsageError: if the layers compute on the CPU and there is no C++ compiler.
    """
    layers = [module for module in objective.modules() if isinstance(module, EncoderLayer)]
    compiler = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    places = {device or parameter.device.type for layer in layers for parameter in layer.parameters()}
    if "cpu" in places and backend == BACKEND and not shutil.which(compiler):
        raise UsageError(f"compile: on a CPU it needs a C++ compiler, and there is no {compiler} (see CXX)")
    torch._dynamo.config.recompile_limit = VERSIONS
    torch._inductor.config.unsafe_marked_cacheable_functions |= dict.fromkeys(CACHED, "1")
    for layer in layers:
        layer.compile(dynamic=True, backend=backend)
