"""A new language in a translator that has a symbol for each of its languages: pieces for its text, and its symbol.

Only texts of the new language are divided into new pieces (vocabularies/extended.py), and all old symbols keep their
ids, vectors and logits; what a softmax over more symbols leaves for the old ones is a little less. Logits are the same
bit for bit, but for the last few old symbols: what is over when a matrix is cut into blocks may be summed in another
order.

- The vector of a new piece is the mean of the vectors of the old pieces that it is divided into. What is unknown in it
  does not count; where all but a space is, as of a letter that was unknown, it is the mean of all vectors of the table.
  The same holds for rows of a projection and for biases. So logits of new symbols lie between old ones (Hewitt 2021,
  "Initializing New Word Embeddings for Pretrained Language Models", on the mean of all vectors; Mundra et al. 2024,
  arXiv 2407.05841: any point in the convex hull of the old vectors is a good beginning).
- The vector of the new language's symbol is that of the relative's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from dragoman.exchange.rebuilding import Rebuilding
from dragoman.exchange.vocabularies.adding import SPACE, Pieces, learned_scores, pieces_of
from dragoman.exchange.vocabularies.extended import ExtendedTokenizer
from dragoman.shared.batches.fields import TextField
from dragoman.shared.described import Described
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.systems.model_folder import model_folder
from dragoman.shared.systems.system import System
from dragoman.shared.text import languages
from dragoman.shared.text.lines import read_lines
from dragoman.shared.text.normalise import apply
from dragoman.shared.text.piece_model import trained_sentencepiece
from dragoman.shared.text.tokenizer import Tokenizer, for_language


@dataclass(frozen=True)
class ExtensionReport:
    """Numbers of what was added to a model, and of what a text of the new language is divided into.

    Attributes:
        learned: how many pieces were learned from the text.
        added: how many of them the vocabulary did not have.
        letters: how many of these are single characters.
        symbols: the number of ids before and after.
        ids: of the text, before and after.
        unknown: of these ids, before and after.
    """

    learned: int
    added: int
    letters: int
    symbols: tuple[int, int]
    ids: tuple[int, int]
    unknown: tuple[int, int]

    def __str__(self) -> str:
        (before, after), (s_before, s_after) = self.ids, self.symbols
        shares = [f"{unknown / max(ids, 1):.1%}" for unknown, ids in zip(self.unknown, self.ids, strict=True)]
        return (
            f"{self.learned:,} pieces learned, {self.added:,} of them new ({self.letters:,} letters); symbols "
            f"{s_before:,} to {s_after:,}; the text has {before:,} to {after:,} pieces, unknown {' to '.join(shares)}"
        )


def extend(
    model: str | Path, out: str | Path, *, language: str, like: str, text: str | Path, pieces: int
) -> ExtensionReport:
    """Write a model folder with a language more.

    Args:
        model: a model folder, or that of a run.
        out: the folder to write.
        language: the code of the new language.
        like: that of a language which the model has, with whose symbol the new one begins; the new language is read,
            written, or both, as it is.
        text: sentences in the new language, one a line.
        pieces: how many pieces are learned from them; those that the vocabulary has already are not added again.

    Raises:
        DataError: if the text is missing, empty or not UTF-8, naming the line; if the model has the language, or lacks
            the relative.
        UsageError: if the model has several tokenizers, or one that cannot be extended.
    """
    folder, out, text = model_folder(model), Path(out), Path(text)
    if folder.resolve() == out.resolve():
        raise UsageError(f"{out}: is the model that is to be extended: give another place")
    languages.check(language)
    languages.check(like)
    system = System.load(folder)
    field = only_text(system, folder)
    check_languages(system, field.tokenizer, language, like, folder)
    sentences = [apply(field.normalizers, line, language) for line in read_lines(text) if line and not line.isspace()]
    if not sentences:
        raise DataError(f"{text}: has no text to learn pieces from")
    with TemporaryDirectory() as place:
        extension = Extension(field.tokenizer, Path(place), language=language, like=like)
        added = extension.learn(sentences, pieces, text)
        extended = Extending(extension).apply(system)
        relative = f"{language} like {like}, {added[1]} pieces from {text.name}"
        extended.origin.append(f"extended by {relative}")
        extended.save(out)
        both = [for_language(one, language) for one in (field.tokenizer, extension.tokenizer(field.tokenizer))]
        divided = [[one.encode(sentence) for sentence in sentences] for one in both]
    return ExtensionReport(
        *added,
        symbols=(both[0].size, both[1].size),
        ids=(sum(map(len, divided[0])), sum(map(len, divided[1]))),
        unknown=(sum(ids.count(both[0].unk) for ids in divided[0]), sum(ids.count(both[1].unk) for ids in divided[1])),
    )


def only_text(system: System, folder: Path) -> TextField:
    """Return a text field of a system, all of which have one tokenizer.

    Raises:
        UsageError: if they have several.
    """
    fields = system.text_fields()
    if len({field.tokenizer.fingerprint for field in fields}) > 1:
        raise UsageError(f"{folder}: reads and writes with different tokenizers: only one for both can be extended")
    return fields[0]


def check_languages(system: System, tokenizer: Tokenizer, language: str, like: str, folder: Path) -> None:
    """Refuse a language that is there, and a relative that is not.

    Raises:
        DataError: naming it.
    """
    known = [*dict.fromkeys([*system.source_languages, *system.target_languages])]
    if language in known or languages.tag(language) in tokenizer.symbols:
        raise DataError(f"{folder}: has a symbol for {language!r} already, which is no new language to it")
    if like not in known or languages.tag(like) not in tokenizer.symbols:
        tagged = [code for code in known if languages.tag(code) in tokenizer.symbols]
        said = f"it has {languages.listed(tagged)}" if tagged else "it has no symbols for languages"
        raise DataError(f"{folder}: has no symbol for {like!r}, with which the new one could begin: {said}")


class Extension:
    """Pieces and a symbol that are added to a tokenizer.

    Args:
        old: the tokenizer.
        place: a folder for its files, needed until the system is saved.
        language: the new language.
        like: the relative.

    Attributes:
        parts: the old ids that each new piece consists of.
        relative: the id of the relative's symbol.

    Raises:
        UsageError: for a tokenizer that cannot be extended.
    """

    parts: list[list[int]]

    def __init__(self, old: Tokenizer, place: Path, *, language: str, like: str) -> None:
        self.old, self.place = old, place
        self.language, self.like = language, like
        self.relative = old.id(languages.tag(like))
        self._pieces: Pieces = pieces_of(old)

    def learn(self, sentences: list[str], count: int, text: Path) -> tuple[int, int, int]:
        """Learn pieces of sentences; return how many there are, how many are new, how many of these are letters.

        Raises:
            DataError: naming the text, if it has more letters than that.
        """
        plain = map(self._pieces.plain, sentences)
        how: dict[str, Any] = {"kind": self._pieces.kind, "byte_fallback": False, "normalisation": "identity"}
        content = trained_sentencepiece(plain, text, size=count, unknown=False, **how)
        rows = [self.old.symbol(id) for id in range(self.old.size)]
        tag = languages.tag(self.language)
        symbols_there = {*rows, tag} - self._pieces.known  # which text that looks like one does not become
        scores = {piece: score for piece, score in learned_scores(content).items() if piece not in symbols_there}
        new = [piece for piece in scores if piece not in self._pieces.known]
        symbols = {name: self.old.symbol(self.old.id(name)) for name in self.old.symbols} | {tag: tag}
        self._full = self._pieces.extended(scores, [*rows, *new, tag], symbols, self.place, self.language)
        ids = {row: id for id, row in enumerate(rows) if row in self._pieces.known}
        divided = [[part for part in self._pieces.split(piece) if part in ids] for piece in new]
        self.parts = [[ids[part] for part in parts if {*parts} != {SPACE}] for parts in divided]
        return len(scores), len(new), sum(len(piece) == 1 for piece in new)

    def tokenizer(self, old: Tokenizer) -> ExtendedTokenizer:
        """Return the tokenizer with what was added."""
        return ExtendedTokenizer(tokenizer=old, extended=self._full, languages=[self.language])

    def rows(self, values: Tensor) -> Tensor:
        """Return a tensor (V, ...) with the rows of new pieces behind it, and last that of the language."""
        exact = values.float()
        everything = exact.mean(0)
        means = [exact[ids].mean(0) if ids else everything for ids in self.parts]
        return torch.cat([values, torch.stack([*means, exact[self.relative]]).to(values.dtype)])


class Extending(Rebuilding):
    """Builds a system again with the symbols of an extension."""

    def __init__(self, extension: Extension) -> None:
        super().__init__()
        self.extension = extension

    def changes(self, fingerprint: str) -> bool:
        """See :class:`Rebuilding`."""
        return fingerprint == self.extension.old.fingerprint

    def number(self, id: int, fingerprint: str) -> int | None:
        """See :class:`Rebuilding`."""
        return id

    def size(self, fingerprint: str) -> int:
        """See :class:`Rebuilding`."""
        return self.extension.old.size + len(self.extension.parts) + 1

    def rows(self, values: Tensor, fingerprint: str) -> Tensor:
        """See :class:`Rebuilding`."""
        return self.extension.rows(values)

    def tokenizer(self, old: Any) -> ExtendedTokenizer:
        """See :class:`Rebuilding`."""
        return self.extension.tokenizer(old)

    def adjusted(self, value: Described, arguments: dict[str, Any]) -> dict[str, Any]:
        """Add the language to those of a system, on the sides that its relative is on."""
        if not isinstance(value, System):
            return arguments
        sides = {side: arguments[side] for side in ("source_languages", "target_languages")}
        new, like = self.extension.language, self.extension.like
        return arguments | {side: [*codes, new] if like in codes else codes for side, codes in sides.items()}
