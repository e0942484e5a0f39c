"""Token vectors of a translator begin with those of words that were learned from monolingual text.

Qi et al. 2018, arXiv 1804.06323. Several languages may fill one table, as aligned vectors (mt/mapping.py) of the
languages that share an encoder do in the paper's section 6. The vectors are trained on.

Differs from the paper: a Transformer of pieces, where the paper has recurrent translators of words. Files of word2vec
and fastText (.vec) can be given as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

import torch

from dragoman.mt.vector_tables import WordVectors
from dragoman.shared.annotations import Checked
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.nn.symbols import SymbolRows
from dragoman.shared.ranges import Share
from dragoman.shared.systems.reading_model import ReadingModel

#: What begins a word in SentencePiece's pieces.
WORD = "\u2581"
#: How a byte of a character that has no piece is written.
BYTE = re.compile("<0x[0-9A-F]{2}>")


class FromVectors(Checked):
    """Set the rows of a model's token vectors whose symbols have vectors elsewhere; the others keep their values.

    A table of pieces ("_dog", "s", SentencePiece's mark being written _ here) has vectors for the symbols of the same
    name; one of words ("dog") for pieces with which a word begins and may end ("_dog"). All vectors are multiplied by
    one factor, so that the rows which are set have the mean square that they had.

    Args:
        part: the module with the token vectors: "model.embeddings.source", "model.target_embedding".
        vectors: tables in the text format of word2vec; of a symbol that several have, the first one counts.
        least: the share of the tokenizer's pieces, bytes aside, that must have a vector.

    Raises:
        UsageError: without a table.
    """

    def __init__(self, *, part: str, vectors: Sequence[str], least: Share = 0.5) -> None:
        if not vectors:
            raise UsageError("vectors must name at least one table")
        self.part = part
        self.files = [str(file) for file in vectors]
        self.least = least

    def apply(self, system: ReadingModel) -> list[str]:
        """Set the rows; return a line that says how many, and add it to the system's ``origin``.

        Raises:
            UsageError: if the system has no such part.
            DataError: if a table's vectors have another width, or too few pieces have one.
        """
        parts = {name: (module, tokenizer) for name, module, tokenizer in system.symbol_parts()}
        if self.part not in parts:
            raise UsageError(f"initialise: no token vectors {self.part!r}; the system has {', '.join(parts) or 'none'}")
        module, tokenizer = parts[self.part]
        table = module.get_parameter(cast(SymbolRows, module).symbol_tensors()[0])
        vectors: dict[int, torch.Tensor] = {}
        for file in self.files:
            read = WordVectors.read(file)
            if read.values.shape[1] != table.shape[1]:
                raise DataError(
                    f"{file}: vectors of {read.values.shape[1]} numbers, where {self.part} has {table.shape[1]}"
                )
            of_pieces = any(word.startswith(WORD) for word in read.words)
            places = read.places if of_pieces else {WORD + word: place for word, place in read.places.items()}
            for id in range(tokenizer.size):
                if tokenizer.symbol(id) in places:
                    vectors.setdefault(id, read.values[places[tokenizer.symbol(id)]])
        names = map(tokenizer.symbol, range(tokenizer.size - len(tokenizer.symbols)))
        pieces = sum(not BYTE.fullmatch(name) for name in names)
        if len(vectors) < self.least * pieces:
            raise DataError(
                f"{', '.join(self.files)}: vectors for {len(vectors)} of {pieces} pieces, a share below {self.least}"
            )
        rows, values = torch.tensor([*vectors], device=table.device), torch.stack([*vectors.values()]).to(table.device)
        with torch.no_grad():
            values = values * (table[rows].square().mean() / values.square().mean()).sqrt()
            table[rows] = values.to(table)
        line = f"{self.part}: {len(vectors)} of {pieces} pieces from {', '.join(self.files)}"
        system.origin += [line]
        return [line]
