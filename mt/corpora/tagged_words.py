r"""Words with tags: names (WikiANN) and parts of speech (Universal Dependencies), a sentence a row.

WikiANN (Pan et al. 2017, ACL), in the balanced splits of Rahimi et al. (2019) that XTREME's PANX is made of::

    {root}/{language}/{train,dev,test}

    en:The	O
    en:Beatles	B-ORG

Treebanks of Universal Dependencies (Nivre et al. 2020), in CoNLL-U, all of a language together::

    {root}/**/{language}_{treebank}-ud-{train,dev,test}.conllu

    1	They	they	PRON	PRP	...

Blank lines end sentences. Rows have ``source_text``, the words with a space between them, and ``label``, as many tags.
White space inside of a word becomes "_". Of CoNLL-U, the words of syntax are read, with their universal part of speech:
"du" is "de" and "le".
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path

from dragoman.mt.corpora.one_language import OneLanguage
from dragoman.shared.preparing.held_out import DEV, TEST, TRAIN
from dragoman.shared.preparing.reader import SourceRow
from dragoman.shared.text.lines import Unusable, read_lines

#: A word and its tag, nothing for a line that has none, or what is wrong with it.
Tagged = tuple[str, str] | None | str


class TaggedWords(OneLanguage[list[Path]]):
    """Base class of readers of one language of such a corpus."""

    def _found(self, root: Path) -> dict[str, list[Path]]:
        found = {split: self._files(root, split) for split in (TRAIN, DEV, TEST)}
        return {split: files for split, files in found.items() if files}

    @abstractmethod
    def _files(self, root: Path, split: str) -> list[Path]:
        """Return the files of a split."""

    @abstractmethod
    def _tagged(self, line: str) -> Tagged:
        """Return what a line says that is not blank."""

    def inputs(self, split: str) -> list[Path]:
        """Return the files."""
        return list(self._places[split])

    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through the sentences; in place of one with a broken line comes what is wrong with it."""
        for path in self._places[split]:
            words: list[tuple[str, str]] = []
            wrong: Unusable | None = None
            first = 1
            for number, line in enumerate([*read_lines(path), ""], 1):
                if line.strip():
                    tagged = self._tagged(line)
                    if isinstance(tagged, str):
                        wrong = wrong or Unusable(tagged, path, number)
                    elif tagged is not None:
                        words.append(tagged)
                    continue
                if wrong is not None:
                    yield wrong
                elif words:
                    row = {"id": f"{path.stem}_{first}", "source_language": self.language}
                    row |= dict(zip(("source_text", "label"), map(" ".join, zip(*words, strict=True)), strict=True))
                    yield SourceRow(row, file=path, line=first)
                words, wrong, first = [], None, number + 1


class WikiAnn(TaggedWords):
    """Reads names of persons, organisations and places: B-PER, I-PER, ... and O."""

    name = "wikiann"

    def _files(self, root: Path, split: str) -> list[Path]:
        path = root / self.language / split
        return [path] if path.is_file() else []

    def _tagged(self, line: str) -> Tagged:
        cells = line.split("\t")
        if len(cells) != 2:
            return f"{len(cells)} cells where a word and a tag should be"
        return _word(cells[0].removeprefix(f"{self.language}:")), cells[1].strip()


class UniversalDependencies(TaggedWords):
    """Reads words with their parts of speech: NOUN, VERB, ..."""

    name = "universal_dependencies"

    def _files(self, root: Path, split: str) -> list[Path]:
        return sorted(root.rglob(f"{self.language}_*-ud-{split}.conllu"))

    def _tagged(self, line: str) -> Tagged:
        cells = line.split("\t")
        if line.startswith("#") or re.fullmatch(r"\d+[-.]\d+", cells[0]):  # what was spelled as one, or is not spelled
            return None
        if len(cells) != 10 or not cells[0].isdecimal():
            return f"{line[:60]!r} is no line of CoNLL-U: it has {len(cells)} cells, not 10"
        return _word(cells[1]), cells[3]


def _word(spelling: str) -> str:
    return "_".join(spelling.split()) or "_"
