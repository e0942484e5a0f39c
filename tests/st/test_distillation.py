"""Distillation token by token, against dense distributions; and a teacher that leaves no trace."""

import math

import pytest
import torch

from dragoman.shared.batch import Batch
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.nn.state import evaluating
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective
from dragoman.shared.objectives.teacher import Teacher
from dragoman.shared.padded import Padded
from dragoman.st.distillation import Distilled
from tests import small
from tests.shared.training.conftest import World


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("distillation")
    world = World(folder)
    teacher = world.system(dropout=0.3, seed=7)
    with torch.no_grad():
        for parameter in teacher.parameters():
            parameter.mul_(1.5)  # so that it is surer of some symbols than of others
    teacher.save(folder / "teacher")
    world.folder = folder / "teacher"
    return world


def batch(world):
    from dragoman.shared.batches.loader import Loader

    return next(Loader(streams=[world.stream()], seed=1).epoch(0))


def teacher(world):
    return Teacher(folder=str(world.folder), tokenizer=world.tokenizer)


def objective(world, part):
    return EncoderDecoderObjective(system=world.system(seed=1), parts=[part])


def dense(world, student, rows, share, top, temperature, label_smoothing):
    """Return the loss, and the entropy of the teacher, with every distribution written out."""
    master = type(student.system).load(world.folder).model
    prefix = Padded(rows["target"].values[:, :-1], rows["target"].lengths - 1)
    with torch.no_grad():
        logits = master.project(master.decode(prefix, master.encode(rows, "source")))
    model = student.model
    found = model.project(model.decode(prefix, model.encode(rows, "source"))).log_softmax(-1)
    vocabulary, total, entropy = found.shape[-1], 0.0, 0.0
    for row, length in enumerate(prefix.lengths.tolist()):
        for place in range(length):
            gold = torch.full((vocabulary,), label_smoothing / (vocabulary - 1))
            gold[rows["target"].values[row, place + 1]] = 1 - label_smoothing
            best = logits[row, place].topk(top).indices
            taught = torch.zeros(vocabulary)
            odds = (logits[row, place] / temperature).exp()[best]
            taught[best] = odds / odds.sum()
            total = total - (((1 - share) * gold + share * taught) * found[row, place]).sum()
            entropy += float(torch.special.entr(taught).sum())
    return total, entropy


@pytest.mark.parametrize(("share", "top", "temperature"), [(0.8, 8, 1.0), (0.5, 3, 2.0), (1.0, None, 1.0)])
def test_the_loss_is_that_of_the_mixture_written_out(world, share, top, temperature):
    top = top or world.tokenizer.size
    options = {"share": share, "top": top, "temperature": temperature, "label_smoothing": 0.1}
    student, rows = objective(world, Distilled(teacher=teacher(world), prefix="kd.", **options)), batch(world)
    loss = student(rows)
    loss.check(student.counts(rows))
    expected, entropy = dense(world, student, rows, **options)
    torch.testing.assert_close(loss.parts["kd.cross_entropy"].sum, expected, rtol=1e-4, atol=1e-4)
    assert float(loss.parts["kd.teacher_entropy"].sum) == pytest.approx(entropy, rel=1e-4)
    parameters = list(student.parameters())
    gradients = (torch.autograd.grad(one, parameters) for one in (loss.parts["kd.cross_entropy"].sum, expected))
    for found, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)


class Sure:
    """A teacher whose distributions are given, (N, K)."""

    def __init__(self, probabilities):
        self.probabilities = torch.tensor(probabilities)

    def best(self, batch, prefix, *, top, temperature):
        return torch.arange(self.probabilities.shape[1]).expand(self.probabilities.shape), self.probabilities


def test_the_entropy_of_the_teacher_is_reported_in_nats_of_real_tokens(world):
    one, *_ = batch(world)["target"].rows()
    target = Padded.from_sequences([one[:3], one[:2]])  # two tokens are asked for, then one and padding
    data = Batch({"source": target, "target": target})
    part = Distilled(teacher=Sure([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3]]))
    loss = objective(world, part)(data)
    loss.check(part.counts(data))
    term = loss.parts["teacher_entropy"]
    # ln 2 of two symbols, 0 of one, 1.5 ln 2 of 1/2, 1/4 and 1/4; the last row is padding
    assert term.sum.item() == pytest.approx(2.5 * math.log(2)) and int(term.count) == 3
    assert term.weight == 0 and not term.sum.requires_grad
    assert "teacher_entropy" not in Distilled(teacher=Sure([[1.0]]), share=0.0).counts(data)


def test_without_a_share_it_is_cross_entropy_to_the_last_bit(world):
    rows = batch(world)
    ours = objective(world, Distilled(teacher=Teacher(folder="nowhere", tokenizer=world.tokenizer), share=0.0))
    theirs = objective(world, CrossEntropy())
    assert torch.equal(ours(rows).parts["cross_entropy"].sum, theirs(rows).parts["cross_entropy"].sum)


def test_a_teacher_leaves_no_trace(world):
    rows, master = batch(world), teacher(world)
    student = objective(world, Distilled(teacher=master))
    plain = objective(world, CrossEntropy())
    torch.manual_seed(5)
    before = torch.get_rng_state()
    student.train()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    first = [tensor.clone() for tensor in type(student.system).load(world.folder).state_dict().values()]
    torch.set_rng_state(before)
    prefix = Padded(rows["target"].values[:, :-1], rows["target"].lengths - 1)
    once = master.best(rows, prefix, top=4)
    assert torch.equal(torch.get_rng_state(), before)  # loading it has drawn nothing
    for _ in range(10):
        student(rows).total().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert student.state_dict().keys() == plain.state_dict().keys()
    assert [*dict(student.named_parameters())] == [*dict(plain.named_parameters())]
    assert all(map(torch.equal, first, master._system.state_dict().values()))
    again = master.best(rows, prefix, top=4)
    assert torch.equal(once[0], again[0]) and torch.equal(once[1], again[1])  # its dropout rests
    with evaluating(student):
        pass
    assert not master._system.training


def test_another_tokenizer_is_refused(world, tmp_path):
    other = small.tokenizer(["other words", "entirely"])
    rows = batch(world)
    prefix = Padded(rows["target"].values[:, :-1], rows["target"].lengths - 1)
    own = world.system()
    reads = {"source": small.text(other)}
    type(own)(**own.arguments | {"inputs": reads}).save(tmp_path / "reader")
    for folder, options, message in (
        (world.folder, {"tokenizer": other}, "writes the symbols of another tokenizer"),
        (world.folder, {"tokenizer": world.tokenizer, "field": "speech"}, "reads source, not 'speech'"),
        (tmp_path / "reader", {"tokenizer": world.tokenizer}, "reads the symbols of another tokenizer"),
    ):
        small.refuses(DataError, message, Teacher(folder=str(folder), **options).best, rows, prefix, top=2)
    small.refuses(UsageError, "share must be between 0 and 1, not 2", Distilled, teacher=teacher(world), share=2)
    small.refuses(UsageError, "Distilled: top must be at least 1, not 0", Distilled, teacher=teacher(world), top=0)
