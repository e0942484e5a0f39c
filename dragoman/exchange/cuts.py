"""Manifests as cuts of lhotse, a JSON object a line in a ``.jsonl`` or ``.jsonl.gz``, written without lhotse."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.errors import DataError
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.sound.audio import open_audio
from dragoman.shared.sound.channels import split_channel
from dragoman.shared.sound.shards import place_in_shard


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
        DataError: if it has no sound in a file of its own, or is read from the mean of several channels.
    """
    audio = row.get("audio")
    if not audio or row.get("duration") is None or place_in_shard(audio) is not None:
        raise DataError(f"row {row['id']!r}: a cut needs a sound file and a duration, not {audio!r}")
    with open_audio(audio) as sound:
        rate, samples, width = sound.samplerate, sound.frames, sound.channels
    file, channel = split_channel(audio)
    if channel is None and width > 1:
        raise DataError(f"row {row['id']!r}: a cut has one channel, and the mean of {width} is read from {audio}")
    supervision: dict[str, Any] = {
        "id": row["id"],
        "recording_id": row.get("document") or Path(file).stem,
        "start": 0.0,
        "duration": row["duration"],
        "channel": channel or 0,
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
        "channel": channel or 0,
        "supervisions": [{key: value for key, value in supervision.items() if value is not None}],
        "recording": {
            "id": supervision["recording_id"],
            "sources": [{"type": "file", "channels": list(range(width)), "source": file}],
            "sampling_rate": rate,
            "num_samples": samples,
            "duration": samples / rate,
            "channel_ids": list(range(width)),
        },
        "type": "MonoCut",
    }
