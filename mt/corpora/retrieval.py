r"""Sentences whose translations are to be found: Tatoeba's pairs, and BUCC's pairs among many that are none.

Tatoeba (Artetxe and Schwenk 2019, TACL), up to 1,000 sentences in each of 112 languages with English, as in LASER::

    {root}/tatoeba.{language}-eng.{language}        codes of three letters: deu, cmn
    {root}/tatoeba.{language}-eng.eng

BUCC 2018 (Zweigenbaum, Sharoff and Rapp 2018), German, French, Russian and Chinese with English::

    {root}/{language}-en/{language}-en.{sample,training}.{language}     an id, a tab and a sentence
    {root}/{language}-en/{language}-en.{sample,training}.en
    {root}/{language}-en/{language}-en.{sample,training}.gold           the ids of two sentences that are translations

As in XTREME (Hu et al. 2020), the sample is for development and BUCC's training set is the test. Rows of both languages
are in one manifest: ``source_text``, ``source_language`` and ``counterpart``, the id of the translation, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dragoman.mt.corpora.moses import Moses
from dragoman.shared.errors import DataError
from dragoman.shared.preparing.held_out import DEV, TEST
from dragoman.shared.preparing.reader import Reader, SourceRow
from dragoman.shared.preparing.split_files import chosen_splits
from dragoman.shared.text import languages
from dragoman.shared.text.lines import Unusable, count_lines, read_lines

ENGLISH = "en"


class Tatoeba(Moses):
    """Reads the pairs of one language and English, in either direction."""

    name = "tatoeba"

    def _find(self, root: Path) -> dict[str, tuple[Path, Path]]:
        codes = self.source_language, self.target_language
        if ENGLISH not in codes:
            raise DataError(f"{root}: Tatoeba's pairs are with English, not of {' and '.join(codes)}")
        [other] = [code for code in codes if code != ENGLISH] or [ENGLISH]
        names = [code for code, ours in languages.OTHERS.items() if ours == other] + [other]
        for name in names:
            files = {code: root / f"tatoeba.{name}-eng.{name if code == other else 'eng'}" for code in codes}
            if all(file.is_file() for file in files.values()):
                return {TEST: (files[codes[0]], files[codes[1]])}
        return {}


class Bucc(Reader):
    """Reads the sentences of a language and of English."""

    name = "bucc"

    def __init__(self, *, root: str | Path, language: str, splits: list[str] | None = None) -> None:
        """Look for the files.

        Args:
            root: the folder with the pairs' folders.
            language: the code of the other language.
            splits: dev, test or both; None means all that are there.

        Raises:
            DataError: if nothing of the language is there, or a split is not.
        """
        self.language = languages.check(language)
        self.folder = f"{language}-{ENGLISH}"
        stems = {
            split: Path(root).absolute() / self.folder / f"{self.folder}.{name}"
            for split, name in ((DEV, "sample"), (TEST, "training"))
        }
        self._stems = {split: stem for split, stem in stems.items() if all(file.is_file() for file in self._of(stem))}
        if not self._stems:
            raise DataError(f"{root}: no files {stems[TEST]}.{{{language},{ENGLISH},gold}}, nor of the sample")
        self._splits = chosen_splits(root, self._stems, splits)

    def _of(self, stem: Path) -> list[Path]:
        return [stem.with_name(f"{stem.name}.{ending}") for ending in (self.language, ENGLISH, "gold")]

    def inputs(self, split: str) -> list[Path]:
        """Return the sentences of both languages and the solution."""
        return self._of(self._stems[split])

    def count(self, split: str) -> int:
        """Return the number of sentences of both languages."""
        return sum(map(count_lines, self.inputs(split)[:2]))

    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through the sentences; a line that is not an id and a sentence comes as what is wrong.

        Raises:
            DataError: if the solution has a line that is not two ids, or an id twice.
        """
        *texts, gold = self.inputs(split)
        pairs = _solution(gold)
        partners = pairs | {other: one for one, other in pairs.items()}
        for code, file in zip((self.language, ENGLISH), texts, strict=True):
            for number, line in enumerate(read_lines(file, "surrogateescape"), 1):
                id, tab, text = line.partition("\t")
                if not (id and tab and text.strip()):
                    yield Unusable("not an id and a sentence with a tab between them", file, number)
                    continue
                row = {"id": id, "source_text": text.strip(), "source_language": code}
                yield SourceRow(row | {"counterpart": partners.get(id)}, file=file, line=number)


def _solution(path: Path) -> dict[str, str]:
    """Return the ids of translations by those of sentences.

    Raises:
        DataError: for a line that is not two ids, or has one that came before.
    """
    found: dict[str, str] = {}
    seen: set[str] = set()
    for number, line in enumerate(read_lines(path), 1):
        ids = line.split("\t")
        if len(ids) != 2 or not all(ids) or seen & {*ids}:
            raise DataError(f"{path}, line {number}: {line!r} is not two ids with a tab between them, each once")
        seen.update(ids)
        found[ids[0]] = ids[1]
    return found
