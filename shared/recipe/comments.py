"""The comments of a YAML file, which its parser leaves out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

_BEHIND = re.compile(r"\s+#\s?(.*)")
_BEHIND_KEY = re.compile(r"\s*:(\s+[!&][^\s#]*)*\s+#\s?(.*)")
_LINE = re.compile(r"\s*#\s?(.*)")
#: Headings divide a file, and belong to no key.
_HEADING = "# --"


def comment(lines: Sequence[str], node: Any, name: Any = None) -> str:
    """Return what a file says about a value: the lines above its key, and what follows it on its line and below."""
    above = [*_above(lines, name)] if name is not None else []
    return " ".join(filter(None, [*above, *_behind(lines, node, name)]))


def _above(lines: Sequence[str], name: Any) -> Iterator[str]:
    """Yield the comment lines right above a key; those at the top of the file are its header."""
    mark = name.start_mark
    first = mark.line
    while first and _is_comment(lines[first - 1], mark.column):
        first -= 1
    for line in lines[first : mark.line] if first else ():
        yield line.strip().removeprefix("#").strip()


def _behind(lines: Sequence[str], node: Any, name: Any) -> Iterator[str]:
    """Yield the comment at the end of a value's line, and its further lines, which begin in the same column."""
    is_block = node.id != "scalar" and not node.flow_style
    if is_block and name is None:
        return
    end = name.end_mark if is_block else node.end_mark
    if end.line >= len(lines):
        return
    line = lines[end.line]
    match = (_BEHIND_KEY if is_block else _BEHIND).fullmatch(line, end.column)
    if match is None:
        return
    yield match[match.lastindex or 0].strip()
    column = match.start(match.lastindex or 0)
    column = line.rindex("#", 0, column)
    for following in lines[end.line + 1 :]:
        if not _is_comment(following, column):
            return
        yield following.strip().removeprefix("#").strip()


def _is_comment(line: str, column: int) -> bool:
    """Tell whether a line holds nothing but a comment that begins in a column."""
    stripped = line.strip()
    return stripped.startswith("#") and line.index("#") == column and not stripped.startswith(_HEADING)
