"""Row groups of Parquet files that an epoch reads, with windows of several sizes and without.

    python -m benchmarks.row_groups [--rows 32000] [--group 100] [--windows 2000 8000 16000] [--workers 2] [--json FILE]

Shards with 1,000 bytes for a second of sound, a thirty-second part of what a WAV has, are written to a temporary folder
and read by the loader itself, in worker processes, an epoch for each window. What is counted has to come from a disk or
an object store: each row group that is read, and its bytes, in multiples of the files. Durations are those of
benchmarks/plan.py, so that padding can be told too: the smaller the window, the less alike are the rows of a batch.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from benchmarks.plan import lengths
from benchmarks.tables import table
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.batches.stream import Budget, Stream
from dragoman.shared.machine import remote
from dragoman.shared.sound import shards

#: Rows of a file.
SHARD = 4000


class Bytes(SpeechField):
    """The bytes of a sound, as long as it is, of which nothing is decoded."""

    def waveform(self, row: Row, speed: float) -> Tensor:
        """Return the first byte."""
        with shards.open_sound(row["audio"]) as file:
            return torch.tensor([float(file.read()[0])])


def write(folder: Path, rows: int, group: int) -> None:
    """Write the shards, and their manifest."""
    seconds = lengths(rows)[0].tolist()
    rng = np.random.default_rng(0)
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    listed = []
    for start in range(0, rows, SHARD):
        path, some = folder / f"train-{start}.parquet", seconds[start : start + SHARD]
        sounds = [{"bytes": rng.bytes(round(1000 * duration)), "path": "a.wav"} for duration in some]
        pq.write_table(pa.table({"audio": pa.array(sounds, kind)}), path, row_group_size=group)
        for number, duration in enumerate(some):
            place = {"audio": f"{path}#audio:{number}", "start": 0.0, "duration": duration}
            listed.append({"id": f"{start + number}"} | place)
    Manifest.write(folder / "train.arrow", listed)


def counted(folder: Path, window: int | None, workers: int, seconds: float) -> dict[str, object]:
    """Read an epoch and return what was decoded for it."""
    log = folder / "decoded.txt"
    log.write_bytes(b"")
    decode = shards._decoded

    def noted(path: str, column: str, group: int) -> object:
        size = shards.open_shard(path).metadata.row_group(group).total_byte_size
        with open(log, "a") as file:  # lines of several processes: each is one write
            file.write(f"{path}:{group} {size}\n")
        return decode(path, column, group)

    shards._decoded = noted
    os.environ[remote.VARIABLE] = str(folder / f"cache-{window}")
    try:
        stream = Stream(
            name="speech",
            manifests=[str(folder / "train.arrow")],
            fields={"speech": Bytes()},
            budget=Budget(seconds=seconds),
            window=window,
        )
        loader = Loader(streams=[stream], seed=1, workers=workers)
        read = sum(len(batch.ids) for batch in loader.epoch(0))
        loader.close()
    finally:
        shards._decoded = decode
    found = [line.split() for line in log.read_text().splitlines()]
    lengths_of = stream.table.lengths
    whole = sum(path.stat().st_size for path in folder.glob("*.parquet"))
    return {
        "window": window,
        "rows": read,
        "row_groups": len({place for place, _ in found}),
        "reads": len(found),
        "times_the_files": round(sum(int(size) for _, size in found) / whole, 2),
        "padding": round(100 * float(loader.plan(0).passes[0][0].padding(lengths_of, lengths_of)[0]), 1),
    }


def main() -> None:
    """Count, print, and write JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=32000)
    parser.add_argument("--group", type=int, default=100, help="rows of a row group")
    parser.add_argument("--windows", type=int, nargs="+", default=[2000, 8000, 16000])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=400.0, help="of sound in a batch")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), given.rows, given.group)
        found = [counted(Path(name), window, given.workers, given.seconds) for window in (None, *given.windows)]
    head = ["window", "row groups", "reads", "times the files", "padding"]
    keys = ("row_groups", "reads", "times_the_files")
    rows = [[str(one["window"] or "none"), *(f"{one[key]:,}" for key in keys), f"{one['padding']} %"] for one in found]
    print("\n".join(table([head, *rows])))
    if given.json:
        given.json.write_text(json.dumps(vars(given) | {"found": found}, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
