"""Costs of planning at 1e5, 1e6 and 1e7 rows, and the share of padding in the batches.

    python benchmarks/plan.py [--rows 100000 1000000 10000000] [--processes 1] [--json FILE]

Each size is measured in processes of its own, which train together: seconds of opening the manifest, of counting and
filtering its rows with the token counts of a sidecar, of planning an epoch, and of all that a start does, the lines of
the log included; and the memory that belongs to a process alone, beside that of Python, torch and Arrow: the most at
any time, and in the end, of the process that has most. Tables and plans of a million rows and more are mapped.
Manifest and sidecars are written by this program, column by column, with rows of these lengths:

    seconds      log-normal (median 4.7, sigma 0.7), cut to [0.5, 30]; the mean is 5.9, that of MuST-C v1 En-De 6.1
    characters   15 a second, times a log-normal factor (sigma 0.25) for how fast people speak
    source       characters / 3.9 pieces, times a log-normal factor (sigma 0.1), and 2 symbols
    target       1.1 * characters / 3.9 pieces, times a log-normal factor (sigma 0.15), and 2 symbols

Padding is given for three ways to make batches within the same budget: rows in random order; sorted by the first field
alone; and as the plan does, by two.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.manifest import BATCH_ROWS, COLUMNS, Manifest
from dragoman.shared.batches.plan import cut
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.batches.steps import Pass
from dragoman.shared.batches.stream import Budget, Stream
from dragoman.shared.text.piece_model import train_sentencepiece
from dragoman.shared.text.tokenizer import SentencePieceTokenizer


def lengths(rows: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return seconds, source pieces and target pieces, without symbols, (rows,) each."""
    draw = np.random.default_rng(seed)
    seconds = np.clip(draw.lognormal(1.55, 0.7, rows), 0.5, 30)
    characters = 15 * seconds * draw.lognormal(0, 0.25, rows)
    source = characters / 3.9 * draw.lognormal(0, 0.1, rows)
    target = 1.1 * characters / 3.9 * draw.lognormal(0, 0.15, rows)
    return seconds, np.ceil(source).astype(np.int32), np.ceil(target).astype(np.int32)


def write(folder: Path, rows: int) -> None:
    """Write ``train.arrow`` as shared/batches/manifest.py describes it, the sidecars, and a tokenizer."""
    seconds, source, target = lengths(rows)
    schema = pa.schema([pa.field(name, kind) for name, kind in COLUMNS.items()])
    path, words = folder / "train.arrow", "a line of text of some length"
    with pa.ipc.new_file(str(path), schema) as writer:
        for start in range(0, rows, BATCH_ROWS):
            count = min(BATCH_ROWS, rows - start)
            numbers = pa.array(np.arange(start, start + count))
            values = {
                "id": numbers.cast(pa.string()),
                "audio": pa.array([f"/data/{start}.wav"] * count),
                "start": pa.array(np.zeros(count)),
                "duration": pa.array(seconds[start : start + count]),
            }
            texts = {"source_text": words, "source_language": "en", "target_text": words, "target_language": "de"}
            values |= {name: pa.array([text] * count) for name, text in texts.items()}
            columns = [values.get(field.name, pa.nulls(count, field.type)) for field in schema]
            writer.write_batch(pa.record_batch(columns, schema=schema))
        trailer = {"version": "1", "rows": rows, "batch_rows": BATCH_ROWS, "fingerprint": f"{rows:032d}"}
        empty = pa.record_batch([pa.array([], type=field.type) for field in schema], schema=schema)
        writer.write_batch(empty, custom_metadata={"manifest": json.dumps(trailer)})
    texts = [f"{words} number {number} of many" for number in range(2000)]
    train_sentencepiece(texts, folder / "tokenizer.model", kind="bpe", size=320)
    key = SentencePieceTokenizer(model=str(folder / "tokenizer.model"), tags=["en", "de"]).fingerprint
    for column, counts in (("source_text", source), ("target_text", target)):
        table = pa.table({"length": counts})
        name = f".lengths-{key}-{column}-{Manifest.open(path).fingerprint[:16]}.arrow"
        with pa.ipc.new_file(str(folder / name), table.schema) as writer:
            writer.write_table(table)


