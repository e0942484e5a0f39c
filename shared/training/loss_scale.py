"""Scaling of the loss, without which gradients in half precision (fp16) would be rounded to zero.

Micikevicius et al. 2018, arXiv 1710.03740, section 3.2. torch's ``GradScaler`` holds the factor: it is halved after an
update whose gradient is not finite, and doubled after 2,000 in a row whose gradient is.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.amp import GradScaler

from dragoman.shared.machine.device import Machine

#: A gradient that is too large for half precision at this factor, or below, stops the run.
SMALLEST = 2.0**-10


def loss_scaler(machine: Machine) -> GradScaler:
    """Return what scales the losses of a machine; in any precision but fp16, it leaves them as they are."""
    return GradScaler(torch.device(machine.device).type, enabled=machine.precision == "fp16")


def hopeless(scaler: GradScaler, skipped: Tensor, loss: Tensor) -> Tensor:
    """Return 1.0 if an update was skipped for a reason that no smaller factor of the scaler will mend, else 0.0."""
    if not scaler.is_enabled():
        return skipped
    factor = scaler.scale(torch.ones_like(skipped))
    return skipped * (~torch.isfinite(loss) | (factor <= SMALLEST))
