"""Files of Markdown whose text is translated: paragraphs, headings, items of lists, cells of tables, links, pictures.

markdown-it-py finds them. All else stays as it is: code, addresses, HTML, front matter, and the marks in a text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dragoman.commands.input_files import read_text
from dragoman.commands.markdown_marks import Found, MarkdownMarks
from dragoman.commands.marked_text import Mark, MarkedSentence, MarkedText, Work, whole_work, work_in_parts
from dragoman.commands.placeholder_marks import marks_of, paired
from dragoman.shared.machine.extras import require
from dragoman.shared.text.languages import spaced

_FRONT = re.compile(r"(---|\+\+\+)[ \t]*\n(?:.*\n)*?\1[ \t]*(?:\n|$)")
#: What begins something else than a paragraph, at the beginning of a line.
_BEGINS = re.compile(r"^(?:[-+*](?=\s|$)|#{1,6}(?=\s|$)|>|=+\s*$|-+\s*$|`{3}|~{3}|\d{1,9}(?=[.)](?:\s|$)))")
#: Marks of common extensions: the box of an item in a list of tasks, and footnotes.
_TASK = re.compile(r"\[[ xX]\](?=\s)")
_FOOTNOTE = re.compile(r"\[\^[^\]\s]+\]:?")
_ACTIVE = re.compile(r"([\\`*_\[\]<~]|&(?=#?\w+;))")
_NO_BREAK = "\0"


@dataclass
class Block:
    """A paragraph, a heading or a cell.

    Attributes:
        line: its first line in the file, from 0.
        start: where it begins in the file.
        end: where it ends.
        content: as markdown-it gives it, without what stands in front of its lines.
        prefixes: what stands in front of its lines, from the second one on.
        width: length of its longest line.
        cell: whether it is a cell of a table.
        begins: whether its first line could begin something else: it is no heading behind ``#``, and no cell.
        runs: its text between ends of lines that are meant, each with the number of its lines and how its end is
            written.
        left: whether it could not be translated.
    """

    line: int
    start: int
    end: int
    content: str
    prefixes: list[str]
    width: int
    cell: bool
    begins: bool
    runs: list[tuple[MarkedText, int, str]] = field(default_factory=list)
    left: bool = False

    @property
    def sentences(self) -> list[MarkedSentence]:
        """The sentences of all runs."""
        return [one for run, _, _ in self.runs for one in run.sentences]

    def written(self, language: str, escape: Callable[[str], str] = str) -> list[str]:
        """Return the lines of the translation, without what stands in front of them."""
        lines: list[str] = []
        for run, count, end in self.runs:
            text = run.written(language, escape, lambda mark: mark.replace(" ", _NO_BREAK))
            some = _wrapped(text, self.width) if count > 1 and spaced(language) else [text.replace(_NO_BREAK, " ")]
            if self.begins:
                some[0] = _BEGINS.sub(lambda match: _escaped_beginning(match[0]), some[0], count=1)
            lines += [*some[:-1], some[-1] + end]
        return [line.replace("|", r"\|") if self.cell else line for line in lines]


class MarkdownFile:
    """A file of Markdown: CommonMark with tables and strikethrough.

    Args:
        path: of the file, in UTF-8.
        language: of its text.

    Attributes:
        remarks: what a user has to know of the translation, after it.

    Raises:
        DataError: if it is not UTF-8.
        UsageError: without the libraries.
    """

    def __init__(self, path: Path, language: str) -> None:
        for library in ("markdown_it", "sentencex"):
            require(library, "markdown", "a translation of Markdown")
        self.path = path
        text = read_text(path)
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._text = re.sub(r"\r\n?", "\n", text)
        self._parser = MarkdownMarks()
        self._env: dict[str, Any] = {}
        self._tokens = self._parser.parser.parse(_without_front(self._text), self._env)
        self._language = language
        self.remarks: list[str] = []
        self._blocks = [*self._located()]
        for block in self._blocks:
            block.runs = [*self._runs(block.content)]

    def work(self, language: str) -> Work:
        """Translate its text into a language; return the file."""
        todo = [block for block in self._blocks if any(one.has_words for one in block.sentences)]
        yield from whole_work(one for block in todo for one in block.sentences)
        written = {id(block): block.written(language) for block in todo}
        wrong = [block for block in todo if not self._is_right(block, written[id(block)])]
        written |= {id(block): block.written(language, _escaped) for block in wrong}
        wrong = [block for block in wrong if not self._is_right(block, written[id(block)])]
        yield from work_in_parts(one for block in wrong for one in block.sentences if one.has_words)
        written |= {id(block): block.written(language, _escaped) for block in wrong}
        for block in wrong:
            block.left = not self._is_right(block, written[id(block)])
        parts, begin = [], 0
        for block in todo:
            if not block.left:
                parts += [self._text[begin : block.start], self._on_lines(block, written[id(block)])]
                begin = block.end
        made = "".join([*parts, self._text[begin:]])
        self._remark(todo, made)
        return made.replace("\n", self._newline)

    def _remark(self, blocks: list[Block], made: str) -> None:
        again = [block.line + 1 for block in blocks if any(one.in_parts for one in block.sentences) and not block.left]
        left = [block.line + 1 for block in blocks if block.left]
        if again:
            self.remarks.append(f"marks were lost, so translated in parts between them: {_lines(again)}")
        if left:
            self.remarks.append(f"left as it is, since the translation would have other marks: {_lines(left)}")
        new = self._parser.parser.parse(_without_front(made), {})
        for old, one in zip(self._tokens, new, strict=False):
            if (old.type, old.tag, old.markup) != (one.type, one.tag, one.markup):
                self.remarks.append(f"the form of the translation differs from line {(one.map or [0])[0] + 1} on")
                return

    def _is_right(self, block: Block, lines: list[str]) -> bool:
        """Tell whether the translation of a block has the marks of its source."""
        text = "\n".join(lines)
        text = text.replace(r"\|", "|") if block.cell else text
        wanted = self._parser.signature(block.content, self._env)
        return bool(text.strip()) and self._parser.signature(text, self._env) == wanted

    def _on_lines(self, block: Block, lines: list[str]) -> str:
        prefixes = block.prefixes or [""]
        last = len(prefixes) - 1
        further = [prefixes[min(number, last)] + line for number, line in enumerate(lines[1:])]
        return "\n".join([lines[0], *further])

    def _located(self) -> Iterator[Block]:
        """Yield the blocks that have text, in order."""
        lines = self._text.split("\n")
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line) + 1)
        behind = (-1, 0)  # line and place up to which cells were found
        for before, token in zip(self._tokens, self._tokens[1:], strict=False):
            if token.type != "inline" or not token.content.strip() or token.map is None:
                continue
            first = token.map[0]
            cell, parts = before.type in ("th_open", "td_open"), token.content.split("\n")
            places = []
            if cell:
                shown = token.content.replace("|", r"\|")
                start = lines[first].find(shown, behind[1] if behind[0] == first else 0)
                places = [(start, start + len(shown))]
                behind = first, start + len(shown)
            else:
                for number, part in enumerate(parts):
                    line, part = lines[first + number].rstrip(), part.strip()
                    start = len(line) - len(part) if line.endswith(part) else -1
                    if before.type == "heading_open" and before.markup.startswith("#"):
                        start = line.find(part, line.index("#") + len(before.markup))
                    places.append((start, start + len(part)))
            if any(start < 0 for start, _ in places):
                self.remarks.append(f"left as it is, since its place was not found: line {first + 1}")
                continue
            last = first + len(places) - 1
            yield Block(
                line=first,
                start=starts[first] + places[0][0],
                end=starts[last] + places[-1][1],
                content=token.content,
                prefixes=[lines[first + number][: places[number][0]] for number in range(1, len(places))],
                width=max(end - start for start, end in places),
                cell=cell,
                begins=not cell and not before.markup.startswith("#"),
            )

    def _runs(self, content: str) -> Iterator[tuple[MarkedText, int, str]]:
        """Yield the text of a block between ends of lines that are meant."""
        text, begin, count = "", 0, 1
        marks: list[Found] = []
        for mark in self._parser.marks(content, self._env):
            text += content[begin : mark.start]
            begin = mark.end
            if mark.kind == "hard":
                yield self._marked(text, marks), count, "\\" if content[mark.start] == "\\" else "  "
                text, count, marks = "", 1, []
            elif mark.kind == "soft":
                text, count = text.rstrip() + (" " if spaced(self._language) else ""), count + 1
            else:
                shown = mark.written or content[mark.start : mark.end]
                shown = shown.replace("\n", " ")
                marks.append(Found(len(text), len(text) + len(shown), mark.kind, mark.side, mark.pair))
                text += shown
        yield self._marked(text + content[begin:], marks), count, ""

    def _marked(self, text: str, marks: list[Found]) -> MarkedText:
        """Return a text with its marks, to which placeholders and addresses are added."""
        places = [(mark.start, mark.end) for mark in marks if mark.kind == "word"]
        further = [match.span() for match in _FOOTNOTE.finditer(text)]
        further += [(mark.start, mark.end) for mark in marks_of(text)]
        for start, end in further:
            taken = [*((mark.start, mark.end) for mark in marks), *places]
            if not any(start < until and begin < end for begin, until in taken):
                places.append((start, end))
        words = paired(text, sorted(places))
        frames = [Mark(m.start, m.end, True, m.side, len(text) + m.pair) for m in marks if m.kind == "frame"]
        whole = {mark.pair: sum(other.pair == mark.pair for other in frames) == 2 for mark in frames}
        frames = [mark if whole[mark.pair] else Mark(mark.start, mark.end, True) for mark in frames]
        if match := _TASK.match(text):
            frames.append(Mark(0, match.end(), True))
        return MarkedText(text, sorted([*words, *frames], key=lambda mark: mark.start), self._language)


def _without_front(text: str) -> str:
    """Return a text with empty lines in the place of its front matter (YAML or TOML), which is no Markdown."""
    match = _FRONT.match(text)
    return "\n" * match[0].count("\n") + text[match.end() :] if match else text


def _escaped(text: str) -> str:
    return _ACTIVE.sub(r"\\\1", text)


def _escaped_beginning(text: str) -> str:
    """Escape what would begin a list, a heading or a quotation; of a number, the sign behind it."""
    return text + "\\" if text.isdecimal() else "\\" + text


def _wrapped(text: str, width: int) -> list[str]:
    """Return a text in lines of at most so many characters, none of which begins as something else does."""
    lines: list[str] = []
    for word in text.split():
        if lines and (len(lines[-1]) + 1 + len(word) <= width or _BEGINS.match(word)):
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return [line.replace(_NO_BREAK, " ") for line in lines] or [""]


def _lines(numbers: list[int]) -> str:
    shown = ", ".join(str(number) for number in numbers[:10])
    return ("line " if len(numbers) == 1 else "lines ") + shown + (" and more" if len(numbers) > 10 else "")
