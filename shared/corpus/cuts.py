"""Manifests as cuts of lhotse, a JSON object a line in a ``.jsonl`` or ``.jsonl.gz``, written without lhotse."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

from shared.corpus.audio import probe_header
from shared.corpus.manifest import Manifest, Row
from shared.corpus.shards import place_in_shard
from shared.errors import DataError
from shared.machine.files import replaced_file


def write_cuts(manifest: Manifest, path: Path) -> int:
    """Write the rows of a manifest as cuts, one with one supervision a row; return their number.

    The translation is ``custom.translation`` of the supervision, by language: ``{"de": "Wie geht es?"}``.

    Raises:
        DataError: if a row has no sound of its own, or its file cannot be read.

    """
    count = 0
    with replaced_file(path) as temporary, open(temporary, "wb") as raw:
        # Without a time of day, the same rows give the same bytes.
        compressed = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if path.suffix == ".gz" else raw
        with io.TextIOWrapper(compressed, encoding="utf-8") as file:
            for row in manifest:
                file.write(json.dumps(cut_of(row), ensure_ascii=False) + "\n")
                count += 1
    return count


def cut_of(row: Row) -> dict[str, Any]:
    """Return a row as a cut.

    Raises:
        DataError: if it has no sound in a file of its own.

    """
    audio = row.get("audio")
    if not audio or row.get("duration") is None or place_in_shard(audio) is not None:
        raise DataError(f"row {row['id']!r}: a cut needs a sound file and a duration, not {audio!r}")
    rate, samples = probe_header(audio)
    supervision: dict[str, Any] = {
        "id": row["id"],
        "recording_id": row.get("document") or Path(audio).stem,
        "start": 0.0,
        "duration": row["duration"],
        "channel": 0,
        "text": row.get("source_text"),
        "language": row.get("source_language"),
        "speaker": row.get("speaker"),
    }
    if row.get("target_text") is not None:
        supervision["custom"] = {"translation": {row["target_language"]: row["target_text"]}}
    return {
        "id": row["id"],
        "start": row.get("start") or 0.0,
        "duration": row["duration"],
        "channel": 0,
        "supervisions": [{key: value for key, value in supervision.items() if value is not None}],
        "recording": {
            "id": supervision["recording_id"],
            "sources": [{"type": "file", "channels": [0], "source": audio}],
            "sampling_rate": rate,
            "num_samples": samples,
            "duration": samples / rate,
            "channel_ids": [0],
        },
        "type": "MonoCut",
    }
