"""A corpus, and runs of everything.yaml that die where they are told to."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import load_file

from tests.conftest import IMPORT_PATH

HERE = Path(__file__).parent
WORDS = "one two three four five six seven eight".split()
WORTE = "eins zwei drei vier fünf sechs sieben acht".split()

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": IMPORT_PATH}

#: What depends on when and how a run was done, and not on what it found.
TIMES = {"tokens_per_second": 0, "minutes": 0, "evaluation_minutes": 0, "commit": "", "command": ""}


class Runs:
    """Runs of the recipe, each in a folder of its own."""

    def __init__(self, root: Path, device: str = "cpu") -> None:
        self.root, self.data, self.device = root, root / "data", device
        self.server: subprocess.Popen | None = None
        (self.data / "clips").mkdir(parents=True)
        rng = np.random.default_rng(0)
        for number in range(8):
            soundfile.write(self.data / "clips" / f"{number}.wav", 0.1 * rng.standard_normal(4000 + number), 16000)
        pairs = [(f"{WORDS[i]} {WORDS[j]}", f"{WORTE[j]} {WORTE[i]}") for i in range(8) for j in range(8)]
        for split, some in (("train", pairs * 2), ("dev", pairs[::9]), ("test", pairs[::7])):
            rows = [f"{split}{n}\tclips/{n % 8}.wav\t{source}\t{target}" for n, (source, target) in enumerate(some)]
            lines = "\n".join(["id\taudio\tsource_text\ttarget_text", *rows])
            (self.data / f"{split}.tsv").write_text(lines + "\n")

    def start(self, name, where="anything", number=0, *, recipe="everything.yaml", options=()):
        """Run a recipe in a folder, until it has done it or dies; return exit code, output and errors."""
        folder = self.root / name
        task = {"folder": str(folder), "where": where, "number": number}
        task["arguments"] = self.arguments(folder, recipe, options)
        if self.server is None:
            self.server = subprocess.Popen(
                [sys.executable, HERE / "killed.py"], stdin=-1, stdout=-1, text=True, env=ENVIRONMENT
            )
        print(json.dumps(task), file=self.server.stdin, flush=True)
        code = int(self.server.stdout.readline())
        texts = [(folder / name).read_text() for name in ("out.txt", "errors.txt")]
        return subprocess.CompletedProcess(task["arguments"], code, *texts)

    def start_two(
        self, name, where="anything", number=0, *, recipe="everything.yaml", options=(), processes=2, torchrun=()
    ):
        """Do the same in two processes, or more, under torchrun, which is given options of its own."""
        folder = self.root / name
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        command += [*torchrun, str(HERE / "killed.py"), where, str(number), *self.arguments(folder, recipe, options)]
        return subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=900)

    def arguments(self, folder, recipe, options):
        folder.mkdir(exist_ok=True)
        folders = {"data_folder": self.data, "results_folder": folder, "manifest_folder": folder / "manifests"}
        given = [word for key, value in folders.items() for word in (f"--{key}", str(value))]
        return ["run", str(HERE / recipe), *given, "--device", self.device, "--noprogressbar", *map(str, options)]

    def content(self, name):
        """Return all that a run has left behind and that is to be the same each time, by file name."""
        folder, found = self.root / name, {}
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            key = str(file.relative_to(folder))
            if "tensorboard" in file.parts or file.name in ("out.txt", "errors.txt"):
                continue
            if file.name in ("log.txt", "lock", "training.png") or file.parent.name == "state":
                found[key] = None  # there, but not the same
            elif file.name == "training.pt":
                state = torch.load(file, weights_only=True)
                for own in state["ranks"]:
                    own["meter"]["seconds"] = 0
                found[key] = state
            elif file.name == "meta.json":
                meta = json.loads(file.read_text())
                meta["files"].pop("training.pt", None)  # the hash of a file with seconds in it
                found[key] = meta
            elif file.suffix == ".jsonl":
                rows = [json.loads(line.replace(str(folder), "<folder>")) for line in file.read_text().splitlines()]
                found[key] = [row | {name: new for name, new in TIMES.items() if name in row} for row in rows]
            elif file.suffix == ".safetensors":
                found[key] = load_file(file)
            else:
                found[key] = file.read_bytes().replace(str(folder).encode(), b"<folder>")
        return found


def same(one, other):
    """Compare plain data with tensors in it, bit for bit."""
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def differences(one, other):
    """Return the names of the files in which two runs differ."""
    differ = (key for key in one.keys() & other.keys() if not same(one[key], other[key]))
    return sorted({*differ, *(one.keys() ^ other.keys())})


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    runs = Runs(tmp_path_factory.mktemp("resume"))
    yield runs
    if runs.server is not None:
        runs.server.communicate()


@pytest.fixture(scope="session")
def whole(runs):
    """The content of a run that nothing has happened to, and how many things happen in it."""
    result = runs.start("whole")
    assert result.returncode == 0, result.stderr
    return runs.content("whole"), int(result.stdout.rpartition("anything: ")[2])
