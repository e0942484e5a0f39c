"""The mixture of experts of NLLB-MoE (Costa-jussà et al. 2022, arXiv 2207.04672, section 6.2): two experts a token.

Up to transformers 5.23 at least, its code looks for experts in a table of what a token chooses first, 0 or 1, so that
experts 0 and 1 compute for all 128. Here each token's two experts are computed, as in the published model:

    y = (1 - dropout) * sum over its two experts e of g_e * FFN_e(x),   g normalised to a sum of 1

Legend: N tokens, E experts, D width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dragoman.shared.errors import UsageError

MODEL_TYPE = "nllb-moe"


class BothExperts(nn.ModuleDict):
    """Experts by name ("expert_0"), of which a token has those that its router gives weight to.

    Args:
        experts: as the library has them.
    """

    def __init__(self, experts: Any) -> None:
        super().__init__(experts.items())
        self.dropout = float(experts.moe_token_dropout)

    def forward(self, states: Tensor, first: Tensor, weights: Tensor) -> Tensor:
        """Return (N, D) of states (N, D), by weights (N, E) that are zero but for the experts of a token.

        Args:
            states: before.
            first: (N, E) the first choice, which the weights hold as well.
            weights: of the router.
        """
        mixed = torch.zeros_like(states)
        for expert in (weights > 0).any(0).nonzero().flatten().tolist():
            tokens = (weights[:, expert] > 0).nonzero().flatten()
            computed = self[f"expert_{expert}"](states[tokens]) * weights[tokens, expert, None].to(states.dtype)
            mixed.index_add_(0, tokens, computed)
        return mixed * (1 - self.dropout)


def check_routing(config: dict[str, Any]) -> None:
    """Refuse routing by which an output would depend on its batch, or on chance.

    Raises:
        UsageError: naming the key.
    """
    usual = {"second_expert_policy": "all"}
    for key, value in usual.items():
        if config.get(key, value) != value:
            raise UsageError(f"config: {key} is {config[key]!r}, by which outputs are drawn by chance, not {value!r}")
    room = config.get("moe_eval_capacity_token_fraction", 1.0)
    if room < 1:
        key = "moe_eval_capacity_token_fraction"
        raise UsageError(f"config: {key} is {room}, by which experts refuse tokens of a full batch: set it to 1")


def with_both_experts(model: Any) -> Any:
    """Put such experts into a model of the library, in the place of its own; return the model."""
    for part in [*model.modules()]:
        if type(part).__name__ == "NllbMoeSparseMLP":
            part.experts = BothExperts(part.experts)
    return model
