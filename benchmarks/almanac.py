"""Time in which Almanac's second world is written: texts of six languages, spoken utterances (docs/almanac.md).

    python -m benchmarks.almanac [--sentences 20000] [--utterances 2800] [--workers 2]

20,000 sentences of each of six languages are to be written within 10 s, 2,800 utterances within 30 s on two cores. Each
is a process of its own, so that no table is there from before. CPU seconds are those of all processes; on a quiet
machine the wall time of speaking is about that divided by the number of cores.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Sequence
from typing import Any

LANGUAGES = ["en", "de", "fr", "ru", "tr", "zh"]

#: Of the utterances, the shares of dev and the two tests: those of Almanac's defaults.
SHARES = {"dev": 200 / 2800, "tst-COMMON": 300 / 2800, "tst-HE": 300 / 2800}


def texts(sentences: int) -> dict[str, Any]:
    """Return the settings of monolingual texts: each language's are drawn for itself."""
    sizes = {"monolingual": sentences, "dev": 1}
    return {"languages": LANGUAGES, "layouts": ["monolingual"], "sizes": sizes}


def speech(utterances: int, workers: int) -> dict[str, Any]:
    """Return the settings of talks in the layout of MuST-C."""
    sizes = {split: max(round(share * utterances), 1) for split, share in SHARES.items()}
    sizes["train"] = utterances - sum(sizes.values())
    return {"languages": ["en", "de"], "layouts": ["mustc"], "sizes": sizes, "workers": workers}


def write(name: str, settings: dict[str, Any]) -> None:
    """Write a corpus and print how long it took; for a process of its own."""
    from dragoman.almanac import Almanac

    with tempfile.TemporaryDirectory() as folder:
        clock = time.perf_counter()
        Almanac(root=folder, world=2, **settings).write()
        seconds = time.perf_counter() - clock
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu = sum(use.ru_utime + use.ru_stime for use in used)
    print(f"{name}: {seconds:.1f} s, {cpu:.1f} CPU seconds with starting Python", flush=True)


def main(words: Sequence[str] | None = None) -> None:
    """Write both corpora, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=20_000, help="of each language; 0: none")
    parser.add_argument("--utterances", type=int, default=2800, help="0: none")
    parser.add_argument("--workers", type=int, default=2, help="speaking processes")
    given = parser.parse_args(words)
    jobs = []
    if given.sentences:
        jobs.append((f"{given.sentences:,} sentences of {len(LANGUAGES)} languages", texts(given.sentences)))
    if given.utterances:
        jobs.append((f"{given.utterances:,} utterances", speech(given.utterances, given.workers)))
    for job in jobs:
        process = multiprocessing.get_context("spawn").Process(target=write, args=job)
        process.start()
        process.join()
        if process.exitcode:
            raise SystemExit(f"{job[0]}: the process that writes has ended with status {process.exitcode}")


if __name__ == "__main__":
    main()
