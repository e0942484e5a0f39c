"""Texts of programs with ICU's plural and select, whose cases are messages of their own and are translated too.

https://unicode-org.github.io/icu/userguide/format_parse/messages/ describes them. No case is added: for a number whose
form the source language lacks, programs take the case ``other``, which every plural and select has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dragoman.commands.marked_text import Mark, MarkedSentence, MarkedText
from dragoman.commands.placeholder_marks import closing, paired, places_of

#: The beginning of a placeholder with cases: what decides, and how.
_CASES = re.compile(r"[$%#]?\{\s*(\w+)\s*,\s*(plural|select|selectordinal)\s*,")
_CASE = re.compile(r"\s*(?:offset:\s*\d+\s+)?(=\d+|\w+)\s*(?=\{)")
#: Apostrophes that stand for one, or that make braces and number signs ordinary characters.
_QUOTED = re.compile(r"'['{}#|]")


class Message:
    """A text whose marks stay as they are, but for the messages within them.

    The translator reads ``{count}`` in the place of a plural or select of ``count``.

    Args:
        text: of one line or more.
        language: code of its language.
        is_case: whether it is a case of a plural or select, where ``#`` is the number.

    Attributes:
        lines: of the text; those without words stay as they are.
        has_cases: whether cases are translated.
        leaves_cases: whether there are some that are not: ordinal numbers, whose cases are endings, those with quoted
            braces or doubled apostrophes, and those that are incomplete.
    """

    def __init__(self, text: str, language: str, *, is_case: bool = False) -> None:
        self._is_case = is_case
        self._cases: dict[str, list[str | Message]] = {}  # by the name that is shown
        shown, begin = "", 0
        for start, end in places_of(text):
            if head := _CASES.match(text, start, end):
                name = f"{{{head[1]}}}"
                while name in text or name in self._cases:
                    name = f"{name[:-1]}_}}"
                pieces = _pieces(text[start:end])
                self._cases[name] = [Message(one, language, is_case=True) if n % 2 else one for n, one in pieces]
                shown, begin = shown + text[begin:start] + name, end
        inner = [one for pieces in self._cases.values() for one in pieces if isinstance(one, Message)]
        self._inner, self.has_cases = inner, bool(inner)
        self.leaves_cases = any(len(pieces) == 1 for pieces in self._cases.values())
        self.leaves_cases |= any(one.leaves_cases for one in inner)
        lines = (shown + text[begin:]).split("\n")
        self.lines = [MarkedText(line, self._marks(line), language) for line in lines]

    @property
    def sentences(self) -> Iterator[MarkedSentence]:
        """The sentences of all lines and cases."""
        for line in self.lines:
            yield from line.sentences
        for message in self._inner:
            yield from message.sentences

    def written(self, language: str) -> str:
        """Return the text with the translations of its sentences and cases, in a language (code)."""

        def keep(text: str) -> str:
            for name, pieces in self._cases.items():
                if name in text:
                    made = (one if isinstance(one, str) else one.written(language) for one in pieces)
                    before, _, behind = text.partition(name)
                    return keep(before) + "".join(made) + keep(behind)
            return text

        escape = self._escaped if self._is_case or self._cases else str
        return "\n".join(line.written(language, escape, keep) for line in self.lines)

    def _escaped(self, text: str) -> str:
        """Return words as they are written in a message: an apostrophe must not quote what follows."""
        text = re.sub("''?", "''", text)
        return re.sub("[{}#]" if self._is_case else "[{}]", r"'\g<0>'", text)

    def _marks(self, line: str) -> list[Mark]:
        places = [*places_of(line)]
        if self._is_case:
            numbers = [match.span() for match in re.finditer("#", line)]
            places += [one for one in numbers if not any(start <= one[0] < end for start, end in places)]
        return paired(line, sorted(places))


def _pieces(mark: str) -> Iterator[tuple[int, str]]:
    """Return a plural or select in numbered pieces, every second of which is a case; a single one if it has to stay."""
    pieces: list[str] = []
    head, names, begin = _CASES.match(mark), set[str](), 0
    place = head.end() if head else 0
    while case := _CASE.match(mark, place):
        inside, place = case.end() + 1, closing(mark, case.end()) or len(mark)
        pieces += [mark[begin:inside], mark[inside : place - 1]]
        names.add(case[1])
        begin = place - 1
    whole = "other" in names and mark[place:].strip() == "}"
    ordinal = head is None or head[2] == "selectordinal"
    return enumerate([*pieces, mark[begin:]] if whole and not ordinal and not _QUOTED.search(mark) else [mark])
