"""Mutate small corpora of each layout, and prepare and check each: what is wrong must be said in one line, and soon.

    python -m benchmarks.fuzzing.readers SECONDS [SEED] [LAYOUT ...]

Each try is a process of its own with a limit of time and memory. A traceback, a crash, a hang and two rows of one id
are shown with the seed of the try, which ``--again SEED`` repeats; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.fuzzing.bounds import bound_memory
from benchmarks.fuzzing.layouts import Files, Layout, layouts
from dragoman.commands.inspection import check_corpus
from dragoman.preparing.preparation import prepare
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.errors import DataError, UsageError

#: Seconds of a try, and bytes that it may have beside those of this process.
LIMIT, MEMORY = 30, 6 << 30

#: Bytes that stand for what nobody expects in a text, a table, JSON or yaml.
ODD = [b"\0", b"\xff\xfe", b"\xc3", b"\xef\xbb\xbf", b"\r", b"\r\n", b"\n\n", b"\t", b"\\", b'"', b'""', b"'", b" | "]
ODD += [b"nan", b"inf", b"-1", b"1e999", b"1e308", b"9" * 23, b"9" * 309, b"9" * 5000, b"-0", b"0x10", b"null", b"{}"]
ODD += [
    b"[]",
    b"true",
    b"[" * 3000,
    b"&a [*a]",
    b"../..",
    b"/",
    b".",
    b"/dev/zero",
    b"\xed\xb3\xbf",
    b"\\ud800",
    b"A" * 70000,
]
ODD += [b"#channel:0", b"#channel:9", b".parquet#audio:0", "\u2028\u200b\U0001f600".encode(), b"\x1f\x8b\x08"]

#: Values for a place in JSON, or a column of Parquet.
VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    1,
    10**309,
    10**18,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "a",
    "\ud800",
    "/",
    "\0",
]
VALUES += [[], [0], [0, 1], {}, {"a": 1}, "1.0", [[]], "average", "x" * 5000, 0.5, -0.0]


def main() -> int:
    """Run tries until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float, nargs="?", default=60.0)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("layouts", nargs="*", help="some of the readers' names; all by default")
    parser.add_argument("--again", type=int, help="the seed of one try")
    given = parser.parse_args()
    known = layouts()
    chosen = {name: known[name] for name in given.layouts or known}
    if given.again is not None:
        print(attempt(chosen, given.again) or "nothing")
        return 0
    end, seed, ends, failures = time.monotonic() + given.seconds, given.seed, Counter[str](), 0
    while time.monotonic() < end:
        if found := attempt(chosen, seed):
            failures += 1
            print(f"--again {seed}: {found}", flush=True)
        ends["wrong" if found else "right"] += 1
        seed += 1
    print(f"{ends.total()} tries from seed {given.seed} on, {failures} of them wrong")
    return failures > 0


def attempt(chosen: dict[str, Layout], seed: int) -> str:
    """Make, mutate, prepare and check a corpus in a process of its own; return what went wrong, "" for nothing."""
    folder = Path(tempfile.mkdtemp())
    report = folder / "report"
    child = os.fork()
    if not child:
        _child(chosen, seed, folder, report)
    try:
        end = time.monotonic() + LIMIT
        while (waited := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < end:
            time.sleep(0.005)
        if waited == (0, 0):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return f"no end after {LIMIT} s: {_read(report)}"
        return "" if waited[1] == 0 else f"status {waited[1]}: {_read(report)}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _read(report: Path) -> str:
    return report.read_text(errors="replace") if report.exists() else "no report"


def _child(chosen: dict[str, Layout], seed: int, folder: Path, report: Path) -> None:
    """Do a try, and end the process with 0, or 1 after a traceback in the report."""
    status = 0
    try:
        bound_memory(MEMORY)
        rng = random.Random(seed)
        name = rng.choice(sorted(chosen))
        files = dict(chosen[name].files)
        root = folder / "corpus"
        told = [f"{name}:"]
        special: dict[str, str] = {}
        for _ in range(rng.choice((1, 1, 2, 3))):
            mutate(files, special, rng, told)
        report.write_text(" ".join(told), errors="backslashreplace")
        _write(root, files, special)
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), 2)
            os.dup2(nothing.fileno(), 1)
        _use(chosen[name].reader, root, folder / "out", skip_bad=rng.random() < 0.5)
    except BaseException:
        with open(report, "a", errors="backslashreplace") as file:
            file.write("\n" + traceback.format_exc())
        status = 1
    os._exit(status)


