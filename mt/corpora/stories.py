r"""News with their summaries, an article a file: CNN/DailyMail and XSum.

CNN/DailyMail (Hermann et al. 2015, NeurIPS; See et al. 2017, ACL), highlights as the summary. The lists are addresses,
whose hashes (SHA-1) are the names of the stories::

    {root}/cnn/stories/{hash}.story      {root}/dailymail/stories/{hash}.story
    {root}/all_{train,val,test}.txt      or in {root}/url_lists/

    (CNN) -- The fastest man ...

    @highlight

    Bolt wins gold

XSum (Narayan et al. 2018, EMNLP), the first sentence as the summary. The list has the numbers of the articles::

    {root}/bbc-summary-data/{number}.summary
    {root}/XSum-TRAINING-DEV-TEST-SPLIT-90-5-5.json

    [SN]URL[SN] http://... [SN]TITLE[SN] ... [SN]FIRST-SENTENCE[SN] ... [SN]RESTBODY[SN] ...

Lines are joined with a space. A highlight that does not end with a mark gets " .", as See et al. do; nothing is
tokenised or written small. Of XSum the lines about sharing the page are left out. Articles without text, of which CNN
has about a hundred, are passed over.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dragoman.mt.corpora.one_language import OneDirection
from dragoman.shared.errors import DataError
from dragoman.shared.preparing.held_out import DEV, TEST, TRAIN
from dragoman.shared.preparing.line_pairs import pair_row
from dragoman.shared.preparing.reader import SourceRow
from dragoman.shared.text.lines import Unusable, read_lines

HIGHLIGHT = "@highlight"
#: Behind a highlight that ends with one of these, nothing is put.
ENDS = (".", "!", "?", "...", "'", "`", '"', "\u2019", "\u201d", ")")
XSUM_LIST = "XSum-TRAINING-DEV-TEST-SPLIT-90-5-5.json"
MARK = "[SN]"
#: Lines of the pages of XSum that are no text.
SHARING = {
    "Share this with",
    *("Email", "Facebook", "Messenger", "Twitter", "Pinterest", "WhatsApp", "Linkedin", "LinkedIn"),
    "Copy this link",
    "These are external links and will open in a new window",
}


class Listed(NamedTuple):
    """The articles of a split.

    Attributes:
        path: the list.
        names: of the articles, each with its line there; 1 if the list has no lines.
    """

    path: Path
    names: list[tuple[str, int]]


class Stories(OneDirection[Listed]):
    """Base class of readers of English articles of which each is a file."""

    def _found(self, root: Path) -> dict[str, Listed]:
        self._root = root
        return self._lists(root) if self.codes == ("en", "en") else {}

    @abstractmethod
    def _lists(self, root: Path) -> dict[str, Listed]:
        """Return the lists by split."""

    @abstractmethod
    def _places_of(self, name: str) -> list[Path]:
        """Return where the file of an article may be."""

    @abstractmethod
    def _sides(self, path: Path) -> tuple[str, str]:
        """Return the article and the summary."""

    def inputs(self, split: str) -> list[Path]:
        """Return the list and the articles."""
        listed = self._places[split]
        return [listed.path, *(path for name, _ in listed.names if (path := self._file(name)) is not None)]

    def count(self, split: str) -> int:
        """Return the number of articles in the list."""
        return len(self._places[split].names)

    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through the articles; in place of one that is not there comes what the list says."""
        passed = self._passed(split, anew=True)
        for name, line in self._places[split].names:
            path = self._file(name)
            if path is None:
                reason = f"no file {' or '.join(str(one) for one in self._places_of(name))}"
                yield Unusable(reason, self._places[split].path, line, name)
                continue
            sides = self._sides(path)
            if not all(sides):
                passed["articles without text or summary"] += 1
                continue
            yield SourceRow(pair_row(path.stem, sides, self.codes), file=path, line=1)

    def _file(self, name: str) -> Path | None:
        return next((path for path in self._places_of(name) if path.is_file()), None)


class CnnDailyMail(Stories):
    """Reads stories with their highlights."""

    name = "cnn_dailymail"

    def _lists(self, root: Path) -> dict[str, Listed]:
        names = {TRAIN: "all_train.txt", DEV: "all_val.txt", TEST: "all_test.txt"}
        found = {}
        for split, name in names.items():
            path = next((path for path in (root / name, root / "url_lists" / name) if path.is_file()), None)
            if path is not None:
                lines = enumerate(read_lines(path), 1)
                hashes = [(hashlib.sha1(line.strip().encode()).hexdigest(), n) for n, line in lines if line.strip()]
                found[split] = Listed(path, hashes)
        return found

    def _places_of(self, name: str) -> list[Path]:
        return [self._root / folder / "stories" / f"{name}.story" for folder in ("cnn", "dailymail")]

    def _sides(self, path: Path) -> tuple[str, str]:
        article: list[str] = []
        highlights: list[str] = []
        for line in (line.strip() for line in read_lines(path, "surrogateescape")):
            if line == HIGHLIGHT:
                highlights.append("")
            elif line and highlights:
                highlights[-1] = f"{highlights[-1]} {line}".strip()
            elif line:
                article.append(line)
        ended = (text if text.endswith(ENDS) else f"{text} ." for text in highlights if text)
        return " ".join(article), " ".join(ended)


class Xsum(Stories):
    """Reads articles of the BBC with their first sentences."""

    name = "xsum"

    def _lists(self, root: Path) -> dict[str, Listed]:
        path = root / XSUM_LIST
        if not path.is_file():
            return {}
        try:
            lists = json.loads("\n".join(read_lines(path)))
            numbers = {split: lists[name] for split, name in ((TRAIN, "train"), (DEV, "validation"), (TEST, "test"))}
            return {split: Listed(path, [(str(one), 1) for one in names]) for split, names in numbers.items()}
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: not lists of numbers by train, validation and test ({error!r})") from error

    def _places_of(self, name: str) -> list[Path]:
        return [self._root / "bbc-summary-data" / f"{name}.summary"]

    def _sides(self, path: Path) -> tuple[str, str]:
        content = "\n".join(line for line in read_lines(path, "surrogateescape") if line.strip() not in SHARING)
        parts = [" ".join(part.split()) for part in content.split(MARK)]
        texts = dict(zip(parts[1::2], parts[2::2], strict=False))
        if not {"FIRST-SENTENCE", "RESTBODY"} <= {*texts}:
            raise DataError(f"{path}, line 1: no {MARK}FIRST-SENTENCE{MARK} and {MARK}RESTBODY{MARK} in it")
        return texts["RESTBODY"], texts["FIRST-SENTENCE"]
