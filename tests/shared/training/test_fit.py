"""The loop: it learns, goes on bit for bit after a kill, and divides work without changing the result."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext

import pytest
import torch

from dragoman import DataError, GreedySearch, Manifest, Rules, UsageError
from dragoman.mt.mrasp2 import Contrast
from dragoman.mt.noise import NoisyText
from dragoman.shared.batches.loader import Loader, collate
from dragoman.shared.batches.randomness import generator
from dragoman.shared.batches.stream import Budget, Stream
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective, Loss, Objective, Term
from dragoman.shared.training.checkpoints import Checkpoints, list_checkpoints
from dragoman.shared.training.fit import Interrupted
from dragoman.shared.training.history import History, Meter
from dragoman.shared.training.loss_scale import loss_scaler
from dragoman.shared.training.optimizer import set_learning_rate
from dragoman.shared.training.resuming import planned_for
from dragoman.shared.training.update import Learner, try_largest
from dragoman.shared.training.validation import Validation
from tests.small import refuses


def weights(objective):
    return {name: tensor.clone() for name, tensor in objective.state_dict().items()}


def same(one, other):
    assert one.keys() == other.keys()
    return all(torch.equal(one[name], other[name]) for name in one)


class Missing:
    """Takes the first of a text's words, or of its pieces if it is one word."""

    def __call__(self, words, rng):
        return words[1:] or [words[0][1 + int(rng.integers(2)) :]]


def test_validation_with_noise(world, workspace):
    """The loss is that of the fields that are given, with the same noise each time; by default there is none."""
    plain = world.stream().fields
    noisy = plain | {"source": NoisyText(field=plain["source"], noise=[Missing()])}
    objective = EncoderDecoderObjective(system=world.system(), parts=[CrossEntropy(label_smoothing=0.0)])

    def loss(stream_fields, fields):
        validation = Validation(manifests=[str(world.manifest)], budget=Budget(rows=16), fields=fields)
        stream = Stream(name="s", manifests=[str(world.manifest)], fields=stream_fields, budget=Budget(rows=8))
        place = workspace()
        return validation.judge([validation.share(objective, stream, place)], objective, place).values["loss"]

    assert loss(noisy, None) == loss(plain, None) != loss(plain, noisy) == loss(noisy, noisy)
    with torch.no_grad():
        total = count = 0.0
        for row in Manifest.open(world.manifest):
            batch = collate([row], plain | {"source": noisy["source"]}, generator(row["id"], "source"))
            term = objective.eval()(batch).parts["cross_entropy"]
            total, count = total + float(term.sum), count + float(term.count)
    assert loss(plain, noisy) == pytest.approx(total / count, abs=1e-5)


@pytest.mark.slow
def test_it_learns_to_write_words_backwards(world, workspace):
    validation = Validation(
        manifests=[str(world.manifest)],
        budget=Budget(rows=16),
        search=GreedySearch(rules=Rules(maximum_length_extra=8)),
        metrics=["bleu", "chrf"],
        metric="chrf",
        every=300,
    )
    place = workspace()
    fit = world.fit(updates=600, validation=validation, checkpoints=Checkpoints(keep="best 2", every=300))
    fit.run(place)
    rows = History(place.folder).rows()
    first, last = [row for row in rows if "validation" in row]
    assert last["validation"]["loss"] < 1.0 < rows[0]["loss"]
    assert last["validation"]["chrf"] > 90
    assert {path.name for path in place.folder.iterdir()} >= {"training.png", "history.jsonl", "system", "tensorboard"}
    assert [c.score for c in list_checkpoints(place.folder / "checkpoints")][-1] == last["validation"]["chrf"]


@pytest.mark.parametrize("fails", [True, False])
def test_workers_end_with_the_training(world, workspace, fails, monkeypatch):
    """Or a later phase would fork them once more, and complain about children that are not its own."""
    place = workspace()
    place.workers = 1
    if fails:
        monkeypatch.setattr(Learner, "update", lambda *arguments: 1 / 0)
    gc.disable()  # garbage would take them with it at some time
    try:
        with pytest.raises(ZeroDivisionError) if fails else nullcontext():
            world.fit(updates=3).run(place)
        assert multiprocessing.active_children() == []
    finally:
        gc.enable()


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


class Signalled(EncoderDecoderObjective):
    """Gets signals in the middle of an update."""

    signals, update = (), 9

    def prepare(self, batch):
        self.update -= 1
        for number in self.signals if self.update == 0 else ():
            os.kill(os.getpid(), number)
        return batch


