r"""Pairs of texts with a label: what follows from what (XNLI), and what says the same (PAWS-X).

XNLI (Conneau et al. 2018, EMNLP), tests and development in 15 languages, training translated by machine::

    {root}/XNLI-1.0/xnli.{dev,test}.tsv
    {root}/XNLI-MT-1.0/multinli/multinli.train.{language}.tsv

    premise                              hypo                         label
    you know during the season and i ..  You lose the things to ..    contradictory

PAWS-X (Yang et al. 2019, EMNLP), in seven languages, training translated by machine::

    {root}/x-final/{language}/{train,translated_train,dev_2k,test_2k}.tsv

    id  sentence1                     sentence2                      label
    1   The exhibited products ...    In this way the products ...   0

Quotes are ordinary characters. Rows have ``source_text``, ``second_text`` and ``label``. Sentences that PAWS-X's
translators left out ("NS", or nothing) are passed over.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, NamedTuple

from dragoman.mt.corpora.one_language import OneLanguage
from dragoman.shared.preparing.held_out import DEV, TEST, TRAIN
from dragoman.shared.preparing.reader import SourceRow
from dragoman.shared.text.lines import Unusable, read_table

#: How PAWS-X writes that a sentence was not translated.
LEFT_OUT = ("NS", "")


class Table(NamedTuple):
    """A table with pairs.

    Attributes:
        path: the file.
        texts: its columns with the first and the second text.
        label: its column with the label.
        id: its column with an id; "" for the number of the line.
        language: its column with the language, of which other rows are; "" if it has one language.
    """

    path: Path
    texts: tuple[str, str]
    label: str
    id: str = ""
    language: str = ""


class LabelledPairs(OneLanguage[Table]):
    """Base class of readers of one language of such a corpus."""

    #: How labels are called, by how the files have them.
    labels: ClassVar[dict[str, str]] = {}

    @abstractmethod
    def _tables(self, root: Path) -> dict[str, Table]:
        """Return the tables that there may be, by split."""

    def _found(self, root: Path) -> dict[str, Table]:
        return {split: table for split, table in self._tables(root).items() if table.path.is_file()}

    def inputs(self, split: str) -> list[Path]:
        """Return the table."""
        return [self._places[split].path]

    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through the pairs; a line with another number of cells or an unknown label comes as what is wrong."""
        table, passed = self._places[split], self._passed(split, anew=True)
        columns = (*table.texts, table.label, *(name for name in (table.id, table.language) if name))
        for line, cells in read_table(table.path, columns):
            if isinstance(cells, Unusable):
                yield cells
                continue
            if table.language and cells[table.language] != self.language:
                passed["rows in other languages"] += 1
                continue
            one, other = (cells[column].strip() for column in table.texts)
            if one in LEFT_OUT or other in LEFT_OUT:
                passed["pairs without one of the texts"] += 1
                continue
            label = cells[table.label].strip()
            if label not in self.labels:
                reason = f"label {label!r} is not one of {', '.join(self.labels)}"
                yield Unusable(reason, table.path, line)
                continue
            row = {"id": f"{split}_{cells[table.id] if table.id else line - 1}", "source_language": self.language}
            row |= {"source_text": one, "second_text": other, "label": self.labels[label]}
            yield SourceRow(row, file=table.path, line=line)


class Xnli(LabelledPairs):
    """Reads premises and hypotheses with entailment, neutral or contradiction."""

    name = "xnli"
    labels: ClassVar[dict[str, str]] = {name: name for name in ("neutral", "entailment", "contradiction")}
    labels |= {"contradictory": "contradiction"}  # in the files for training

    def _tables(self, root: Path) -> dict[str, Table]:
        train = root / "XNLI-MT-1.0/multinli" / f"multinli.train.{self.language}.tsv"
        tests = {split: root / "XNLI-1.0" / f"xnli.{split}.tsv" for split in (DEV, TEST)}
        sentences = ("sentence1", "sentence2")
        return {TRAIN: Table(train, ("premise", "hypo"), "label")} | {
            split: Table(path, sentences, "gold_label", "pairID", "language") for split, path in tests.items()
        }


class PawsX(LabelledPairs):
    """Reads pairs of sentences that are a paraphrase or different."""

    name = "paws_x"
    labels: ClassVar[dict[str, str]] = {"0": "different", "1": "paraphrase"}

    def _tables(self, root: Path) -> dict[str, Table]:
        folder = (root / "x-final" if (root / "x-final").is_dir() else root) / self.language
        names = {TRAIN: "train" if self.language == "en" else "translated_train", DEV: "dev_2k", TEST: "test_2k"}
        sentences = ("sentence1", "sentence2")
        return {split: Table(folder / f"{name}.tsv", sentences, "label", "id") for split, name in names.items()}
