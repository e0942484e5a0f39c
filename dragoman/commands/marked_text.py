"""Text with marks in it, such as ``{name}``, ``<b>`` and ``**``, which stay as they are when it is translated.

A text is divided into sentences. Marks that stand around a sentence are not shown to the translator; those inside are
part of what it reads. If its output has not the same marks, the sentence is translated once more, in parts between
them. So no mark is ever lost, added or changed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from dragoman.commands.paragraphs import gap_between, sentence_parts, source_gap
from dragoman.shared.evaluation.outputs import ONE_LINE

#: What yields texts to translate, is sent their translations, and returns something at its end.
Work = Generator[list[str], list[str], str]


@dataclass(frozen=True)
class Mark:
    """A mark in a text.

    Attributes:
        start: the place of its first character.
        end: the place behind its last one.
        frame: whether it goes around words (``<b>``), and does not stand for one (``{name}``).
        side: 1 if it opens a pair, -1 if it closes one, else 0.
        pair: a number that the two marks of a pair have; -1 for others.
    """

    start: int
    end: int
    frame: bool = False
    side: int = 0
    pair: int = -1

    def moved(self, by: int) -> Mark:
        """Return the mark in a text that begins so many characters later."""
        return Mark(self.start - by, self.end - by, self.frame, self.side, self.pair)


@dataclass
class MarkedSentence:
    """A sentence between the marks around it.

    Attributes:
        before: marks and white space in front of it.
        core: what is translated.
        behind: marks and white space behind it.
        marks: those inside of the core, in order.
        gap: between the sentence before and this one; see :func:`source_gap`.
        made: the translation of the core in pieces, each with whether it is a mark; at first the core itself.
        in_parts: whether it was translated in parts.
    """

    before: str
    core: str
    behind: str
    marks: list[Mark]
    gap: str = ""
    made: list[tuple[str, bool]] = field(init=False)
    in_parts: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.made = self.pieces()

    def pieces(self, text: str | None = None) -> list[tuple[str, bool]]:
        """Return the core in pieces, each with whether it is a mark; or a translation that has the same marks."""
        if text is None:
            places = [(mark.start, mark.end) for mark in self.marks]
            text = self.core
        else:
            pattern = self._pattern()
            places = [match.span() for match in pattern.finditer(text)] if pattern else []
        pieces, begin = [], 0
        for start, end in [*places, (len(text), len(text))]:
            pieces += [(text[begin:start], False)] if start > begin else []
            pieces += [(text[start:end], True)] if end > start else []
            begin = end
        return pieces

    @property
    def has_words(self) -> bool:
        """Tell whether there is something to translate: letters outside of marks."""
        return any(has_letters(text) for text, is_mark in self.pieces() if not is_mark)

    def is_kept_by(self, translation: str) -> bool:
        """Tell whether a translation has the same marks as often, and no pair of them the wrong way round."""
        pattern = self._pattern()
        if pattern is None:
            return True
        found = pattern.findall(translation)
        if Counter(found) != Counter(pattern.findall(self.core)):
            return False
        pairs: dict[int, list[str]] = {}
        for mark in self.marks:
            if mark.pair >= 0:
                pairs.setdefault(mark.pair, []).append(self.core[mark.start : mark.end])
        return all(found.index(pair[0]) <= found.index(pair[-1]) for pair in pairs.values())

    def in_pieces(self, translations: Iterable[str]) -> list[tuple[str, bool]]:
        """Return the core in pieces, of which those that have words are translated, in their order."""
        iterator = iter(translations)
        pieces = []
        for text, is_mark in self.pieces():
            if not is_mark and has_letters(text):
                inside = text.strip()
                start = text.index(inside)
                text = text[:start] + next(iterator) + text[start + len(inside) :]
            pieces.append((text, is_mark))
        return pieces

    def words(self) -> list[str]:
        """Return the pieces of the core that have words, without white space around them."""
        return [text.strip() for text, is_mark in self.pieces() if not is_mark and has_letters(text)]

    def written(self, escape: Callable[[str], str] = str, keep: Callable[[str], str] = str) -> str:
        """Return the translation with the marks around it; see :meth:`MarkedText.written`."""
        made = "".join(keep(text) if is_mark else escape(text) for text, is_mark in self.made)
        return keep(self.before) + made + keep(self.behind)

    def _pattern(self) -> re.Pattern[str] | None:
        names = sorted({self.core[mark.start : mark.end] for mark in self.marks}, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, names))) if names else None


class MarkedText:
    """A text in sentences.

    Args:
        text: of one or more sentences.
        marks: in it, in order; they do not overlap.
        language: code of its language.

    Attributes:
        sentences: in order.
    """

    def __init__(self, text: str, marks: Sequence[Mark], language: str) -> None:
        self.sentences: list[MarkedSentence] = []
        self._edges = text, ""
        spans = [span for span in _spans(text, marks, language) if text[slice(*span)].strip()]
        until = 0
        for start, end in spans:
            stripped = text[start:end].strip()
            start += text[start:end].index(stripped)
            end = start + len(stripped)
            inside = [mark for mark in marks if start <= mark.start and mark.end <= end]
            sentence = _framed(text, start, end, inside)
            sentence.gap = source_gap(text[until:start], language) if self.sentences else ""
            if not self.sentences:
                self._edges = text[:start], text[end:]
            self.sentences.append(sentence)
            self._edges = self._edges[0], text[end:]
            until = end

    def written(self, language: str, escape: Callable[[str], str] = str, keep: Callable[[str], str] = str) -> str:
        """Return the text with the translations of its sentences; white space around it stays.

        Args:
            language: code of the translations.
            escape: applied to what is no mark.
            keep: applied to marks.
        """
        whole = ""
        for sentence in self.sentences:
            text = sentence.written(escape, keep)
            if text.strip():
                whole += (gap_between(whole, text, sentence.gap, language) if whole else "") + text
        return self._edges[0] + whole + self._edges[1]


def has_letters(text: str) -> bool:
    """Tell whether there is anything to translate in a text."""
    return any(sign.isalpha() for sign in text)


def whole_work(sentences: Iterable[MarkedSentence]) -> Generator[list[str], list[str], None]:
    """Translate sentences as wholes; those whose marks are lost, in parts."""
    todo = [one for one in sentences if one.has_words]
    made = yield from asked([one.core for one in todo])
    lost = []
    for one, translation in zip(todo, made, strict=True):
        if one.is_kept_by(translation):
            one.made = one.pieces(translation)
        else:
            lost.append(one)
    yield from work_in_parts(lost)


def work_in_parts(sentences: Iterable[MarkedSentence]) -> Generator[list[str], list[str], None]:
    """Translate sentences in the parts between their marks."""
    todo = list(sentences)
    made = iter((yield from asked([text for one in todo for text in one.words()])))
    for one in todo:
        one.made = one.in_pieces([next(made) for _ in one.words()])
        one.in_parts = bool(one.marks)


def asked(texts: list[str]) -> Generator[list[str], list[str], list[str]]:
    """Ask for translations, each in one line; for none, nobody is asked."""
    if not texts:
        return []
    made = yield texts
    return [text.translate(ONE_LINE).strip() for text in made]


def _spans(text: str, marks: Sequence[Mark], language: str) -> list[tuple[int, int]]:
    """Return where the sentences of a text are, by what it would be without frames, other marks being words."""
    shown, begin = "", 0
    places: list[int] = []
    for mark in [*marks, Mark(len(text), len(text), frame=True)]:
        shown += text[begin : mark.start]
        places += range(begin, mark.start)
        if not mark.frame:
            shown += "X" + "x" * (mark.end - mark.start - 1)
            places += range(mark.start, mark.end)
        begin = mark.end
    starts = [mark.start for mark in marks]
    cuts = [0]
    for end in [*accumulate(map(len, sentence_parts(shown, language)))][:-1]:
        cut = places[end - 1] + 1
        number = bisect_right(starts, cut - 1)
        while number < len(marks) and marks[number].start == cut and marks[number].side < 0:
            cut = marks[number].end
            number += 1
        inside = any(mark.start < cut < mark.end for mark in marks[max(0, number - 1) : number + 1])
        cuts += [] if inside else [cut]
    return [*zip(cuts, [*cuts[1:], len(text)], strict=True)]


def _framed(text: str, start: int, end: int, marks: list[Mark]) -> MarkedSentence:
    """Return a sentence without the marks around it whose other halves stand outside of it, or around it too."""
    first, last = start, end
    while marks:
        opens = marks[0].frame and marks[0].start == start
        closes = marks[-1].frame and marks[-1].end == end
        pairs = [mark.pair for mark in marks if mark.pair >= 0]
        alone = [mark.pair < 0 or pairs.count(mark.pair) == 1 for mark in (marks[0], marks[-1])]
        both = opens and closes and len(marks) > 1 and 0 <= marks[0].pair == marks[-1].pair
        if (opens and alone[0]) or both:
            start, marks = marks[0].end, marks[1:]
        if both or (not opens and closes and alone[1]):
            end, marks = marks[-1].start, marks[:-1]
        elif not (opens and alone[0]):
            break
        start += len(text[start:end]) - len(text[start:end].lstrip())
        end = start + len(text[start:end].rstrip())
    return MarkedSentence(text[first:start], text[start:end], text[end:last], [mark.moved(start) for mark in marks])
