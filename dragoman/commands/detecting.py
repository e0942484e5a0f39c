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
from dragoman.commands.input_files import first_of
from dragoman.shared.errors import DataError, UsageError, plural, shortened
from dragoman.shared.evaluation.off_target import CERTAIN, label, language_identifier
from dragoman.shared.systems.inputs import chosen_language
from dragoman.shared.text.languages import listed

if TYPE_CHECKING:
    from dragoman.commands.identifying import Identifier

AUTO = "auto"
#: The least probability of a language that is believed, as faster-whisper's ``language_detection_threshold``.
LEAST = 0.5
_HINT = f"give --from CODE, or --from {AUTO}:CODE for such lines"
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
        written = [text for text in texts if text.strip()]
        found = iter(self._likeliest(written))
        for number, text in enumerate(texts, start=first):
            blank = not text.strip()
            code = self.known[0] if blank else self._believed(*next(found), text, f"line {number}", _HINT)
            if code is None:
                unknown.append(number)
            codes.append(code or self.fallback or "")
        if unknown:
            lines = plural(len(unknown), "line")
            warn(f"{lines} in an unknown language, taken for {self.fallback}: {first_of(unknown)}")
        return codes

    def language(self, text: str, place: str, hint: str) -> tuple[str | None, float]:
        """Return the code of a text and its probability; None if it is unknown and taken for the fallback.

        Args:
            text: that is not blank.
            place: where it stands, for the message.
            hint: what can be done about it, likewise.

        Raises:
            DataError: if it is unknown, without a fallback.
        """
        [(code, sure)] = self._likeliest([text])
        return self._believed(code, sure, text, place, hint), sure

    def _likeliest(self, texts: Sequence[str]) -> list[tuple[str, float]]:
        """Return the most probable language of each text, and its probability."""
        if self.identifier is None:
            return [ranked(text, self.known)[0] for text in texts]
        return [likeliest(shares) for shares in self.identifier.of_texts(texts)]

    def _believed(self, code: str, sure: float, text: str, place: str, hint: str) -> str | None:
        """Return a code that is probable enough, of a language that the model reads; otherwise see :meth:`language`."""
        least = CERTAIN if self.identifier is None else LEAST
        if sure >= least and code in self.known:
            return code
        if self.fallback is None:
            asked = f"and {least} is asked for" if sure < least else f"which is not among {listed(self.known)}"
            why = f"{code} is likely by {sure:.2f}, {asked}"
            raise DataError(f"{place}: the language is unknown ({why}): {shortened(text)!r}: {hint}")
        return None

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
