"""Latency of outputs that were written while the sound was heard: how long a word lags behind.

With delays d_1 ... d_n, the milliseconds of sound that had been heard when each word of the output was written, a
source of |X| ms, and a reference of |Y*| words:

    AL   = 1/tau sum_{i <= tau} (d_i - (i - 1) |X| / |Y*|),  tau the first i with d_i >= |X|     (Ma et al. 2019)
    LAAL   the same with max(n, |Y*|) in place of |Y*|                     (Polák et al. 2022; Papi et al. 2022)
    DAL  = 1/n sum_i (g_i - (i - 1) |X| / n),  g_i = max(d_i, g_{i-1} + |X| / n)         (Cherry and Foster 2019)
    AP   = sum_i d_i / (|X| |Y*|)                                                           (Cho and Esipova 2016)
    YAAL = 1/tau sum_{i <= tau} (d_i - (i - 1) |X| / max(n, |Y*|)),  tau the last i with d_i < |X|   (Polák et al. 2025,
                                                                                                arXiv 2509.17349)

An output of a whole talk is cut to the lines of its references; delays then count from the beginning of a line's sound,
and |X| is the length of that. LongYAAL is their YAAL with the end of the recording in place of |X| in the definition of
tau; the others are computed as if the lines were recordings (OmniSTEval's LongAL and its kin).

Computation-aware figures take the time at which a word was there in place of d_i. Words are what spaces divide; in
languages without spaces, they are characters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.shared.evaluation.scores import Score
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.text import languages
from dragoman.shared.text.units import joined
from dragoman.simultaneous.listening import Emission


@dataclass(frozen=True)
class Timed:
    """An output, and when each of its words was written.

    Attributes:
        prediction: the output.
        delays: milliseconds of sound that had been heard when each word was written.
        elapsed: milliseconds from the beginning of the sound until each word was there.
        reference: what the output should be.
        source: the sound, for the log.
        source_length: |X|, milliseconds.
        end: from where on words do not count in YAAL, in milliseconds; None: the end of the sound.
    """

    prediction: str
    delays: list[float]
    elapsed: list[float]
    reference: str
    source: str
    source_length: float
    end: float | None = None

    def part(
        self, prediction: str, words: slice, start: float, length: float, reference: str, end: float | None = None
    ) -> Timed:
        """Return some words of an output, whose times count from ``start``, in milliseconds, of a sound."""
        delays, elapsed = ([time - start for time in times[words]] for times in (self.delays, self.elapsed))
        return Timed(prediction, delays, elapsed, reference, self.source, length, end)

    def record(self, index: int, language: str) -> dict[str, Any]:
        """Return the line of a log as SimulEval writes it (instances.log).

        In a language without spaces, the output has none, since each character of it has a delay.
        """
        spaced = languages.spaced(language)
        return {
            "index": index,
            "prediction": self.prediction if spaced else "".join(words_of(self.prediction, language)),
            "delays": self.delays,
            "elapsed": self.elapsed,
            "prediction_length": len(self.delays),
            "reference": self.reference,
            "source": [self.source],
            "source_length": self.source_length,
        }


def words_of(text: str, language: str) -> list[str]:
    """Return the units in which latency is counted: words, or characters of a language without spaces."""
    words = text.split()
    return words if languages.spaced(language) else list("".join(words))


def timed(emissions: Iterable[Emission], language: str, *, source: str) -> Timed:
    """Return what was written while a sound was heard as one output, without a reference.

    A word whose end is written later than its beginning was there with its beginning.

    Args:
        emissions: all that was written.
        language: the code of the language that it is in.
        source: the sound, for the log.
    """
    sentences = [""]
    delays: list[float] = []
    elapsed: list[float] = []
    before, heard = 0, 0.0
    for emission in emissions:
        sentences[-1] += emission.text
        count = before + len(words_of(sentences[-1], language))
        delays += [round(1000 * emission.heard, 3)] * (count - len(delays))
        elapsed += [round(1000 * emission.elapsed, 3)] * (count - len(elapsed))
        heard = emission.heard
        if emission.last:
            sentences.append("")
            before = count
    return Timed(joined(sentences, language), delays, elapsed, "", source, 1000 * heard)


def average_lagging(delays: Sequence[float], source: float, target: int) -> float:
    """Return AL, in milliseconds as what is given; LAAL, if ``target`` is the greater of the numbers of words."""
    rate = source / target
    heard_all = next((number for number, delay in enumerate(delays, 1) if delay >= source), len(delays))
    return sum(delay - number * rate for number, delay in enumerate(delays[:heard_all])) / heard_all


def differentiable_average_lagging(delays: Sequence[float], source: float) -> float:
    """Return DAL in milliseconds; the arguments are those of :func:`average_lagging`."""
    rate = source / len(delays)
    total, last = 0.0, float("-inf")
    for number, delay in enumerate(delays):
        last = max(delay, last + rate)
        total += last - number * rate
    return total / len(delays)


def average_proportion(delays: Sequence[float], source: float, target: int) -> float:
    """Return AP; the arguments are those of :func:`average_lagging`."""
    return sum(delays) / (source * target)


def yet_another_average_lagging(delays: Sequence[float], source: float, target: int, end: float) -> float | None:
    """Return YAAL, or None if no word was written before ``end``; the other arguments are those of AL.

    Args:
        delays: in milliseconds.
        source: |X|.
        target: |Y*|.
        end: words that were written then or later do not count, in milliseconds.
    """
    before = next((number for number, delay in enumerate(delays) if delay >= end), len(delays))
    rate = source / max(len(delays), target)
    return sum(delay - number * rate for number, delay in enumerate(delays[:before])) / before if before else None


def latencies(outputs: Sequence[Timed], language: str, *, prefix: str = "") -> list[Score]:
    """Return the means of AL, LAAL, DAL, AP and YAAL, and of LAAL and YAAL with computing.

    Outputs that are empty, or whose reference is, have no delay that could be compared, and do not count; in YAAL, nor
    do those of which no word was written before the end.

    Args:
        outputs: of a test. If none counts, nothing is returned.
        language: the code of the language that they are in.
        prefix: of the metrics' names.
    """
    shown = [one for one in outputs if one.delays and words_of(one.reference, language)]
    if not shown:
        return []

    def yaal(one: Timed, delays: Sequence[float], words: int) -> float | None:
        end = one.source_length if one.end is None else one.end
        return yet_another_average_lagging(delays, one.source_length, words, end)

    unit = "word" if languages.spaced(language) else "char"
    measures: dict[str, Callable[[Timed, int], float | None]] = {
        "al": lambda one, words: average_lagging(one.delays, one.source_length, words),
        "laal": lambda one, words: average_lagging(one.delays, one.source_length, max(len(one.delays), words)),
        "dal": lambda one, words: differentiable_average_lagging(one.delays, one.source_length),
        "ap": lambda one, words: average_proportion(one.delays, one.source_length, words),
        "laal_ca": lambda one, words: average_lagging(one.elapsed, one.source_length, max(len(one.elapsed), words)),
        "yaal": lambda one, words: yaal(one, one.delays, words),
        "yaal_ca": lambda one, words: yaal(one, one.elapsed, words),
    }
    units = dict.fromkeys(measures, "ms") | {"ap": "share"}
    found = []
    for name, of in measures.items():
        values = [of(one, len(words_of(one.reference, language))) for one in shown]
        counted = [value for value in values if value is not None]
        if counted:
            signature = f"unit:{unit}|{units[name]}"
            found.append(Score(prefix + name, sum(counted) / len(counted), signature, len(counted)))
    return found


def write_log(path: Path, outputs: Sequence[Timed], language: str) -> None:
    """Write a log that SimulEval and OmniSTEval read: a JSON line for each output, in this language."""
    with replaced_file(path) as temporary:
        lines = (json.dumps(one.record(index, language), ensure_ascii=False) for index, one in enumerate(outputs))
        temporary.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
