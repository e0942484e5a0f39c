"""Unsupervised translation: a translator of both directions teaches itself from texts that do not translate each other.

Lample et al. 2018, "Phrase-Based & Neural Unsupervised Machine Translation", EMNLP, section 2, and Conneau and Lample
2019, section 4.2. Besides a good beginning (XLM, MASS or mBART), it needs two losses in each language s, t being the
other one:

    L = a sum_s - log P_ss(y | C(y)) + sum_s - log P_ts(y | T_st(y)),      y a text in the language s.

C(y) is the text with noise (mt/back_translation.py), T_st(y) what the translator writes for it at this moment, without
gradient. The first is a stream that reads noised text, the second a stream whose sources are made here.

Differs from the paper and XLM's code: both languages share all of encoder and decoder. Noise drops, moves (by up to
three places, in the code two) and blanks whole words, in the code pieces. What is written for a sentence is limited by
its own length, where the code takes the batch's longest. The weight of restoring ends at 0.001, not at 0.

Not established: the number of updates.

Not implemented: choosing a checkpoint by the score of a round trip (the last is taken), phrase-based translation, and a
search that may not write the source's language at first, as for mBART.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch

from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import TextField
from dragoman.shared.errors import UsageError
from dragoman.shared.objectives.parts import Part
from dragoman.shared.objectives.tasks import TaskObjective
from dragoman.shared.padded import Padded
from dragoman.shared.search.search import Search
from dragoman.shared.systems.system import System


class OnTheFly(TaskObjective):
    """Adds up the parts of a batch's stream, after back-translating the batch if its stream says so.

    A batch to be back-translated has a text twice, as source and as target. The translator reads the source, in eval
    mode, and what it writes takes the source's place; the target stays.

    Args:
        system: what is trained; it reads and writes both languages with one tokenizer.
        tasks: the parts by the name of a stream; see :class:`TaskObjective`.
        into: of streams that are back-translated, the language into which.
        search: how to translate, greedily as published.

    Raises:
        UsageError: if the system does not read and write those languages with one tokenizer, a stream of ``into`` has
            no task, or :class:`TaskObjective` refuses the tasks.
    """

    def __init__(self, *, system: System, tasks: dict[str, list[Part]], into: dict[str, str], search: Search) -> None:
        super().__init__(system=system, tasks=tasks)
        fields = list(system.input_fields.values())
        if len(fields) != 1 or not isinstance(fields[0], TextField):
            raise UsageError(f"back-translation needs a system that reads one text, not {' and '.join(system.reads)}")
        if fields[0].tokenizer.fingerprint != system.output.tokenizer.fingerprint:
            raise UsageError("back-translation needs one tokenizer for what is read and what is written")
        for stream, language in into.items():
            self._task(stream)
            both = {*system.source_languages} & {*system.target_languages}
            if language not in both:
                raise UsageError(
                    f"stream {stream!r} is to be translated into {language!r}, but the system reads and writes only "
                    f"{' and '.join(sorted(both)) or 'no language'}"
                )
        self.into = dict(into)
        self.search = search
        [self._name] = system.reads
        self._field = fields[0]
        tokenizer = system.output.tokenizer
        self._symbols = {tokenizer.id(symbol) for symbol in tokenizer.symbols}

    def prepare(self, batch: Batch) -> Batch:
        """Put a translation of the source into its place, in a batch of a stream that is back-translated."""
        language = self.into.get(batch.stream)
        if language is None:
            return batch
        system = cast(System, self.system)
        written = system.output.side
        made = [language] * len(batch)
        asked = replace(batch, languages=batch.languages | {written: made})
        longest = getattr(system.model, "longest_output", None)  # what it can write, it can read with fewer symbols
        room = None if longest is None else longest - self._field.overhead
        rows = []
        for hypotheses in system.translate_batch(asked, self.search):
            pieces = [token for token in hypotheses[0].tokens if token not in self._symbols][:room]
            rows.append(torch.tensor(self._field.framed(pieces, language)))
        source = Padded.from_sequences(rows, padding=self._field.padding).to(batch[self._name].device)
        sides = {self._field.side: made, written: batch.languages[self._field.side]}
        return replace(batch.with_fields(**{self._name: source}), languages=batch.languages | sides)
