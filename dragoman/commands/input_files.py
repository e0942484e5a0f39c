"""The inputs of a command: lines of text files or of standard input, and sound files."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from dragoman.commands.endings import warn
from dragoman.shared.errors import DataError, UsageError, one_line, plural, shortened
from dragoman.shared.preparing.findings import LONGEST_TEXT
from dragoman.shared.systems.inputs import AUDIO_SUFFIXES
from dragoman.shared.text.surrogates import printable


def lines(inputs: list[Path]) -> Iterator[str]:
    """Yield the lines of text files, or of standard input if there are none; only a newline ends a line.

    A byte-order mark at the beginning of a file is no part of its first line.
    """
    if not inputs:
        yield from _decoded(sys.stdin.buffer, "standard input")
    for path in inputs:
        try:
            with open(path, "rb") as file:
                yield from _decoded(file, str(path))
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def _decoded(file: BinaryIO, name: str) -> Iterator[str]:
    # A file without line ends would be read into memory whole: characters have at most four bytes.
    limited = iter(lambda: file.readline(4 * LONGEST_TEXT + 2), b"")
    for number, line in enumerate(limited, start=1):
        try:
            text = line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise DataError(f"{name}: line {number} is not UTF-8 (byte {error.object[error.start]:#04x})") from error
        if len(text) > LONGEST_TEXT:
            raise DataError(f"{name}: line {number} has more than {LONGEST_TEXT:,} characters: {shortened(text)!r}")
        yield text.removeprefix("\ufeff") if number == 1 else text


def read_text(path: Path) -> str:
    """Return a file as text, without a byte-order mark; raise a DataError, if it is not UTF-8 or cannot be read."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not UTF-8 (byte {error.object[error.start]:#04x} at {error.start})") from error


def refuse_sound(model: Path, inputs: list[Path]) -> None:
    """Refuse sound files and folders that a model of text is given, by UsageError."""
    for path in inputs:
        if path.suffix.lower() in AUDIO_SUFFIXES or path.is_dir():
            kind = "a folder" if path.is_dir() else "a sound file"
            raise UsageError(f"{path}: is {kind}, and the model {model} reads lines of text")


def sound_files(inputs: list[Path]) -> list[Path]:
    """Return the sound files among the inputs and in the folders among them, sorted within a folder.

    Files of a folder that are not read are counted on standard error.
    """
    if not inputs:
        raise UsageError("this system reads speech: give sound files, or folders of them")
    paths: list[Path] = []
    for path in inputs:
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if not file.is_dir())
            inside = [file for file in files if file.suffix.lower() in AUDIO_SUFFIXES]
            if not inside:
                raise DataError(f"{path}: holds no sound file ({', '.join(sorted(AUDIO_SUFFIXES))})")
            if others := Counter(file.suffix for file in files if file.suffix.lower() not in AUDIO_SUFFIXES):
                named = ", ".join(f"{count} {suffix or 'without ending'}" for suffix, count in others.most_common(9))
                warn(f"{path}: {plural(others.total(), 'file')} not read as sound: {named}")
            paths += inside
        else:
            paths.append(path)
    return paths


def output_places(out: Path, names: Sequence[str], endings: Collection[str]) -> list[Path]:
    """Return where files of these names are written: in the folder ``out``, or for one of the same ending as ``out``.

    Args:
        out: as the user named it.
        names: of the files.
        endings: of files, in small letters; what ends so is meant as a file, unless it is a folder already.

    Raises:
        UsageError: if a file is meant that cannot be the one.
    """
    ending = out.suffix.lower()
    if ending not in endings or out.is_dir():
        return [out / name for name in names]
    if len(names) > 1:
        raise UsageError(f"--out {out}: {len(names)} files cannot be written as one: name a folder for theirs")
    if Path(names[0]).suffix.lower() != ending:
        raise UsageError(f"--out {out}: the output is of the form {Path(names[0]).suffix}, not {ending}")
    return [out]


def first_of(names: Sequence[object]) -> str:
    """Return names for a message: of many the first ten, and how many more there are."""
    return ", ".join(map(str, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def report_cut(names: list[str]) -> None:
    """Print which outputs have all the tokens that the search allows: their ends are missing."""
    if names:
        warn(f"cut off at the maximum length (see --maximum-length-extra): {first_of(names)}")


def report_unreadable(errors: Iterable[DataError]) -> None:
    """Print a line for each input that could not be read, to standard error."""
    for error in errors:
        print(f"dragoman: error: {printable(one_line(error))}", file=sys.stderr)
