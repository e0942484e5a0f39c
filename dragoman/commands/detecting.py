"""``--from auto``: the language of each line, by py3langid, among all languages that it knows, or by a trained model.

A line is in a language if py3langid gives it a probability of at least :data:`CERTAIN` (shared/evaluation/off_target.py
says what this limit is worth), or a model (identifying.py) one of :data:`LEAST`; what is less certain, or in a language
that the model does not read, is unknown: an error, or what the user names as ``--from auto:en``, with a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from dragoman.commands.endings import warn
from dragoman.shared.errors import DataError, UsageError, plural, shortened
from dragoman.shared.evaluation.off_target import CERTAIN, label, language_identifier
from dragoman.shared.systems.inputs import chosen_language
from dragoman.shared.text.languages import listed

if TYPE_CHECKING:
    from dragoman.commands.identifying import Identifier

AUTO = "auto"
#: The least probability of a language that is believed, as faster-whisper's ``language_detection_threshold``.
LEAST = 0.5
_SHOWN = 10  # lines that a warning names
Output = TypeVar("Output")


def ranked(text: str, known: Sequence[str]) -> list[tuple[str, float]]:
    """Return languages and their probabilities, the most probable first, by those codes of models that mean them."""
    codes = {label(code): code for code in reversed(known)}
    return [(codes.get(one, one), float(sure)) for one, sure in language_identifier().rank(text)]


def likeliest(shares: Mapping[str, float]) -> tuple[str, float]:
    """Return the most probable language, and its probability."""
    return max(shares.items(), key=lambda one: one[1])


@dataclass(frozen=True)
class Detection:
    """A user's wish that the language of each line be found out.

    Attributes:
        known: codes of the languages that the model reads.
        fallback: what an unknown language is taken for; None: it is an error.
        identifier: a trained model that is asked; None: py3langid, or for speech the model itself.
    """

    known: list[str]
    fallback: str | None = None
    identifier: Identifier | None = None

    @classmethod
    def asked(cls, source: str | None, known: Sequence[str], identifier: Identifier | None = None) -> Detection | None:
        """Return what "auto" or "auto:CODE" asks for; None for a language.

        Raises:
            UsageError: if the model does not read the fallback, or nobody would ask the identifier.
        """
        word, colon, fallback = (source or "").partition(":")
        if word != AUTO:
            if identifier is not None:
                raise UsageError(f"--identifier is asked with --from {AUTO} only")
            return None
        return cls([*known], chosen_language("source", fallback, known) if colon else None, identifier)

    def languages(self, texts: Sequence[str], first: int = 1) -> list[str]:
        """Return the code of each text; a blank one, which no model sees, has any.

        Args:
            texts: lines.
            first: number of the first one, for messages.

        Raises:
            DataError: naming the first line whose language is unknown, without a fallback.
        """
        codes, unknown = [], []
        least = CERTAIN if self.identifier is None else LEAST
        for number, (text, (code, sure)) in enumerate(zip(texts, self._likeliest(texts), strict=True), start=first):
            if sure < least or code not in self.known:
                if self.fallback is None:
                    why = f"{code} is likely by {sure:.2f}, and {least} is asked for"
                    why = why if sure < least else f"{code}, of which the model reads none, only {listed(self.known)}"
                    raise DataError(
                        f"line {number}: the language is unknown ({why}): {shortened(text)!r}: give --from CODE, or "
                        f"--from {AUTO}:CODE for such lines"
                    )
                unknown.append(number)
            codes.append(self.fallback if number in unknown[-1:] and self.fallback else code)
        if unknown:
            more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
            shown = ", ".join(map(str, unknown[:_SHOWN]))
            warn(f"{plural(len(unknown), 'line')} in an unknown language, taken for {self.fallback}: {shown}{more}")
        return codes

    def _likeliest(self, texts: Sequence[str]) -> list[tuple[str, float]]:
        """Return the most probable language of each text and its probability; a blank one is surely in the first."""
        written = [text for text in texts if text.strip()]
        if self.identifier is None:
            found = iter([ranked(text, self.known)[0] for text in written])
        else:
            found = iter([likeliest(shares) for shares in self.identifier.of_texts(written)])
        return [next(found) if text.strip() else (self.known[0], 1.0) for text in texts]

    def refuse(self, what: str) -> None:
        """Refuse a kind of input whose language is not found out here, by UsageError."""
        raise UsageError(f"--from {AUTO} is for lines of text: name the language of {what}")


def by_language(
    texts: Sequence[str], codes: Sequence[str], translate: Callable[[str, list[str]], list[Output]]
) -> list[Output]:
    """Return what ``translate`` makes of the texts of each language, in the order of the texts."""
    outputs: dict[int, Output] = {}
    for code in dict.fromkeys(codes):
        numbers = [number for number, one in enumerate(codes) if one == code]
        outputs |= zip(numbers, translate(code, [texts[number] for number in numbers]), strict=True)
    return [outputs[number] for number in range(len(texts))]
