"""The output of a recording with times: what was said from when to when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.shared.generator import Hypothesis
from dragoman.shared.systems.inputs import joined


@dataclass(frozen=True)
class TimedText:
    """A segment of a recording and what a system wrote of it.

    Attributes:
        start: seconds from the beginning of the recording.
        end: likewise.
        texts: by name, such as "translation"; empty if there was no speech.
        score: of the hypothesis.
        cut: whether the hypothesis has all the tokens that the search allows.
        tokens: ids of its text.
    """

    start: float
    end: float
    texts: Mapping[str, str]
    score: float
    cut: bool = False
    tokens: Sequence[int] = ()


@dataclass(frozen=True)
class Part:
    """An input, or a segment of one that was divided, with its hypotheses.

    Attributes:
        row: what was translated.
        hypotheses: the best first.
        silent: whether it was not shown to the model, because there is no speech in it.
    """

    row: Mapping[str, Any]
    hypotheses: list[Hypothesis] = field(default_factory=list)
    silent: bool = False

    @property
    def timed(self) -> TimedText:
        """The best hypothesis with its times."""
        best, start = self.hypotheses[0], self.row["start"]
        texts = {name: text.strip() for name, text in best.texts.items()}
        return TimedText(start, start + self.row["duration"], texts, best.score, best.cut, best.tokens)


def whole(parts: Sequence[Part], sides: Mapping[str, str]) -> list[Hypothesis]:
    """Return the hypotheses of an input: those of its only part, or the best of its parts put together."""
    if len(parts) < 2:
        return parts[0].hypotheses if parts else []
    # Segments that were skipped have no score that could count in the file's mean.
    shown = [part for part in parts if not part.silent] or parts[:1]
    codes = {name: parts[0].row[name] for name in ("source_language", "target_language")}
    return [joined([part.hypotheses[0] for part in shown], codes, dict(sides))]
