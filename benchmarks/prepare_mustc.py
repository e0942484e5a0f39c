"""Time that it takes to prepare a corpus of MuST-C's size: 250,000 segments in 2,500 talks, with silent recordings.

    python benchmarks/prepare_mustc.py [--segments 50000 250000] [--listen]

Prints CPU seconds and peak memory of reading the yaml and of the whole of ``prepare``, for each size in a process of
its own, so that the memory can be compared; with ``--listen`` those of ``check`` too, which decodes every sample. The
recordings are sparse files, a header and a hole: the disk holds nothing of them, and ``prepare`` reads headers only.
The floor is one pass over about 60 MB of text.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import struct
import tempfile
import time
from pathlib import Path

from dragoman.commands.inspection import check_corpus
from dragoman.preparing.preparation import prepare
from dragoman.st.corpora.mustc import MustC

PER_TALK = 100


def write(root: Path, segments: int) -> None:
    """Write the layout of MuST-C v1."""
    place = root / "en-de" / "data" / "train"
    (place / "wav").mkdir(parents=True)
    (place / "txt").mkdir()
    draw = random.Random(1)
    with (
        open(place / "txt" / "train.yaml", "w") as yaml,
        open(place / "txt" / "train.en", "w") as english,
        open(place / "txt" / "train.de", "w") as german,
    ):
        for talk in range(segments // PER_TALK):
            offset = 10.0
            for _ in range(PER_TALK):
                duration = draw.uniform(1, 12)
                yaml.write(
                    f"- {{duration: {duration:.6f}, offset: {offset:.6f}, rW: 12, uW: 0, "
                    f"speaker_id: spk.{talk}, wav: ted_{talk}.wav}}\n"
                )
                english.write(" ".join(["and so we went"] * draw.randrange(1, 9)) + ".\n")
                german.write(" ".join(["und so gingen wir"] * draw.randrange(1, 9)) + ".\n")
                offset += duration + 0.3
            silence(place / "wav" / f"ted_{talk}.wav", round((offset + 5) * 16000))


def silence(path: Path, samples: int) -> None:
    """Write a 16 kHz mono wav whose samples are a hole in the file."""
    size = 2 * samples
    with open(path, "wb") as file:
        file.write(
            b"RIFF"
            + struct.pack("<I", 36 + size)
            + b"WAVEfmt "
            + struct.pack("<IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16)
        )
        file.write(b"data" + struct.pack("<I", size))
        file.truncate(44 + size)


def cpu() -> float:
    """Return the CPU seconds of this process and its finished children."""
    return sum(
        use.ru_utime + use.ru_stime for use in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def measure(segments: int, listen: bool) -> None:
    """Make a corpus, prepare it (and check it), and print JSON."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write(root / "corpus", segments)
        result: dict[str, float] = {"segments": segments, "memory_before_mb": memory(resource.RUSAGE_SELF)}
        corpus = MustC(root=str(root / "corpus"), splits=["train"])
        before = cpu()
        assert sum(1 for _ in corpus.rows("train")) == segments
        result["reading_cpu_seconds"] = round(cpu() - before, 1)
        before, clock = cpu(), time.monotonic()
        (report,) = prepare(corpus, root / "manifests")
        result |= {
            "hours": round(report.hours, 1),
            "prepare_cpu_seconds": round(cpu() - before, 1),
            "prepare_seconds": round(time.monotonic() - clock, 1),
            "peak_memory_mb": memory(resource.RUSAGE_SELF),
            "peak_memory_of_a_worker_mb": memory(resource.RUSAGE_CHILDREN),
        }
        if listen:
            before, clock = cpu(), time.monotonic()
            check_corpus(corpus)
            result["check_cpu_seconds"] = round(cpu() - before, 1)
            result["check_seconds"] = round(time.monotonic() - clock, 1)
            result["check_peak_memory_mb"] = memory(resource.RUSAGE_SELF)
    print(json.dumps(result), flush=True)


def memory(who: int) -> int:
    """Return the most memory that this process, or one of its finished children, has had, in MB."""
    return resource.getrusage(who).ru_maxrss // 1024


def main() -> None:
    """Measure each size in a process of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--segments", type=int, nargs="+", default=[50_000, 250_000])
    parser.add_argument("--listen", action="store_true", help="measure dragoman check too, which decodes every sample")
    arguments = parser.parse_args()
    for segments in arguments.segments:
        task = (segments // PER_TALK * PER_TALK, arguments.listen)
        process = multiprocessing.get_context("spawn").Process(target=measure, args=task)
        process.start()
        process.join()


if __name__ == "__main__":
    main()
