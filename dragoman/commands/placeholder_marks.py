"""The marks of strings that programs show: placeholders, tags, addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dragoman.commands.marked_text import Mark

#: Elements that have no end.
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
_MARK = re.compile(
    r"(?P<tag></?(?P<name>\w[\w:-]*)(?:\s[^<>]*)?/?>)"
    r"|(?P<brace>[$%#]?\{)"
    r"|\$t?\([\w.:-]+\)"  # $(name), and i18next's $t(key)
    r"|%(?:\d+\$)?(?:\(\w+\))?[-+#0]*\d*(?:\.\d+)?(?:hh?|ll?|z)?[diufeEgGxXcsSr@%](?!\w)"
    r"|&(?:\w+|#\d+|#x[\da-fA-F]+);"
    r"|\b(?:https?|ftp|file|mailto)://?[^\s<>\"\[\]{}]*[^\s<>\"\[\]{}.,;:!?)*_~`]"
    r"|\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
)


def marks_of(text: str) -> list[Mark]:
    """Return the marks of a text, in order.

    They are ``{name}``, ``{0}``, ``{{name}}``, ``${name}``, ``%{name}`` with all that stands between matching braces,
    ``%s``, ``%1$d``, ``%(name)s``, ``%%``, ``$(name)``, ``$t(key)``, tags and entities of HTML, and addresses.
    """
    return paired(text, [*places_of(text)])


def places_of(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the marks of a text begin and end, in order."""
    place = 0
    while match := _MARK.search(text, place):
        start, place = match.span()
        if match["brace"]:
            end = closing(text, place - 1)
            if end is None:
                continue
            place = end
        yield start, place


def closing(text: str, place: int) -> int | None:
    """Return the place behind the brace that closes the one here; None if there is none."""
    depth = 0
    for number in range(place, len(text)):
        depth += (text[number] == "{") - (text[number] == "}")
        if not depth:
            return number + 1
    return None


def paired(text: str, places: Sequence[tuple[int, int]]) -> list[Mark]:
    """Return marks at places of a text; tags are frames, and those of a name that belong together are pairs."""
    marks: list[Mark] = []
    open_tags: list[tuple[str, int]] = []
    for start, end in places:
        match = _MARK.match(text, start)
        if match is None or not match["tag"] or match.end() != end:
            marks.append(Mark(start, end))
            continue
        name, closes = match["name"].lower(), text[start + 1] == "/"
        marks.append(Mark(start, end, frame=True))
        if not closes and name not in _VOID and text[end - 2] != "/":
            open_tags.append((name, len(marks) - 1))
        elif closes and any(name == other for other, _ in open_tags):
            while open_tags[-1][0] != name:
                open_tags.pop()
            number = open_tags.pop()[1]
            first, last = marks[number], marks[-1]
            marks[number] = Mark(first.start, first.end, True, 1, number)
            marks[-1] = Mark(last.start, last.end, True, -1, number)
    return marks
