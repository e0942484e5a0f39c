"""Divides line-aligned text of many languages into pairs that share no line, and finds a lexicon in them.

    python docs/real_input/verses.py data/bible data/verses

Blocks of lines go by turns to a large corpus of each pair with English and to a small one of English and German: both
have all of the book, and no line in common. Each pair of the large corpus gets a lexicon of the words that are each
other's best translation by Dice's coefficient of the lines that they are in, and have at least five lines in common.
The result has the layout that ``mrasp.yaml`` reads.

Legend: N lines, V words.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from shared.text.case import lower
from shared.text.word_spans import words

LARGE = ("fr", "es", "it", "ru")
SMALL = "de"
BLOCK = 40  # lines
TURN = 4  # blocks, of which the last is that of the small pair
SMALL_LINES = 1000
KNOWN = 2000  # words of each language
LEAST = 5  # lines that a word is in, and that it shares with its translation


def blocks(lines: Sequence[str], *, small: bool) -> list[str]:
    """Return the lines of the small pair's blocks, or those of all other blocks."""
    return [line for number, line in enumerate(lines) if (number // BLOCK % TURN == TURN - 1) == small]


def words_of(lines: Sequence[str], language: str) -> list[set[str]]:
    """Return the words of each line in lower case, those with an apostrophe or hyphen in parts.

    Of "l'hôtel" the lexicon needs "hôtel", and of "Israel's" "israel": the parts that also stand alone somewhere. A
    word of which no part does, such as "aujourd'hui", stays whole.
    """
    runs = [{lower(line[start:end], language) for start, end in words(line, language)} for line in lines]
    parts = {run: [run[start:end] for start, end in words(run, language, ())] for run in set().union(*runs)}
    alone = {run for run, inside in parts.items() if len(inside) == 1}
    kept = {run: alone.intersection(inside) or {run} for run, inside in parts.items()}
    return [set().union(*(kept[run] for run in line)) for line in runs]


def incidence(lines: Sequence[str], language: str) -> tuple[list[str], np.ndarray]:
    """Return the most frequent words, the first most so, and which lines they are in: (N, V) float32."""
    found = words_of(lines, language)
    counts = Counter(word for line in found for word in line)
    known = sorted((word for word in counts if counts[word] >= LEAST), key=lambda word: (-counts[word], word))[:KNOWN]
    places = {word: place for place, word in enumerate(known)}
    matrix = np.zeros((len(lines), len(known)), dtype=np.float32)
    for number, line in enumerate(found):
        matrix[number, [places[word] for word in line if word in places]] = 1
    return known, matrix


def lexicon(sources: Sequence[str], targets: Sequence[str], languages: tuple[str, str]) -> list[tuple[str, str]]:
    """Return the words of aligned lines that are each other's best translation, the most frequent first."""
    (one, here), (other, there) = (
        incidence(lines, code) for lines, code in zip((sources, targets), languages, strict=True)
    )
    shared = here.T @ there
    dice = 2 * shared / (here.sum(0)[:, None] + there.sum(0))
    forth, back = dice.argmax(1), dice.argmax(0)
    return [
        (word, other[forth[place]])
        for place, word in enumerate(one)
        # Two rare words that meet in a line or two are each other's best by chance.
        if back[forth[place]] == place and shared[place, forth[place]] >= LEAST
    ]


def write(root: Path, out: Path) -> None:
    """Write the pairs' folders and ``dictionaries/``, from train, dev and test of `root`."""

    def read(split: str, code: str) -> list[str]:
        return (root / f"{split}.{code}").read_text(encoding="utf-8").split("\n")[:-1]

    def save(file: Path, lines: Sequence[str]) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    for code in (*LARGE, SMALL):
        small = code == SMALL
        train = {side: blocks(read("train", side), small=small) for side in ("en", code)}
        for side, lines in train.items():
            save(out / f"en-{code}" / f"train.{side}", lines[:SMALL_LINES] if small else lines)
            for split in ("dev", "test"):
                save(out / f"en-{code}" / f"{split}.{side}", read(split, side))
        if not small:
            pairs = lexicon(train["en"], train[code], ("en", code))
            save(out / "dictionaries" / f"en-{code}.txt", [f"{one}\t{other}" for one, other in pairs])


if __name__ == "__main__":
    write(*map(Path, sys.argv[1:]))
