"""Sums and checks of an update: tasks, counts, alarms, and what depends on its number."""

import copy
import re
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from dragoman import BeamSearch, UsageError
from dragoman.mt.unsupervised import OnTheFly
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.stream import Budget
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective, TaskObjective
from dragoman.shared.systems.encoder_system import EncoderSystem
from dragoman.shared.training.history import History, Meter
from dragoman.shared.training.optimizer import Adam
from dragoman.shared.training.schedules import Steps
from dragoman.shared.training.update import Learner, bytes_while_training, cast_type, same_randomness_after, try_largest
from dragoman.shared.training.validation import Validation
from dragoman.st.fat import FusedMasking
from dragoman.st.wav2vec import FuturePrediction
from dragoman.st.wav2vec2 import ContrastivePretraining
from tests.shared.training.test_fit import same, weights


class Miscounted(EncoderDecoderObjective):
    """Tells another count than that of its loss."""

    def counts(self, batch):
        return {name: count + 1 for name, count in super().counts(batch).items()}


def test_a_debug_run_compares_the_counts(world, workspace):
    objective = Miscounted(system=world.system(), parts=[CrossEntropy()])
    with pytest.raises(UsageError, match=r"part 'accuracy' of the loss: the objective's counts\(batch\) says \d+"):
        world.fit(objective=objective).run(workspace(debug=True))
    world.fit(updates=2).run(workspace("right", debug=True))


def two_tasks(world):
    """Return an objective of two tasks, each of which reads and writes fields that the other one lacks; its streams."""
    system = world.system()
    system.model.embeddings["second"] = copy.deepcopy(system.model.embeddings["source"])
    back = CrossEntropy(source="second", target_field="transcript", prefix="back.")
    tasks = {"text": [CrossEntropy(source="source")], "back": [back]}
    stream = world.stream(rows=5, name="back")
    stream.fields = {"second": stream.fields["target"], "transcript": stream.fields["source"]}
    return TaskObjective(system=system, tasks=tasks), [world.stream(), stream]


def test_two_tasks_alternate_or_add_up(world, workspace, monkeypatch):
    for accumulation in (1, 2):
        objective, streams = two_tasks(world)
        place, said = workspace(f"run{accumulation}"), []
        monkeypatch.setattr(place.log, "info", lambda text, *values, said=said: said.append(text % values))
        world.fit(objective=objective, streams=streams, grad_accumulation_factor=accumulation).run(place)
        assert any("updates alternate" in line for line in said) == (accumulation == 1)
        last = History(place.folder).rows()[-1]
        assert {"cross_entropy", "back.cross_entropy"} <= last["parts"].keys()
        assert all(parameter.isfinite().all() for parameter in objective.parameters())


def test_a_stream_without_a_task_is_refused_before_the_first_update(world, workspace):
    objective, streams = two_tasks(world)
    streams[1].name = "more"
    with pytest.raises(UsageError, match="no task for stream 'more', only for text, back"):
        world.fit(objective=objective, streams=streams).run(workspace())


def test_validation_reads_the_task_of_its_stream(world, workspace):
    objective, streams = two_tasks(world)
    manifests, budget = [str(world.manifest)], Budget(rows=16)
    losses = {}
    for name in (None, "text", "back"):
        validation = Validation(manifests=manifests, budget=budget, stream=name)
        shares = [validation.share(objective, validation.chosen(streams), workspace())]
        losses[name] = validation.judge(shares, objective, workspace()).values["loss"]
        assert shares[0].losses[0][0].keys() >= {"back.nll" if name == "back" else "nll"}
    assert losses[None] == losses["text"] != losses["back"]


def test_a_validation_that_could_not_be_done_is_refused_before_the_first_update(world, workspace):
    manifests, budget = [str(world.manifest)], Budget(rows=16)
    objective, streams = two_tasks(world)
    astray = Validation(manifests=manifests, budget=budget, stream="more")
    with pytest.raises(UsageError, match="validation: there is no stream 'more', only text, back"):
        world.fit(objective=objective, streams=streams, validation=astray).run(workspace("astray"))
    objective.system = EncoderSystem(model=objective.model, inputs=objective.system.inputs)
    scored = Validation(manifests=manifests, budget=budget, search=BeamSearch(), metrics=["bleu"])
    with pytest.raises(UsageError, match="this model is an encoder, which writes nothing.*so metric must be loss"):
        world.fit(objective=objective, streams=streams, validation=scored).run(workspace("mute"))


class Following(CrossEntropy):
    """Notes the updates; its weight is a function of them."""

    def __init__(self, **options):
        super().__init__(**options)
        self.seen = []

    def at(self, update):
        self.seen.append(update)
        self.weight = 1.0 if update % 3 else 0.25

    def alarms(self, means):
        return [f"the mean is {means['nll']:.0f}"] if means["nll"] > 1.0 else []


