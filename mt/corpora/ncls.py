r"""Summaries in another language: NCLS (Zhu et al. 2019, EMNLP), news in English and Chinese.

Layout, a document after another, of EN2ZHSUM and ZH2ENSUM::

    {root}/EN2ZHSUM_{train,valid,test}.txt      {root}/ZH2ENSUM_{train,valid,test}.txt

    <doc id="0">
    <Article>
    the article, in a line
    </Article>
    <EN-REF1>
    a sentence of the summary
    </EN-REF1>
    <ZH-REF1>
    the same in the other language
    </ZH-REF1>
    </doc>

The article is in the first language of the file's name. Each sentence of its summary is there in both languages, in one
of them translated by machine; if there are several texts in a language, those whose tags say "human" are read, and else
those of its first tag. So from English to Chinese is the task, and from English to English the summaries that the paper
learns beside it. English is in lower case in training, and Chinese is as it is.

Not established: what the tags are called, since the authors' page shows none. A line in angle brackets is a tag; those
of summaries begin with a language, EN or ZH, and numbers in them do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from dragoman.mt.corpora.one_language import OneDirection
from dragoman.shared.errors import DataError
from dragoman.shared.preparing.held_out import DEV, TEST, TRAIN
from dragoman.shared.preparing.line_pairs import pair_row
from dragoman.shared.preparing.reader import SourceRow
from dragoman.shared.text.compressed import beside
from dragoman.shared.text.lines import Unusable, read_lines

FILES = {"en": "EN2ZHSUM", "zh": "ZH2ENSUM"}
NAMES = {TRAIN: "train", DEV: "valid", TEST: "test"}
DOCUMENT, ARTICLE = "DOC", "ARTICLE"
_TAG = re.compile(r"<(/?)([^<>]+)>")


class Ncls(OneDirection[Path]):
    """Reads articles in English or Chinese with summaries in either."""

    name = "ncls"

    def _found(self, root: Path) -> dict[str, Path]:
        if not {*self.codes} <= {*FILES}:
            raise DataError(f"{root}: {self.name} is in en and zh, not {self.folder}")
        found = {split: beside(root / f"{FILES[self.codes[0]]}_{name}.txt") for split, name in NAMES.items()}
        return {split: path for split, path in found.items() if path is not None}

    def inputs(self, split: str) -> list[Path]:
        """Return the file."""
        return [self._places[split]]

    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through the documents; one without a side comes as what is wrong with it."""
        path = self._places[split]
        for number, document in enumerate(_documents(path), 1):
            if isinstance(document, Unusable):
                yield document
                continue
            line, texts = document
            sides = " ".join(texts.get(ARTICLE, [])), self._summary(texts)
            if not all(sides):
                missing = f"a summary in {self.codes[1]}" if sides[0] else "an article"
                yield Unusable(f"this document is without {missing}: it has {', '.join(texts)}", path, line)
            else:
                yield SourceRow(pair_row(f"{split}_{number}", sides, self.codes), file=path, line=line)

    def _summary(self, texts: dict[str, list[str]]) -> str:
        """Return the sentences in the language of summaries, "" if there are none."""
        tags = [tag for tag in texts if tag.startswith(self.codes[1].upper())]
        chosen = [tag for tag in tags if "HUMAN" in tag] or tags
        return " ".join(texts[chosen[0]]) if chosen else ""


def _documents(path: Path) -> Iterator[tuple[int, dict[str, list[str]]] | Unusable]:
    """Go through the documents: the line of each, and its texts by their tags, in capitals and without numbers."""
    start, tag, texts = 0, "", dict[str, list[str]]()
    for number, line in enumerate(read_lines(path, "surrogateescape"), 1):
        found = _TAG.fullmatch(line.strip())
        if found is None:
            if line.strip() and tag:
                texts.setdefault(tag, []).append(line.strip())
            continue
        end, name = found[1], re.sub(r"\d", "", found[2].split()[0].upper())
        if name != DOCUMENT:
            tag = "" if end else name
            continue
        if start and (not end or tag):
            yield Unusable(f"this document goes on to line {number}, where {line.strip()!r} stands", path, start)
        elif start:
            yield start, texts
        start, tag, texts = 0 if end else number, "", {}
    if start:
        yield Unusable("this document has no end", path, start)
