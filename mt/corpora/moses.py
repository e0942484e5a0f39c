r"""Parallel text as plain files, a sentence a line: Moses, WMT, OPUS.

A file pair is found by its names, in any of these forms (en-de as an example; the pair stands in either order)::

    {root}/{split}.en                     {root}/{split}.de                     train.en, train.de
    {root}/{split}.en-de.en               {root}/{split}.en-de.de               news-commentary-v14.de-en.de (WMT)
    {root}/opus.en-de-{split}.en          {root}/opus.en-de-{split}.de          opus.de-en-train.de (OPUS-100)

and the same in ``{root}/en-de/`` or ``{root}/de-en/``, in ``{root}/{any}/de-en/`` (OPUS-100: ``supervised`` and
``zero-shot``) and in ``{root}/{any}/en_de/`` (PC32, the corpus of mRASP: ``train`` and ``dev``). Line n of one file is
the translation of line n of the other; only ``\n`` ends a line. Each may be compressed (``train.en.gz``, .bz2, .xz).
Several pairs can be one split: ``splits=["train=europarl-v7+commoncrawl", "dev=newstest2013"]``.

Further references of a test stand beside the first, ``test.de.1``, ``test.de.2`` ...; they become the columns
``target_text_1`` ..., against which evaluations score too. A blank line in them is no reference.

With ``documents``, a blank line in both files divides documents, as in monolingual text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from dragoman.mt.corpora.splits import chosen_splits
from dragoman.shared.errors import DataError
from dragoman.shared.preparing.line_pairs import paired_files, paired_rows
from dragoman.shared.preparing.reader import Reader, SourceRow, place
from dragoman.shared.text import languages
from dragoman.shared.text.compressed import plain_name, plain_or_packed
from dragoman.shared.text.lines import count_lines


class Moses(Reader):
    """Reads one direction of line-aligned text files."""

    name = "moses"
    documents = False

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str,
        target_language: str,
        splits: list[str] | None = None,
        documents: bool = False,
    ) -> None:
        """Look for the file pairs.

        Args:
            root: the folder with the files.
            source_language: their ending on the source side.
            target_language: on the target side.
            splits: each the name of a file pair, or ``name=pair+pair+...`` for several joined under a new name; None
                means all pairs, each a split.
            documents: blank lines, on both sides, stand between documents, and are no rows.

        Raises:
            DataError: if there is no pair, a split has none, or two pairs have the same name.
        """
        self.source_language, self.target_language = languages.check_pair(source_language, target_language)
        self.folder = f"{source_language}-{target_language}"
        self.documents = documents
        pairs = self._find(Path(root).absolute())
        if not pairs:
            raise DataError(f"{root}: no files ending in .{source_language} and .{target_language} with the same name")
        self._splits: dict[str, list[str]] = chosen_splits(splits, pairs, root=root)
        self._pairs = pairs

    def _find(self, root: Path) -> dict[str, tuple[Path, Path]]:
        """Return the file pairs by their names without language marks."""
        source, target = self.source_language, self.target_language
        marks = (f"{source}-{target}", f"{target}-{source}")
        pairs: dict[str, tuple[Path, Path]] = {}
        inside = sorted(path for path in root.glob("*") if path.is_dir())
        under = [folder / name for folder in inside for mark in marks for name in (mark, mark.replace("-", "_"))]
        for folder in (root, *(root / mark for mark in marks), *under):
            targets = {plain_name(path): path for path in plain_or_packed(folder, f"*.{target}")}
            alone = []
            for path in plain_or_packed(folder, f"*.{source}"):
                stem = plain_name(path).removesuffix(f".{source}")
                partner = targets.pop(f"{stem}.{target}", None)
                if partner is None:
                    alone.append(path)
                    continue
                for mark in marks:
                    stem = stem.removeprefix(f"opus.{mark}-").removesuffix(f".{mark}")
                if stem in pairs:
                    raise DataError(f"{path}: both this and {pairs[stem][0]} would be {stem!r}")
                pairs[stem] = path, partner
            self._pass_files("files without the other side", [*alone, *targets.values()])
        return pairs

    def inputs(self, split: str) -> list[Path]:
        """Return the files of both sides."""
        return [path for stem in self._splits[split] for path in self._files(*self._pairs[stem])]

    def count(self, split: str) -> int:
        """Return the number of lines of one side."""
        return sum(self._count(*self._pairs[stem]) for stem in self._splits[split])

    def rows(self, split: str) -> Iterator[SourceRow]:
        """Go through the sentence pairs; blank lines are rows too, but between documents.

        Raises:
            DataError: if the two sides differ in length, or a document ends on one of them only.
        """
        passed = self._passed(split, anew=True)
        for stem in self._splits[split]:
            yield from self._rows(stem, *self._pairs[stem], passed)

    def _files(self, source: Path, target: Path) -> list[Path]:
        """Return the files of a pair, further references behind the first."""
        return paired_files(source, target)

    def _count(self, source: Path, _target: Path) -> int:
        """Return the number of sentences of a pair."""
        return count_lines(source)

    def _rows(self, stem: str, source_file: Path, target_file: Path, passed: Counter[str]) -> Iterator[SourceRow]:
        """Go through the sentences of a pair, and count what is passed over."""
        codes = self.source_language, self.target_language
        pairs = paired_rows(source_file, target_file, codes, f"{stem}_")
        return self._in_documents(stem, pairs, passed) if self.documents else pairs

    def _in_documents(self, stem: str, pairs: Iterator[SourceRow], passed: Counter[str]) -> Iterator[SourceRow]:
        """Name the document of each pair after its first line, and leave out the blank lines between documents."""
        first = 1
        for row in pairs:
            blank = [side for side in ("source_text", "target_text") if not row[side]]
            if len(blank) == 1:
                raise DataError(
                    f"{place(row, blank[0])}blank, where the other side has a sentence: a document ends in both"
                )
            if blank:
                passed["blank lines between documents"] += 1
                first = row.line + 1
                continue
            row["document"] = f"{stem}_{first}"
            yield row