def test_what_follows_the_update_goes_on_bit_for_bit_and_leaves_nothing_in_checkpoints(world, workspace):
    """The objective, a factor of the learning rate, and dropout."""

    def fit(updates):
        part = Following(label_smoothing=0.1)
        return part, world.fit(
            objective=EncoderDecoderObjective(system=world.system(0.1), parts=[part]),
            optimizer=Adam(multipliers={r"system\.model\.encoder\..*": Steps(values=[0.0, 1.0], after=[5])}),
            scheduled={r"system\.model\.decoder\..*\.dropout": Steps(values=[0.0, 0.4], after=[6])},
            updates=updates,
            validation=Validation(manifests=[str(world.manifest)], budget=Budget(rows=16), every=4),
        )

    seen, whole = fit(12)
    whole.run(workspace("whole"))
    assert seen.seen == [1, *range(1, 13)]
    layer = whole.objective.model.decoder.layers[0]
    assert layer.dropout == 0.4 and whole.objective.model.encoder.layers[0].dropout == 0.1
    fit(7)[1].run(workspace("cut"))  # its checkpoint is of update 7
    seen, resumed = fit(12)
    torch.manual_seed(999)
    resumed.run(workspace("cut"))
    assert seen.seen == [7, *range(8, 13)]
    assert same(weights(whole.objective), weights(resumed.objective))
    before = weights(EncoderDecoderObjective(system=world.system(0.1), parts=[Following()]))
    early = fit(5)[1]
    early.run(workspace("early"))
    frozen = [name for name in before if name.startswith("system.model.encoder.")]
    assert frozen and all(torch.equal(before[name], weights(early.objective)[name]) for name in frozen)
    assert not same(before, weights(early.objective))
    with pytest.raises(UsageError, match="scheduled: 'system.nothing' matches the name of no number"):
        world.fit(scheduled={"system.nothing": Steps(values=[1.0], after=[])}).run(workspace("wrong"))


def test_alarms_of_a_validation_are_logged(world, workspace, monkeypatch):
    place, said = workspace(), []
    monkeypatch.setattr(place.log, "warning", lambda text, *values: said.append(text % values))
    objective = EncoderDecoderObjective(system=world.system(), parts=[Following()])
    validation = Validation(manifests=[str(world.manifest)], budget=Budget(rows=16))
    validation.judge([validation.share(objective, world.stream(), place)], objective, place)
    assert len(said) == 1 and re.fullmatch(r"fit: the mean is \d", said[0])


def test_the_generator_of_mps_is_kept_too(monkeypatch):
    state = [5]  # stands in for that of the device, which torch.manual_seed changes as well
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: state[0])
    monkeypatch.setattr(torch.mps, "set_rng_state", lambda kept: state.__setitem__(0, kept))
    with same_randomness_after(SimpleNamespace(device="mps")):
        state[0] = 1
    assert state == [5]


def test_largest_batches_are_tried_without_effect_on_later_draws(world, workspace):
    fit, place = world.fit(), workspace()
    objective = fit.objective
    loader = Loader(streams=fit.streams, seed=1)
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    before = copy.deepcopy(objective.state_dict())
    try_largest(objective, fit.optimizer, loader, place)
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(value, before[name]) for name, value in objective.state_dict().items())
    assert not [parameter for parameter in objective.parameters() if parameter.grad is not None]


def test_what_training_holds_beside_a_batch():
    """Two moments of four bytes a parameter that learns; and what two processes send, as many as the gradient."""
    objective = torch.nn.Linear(3, 5)
    objective.bias.requires_grad = False
    assert bytes_while_training(objective, Adam(), 1) == 15 * 8
    assert bytes_while_training(objective, Adam(), 2) == 15 * 12


@pytest.mark.parametrize("dtype", [torch.bfloat16, None])
def test_parameters_are_cast_together_on_a_gpu_alone(dtype):
    assert cast_type(SimpleNamespace(device="cuda:1", autocast_dtype=dtype)) == dtype
    assert cast_type(SimpleNamespace(device="cpu", autocast_dtype=dtype)) is None


class Drawing(EncoderDecoderObjective):
    """Prepares batches, by the model's parameters or by chance alone."""

    def prepare(self, batch):
        return batch


@pytest.mark.parametrize(("alone", "gathered"), [(False, 1), (True, 0)])
def test_processes_gather_shared_parameters_for_what_prepares_by_them(world, workspace, alone, gathered):
    """Whoever draws masks does not: wav2vec 2.0 would gather its whole model before each update."""

    class Shards:
        times = 0

        @contextmanager
        def whole(self):
            self.times += 1
            yield

        def check(self, total, stream): ...
        def take_gradients(self): ...
        def norm(self, norm):
            return norm

    objective, shards = Drawing(system=world.system(), parts=[CrossEntropy()]), Shards()
    objective.prepares_alone = alone
    optimizer = Adam().build(objective)
    batch = next(Loader(streams=[world.stream()], seed=1).epoch(0))
    Learner(objective, objective, optimizer, shards=shards).update([batch], Meter(), workspace())
    assert shards.times == gathered
    assert all(objective.prepares_alone for objective in (FuturePrediction, ContrastivePretraining, FusedMasking))
    assert not OnTheFly.prepares_alone