# At Ctrl-C, a terminal and torchrun both send a signal: together they are one request.
@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGINT, signal.SIGTERM]])
def test_ctrl_c_saves_and_the_next_start_goes_on(world, workspace, signals):
    whole = world.fit(dropout=0.2, updates=30)
    whole.run(workspace("whole"))
    objective = Signalled(system=world.system(0.2), parts=[CrossEntropy(label_smoothing=0.1)])
    objective.signals = signals
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted, match="stopped at update 9 of 30; the same command goes on"):
        world.fit(objective=objective, updates=30).run(workspace("cut"))
    assert signal.getsignal(signal.SIGTERM) == before
    assert list_checkpoints(workspace("cut").folder / "checkpoints")[-1].update == 9
    resumed = world.fit(dropout=0.2, updates=30)
    resumed.run(workspace("cut"))
    assert same(weights(whole.objective), weights(resumed.objective))
    assert without_times(workspace("cut")) == without_times(workspace("whole"))


def without_times(place):
    return [row | {"tokens_per_second": 0} for row in History(place.folder).rows()]


def test_stopped_while_validating_it_goes_on_with_the_validation(world, workspace, monkeypatch):
    validation = Validation(manifests=[str(world.manifest)], budget=Budget(rows=16), every=4)
    whole = world.fit(dropout=0.2, validation=validation)
    whole.run(workspace("whole"))
    run, calls = Validation.share, []

    def slow(*arguments):
        calls.append(None)
        if len(calls) == 2:
            torch.rand(3)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        return run(*arguments)

    monkeypatch.setattr(Validation, "share", slow)
    started = time.monotonic()
    refuses(Interrupted, "update 8 of 12", world.fit(dropout=0.2, validation=validation).run, workspace("cut"))
    assert time.monotonic() - started < 30
    assert [c.score is None for c in list_checkpoints(workspace("cut").folder / "checkpoints")] == [False, True]
    resumed = world.fit(dropout=0.2, validation=validation)
    resumed.run(workspace("cut"))
    assert len(calls) == 4
    assert same(weights(whole.objective), weights(resumed.objective))
    assert without_times(workspace("cut")) == without_times(workspace("whole"))
    scores = [[c.score for c in list_checkpoints(workspace(n).folder / "checkpoints")] for n in ("cut", "whole")]
    assert scores[0] == scores[1] and len(scores[0]) == 3


@pytest.mark.parametrize("kill", ["validation", "checkpoint", "report"])
def test_what_was_noted_after_the_last_checkpoint_is_forgotten(world, workspace, monkeypatch, kill):
    """An error stands for a kill: nothing of the loop handles it."""
    monkeypatch.setattr("dragoman.shared.training.fit.REPORT_EVERY", 5)
    validation = Validation(manifests=[str(world.manifest)], budget=Budget(rows=16), every=6, patience=9)

    def fit():
        return world.fit(dropout=0.2, validation=validation)

    whole = fit()
    whole.run(workspace("whole"))
    with monkeypatch.context() as patch:
        place = {
            "validation": (Validation, "share"),
            "checkpoint": (Checkpoints, "save"),
            "report": (History, "plot"),  # after the row of the validation
        }[kill]
        real, calls = getattr(*place), []

        def broken(*arguments):
            calls.append(None)
            if len(calls) == 2:
                raise ZeroDivisionError
            return real(*arguments)

        patch.setattr(*place, broken)
        with pytest.raises(ZeroDivisionError):
            fit().run(workspace("cut"))
    with open(workspace("cut").folder / "history.jsonl", "a") as file:
        file.write('{"update": 12, "parts": {"x": 1.0}')  # a row cut off
    resumed = fit()
    resumed.run(workspace("cut"))
    assert same(weights(whole.objective), weights(resumed.objective))
    assert without_times(workspace("cut")) == without_times(workspace("whole"))


@pytest.mark.parametrize(("begun", "now", "fitting"), [(1, 2, "1"), (6, 4, "1 or 2 or 3 or 6"), (2, 4, "1 or 2")])
def test_batches_whose_rows_are_compared_are_not_cut(begun, now, fitting, workspace):
    place = workspace()
    place.world = now
    message = (
        f"was begun with {begun} process(es)?, and the loss compares .* {now} would .*; use {fitting}, or --restart"
    )
    training, apart = {"planned": begun, "ranks": [{}]}, torch.nn.Linear(1, 1)
    assert planned_for(training, apart, place) == begun
    refuses(UsageError, message, planned_for, training, torch.nn.Sequential(apart, Contrast()), place)
    assert planned_for({"planned": now * 2, "ranks": [{}]}, Contrast(), place) == now * 2


def test_batches_are_planned_for_the_processes_that_a_run_was_begun_with(workspace):
    place, objective = workspace(), torch.nn.Identity()
    place.world = 2
    assert planned_for(None, objective, place) == 2
    assert planned_for({"planned": 8, "ranks": [{}, {}]}, objective, place) == 8
    assert planned_for({"ranks": [{}, {}, {}, {}]}, objective, place) == 4, "an older checkpoint"


