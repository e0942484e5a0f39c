"""Changes the JSON files of model folders at random, and loads or imports what comes out.

    python -m benchmarks.fuzzing.model_folders FOLDER ... [--count 500] [--until SECONDS] [--seed 1] [--seconds 20]

Each folder is one of ours, or one in Hugging Face's layout. Each try is a process of its own with bounded memory and
time, which loads the folder and lets the model read or translate something. Right is that it works, or is refused in
one line that names the folder. Printed are a traceback, a refusal of several lines or without a name, and what takes
too long; with --vague also refusals that are no more than the words of an exception that nobody expected.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch

from benchmarks.fuzzing.bounds import bound_memory
from dragoman.exchange.huggingface.hub import own_files
from dragoman.exchange.importing import import_model
from dragoman.shared.batch import Batch
from dragoman.shared.batches.loader import collate
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.search.beam import BeamSearch
from dragoman.shared.search.rules import Rules
from dragoman.shared.systems.ctc_system import CtcSystem
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.systems.system import System

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, -3, 2, 5, 7, 64, 1000, 10**6, 10**9, 10**12, 10**30, 10**309, 0.5, -0.5, 1.5, 1e-30,
    1e308, float("nan"), float("inf"), "", "x", "../../x", "0", "1e9", "a" * 10**6, "\ud800", "{language}", "<en>", [],
    [1], [0], [-1], [[]], [[1]], [None], ["x"], [10**12] * 7, [1] * 100_000, {}, {"a": 1}, {"class": "System"},
    {"same_as": ""}, {"asset": "config.json"}, {"content": None}, [{}], [str(n) for n in range(200_000)],
)  # fmt: skip
#: Refusals that only repeat what some library or constructor said.
VAGUE = ("cannot be imported (", "TypeError", "AttributeError", "KeyError", "IndexError", "RuntimeError", "Overflow")
LANGUAGES: tuple[dict[str, list[str]], ...] = (
    {}, {"source_languages": ["en"]}, {"source_languages": ["en"], "target_languages": ["de"]},
)  # fmt: skip


def places(node: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every value in plain data, to the first hundred of a list or dictionary."""
    if way:
        yield way
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, value in list(items)[:100]:
        yield from places(value, (*way, name))


def changed(data: Any, rng: random.Random) -> tuple[Any, str]:
    """Return plain data with one value replaced, removed, or put in the place of another, and what was done."""
    data = copy.deepcopy(data)
    ways = [*places(data)]
    way = rng.choice(ways)
    node = data
    for name in way[:-1]:
        node = node[name]
    kind = rng.choice(["value"] * 8 + ["remove", "move"])
    if kind == "remove":
        del node[way[-1]]
        return data, f"{way} removed"
    value = rng.choice(VALUES)
    if kind == "move":
        value = data
        for name in rng.choice(ways):
            value = value[name] if not isinstance(value, str) else value
        value = copy.deepcopy(value)
    node[way[-1]] = value
    return data, f"{way} = {value!r:.80}"


def use(folder: Path, sound: Path, options: dict[str, list[str]], scratch: Path) -> None:
    """Import a folder if it is not ours, load it, and let it read or translate."""
    if own_files(folder) is None:
        import_model(folder, scratch / "imported", **options)
        folder = scratch / "imported"
    system = ReadingModel.load(folder)
    item = str(sound) if "speech" in system.inputs else "one two"
    if isinstance(system, System):
        if system.generator is None and not isinstance(system, CtcSystem):
            return
        codes = {"source_language": system.source_languages[0], "target_language": system.output_languages[0]}
        search = None
        if system.generator is not None:
            search = BeamSearch(beam=2, rules=Rules(maximum_length_extra=3, maximum_length_ratio=0.1))
        system.translate([item], search=search, keep_silence=True, **codes)
        return
    row = {"id": "1", "audio": item, "source_text": item, "source_language": (system.source_languages or ["en"])[0]}
    with torch.no_grad():
        system.model.encode(Batch({"speech": collate([row], system.inputs, None)["speech"]}))


def outcome(folder: Path, sound: Path, options: dict[str, list[str]], limits: tuple[int, float]) -> str:
    """Use a folder in a process of its own; return "works", a refusal, a traceback, or that it takes too long."""
    seconds, gigabytes = limits
    scratch = Path(tempfile.mkdtemp())
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        said = "works"
        try:
            bound_memory(int(gigabytes * 2**30))
            signal.alarm(seconds)
            warnings.simplefilter("ignore")
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), 2)
            use(folder, sound, options, scratch)
        except (DataError, UsageError) as error:
            said = f"refused: {error}"
        except BaseException:
            said = traceback.format_exc()[-1500:]
        os.write(writing, said.encode("utf-8", "backslashreplace")[:60_000])
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        said = pipe.read().decode("utf-8", "replace")
    status = os.waitpid(child, 0)[1]
    shutil.rmtree(scratch, ignore_errors=True)
    if said:
        return said
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status)
    return f"took more than {seconds} s" if killed == signal.SIGALRM else f"ended by signal {killed}"


def is_wrong(said: str, place: Path, *, vague: bool) -> bool:
    """Tell whether an outcome is neither right nor a clear refusal."""
    if said == "works":
        return False
    if not said.startswith("refused: "):
        return True
    named = str(place) in said or "imported" in said or "this is a language model" in said  # which it has become
    return "\n" in said or len(said) > 2000 or not named or (vague and any(word in said for word in VAGUE))


def main() -> None:
    """Run the loop."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--until", type=float, default=math.inf, help="seconds after which no other try is begun")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--gigabytes", type=float, default=6.0, help="beside those of this process")
    parser.add_argument("--vague", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    limits = given.seconds, given.gigabytes
    rng = random.Random(given.seed)
    counts: Counter[str] = Counter()
    slowest, begun = (0.0, ""), time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        sound = Path(place) / "a.wav"
        soundfile.write(sound, np.sin(np.arange(16000) / 9).astype(np.float32), 16000)
        languages = {}
        for folder in given.folders:
            ways = [options for options in LANGUAGES if outcome(folder, sound, options, limits) == "works"]
            if not ways:
                sys.exit(f"{folder}: does not work as it is: {outcome(folder, sound, LANGUAGES[-1], limits)}")
            languages[folder] = ways[0]
        for number in range(given.count):
            if time.monotonic() > begun + given.until:
                break
            folder = rng.choice(given.folders)
            files = sorted(file for file in folder.glob("*.json") if file.stat().st_size < 10**6)
            file = rng.choice([*files, *[folder / "config.json"] * 4])
            try:
                data, what = changed(json.loads(file.read_text(encoding="utf-8")), rng)
            except (IndexError, KeyError, TypeError):  # nothing inside, or a way that leads nowhere
                continue
            copied = shutil.copytree(folder, Path(place) / f"{number}")
            (copied / file.name).write_text(json.dumps(data), encoding="utf-8")
            start = time.monotonic()
            said = outcome(copied, sound, languages[folder], limits)
            slowest = max(slowest, (time.monotonic() - start, f"{folder.name}/{file.name}: {what}"))
            shutil.rmtree(copied)
            wrong = is_wrong(said, copied, vague=given.vague)
            counts["wrong" if wrong else said.split(":")[0]] += 1
            if wrong:
                print(f"{folder.name}/{file.name}: {what}\n    {said}", flush=True)
    print(f"{dict(counts)} in {time.monotonic() - begun:.0f} s; the slowest took {slowest[0]:.1f} s: {slowest[1]}")
    sys.exit(counts["wrong"] > 0)


if __name__ == "__main__":
    main()
