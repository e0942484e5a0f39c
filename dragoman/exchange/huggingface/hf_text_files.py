"""The files of a folder in Hugging Face's layout that concern text, and the texts around a model that they make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tokenizers

from dragoman.exchange.codes import tags_by_code
from dragoman.exchange.huggingface.hf_reading import Config, read_json
from dragoman.exchange.vocabularies.json_file import JsonTokenizer, as_tokenizer
from dragoman.exchange.vocabularies.segmenters import SentencePieces
from dragoman.exchange.vocabularies.vocabulary import FIRST, VocabularyTokenizer, read_vocabulary
from dragoman.shared.batches.fields import TextField
from dragoman.shared.errors import DataError
from dragoman.shared.text.languages import LANGUAGES

LANGUAGE, START, END, PADDING = "<{language}>", "<s>", "</s>", "<pad>"
JSON, PIECES, SETTINGS = "tokenizer.json", "sentencepiece.bpe.model", "tokenizer_config.json"
GENERATION = "generation_config.json"
#: Symbols before and behind a text.
Around = tuple[list[str], list[str]]


@dataclass(frozen=True)
class Texts:
    """The texts that go into a model and come out of it.

    Attributes:
        source: the field of its input.
        target: the field of its output; None for an encoder.
        languages: our codes of the languages that it has symbols for, by side.
        said: what its files call its languages, by side, if they do.
        defaults: the languages, by side, where the user names none; where nothing stands here, those above.
        tags: the symbols for languages in its files, those without a code here among them.
    """

    source: TextField
    target: TextField | None
    languages: dict[str, list[str]]
    said: dict[str, str | None]
    defaults: dict[str, list[str]] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)


class TextFiles:
    """The files of a folder that concern text.

    Args:
        folder: the folder.
        config: the model's settings.
        scratch: a folder for tokenizers that are put together from older files; needed until the system is saved.
    """

    def __init__(self, folder: Path, config: Config, scratch: Path) -> None:
        self.folder = folder
        self.config = config
        self.scratch = scratch
        self.settings = Config(folder / SETTINGS).values if (folder / SETTINGS).is_file() else {}
        self._generation = Config(folder / GENERATION) if (folder / GENERATION).is_file() else config

    def said(self, setting: str) -> Any:
        """Return a setting of what is generated, which has a file of its own in newer folders; None if none says it."""
        return self._generation.get(setting, self.config.get(setting))

    def has(self, *names: str) -> bool:
        """Tell whether all these files are there."""
        return all((self.folder / name).is_file() for name in names)

    def path(self, name: str) -> str:
        """Return the path of a file.

        Raises:
            DataError: if it is not there.
        """
        if not self.has(name):
            raise DataError(f"{self.folder}: has no {name}, so there is no tokenizer")
        return str(self.folder / name)

    def json(self, symbols: dict[str, str], tags: Iterable[str] = (), path: str | None = None) -> JsonTokenizer:
        """Return the tokenizer of ``tokenizer.json``; ``tags`` are what languages are called there."""
        named = symbols | named_tags(tags)
        return JsonTokenizer(file=path or self.path(JSON), symbols=named, rows=self.config.need("vocab_size"))

    def pieces(
        self, vocabulary: str | None, added: list[str], symbols: dict[str, str], tags: Iterable[str] = ()
    ) -> VocabularyTokenizer:
        """Return a SentencePiece model with a vocabulary of its own, filled up to the model's rows."""
        segmenter = SentencePieces(model=self.path(PIECES))
        count = len(read_vocabulary(Path(vocabulary))) if vocabulary else len(FIRST) + len(segmenter.pieces())
        rows = self.config.need("vocab_size")
        added = [*added, *(f"(nothing at {number})" for number in range(count + len(added), rows))]
        named = symbols | named_tags(tags)
        return VocabularyTokenizer(segmenter=segmenter, vocabulary=vocabulary, added=added, symbols=named)

    def below(self, name: str) -> TextFiles:
        """Return the files in a folder below.

        Raises:
            DataError: if there is none.
        """
        if Path(name).name != name or not (self.folder / name).is_dir():
            raise DataError(f"{self.folder}: has no folder {name!r} with the tokenizer of that language")
        return TextFiles(self.folder / name, self.config, self.scratch)

    def vocabulary(self) -> dict[str, int]:
        """Return the symbols of ``tokenizer.json`` with their numbers.

        Raises:
            DataError: if it is not a tokenizer.
        """
        path = self.path(JSON)
        with as_tokenizer(path):
            return tokenizers.Tokenizer.from_file(path).get_vocab()

    def listed(self) -> list[str]:
        """Return the further special symbols that the tokenizer's files list."""
        more = "extra_special_tokens", "additional_special_tokens"
        try:
            tokens = [token for name in more for token in self.settings.get(name) or []]
            decoder = self.settings.get("added_tokens_decoder") or {}
            tokens += [token["content"] for _, token in sorted(decoder.items(), key=lambda item: int(item[0]))]
            if self.has(JSON):
                tokens += [token["content"] for token in read_json(self.folder / JSON).get("added_tokens") or []]
            plain = [token if isinstance(token, str) else token["content"] for token in tokens]
            return [*dict.fromkeys(plain)]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"{self.folder}: {SETTINGS} or {JSON} lists symbols as no tokenizer does") from error

    def older(self, name: str, tokenizer: tokenizers.Tokenizer) -> str:
        """Write a tokenizer that was put together from older files."""
        path = self.scratch / name
        tokenizer.save(str(path))
        return str(path)


def named_tags(tags: Iterable[str]) -> dict[str, str]:
    """Return the symbols of languages by our name, ``{"<de>": "de_DE"}``; see :func:`tags_by_code`."""
    return {f"<{code}>": tag for code, tag in tags_by_code(tags).items()}


def texts_of(
    tokenizers: tuple[Any, Any],
    source: Around,
    target: Around | None,
    said: tuple[str | None, str | None] = (None, None),
    tags: Iterable[str] = (),
) -> Texts:
    """Put texts together.

    Args:
        tokenizers: of the source and the target.
        source: the symbols before and behind the source.
        target: likewise of the target; None for an encoder.
        said: what the files call the languages of either side.
        tags: the symbols for languages in the files.
    """
    fields = [
        TextField(column=f"{side}_text", tokenizer=tokenizer, prefix=around[0], suffix=around[1])
        for side, tokenizer, around in zip(("source", "target"), tokenizers, (source, target), strict=True)
        if around is not None
    ]
    tagged = [symbol[1:-1] for symbol in tokenizers[0].symbols if symbol[1:-1] in LANGUAGES]
    symbols = {side: sum(around or ([], []), []) for side, around in (("source", source), ("target", target))}
    marked = {
        side
        for side in symbols
        if LANGUAGE in symbols[side] or any(f"<{{{side}_language}}>" in around for around in symbols.values())
    }
    return Texts(
        source=fields[0],
        target=fields[1] if target else None,
        languages={side: tagged if side in marked else [] for side in ("source", "target")},
        said=dict(zip(("source", "target"), said, strict=True)),
        tags=list(tags),
    )
