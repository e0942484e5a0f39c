"""Byte-level pieces whose numbers are the words of a dictionary, as fairseq's ``gpt2`` encoding has them."""

from __future__ import annotations

import json
from pathlib import Path

from shared.described import Described
from shared.errors import DataError
from shared.foreign.segmenters import fingerprint, read, valid


class ByteLevelPairs(Described):
    """Byte-pair encoding of bytes (Radford et al. 2019), in which a piece is written as its number.

    Args:
        vocabulary: path of ``encoder.json``: pieces and their numbers.
        merges: path of ``vocab.bpe``: a merge a line.

    Raises:
        DataError: if a file is missing, or they are no such files.

    """

    asset_arguments = ("vocabulary", "merges")

    def __init__(self, *, vocabulary: str, merges: str) -> None:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers

        contents = read(Path(vocabulary), "vocabulary"), read(Path(merges), "file of byte-pair codes")
        try:
            lines = contents[1].decode("utf-8").split("\n")
            pairs = [(line.split(" ")[0], line.split(" ")[1]) for line in lines if line and line[:9] != "#version:"]
            self._tokenizer = Tokenizer(models.BPE(vocab=json.loads(contents[0]), merges=pairs))
        except Exception as error:  # the library raises nothing more precise
            raise DataError(f"{vocabulary}, {merges}: not a byte-level encoding ({error})") from error
        self._tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._tokenizer.decoder = decoders.ByteLevel()
        self.fingerprint = fingerprint(self, *contents)

    def split(self, text: str) -> list[str]:
        """Return the pieces' numbers, as strings.

        Raises:
            DataError: for text that is not valid Unicode.

        """
        return [str(number) for number in self._tokenizer.encode(valid(text), add_special_tokens=False).ids]

    def join(self, pieces: list[str]) -> str:
        """Return the text; what is not a number is passed over."""
        return self._tokenizer.decode([int(piece) for piece in pieces if piece.isdecimal()])
