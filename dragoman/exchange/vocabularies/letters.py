"""Transcripts letter by letter, as recognisers that are trained with CTC write them."""

from __future__ import annotations

from dragoman.exchange.vocabularies.segmenters import Segmenter, fingerprint, valid
from dragoman.shared.described import Described
from dragoman.shared.errors import UsageError
from dragoman.shared.text.case import lower, upper


class Letters(Described):
    """The letters of a text, with a symbol for the spaces between words.

    Args:
        space: the symbol.
        closing: it stands behind the last word, too (fairseq's dict.ltr.txt), not only between words.
        upper: write letters in upper case, because the model knows no others.
        lower: likewise, in lower case.
        language: the text's, whose rules of case hold (shared/text/case.py); None for those of most languages.

    Raises:
        UsageError: if the symbol is empty, or both cases are asked for.
    """

    def __init__(
        self,
        *,
        space: str = "|",
        closing: bool = False,
        upper: bool = False,
        lower: bool = False,
        language: str | None = None,
    ) -> None:
        if not space or (upper and lower):
            raise UsageError(f"letters need one symbol for spaces, not {space!r}, and at most one case")
        self.space = space
        self.closing = closing
        self.upper = upper
        self.lower = lower
        self.language = language
        self.fingerprint = fingerprint(self)

    def split(self, text: str) -> list[str]:
        """Return the letters of a text.

        Raises:
            DataError: for text that is not valid Unicode.
        """
        text = upper(valid(text), self.language) if self.upper else valid(text)
        words = (lower(text, self.language) if self.lower else text).split()
        letters = [letter for word in words for letter in (*word, self.space)]
        return letters if self.closing else letters[:-1]

    def join(self, pieces: list[str]) -> str:
        """Return the text of letters."""
        return "".join(" " if piece == self.space else piece for piece in pieces).strip()


class Recased(Described):
    """Another segmenter's pieces of text in one case.

    Args:
        segmenter: the other one.
        lower: text is put in lower case before it is divided.
        lower_output: the text of pieces is put in lower case.
        upper_output: likewise, in upper case.
    """

    def __init__(
        self,
        *,
        segmenter: Segmenter,
        lower: bool = False,
        lower_output: bool = False,
        upper_output: bool = False,
    ) -> None:
        self.segmenter = segmenter
        self.lower = lower
        self.lower_output = lower_output
        self.upper_output = upper_output
        self.fingerprint = fingerprint(self, segmenter.fingerprint.encode())

    def split(self, text: str) -> list[str]:
        """Return the pieces of a text."""
        return self.segmenter.split(text.lower() if self.lower else text)

    def join(self, pieces: list[str]) -> str:
        """Return the text of pieces."""
        text = self.segmenter.join(pieces)
        text = text.lower() if self.lower_output else text
        return text.upper() if self.upper_output else text
