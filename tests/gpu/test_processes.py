"""A process group of one process (nccl on a GPU): DDP trains as a model alone does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import IMPORT_PATH

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
CASE = """
import json, sys
from pathlib import Path
import torch
import torch.distributed as dist
from dragoman.shared.batches.loader import Loader
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective
from dragoman.shared.machine import processes as distributed
from dragoman.shared.training.history import Meter
from dragoman.shared.training.optimizer import Adam, set_learning_rate
from dragoman.shared.training.update import Learner
from dragoman.shared.machine.workspace import Workspace
from tests.shared.training.conftest import World

folder, device = Path(sys.argv[1]), sys.argv[2]
world = World(folder)
alone = Workspace(folder, device=device, precision="fp32", workers=0)
several = Workspace(folder, device=device, precision="fp32", workers=0)
several.world = 2  # what several processes do is done, in a group that has this one only
assert distributed.join(several)
parts = [CrossEntropy(label_smoothing=0.1)]
objectives = [EncoderDecoderObjective(system=world.system(), parts=parts) for _ in range(2)]
for objective in objectives:
    objective.to(alone.device)
models = [objectives[0], distributed.wrap(objectives[1], several)]
fit = world.fit(optimizer=Adam(eps=1e-3))
optimizers = [fit.optimizer.build(objective) for objective in objectives]
batches = list(Loader(streams=[world.stream()], seed=3, pin_memory=device != "cpu").epoch(0))[:4]
for number in range(0, 4, 2):
    for model, objective, optimizer in zip(models, objectives, optimizers):
        set_learning_rate(optimizer, 0.01)
        Learner(objective, model, optimizer).update(batches[number : number + 2], Meter(), alone)
distributed.gather = lambda value, workspace: [value]
counts = distributed.add_up({"b": torch.tensor(2, device=alone.device), "a": torch.tensor(1.5)}, several, alone.device)
distributed.barrier(several)
first, second = (objective.state_dict() for objective in objectives)
print(json.dumps({
    "backend": dist.get_backend(),
    "wrapped": type(models[1]).__name__,
    "apart": max(float((first[name] - second[name]).abs().max()) for name in first),
    "counts": {name: float(count) for name, count in counts.items()},
}))
distributed.leave()
"""


def test_ddp_with_one_process_trains_as_the_model_alone(tmp_path, device):
    rendezvous = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    environment = os.environ | rendezvous | {"PYTHONPATH": IMPORT_PATH}
    command = [sys.executable, "-c", CASE, str(tmp_path), device]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["backend"] == ("gloo" if device == "cpu" else "nccl")
    assert found["wrapped"] == "DistributedDataParallel" and found["apart"] < 1e-6
    assert found["counts"] == {"a": 1.5, "b": 2.0}


def test_the_command_under_torchrun_with_one_process(tmp_path, device):
    """A run in a process of torchrun ends as one without it."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1"]
    model = ROOT / "tests" / "golden" / "model"
    (tmp_path / "in.txt").write_text("one two\nsix\n")
    asked = ["translate", str(model), str(tmp_path / "in.txt"), "--to", "de", "--device", device]
    environment = os.environ | {"PYTHONPATH": IMPORT_PATH}
    outputs = []
    for launcher in ([sys.executable], command):
        command = [*launcher, "-m", "dragoman", *asked]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1] and len(outputs[0].splitlines()) == 2
