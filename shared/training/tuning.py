"""Letting only a part of a model learn: chosen parameters, or adapters of low rank beside its linear maps.

What does not learn has no gradient and no moments. Names are those of the objective's parameters and modules, as in the
optimiser's ``multipliers``: "system.model.encoder.layers.0.inner".

Legend: I what enters a linear map, O what leaves it, R rank.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol, cast

from torch import Tensor, nn

from dragoman.shared.annotations import Checked
from dragoman.shared.errors import UsageError
from dragoman.shared.machine.extras import require
from dragoman.shared.ranges import PositiveInt, ShareBelowOne

#: What the library puts into the names of the maps that it adapts, and the names of the two matrices beside them.
BASE, DOWN, UP = ".base_layer.", ".lora_A.default.weight", ".lora_B.default.weight"


class Tuning(Protocol):
    """Says what learns; ``scale`` multiplies the product of an adapter's matrices, None without adapters."""

    scale: float | None

    def apply(self, module: nn.Module) -> None:
        """Freeze what is not to learn, and add what learns instead."""
        ...


class Selected:
    """Let only the parameters learn whose names match.

    Args:
        parameters: regular expression for whole names of parameters: ``".*(self_attention|norm).*"``.

    Raises:
        UsageError: if it is no regular expression.
    """

    scale: float | None = None

    def __init__(self, *, parameters: str) -> None:
        self.parameters = _compiled("parameters", parameters)

    def apply(self, module: nn.Module) -> None:
        """Freeze all other parameters of a module.

        Raises:
            UsageError: if no parameter has such a name.
        """
        learning = _named("parameters", self.parameters, module)
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(name in learning)


class LoRA(Checked):
    """Let matrices of low rank learn, whose product is added to frozen linear maps: W + alpha / R B A (Hu et al. 2022).

    B begins with zeros, so that the first update begins with the system as it is. The model folder that ``Average``
    writes holds the sums: it is an ordinary one.

    Args:
        targets: regular expression for whole names of linear maps: ``".*(queries_keys_values|queries|keys_values)"``.
        rank: R.
        alpha: times 1 / R, the factor of the product.
        dropout: of what enters A.
        learn: regular expression for whole names of further parameters that learn, such as norms; None for none.
        four_bit: keep the maps that have adapters in 4 bits (QLoRA, Dettmers et al. 2023, arXiv 2305.14314), on a GPU.
            The model folder then holds the sums with what the 4 bits stand for.

    Raises:
        UsageError: if the library peft, or for 4 bits bitsandbytes, is not installed.
    """

    def __init__(
        self,
        *,
        targets: str,
        rank: PositiveInt = 16,
        alpha: PositiveInt = 32,
        dropout: ShareBelowOne = 0.0,
        learn: str | None = None,
        four_bit: bool = False,
    ) -> None:
        require("peft", "adapters", "LoRA")
        if four_bit:
            require("bitsandbytes", "adam8bit", "LoRA with four_bit")
        self.targets = _compiled("targets", targets)
        self.learn = None if learn is None else _compiled("learn", learn)
        self.rank = rank
        self.alpha = alpha
        self.dropout = dropout
        self.four_bit = four_bit
        self.scale: float | None = alpha / rank

    def apply(self, module: nn.Module) -> None:
        """Put adapters beside the linear maps of a module, and freeze what is not to learn.

        Raises:
            UsageError: if no linear map, or no further parameter, has such a name; for 4 bits without a GPU.
        """
        from peft import LoraConfig, inject_adapter_in_model

        maps = {name: part for name, part in module.named_modules() if isinstance(part, nn.Linear)}
        chosen = [name for name in maps if self.targets.fullmatch(name)]
        if not chosen:
            raise _unknown("targets", self.targets, "linear map", [*maps])
        learning = _named("learn", self.learn, module) if self.learn else set()
        if self.four_bit:
            if (device := maps[chosen[0]].weight.device).type != "cuda":
                raise UsageError(f"four_bit: 4-bit weights need a GPU, and this runs on {device}: leave it out")
            in_four_bits(module, chosen)
        only = "|".join(re.escape(name) for name in chosen)  # of what else matches, the library has adapters too
        config = LoraConfig(r=self.rank, lora_alpha=self.alpha, lora_dropout=self.dropout, target_modules=only)
        inject_adapter_in_model(config, module)
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(name.endswith((DOWN, UP)) or name.replace(BASE, ".") in learning)


def in_four_bits(module: nn.Module, names: list[str]) -> None:
    """Put maps in 4 bits in the place of some linear maps of a module, and tell peft that it has such."""
    from dragoman.shared.training.four_bit import FourBitLinear

    for name in names:
        module.set_submodule(name, FourBitLinear(cast(nn.Linear, module.get_submodule(name))))
    module.is_loaded_in_4bit = True  # type: ignore[assignment]


def merged(tensors: Mapping[str, Tensor], scale: float) -> dict[str, Tensor]:
    """Return the tensors of a system without its adapters, which are added to the maps that they stand beside.

    Args:
        tensors: of the system with adapters: W (O, I), A (R, I), B (O, R).
        scale: alpha / R.
    """
    plain = {}
    for name, tensor in tensors.items():
        stem, base, rest = name.partition(BASE)
        if base and rest == "weight":
            plain[f"{stem}.weight"] = tensor.addmm(tensors[stem + UP], tensors[stem + DOWN], alpha=scale)
        elif not name.endswith((DOWN, UP)):
            plain[name.replace(BASE, ".")] = tensor
    return plain


def _compiled(argument: str, pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError(f"{argument} {pattern!r} is no regular expression: {error}") from error


def _named(argument: str, pattern: re.Pattern[str], module: nn.Module) -> set[str]:
    """Return the names of the parameters that a pattern matches."""
    names = [name for name, _ in module.named_parameters()]
    matching = {name for name in names if pattern.fullmatch(name)}
    if not matching:
        raise _unknown(argument, pattern, "parameter", names)
    return matching


def _unknown(argument: str, pattern: re.Pattern[str], kind: str, names: list[str]) -> UsageError:
    examples = f"such are {', '.join(names[:: max(1, len(names) // 3)][:3])}" if names else "there is none"
    return UsageError(f"{argument}: {pattern.pattern!r} matches the name of no {kind} ({examples})")
