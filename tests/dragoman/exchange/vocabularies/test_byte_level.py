"""Byte-level pairs against a loop that merges by hand."""

import json

import pytest

from dragoman.exchange.fairseq.fairseq_text import find_segmenter
from dragoman.exchange.vocabularies.segmenters import ByteLevelPairs
from dragoman.shared.errors import DataError
from tests.small import refuses

MERGES = [("l", "o"), ("lo", "w"), ("Ġ", "low"), ("e", "r"), ("low", "er"), ("Ã", "¼"), ("n", "e")]


def characters() -> dict[int, str]:
    """Return the character that stands for each byte: itself if it can be seen, else one from U+0100 on."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in seen]
    return {byte: chr(byte) for byte in seen} | {byte: chr(256 + number) for number, byte in enumerate(hidden)}


@pytest.fixture
def folder(tmp_path):
    pieces = [*characters().values(), *("".join(merge) for merge in MERGES)]
    (tmp_path / "encoder.json").write_text(json.dumps({piece: number for number, piece in enumerate(pieces)}))
    lines = ["#version: 0.2", *(" ".join(merge) for merge in MERGES)]
    (tmp_path / "vocab.bpe").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path, pieces


def merged(word: str) -> list[str]:
    parts = [characters()[byte] for byte in word.encode()]
    for one, other in MERGES:  # in the order of learning, which here never makes an earlier pair
        place = 0
        while place < len(parts) - 1:
            if (parts[place], parts[place + 1]) == (one, other):
                parts[place : place + 2] = [one + other]
            place += 1
    return parts


@pytest.mark.parametrize(
    "words",
    [["low", " lower"], ["new", " low", " low"], ["ü", " über", " 東京", "!"], ["lo", "  ", " low"], ["\n", "low"]],
)
def test_pieces_are_the_merges_of_bytes_and_are_written_as_numbers(folder, words):
    place, pieces = folder
    segmenter = find_segmenter(place, None)
    text = "".join(words)
    found = segmenter.split(text)
    assert [pieces[int(number)] for number in found] == [part for word in words for part in merged(word)]
    assert segmenter.join(found) == text
    assert segmenter.join(["madeupword0000", *found]) == text


def test_what_is_no_encoding_is_named(folder):
    place, _ = folder
    (place / "vocab.bpe").write_text("low\n")
    refuses(DataError, r"vocab\.bpe: not byte-level pairs", find_segmenter, place, None)
    (place / "vocab.bpe").unlink()
    with pytest.raises(DataError, match=r"vocab\.bpe: no such"):
        ByteLevelPairs(vocabulary=str(place / "encoder.json"), merges=str(place / "vocab.bpe"))
