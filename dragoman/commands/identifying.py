"""A trained model that tells in which language texts are, or sounds (recipe own/language_id): ``--identifier``.

Legend: B segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp
from pathlib import Path

from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Hypothesis
from dragoman.shared.machine.device import Machine
from dragoman.shared.search import BeamSearch
from dragoman.shared.systems.combining import load_combined

#: What such a model writes: a label, which is the code of a language.
LABEL = "label"


class Identifier:
    """A model folder whose system labels what it reads with the codes of languages.

    Args:
        folder: of a model, or of a run.
        machine: that it runs on.
        speech: it is asked about sounds, not about texts.

    Raises:
        DataError: if the folder is no model folder.
        UsageError: if the model writes something else, or reads what it is not asked about.
    """

    def __init__(self, folder: Path, machine: Machine, *, speech: bool) -> None:
        self._system = load_combined(folder, machine.device, autocast_dtype=machine.autocast_dtype)
        if [*self._system.texts] != [LABEL]:
            written = " and ".join(self._system.texts)
            raise UsageError(f"--identifier {folder}: writes a {written}, where a label is expected: a language")
        if ("speech" in self._system.reads) != speech:
            reads, asked = ("text", "speech") if speech else ("speech", "text")
            raise UsageError(f"--identifier {folder}: reads {reads}, and is asked about {asked}")
        most = self._system.output.tokenizer.size
        self._all = BeamSearch(beam=most, n_best=most)

    def of_texts(self, texts: Sequence[str]) -> list[dict[str, float]]:
        """Return the probability of each label, for each text; none of them is blank."""
        code = self._system.source_languages[0]  # what is read is the same, whichever is named
        return _shares(self._system.hypotheses(texts, search=self._all, source_language=code))

    def of_sounds(self, batch: Batch) -> list[dict[str, float]]:
        """Return the probability of each label, for each of B segments, whose waveforms are the field "speech"."""
        return _shares(self._system.translate_batch(batch, self._all))


def _shares(outputs: Iterable[Sequence[Hypothesis]]) -> list[dict[str, float]]:
    return [{one.texts[LABEL]: exp(one.score) for one in hypotheses} for hypotheses in outputs]
