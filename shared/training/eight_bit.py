"""bitsandbytes' AdamW with 8-bit moments, as the training loop needs it; importing this needs that library."""

from __future__ import annotations

from typing import Any

import bitsandbytes
import torch
from torch import Tensor, nn


class AdamW8bit(bitsandbytes.optim.AdamW8bit):
    """The library's optimiser, which here obeys ``found_inf`` and does not wait for the device.

    Where ``found_inf`` is 1, parameters and moments are afterwards what they were; only the number of updates, by which
    Adam corrects its means, goes on. That takes a copy of one parameter and its moments at a time. The library waits
    for the device after each parameter; its kernels stand in the same queue as torch's, so that need not be.
    """

    #: A scalar on the device, 1.0 if the update is to change nothing (as torch's fused optimisers have it).
    found_inf: Tensor | None = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Update all parameters that have a gradient; a closure is not called."""
        for number, group in enumerate(self.param_groups):
            for index, parameter in enumerate(group["params"]):
                if parameter.grad is not None:
                    self._update(group, parameter, number, index)

    def _update(self, group: dict[str, Any], parameter: nn.Parameter, number: int, index: int) -> None:
        state = self.state[parameter]
        if not state:
            self.init_state(group, parameter, number, index)
        names = [name for name in ("state1", "state2", "absmax1", "absmax2") if name in state]
        changing = [parameter, *(state[name] for name in names)]
        before = [tensor.clone() for tensor in changing]
        self.update_step(group, parameter, number, index)
        if self.found_inf is not None:
            for tensor, old in zip(changing, before, strict=True):
                torch.where(self.found_inf.bool(), old, tensor, out=tensor)
