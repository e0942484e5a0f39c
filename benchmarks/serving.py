"""``dragoman serve`` beside faster-whisper behind the simplest FastAPI app, with the same Whisper, machine and clients.

    python -m benchmarks.serving MODEL CONVERTED SOUNDS --python PYTHON [--clients 1 4 16] [--requests 40] [--rounds 3]

MODEL is an imported Whisper, CONVERTED a folder of the same weights as ct2-transformers-converter writes it, with
tokenizer.json, SOUNDS a folder of recordings in one language, none longer than a window of 20 s, PYTHON the interpreter
of an environment with what benchmarks/serving_theirs.py needs. Each server is a process of its own, and alone while it
runs; round by round they take turns, in an order that rotates. So many clients at a time send one recording after the
other over loopback, each as soon as its last answer has come; there are as many requests for each number of clients.

Both are asked for the same: beam 5, no times, one window a recording, no second try at another temperature, no detector
of speech. Answers that differ from the first one to the same recording are counted: nobody's answer may depend on who
else was asking. How far the texts of two servers are apart is told by the word errors between them: faster-whisper pads
features with zeros, ours sound with silence.

It prints for each server and number of clients the requests and the seconds of sound a second (median of rounds), the
50th and 99th percentile of seconds to an answer (of all rounds), CPU seconds a second of sound, and the peak of memory
of all its processes, with loading. Wall time means something on an idle machine only.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.side_by_side import ROOT, cores, environment, machine

BEAM = 5
NAME = "whisper"
ARMS = {
    "ours fp32": ("ours", "fp32"),
    "ours bf16": ("ours", "bf16"),
    "ours int8": ("ours", "int8"),
    "faster-whisper float32": ("theirs", "float32"),
    "faster-whisper int8": ("theirs", "int8"),
}
#: Seconds for a server to be ready, and for an answer.
PATIENCE = 600


class Sound(NamedTuple):
    """A recording: its name, its bytes and its seconds."""

    name: str
    data: bytes
    seconds: float


class Measured(NamedTuple):
    """One server, asked by some clients: seconds of all requests and of each, CPU seconds, bytes, changed answers."""

    seconds: float
    sound: float
    latencies: list[float]
    cpu_seconds: float
    peak: int
    changed: int


class Server:
    """A server that runs.

    Args:
        process: its first process.
        port: its own.
    """

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process, self.port = process, port

    def processes(self) -> list[Path]:
        """Return the folders in /proc of the process and all that it has started."""
        found = [self.process.pid]
        for pid in found:
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        return [Path(f"/proc/{pid}") for pid in found]

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of all processes so far."""
        fields = [(place / "stat").read_text().rpartition(")")[2].split() for place in self.processes()]
        return sum(int(number) for one in fields for number in one[11:13]) / os.sysconf("SC_CLK_TCK")

    def peak(self) -> int:
        """Return the sum of the most bytes that each process has had in memory."""
        lines = [line for place in self.processes() for line in (place / "status").read_text().splitlines()]
        return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def command(arm: str, given: argparse.Namespace, port: int) -> list[str]:
    """Return the command of a server."""
    kind, precision = ARMS[arm]
    if kind == "theirs":
        program = str(ROOT / "benchmarks" / "serving_theirs.py")
        words = [str(given.converted), precision, port, given.threads, given.language, BEAM]
        return [given.python, program, *map(str, words)]
    search = ["--beam", str(BEAM), "--keep-silence", "--device", "cpu", "--precision", precision]
    limits = ["--requests", "1000", "--requests-per-client", "1000", "--deadline", str(PATIENCE)]
    words = ["-m", "dragoman", "serve", f"{NAME}={given.model}", "--port", str(port)]
    return [sys.executable, *words, *search, *limits]


@contextmanager
def running(arm: str, given: argparse.Namespace) -> Iterator[Server]:
    """Start a server, wait until it is ready, and end it."""
    import httpx2

    with socket.create_server(("127.0.0.1", 0)) as place:
        port = place.getsockname()[1]
    process = subprocess.Popen(command(arm, given, port), env=environment(given.threads), stdout=subprocess.DEVNULL)
    until = time.monotonic() + PATIENCE
    try:
        while True:
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{arm}: the server did not start (exit code {process.returncode})")
            try:
                if httpx2.get(f"http://127.0.0.1:{port}/ready").status_code == 200:
                    break
            except httpx2.TransportError:
                time.sleep(0.2)
        yield Server(process, port)
    finally:
        process.terminate()
        process.wait()


