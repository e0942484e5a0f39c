"""From text to pieces and back, for tokenizers whose pieces are numbered by a vocabulary of its own.

SentencePiece models, byte-pair codes of subword-nmt and fastBPE, Moses' words, which codes are often learnt on, and
GPT-2's byte-level pairs as fairseq writes them.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from dragoman.shared.described import Described, describe
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.text.piece_file import located_pieces, read_piece_file
from dragoman.shared.text.surrogates import find_surrogate

#: How many words a BytePairs remembers.
REMEMBERED = 100_000
END = "</w>"


class Segmenter(Protocol):
    """Divides text into pieces.

    Attributes:
        fingerprint: hash of all that decides which pieces a text gets.
    """

    fingerprint: str

    def split(self, text: str) -> list[str]:
        """Return the pieces of a text."""
        ...

    def join(self, pieces: list[str]) -> str:
        """Return the text of pieces."""
        ...


def valid(text: str) -> str:
    """Return the text.

    Raises:
        DataError: if it is not valid Unicode (it holds lone surrogates).
    """
    if find_surrogate(text):
        raise DataError(f"not valid Unicode: {text!r}")
    return text


def read(path: Path, what: str) -> bytes:
    """Read a file.

    Raises:
        DataError: if there is none.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such {what}")
    return path.read_bytes()


def fingerprint(described: Described, *contents: bytes) -> str:
    """Return a hash of an object: its class, its arguments that are no files, and the contents of its files."""
    plain = {name: value for name, value in described.arguments.items() if name not in described.asset_arguments}
    parts = [type(described).__name__.encode(), json.dumps(describe(plain), sort_keys=True).encode(), *contents]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


class SentencePieces(Described):
    """Pieces of a SentencePiece model (Kudo and Richardson 2018), whose own numbers do not matter.

    Args:
        model: path of the ``.model`` or ``.spm`` file.

    Raises:
        DataError: if the file is missing or not a SentencePiece model.
    """

    asset_arguments = ("model",)

    def __init__(self, *, model: str) -> None:
        content, self._processor, self._prepared = read_piece_file(Path(model))
        self.fingerprint = fingerprint(self, content)

    def rows(self) -> list[str]:
        """Return all pieces of the model in its order."""
        return [self._processor.id_to_piece(number) for number in range(len(self._processor))]

    def pieces(self) -> list[str]:
        """Return all pieces of the model in its order, without its control symbols and its unknown piece."""
        p = self._processor
        return [p.id_to_piece(i) for i in range(len(p)) if not (p.is_control(i) or p.is_unknown(i))]

    def split(self, text: str) -> list[str]:
        """Return the pieces of a text, ``▁`` for a space; characters without a piece stand as they are.

        Raises:
            DataError: for text that is not valid Unicode.
        """
        return self._processor.encode(self._prepared(valid(text)), out_type=str)

    def located(self, text: str) -> tuple[list[str], np.ndarray]:
        """Return the pieces of a text, and where in it they stand; see ``Locating`` in shared/text/tokenizer.py.

        Raises:
            DataError: for text that is not valid Unicode.
        """
        pieces, places = located_pieces(self._processor, self._prepared, valid(text))
        return [piece.piece for piece in pieces], places

    def join(self, pieces: list[str]) -> str:
        """Return the text of pieces, also of those that are another model's, without spaces around it."""
        # The library writes pieces that it does not know as they are, with their signs for spaces.
        return self._processor.decode(pieces).replace("▁", " ").strip()


class Words(Described):
    """A division at spaces: text that was tokenised beforehand."""

    def __init__(self) -> None:
        self.fingerprint = fingerprint(self)

    def split(self, text: str) -> list[str]:
        """Return the words of a text."""
        return valid(text).split()

    def join(self, pieces: list[str]) -> str:
        """Return words with spaces between them."""
        return " ".join(pieces)


class MosesWords(Described):
    """Words as ``tokenizer.perl`` of Moses divides them (Koehn et al. 2007), by sacremoses, with fairseq's options.

    Args:
        language: the text's language, which decides about abbreviations and apostrophes.
        dash_splits: write ``@-@`` for a dash inside a word.
        escape: write ``&apos;`` and the like for characters that Moses reserves.

    Raises:
        UsageError: if sacremoses is not installed.
    """

    def __init__(self, *, language: str, dash_splits: bool = True, escape: bool = True) -> None:
        try:
            from sacremoses import MosesDetokenizer, MosesTokenizer
        except ImportError as error:
            raise UsageError("Moses' tokenisation needs sacremoses: pip install 'dragoman[moses]'") from error
        self._tokenizer: Any = MosesTokenizer(language)
        self._detokenizer: Any = MosesDetokenizer(language)
        self._options = {"aggressive_dash_splits": dash_splits, "escape": escape}
        self.fingerprint = fingerprint(self)

    def split(self, text: str) -> list[str]:
        """Return the words of a text."""
        return self._tokenizer.tokenize(valid(text), return_str=True, **self._options).split()

    def join(self, pieces: list[str]) -> str:
        """Return the text of words."""
        return self._detokenizer.detokenize(pieces)


