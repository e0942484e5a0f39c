"""``--context``: the lines before each one, which a language model is shown with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from dragoman.exchange.transformers_engine.prompt import CONTEXT, InContext
from dragoman.shared.errors import UsageError
from dragoman.shared.systems.system import System


def check_context(system: System, *, marked: bool, name: str = "this model") -> None:
    """Refuse, by UsageError, files with a form, and a model whose prompt has no place for a context."""
    if marked:
        raise UsageError("--context is for lines of text, not for files with a form")
    if not any(getattr(field, "takes_context", False) for field in system.inputs.values()):
        raise UsageError(
            f"--context: {name} takes none; a language model does that was imported with {CONTEXT} in its --prompt"
        )


def with_context(lines: Iterable[str], most: int) -> Iterator[InContext]:
    """Yield each line with those before it, at most so many, joined by newlines; a blank line begins anew."""
    before: deque[str] = deque(maxlen=most)
    for line in lines:
        yield InContext(line, "\n".join(before))
        if line.strip():
            before.append(line)
        else:
            before.clear()