def asked(server: Server, language: str, sounds: Sequence[Sound], clients: int, texts: dict[str, str]) -> Measured:
    """Let clients ask for recordings until all have been answered.

    Args:
        server: that runs.
        language: of the recordings.
        sounds: one for each request.
        clients: how many ask at a time.
        texts: the answers to recordings so far, which are added to.

    Raises:
        SystemExit: if an answer is an error.
    """
    import httpx2

    waiting: queue.SimpleQueue[Sound] = queue.SimpleQueue()
    for sound in sounds:
        waiting.put(sound)
    latencies: list[float] = []
    wrong: list[str] = []
    changed: list[str] = []

    def client() -> None:
        with httpx2.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=PATIENCE) as web:
            fields = {"model": NAME, "language": language}
            while not wrong:
                try:
                    sound = waiting.get_nowait()
                except queue.Empty:
                    return
                start = time.perf_counter()
                try:
                    files = {"file": (sound.name, sound.data)}
                    answer = web.post("/v1/audio/transcriptions", data=fields, files=files)
                    latencies.append(time.perf_counter() - start)
                    text = answer.raise_for_status().json()["text"]
                except httpx2.HTTPError as error:
                    wrong.append(f"{sound.name}: {error}")
                    return
                if texts.setdefault(sound.name, text) != text:
                    changed.append(sound.name)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    cpu, start = server.cpu_seconds(), time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start
    if wrong:
        raise SystemExit(wrong[0])
    sound_seconds = sum(sound.seconds for sound in sounds)
    return Measured(seconds, sound_seconds, latencies, server.cpu_seconds() - cpu, server.peak(), len(changed))


def read(folder: Path) -> list[Sound]:
    """Return the recordings of a folder.

    Raises:
        SystemExit: if there are none, or one needs more than a window.
    """
    import soundfile

    sounds = [Sound(path.name, path.read_bytes(), soundfile.info(path).duration) for path in sorted(folder.iterdir())]
    long = [sound.name for sound in sounds if sound.seconds > 20]
    if long or not sounds:
        raise SystemExit(f"{folder}: {long[0] + ' is longer than 20 s' if long else 'holds no recordings'}")
    return sounds


def row(arm: str, clients: int, rounds: Sequence[Measured]) -> str:
    """Return a line of the table."""
    latencies = [seconds for one in rounds for seconds in one.latencies]
    middle, late = np.percentile(latencies, [50, 99])
    rate = statistics.median(len(one.latencies) / one.seconds for one in rounds)
    sound = statistics.median(one.sound / one.seconds for one in rounds)
    cpu = statistics.median(one.cpu_seconds / one.sound for one in rounds)
    peak = max(one.peak for one in rounds) / 1e6
    return f"| {clients} | {arm} | {rate:.2f} | {sound:.1f} | {middle:.2f} | {late:.2f} | {cpu:.3f} | {peak:,.0f} MB |"


def main(words: Sequence[str] | None = None) -> None:
    """Print a line for each number of clients and server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder of an imported Whisper")
    parser.add_argument("converted", type=Path, help="folder of CTranslate2")
    parser.add_argument("sounds", type=Path, help="folder of recordings of up to 20 s")
    parser.add_argument("--python", default=sys.executable, help="with faster-whisper and FastAPI")
    parser.add_argument("--language", default="fr", help="of the recordings")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--requests", type=int, default=40, help="for each number of clients, in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=cores(), help="of each server")
    parser.add_argument("--arms", nargs="+", default=[*ARMS], choices=[*ARMS])
    parser.add_argument("--out", type=Path, help="file for all that was measured, JSON")
    given = parser.parse_args(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the server, too
    sounds = read(given.sounds)
    chosen = [sounds[number % len(sounds)] for number in range(given.requests)]
    texts: dict[str, dict[str, str]] = {arm: {} for arm in given.arms}
    found: dict[tuple[int, str], list[Measured]] = {(n, arm): [] for n in given.clients for arm in given.arms}
    for number in range(given.rounds):
        first = number % len(given.arms)
        for arm in given.arms[first:] + given.arms[:first]:
            with running(arm, given) as server:
                asked(server, given.language, chosen[:2], 1, texts[arm])  # warm
                for clients in given.clients:
                    found[clients, arm].append(asked(server, given.language, chosen, clients, texts[arm]))
                    line = row(arm, clients, found[clients, arm][-1:])
                    print(f"round {number + 1}, load {os.getloadavg()[0]:.1f}: {line}", flush=True)
    if given.out is not None:
        measured = [
            {"arm": arm, "clients": clients, "rounds": [one._asdict() for one in rounds]}
            for (clients, arm), rounds in found.items()
        ]
        whole = {"machine": machine(), "threads": given.threads, "texts": texts, "measured": measured}
        given.out.write_text(json.dumps(whole, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    from dragoman.shared.evaluation.metrics import EditRate

    names = [*dict.fromkeys(sound.name for sound in chosen)]
    first_texts = [texts[given.arms[0]][name] for name in names]
    metric = EditRate("wer", [first_texts], given.language)
    print(
        f"\n{len(names)} recordings, {given.requests} requests a round, {given.rounds} rounds; {given.threads} threads"
    )
    for arm in given.arms:
        changed = sum(one.changed for (_, name), rounds in found.items() if name == arm for one in rounds)
        print(f"{arm}: {changed} answers differ from the first one to their recording")
    for arm in given.arms[1:]:
        rate = metric.count([texts[arm][name] for name in names]).score
        print(f"word errors of {arm} against {given.arms[0]}: {rate:.1f}")
    print("\n| clients | server | requests/s | sound/s | 50 % (s) | 99 % (s) | CPU s / s of sound | memory |")
    print("|---:|---|---:|---:|---:|---:|---:|---:|")
    for (clients, arm), rounds in found.items():
        print(row(arm, clients, rounds))


if __name__ == "__main__":
    main()
