"""Tokenizers that the library ``tokenizers`` describes in one file, ``tokenizer.json``: BPE, WordPiece, Unigram.

What the file does around a text (special symbols, truncation, padding) is left out: fields do that here, and a text is
never cut without a word.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from dragoman.exchange.vocabularies.segmenters import read, valid
from dragoman.exchange.vocabularies.vocabulary import ForeignSymbols
from dragoman.shared.described import Described
from dragoman.shared.errors import DataError, one_line
from dragoman.shared.machine.nesting import from_json


class JsonTokenizer(Described, ForeignSymbols):
    """A ``tokenizer.json``, in which special symbols typed by a user are text.

    Args:
        file: path of the file.
        symbols: the specials and tags, by our name: ``{"<s>": "[CLS]", "</s>": "[SEP]", "<de>": "deu_Latn", ...}``; at
            least ``<pad>``, ``</s>`` and ``<unk>``. Where a vocabulary lacks one of these (byte-level ones have nothing
            unknown), another may serve.
        rows: how many ids there are, for models that have more rows than the file names.
        pieces: those of the symbols, by our name, that are also ordinary pieces, which stand for text.

    Raises:
        DataError: if the file is missing or not a tokenizer, or a symbol is not in it.
        UsageError: if a needed symbol is not named.
    """

    asset_arguments = ("file",)

    def __init__(
        self, *, file: str, symbols: dict[str, str], rows: int | None = None, pieces: list[str] | None = None
    ) -> None:
        content = read(Path(file), "tokenizer file")
        with as_tokenizer(file):
            plain = from_json(content)
            special = {theirs for ours, theirs in symbols.items() if ours not in (pieces or [])}
            for token in plain.get("added_tokens", []):
                token["special"] = token["special"] or token["content"] in special
            plain |= {"post_processor": None, "truncation": None, "padding": None}
            self._tokenizer = tokenizers.Tokenizer.from_str(json.dumps(plain))
        self._tokenizer.encode_special_tokens = True
        self._name(rows_of(self._tokenizer.get_vocab(), rows or 0), symbols, file)
        typed = (token["content"] for token in plain.get("added_tokens", []) if token["special"])
        numbers = (self._tokenizer.token_to_id(token) for token in (*typed, *special))
        self._outside = {number for number in numbers if number is not None}
        parts = [content, json.dumps(symbols).encode()]
        if pieces:  # without any, what older folders hold stays
            parts.append(json.dumps(pieces).encode())
        self.fingerprint = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Come out of copying and pickling (to loader workers), where the library forgets this one property."""
        self.__dict__.update(state)
        self._tokenizer.encode_special_tokens = True

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text.

        Raises:
            DataError: for text that is not valid Unicode.
        """
        return self._ids_of(self._tokenizer.encode(valid(text), add_special_tokens=False))

    def located(self, text: str) -> tuple[list[int], np.ndarray]:
        """Return the ids of a text, and where in it they stand; see ``Locating`` in shared/text/tokenizer.py.

        Raises:
            DataError: for text that is not valid Unicode.
        """
        encoding = self._tokenizer.encode(valid(text), add_special_tokens=False)
        counts = [len(ids) for ids in self._spelt(encoding)]
        return self._ids_of(encoding), np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2).repeat(counts, axis=0)

    def lengths(self, texts: Sequence[str]) -> np.ndarray:
        """Return the number of ids of each text, (texts,) int64; uses all processor cores.

        Raises:
            DataError: for text that is not valid Unicode.
        """
        encoded = self._tokenizer.encode_batch([valid(text) for text in texts], add_special_tokens=False)
        return np.fromiter((len(self._ids_of(one)) for one in encoded), dtype=np.int64, count=len(texts))

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; specials and tags are left out.

        Raises:
            ValueError: for an id outside the vocabulary.
        """
        kept = [id for id in self._checked(ids) if id not in self._outside]
        return self._tokenizer.decode(kept, skip_special_tokens=False)

    def _ids_of(self, encoding: Any) -> list[int]:
        """Return the ids; a special symbol, which can only have been typed, is spelt out.

        Special symbols may be among the pieces of the model itself (those of a Unigram model usually are).
        """
        if self._outside.isdisjoint(encoding.ids):
            return encoding.ids
        return [id for ids in self._spelt(encoding) for id in ids]

    def _spelt(self, encoding: Any) -> Iterator[list[int]]:
        """Yield the ids of each token: its own, or those of its letters."""
        for id, token in zip(encoding.ids, encoding.tokens, strict=True):
            plain = id not in self._outside or id == self.unk
            yield [id] if plain else [self._letter(letter) for letter in token]

    def _letter(self, letter: str) -> int:
        id = self._tokenizer.token_to_id(letter)
        return self.unk if id is None or id in self._outside else id


@contextmanager
def as_tokenizer(file: str) -> Iterator[None]:
    """Turn what the library says to a file that is not a tokenizer into one line.

    Raises:
        DataError: naming the file.
    """
    try:
        yield
    except BaseException as error:  # the library raises nothing more precise, and where it panics no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit | DataError):
            raise
        raise DataError(f"{file}: not a tokenizer ({one_line(error)[:300]})") from error


def rows_of(numbers: dict[str, int], least: int = 0) -> list[str]:
    """Return the entry at each id, for `least` ids at least; an id that the file leaves out gets a placeholder."""
    rows = [f"(nothing at {number})" for number in range(max(least, 1 + max(numbers.values(), default=-1)))]
    for row, number in numbers.items():
        rows[number] = row
    return rows
