"""Places of the marks of Markdown within a paragraph, found by markdown-it-py, which does not tell them by itself.

Its rules are wrapped: each notes where it begins and ends, and what it makes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: Rules whose whole span is a mark that stands for a word, and the tokens that show that they have found one.
_WORDS = {"backticks": "code_inline", "autolink": "link_open", "html_inline": "html_inline"}
_BREAKS = {"softbreak": "soft", "hardbreak": "hard"}


@dataclass(frozen=True)
class Found:
    """A mark in a paragraph.

    Attributes:
        start: the place of its first character.
        end: the place behind its last one.
        kind: "word", "frame" (goes around words), "soft" or "hard" (ends a line).
        side: 1 if it opens a pair, -1 if it closes one, else 0.
        pair: the place where its pair begins; -1 without one.
        written: what it is to be written as; None: as it is.
    """

    start: int
    end: int
    kind: str
    side: int = 0
    pair: int = -1
    written: str | None = None


class MarkdownMarks:
    """CommonMark with tables and strikethrough."""

    def __init__(self) -> None:
        from markdown_it import MarkdownIt, rules_inline

        self.parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        self._noting = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        rules: dict[str, Callable[[Any, bool], bool]] = {
            "newline": rules_inline.newline,
            "escape": rules_inline.escape,
            "backticks": rules_inline.backtick,
            "strikethrough": rules_inline.strikethrough.tokenize,
            "emphasis": rules_inline.emphasis.tokenize,
            "link": rules_inline.link,
            "image": rules_inline.image,
            "autolink": rules_inline.autolink,
            "html_inline": rules_inline.html_inline,
            "entity": rules_inline.entity,
        }
        for name, rule in rules.items():
            self._noting.inline.ruler.at(name, self._noted(name, rule))
        self._noting.inline.ruler2.disable("fragments_join")  # it moves texts between tokens
        self._text = ""
        self._found: list[Found] = []
        self._signs: list[tuple[Any, int]] = []

    def marks(self, text: str, env: dict[str, Any]) -> list[Found]:
        """Return the marks of a paragraph in order; ``env`` has the addresses that it refers to."""
        self._text, self._found, self._signs = text, [], []
        self._noting.inline.parse(text, self._noting, env, [])
        opened: list[int] = []
        for token, place in sorted(self._signs, key=lambda sign: sign[1]):
            if token.nesting > 0:
                start = place - (token.type == "strong_open")
                opened.append(start)
                self._found.append(Found(start, start + len(token.markup), "frame", 1, start))
            elif token.nesting < 0:
                self._found.append(Found(place, place + len(token.markup), "frame", -1, opened.pop()))
        return sorted(self._found, key=lambda mark: mark.start)

    def signature(self, text: str, env: dict[str, Any]) -> Counter[tuple[Any, ...]]:
        """Return what a paragraph has beside text: kinds of marks with their addresses and contents, and their number.

        Two paragraphs of one signature have the same marks.
        """
        (inline,) = self.parser.parseInline(text, env)
        return Counter(
            (token.type, token.tag, *sorted((key, value) for key, value in token.attrs.items() if key != "alt"))
            + ((token.content,) if token.type in ("code_inline", "html_inline") else ())
            for token in inline.children or ()
            if token.type not in ("text", "softbreak")
        )

    def _noted(self, name: str, rule: Callable[[Any, bool], bool]) -> Callable[[Any, bool], bool]:
        def run(state: Any, silent: bool) -> bool:
            start, before, outer = state.pos, len(state.tokens), state.src == self._text
            # The link's rule goes on inside of the label, so its end has to be known before.
            label = name in ("link", "image") and not silent and outer
            end = state.md.helpers.parseLinkLabel(state, start + (name == "image"), name == "link") if label else -1
            state.pos = start
            done = rule(state, silent)
            if done and not silent and outer:
                self._note(name, state.tokens[before:], start, state.pos, end)
            return done

        return run

    def _note(self, name: str, tokens: list[Any], start: int, end: int, label: int) -> None:
        """Note what a rule has found between two places; ``label`` is the end of a link's text."""
        kinds = [token.type for token in tokens]
        ends_line = [_BREAKS[kind] for kind in kinds if kind in _BREAKS]
        if name in ("emphasis", "strikethrough"):
            place = end
            for token in reversed(tokens):
                if place <= start:
                    break
                place -= len(token.content)
                self._signs.append((token, place))
        elif name in ("link", "image"):
            self._note_link(start, start + 1 + (name == "image"), label, end)
        elif ends_line and name in ("newline", "escape"):
            text = self._text[:start]
            self._found.append(Found(len(text.rstrip(" ")) if name == "newline" else start, end, ends_line[0]))
        elif name in ("escape", "entity") or _WORDS.get(name) in kinds:
            self._found.append(Found(start, end, "word"))

    def _note_link(self, start: int, begin: int, label: int, end: int) -> None:
        """Note a link from ``start`` to ``end``, whose text stands from ``begin`` to ``label``."""
        text, rest = self._text[begin:label], self._text[label:end]
        written = f"][{text}]" if rest in ("]", "][]") else None  # what it refers to is its text, which will change
        if begin - start > 1 and any(sign in text for sign in "\\`*_[]<>&!~\n"):
            self._found = [mark for mark in self._found if not start <= mark.start < end]
            self._found.append(Found(start, end, "word"))
            return
        self._found.append(Found(start, begin, "frame", 1, start))
        self._found.append(Found(label, end, "frame", -1, start, written))
