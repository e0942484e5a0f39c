"""Unsupervised translation: a translator of both directions teaches itself from texts that do not translate each other.

Lample et al. 2018, "Phrase-Based & Neural Unsupervised Machine Translation", EMNLP, section 2, and Conneau and Lample
2019, section 4.2. Besides a good beginning (XLM, MASS or mBART), it needs two losses in each language s, t being the
other one:

    L = a sum_s - log P_ss(y | C(y)) + sum_s - log P_ts(y | T_st(y)),      y a text in the language s.

C(y) is the text with noise (mt/back_translation.py), T_st(y) what the translator writes for it at this moment, without
gradient. The first is a stream that reads noised text, the second a stream whose sources are made here.

A denoiser copies what it reads. So that it does not learn from its copies, it may at first write pieces of the target's
language alone, for 1,000 steps (Liu et al. 2020, "Multilingual Denoising Pre-training for Neural Machine Translation",
section 5.2: those that are not in less than 1 % of its monolingual text).

Without pairs, a checkpoint is chosen by a round trip (Lample et al. 2018, "Unsupervised Machine Translation Using
Monolingual Corpora Only", section 2.6): the mean over both languages of BLEU(y, T_ts(T_st(y))). Arm ``round_trip`` does
so; else the last one is taken, since a translator that copies what it reads comes home without loss.

Differs from the paper and XLM's code: both languages share all of encoder and decoder. Noise drops, moves (by up to
three places, in the code two) and blanks whole words, in the code pieces. What is written for a sentence is limited by
its own length, where the code takes the batch's longest. The weight of restoring ends at 0.001, not at 0.

Not established: the number of updates; whether the 1 % are of texts, as here, or of pieces.

Not implemented: phrase-based translation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch

from dragoman.shared.annotations import Checked
from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.evaluation.scoring import translate_share
from dragoman.shared.generator import Hypothesis
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.objectives.parts import Part
from dragoman.shared.objectives.tasks import TaskObjective
from dragoman.shared.padded import Padded
from dragoman.shared.phases.pieces import changed_texts
from dragoman.shared.ranges import NonNegativeInt, PositiveInt, Share
from dragoman.shared.search.bans import AllowedTokens
from dragoman.shared.search.search import Search, ruled
from dragoman.shared.systems.system import System
from dragoman.shared.text.normalise import Normalizer
from dragoman.shared.text.tokenizer import Tokenizer
from dragoman.shared.training.validation import Validation


class TargetPieces(Checked):
    """The pieces that may be written in each language during the first updates: those that its own texts have.

    Args:
        texts: manifests of all languages, whose ``source_text`` is read, as paths or patterns.
        updates: how many; 1,000. 0: none.
        least: the share of a language's texts that have such a piece; 0.01.
        normalizers: changes to the texts, those of the field that reads them.
        limit: texts of each manifest that are read, from the first.
    """

    def __init__(
        self,
        *,
        texts: list[str],
        updates: NonNegativeInt = 1000,
        least: Share = 0.01,
        normalizers: list[Normalizer] | None = None,
        limit: PositiveInt = 100_000,
    ) -> None:
        self.texts = list(texts)
        self.updates = updates
        self.least = least
        self.normalizers = list(normalizers or [])
        self.limit = limit

    def ban(self, tokenizer: Tokenizer) -> AllowedTokens:
        """Read the texts, and return what forbids all other pieces.

        Raises:
            DataError: if there is no text.
            ValueError: if no piece of a language is in that share of its texts.
        """
        counts: dict[str, np.ndarray] = {}
        totals: Counter[str] = Counter()
        for language, text in changed_texts(self.texts, ["source_text"], {"source_text": self.normalizers}, self.limit):
            seen = counts.setdefault(language, np.zeros(tokenizer.size, dtype=np.int64))
            seen[[*{*tokenizer.encode(text)}]] += 1
            totals[language] += 1
        if not counts:
            raise DataError(f"{', '.join(self.texts)}: no text")
        frequent = {language: seen >= max(1, self.least * totals[language]) for language, seen in counts.items()}
        return AllowedTokens(tokens={language: np.flatnonzero(kept).tolist() for language, kept in frequent.items()})


class OnTheFly(TaskObjective):
    """Adds up the parts of a batch's stream, after back-translating the batch if its stream says so.

    A batch to be back-translated has a text twice, as source and as target. The translator reads the source, in eval
    mode, and what it writes takes the source's place; the target stays.

    Args:
        system: what is trained; it reads and writes both languages with one tokenizer.
        tasks: the parts by the name of a stream; see :class:`TaskObjective`.
        into: of streams that are back-translated, the language into which.
        search: how to translate, greedily as published.
        at_first: pieces of which alone the first updates' translations are made; None: of all.

    Raises:
        UsageError: if the system does not read and write those languages with one tokenizer, a stream of ``into`` has
            no task, or :class:`TaskObjective` refuses the tasks.
    """

    def __init__(
        self,
        *,
        system: System,
        tasks: dict[str, list[Part]],
        into: dict[str, str],
        search: Search,
        at_first: TargetPieces | None = None,
    ) -> None:
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
        self.at_first = at_first
        self._update = 0
        self._first_search: Search | None = None
        [self._name] = system.reads
        self._field = fields[0]
        tokenizer = system.output.tokenizer
        self._symbols = {tokenizer.id(symbol) for symbol in tokenizer.symbols}

    def at(self, update: int) -> None:
        """Note the number of the update; see :meth:`Objective.at`."""
        super().at(update)
        self._update = update

    def _search(self) -> Search:
        """Return the search of this update."""
        if self.at_first is None or self._update > self.at_first.updates:
            return self.search
        if self._first_search is None:
            ban = self.at_first.ban(cast(System, self.system).output.tokenizer)
            self._first_search = ruled(self.search, start_symbols=1, bans=[ban])
        return self._first_search

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
        for hypotheses in system.translate_batch(asked, self._search()):
            pieces = [token for token in hypotheses[0].tokens if token not in self._symbols][:room]
            rows.append(torch.tensor(self._field.framed(pieces, language)))
        source = Padded.from_sequences(rows, padding=self._field.padding).to(batch[self._name].device)
        sides = {self._field.side: made, written: batch.languages[self._field.side]}
        return replace(batch.with_fields(**{self._name: source}), languages=batch.languages | sides)


class RoundTrip(Validation):
    """Validate texts by their round trip: each is translated into the other language, and what comes out back again.

    Scores compare a text with what comes home; translations of it that a manifest may have are not read. With
    manifests of both languages they are averaged.

    Args:
        languages: the two.
        options: those of :class:`Validation`, with a search and metrics.

    Raises:
        UsageError: if there are not two languages, or nothing to translate with.
    """

    def __init__(self, *, languages: Sequence[str], **options: Any) -> None:
        super().__init__(**options)
        if len({*languages}) != 2 or len(languages) != 2:
            raise UsageError(f"a round trip is between two languages, not {', '.join(languages) or 'none'}")
        if self.search is None:
            raise UsageError("a round trip needs a search")
        self.other = dict(zip(languages, reversed(languages), strict=True))

    def translate(self, system: System, manifests: list[Manifest], workspace: Workspace) -> list[dict[int, Hypothesis]]:
        """Return what this process's share of the texts is after the round trip.

        Raises:
            DataError: for a text in a third language.
        """
        return [self._trip(system, manifest, workspace) for manifest in manifests]

    def references(self, manifest: Manifest) -> Manifest:
        """Return the manifest whose references are the texts themselves."""
        return manifest.turned()

    def _trip(self, system: System, manifest: Manifest, workspace: Workspace) -> dict[int, Hypothesis]:
        assert self.search is not None
        there = [self._outward(row, manifest) for row in manifest]
        abroad = translate_share(system, there, search=self.search, budget=self.budget, workspace=workspace)
        numbers = sorted(abroad)
        back = [
            there[number]
            | {"source_text": abroad[number].texts[system.output_name]}
            | {"source_language": there[number]["target_language"], "target_language": there[number]["source_language"]}
            for number in numbers
        ]
        alone = replace(workspace, rank=0, world=1)  # each process brings its own texts home
        home = translate_share(system, back, search=self.search, budget=self.budget, workspace=alone)
        return {number: home[place] for place, number in enumerate(numbers)}

    def _outward(self, row: Row, manifest: Manifest) -> dict[str, Any]:
        language = row["source_language"]
        if language not in self.other:
            one, two = self.other
            raise DataError(
                f"{manifest.path}: row {row['id']!r} is in {language}; the round trip is of {one} and {two}"
            )
        return {**row, "target_language": self.other[language]}
