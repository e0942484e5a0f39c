"""Parts of a model that stay as they are: they do not learn, and whatever the model does, they drop nothing out."""

from __future__ import annotations

from typing import ClassVar, Self, TypeVar

from torch import nn

Part = TypeVar("Part", bound=nn.Module)


def frozen(part: Part) -> Part:
    """Return a part whose parameters do not learn, in the mode of inference; gradients pass through it."""
    return part.requires_grad_(False).eval()


class HoldsFrozen(nn.Module):
    """Base class of modules with a frozen part, which stays in the mode of inference when they are trained.

    The part is an attribute like any other, so that its parameters keep their names: ``self.reader = frozen(reader)``.
    """

    #: The attribute that holds it.
    FROZEN: ClassVar[str] = "reader"

    def train(self, mode: bool = True) -> Self:
        """Set the mode of all but the frozen part."""
        super().train(mode)
        self.get_submodule(self.FROZEN).eval()
        return self
