"""The record of which splits of a corpus are prepared, so that none is prepared twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dragoman.preparing.report import SplitReport
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.described import describe
from dragoman.shared.errors import DataError, one_line, shortened
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.machine.nesting import from_json
from dragoman.shared.preparing.reader import Corpus


class Finished:
    """The splits that are done, in ``prepared.json``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.splits: dict[str, Any] = {}
        if path.exists():
            try:
                self.splits = dict(from_json(path.read_text(encoding="utf-8"))["splits"])
            except (ValueError, KeyError, TypeError) as error:
                raise self._error(error) from error

    def get(self, split: str, fingerprint: str, manifest: Path) -> SplitReport | None:
        """Return the report of a split if nothing has changed since and its manifest is the one written then.

        Raises:
            DataError: if the record is damaged.
        """
        if split not in self.splits:
            return None
        try:
            entry = dict(self.splits[split])
            prepared_from, written = entry["fingerprint"], entry["manifest"]
            report = SplitReport.from_json({**entry["report"], "path": str(manifest)})
        except (KeyError, TypeError, ValueError) as error:
            raise self._error(error) from error
        if prepared_from != fingerprint or not manifest.exists():
            return None
        try:
            return report if Manifest.open(manifest).fingerprint == written else None
        except DataError:  # damaged: it is written again
            return None

    def _error(self, error: Exception) -> DataError:
        reason = f"{error} is missing" if isinstance(error, KeyError) else shortened(one_line(error), 200)
        return DataError(f"{self.path}: not what prepare writes ({reason}); delete it to prepare anew")

    def add(self, split: str, fingerprint: str, report: SplitReport, corpus: Corpus) -> None:
        """Note a split of a corpus as done, by the report on its manifest."""
        self.splits[split] = {
            "fingerprint": fingerprint,
            "manifest": Manifest.open(Path(report.path)).fingerprint,
            "report": report.to_json(),
        }
        content = {"corpus": corpus.name, "arguments": describe(corpus.arguments), "splits": self.splits}
        with replaced_file(self.path) as temporary:
            # Names of files that are not UTF-8 are lone surrogates: backslashreplace writes them as JSON does.
            text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
            temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
