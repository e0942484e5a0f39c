"""The optimiser of a phase: Adam(W), with learning-rate multipliers per group of parameters; 8-bit moments if asked."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.shared.annotations import Checked
from dragoman.shared.errors import UsageError
from dragoman.shared.ranges import NonNegativeFloat, ShareBelowOne
from dragoman.shared.training.schedules import Schedule
from dragoman.shared.training.tuning import Tuning

#: The names of the two moments, in torch and in bitsandbytes.
_MOMENTS = ("exp_avg", "exp_avg_sq", "state1", "state2")
#: Added to a norm before it divides, as torch does.
_SMALL = 1e-6


class Adam(Checked):
    """Settings of torch's fused AdamW; with ``weight_decay: 0`` it is Adam.

    Args:
        betas: decay rates of the two moments.
        eps: added to the root of the second moment.
        weight_decay: decoupled decay, times the learning rate.
        multipliers: regular expression -> factor on the learning rate of the parameters whose whole name it matches;
            the first match counts. A factor of 0 freezes, without changing the graph: neither parameters nor moments
            change. A schedule of the update makes it a factor that changes, ``Steps`` for example.
        tuning: what learns, if it is not everything (see shared/training/tuning.py).
    """

    def __init__(
        self,
        *,
        betas: list[ShareBelowOne] | None = None,
        eps: NonNegativeFloat = 1e-8,
        weight_decay: NonNegativeFloat = 0.0,
        multipliers: dict[str, NonNegativeFloat | Schedule] | None = None,
        tuning: Tuning | None = None,
    ) -> None:
        betas = [0.9, 0.98] if betas is None else betas
        if len(betas) != 2:
            raise UsageError(f"betas must be two numbers, not {betas}")
        self.betas = (betas[0], betas[1])
        self.eps = eps
        self.weight_decay = weight_decay
        self.multipliers = dict(multipliers or {})
        self.tuning = tuning

    @property
    def adapter_scale(self) -> float | None:
        """The factor of the adapters that learn; None if there are none."""
        return self.tuning.scale if self.tuning else None

    def build(self, module: nn.Module) -> torch.optim.Optimizer:
        """Choose what of a module learns, and make the optimiser for it.

        Raises:
            UsageError: if a pattern of ``multipliers`` or of the tuning matches nothing.
        """
        groups = self.groups(module)
        optimizer = torch.optim.AdamW(
            _as_numbers(groups), lr=0.0, betas=self.betas, eps=self.eps, weight_decay=self.weight_decay, fused=True
        )
        return _following(optimizer, groups)

    def state_bytes(self, parameter: Tensor) -> int:
        """Return how much memory the moments of a parameter take."""
        return 2 * parameter.numel() * 4

    def groups(self, module: nn.Module) -> list[dict[str, Any]]:
        """Choose what of a module learns, and return it by learning rate; a "multiplier" may be a schedule."""
        if self.tuning:
            self.tuning.apply(module)
        groups: dict[float | Schedule, list[nn.Parameter]] = {}
        unused = set(self.multipliers)
        for name, parameter in module.named_parameters():
            if not parameter.requires_grad:
                continue
            matching = [pattern for pattern in self.multipliers if re.fullmatch(pattern, name)]
            unused -= set(matching)
            groups.setdefault(self.multipliers[matching[0]] if matching else 1.0, []).append(parameter)
        if unused:
            raise UsageError(f"multipliers: {sorted(unused)[0]!r} matches the name of no parameter")
        return [{"params": parameters, "multiplier": multiplier} for multiplier, parameters in groups.items()]


class Adam8bit(Adam):
    """AdamW whose moments are 8-bit numbers with a scale for each block of 256 (Dettmers et al. 2022, section 2).

    Moments of parameters with fewer than 4096 elements, such as norms and biases, stay in 32 bits. The library
    bitsandbytes does the arithmetic, on GPUs and, slowly, on CPUs. Arguments are those of :class:`Adam`.

    Raises:
        UsageError: if bitsandbytes is not installed.
    """

    #: bitsandbytes' own defaults.
    SMALLEST, BLOCK = 4096, 256

    def __init__(
        self,
        *,
        betas: list[float] | None = None,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        multipliers: dict[str, float | Schedule] | None = None,
        tuning: Tuning | None = None,
    ) -> None:
        super().__init__(betas=betas, eps=eps, weight_decay=weight_decay, multipliers=multipliers, tuning=tuning)
        if find_spec("bitsandbytes") is None:
            raise UsageError("Adam8bit needs the library bitsandbytes: pip install 'dragoman[adam8bit]'")

    def build(self, module: nn.Module) -> torch.optim.Optimizer:
        """Choose what of a module learns, and make the optimiser for it, as :meth:`Adam.build` does."""
        from dragoman.shared.training.eight_bit import AdamW8bit

        groups = self.groups(module)
        optimizer = AdamW8bit(
            _as_numbers(groups), lr=0.0, betas=self.betas, eps=self.eps, weight_decay=self.weight_decay
        )
        return _following(optimizer, groups)

    def state_bytes(self, parameter: Tensor) -> int:
        """Return how much memory the moments of a parameter take."""
        size = parameter.numel()
        return 8 * size if size < self.SMALLEST else 2 * (size + 4 * -(-size // self.BLOCK))


def _as_numbers(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return groups whose multipliers are those of the first update: an optimiser's state holds numbers only."""
    return [group | {"multiplier": _factor(group["multiplier"], 1)} for group in groups]


