"""A file that ``translate`` or ``check`` makes in parts, on one machine or on several with a common disk.

``big.de.parts/`` has a file for each part of the inputs that is done, whole or absent, so that a command which is
killed goes on behind what is done. Whoever finds all of them puts them together: ``big.de``, and ``big.de.json``, which
says what made it, and what is wrong with it: which sound files could not be read, or how many errors there are.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from dragoman.commands.shard_numbers import Shard, Waiting
from dragoman.shared.errors import DataError, UsageError, plural
from dragoman.shared.machine.files import check_regular, discard_folder, forget_left, locked, replaced_file
from dragoman.shared.machine.records import read_record
from dragoman.shared.machine.workspace import fingerprint
from dragoman.shared.phases.generating import fingerprint_of_model
from dragoman.shared.systems.inputs import AUDIO_SUFFIXES
from dragoman.shared.systems.model_folder import model_folder
from dragoman.shared.text.surrogates import printable

#: Options that do not change an output.
WITHOUT_EFFECT = ("batch_size", "device", "memory")
#: What a note says beside what made the output: sound files that could not be translated.
LACKING = "not_translated"

#: Writes a whole of its parts, which come in order; returns what is wrong with it.
Joined = Callable[[Iterator[Path], IO[bytes]], Sequence[str]]


class OutputParts:
    """The parts of an output, of which this machine makes its share.

    Args:
        out: the file that they become.
        shard: number of this machine, and how many there are.
        made_by: what makes the output, by name; the same for all machines and starts.
        lacks: the key under which its note says what is wrong with it.

    Attributes:
        lacking: what is wrong with the output, once it is done: sound files that could not be translated, or errors.

    Raises:
        DataError: if the note of an earlier start cannot be read, or the output would be no file on a disk.
        UsageError: if there is a file that something else has made, or parts of one.
    """

    lacking: Sequence[str] = ()

    def __init__(self, out: Path, shard: Shard, made_by: Mapping[str, Any], *, lacks: str = LACKING) -> None:
        if out.is_dir():
            raise UsageError(f"--out {out}: is a folder; name a file")
        check_regular(out)
        self.out = out
        self.shard = shard
        self.folder = out.with_name(f"{out.name}.parts")
        self._note = out.with_name(f"{out.name}.json")
        self._made_by = json.loads(json.dumps(made_by, default=str))
        self._lacks = lacks
        self._begun = self.folder / "begun.json"
        with self._turn():
            self.done = self._is_done()
            if self.done:
                if not self._note.is_file():
                    raise UsageError(f"--out {out}: is there already; delete it, or name another file")
                before = self._compare(self._note, f"delete {out} and {self._note}, or name another file")
                self.lacking = before.get(lacks, ())
            elif any(self.folder.glob("[0-9]*")):
                self._compare_begun()
            elif self._note.exists() and not self.folder.exists():
                raise UsageError(
                    f"--out {out}: {self._note}, which is to say what made it, is there already; delete that, or name "
                    "another file"
                )
            else:
                self._write(self._begun, self._made_by)

    def is_to_do(self, number: int) -> bool:
        """Tell whether a part, from 0, is this machine's, and not there yet."""
        return number % self.shard[1] == self.shard[0] - 1 and not self._part(number).exists()

    def write(self, number: int, lines: list[str], lacking: Sequence[str] = ()) -> None:
        """Write the lines of a part, and the names of sound files that it lacks.

        Raises:
            UsageError: if something else has begun the output since this command looked.
        """
        with self._turn():
            if self._is_done():  # by others, who have made this part, too
                return
            self._compare_begun()
            self._write(self._lacking(number), [*map(printable, lacking)])
            with replaced_file(self._part(number)) as temporary:
                temporary.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))

    def join(self, count: int, joined: Joined | None = None) -> str:
        """Put the parts together, if all are there; say so, or which machines have yet to make theirs.

        Args:
            count: how many parts there are.
            joined: how; by default, one is put behind the other.
        """
        with self._turn():
            if self._is_done():  # another machine was here first
                return f"{self.out}: done"
            missing = [number for number in range(count) if not self._part(number).exists()]
            if missing:
                waiting = Waiting(sorted({number % self.shard[1] + 1 for number in missing}))
                number, of = self.shard
                return f"{self.out}: shard {number}/{of} is done; {waiting} of {of} still to be run"
            forget_left(self.out)
            with replaced_file(self.out) as temporary, open(temporary, "wb") as whole:
                self.lacking = (joined or self._concatenated)(map(self._part, range(count)), whole)
            self._write(self._note, self._made_by | ({self._lacks: self.lacking} if self.lacking else {}))
            discard_folder(self.folder)
            return f"{self.out}: done"

    def _concatenated(self, parts: Iterator[Path], whole: IO[bytes]) -> list[str]:
        lacking: list[str] = []
        for number, place in enumerate(parts):
            with open(place, "rb") as part:
                shutil.copyfileobj(part, whole)
            lacking += json.loads(self._lacking(number).read_text(encoding="utf-8"))
        return lacking

    def check_whole(self) -> None:
        """Raise a DataError if the output is done and lacks sound files."""
        if self.lacking:
            named = plural(len(self.lacking), "sound file")
            raise DataError(f"{self.out}: lacks {named} that could not be translated: {LACKING} in {self._note}")

    def _turn(self) -> AbstractContextManager[None]:
        """Return the context in which no other machine looks at the output or its parts."""
        return locked(self.out.with_name(f".{self.out.name}.lock"))

    def _is_done(self) -> bool:
        return self.out.is_file() and not self.folder.exists()

    def _lacking(self, number: int) -> Path:
        return self.folder / f"lacking-{number:08d}.json"

    def _part(self, number: int) -> Path:
        return self.folder / f"{number:08d}"

    def _write(self, note: Path, content: Any) -> None:
        with replaced_file(note) as temporary:
            temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def _compare_begun(self) -> None:
        self._compare(self._begun, f"delete {self.folder}, or name another file")

    def _compare(self, note: Path, advice: str) -> dict[str, Any]:
        """Return a note, of an output that is made as this one."""
        before = read_record(note, {}, "a note of what was begun", advice)
        for name in sorted((before.keys() | self._made_by.keys()) - {self._lacks}):
            if before.get(name) != self._made_by.get(name):
                begun, now = before.get(name), self._made_by.get(name)
                raise UsageError(f"--out {self.out}: was begun with {name} {begun}, not {now}; {advice}")
        return before


