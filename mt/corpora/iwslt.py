"""IWSLT: transcripts of TED talks and their translations, as the evaluation campaigns have published them.

Layout of a pair's folder (de to en of 2014; other years have other prefixes)::

    {root}/train.tags.de-en.de                   {root}/train.tags.de-en.en
    {root}/IWSLT14.TED.dev2010.de-en.de.xml      {root}/IWSLT14.TED.dev2010.de-en.en.xml

and the same in ``{root}/de-en/`` and ``{root}/en-de/``; the pair in the names stands in either order. Training files
mix sentences with lines of tags, ``<url>``, ``<talkid>``, ``<keywords>``, ``<title>`` ...; they are aligned line by
line. A talk's number becomes the column ``document``. The other files look like XML and are none (see
mt/corpora/segments.py); their splits are called like them: "TED.dev2010".
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from dragoman.mt.corpora.segments import read_segments
from dragoman.mt.corpora.splits import chosen_splits
from dragoman.mt.corpora.wmt import read_test_set
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.preparing.reader import Reader, SourceRow
from dragoman.shared.text import languages
from dragoman.shared.text.compressed import beside, plain_name, plain_or_packed
from dragoman.shared.text.lines import count_lines, read_lines

TRAIN, VALID = "train", "valid"
#: Lines about a talk; other markup is part of a sentence.
_TAG = re.compile(
    r"\s*</?(url|talkid|speaker|keywords|title|description|reviewers?|translators?|transcript|doc)\b[^<>]*>"
    r"(.*?)(?:</\1>)?\s*",
    re.IGNORECASE,
)
#: Texts about a talk, in both languages.
ABOUT = ("title", "description")


class IWSLT(Reader):
    """Reads one direction."""

    name = "iwslt"

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str,
        target_language: str,
        splits: list[str] | None = None,
        valid_every: int = 0,
        about: bool = False,
    ) -> None:
        """Look for the files.

        Args:
            root: the folder with the files.
            source_language: a code, as in the names of the files.
            target_language: likewise.
            splits: each the name of a split, or ``name=split+split+...`` for several joined under a new name; None
                means all, each by itself.
            valid_every: each such line of the training text is in a split "valid" instead: 23 in fairseq's
                prepare-iwslt14.sh. 0: none.
            about: keep titles and descriptions of talks as training text, as fairseq's script does.

        Raises:
            DataError: if there are no files of the pair, or a split has none.
            UsageError: if valid_every is negative, or 1.
        """
        if valid_every < 0 or valid_every == 1:
            raise UsageError(f"valid_every must be 0 or at least 2, not {valid_every}")
        self.source_language = languages.check(source_language)
        self.target_language = languages.check(target_language)
        self.valid_every = valid_every
        self.about = about
        self.folder = f"{source_language}-{target_language}"
        self._pairs = self._find(Path(root).absolute())
        if not self._pairs:
            raise DataError(f"{root}: no train.tags.{self.folder}.{source_language} and no IWSLT*.{self.folder}.*.xml")
        if valid_every and TRAIN in self._pairs:
            self._pairs[VALID] = self._pairs[TRAIN]
        self._splits: dict[str, list[str]] = chosen_splits(splits, self._pairs, root=root)

    def _find(self, root: Path) -> dict[str, tuple[Path, Path]]:
        """Return the file pairs by the names of splits."""
        source, target = self.source_language, self.target_language
        pairs: dict[str, tuple[Path, Path]] = {}
        for mark in (f"{source}-{target}", f"{target}-{source}"):
            for folder in (root, root / f"{source}-{target}", root / f"{target}-{source}"):
                ending, alone = f".{mark}.{source}.xml", []
                tests = plain_or_packed(folder, f"IWSLT*{ending}")
                names = {plain_name(path).partition(".")[2].removesuffix(ending): path for path in tests}
                for path in plain_or_packed(folder, f"train.tags.{mark}.{source}"):
                    names[TRAIN] = path
                for name, path in names.items():
                    xml = "" if name == TRAIN else ".xml"
                    partner = beside(path.with_name(plain_name(path).removesuffix(f"{source}{xml}") + target + xml))
                    if partner is None or name in pairs:
                        alone.append(path)
                    else:
                        pairs[name] = (path, partner)
                self._pass_files("files without the other side, or of another folder", alone)
        return pairs

    def inputs(self, split: str) -> list[Path]:
        """Return the files of both sides."""
        return [path for name in self._splits[split] for path in self._pairs[name]]

    def count(self, split: str) -> int | None:
        """Return the number of rows of test sets; None if tags have to be read to know it."""
        if {TRAIN, VALID} & {*self._splits[split]}:
            return None
        return sum(1 for name in self._splits[split] for _ in read_segments(self._pairs[name][0]))

    def rows(self, split: str) -> Iterator[SourceRow]:
        """Go through the sentences.

        Raises:
            DataError: if the two sides do not fit.
        """
        self._passed(split, anew=True)
        for name in self._splits[split]:
            files = self._pairs[name]
            yield from self._sentences(split, name, *files) if name in (TRAIN, VALID) else self._segments(name, *files)

    def _segments(self, name: str, source_file: Path, target_file: Path) -> Iterator[SourceRow]:
        for number, (segment, references) in enumerate(read_test_set(source_file, target_file), 1):
            row = self._row(f"{name}_{number}", segment.text, references[0], segment.document)
            yield SourceRow(row, file=source_file, line=segment.line, files={"target_text": target_file})

    def _sentences(self, split: str, name: str, source_file: Path, target_file: Path) -> Iterator[SourceRow]:
        """Go through the training text, or what validation takes out of it."""
        counts = count_lines(source_file), count_lines(target_file)
        if counts[0] != counts[1]:
            raise DataError(f"{source_file}: {counts[0]} lines, but {target_file.name} has {counts[1]}")
        sides = (read_lines(file, "surrogateescape") for file in (source_file, target_file))
        talk, kept, passed = "", 0, self._passed(split)
        for number, (source, target) in enumerate(zip(*sides, strict=True), 1):
            tags = _TAG.fullmatch(source), _TAG.fullmatch(target)
            kinds = [tag[1].lower() if tag else None for tag in tags]
            if kinds[0] != kinds[1]:
                raise DataError(
                    f"{source_file}, line {number}: {_kind(kinds[0])}, "
                    f"but {target_file.name} has {_kind(kinds[1])} there"
                )
            if tags[0] and tags[1]:
                if kinds[0] == "talkid":
                    talk = tags[0][2].strip()
                if not self.about or kinds[0] not in ABOUT:
                    passed["lines of tags"] += 1
                    continue
                source, target = tags[0][2], tags[1][2]
            kept += 1
            is_valid = bool(self.valid_every) and kept % self.valid_every == 0
            if is_valid == (name == VALID):
                row = self._row(f"{name}_{kept}", _plain(source), _plain(target), talk)
                yield SourceRow(row, file=source_file, line=number, files={"target_text": target_file})

    def _row(self, id: str, source: str, target: str, document: str) -> dict[str, str | None]:
        return {
            "id": id,
            "source_text": source,
            "source_language": self.source_language,
            "target_text": target,
            "target_language": self.target_language,
            "document": document or None,
        }


def _plain(text: str) -> str:
    return html.unescape(text).strip()


def _kind(kind: str | None) -> str:
    """Name what a line is, for messages."""
    return f"a line <{kind}>" if kind else "a sentence"