class BytePairs(Described):
    """Parts of words by byte-pair encoding (Sennrich et al. 2016, algorithm 1): ``low@@ er``.

    Args:
        codes: path of the merges: subword-nmt's ("#version: 0.2", or 0.1 without that line) or fastBPE's, which have a
            count behind each.
        words: what the codes were learnt on, such as MosesWords; by default what stands between spaces.

    Raises:
        DataError: if the file is missing, or a line is not a merge.
    """

    asset_arguments = ("codes",)

    def __init__(self, *, codes: str, words: Segmenter | None = None) -> None:
        path = Path(codes)
        content = read(path, "file of byte-pair codes")
        try:
            lines = content.decode("utf-8").rstrip("\n").split("\n")
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: not UTF-8") from error
        version = lines[0].split()[-1] if lines[0].startswith("#version:") else None
        if version not in (None, "0.1", "0.2"):
            raise DataError(f"{path}: line 1: byte-pair codes of version {version} are unknown")
        self._ranks: dict[tuple[str, str], int] = {}
        widths = set()
        for number, line in enumerate(lines[version is not None :], start=1 + (version is not None)):
            cells = line.strip("\r\n ").split(" ")
            if len(cells) not in (2, 3) or (len(cells) == 3 and not cells[2].isdigit()):
                raise DataError(f"{path}: line {number} is not a merge of two parts: {line[:60]!r}")
            widths.add(len(cells))
            self._ranks.setdefault((cells[0], cells[1]), len(self._ranks))
        # In the oldest codes the end of a word is a part of its own.
        self._end_apart = version == "0.1" or (version is None and widths == {2})
        self.words = words
        self.fingerprint = fingerprint(self, content)
        self._remembered: dict[str, list[str]] = {}

    def split(self, text: str) -> list[str]:
        """Return the parts of a text's words; all but a word's last end in ``@@``.

        Raises:
            DataError: for text that is not valid Unicode.
        """
        parts: list[str] = []
        for word in self.words.split(text) if self.words else valid(text).strip("\r\n ").split(" "):
            if word not in self._remembered:
                if len(self._remembered) >= REMEMBERED:
                    self._remembered.clear()
                self._remembered[word] = self._merged(word)
            parts += self._remembered[word]
        return " ".join(parts).split()  # as fairseq does, for words with other kinds of space in them

    def join(self, pieces: list[str]) -> str:
        """Return the text of parts."""
        text = (" ".join(pieces) + " ").replace("@@ ", "").rstrip()
        return self.words.join(text.split()) if self.words else text

    def _merged(self, word: str) -> list[str]:
        """Merge the characters of a word, the earliest learnt pair first, wherever it stands."""
        if len(word) <= 1:
            return [word] if word else []
        parts = [*word, END] if self._end_apart else [*word[:-1], word[-1] + END]
        while len(parts) > 1:
            pairs = [pair for pair in zip(parts, parts[1:], strict=False) if pair in self._ranks]
            if not pairs:
                break
            best = min(pairs, key=self._ranks.__getitem__)
            merged: list[str] = []
            while parts:
                width = 2 if tuple(parts[:2]) == best else 1
                merged.append("".join(parts[:width]))
                parts = parts[width:]
            parts = merged
        parts[-1] = parts[-1].removesuffix(END)
        whole = parts if parts[-1] else parts[:-1]
        return [*(part + "@@" for part in whole[:-1]), whole[-1]]


class ByteLevelPairs(Described):
    """Byte-pair encoding over bytes (Radford et al. 2019), whose pieces are numbers: fairseq's dictionaries count them.

    Args:
        vocabulary: path of ``encoder.json``, the number of each piece.
        merges: path of ``vocab.bpe``, the merges.

    Raises:
        DataError: if a file is missing or not what it should be.
    """

    asset_arguments = ("vocabulary", "merges")

    def __init__(self, *, vocabulary: str, merges: str) -> None:
        contents = [read(Path(vocabulary), "file of byte-level pieces"), read(Path(merges), "file of merges")]
        try:
            self._tokenizer = tokenizers.Tokenizer(models.BPE.from_file(vocabulary, merges))
        except Exception as error:  # the library raises nothing more precise
            raise DataError(f"{vocabulary}, {merges}: not byte-level pairs ({error})") from error
        self._tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._tokenizer.decoder = decoders.ByteLevel()
        self.fingerprint = fingerprint(self, *contents)

    def split(self, text: str) -> list[str]:
        """Return the numbers of a text's pieces, as text.

        Raises:
            DataError: for text that is not valid Unicode.
        """
        return [str(number) for number in self._tokenizer.encode(valid(text)).ids]

    def join(self, pieces: list[str]) -> str:
        """Return the text of numbers; what is none is left out."""
        return self._tokenizer.decode([int(piece) for piece in pieces if piece.isdigit()])
