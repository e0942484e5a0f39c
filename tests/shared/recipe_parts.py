"""Small classes that tests/shared/test_recipe.py builds."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dragoman.shared.described import Described
from dragoman.shared.errors import DataError
from dragoman.shared.machine.workspace import Phase, Workspace

if TYPE_CHECKING:
    from nowhere import Unknown

BUILT: list[str] = []
CONSTANT = 17


class Slab(Described):
    def __init__(
        self,
        *,
        size: int,
        dropout: float = 0.0,
        kind: Literal["pre", "post"] = "pre",
        gain: float | None = None,
        bias: bool = True,
        name: str = "",
    ) -> None:
        BUILT.append(f"Slab {size}")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), not {dropout}")
        self.size, self.dropout, self.kind, self.gain, self.bias, self.name = size, dropout, kind, gain, bias, name

    def draw(self) -> str:
        return f"[{self.size}]"


class Inherits(Slab):
    """Has no constructor of its own."""


class Plain:
    """Has no constructor at all."""


class Bare(Described):
    """Is described, and has no constructor."""


class Model(Described):
    def __init__(
        self,
        *,
        layers: list[Slab],
        heads: dict[str, Slab] | None = None,
        folder: Path = Path("."),
        shape: tuple[int, int] = (1, 1),
        free: Any = None,
        elsewhere: Unknown | None = None,
    ) -> None:
        self.layers, self.heads, self.folder, self.shape, self.free = layers, heads, folder, shape, free
        self.elsewhere = elsewhere  # no recipe gives it: its type is none that can be looked up


class Fit(Phase):
    def __init__(self, *, model: Model, copy: Model | None = None, updates: int = 1, rate: float = 1.0) -> None:
        BUILT.append("Fit")
        self.model, self.copy, self.updates, self.rate = model, copy, updates, rate

    def run(self, workspace: Workspace) -> None:
        raise AssertionError("no test runs it")


class Open(Phase):
    """Reads a file when it is built."""

    def __init__(self, *, file: str, options: Any = None) -> None:
        if not Path(file).is_file():
            raise DataError(f"{file}: no such file")
        self.file, self.options = file, options

    def run(self, workspace: Workspace) -> None:
        raise AssertionError("no test runs it")


class Free(Phase):
    """Takes anything."""

    def __init__(self, *, x):
        self.x = x

    def run(self, workspace):
        pass


class Abstract(Phase):
    @abstractmethod
    def other(self) -> None: ...


def double(x: int) -> int:
    return 2 * x


def times(x: int, by: int) -> int:
    return x * by
