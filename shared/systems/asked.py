"""A call that translates: its inputs, its keywords (those of the system), and the numbers of its search."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict

from dragoman.shared.errors import DataError, UsageError, check_number, shortened
from dragoman.shared.recipe.tree import nearest
from dragoman.shared.search.search import AnySearch
from dragoman.shared.sound.segmentation import Segmenter
from dragoman.shared.sound.speech_activity import SpeechDetector
from dragoman.shared.systems.inputs import Input


class TranslationOptions(TypedDict, total=False):
    """The keywords of a call that translates, beside ``beam``, ``n_best`` and ``batch_size``, for type checkers.

    :meth:`dragoman.shared.systems.system.System.parts` says what each means; the last three are of the usual search.
    """

    source_language: str | None
    target_language: str | None
    sample_rate: int | None
    search: AnySearch | None
    maximum_seconds: float
    segmenter: Segmenter
    keep_silence: bool
    detector: SpeechDetector | None
    unreadable: list[DataError] | None
    progress: Callable[[int, int], None] | None
    length_penalty: float
    length_bonus: float
    candidates: int


#: Keywords by what transformers and fairseq call them.
MEANT = {
    "num_beams": "beam",
    "beam_size": "beam",
    "n": "n_best",
    "nbest": "n_best",
    "num_return_sequences": "n_best",
    "lenpen": "length_penalty",
    "sampling_rate": "sample_rate",
    "src_lang": "source_language",
    "tgt_lang": "target_language",
}


def asked_search(
    usual: AnySearch, given: AnySearch | None, numbers: Mapping[str, Any], call: Callable[..., Any]
) -> AnySearch:
    """Return the search that a call gave, or the usual one with the numbers that it gave: ``{"beam": 3, "n_best": 3}``.

    Raises:
        UsageError: for a keyword that neither knows, naming those that there are; for a value out of its range; or
            for numbers beside a given search.
    """
    numbers = {name: value for name, value in numbers.items() if value is not None}
    if not numbers:
        return given or usual
    parameters = inspect.signature(type(usual).__init__).parameters
    defaults = {name: p.default for name, p in parameters.items() if isinstance(p.default, int | float)}
    keywords = [name for name, p in inspect.signature(call).parameters.items() if p.kind is p.KEYWORD_ONLY]
    keywords = [name for name in keywords if name not in {*defaults, *numbers}]
    for name, value in numbers.items():
        if name not in defaults:
            raise UsageError(_unknown(name, [*defaults, *keywords]))
        check_number(name, value)
        if isinstance(defaults[name], int) and not hasattr(value, "__index__"):
            raise UsageError(f"{name} must be a whole number, not {value}")
    if given is not None:
        names = " and ".join(numbers)
        raise UsageError(f"{names}: give the numbers of a search to itself, as in search={type(given).__name__}(...)")
    exact = {n: operator.index(v) if isinstance(defaults[n], int) else float(v) for n, v in numbers.items()}
    try:
        made: AnySearch = type(usual)(**getattr(usual, "arguments", {}) | exact)
    except UsageError:
        raise
    except ValueError as error:
        raise UsageError(str(error)) from error
    return made


def listed(inputs: Any) -> list[Input]:
    """Return inputs as a list, which can be gone through twice, as an open file or a generator cannot.

    Raises:
        UsageError: for one input alone, and for what is none.
    """
    if isinstance(inputs, Input) or not isinstance(inputs, Iterable):
        raise UsageError(f"give a list of inputs, not {shortened(repr(inputs))} alone")
    return list(inputs)


def check_best_alone(call: str, options: Mapping[str, Any]) -> None:
    """Refuse ``n_best`` of a call that gives the best output alone, by UsageError."""
    if options.get("n_best", 1) != 1:
        raise UsageError(f"{call} gives the best output alone: use hypotheses(inputs, n_best={options['n_best']})")


def _unknown(name: str, names: list[str]) -> str:
    meant = f" (did you mean {MEANT[name]!r}?)" if MEANT.get(name) in names else nearest(name, names, few=0)
    return f"no argument is called {name!r}{meant}: there are {', '.join(names)}; hypotheses(inputs, beam=5, n_best=3)"