def private(process: int | str = "self") -> float:
    """Return the MB of memory that belong to a process alone (anonymous pages), 0 for one that has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return int(next((line.split()[1] for line in lines if line.startswith("RssAnon")), 0)) / 1024


def streams(folder: Path) -> list[Stream]:
    """Return a stream of speech and one of text."""
    tokenizer = SentencePieceTokenizer(model=str(folder / "tokenizer.model"), tags=["en", "de"])
    source, target = TextField(column="source_text", tokenizer=tokenizer), TextField(tokenizer=tokenizer)
    manifests = [str(folder / "train.arrow")]
    speech = {"speech": SpeechField(), "target": target}
    return [
        Stream(name="speech", manifests=manifests, fields=speech, budget=Budget(seconds=400)),
        Stream(
            name="text", manifests=manifests, fields={"source": source, "target": target}, budget=Budget(tokens=4096)
        ),
    ]


def naive(stream: Stream, order: np.ndarray) -> Pass:
    """Cut batches from rows in a given order."""
    table = stream.table
    return Pass(order, np.zeros_like(order), cut(table.capacities[order], np.zeros(len(order), dtype=np.int32)))


def measure(folder: Path, number: int, rank: int, world: int) -> dict[str, object]:
    """Measure in this process, with the first stream (speech) or the second (text)."""
    stream = streams(folder)[number]
    before, start, start_cpu = private(), time.perf_counter(), time.process_time()
    Manifest.open(folder / "train.arrow")
    opened = time.perf_counter() - start
    loader = Loader(streams=[stream], seed=1, rank=rank, world=world, planned=8, mapped_in=folder / "plans")
    clock = time.perf_counter()
    table = stream.table
    counted = time.perf_counter() - clock
    clock, cpu = time.perf_counter(), time.process_time()
    plan = loader.plan(0)
    planned = time.perf_counter() - clock
    planned_cpu = time.process_time() - cpu
    loader.report()
    result: dict[str, object] = {
        "stream": stream.name,
        "rows": len(table.capacities),
        "open_s": round(opened, 3),
        "table_s": round(counted, 2),
        "plan_s": round(planned, 2),
        "plan_cpu_s": round(planned_cpu, 2),
        "start_s": round(time.perf_counter() - start, 2),
        "start_cpu_s": round(time.process_time() - start_cpu, 2),
        "before_mb": round(before),
        "private_mb": round(private() - before),
        "plan_mb": round(plan.nbytes / 2**20),
        "steps": len(plan),
        "padding": rounded(plan.passes[0][0].padding(table.lengths, table.lengths)),
    }
    rows = np.random.default_rng(0).permutation(len(table.capacities)).astype(np.int32)
    if len(rows) <= 250_000 and rank == 0:
        result["padding_random"] = rounded(naive(stream, rows).padding(table.lengths, table.lengths))
        one = rows[np.argsort(table.lengths[0][rows], kind="stable")]
        result["padding_one_field"] = rounded(naive(stream, one).padding(table.lengths, table.lengths))
    return result


def rounded(shares: np.ndarray) -> list[float]:
    """Return shares in percent."""
    return [round(100 * float(share), 1) for share in shares]


def together(folder: Path, stream: int, processes: int) -> dict[str, object]:
    """Measure in several processes at once; return the largest of what each has found, and the most memory of one."""
    shutil.rmtree(folder / "plans", ignore_errors=True)
    command = [sys.executable, __file__, "--measure", str(folder), "--stream", str(stream)]
    command += ["--processes", str(processes), "--rank"]
    started = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank in range(processes)
    ]
    most = [0.0] * processes
    while any(one.poll() is None for one in started):
        most = [max(before, private(one.pid)) for before, one in zip(most, started, strict=True)]
        time.sleep(0.005)
    found = []
    for one in started:
        output, errors = one.communicate()
        if one.returncode:
            sys.exit(errors)
        found.append(json.loads(output))
    result = {name: max(one[name] for one in found if name in one) for name in found[0]}
    before = int(result.pop("before_mb"))
    return result | {"processes": processes, "peak_mb": round(max(most)) - before}


def main() -> None:
    """Measure each size in a process, print a table, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 250_000, 1_000_000, 10_000_000])
    parser.add_argument("--processes", type=int, default=1, help="that start together on this machine, at most 8")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--stream", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.stream, arguments.rank, arguments.processes)))
        return
    results = []
    names = [
        "stream",
        "rows",
        "processes",
        "open_s",
        "table_s",
        "plan_s",
        "plan_cpu_s",
        "start_s",
        "start_cpu_s",
        "plan_mb",
    ]
    names += ["private_mb", "peak_mb", "steps", "padding", "padding_one_field", "padding_random"]
    print("  ".join(f"{name:>12}" for name in names), flush=True)
    for rows in arguments.rows:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), rows)
            for stream in (0, 1):
                results.append(together(Path(folder), stream, arguments.processes))
                print(
                    "  ".join(f"{shown(results[-1].get(name, '')):>{max(12, len(name))}}" for name in names), flush=True
                )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


def shown(value: object) -> str:
    """Return a cell of the table."""
    if isinstance(value, list):
        return " ".join(f"{share}%" for share in value)
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    main()
