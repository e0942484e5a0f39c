"""A teacher's table: what is written is what the teacher says, and the loss is that of the teacher asked at once."""

import numpy as np
import pytest
import torch

from dragoman import DataError, Manifest
from dragoman.mt.teacher_table import COLUMNS, DistilledFromTable, TableField, TeachRows
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.stream import Budget, Stream
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective
from dragoman.shared.objectives.teacher import Teacher
from tests import small
from tests.shared.training.conftest import World
from tests.small import refuses

TOP, SHARE = 3, 0.6


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A world, a teacher that is surer of some symbols than of others, and the table that it has written."""
    folder = tmp_path_factory.mktemp("table")
    world = World(folder)
    teacher = world.system(dropout=0.3, seed=7)
    with torch.no_grad():
        for parameter in teacher.parameters():
            parameter.mul_(1.5)
    teacher.save(folder / "teacher")
    world.teacher, world.fields = teacher.eval(), small.texts(world.tokenizer)
    phase = TeachRows(
        teacher=Teacher(folder=str(folder / "teacher"), tokenizer=world.tokenizer),
        manifests=[str(world.manifest)],
        fields=world.fields,
        budget=Budget(rows=5),
        top=TOP,
        temperature=2.0,
    )
    small.run(phase, folder, "table")
    world.taught = folder / "table" / world.manifest.parent.name / "train.arrow"
    return world


def field(world):
    return TableField(target=world.fields["target"])


def said(world, row):
    """Ask the teacher about one row alone, token by token: the best symbols and their shares."""
    source, target = (world.fields[side](row, None) for side in ("source", "target"))
    model = world.teacher.model
    with torch.no_grad():
        encoding = model.encode(small.batch(source=[source]), "source")
        logits = model.project(model.decode(small.padded([target[:-1]]), encoding))[0]
    for place in range(len(target) - 1):
        best = logits[place].topk(TOP)
        odds = (best.values / 2.0).exp()
        yield best.indices, odds / odds.sum()


def test_the_table_is_what_the_teacher_says_of_each_row(world):
    rows = Manifest.open(world.taught)
    assert len(rows) == 48 and rows[5]["target_text"] == Manifest.open(world.manifest)[5]["target_text"]
    for row in list(rows)[::9]:
        read = field(world)(row, None)
        assert not read[""][0].any() and not read["probabilities"][0].any()
        for place, (symbols, shares) in enumerate(said(world, row), 1):
            order = read["probabilities"][place].argsort(descending=True, stable=True)
            torch.testing.assert_close(read["probabilities"][place][order], shares, atol=1e-3, rtol=1e-3)
            assert {*read[""][place].tolist()} == {*symbols.tolist()}


def batch(world):
    fields = world.fields | {"teacher": field(world)}
    stream = Stream(name="text", manifests=[str(world.taught)], fields=fields, budget=Budget(rows=8))
    return next(Loader(streams=[stream], seed=1).epoch(0))


def objective(world, part):
    return EncoderDecoderObjective(system=world.system(seed=1), parts=[part])


def test_the_loss_is_that_of_the_mixture_written_out(world):
    rows = batch(world)
    student = objective(world, DistilledFromTable(share=SHARE, label_smoothing=0.1))
    loss = student(rows)
    loss.check(student.counts(rows))
    model, vocabulary, total, entropy = student.system.model, world.tokenizer.size, 0.0, 0.0
    by_id = {row["id"]: row for row in Manifest.open(world.taught)}
    for number, id in enumerate(rows.ids):
        source, target = (rows[side].rows()[number] for side in ("source", "target"))
        encoding = model.encode(small.batch(source=[source]), "source")
        found = model.project(model.decode(small.padded([target[:-1]]), encoding)).log_softmax(-1)[0]
        for place, (symbols, shares) in enumerate(said(world, by_id[id])):
            wanted = torch.full((vocabulary,), (1 - SHARE) * 0.1 / (vocabulary - 1))
            wanted[target[place + 1]] = (1 - SHARE) * 0.9
            wanted[symbols] += SHARE * shares
            total = total - (wanted * found[place]).sum()
            entropy -= float((shares * shares.log()).sum())
    torch.testing.assert_close(loss.parts["cross_entropy"].sum, total, rtol=2e-3, atol=1e-3)  # float16
    assert float(loss.parts["teacher_entropy"].sum) == pytest.approx(entropy, rel=2e-3)


def test_without_a_table_or_a_share_it_is_cross_entropy(world):
    rows = batch(world)
    plain = objective(world, CrossEntropy(label_smoothing=0.1))(rows).parts["cross_entropy"].sum
    alone = {name: rows[name] for name in ("source", "target")}
    without = type(rows)(alone, ids=rows.ids)
    for share, given in ((0.0, rows), (SHARE, without)):
        student = objective(world, DistilledFromTable(share=share, label_smoothing=0.1))
        loss = student(given)
        loss.check(student.counts(given))
        assert torch.equal(loss.parts["cross_entropy"].sum, plain) and "teacher_entropy" not in loss.parts


def test_what_is_no_table_of_this_text_is_refused(world):
    row, table = Manifest.open(world.taught)[0], field(world)
    symbols, _, reads = COLUMNS
    message = "row 'r0' has no teacher_symbols and .*: the phase TeachRows writes"
    refuses(DataError, message, table, row | {symbols: None}, None)
    refuses(DataError, "row 'r0': what the teacher said is of other pieces", table, row | {reads: "other"}, None)
    longer = row | {"target_text": row["target_text"] + "00"}
    refuses(DataError, "row 'r0': 18 symbols of the teacher for 8 tokens", table, longer, None)
    refuses(DataError, "train.arrow: has no teacher_symbols", table.lengths, Manifest.open(world.manifest))
    np.testing.assert_array_equal(table.lengths([row, longer]), [7, 9])
