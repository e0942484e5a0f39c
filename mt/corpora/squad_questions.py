r"""Questions about a text, from SQuAD's layout: a sentence and the question that it answers (Du et al. 2017, ACL).

Any corpus in the JSON of SQuAD 1.1 (Rajpurkar et al. 2016, EMNLP), of one language::

    {root}/*train*.json      {root}/*dev*.json      {root}/*test*.json

    {"data": [{"title": "...", "paragraphs": [{"context": "...", "qas": [
        {"id": "...", "question": "...", "answers": [{"text": "...", "answer_start": 0}]}]}]}]}

The source is the sentence of the context with the first answer, by Unicode's boundaries (UAX 29), or the sentences
that it runs over, as in section 5.1 of the paper; with ``--paragraphs true`` the whole context. The target is the
question. An answer that is not where ``answer_start`` says is looked for, and the place nearest to it is taken; one
that is nowhere is a bad row. Questions without answers (SQuAD 2.0) are passed over.

Differs from the paper: it divides sentences by CoreNLP, splits SQuAD's training articles anew, and leaves out pairs
without a common content word; its own files, src-train.txt and tgt-train.txt, are read by the reader ``aligned``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

from dragoman.mt.corpora.one_language import OneDirection
from dragoman.shared.errors import DataError, one_line
from dragoman.shared.preparing.held_out import DEV, TEST, TRAIN
from dragoman.shared.preparing.line_pairs import pair_row
from dragoman.shared.preparing.reader import SourceRow
from dragoman.shared.text.compressed import plain_or_packed
from dragoman.shared.text.lines import Unusable, read_lines
from dragoman.shared.text.units import sentences


class SquadQuestions(OneDirection[list[Path]]):
    """Reads sentences with the questions that they answer."""

    name = "squad_questions"

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str,
        target_language: str,
        splits: list[str] | None = None,
        paragraphs: bool = False,
    ) -> None:
        """Look for the files.

        Args:
            root: the folder with the files.
            source_language: a code.
            target_language: the same code.
            splits: some of train, dev and test; None means all that are there.
            paragraphs: the source is the whole context.

        Raises:
            DataError: if the languages differ, no file is there, or a split is not.
        """
        self._paragraphs = paragraphs
        super().__init__(root=root, source_language=source_language, target_language=target_language, splits=splits)

    def _found(self, root: Path) -> dict[str, list[Path]]:
        if self.codes[0] != self.codes[1]:
            raise DataError(f"{root}: questions are in the language of their texts, not from {' to '.join(self.codes)}")
        found = {split: plain_or_packed(root, f"*{split}*.json") for split in (TRAIN, DEV, TEST)}
        return {split: files for split, files in found.items() if files}

    def inputs(self, split: str) -> list[Path]:
        """Return the files."""
        return list(self._places[split])

    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through the questions; in place of one whose answer is not in the context comes what is wrong.

        Raises:
            DataError: if a file is not in SQuAD's layout.
        """
        passed = self._passed(split, anew=True)
        for path in self._places[split]:
            for number, (context, question) in enumerate(_questions(path), 1):
                if not question["answers"]:
                    passed["questions without an answer"] += 1
                    continue
                answer = question["answers"][0]
                begin = _nearest(context, answer["text"], answer["answer_start"])
                if begin is None:
                    reason = f"question {question['id']}: its answer {answer['text']!r} is not in its context"
                    yield Unusable(reason, path, number, question["id"])
                    continue
                passed["answers found elsewhere than at their place"] += begin != answer["answer_start"]
                source = context if self._paragraphs else _around(context, begin, begin + len(answer["text"]))
                sides = [" ".join(text.split()) for text in (source, question["question"])]
                yield SourceRow(pair_row(question["id"], sides, self.codes), file=path, line=number)


def _questions(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Go through the questions of a file, each with its context."""
    try:
        content = json.loads("\n".join(read_lines(path)))
        for paragraph in (paragraph for article in content["data"] for paragraph in article["paragraphs"]):
            for question in paragraph["qas"]:
                texts = [question["id"], question["question"], *(one["text"] for one in question["answers"])]
                if not all(isinstance(text, str) for text in (paragraph["context"], *texts)):
                    raise TypeError(f"question {question['id']!r} has a text that is none")
                if not all(isinstance(one["answer_start"], int) for one in question["answers"]):
                    raise TypeError(f"question {question['id']!r} has an answer_start that is no number")
                yield paragraph["context"], question
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not in the layout of SQuAD: {one_line(error)}") from error


def _nearest(context: str, answer: str, wanted: int) -> int | None:
    """Return where an answer begins, as near as possible to where it should; None if it is nowhere."""
    places = [place for place in range(len(context)) if answer and context.startswith(answer, place)]
    return min(places, key=lambda place: abs(place - wanted), default=None)


def _around(context: str, begin: int, end: int) -> str:
    """Return the sentences that a span of a text runs over."""
    parts = sentences(context)
    places = zip(accumulate(map(len, parts), initial=0), parts, strict=False)
    return "".join(part for place, part in places if place < end and place + len(part) > begin)