def _following(optimizer: torch.optim.Optimizer, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    """Keep the multipliers beside the optimiser, for :func:`set_learning_rate`."""
    optimizer.multipliers = [group["multiplier"] for group in groups]  # type: ignore[attr-defined]
    return optimizer


def _factor(multiplier: float | Schedule, update: int) -> float:
    return multiplier if isinstance(multiplier, int | float) else multiplier(update)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float, update: int = 1) -> None:
    """Give every group its multiple of the learning rate of an update."""
    numbers = [group["multiplier"] for group in optimizer.param_groups]
    for group, multiplier in zip(optimizer.param_groups, getattr(optimizer, "multipliers", numbers), strict=True):
        group["multiplier"] = _factor(multiplier, update)
        group["lr"] = rate * group["multiplier"]


def clip_gradient(
    optimizer: torch.optim.Optimizer, maximum: float, joined: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """Clip the gradient of all parameters that learn, as one vector.

    Frozen ones (multiplier 0) lose theirs: it belongs to no norm, and the optimiser passes them by. On a GPU the fused
    optimiser divides by what is too much while it reads the gradient, in its next step.

    Args:
        optimizer: what :meth:`Adam.build` has made.
        maximum: the largest norm; 0 for no clipping.
        joined: given the norm of this process's share, returns that of the whole.

    Returns:
        The norm before clipping, a scalar.
    """
    learning: list[nn.Parameter] = []
    for group in optimizer.param_groups:
        if group["multiplier"]:
            learning += group["params"]
        else:
            for parameter in group["params"]:
                parameter.grad = None
    norm = nn.utils.get_total_norm([parameter.grad for parameter in learning if parameter.grad is not None])
    if joined is not None:
        norm = joined(norm)
    if maximum and norm.is_cuda and optimizer.defaults.get("fused"):
        optimizer.grad_scale = ((norm + _SMALL) / maximum).clamp(min=1.0)  # type: ignore[attr-defined]
    elif maximum:
        nn.utils.clip_grads_with_norm_(learning, maximum, norm)
    return norm


def step_if_finite(optimizer: torch.optim.Optimizer, norm: Tensor) -> Tensor:
    """Update the parameters, or on the device itself leave everything as it was if the gradient norm is not finite.

    Args:
        optimizer: what :meth:`Adam.build` has made, which honours ``found_inf``, and the ``grad_scale`` of
            :func:`clip_gradient`.
        norm: the gradient norm, a scalar.

    Returns:
        A scalar tensor: 1.0 if the update was skipped, else 0.0; reading it is left to the caller, who need not wait.
    """
    skipped = (~torch.isfinite(norm)).float()
    optimizer.found_inf = skipped  # type: ignore[attr-defined]
    optimizer.step()
    optimizer.grad_scale = None  # type: ignore[attr-defined]
    return skipped


def check_moments(optimizer: torch.optim.Optimizer) -> None:
    """Refuse moments that cannot be those of the parameters: torch's fused step would read beyond their memory.

    Raises:
        ValueError: naming the shapes, or what is not finite.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    states = [(parameter, optimizer.state[parameter]) for parameter in parameters if optimizer.state.get(parameter)]
    if not states:
        raise ValueError("the optimiser has no moments")
    for parameter, state in states:
        moments = [state.get(name) for name in _MOMENTS if name in state]
        if len(moments) != 2 or not all(isinstance(t, Tensor) and t.shape == parameter.shape for t in moments):
            shapes = [tuple(t.shape) if isinstance(t, Tensor) else t for t in moments]
            raise ValueError(f"the moments of a parameter {tuple(parameter.shape)} are {shapes}")
        if not all(torch.isfinite(torch.as_tensor(value)).all() for value in state.values()):
            raise ValueError(f"moments of a parameter {tuple(parameter.shape)} are not finite")
