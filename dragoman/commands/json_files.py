"""Files of JSON whose strings are translated, such as those of programs; all else stays as it is, to the byte."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dragoman.commands.input_files import first_of, read_text
from dragoman.commands.marked_text import Work, whole_work
from dragoman.commands.message_cases import Message
from dragoman.shared.errors import DataError
from dragoman.shared.text.surrogates import find_surrogate

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[][{},:]|[^\s"\][{},:]+')
_NAME = re.compile(r"\w+")


@dataclass(frozen=True)
class Value:
    """A string that is a value.

    Attributes:
        start: its place in the file.
        end: the place behind it.
        path: its keys and numbers: ``menu.items[2]``.
        text: without quotes and escapes.
        message: the text as one.
    """

    start: int
    end: int
    path: str
    text: str
    message: Message


class JsonFile:
    """A file of JSON.

    Args:
        path: of the file, in UTF-8.
        language: of its strings.

    Attributes:
        remarks: what a user has to know of the translation, after it.

    Raises:
        DataError: naming file and line, if it is no JSON.
        UsageError: without sentencex.
    """

    def __init__(self, path: Path, language: str) -> None:
        self.path = path
        self._text = read_text(path)
        self.remarks: list[str] = []
        try:
            json.loads(self._text)
        except json.JSONDecodeError as error:
            raise DataError(f"{path}: line {error.lineno}: no JSON: {error.msg} (column {error.colno})") from error
        except RecursionError:
            raise DataError(f"{path}: nested too deeply") from None
        self._values = [*self._found(language)]
        self._ascii = self._text.isascii() and re.search(r"\\u(?!00[01])", self._text) is not None

    def work(self, language: str) -> Work:
        """Translate its strings into a language; return the file."""
        yield from whole_work(one for value in self._values for one in value.message.sentences)
        again = [one.path for one in self._values if any(part.in_parts for part in one.message.sentences)]
        made = [one.path for one in self._values if one.message.has_cases]
        left = [one.path for one in self._values if one.message.leaves_cases]
        for said, paths in {
            "placeholders were lost, so translated in parts around them": again,
            "the cases of a plural or select were translated one by one, and none was added": made,
            "the cases of a plural or select are not translated": left,
        }.items():
            self.remarks += [f"{said}: {first_of(paths)}"] if paths else []
        parts, begin = [], 0
        for value in self._values:
            text = value.message.written(language)
            if text != value.text:
                parts += [self._text[begin : value.start], json.dumps(text, ensure_ascii=self._ascii)]
                begin = value.end
        return "".join([*parts, self._text[begin:]])

    def _found(self, language: str) -> Iterator[Value]:
        """Yield the strings to translate, in order."""
        path: list[str | int] = []
        tokens = [*_TOKEN.finditer(self._text)]
        for match, behind in zip(tokens, [*tokens[1:], None], strict=True):
            token = match[0]
            if token in ("{", "["):
                path.append("" if token == "{" else 0)
            elif token in ("}", "]"):
                path.pop()
            elif token == "," and isinstance(path[-1], int):
                path[-1] += 1
            elif token[0] == '"' and behind is not None and behind[0] == ":":
                path[-1] = json.loads(token)
            elif token[0] == '"':
                yield self._value(match, path, language)

    def _value(self, match: re.Match[str], path: list[str | int], language: str) -> Value:
        text = json.loads(match[0])
        if find_surrogate(text):
            raise DataError(f"{self.path}: {_called(path)}: half a surrogate pair, which is no text")
        return Value(match.start(), match.end(), _called(path), text, Message(text, language))


def _called(path: list[str | int]) -> str:
    """Return the path of a value: keys that are words behind points, others and numbers in brackets."""
    parts = [
        f"[{part}]" if isinstance(part, int) else f".{part}" if _NAME.fullmatch(part) else f"[{json.dumps(part)}]"
        for part in path
    ]
    return "".join(parts).removeprefix(".") or "the whole"
