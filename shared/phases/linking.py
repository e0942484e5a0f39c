"""The phase that links words with those of the translation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from dragoman.shared.batches.find import find_manifests
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases.adding_columns import WORDS, AddColumns
from dragoman.shared.phases.evaluating import opened
from dragoman.shared.ranges import NonNegativeFloat, NonNegativeInt, PositiveInt
from dragoman.shared.text.case import lower
from dragoman.shared.text.lines import read_lines
from dragoman.shared.text.normalise import Normalizer, apply
from dragoman.shared.text.units import joined
from dragoman.shared.text.word_aligner import Pair, WordAligner
from dragoman.shared.text.word_links import Link, read_links, written
from dragoman.shared.text.word_spans import bare_span, linked_words

#: The column of links between words, in Pharaoh's format.
LINKS = "word_links"
#: The column of the words' translations, and its type.
TRANSLATIONS = "word_translations"
TRANSLATIONS_TYPE = pa.list_(pa.string())


class AlignWords(AddColumns):
    """Link the words of texts with those of their translations, by a model that is learned from sentence pairs.

    Words are what spaces divide (in scripts without spaces, each character); those of the column ``words``, if a
    manifest has it. Case, and signs at their ends, do not count. Adds the columns

    - ``word_links``: the links in Pharaoh's format ("0-0 1-2"); None where a row has no translation, or ``by_table``;
    - ``word_translations``, to manifests with the column ``words``: for each word those that it is linked with, in the
      form in which they are most frequent, "" for none. Without links, its most probable translation by the table
      p(t | s).

    Args:
        manifests: see :class:`AddColumns`.
        pairs: manifests that are learned from, as paths or patterns; each direction of languages by itself.
        normalizers: changes to the texts of each column before they are divided, those of the model's fields.
        symmetrisation: of the two directions: "intersection", "grow-diag-final-and", "grow-diag-final" or "union".
        iterations: passes of EM.
        flat: see :class:`~dragoman.shared.text.word_aligner.DirectedAligner`.
        concentration: likewise.
        by_table: do not read the translations of ``manifests``.
        links: files in Pharaoh's format by manifest, "<folder>/<file>", a line for each row, which replace the model's
            links there: ``{"en-de/train.arrow": "train.gdfa"}``.

    Raises:
        UsageError: for an unknown symmetrisation, or links that would not be read.
    """

    def __init__(
        self,
        *,
        manifests: list[str],
        pairs: list[str],
        normalizers: dict[str, list[Normalizer]] | None = None,
        symmetrisation: str = "grow-diag-final",
        iterations: PositiveInt = 5,
        flat: NonNegativeInt = 0,
        concentration: NonNegativeFloat = 0.0,
        by_table: bool = False,
        links: dict[str, str] | None = None,
    ) -> None:
        if by_table and links:
            raise UsageError("by_table: True does not read links")
        super().__init__(manifests=manifests, further=pairs)
        self.pairs = list(pairs)
        self.normalizers = dict(normalizers or {})
        self.learn = partial(
            WordAligner, symmetrisation=symmetrisation, iterations=iterations, flat=flat, concentration=concentration
        )
        self.learn([])  # refuses what aligners refuse
        self.by_table = by_table
        self.links = {name: Path(path) for name, path in (links or {}).items()}
        self.columns = {LINKS: pa.string(), TRANSLATIONS: TRANSLATIONS_TYPE}
        self._known: dict[tuple[str, str], _Known] = {}

    def begin(self, workspace: Workspace) -> None:
        """Learn the aligners.

        Raises:
            UsageError: if there is no manifest of the name of a file of links.
        """
        names = {f"{path.parent.name}/{path.name}" for path in find_manifests(self.copied)}
        lost = sorted(self.links.keys() - names)
        if lost:
            raise UsageError(f"{workspace.phase}: links of {lost[0]}, but the manifests are {', '.join(sorted(names))}")
        texts: dict[tuple[str, str], list[Pair]] = {}
        forms: dict[tuple[str, str], dict[str, dict[str, int]]] = {}
        for path in find_manifests(self.pairs):
            for row in opened(path, workspace):
                if row["source_text"] and row["target_text"]:
                    direction = row["source_language"], row["target_language"]
                    source, target = self._words(row, "source"), self._words(row, "target")
                    texts.setdefault(direction, []).append((keys(source, direction[0]), keys(target, direction[1])))
                    counted = forms.setdefault(direction, {})
                    for word in target:
                        by_form = counted.setdefault(key(word, direction[1]), {})
                        by_form[bare(word)] = by_form.get(bare(word), 0) + 1
        for direction, pairs in texts.items():
            aligner = self.learn(pairs)
            usual = {word: max(counts, key=counts.__getitem__) for word, counts in forms[direction].items()}
            self._known[direction] = _Known(aligner, aligner.forward.best(), usual)
            likelihood = aligner.forward.log_likelihoods
            workspace.log.info(
                "%s: %s-%s: %d pairs, %d source words; log-likelihood %.4g, in the last pass %.4g",
                workspace.phase,
                *direction,
                len(pairs),
                len(self._known[direction].table),
                likelihood[0],
                likelihood[-1],
            )

    def rows(self, manifest: Manifest, workspace: Workspace) -> Iterator[Row]:
        """Yield the rows with their links and translations."""
        name = f"{manifest.path.parent.name}/{manifest.path.name}"
        spoken = WORDS in manifest.columns
        given = self._given(self.links[name], manifest, workspace) if name in self.links else None
        words = translated = 0
        for row in manifest:
            direction = row["source_language"], row["target_language"]
            learned = self._known.get(direction)
            if learned is None and given is None:
                raise DataError(
                    f"{manifest.path}: row {row['id']!r}: no pairs of {direction[0]} and {direction[1]} were given to "
                    f"learn from"
                )
            source = self._source(row)
            if given is not None and spoken and source is not None and len(source) != len(self._words(row, "source")):
                raise DataError(
                    f"{manifest.path}: row {row['id']!r}: its recording was aligned with {len(source)} words, but its "
                    f"text has {len(self._words(row, 'source'))}: links of the text do not fit"
                )
            target = self._words(row, "target") if row["target_text"] and not self.by_table else None
            links = next(given) if given is not None else None
            if links is None and learned and source is not None and target is not None:
                links = learned.aligner.links(keys(source, direction[0]), keys(target, direction[1]))
            new: dict[str, Any] = {LINKS: None if links is None else written(links), TRANSLATIONS: None}
            if spoken and source is not None:
                new[TRANSLATIONS] = self._translations(source, target, links, direction)
                words += len(source)
                translated += sum(map(bool, new[TRANSLATIONS]))
            yield row | new
        if given is not None:
            next(given, None)  # the file has to end here, too
        if spoken:
            workspace.log.info(
                "%s: %s: %d of %d words have a translation", workspace.phase, manifest.path, translated, words
            )

    def _translations(
        self,
        source: Sequence[str],
        target: Sequence[str] | None,
        links: Sequence[Link] | None,
        direction: tuple[str, str],
    ) -> list[str]:
        """Return the translation of each source word, "" for none."""
        table_links = self._known.get(direction)
        usual = table_links.usual if table_links else {}
        if links is None or target is None:
            table = table_links.table if table_links else {}
            translations = (table.get(key(word, direction[0]), "") for word in source)
            return [usual.get(word, word) for word in translations]
        gathered: list[list[str]] = [[] for _ in source]
        for s, t in sorted(links):
            gathered[s].append(usual.get(key(target[t], direction[1]), bare(target[t])))
        return [joined(words, direction[1], words=True) for words in gathered]

    def _source(self, row: Row) -> list[str] | None:
        """Return the words of a row's source; None if it has none, or they could not be found in its sound."""
        if WORDS in row:
            return None if row[WORDS] is None else [word["text"] for word in row[WORDS]]
        return None if row["source_text"] is None else self._words(row, "source")

    def _words(self, row: Row, side: str) -> list[str]:
        language = row[f"{side}_language"]
        text = apply(self.normalizers.get(f"{side}_text", []), row[f"{side}_text"], language)
        return [text[start:end] for start, end in linked_words(text, language)]

    def _given(self, path: Path, manifest: Manifest, workspace: Workspace) -> Iterator[list[Link]]:
        """Yield the links of a file, row by row; with ``--debug``, of the rows that are looked at."""

        def sizes() -> Iterator[tuple[int, int]]:
            for row in manifest:
                words = self._source(row)
                source = len(self._words(row, "source")) if words is None and row["source_text"] else len(words or [])
                yield source, len(self._words(row, "target")) if row["target_text"] else 0

        lines = read_lines(path)
        return read_links(path, iter([*lines][: len(manifest)]) if workspace.debug else iter(lines), sizes())


class _Known:
    """An aligner, the most probable translation of each source word, and the usual form of target words."""

    def __init__(self, aligner: WordAligner, table: dict[str, str], usual: dict[str, str]) -> None:
        self.aligner = aligner
        self.table = table
        self.usual = usual


def bare(word: str) -> str:
    """Return a word without the signs at its ends; one that is all signs as it is."""
    return word[slice(*bare_span(word, (0, len(word))))]


def key(word: str, language: str | None) -> str:
    """Return a word as aligners see it: bare, in lower case."""
    return lower(bare(word), language)


def keys(words: Sequence[str], language: str | None) -> list[str]:
    """Return words as aligners see them."""
    return [key(word, language) for word in words]
