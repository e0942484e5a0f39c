"""Latency of outputs that were written while the sound was heard: how long a word lags behind.

With delays d_1 ... d_n, the milliseconds of sound that had been heard when each word of the output was written, a
source of |X| ms, and a reference of |Y*| words:

    AL   = 1/tau sum_{i <= tau} (d_i - (i - 1) |X| / |Y*|),  tau the first i with d_i >= |X|     (Ma et al. 2019)
    LAAL   the same with max(n, |Y*|) in place of |Y*|                     (Polák et al. 2022; Papi et al. 2022)
    DAL  = 1/n sum_i (g_i - (i - 1) |X| / n),  g_i = max(d_i, g_{i-1} + |X| / n)         (Cherry and Foster 2019)
    AP   = sum_i d_i / (|X| |Y*|)                                                           (Cho and Esipova 2016)

Computation-aware figures take the time at which a word was there in place of d_i. Words are what spaces divide; in
languages without spaces, they are characters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.shared.evaluation.scores import Score
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.text import languages


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
    """

    prediction: str
    delays: list[float]
    elapsed: list[float]
    reference: str
    source: str
    source_length: float

    def record(self, index: int) -> dict[str, Any]:
        """Return the line of a log as SimulEval writes it (instances.log)."""
        return {
            "index": index,
            "prediction": self.prediction,
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


def latencies(outputs: Sequence[Timed], language: str) -> list[Score]:
    """Return the means of AL, LAAL, DAL and AP, and of LAAL with computing.

    Outputs that are empty, or whose reference is, have no delay that could be compared, and do not count.

    Args:
        outputs: of a test. If none counts, nothing is returned.
        language: the code of the language that they are in.
    """
    shown = [one for one in outputs if one.delays and words_of(one.reference, language)]
    if not shown:
        return []

    def mean(measure: Callable[[Timed, int], float]) -> float:
        return sum(measure(one, len(words_of(one.reference, language))) for one in shown) / len(shown)

    unit = "word" if languages.spaced(language) else "char"
    measures: dict[str, Callable[[Timed, int], float]] = {
        "al": lambda one, words: average_lagging(one.delays, one.source_length, words),
        "laal": lambda one, words: average_lagging(one.delays, one.source_length, max(len(one.delays), words)),
        "dal": lambda one, words: differentiable_average_lagging(one.delays, one.source_length),
        "ap": lambda one, words: average_proportion(one.delays, one.source_length, words),
        "laal_ca": lambda one, words: average_lagging(one.elapsed, one.source_length, max(len(one.elapsed), words)),
    }
    units = dict.fromkeys(measures, "ms") | {"ap": "share"}
    return [Score(name, mean(of), f"unit:{unit}|{units[name]}", len(shown)) for name, of in measures.items()]


def write_log(path: Path, outputs: Sequence[Timed]) -> None:
    """Write a log that SimulEval and OmniSTEval read: a JSON line for each output."""
    with replaced_file(path) as temporary:
        lines = (json.dumps(one.record(index), ensure_ascii=False) for index, one in enumerate(outputs))
        temporary.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
