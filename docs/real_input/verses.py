"""Divides line-aligned text of many languages into pairs that share no line, and finds a lexicon in them.

    python docs/real_input/verses.py data/bible data/verses
    python docs/real_input/verses.py data/bible data/verses-4000 4000       # pairs of English and German, else 1,000

Blocks of lines go by turns to a large corpus of each pair with English and to a small one of English and German: both
have all of the book, and no line in common. Monolingual text is made of the large corpus, of other blocks for English
than for the rest, so that no line has its translation in it. Each pair of the large corpus gets a lexicon of the words
that are each other's best translation by Dice's coefficient of the lines that they are in, and have at least five lines
in common; English and German get one of the lines that the small corpus does not have. The result has the layout that
``mrasp.yaml``, ``mbart.yaml`` and ``mrasp2.yaml`` read.

Legend: N lines, V words.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from dragoman.shared.text.case import lower
from dragoman.shared.text.word_spans import words

LARGE = ("fr", "es", "it", "ru")
SMALL = "de"
BLOCK = 40  # lines
TURN = 4  # blocks
LARGE_BLOCKS, SMALL_BLOCK = {0, 1, 2}, {3}  # of a turn
ENGLISH_BLOCKS, OTHER_BLOCK = {0, 2}, {1}  # of the large ones: monolingual text
SMALL_LINES = 1000
KNOWN = 2000  # words of each language
LEAST = 5  # lines that a word is in, and that it shares with its translation


def blocks(lines: Sequence[str], which: set[int]) -> list[str]:
    """Return the lines of these blocks of each turn."""
    return [line for number, line in enumerate(lines) if number // BLOCK % TURN in which]


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


def write(root: Path, out: Path, small_lines: int | None = None) -> None:
    """Write the pairs' folders, ``monolingual/`` and ``dictionaries/``, from train, dev and test of `root`.

    Args:
        root: has ``train.en``, ``train.de`` and so on.
        out: the folder to write to.
        small_lines: pairs of English and German; by default 1,000, or fewer if no more can be taken.

    Raises:
        SystemExit: if as many cannot be taken.
    """

    def read(split: str, code: str) -> list[str]:
        return (root / f"{split}.{code}").read_text(encoding="utf-8").split("\n")[:-1]

    def save(file: Path, lines: Iterable[str]) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    train = {code: read("train", code) for code in ("en", *LARGE, SMALL)}
    there = len(blocks(train[SMALL], SMALL_BLOCK))
    if small_lines is not None and not 0 < small_lines <= there:
        raise SystemExit(f"{root}: has 1 to {there} pairs of English and {SMALL} to take, not {small_lines}")
    for code, lines in train.items():
        save(out / "monolingual" / f"train.{code}", blocks(lines, ENGLISH_BLOCKS if code == "en" else OTHER_BLOCK))
        save(out / "monolingual" / f"dev.{code}", read("dev", code))
    for code in (*LARGE, SMALL):
        folder = out / f"en-{code}"
        for side in ("en", code):
            small = blocks(train[side], SMALL_BLOCK)[: small_lines or SMALL_LINES]
            save(folder / f"train.{side}", small if code == SMALL else blocks(train[side], LARGE_BLOCKS))
            for split in ("dev", "test"):
                save(folder / f"{split}.{side}", read(split, side))
        found = lexicon(*(blocks(train[side], LARGE_BLOCKS) for side in ("en", code)), ("en", code))
        save(out / "dictionaries" / f"en-{code}.txt", (f"{one}\t{other}" for one, other in found))
        save(out / "dictionaries" / f"{code}-en.txt", (f"{other}\t{one}" for one, other in found))


if __name__ == "__main__":
    write(*map(Path, sys.argv[1:3]), *map(int, sys.argv[3:4]))
