"""Messages of libmpg123 on damaged mp3 frames, which it writes to the terminal without the name of the file."""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.shared.machine.remote import uri_of
from dragoman.shared.sound.shards import open_sound

#: Its lines: an error or warning with a place in its source, or a note.
_LINE = re.compile(r"(?:\[[^\]]*libmpg123[^\]]*\] *|(?:Note|Warning|warning|error): )(?P<message>.*)")

#: Standard error belongs to the whole process: one thread at a time exchanges it.
_LOCK = threading.Lock()
_named: set[str] = set()
_lists: list[list[str]] = []


@contextmanager
def naming_damage(path: str | Path) -> Iterator[None]:
    """Decode a file in this block; if it is an mp3 with damaged frames, one warning of this process names it.

    What others write to standard error meanwhile gets there at the end of the block.
    """
    if not _is_mpeg(path):
        yield
        return
    with _LOCK, tempfile.TemporaryFile() as written:
        sys.stderr.flush()
        real = os.dup(2)
        os.dup2(written.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(real, 2)
            os.close(real)
            written.seek(0)
            _report(path, written.read().decode("utf-8", "replace").splitlines())


@contextmanager
def listed_damage() -> Iterator[list[str]]:
    """Yield a list to which the damage that is found in the block is added, instead of a warning."""
    _lists.append([])
    try:
        yield _lists[-1]
    finally:
        _lists.pop()


def _report(path: str | Path, lines: list[str]) -> None:
    messages = []
    for line in lines:
        match = _LINE.match(line)
        if match:
            messages.append(match["message"])
        elif line.strip():
            print(line, file=sys.stderr)
    if not messages or str(path) in _named:
        return
    _named.add(str(path))
    damage = f"damaged mp3 frames (messages of the decoder: {len(messages)}, the first: {messages[0]})"
    if _lists:
        _lists[-1].append(damage)
    else:
        logging.getLogger("dragoman").warning("%s: %s", path, damage)


def _is_mpeg(path: str | Path) -> bool:
    """Tell whether a file begins as an mp3 does: with a tag, or the bits by which frames are found."""
    try:
        with open_sound(path) as file:
            start = file.read(3)
    except (OSError, ValueError):
        if uri_of(path) is not None:
            raise  # the request was repeated often enough
        return False  # whoever opens it next says why
    return start == b"ID3" or (len(start) == 3 and start[0] == 0xFF and start[1] & 0xE0 == 0xE0)
