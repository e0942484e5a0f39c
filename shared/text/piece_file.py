"""Files of SentencePiece models, and the rule of normalisation ``nfc``, which SentencePiece does not have itself.

SentencePiece's own rules are NFKC, which rewrites what people can see ("，" as ",", "…" as "...", "²" as "2"), and
"identity", for which a decomposed "é" is another text than a composed one. Under ``nfc`` a text is put into Unicode's
normal form C; every kind of space, and the "▁" that stands for one in pieces, becomes a space; control characters and
byte order marks go; and all else stays. Joiners, bidirectional marks and the zero-width space are no white space.

The part of the rule that concerns single characters is in the model file, where every program finds it. Normal form C
is no map of single characters: it is made here, wherever a file says by its rule's name that it is wanted.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from dragoman.shared.errors import DataError

NFC = "nfc"
SPACES = "\t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
SPACES += "\u205f\u3000▁"
REMOVED = "".join(chr(n) for n in range(1, 0xA0) if unicodedata.category(chr(n)) == "Cc" and chr(n) not in SPACES)
REMOVED += "\ufeff"


def composed(text: str) -> str:
    """Return a text in normal form C."""
    return unicodedata.normalize("NFC", text)


def _unchanged(text: str) -> str:
    return text


def charsmap() -> str:
    """Return the part of ``nfc`` that concerns single characters, in SentencePiece's TSV of code points."""
    lines = [*(f"{ord(space):x}\t20" for space in SPACES), *(f"{ord(removed):x}\t" for removed in REMOVED)]
    return "\n".join(lines) + "\n"


def parsed(content: bytes) -> Any:
    """Return a model file's content as SentencePiece's protocol buffer.

    Raises:
        DecodeError: protobuf's, if it is none.
    """
    return sentencepiece_model_pb2.ModelProto.FromString(content)  # type: ignore[attr-defined]


def renamed(content: bytes, rule: str) -> bytes:
    """Return a model file's content with another name for its rule, and without the path that the rule came from."""
    model = parsed(content)
    model.normalizer_spec.name = rule
    model.normalizer_spec.ClearField("normalization_rule_tsv")
    return model.SerializeToString(deterministic=True)


def read_piece_file(path: Path) -> tuple[bytes, sentencepiece.SentencePieceProcessor, Callable[[str], str]]:
    """Read a model file.

    Returns:
        Its content, SentencePiece's processor, and what is done to a text before the processor gets it.

    Raises:
        DataError: if the file is missing or not a SentencePiece model.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such tokenizer model")
    content = path.read_bytes()
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(content)
    except RuntimeError as error:
        raise DataError(f"{path}: not a SentencePiece model") from error
    return content, processor, composed if parsed(content).normalizer_spec.name == NFC else _unchanged


def located_pieces(
    processor: sentencepiece.SentencePieceProcessor, prepared: Callable[[str], str], text: str
) -> tuple[list[Any], np.ndarray]:
    """Return the pieces of a text, and from which to which of its characters each stands, (L, 2) int64.

    Pieces of one character all have it; the "▁" that is put before a text has none. Arguments are what
    :func:`read_piece_file` returned.
    """
    normal = prepared(text)
    found = list(processor.encode(normal, out_type="proto").pieces)
    data = np.frombuffer(normal.encode(), dtype=np.uint8)
    characters = np.concatenate([[0], np.cumsum((data & 0xC0) != 0x80)])  # before each byte, at which pieces begin
    places = characters[np.array([(piece.begin, piece.end) for piece in found], dtype=np.int64).reshape(-1, 2)]
    for number in range(len(found) - 2, -1, -1):  # the last of several that one character became has all of it
        alone = places[number, 0] == places[number, 1] == places[number + 1, 0]
        if alone and found[number].piece != "▁":
            places[number, 1] = places[number + 1, 1]
    if normal != text:
        starts, ends = _composed_from(text)
        begins = np.append(starts, len(text))[places[:, 0]]
        places = np.stack([begins, np.where(places[:, 0] < places[:, 1], ends[places[:, 1] - 1], begins)], axis=1)
    return found, places


def _composed_from(text: str) -> tuple[np.ndarray, np.ndarray]:
    """Return from which to which character of a text each of its characters in normal form C was made, (C,) each."""
    groups = [0]
    for place in range(1, len(text)):
        before, sign = text[groups[-1] : place], text[place]
        if not unicodedata.combining(sign) and composed(before + sign) == composed(before) + composed(sign):
            groups.append(place)
    spans: list[tuple[int, int]] = []
    for start, end in pairwise([*groups, len(text)]):
        normal = composed(text[start:end])
        kept = normal == text[start:end]
        spans += [(n, n + 1) for n in range(start, end)] if kept else [(start, end)] * len(normal)
    starts, ends = np.array(spans, dtype=np.int64).reshape(-1, 2).T
    return starts, ends