def _use(reader: Callable[[Path], Any], root: Path, out: Path, *, skip_bad: bool) -> None:
    try:
        corpus = reader(root)
    except (DataError, UsageError):
        return
    try:
        for prepared in prepare(corpus, out, workers=1, skip_bad=skip_bad):
            ids = [row["id"] for row in Manifest.open(prepared.path)]
            assert len(set(ids)) == len(ids) == prepared.rows, "two rows of one id"
    except (DataError, UsageError):
        pass
    try:
        check_corpus(corpus, workers=1).findings.render()
    except (DataError, UsageError):
        pass


def _write(root: Path, files: Files, special: dict[str, str]) -> None:
    """Write the files, and what is to stand in the place of some."""
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content.replace(b"{root}", os.fsencode(root)))
    for name, kind in special.items():
        path = root / name
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        elif kind == "device":
            path.symlink_to("/dev/zero")
        elif kind == "loop":
            path.symlink_to(path.name)


def mutate(files: Files, special: dict[str, str], rng: random.Random, told: list[str]) -> None:
    """Change one file, and tell how."""
    name = rng.choice(sorted(files))
    content = files[name]
    ways: list[tuple[str, Callable[[], bytes | None]]] = [
        ("bytes", lambda: _bytes(content, rng)),
        ("bytes", lambda: _bytes(content, rng)),
        ("cut off", lambda: content[: rng.randrange(len(content) + 1)]),
        ("junk", lambda: rng.randbytes(rng.choice((0, 1, 40, 3000)))),
        ("line ends", lambda: content.replace(b"\n", b"\r\n")),
        ("mark", lambda: b"\xef\xbb\xbf" + content),
        ("special", lambda: None),
    ]
    if name.endswith((".json", ".jsonl")):
        ways += [("value", lambda: _json(content, rng))] * 8
    if name.endswith(".parquet"):
        ways += [("column", lambda: _parquet(content, rng))] * 8
    if name.endswith((".tsv", ".txt", ".lst", "segments", ".scp", "utt2spk", "channel", ".yaml")):
        ways += [("cell", lambda: _cell(content, rng))] * 8
    way, change = rng.choice(ways)
    try:
        changed = change()
    except Exception as error:  # what another change has broken
        changed, way = content, f"{way} ({type(error).__name__})"
    told.append(f"{way} of {name},")
    if changed is None:
        kind = rng.choice(("gone", "pipe", "folder", "device", "loop"))
        told.append(f"{kind},")
        special[name] = kind
    else:
        files[name] = changed


def _bytes(content: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(len(content) + 1)
        piece = rng.choice(ODD) if rng.random() < 0.7 else rng.randbytes(rng.randrange(1, 8))
        content = content[:place] + piece + content[place + rng.choice((0, 0, 1, len(piece), 30)) :]
    return content


def _cell(content: bytes, rng: random.Random) -> bytes:
    rows = content.split(b"\n")
    number = rng.randrange(max(len(rows) - 1, 1))
    mark = b"\t" if b"\t" in content else b" "
    cells = rows[number].split(mark)
    place = rng.randrange(len(cells))
    if rng.random() < 0.2:
        del cells[place]
    else:
        cells[place] = rng.choice([*ODD, b"", cells[0], b"x"])
    rows[number] = mark.join(cells)
    return b"\n".join(rows if rng.random() < 0.9 else [*rows[: number + 1], *rows[number:]])


def _json(content: bytes, rng: random.Random) -> bytes:
    rows = [json.loads(row) for row in content.splitlines() if row.strip()]
    holders: list[tuple[Any, Any]] = []

    def collect(value: Any) -> None:
        for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            holders.append((value, key))
            collect(value[key])

    collect(rows)
    holder, key = rng.choice(holders)
    if isinstance(holder, dict) and rng.random() < 0.2:
        del holder[key]
    elif isinstance(holder, list) and rng.random() < 0.3:
        holder.append(json.loads(json.dumps(holder[key])))
    else:
        holder[key] = rng.choice(VALUES)
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _parquet(content: bytes, rng: random.Random) -> bytes:
    columns = pq.read_table(io.BytesIO(content)).to_pydict()
    name = rng.choice(sorted(columns))
    way = rng.randrange(4)
    if way == 0:
        del columns[name]
    elif way == 1:
        columns[rng.choice(("x", "ID", "", "audio"))] = columns.pop(name)
    elif way == 2:
        columns[name] = [rng.choice((None, columns[name][0])) for _ in columns[name]]
    else:
        other = [[1, 2], ["1", "1"], [None, None], [True, False], [1.5, 2.5], [[1], [2]], [{"a": 1}, None], [b"x", b""]]
        other += [[{"bytes": None, "path": "a"}] * 2, [{"bytes": "text"}] * 2, ["", " "], [2**40, -1]]
        columns[name] = rng.choice(other)
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


if __name__ == "__main__":
    sys.exit(main())
