"""Errors of the times of words from a CTC head, against those of the voice that spoke them (docs/talks.md).

    python -m benchmarks.word_times MODEL ROOT [--source en] [--target de] [--split tst-COMMON] [--count 200]

MODEL has a CTC head on the transcript. ROOT is Almanac's second world in the layout of MuST-C, where eSpeak's own times
of words stand beside each talk: wav/ted_N.words.tsv. The words of the reference transcripts are aligned, and compared
with the voice's where both have the same word; a word of eSpeak ends where the next one begins. The target for the
median is 60 ms: the positions of most encoders are 40 ms apart.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

import dragoman
from dragoman.shared.batches.stream import translation_budget
from dragoman.shared.errors import DataError
from dragoman.shared.systems.word_times import word_times
from dragoman.st.corpora.mustc import MustC

TARGET = 0.06


class Word(NamedTuple):
    """A word and when it was said, in seconds."""

    text: str
    start: float
    end: float


@cache
def spoken(path: Path) -> dict[int, list[Word]]:
    """Return the words of a talk by utterance, as the voice wrote them down."""
    words = defaultdict(list)
    try:
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                words[int(row["utterance"])].append(Word(plain(row["word"]), float(row["start"]), float(row["end"])))
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file: Almanac writes it in its second world") from error
    return words


def plain(text: str) -> str:
    """Return a word without case and punctuation."""
    return re.sub(r"[^\w]", "", text.casefold())


def matched(found: list[Word], wanted: list[Word]) -> list[tuple[Word, Word]]:
    """Return the words that both sides have, in order."""
    matcher = difflib.SequenceMatcher(None, [w.text for w in found], [w.text for w in wanted], autojunk=False)
    return [
        (found[block.a + place], wanted[block.b + place])
        for block in matcher.get_matching_blocks()
        for place in range(block.size)
    ]


def main() -> None:
    """Print the errors of starts and ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("root", type=Path)
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    parser.add_argument("--split", default="tst-COMMON")
    parser.add_argument("--count", type=int, default=200)
    given = parser.parse_args()
    corpus = MustC(root=given.root, source_language=given.source, target_language=given.target, splits=[given.split])
    rows = [dict(row) for row, _ in zip(corpus.rows(given.split), range(given.count), strict=False)]
    system = dragoman.load(given.model)
    aligned = word_times(system, rows, budget=translation_budget(16))
    pairs, words, without = [], 0, 0
    for row, cues in zip(rows, aligned, strict=True):
        utterance = int(row["id"].rpartition("_")[2])
        wanted = spoken(Path(row["audio"]).with_suffix(".words.tsv"))[utterance]
        words += len(wanted)
        without += cues is None
        pairs += matched([Word(plain(cue.text), cue.start, cue.end) for cue in cues or []], wanted)
    if not pairs:
        raise SystemExit("no word has times on both sides")
    print(f"{len(rows)} utterances, {without} of them without times; {len(pairs)} of {words} words on both sides")
    errors = np.array([(found.start - own.start, found.end - own.end) for found, own in pairs])  # (words, 2)
    print(f"{'':8}{'median':>8}{'mean':>8}{'90 %':>8}{'bias':>8}   in ms")
    for name, column in (("starts", errors[:, 0]), ("ends", errors[:, 1]), ("both", errors.ravel())):
        sizes = np.abs(column)
        figures = (np.median(sizes), sizes.mean(), np.quantile(sizes, 0.9), column.mean())
        print(f"{name:8}" + "".join(f"{1000 * figure:8.0f}" for figure in figures))
    median = float(np.median(np.abs(errors)))
    print(f"median of both: {1000 * median:.0f} ms, {'within' if median <= TARGET else 'ABOVE'} {1000 * TARGET:.0f} ms")


if __name__ == "__main__":
    main()
