"""A part that asks a teacher: what is trained is written as without it, and needs it no more (tests/test_nouns.py)."""

import math
import shutil

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from dragoman import DataError, System, UsageError
from dragoman.shared.batch import Batch
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective, Part, Term
from dragoman.shared.objectives.teacher import Teacher
from dragoman.shared.padded import Padded
from dragoman.shared.phases import Average
from tests.shared.training.conftest import World
from tests.small import refuses


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


def test_the_best_symbols_and_their_probabilities_among_themselves(tmp_path):
    world = World(tmp_path)
    system = world.system(seed=7).eval()
    system.save(tmp_path / "teacher")
    teacher = Teacher(folder=f"{tmp_path}/teacher", tokenizer=world.tokenizer)
    source = Padded.from_sequences([torch.tensor([5, 6, 7]), torch.tensor([8])], padding=world.tokenizer.pad)
    batch, prefix = Batch({"source": source}), Padded(torch.tensor([[1, 5], [1, 9]]), torch.tensor([2, 2]))
    symbols, weights = teacher.best(batch, prefix, top=3, temperature=2.0)
    with torch.no_grad():
        logits = system.model.project(system.model.decode(prefix, system.model.encode(batch))).flatten(0, 1)
    for row, found, shares in zip(logits, symbols, weights, strict=True):
        ranked = sorted(range(len(row)), key=lambda symbol: -row[symbol])[:3]
        exponentials = [math.exp(row[symbol] / 2) for symbol in ranked]
        assert found.tolist() == ranked
        assert shares.tolist() == pytest.approx([one / sum(exponentials) for one in exponentials], rel=1e-4)
    wrong = Teacher(folder=f"{tmp_path}/teacher", tokenizer=world.tokenizer, field=None)
    refuses(DataError, "teacher: reads source: it is no language model", wrong.best, batch, prefix, top=1)
    other = Teacher(folder=f"{tmp_path}/teacher", tokenizer=world.tokenizer, reads="speech")
    refuses(DataError, "teacher: reads source, not 'speech'", other.best, batch, prefix, top=1)


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


def test_a_teacher_of_language_reads_no_field(tmp_path):
    tokenizer = World(tmp_path).tokenizer
    said = "^a: a language model reads no field, so it cannot call one 'x'$"
    refuses(UsageError, said, Teacher, folder="a", tokenizer=tokenizer, field=None, reads="x")
    silent = Teacher(folder="a", tokenizer=tokenizer, field=None)
    for ask in (silent.read, silent.states):
        refuses(UsageError, "^a: a language model has no states of what it reads: name the teacher's", ask, Batch({}))
    plain = Teacher(folder="a", tokenizer=tokenizer)
    assert (plain.field, plain.reads) == ("source", "source")
    assert Teacher(folder="a", tokenizer=tokenizer, field="transcript", reads="source").reads == "source"
    field = Padded(torch.zeros(1, 2), torch.tensor([2]))
    assert plain.read(Batch({"source": field})) is field
