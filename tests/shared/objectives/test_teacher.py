"""A part that asks a teacher: what is trained is written as without it, and needs it no more (tests/test_nouns.py)."""

import shutil

import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from shared.machine.workspace import Workspace
from shared.objectives import CrossEntropy, EncoderDecoderObjective, Part, Term
from shared.objectives.teacher import Teacher
from shared.padded import Padded
from shared.phases import Average
from shared.systems.system import System
from tests.shared.training.conftest import World


class Imitation(Part):
    """Asks for the symbol that a teacher finds the best, at every place of the target."""

    def __init__(self, *, teacher):
        super().__init__()
        self.teacher = teacher

    def counts(self, batch):
        return {"imitation": (batch["target"].lengths - 1).sum()}

    def terms(self, model, batch, encoding):
        target = batch["target"]
        prefix = Padded(target.values[:, :-1], target.lengths - 1)
        wanted, _ = self.teacher.best(batch, prefix, top=1)
        logits = model.project(model.decode(prefix, encoding)).flatten(0, 1)
        losses = F.cross_entropy(logits, wanted[:, 0], reduction="none")
        return {"imitation": Term(losses[prefix.mask.flatten()].sum(), self.counts(batch)["imitation"])}


def test_a_teacher_is_neither_in_checkpoints_nor_needed_by_them(tmp_path):
    world = World(tmp_path)
    world.system(seed=7).save(tmp_path / "teacher")
    parts = {
        "alone": [CrossEntropy()],
        "taught": [CrossEntropy(), Imitation(teacher=Teacher(folder=f"{tmp_path}/teacher", tokenizer=world.tokenizer))],
    }
    workspaces = {}
    for name, own in parts.items():
        workspaces[name] = Workspace(output=tmp_path / name, device="cpu", phase="fit", noprogressbar=True, workers=0)
        torch.manual_seed(0)
        objective = EncoderDecoderObjective(system=world.system(), parts=own)
        world.fit(objective=objective, updates=8).run(workspaces[name])
    assert parts["taught"][1].teacher._system is not None  # it was asked
    alone, taught = (written(tmp_path / name / "fit") for name in parts)
    assert {*alone} == {*taught} and sum(name.endswith(".safetensors") for name in alone) == 2
    assert alone == taught
    one, other = (load_file(tmp_path / name / "fit/checkpoints/00000008/objective.safetensors") for name in parts)
    assert any(not torch.equal(tensor, other[name]) for name, tensor in one.items())  # and has taught something
    shutil.rmtree(tmp_path / "teacher")
    workspaces["taught"].phase = "average"
    Average(fit=f"{tmp_path}/taught/fit", checkpoints="last 2").run(workspaces["taught"])
    assert System.load(tmp_path / "taught/average/model").state_dict().keys() == world.system().state_dict().keys()


def written(folder):
    """Return what a training has written, by file: shapes of tensors, and the bytes of what describes the system."""
    found = {}
    for file in (path for path in folder.rglob("*") if path.is_file() and path.parent.name != "tensorboard"):
        name = file.relative_to(folder).as_posix()
        found[name] = None
        if file.suffix == ".safetensors":
            found[name] = {key: tensor.shape for key, tensor in load_file(file).items()}
        elif file.name == "training.pt":
            moments = torch.load(file)["optimizer"]["state"]
            found[name] = [[tensor.shape for tensor in own.values()] for own in moments.values()]
        elif name.startswith("system/"):
            found[name] = file.read_bytes()
    return found
