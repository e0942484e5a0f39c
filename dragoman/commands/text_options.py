"""The options of ``dragoman translate`` for text; nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dragoman.shared.errors import UsageError

TEXTS = "Texts"


def names_of(text: str) -> list[str]:
    """Return the names in a list with commas, whatever spaces stand around them."""
    return [name.strip() for name in text.split(",")]


SourceOrAuto = Annotated[
    str | None,
    typer.Option(
        "--source-language",
        "--from",
        help="language code of the input; auto: of each line or segment; auto:en: English where unknown",
    ),
]
LanguageIdentifier = Annotated[
    Path | None,
    typer.Option(
        "--identifier",
        help="folder of a model that tells languages (recipe own/language_id), which --from auto asks instead of "
        "py3langid or the symbols of the model itself",
    ),
]
GlossaryFile = Annotated[
    Path | None,
    typer.Option(
        "--glossary",
        help="file with a source and a target term a line, a tab between them: the target is in the output wherever "
        "the source is in the text",
        rich_help_panel=TEXTS,
    ),
]
ContextLines = Annotated[
    int,
    typer.Option(
        "--context",
        min=0,
        help="number of lines before each one that a language model is shown, at the place {context} of its "
        "prompt; none are from before a blank line",
        rich_help_panel=TEXTS,
    ),
]


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """The division of text into what is translated at a time, and the terms that it has (docs/commands.md)."""

    documents: Annotated[
        bool,
        typer.Option(
            "--documents",
            help="translate the sentences of documents together, a line each, with a blank line between documents; for "
            "models that were trained so. A part whose output has more or fewer sentences is translated by sentences",
            rich_help_panel=TEXTS,
        ),
    ] = False
    split: Annotated[
        bool,
        typer.Option(
            "--split",
            help="a line is a paragraph: translate it by sentences, and keep the spaces between them "
            "(pip install 'dragoman\\[subtitles]')",
            rich_help_panel=TEXTS,
        ),
    ] = False
    glossary: GlossaryFile = None
    context: ContextLines = 0

    def check(self) -> None:
        """Refuse options that contradict each other, by UsageError."""
        if self.documents and self.split:
            raise UsageError("--split does not go with --documents, which has a sentence a line")
        if self.context and (self.documents or self.split):
            raise UsageError("--context is for lines that are translated one by one, without --documents and --split")
