"""Linear maps whose matrices are kept in 4 bits; importing this needs bitsandbytes."""

from __future__ import annotations

from typing import Any

import bitsandbytes
from bitsandbytes.functional import dequantize_4bit
from torch import Tensor, nn


class FourBitLinear(bitsandbytes.nn.Linear4bit):
    """A frozen linear map in 4 bits (NF4, Dettmers et al. 2023, section 3), which is saved as what these stand for.

    So a checkpoint and a model folder hold an ordinary matrix (O, I). Loading one changes nothing, and is refused if it
    is not what the 4 bits stand for.

    Args:
        linear: the map; its matrix is rounded, its bias kept.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear.in_features, linear.out_features, linear.bias is not None, quant_type="nf4")
        self.weight = bitsandbytes.nn.Params4bit(linear.weight.data, requires_grad=False, quant_type="nf4", module=self)
        self.bias = linear.bias
        self.to(linear.weight.device)

    @property
    def plain(self) -> Tensor:
        """The matrix (O, I) that the 4 bits stand for."""
        weight: Any = self.weight
        return dequantize_4bit(weight.data, weight.quant_state)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        destination[f"{prefix}weight"] = nn.Parameter(self.plain, requires_grad=False)
        if self.bias is not None:
            destination[f"{prefix}bias"] = self.bias if keep_vars else self.bias.detach()

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Tensor],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        wanted = [f"{prefix}{name}" for name in ("weight", "bias")[: 1 if self.bias is None else 2]]
        if missing := [name for name in wanted if name not in state_dict]:
            missing_keys += missing
            return
        if not state_dict[wanted[0]].to(self.weight.device).equal(self.plain):
            error_msgs.append(f"{wanted[0]} is not what the 4 bits of this model stand for")
        if self.bias is not None:
            self.bias.data.copy_(state_dict[wanted[1]])
