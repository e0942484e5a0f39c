"""Further pieces for tokenizers that others trained, or that were trained here, in the form of file that each has.

Pieces are learned from text as the old ones were: by SentencePiece, of the same kind, on text that the old tokenizer's
own rules have normalised. The two sets of pieces are then put into one file:

- unigram (Kudo 2018, section 3.2): a piece has the probability that it has in the mixture of both distributions, half
  and half, log(exp(a) / 2 + exp(b) / 2);
- byte pairs (Sennrich et al. 2016, algorithm 1): merges that were learned now come first, then the old ones.

Old pieces thus go on to divide loanwords, names and numbers, and what the new text did not have.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import sentencepiece
import tokenizers

from dragoman.exchange.trimming import TrimmedTokenizer
from dragoman.exchange.vocabularies.extended import ExtendedTokenizer
from dragoman.exchange.vocabularies.json_file import JsonTokenizer
from dragoman.exchange.vocabularies.segmenters import SentencePieces
from dragoman.exchange.vocabularies.vocabulary import VocabularyTokenizer
from dragoman.shared.errors import UsageError
from dragoman.shared.machine.nesting import from_json
from dragoman.shared.text.piece_file import parsed, read_piece_file
from dragoman.shared.text.tagged import TaggedTokenizer
from dragoman.shared.text.tokenizer import SentencePieceTokenizer, Tokenizer

#: Of SentencePiece's own format: kinds of models and of pieces.
UNIGRAM, BPE, CHARACTERS = 1, 2, 4
NORMAL, USER_DEFINED, BYTE = 1, 4, 6
LIVE = (NORMAL, USER_DEFINED, BYTE)
KINDS = {UNIGRAM: "unigram", BPE: "bpe", CHARACTERS: "char"}

SPACE = "▁"


class Pieces(Protocol):
    """The pieces of a tokenizer's file, and how others are put among them.

    Attributes:
        kind: of them: "unigram", "bpe" or "char".
        known: the pieces that text can become.
    """

    kind: str
    known: set[str]

    def plain(self, text: str) -> str:
        """Return a text as it is before it is divided, with spaces as spaces."""
        ...

    def split(self, piece: str) -> list[str]:
        """Return the pieces that a longer piece is divided into, as it stands; characters without one stand alone."""
        ...

    def extended(
        self, scores: Mapping[str, float], rows: Sequence[str], symbols: Mapping[str, str], folder: Path, name: str
    ) -> Tokenizer:
        """Write a file with further pieces, and return the tokenizer.

        Args:
            scores: of the pieces that were learned, of which some may be known.
            rows: what stands at each id, new ones behind the old.
            symbols: the specials and tags among them, by our name.
            folder: where to write.
            name: of the files.
        """
        ...


def pieces_of(tokenizer: Tokenizer) -> Pieces:
    """Return the pieces of a tokenizer that was possibly trimmed, tagged or extended before.

    Raises:
        UsageError: if they are not SentencePiece's, or what is like it.
    """
    rows = {tokenizer.symbol(id) for id in range(tokenizer.size)}
    inner: Any = tokenizer
    while isinstance(inner, TrimmedTokenizer | TaggedTokenizer | ExtendedTokenizer):
        inner = inner.extended if isinstance(inner, ExtendedTokenizer) else inner.tokenizer
    also_pieces = inner.arguments.get("pieces") or []
    special = {tokenizer.symbol(tokenizer.id(name)) for name in tokenizer.symbols if name not in also_pieces}
    if isinstance(inner, SentencePieceTokenizer):
        return FilePieces(Path(inner.arguments["model"]), rows - special, also_pieces)
    if isinstance(inner, VocabularyTokenizer) and isinstance(inner.segmenter, SentencePieces):
        return FilePieces(Path(inner.segmenter.arguments["model"]), rows - special, also_pieces)
    if isinstance(inner, JsonTokenizer):
        return JsonPieces(Path(inner.arguments["file"]), rows - special, also_pieces)
    raise UsageError(f"a {type(inner).__name__} cannot be extended, only SentencePiece models and tokenizer.json")


class FilePieces:
    """The pieces of a SentencePiece model.

    Args:
        path: of the file.
        rows: what has a row that is no symbol.
        also_pieces: names of symbols that are pieces, too.

    Raises:
        UsageError: for a model of words.
    """

    def __init__(self, path: Path, rows: set[str], also_pieces: list[str]) -> None:
        content, self._processor, self._prepared = read_piece_file(path)
        self._proto = parsed(content)
        kind = self._proto.trainer_spec.model_type
        if kind not in KINDS:
            raise UsageError(f"{path}: a SentencePiece model of words cannot be extended")
        self.kind = KINDS[kind]
        self.known = {piece.piece for piece in self._proto.pieces if piece.type in LIVE} & rows
        self._also_pieces = also_pieces
        alone = parsed(content)
        rule = alone.normalizer_spec
        rule.name, rule.precompiled_charsmap, rule.add_dummy_prefix = "identity", b"", False
        rule.remove_extra_whitespaces = False
        self._alone = sentencepiece.SentencePieceProcessor(model_proto=alone.SerializeToString())

    def plain(self, text: str) -> str:
        """See :class:`Pieces`."""
        return self._processor.normalize(self._prepared(text)).replace(SPACE, " ")

    def split(self, piece: str) -> list[str]:
        """See :class:`Pieces`."""
        return self._alone.encode(piece, out_type=str)

    def extended(
        self, scores: Mapping[str, float], rows: Sequence[str], symbols: Mapping[str, str], folder: Path, name: str
    ) -> Tokenizer:
        """See :class:`Pieces`."""
        proto = type(self._proto).FromString(self._proto.SerializeToString())
        old = {piece.piece: piece.score for piece in proto.pieces if piece.type == NORMAL and piece.piece in self.known}
        both = mixed(old, scores) if self.kind == "unigram" else ranked(old, scores)
        kept = [piece for piece in proto.pieces if piece.type != NORMAL or piece.piece in old]
        present = {piece.piece for piece in kept}
        del proto.pieces[:]
        proto.pieces.extend(kept)
        for piece in proto.pieces:
            piece.score = both[piece.piece] if piece.type == NORMAL else piece.score
        for new in scores:
            if new not in present:
                proto.pieces.add(piece=new, score=both[new])
        (folder / f"{name}.model").write_bytes(proto.SerializeToString(deterministic=True))
        (folder / f"{name}.json").write_text(json.dumps([*rows], ensure_ascii=False), encoding="utf-8")
        return VocabularyTokenizer(
            segmenter=SentencePieces(model=str(folder / f"{name}.model")),
            vocabulary=str(folder / f"{name}.json"),
            symbols=dict(symbols),
            pieces=self._also_pieces or None,
        )


class JsonPieces:
    """The pieces of a ``tokenizer.json`` that was made from a SentencePiece model, or is like one.

    Args:
        path: of the file.
        rows: what has a row that is no symbol.
        also_pieces: names of symbols that are pieces, too.

    Raises:
        UsageError: if its pieces are bytes or WordPieces.
    """

    def __init__(self, path: Path, rows: set[str], also_pieces: list[str]) -> None:
        self._content = from_json(path.read_bytes())
        model = self._content["model"]
        kinds = {"Unigram": "unigram", "BPE": "bpe"}
        spaced = any(SPACE in (row if isinstance(row, str) else row[0]) for row in model["vocab"])
        if model.get("type") not in kinds or not spaced:
            raise UsageError(f"{path}: pieces of bytes or of WordPiece cannot be extended, only those with {SPACE}")
        self.kind = kinds[model["type"]]
        self._tokenizer = tokenizers.Tokenizer.from_str(json.dumps(self._content))
        added = {token["content"] for token in self._content.get("added_tokens", [])}
        self._old = dict(model["vocab"]) if self.kind == "unigram" else dict.fromkeys(model["vocab"], 0.0)
        self.known = ({*self._old} & rows) - added
        self._also_pieces = also_pieces

    def plain(self, text: str) -> str:
        """See :class:`Pieces`."""
        normalizer, division = self._tokenizer.normalizer, self._tokenizer.pre_tokenizer
        text = text if normalizer is None else normalizer.normalize_str(text)
        parts = [text] if division is None else [part for part, _ in division.pre_tokenize_str(text)]
        return "".join(parts).replace(SPACE, " ")

    def split(self, piece: str) -> list[str]:
        """See :class:`Pieces`."""
        return [token.value for token in self._tokenizer.model.tokenize(piece)]

    def extended(
        self, scores: Mapping[str, float], rows: Sequence[str], symbols: Mapping[str, str], folder: Path, name: str
    ) -> Tokenizer:
        """See :class:`Pieces`."""
        content = json.loads(json.dumps(self._content))
        model = content["model"]
        numbers = {row: number for number, row in enumerate(rows)}
        if self.kind == "unigram":
            both = mixed({piece: self._old[piece] for piece in self.known}, scores)
            unknown = None if model["unk_id"] is None else numbers[model["vocab"][model["unk_id"]][0]]
            model |= {"vocab": [[row, both.get(row, 0.0)] for row in rows], "unk_id": unknown}
        else:
            model["vocab"] = numbers
            old = [merge if isinstance(merge, list) else merge.split(" ") for merge in model["merges"]]
            usable = [merge for merge in old if {*merge, "".join(merge)} <= self.known]
            pairs = dict.fromkeys(map(tuple, [*merges_of(scores), *usable]))
            model["merges"] = [[*pair] for pair in pairs]
        known_as = {token["content"]: token for token in content.get("added_tokens", [])}
        special = [row for ours, row in symbols.items() if ours not in self._also_pieces]
        listed = [row for row in dict.fromkeys([*known_as, *special]) if row in numbers]
        form = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        added = [known_as.get(row, {"content": row, **form}) | {"id": numbers[row]} for row in listed]
        content["added_tokens"] = sorted(added, key=lambda token: token["id"])
        path = folder / f"{name}.json"
        path.write_text(json.dumps(content | {"post_processor": None}, ensure_ascii=False), encoding="utf-8")
        return JsonTokenizer(file=str(path), symbols=dict(symbols), rows=len(rows), pieces=self._also_pieces or None)


def mixed(old: Mapping[str, float], new: Mapping[str, float]) -> dict[str, float]:
    """Return log-probabilities of pieces in the mixture of two distributions, half and half."""
    both: dict[str, float] = {}
    for piece in {**old, **new}:
        one, other = old.get(piece, -math.inf), new.get(piece, -math.inf)
        high = max(one, other)
        both[piece] = high + math.log1p(math.exp(min(one, other) - high)) - math.log(2)
    return both


def ranked(old: Mapping[str, float], new: Mapping[str, float]) -> dict[str, float]:
    """Return scores by which merges that were learned now come before old ones."""
    order = [*sorted(new, key=lambda piece: -new[piece]), *sorted(old, key=lambda piece: -old[piece])]
    return {piece: -float(place) for place, piece in enumerate(dict.fromkeys(order))}


def merges_of(scores: Mapping[str, float]) -> list[tuple[str, str]]:
    """Return the merges of a byte-pair model, which keeps only their results and their scores."""
    places = {piece: place for place, piece in enumerate(sorted(scores, key=lambda piece: -scores[piece]))}
    merges = [
        (places[piece], places[piece[:cut]], places[piece[cut:]], piece[:cut], piece[cut:])
        for piece in scores
        for cut in range(1, len(piece))
        if piece[:cut] in scores and piece[cut:] in scores
    ]
    return [(left, right) for *_, left, right in sorted(merges)]


def learned_scores(content: bytes) -> dict[str, float]:
    """Return the pieces of a SentencePiece model that was trained without bytes, with their scores."""
    return {piece.piece: piece.score for piece in parsed(content).pieces if piece.type == NORMAL}
