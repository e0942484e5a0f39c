r"""TED talks in 60 languages, sentence by sentence (Qi et al. 2018, NAACL, arXiv 1804.06323).

Layout, as the authors have published it: a table for each split, with a column for each language::

    {root}/all_talks_train.tsv     {root}/all_talks_dev.tsv     {root}/all_talks_test.tsv

    talk_name             en                  ...  fr             pt-br            zh-cn
    paul_stamets_on_6_w   I love a challenge  ...  __NULL__       Eu amo desafios  _ _ NULL _ _

A cell that contains NULL, or none at all, has no translation; sentences without either side are passed over, as the
authors' reader does it. Quotes are ordinary characters. Texts are tokenised already (Moses), and stay so: scores are
those of tokenised text. Columns are in lower case: ``pt-BR`` is read from ``pt-br``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dragoman.shared.errors import DataError
from dragoman.shared.preparing.reader import Reader, SourceRow
from dragoman.shared.preparing.split_files import chosen_splits, other_files, split_files
from dragoman.shared.text import languages
from dragoman.shared.text.lines import Unusable, read_lines, read_table

#: What a cell contains where there is no translation.
MISSING = "NULL"
#: The column with a talk's name, which becomes ``document``.
TALK = "talk_name"


class Ted(Reader):
    """Reads one direction."""

    name = "ted"

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str,
        target_language: str,
        splits: list[str] | None = None,
    ) -> None:
        """Look for the tables.

        Args:
            root: the folder with the tables.
            source_language: a code, whose column is its lower case.
            target_language: likewise.
            splits: some of train, dev and test; None means all that are there.

        Raises:
            DataError: if there are no tables, a split or a language is not there, or both languages are the same.
        """
        self.source_language, self.target_language = languages.check_pair(source_language, target_language)
        self.folder = f"{source_language}-{target_language}"
        self._tables = split_files(Path(root).absolute(), (".tsv",), prefix="all_talks_")
        self._pass_files("files that are not read", other_files(Path(root).absolute(), self._tables))
        self._splits = chosen_splits(root, self._tables, splits)

    def inputs(self, split: str) -> list[Path]:
        """Return the table."""
        return [self._tables[split]]

    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through the sentences that have both sides; a line with another number of cells comes as what is wrong.

        Raises:
            DataError: if the table has no column of a language.
        """
        path = self._tables[split]
        passed = self._passed(split, anew=True)
        source, target = (self._column(path, code) for code in (self.source_language, self.target_language))
        for line, cells in read_table(path, (source, target)):
            if isinstance(cells, Unusable):
                yield cells
                continue
            texts = [cells[column].strip() for column in (source, target)]
            if any(not text or MISSING in text for text in texts):
                passed["sentences without one of the sides"] += 1
                continue
            row = {
                "id": f"{split}_{line - 1}",
                "source_text": texts[0],
                "source_language": self.source_language,
                "target_text": texts[1],
                "target_language": self.target_language,
                "document": cells.get(TALK, "").strip() or None,
            }
            yield SourceRow(row, file=path, line=line)

    def _column(self, path: Path, code: str) -> str:
        """Return the name of a language's column."""
        names = next(read_lines(path), "").split("\t")
        if code.lower() not in names:
            codes = ", ".join(name for name in names if name != TALK)
            raise DataError(f"{path}: no column {code.lower()!r} for the language {code!r}; there are {codes:.500}")
        return code.lower()
