"""The loop: it learns, goes on bit for bit after a kill, and divides work without changing the result."""

import json
import os
import signal
import threading
import time

import pytest
import torch

from shared.corpus.loader import Loader
from shared.corpus.stream import Budget
from shared.errors import DataError
from shared.objectives import CrossEntropy, EncoderDecoderObjective, Loss, Objective, Term
from shared.search.greedy import GreedySearch
from shared.training.checkpoints import Checkpoints, list_checkpoints
from shared.training.fit import Interrupted
from shared.training.history import History, Meter
from shared.training.optimizer import set_learning_rate
from shared.training.validation import Validation
from shared.workspace import Workspace


@pytest.fixture
def workspace(tmp_path):
    def make(name="run", **options):
        torch.manual_seed(0)
        return Workspace(output=tmp_path / name, device="cpu", phase="fit", noprogressbar=True, workers=0, **options)

    return make


def weights(objective):
    return {name: tensor.clone() for name, tensor in objective.state_dict().items()}


def same(one, other):
    assert one.keys() == other.keys()
    return all(torch.equal(one[name], other[name]) for name in one)


def test_it_learns_to_write_words_backwards(world, workspace):
    validation = Validation(
        manifests=[str(world.manifest)],
        budget=Budget(rows=16),
        search=GreedySearch(maximum_length_extra=8),
        metrics=["bleu", "chrf"],
        metric="chrf",
        every=200,
    )
    place = workspace()
    fit = world.fit(updates=400, validation=validation, checkpoints=Checkpoints(keep_last=1, keep_best=2, every=200))
    fit.run(place)
    rows = History(place.folder).rows()
    first, last = [row for row in rows if "validation" in row]
    assert last["validation"]["loss"] < 1.0 < rows[0]["loss"]
    assert last["validation"]["chrf"] > 90
    assert {path.name for path in place.folder.iterdir()} >= {"training.png", "history.jsonl", "system", "tensorboard"}
    assert [c.score for c in list_checkpoints(place.folder / "checkpoints")][-1] == last["validation"]["chrf"]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_that_was_cut_goes_on_bit_for_bit(world, workspace, workers):
    whole = world.fit(dropout=0.2)
    whole.run(workspace("whole"))
    cut = world.fit(dropout=0.2, updates=8)
    cut.run(workspace("cut"))
    place = workspace("cut")
    place.workers = workers
    torch.manual_seed(999)  # whatever the new process starts with
    resumed = world.fit(dropout=0.2)
    resumed.run(place)
    assert same(weights(whole.objective), weights(resumed.objective))