WORKERS = """
import os, sys
sys.path.insert(0, os.getcwd())
from pathlib import Path
from tests.shared.training.conftest import World
from dragoman.shared.training.fit import Interrupted
from dragoman.shared.machine.workspace import Workspace
folder = Path(sys.argv[1])
fit = World(folder).fit(updates=100000)
try:
    fit.run(Workspace(output=folder / "run", device="cpu", phase="fit", noprogressbar=True, workers=2))
except Interrupted as error:
    print(error)
"""


def test_sigterm_to_the_whole_group_does_not_break_the_workers(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", WORKERS, tmp_path], stdout=-1, stderr=-1, text=True, start_new_session=True
    ) as process:
        while not (tmp_path / "run" / "fit" / "checkpoints").is_dir() and process.poll() is None:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGTERM)
        out, errors = process.communicate(timeout=60)
    assert "the same command goes on" in out, errors
    assert "Traceback" not in errors and process.returncode == 0
    with pytest.raises(ProcessLookupError):  # no worker is left
        os.killpg(process.pid, 0)


def test_the_log_says_the_time_left_and_whether_the_model_is_too_large(world, workspace, caplog, monkeypatch):
    monkeypatch.setattr("dragoman.shared.training.fit.REPORT_EVERY", 2)
    monkeypatch.setattr("dragoman.shared.training.notes.MANY", 10)
    validation = Validation(manifests=[str(world.manifest)], budget=Budget(rows=48), every=10, patience=3)
    with caplog.at_level("INFO", "dragoman"):
        world.fit(updates=17, validation=validation).run(workspace())
    reports = [line for line in caplog.messages if line.startswith("fit: update") and " of 17, " in line]
    numbers = [int(line.split()[2]) for line in reports]
    assert numbers == [2, 16, 17], "the first report, every eighth, the last"
    assert all(" s left at most" in line for line in reports[:2]) and "left" not in reports[2]
    assert any("M parameters learn from 48 rows" in line for line in caplog.messages)


class TwoParts(Objective):
    """A loss of parts with different counts, whose `prepare` adds what the second part needs."""

    def __init__(self, system):
        super().__init__()
        self.system = system
        self.inner = EncoderDecoderObjective(system=system, parts=[CrossEntropy(label_smoothing=0.1)])
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
        optimizer = torch.optim.AdamW(
            [{"params": list(objective.parameters()), "multiplier": 1.0}], lr=0.0, eps=1e-3, fused=True
        )
        set_learning_rate(optimizer, 0.1)
        Learner(objective, objective, optimizer).update(batches, Meter(), workspace())
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
    refuses(DataError, r"not finite.*r\d+", world.fit(objective=objective, updates=25).run, workspace())
    assert same(before, weights(objective))


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_nothing_waits_for_the_device_inside_an_update(precision, world, workspace, monkeypatch):
    fit = world.fit()
    optimizer = fit.optimizer.build(fit.objective)
    set_learning_rate(optimizer, 0.01)
    batches = list(Loader(streams=[world.stream()], seed=1).epoch(0))
    place, meter = workspace(precision=precision), Meter()
    before = weights(fit.objective)
    scaler = loss_scaler(place)
    read = []
    meter.count = lambda _batches: None  # reads lengths that are on the CPU still
    with monkeypatch.context() as patch:
        for name in ("item", "tolist", "cpu", "numpy", "__bool__", "__float__", "__int__", "__index__", "nonzero"):
            real = getattr(torch.Tensor, name)

            def counted(*arguments, name=name, real=real, **keywords):
                read.append(name)
                return real(*arguments, **keywords)

            patch.setattr(torch.Tensor, name, counted)
        Learner(fit.objective, fit.objective, optimizer, scaler=scaler).update([batches[0]], meter, place)
        assert read == []
        bool(batches[0]["target"].lengths.sum() > 0)  # the oracle sees what it is to see
        assert read == ["__bool__"]
    after = weights(fit.objective)
    assert all(not torch.equal(before[name], after[name]) for name in before if name.endswith("weight"))
    assert float(meter.skipped[0]) == 0.0


class NoRoom(EncoderDecoderObjective):
    """Fails as CUDA's libraries do where memory is short."""

    def forward(self, batch):
        raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")


def test_what_does_not_fit_is_said_in_a_line_before_the_first_update(world, workspace, monkeypatch):
    place = workspace()
    fit = world.fit(objective=NoRoom(system=world.system(), parts=[CrossEntropy()]))
    loader = Loader(streams=fit.streams, seed=1)
    with pytest.raises(DataError, match=r"stream 'text': a batch of \{'source': \(8, .* does not fit into the GPU's"):
        try_largest(fit.objective, fit.optimizer, loader, place)
    monkeypatch.setattr(fit.optimizer, "state_bytes", lambda parameter: 2**50)
    with pytest.raises(DataError, match=r"the optimiser's moments, \d+.00 GiB, do not fit beside the model; make"):
        try_largest(fit.objective, fit.optimizer, loader, place)
