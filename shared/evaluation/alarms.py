"""Alarms: outputs that no good system produces, and that a score may hide.

Each alarm has a threshold, a share of the lines, above which it is raised:

- ``empty`` (0): nothing but white space.
- ``cut off at the maximum length`` (0): the search allowed no more tokens, and the end was not the model's choice.
- ``repeated`` (0.01): a loop: some unit of 1 to 50 characters at least 4 times back to back, over at least 30
  characters. That finds looping words and phrases in any script.
- ``constant`` (0.05, of at least 20 lines): one and the same output more often than its share, by this much, among the
  references (or, without references, at all).
- ``copied`` (0.05): outputs equal to their source but for case and white space, by this much more than the references.
- ``in another language`` (0.01): of those outputs whose language can be told, by this much more than the references.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.off_target import OffTarget
from dragoman.shared.text.piece_file import composed

EMPTY_SHARE = 0.0
CUT_SHARE = 0.0
REPEATED_SHARE = 0.01
CONSTANT_SHARE = 0.05
COPIED_SHARE = 0.05
OFF_TARGET_SHARE = 0.01
CONSTANT_LINES = 20  # among fewer lines the commonest has a large share by nature
LOOP_UNIT = 50  # longest repeated unit, characters
LOOP_TIMES = 4
LOOP_CHARACTERS = 30


@dataclass(frozen=True)
class Alarm:
    """Something wrong with a set of outputs.

    Attributes:
        kind: "empty", "cut off at the maximum length", "repeated", "constant", "copied" or "in another language".
        share: of the lines that could be judged, 0 to 1.
        example: one such line, with its number.
        judged: what it is a share of.
    """

    kind: str
    share: float
    example: str
    judged: str = "outputs"

    def __str__(self) -> str:
        """Return the alarm on one line."""
        return f"{self.share:.1%} of the {self.judged} are {self.kind}, for example {self.example}"


def detect(
    hypotheses: Sequence[str],
    *,
    references: Sequence[str] | None = None,
    sources: Sequence[str] | None = None,
    cut: Sequence[int] = (),
) -> list[Alarm]:
    """Look for outputs that are empty, cut off, loop, are always the same, or repeat their source.

    Args:
        hypotheses: the outputs.
        references: as many lines, to know what is usual (a transcript does equal its source).
        sources: as many lines; without them copies are not looked for.
        cut: the numbers of those hypotheses that have all the tokens that the search allows, from 0, in order.

    Raises:
        DataError: if the numbers of lines differ.
    """
    for name, lines in (("references", references), ("sources", sources)):
        if lines is not None and len(lines) != len(hypotheses):
            raise DataError(f"{len(hypotheses)} hypotheses, but {len(lines)} lines of {name}")
    if not hypotheses:
        return []
    empty = [number for number, line in enumerate(hypotheses) if not line.strip()]
    repeated = [number for number, line in enumerate(hypotheses) if loops(line)]
    alarms = [
        _alarm("empty", hypotheses, empty, EMPTY_SHARE),
        _alarm("cut off at the maximum length", hypotheses, list(cut), CUT_SHARE),
        _alarm("repeated", hypotheses, repeated, REPEATED_SHARE),
    ]
    if len(hypotheses) >= CONSTANT_LINES:
        alarms.append(_constant(hypotheses, references))
    if sources is not None:
        usual = len(_copies(references, sources)) / len(hypotheses) if references is not None else 0.0
        alarms.append(_alarm("copied", hypotheses, _copies(hypotheses, sources), usual + COPIED_SHARE))
    return [alarm for alarm in alarms if alarm is not None]


def detect_off_target(hypotheses: Sequence[str], languages: OffTarget, *, usual: float = 0.0) -> list[Alarm]:
    """Look for outputs in another language, beyond the share of references that is ``usual``."""
    if languages.share <= usual + OFF_TARGET_SHARE:
        return []
    judged = f"{languages.judged} outputs (of {len(hypotheses)}) whose language can be told"
    example = f"{languages.codes[languages.wrong[0]]} in {_example(hypotheses, languages.wrong[0])}"
    return [Alarm("in another language", languages.share, example, judged)]


def loops(line: str) -> bool:
    """Tell whether some unit of the line is repeated back to back."""
    points = np.frombuffer(line.encode("utf-32-le"), dtype=np.uint32)
    for unit in range(1, min(LOOP_UNIT, len(points) // LOOP_TIMES) + 1):
        # A loop of n characters is a run of n - unit positions that equal the position one unit later.
        differ = np.flatnonzero(points[unit:] != points[:-unit])
        ends = np.concatenate([[-1], differ, [len(points) - unit]])
        if int(np.diff(ends).max()) - 1 + unit >= max(LOOP_TIMES * unit, LOOP_CHARACTERS):
            return True
    return False


def _alarm(kind: str, hypotheses: Sequence[str], numbers: list[int], threshold: float) -> Alarm | None:
    share = len(numbers) / len(hypotheses)
    if share <= threshold:
        return None
    return Alarm(kind, share, _example(hypotheses, numbers[0]))


def _example(hypotheses: Sequence[str], number: int) -> str:
    line = hypotheses[number]
    shown = line if len(line) <= 120 else line[:119] + "…"
    return f"line {number + 1}: {shown!r}"


def _constant(hypotheses: Sequence[str], references: Sequence[str] | None) -> Alarm | None:
    nonempty = Counter(line for line in hypotheses if line.strip())
    if not nonempty:
        return None
    line, _ = nonempty.most_common(1)[0]
    usual = Counter(references).most_common(1)[0][1] / len(references) if references else 0.0
    return _alarm(
        "constant", hypotheses, [i for i, other in enumerate(hypotheses) if other == line], usual + CONSTANT_SHARE
    )


def _copies(lines: Sequence[str], sources: Sequence[str]) -> list[int]:
    pairs = [(_plain(line), _plain(source)) for line, source in zip(lines, sources, strict=True)]
    return [number for number, (line, source) in enumerate(pairs) if line and line == source]


def _plain(line: str) -> str:
    return " ".join(composed(line).casefold().split())