def test_ctrl_c_saves_and_the_next_start_goes_on(world, workspace):
    whole = world.fit(dropout=0.2, updates=60)
    whole.run(workspace("whole"))

    class Slow(EncoderDecoderObjective):
        def prepare(self, batch):
            time.sleep(0.02)
            return batch

    objective = Slow(system=world.system(0.2), parts=[CrossEntropy(smoothing=0.1)])
    torch.manual_seed(0)
    threading.Timer(0.4, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(Interrupted, match="the same command goes on"):
        world.fit(objective=objective, updates=60).run(workspace("cut"))
    assert 0 < list_checkpoints(workspace("cut").folder / "checkpoints")[-1].update < 60
    resumed = world.fit(dropout=0.2, updates=60)
    resumed.run(workspace("cut"))
    assert same(weights(whole.objective), weights(resumed.objective))


class TwoParts(Objective):
    """A loss of parts with different counts, whose `prepare` adds what the second part needs."""

    def __init__(self, system):
        super().__init__()
        self.system = system
        self.inner = EncoderDecoderObjective(system=system, parts=[CrossEntropy(smoothing=0.1)])
        self.scale = torch.nn.Parameter(torch.ones(()))

    def prepare(self, batch):
        assert not torch.is_grad_enabled()
        assert not self.training
        return batch.with_fields(lengths=batch["target"].map(lambda values: values.ne(0).long()))

    def counts(self, batch):
        rows = torch.tensor(float(len(batch)))
        return self.inner.counts(batch) | {"length": rows, "norm": rows * 3}

    def forward(self, batch):
        parts = self.inner(batch).parts
        counts = self.counts(batch)
        guess = self.scale * batch["lengths"].lengths.float()
        parts["length"] = Term(((guess - 7.0) ** 2).sum(), counts["length"], 0.1)
        weight = self.system.model.target_embedding.weight
        parts["norm"] = Term(len(batch) * weight.square().sum(), counts["norm"], 0.01)
        return Loss(parts)


def test_eight_accumulated_batches_are_one_large_batch(world, workspace):
    results = []
    loader = Loader(streams=[world.stream(rows=48)], seed=5)
    (large,) = loader.epoch(0)
    parts = [rows(large, range(start, start + size)) for start, size in zip(range(0, 48, 6), [6] * 8, strict=True)]
    for batches in ([large], parts):
        objective = TwoParts(world.system())
        fit = world.fit(objective=objective)
        optimizer = torch.optim.AdamW(
            [{"params": list(objective.parameters()), "multiplier": 1.0}], lr=0.0, eps=1e-3, fused=True
        )
        set_learning_rate(optimizer, 0.1)
        fit.update(objective, objective, optimizer, batches, Meter(torch.device("cpu")), workspace())
        results.append(weights(objective))
    for name in results[0]:
        torch.testing.assert_close(results[0][name], results[1][name], atol=1e-5, rtol=1e-5)


def rows(batch, numbers):
    index = torch.tensor(list(numbers))
    fields = {}
    for name, field in batch.fields.items():
        some = field.select(index)
        fields[name] = type(field)(some.values[:, : int(some.lengths.max())], some.lengths)
    return type(batch)(fields, {}, [batch.ids[i] for i in index], batch.stream)


def test_a_loss_that_is_not_finite_stops_the_run_and_names_rows(world, workspace):
    class Broken(EncoderDecoderObjective):
        def forward(self, batch):
            loss = super().forward(batch)
            bad = {n: Term(t.sum * float("nan"), t.count, t.weight) for n, t in loss.parts.items()}
            return Loss(bad)

    objective = Broken(system=world.system(), parts=[CrossEntropy()])
    before = weights(objective)
    with pytest.raises(DataError, match=r"not finite.*r\d+"):
        world.fit(objective=objective, updates=25).run(workspace())
    assert same(before, weights(objective))


def test_nothing_waits_for_the_device_inside_an_update(world, workspace, monkeypatch):
    fit = world.fit()
    optimizer = fit.optimizer.build(fit.objective)
    batches = list(Loader(streams=[world.stream()], seed=1).epoch(0))
    place, meter = workspace(), Meter(torch.device("cpu"))

    def forbidden(*_arguments, **_keywords):
        raise AssertionError("an update read a value from the device")

    meter.count = lambda _batches: None  # reads lengths that are on the CPU still
    for name in ("item", "tolist", "cpu", "numpy", "__bool__", "__float__", "__int__", "nonzero"):
        monkeypatch.setattr(torch.Tensor, name, forbidden)
    fit.update(fit.objective, fit.objective, optimizer, [batches[0]], meter, place)


def test_patience_ends_a_run(world, workspace):
    validation = Validation(manifests=[str(world.manifest)], budget=Budget(rows=48), every=2, patience=2)
    checkpoints = Checkpoints(keep_last=1, keep_best=1, every=2)

    class Frozen:
        def __call__(self, update):
            return 0.0

    place = workspace()
    world.fit(updates=50, validation=validation, checkpoints=checkpoints, schedule=Frozen()).run(place)
    done = json.loads((place.folder / "history.jsonl").read_text().splitlines()[-1])["update"]
    assert done == 6  # the score of update 2 is not improved at 4 and 6
    world.fit(updates=50, validation=validation, checkpoints=checkpoints, schedule=Frozen()).run(place)
    assert json.loads((place.folder / "history.jsonl").read_text().splitlines()[-1])["update"] == done