def maker(model: Path, inputs: list[Path], **options: Any) -> dict[str, Any]:
    """Return what makes an output: the models, the files that are read, and options that are no defaults.

    Args:
        model: its folder.
        inputs: files of text, or sound files, which count by their sizes and times.
        **options: by name; of those that are dataclasses, their fields.
    """
    flat = {"model": model}
    for name, value in options.items():
        if hasattr(value, "__dataclass_fields__"):
            default = asdict(type(value)())
            flat |= {key: one for key, one in asdict(value).items() if one != default[key]}
        elif value is not None:
            flat[name] = value
    marks = {name: _mark(one) for name, one in flat.items() if name not in WITHOUT_EFFECT}
    return marks | {
        "inputs": _mark(inputs[0]) if len(inputs) == 1 else f"{len(inputs)} files ({fingerprint(_mark(inputs), {})})"
    }


def _mark(value: Any) -> Any:
    """Return a value as a note has it: a place beside what is in it; or raise a DataError.

    Of a sound file, which outputs name as it is given, it is this name, the size, and when it was changed.
    """
    if isinstance(value, list):
        return [_mark(one) for one in value]
    if not isinstance(value, Path):
        return value
    try:
        if value.is_dir():
            return f"{_place(value)} ({fingerprint_of_model(model_folder(value))})"
        check_regular(value, "file, which could be read twice")
        if value.suffix.lower() in AUDIO_SUFFIXES:
            status = value.stat()
            changed = datetime.fromtimestamp(status.st_mtime_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S")
            about = f"{status.st_size} bytes, changed {changed}.{status.st_mtime_ns % 10**9:09d}"
            return f"{printable(str(value))} ({about})"
        with open(value, "rb") as content:
            return f"{_place(value)} ({hashlib.file_digest(content, 'blake2b').hexdigest()[:16]})"
    except OSError as error:
        raise DataError(f"{value}: cannot be read ({error.strerror})") from error


def _place(path: Path) -> str:
    return printable(os.path.realpath(path))
