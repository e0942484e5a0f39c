"""A journal of what was found in the sound files of a split, so that nothing has to be looked at twice."""

from __future__ import annotations

import json
import math
import os
from array import array
from pathlib import Path
from typing import IO, Any

from dragoman.preparing.probing import Finding
from dragoman.shared.machine.files import names_when_full
from dragoman.shared.machine.nesting import from_json

_COMPLETE = {"complete": True}


class Journal:
    """The findings of finished chunks, a line of JSON each, behind a line with the fingerprint they hold for.

    A line that a kill left unfinished is cut off when the journal is opened again. A journal of a part of the chunks
    ends with a line that says that the part is complete.
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        """Take the file and the fingerprint of what is being prepared; nothing is opened yet."""
        self.path = path
        self.fingerprint = fingerprint
        self.complete = False
        self._chunks: dict[int, array[float]] = {}
        self._file: IO[str] | None = None

    def __enter__(self) -> Journal:
        whole = self.read()
        if not whole:
            with names_when_full(self.path):
                self.path.write_text(json.dumps({"fingerprint": self.fingerprint}) + "\n", encoding="utf-8")
        else:
            os.truncate(self.path, whole)
        self._file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115  closed by __exit__
        return self

    def __exit__(self, *failure: object) -> None:
        if self._file is not None:
            with names_when_full(self.path):
                self._file.close()

    def find(self, number: int, size: int) -> list[Finding] | None:
        """Return what was found in the ``size`` rows of a chunk, None if that is not known."""
        chunk = self._chunks.get(number)
        if chunk is None or len(chunk) != size:
            return None
        return [None if math.isnan(value) else value for value in chunk]

    def read(self) -> int:
        """Load the chunks; return how many bytes of the file are whole lines of this fingerprint."""
        whole = 0
        if not self.path.exists():
            return whole
        with open(self.path, "rb") as file:
            for line in file:
                try:
                    entry = from_json(line) if line.endswith(b"\n") else None
                    if entry is None or (whole == 0 and entry != {"fingerprint": self.fingerprint}):
                        break
                    if whole:
                        self._note(entry)
                except (ValueError, TypeError, OverflowError):
                    break
                whole += len(line)
        return whole

    def _note(self, entry: Any) -> None:
        if entry == _COMPLETE:
            self.complete = True
        else:
            number, findings = entry
            self._chunks[number] = array("d", [math.nan if value is None else value for value in findings])

    def add(self, number: int, findings: list[Finding]) -> None:
        """Note a chunk in which every segment is sound; those without audio are not worth noting."""
        if number not in self._chunks and any(findings) and not any(isinstance(finding, str) for finding in findings):
            self._write([number, findings])

    def finish(self) -> None:
        """Note that all chunks of the part have been looked at."""
        if not self.complete:
            self._write(_COMPLETE)
            self.complete = True

    def _write(self, entry: Any) -> None:
        if self._file is None:
            raise ValueError(f"{self.path}: the journal is not open")
        with names_when_full(self.path):
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()
