"""Cases that test_two_processes.py runs in each process under torchrun: ``two_processes.py FOLDER CASE``."""

import json
import os
import re
import signal
import sys
import time
import weakref
from contextlib import contextmanager
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

from dragoman import BeamSearch, DataError, GreedySearch, Manifest, Rules, System
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.stream import Budget
from dragoman.shared.errors import UsageError
from dragoman.shared.machine.processes import (
    MainPhase,
    activity,
    add_up,
    barrier,
    gather,
    join,
    leave,
    on_main,
    together,
    wrap,
)
from dragoman.shared.machine.stopping import Interrupted
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective, Loss, Objective, Term
from dragoman.shared.phases.evaluating import Evaluate
from dragoman.shared.phases.generating import Generate
from dragoman.shared.training import checkpoints as storing
from dragoman.shared.training import fsdp, part_files, saving
from dragoman.shared.training.checkpoints import Checkpoints, list_checkpoints
from dragoman.shared.training.fit import Fit
from dragoman.shared.training.fsdp import Shards
from dragoman.shared.training.history import History, Meter
from dragoman.shared.training.optimizer import Adam, set_learning_rate
from dragoman.shared.training.schedules import Constant
from dragoman.shared.training.update import Learner
from dragoman.shared.training.validation import Validation
from tests.shared.training.conftest import World
from tests.shared.training.test_update import two_tasks
from tests.small import refusal, refuses


class PerStream(Objective):
    """Each stream has a part and parameters of its own, and on odd rows one that other rows lack (not if even)."""

    def __init__(self, system, *, even=False):
        super().__init__()
        self.even = even
        self.system = system
        self.inner = EncoderDecoderObjective(system=system, parts=[CrossEntropy(label_smoothing=0.1)])
        self.own = torch.nn.ParameterDict(
            {name: torch.nn.Parameter(torch.ones(())) for name in ("text", "more", "odd")}
        )

    def counts(self, batch):
        rows = torch.tensor(float(len(batch)))
        counts = {f"length_{batch.stream}": rows}
        if batch.stream == "text":
            counts |= self.inner.counts(batch)
        if int(batch.ids[0][1:]) % 2 and not self.even:
            counts["odd"] = rows
        return counts

    def forward(self, batch):
        counts = self.counts(batch)
        parts = self.inner(batch).parts if batch.stream == "text" else {}
        lengths = batch["target"].lengths.float()
        name = f"length_{batch.stream}"
        parts[name] = Term(((self.own[batch.stream] * lengths - 3.0) ** 2).sum(), counts[name], 0.5)
        if "odd" in counts:
            parts["odd"] = Term(((self.own["odd"] * lengths - 1.0) ** 2).sum(), counts["odd"], 0.2)
        return Loss(parts)


class Recorded(EncoderDecoderObjective):
    """Notes the rows of every batch, by process."""

    seen: list = []

    def prepare(self, batch):
        self.seen.append([] if batch.idle else batch.ids)
        return batch


def fit(world, *, objective=None, streams=None, dropout=0.0, **options):
    settings = {
        "optimizer": Adam(eps=1e-3),  # so that the last bit of a gradient is not blown up to a whole step
        "schedule": Constant(peak=0.01),
        "updates": 6,
        "checkpoints": Checkpoints(keep="last 9", every=2),
    }
    objective = objective or EncoderDecoderObjective(
        system=world.system(dropout), parts=[CrossEntropy(label_smoothing=0.1)]
    )
    return Fit(objective=objective, streams=streams or [world.stream()], **(settings | options))


def equal_on_all_ranks(objective, workspace):
    state = {name: tensor.clone() for name, tensor in objective.state_dict().items()}
    first, second = gather(state, workspace)
    return all(torch.equal(first[name], second[name]) for name in first)


def difference(one, other):
    state = other.state_dict()
    return max(float((tensor - state[name]).abs().max()) for name, tensor in one.state_dict().items())


def equality(world, place):
    """Two ranks x the batches of each = one process x all of them accumulated."""
    workspace = place("two")
    for kind in (EncoderDecoderObjective, PerStream):
        arguments = {"parts": [CrossEntropy(label_smoothing=0.1)]} if kind is EncoderDecoderObjective else {}
        objectives = [kind(system=world.system(), **arguments) for _ in range(2)]
        streams = [world.stream(rows=5), world.stream(rows=4, name="more")]
        loaders = [Loader(streams=streams, seed=3, rank=rank, world=2) for rank in range(2)]
        batches = list(zip(*(loader.epoch(0) for loader in loaders), strict=True))
        alone = place("one")
        alone.world, alone.rank = 1, 0
        trainer = fit(world)
        models = [wrap(objectives[0], workspace), objectives[1]]
        optimizers = [trainer.optimizer.build(objective) for objective in objectives]
        for step in range(0, len(batches) - 1, 2):  # each update takes a batch of either stream
            for optimizer in optimizers:
                set_learning_rate(optimizer, 0.01)
            mine = [batches[step][workspace.rank], batches[step + 1][workspace.rank]]
            everything = [*batches[step], *batches[step + 1]]
            Learner(objectives[0], models[0], optimizers[0]).update(mine, Meter(), workspace)
            Learner(objectives[1], models[1], optimizers[1]).update(everything, Meter(), alone)
        assert {batch.stream for pair in batches for batch in pair} == {"text", "more"}
        assert equal_on_all_ranks(objectives[0], workspace)
        assert difference(objectives[0], kind(system=world.system(), **arguments)) > 0.01
        assert difference(objectives[0], objectives[1]) < 1e-5, difference(objectives[0], objectives[1])


@contextmanager
def whole_ones_left(objective):
    """Yield a list that gets, whenever a unit has been divided, how many bytes of undivided parameters are left of it.

    They would be on the device by then: a unit is moved there when it is divided.
    """
    learning = [
        (name, weakref.ref(one)) for name, one in objective.named_parameters() if one.requires_grad and one.ndim
    ]
    names = {id(module): f"{name}." if name else "" for name, module in objective.named_modules()}
    left, real = [], fsdp.fully_shard

    def divide(module, **options):
        found = real(module, **options)
        left.append(
            sum(one().nbytes for name, one in learning if one() is not None and name.startswith(names[id(module)]))
        )
        return found

    fsdp.fully_shard = divide
    try:
        yield left
    finally:
        fsdp.fully_shard = real


def hybrid(world, place):
    """Two machines of two processes; on each, two share all parameters."""
    os.environ["LOCAL_WORLD_SIZE"] = "2"
    sharded(world, place, "hybrid", ("plain", "streams"))
    resharded(world, place, (("none", "none"), ("hybrid", "hybrid"), ("fsdp", "hybrid"), ("hybrid", "none")))


def unequal(world, place):
    """Machines that do not have equally many processes are refused by all of them."""
    workspace = place("unequal")
    workspace.sharding = "hybrid"
    for local, said in ((["3", "1"], "1 and 3"), (["1", "1"], "1"), (["4", "4"], "4")):
        os.environ["LOCAL_WORLD_SIZE"] = local[workspace.rank]
        objective = EncoderDecoderObjective(system=world.system(), parts=[CrossEntropy()])
        try:
            Shards(objective, fit(world).optimizer.build(objective), workspace)
        except UsageError as error:
            assert str(error).endswith(f"hybrid needs equally many processes on each machine, 2 or more, not {said}")
        else:
            raise AssertionError("no error")


def sharded(world, place, kind="fsdp", names=("plain", "streams", "frozen", "layers")):
    """Ranks that share all parameters = one process that has all batches; clipped, accumulated, partly frozen."""
    workspace, alone = place("two"), place("one")
    workspace.sharding, count = kind, workspace.world
    alone.world, alone.rank = 1, 0
    arguments = {"parts": [CrossEntropy(label_smoothing=0.1)]}
    kinds = {
        "plain": lambda: EncoderDecoderObjective(system=world.system(), **arguments),
        "streams": lambda: PerStream(world.system(), even=True),
        "frozen": lambda: EncoderDecoderObjective(system=world.system(), **arguments),
        "layers": lambda: EncoderDecoderObjective(system=world.system(), **arguments),
    }
    for name in names:
        make = kinds[name]
        objectives = [make() for _ in range(2)]
        for objective in objectives:
            for place_of, parameter in objective.named_parameters():
                if name == "frozen" and "encoder.layers.0" in place_of or name == "layers" and "embedding" in place_of:
                    parameter.requires_grad_(False)
        streams = [world.stream(rows=5), world.stream(rows=4, name="more")]
        loaders = [Loader(streams=streams, seed=3, rank=rank, world=count) for rank in range(count)]
        batches = list(zip(*(loader.epoch(0) for loader in loaders), strict=True))
        optimizers = [fit(world).optimizer.build(objective) for objective in objectives]
        with whole_ones_left(objectives[0]) as left:
            shards = Shards(objectives[0], optimizers[0], workspace)
        assert not any(left) and len(left) > 1, left
        divided = sum(p.numel() for group in optimizers[0].param_groups for p in group["params"] if p.ndim)
        whole = sum(p.numel() for group in optimizers[1].param_groups for p in group["params"] if p.ndim)
        assert sum(gather(divided, workspace)) == whole * count // 2 and divided < 0.6 * whole
        learners = [
            Learner(objective, objective, optimizer, 0.5, shards=one)
            for objective, optimizer, one in zip(objectives, optimizers, (shards, None), strict=True)
        ]
        for step in range(0, len(batches) - 1, 2):
            for optimizer in optimizers:
                set_learning_rate(optimizer, 0.01)
            meters = [Meter(), Meter()]
            mine = [batches[step][workspace.rank], batches[step + 1][workspace.rank]]
            learners[0].update(mine, meters[0], workspace)
            learners[1].update([*batches[step], *batches[step + 1]], meters[1], alone)
            norms = [float(meter.state()["norm"]) for meter in meters]
            assert abs(norms[0] - norms[1]) < 1e-5 * norms[1] and norms[1] > 0.5, norms
        (state, rows, moments), (wanted, none, others) = (learner.state() for learner in learners)
        begun = make().state_dict()
        assert state.keys() | rows.keys() == wanted.keys() == begun.keys() and not state.keys() & rows.keys()
        assert not none and rows and not any(one.requires_grad and one.ndim for one in state.values())
        parts = gather({key: one.clone() for key, one in rows.items()}, workspace)[:2]  # of the first machine
        state |= {key: torch.cat([part[key] for part in parts]) for key in rows}
        assert max(float((state[key] - begun[key]).abs().max()) for key in begun) > 0.01
        for key, tensor in wanted.items():
            assert float((state[key] - tensor).abs().max()) < 1e-5, (name, key)
        assert moments["state"].keys() == others["state"].keys()
        for number, theirs in others["state"].items():
            for key, value in theirs.items():
                if value.ndim:
                    value = [*value.chunk(2), value[:0]][workspace.rank % 2]
                torch.testing.assert_close(moments["state"][number][key], value, rtol=1e-3, atol=1e-7)
        with shards.whole():
            for key, parameter in objectives[0].named_parameters():
                assert float((parameter - objectives[1].get_parameter(key)).abs().max()) < 1e-5, (name, key)


def unlike(world, place):
    """Ranks whose batches need different parameters are told so, where they would wait for ever."""
    workspace = place("unlike")
    objective = PerStream(world.system())
    optimizer = fit(world).optimizer.build(objective)
    loader = Loader(streams=[world.stream(rows=1)], seed=3, rank=workspace.rank, world=2)
    learner = Learner(objective, objective, optimizer, shards=Shards(objective, optimizer, workspace))
    try:
        for batch in loader.epoch(0):
            if len({int(ids[0][1:]) % 2 for ids in gather(batch.ids, workspace)}) == 2:
                learner.update([batch], Meter(), workspace)
                raise AssertionError("no error")
    except UsageError as error:
        assert "different parameters for a batch of stream 'text'" in str(error), error
    else:
        raise AssertionError("no such batches")


EITHER = (("none", "none"), ("fsdp", "fsdp"), ("none", "fsdp"), ("fsdp", "none"))


def resharded(world, place, pairs=EITHER):
    """A run goes on divided or not, whichever way it began, and leaves what an undivided one leaves."""
    found, sizes, joined = {}, [], part_files.Joined.__getitem__
    for kinds in pairs:
        workspace = place("-".join(kinds))
        for updates, kind in zip((4, 6), kinds, strict=True):
            torch.manual_seed(workspace.seed_for("rank", workspace.rank))
            workspace.sharding = kind
            validation = Validation(
                manifests=[str(world.manifest)],
                budget=Budget(rows=1000),  # one batch: the other process has none
                search=GreedySearch(rules=Rules(maximum_length_extra=4)),
                metrics=["chrf"],
                every=2,
            )
            options = {"updates": updates, "validation": validation, "max_grad_norm": 0.5}
            if kinds[0] == kind != "none":  # each process reads its rows alone
                part_files.Joined.__getitem__ = None
            fit(world, streams=[world.stream(rows=7)], **options).run(workspace)
            part_files.Joined.__getitem__ = joined
        checkpoints = list_checkpoints(workspace.folder / "checkpoints")
        assert [one.update for one in checkpoints] == [2, 4, 6]
        last = checkpoints[-1].folder
        count = {"none": 0, "fsdp": workspace.world, "hybrid": 2}[kinds[-1]]
        for kind in ("moments", "objective"):
            parts = sorted(file.name for file in last.glob(f"{kind}-*"))
            assert parts == [f"{kind}-0000{number}-of-0000{count}.safetensors" for number in range(count)]
        for kind, state in (("moments", "training.pt"), ("objective", "objective.safetensors")):
            files = [last / state, *last.glob(f"{kind}-*")]
            sizes.append((kinds, kind, [file.stat().st_size for file in files]))
        barrier(workspace)
        assert not [*last.parent.glob(".*")], "something half written is left"
        rows = [row["validation"] for row in History(workspace.folder, writing=False).rows() if "validation" in row]
        found[kinds] = [one.tensors() for one in checkpoints], [row["loss"] for row in rows]
    for pair, kind, (state, *parts) in sizes:
        [[whole]] = [found for one, its, found in sizes if one == ("none", "none") and its == kind]
        assert pair[-1] == "none" or state < whole / 2 and whole / 2 < sum(parts) < whole * 1.1, (pair, kind)
        assert pair[-1] == "none" or max(parts) < whole * 0.6, (pair, kind)
    (wanted, losses), *others = found.values()
    assert losses[0] > losses[-1]
    for tensors, scores in others:
        for ours, theirs in zip(tensors, wanted, strict=True):
            assert ours.keys() == theirs.keys()
            assert max(float((ours[key] - theirs[key]).abs().max()) for key in ours) < 1e-5
        assert max(abs(one - other) for one, other in zip(scores, losses, strict=True)) < 1e-4


class Unmoved(EncoderDecoderObjective):
    """May not be put on its device as it is, whole."""

    def to(self, *_):
        raise AssertionError("all of it was moved to the device")


def damaged(world, place):
    """A file that one process looks at is damaged: both end, and name it."""
    for kind, what in (("moments", "file of moments"), ("objective", "weights file")):
        workspace, again = place(f"damaged-{kind}"), place(f"damaged-{kind}")
        workspace.sharding = again.sharding = "fsdp"
        objectives = [Unmoved(system=world.system(), parts=[CrossEntropy()]) for _ in range(2)]
        fit(world, objective=objectives[0], updates=2).run(workspace)
        file = list_checkpoints(workspace.folder / "checkpoints")[-1].folder / f"{kind}-00001-of-00002.safetensors"
        if workspace.main:
            content = file.read_bytes()
            file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        barrier(workspace)
        refuses(
            DataError,
            f"{file.name}: not a readable {what}",
            fit(world, objective=objectives[1], updates=4).run,
            again,
        )


def late(world, place):
    """Process 1 is slow to write its part: both train meanwhile, and the checkpoint is that of its update."""
    found, real = [], saving.save_part
    for name in ("sharp", "late"):
        workspace = place(name)
        workspace.sharding = "fsdp"

        def slow(folder, *given, slowly=(name, workspace.rank) == ("late", 1)):
            end = time.monotonic() + 60
            while slowly and activity.update < 6:
                assert not [*folder.parent.glob("00000004")] and time.monotonic() < end
                time.sleep(0.01)
            return real(folder, *given)

        saving.save_part, activity.update = slow, 0
        fit(world, checkpoints=Checkpoints(keep="last 9", every=4)).run(workspace)
        checkpoints = list_checkpoints(workspace.folder / "checkpoints")
        states = [one.training()["optimizer"]["state"] for one in checkpoints]
        found.append(([one.tensors() for one in checkpoints], [one[0] for one in states]))
    saving.save_part = real
    assert [len(tensors) for tensors, _ in found] == [2, 2]
    for ours, theirs in zip(*found, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def full(world, place):
    """The disk of one process is full: both end, and say so; the checkpoint before is intact."""
    for kind, rank in (("none", 0), ("fsdp", 0), ("fsdp", 1)):
        workspace = place(f"full-{kind}-{rank}")
        workspace.sharding = kind
        module = part_files if kind == "fsdp" else storing

        def write(tensors, file, real=module.save_file, fails=workspace.rank == rank):
            if fails and [*file.parents[1].glob("00000002")]:
                raise OSError(28, "No space left on device")
            real(tensors, file)

        real, module.save_file = module.save_file, write
        said = refusal(DataError, fit(world, updates=500).run, workspace)
        module.save_file = real
        assert re.search("could not be written .*No space left on device.* intact", said), said
        assert len(set(gather(said, workspace))) == 1
        barrier(workspace)
        assert [path.name for path in (workspace.folder / "checkpoints").iterdir()] == ["00000002"]


def half(world, place):
    """In fp16, where the first gradients overflow: ranks skip the same updates and keep one scale, as one would."""
    workspace, alone = place("two"), place("one")
    for machine in (workspace, alone):
        machine.precision = "fp16"
    alone.world, alone.rank = 1, 0
    objectives = [EncoderDecoderObjective(system=world.system(), parts=[CrossEntropy()]) for _ in range(2)]
    loaders = [Loader(streams=[world.stream(rows=5)], seed=3, rank=rank, world=2) for rank in range(2)]
    optimizers = [fit(world).optimizer.build(objective) for objective in objectives]
    scalers = [torch.amp.GradScaler("cpu", init_scale=2.0**24) for _ in range(2)]
    models = [wrap(objectives[0], workspace), objectives[1]]
    scales = []
    for epoch in range(4):
        for batches in zip(*(loader.epoch(epoch) for loader in loaders), strict=True):
            for number, (given, where) in enumerate((([batches[workspace.rank]], workspace), (list(batches), alone))):
                set_learning_rate(optimizers[number], 0.01)
                learner = Learner(objectives[number], models[number], optimizers[number], 1.0, scaler=scalers[number])
                learner.update(given, Meter(), where)
            scales.append([scaler.get_scale() for scaler in scalers])
            assert len({*scales[-1], *gather(scales[-1][0], workspace)}) == 1, scales
    assert scales[0][0] < 2.0**24 and scales[-1] == scales[-2], "no update was skipped, or all were"
    assert equal_on_all_ranks(objectives[0], workspace)
    begun = EncoderDecoderObjective(system=world.system(), parts=[CrossEntropy()])
    assert difference(objectives[0], begun) > 0.01
    assert difference(objectives[0], objectives[1]) < 1e-3, difference(objectives[0], objectives[1])


def tasks(world, place):
    """Two streams lack each other's fields; two ranks x one batch of each = one process x all of them accumulated."""
    workspace, alone = place("two"), place("one")
    alone.world, alone.rank = 1, 0
    objectives, trainer = [], fit(world)
    for _ in range(2):
        objective, streams = two_tasks(world)
        objectives.append(objective)
    loaders = [Loader(streams=streams, seed=3, rank=rank, world=2) for rank in range(2)]
    steps = list(zip(*(loader.epoch(0) for loader in loaders), strict=True))
    models = [wrap(objectives[0], workspace), objectives[1]]
    optimizers = [trainer.optimizer.build(objective) for objective in objectives]
    for optimizer in optimizers:
        set_learning_rate(optimizer, 0.01)
    for start in range(0, len(steps) - 1, 2):
        one, other = steps[start : start + 2]
        assert {batch.stream for batch in (*one, *other)} == {"text", "back"}
        assert not one[0].fields.keys() & other[0].fields.keys()
        mine = [one[workspace.rank], other[workspace.rank]]
        Learner(objectives[0], models[0], optimizers[0]).update(mine, Meter(), workspace)
        Learner(objectives[1], models[1], optimizers[1]).update([*one, *other], Meter(), alone)
    assert equal_on_all_ranks(objectives[0], workspace)
    assert difference(objectives[0], two_tasks(world)[0]) > 0.01
    assert difference(objectives[0], objectives[1]) < 1e-5, difference(objectives[0], objectives[1])


def watch(folder):
    """Make it an error if this process writes anything below a folder."""

    def audit(event, arguments):
        if event in ("os.rename", "os.mkdir", "os.remove", "os.rmdir") and str(arguments[0]).startswith(str(folder)):
            raise AssertionError(f"{event} {arguments}")
        if event == "open" and str(arguments[0]).startswith(str(folder)) and arguments[2] & (os.O_WRONLY | os.O_RDWR):
            raise AssertionError(f"{event} {arguments}")

    sys.addaudithook(audit)


def passes(world, place):
    """Two processes that share each batch do the updates that one does."""
    alone = place("alone")
    alone.world, alone.rank = 1, 0
    objectives = []
    for workspace, count in ((place("shared"), 2), (alone, 1)):
        if workspace.world == 1 and not place("x").main:
            continue
        trainer = fit(world, streams=[world.stream(rows=16)], passes=count)
        trainer.run(workspace)
        objectives.append(trainer.objective)
    if place("x").main:
        assert difference(*objectives) < 1e-5, difference(*objectives)
        assert difference(objectives[0], fit(world).objective) > 0.01


def whole(world, place):
    """A run with validation: ranks stay equal, see different rows, and only rank 0 writes."""
    workspace = place("run")
    if not workspace.main:
        watch(workspace.output)
    Recorded.seen.clear()
    validation = Validation(
        manifests=[str(world.manifest)],
        budget=Budget(rows=16),
        search=GreedySearch(rules=Rules(maximum_length_extra=8)),
        metrics=["chrf"],
        metric="chrf",
        every=2,
    )
    objective = Recorded(system=world.system(0.3), parts=[CrossEntropy(label_smoothing=0.1)])
    trainer = fit(world, objective=objective, validation=validation, grad_accumulation_factor=2)
    trainer.run(place("run"))
    assert equal_on_all_ranks(objective, workspace)
    seen = gather([name for ids in Recorded.seen for name in ids], workspace)
    states = gather(torch.get_rng_state(), workspace)
    assert not torch.equal(*states), "both ranks drop the same units"
    assert set(seen[0]) | set(seen[1]) == {f"r{number}" for number in range(48)}

    # cut and resumed
    torch.manual_seed(0)
    first = fit(
        world, objective=Recorded(system=world.system(0.3), parts=[CrossEntropy(label_smoothing=0.1)]), updates=4
    )
    first.accumulation, first.validation = 2, validation
    first.run(place("cut"))
    torch.manual_seed(99)
    again = Recorded(system=world.system(0.3), parts=[CrossEntropy(label_smoothing=0.1)])
    fit(world, objective=again, validation=validation, grad_accumulation_factor=2).run(place("cut"))
    assert difference(again, objective) == 0.0


def fewer(world, place):
    """Two begin, one goes on, two end: every update has the rows that it has where two do all of them."""
    workspace = place("two")

    def run(where, updates):
        objective = Recorded(system=world.system(), parts=[CrossEntropy(label_smoothing=0.1)])
        streams = [world.stream(rows=5), world.stream(rows=4, name="more")]
        Recorded.seen.clear()
        fit(world, objective=objective, streams=streams, updates=updates, grad_accumulation_factor=2).run(where)
        return objective, list(Recorded.seen)

    wanted, mine = run(place("all"), 14)
    seen = gather(mine, workspace)
    run(place("some"), 4)
    alone = place("some")
    alone.world, alone.rank = 1, 0
    by_one = on_main(lambda: run(alone, 9)[1], workspace)  # in the middle of an epoch
    assert len(by_one) == 5 * 4, "5 updates of two batches of two processes"
    of_two = [ids for batches in zip(*(batches[4 * 2 : 9 * 2] for batches in seen), strict=True) for ids in batches]
    assert by_one == of_two
    state = list_checkpoints(place("some").folder / "checkpoints")[-1].training()
    assert state["planned"] == 2 and len(state["ranks"]) == 1 and state["position"]["batch"] > 1
    found, mine = run(place("some"), 14)
    assert mine == seen[workspace.rank][9 * 2 :]
    assert equal_on_all_ranks(found, workspace)
    assert difference(found, wanted) < 1e-5, difference(found, wanted)
    states = [list_checkpoints(place(name).folder / "checkpoints")[-1].training() for name in ("all", "some")]
    assert states[0]["position"] == states[1]["position"] and states[0]["position"]["epoch"] > 0
    assert len(states[1]["ranks"]) == 2


def more(world, place):
    """One begins, two go on, one ends: every update has the rows that it has where one does all, a row alone, too."""
    workspace, ends = place("two"), []

    def run(where, updates):
        objective = Recorded(system=world.system(), parts=[CrossEntropy(label_smoothing=0.1)])
        streams = [world.stream(rows=5), world.stream(rows=1, name="more")]
        Recorded.seen.clear()
        fit(world, objective=objective, streams=streams, updates=updates, grad_accumulation_factor=2).run(where)
        ends.append(objective)
        return list(Recorded.seen)

    for kind in ("none", "fsdp"):
        alone, some = (place(f"{name}-{kind}") for name in ("all", "some"))
        for where in (alone, some):
            where.world, where.rank = 1, 0
        seen = on_main(lambda where=alone: run(where, 12), workspace)
        on_main(lambda where=some: run(where, 3), workspace)
        both = place(f"some-{kind}")
        both.sharding = kind
        shares = gather(run(both, 11), workspace)
        assert [len(share) for share in shares] == [8 * 2, 8 * 2]
        for step, (first, second) in zip(seen[3 * 2 : 11 * 2], zip(*shares, strict=True), strict=True):
            assert first + second == step and len(first) - len(second) in (0, 1)
        assert {len(step) for step in seen} >= {5, 1}
        on_main(lambda where=some: run(where, 12) and None, workspace)
        if workspace.main:
            wanted, found = ends[0], ends[-1]
            assert difference(found, wanted) < 1e-5, difference(found, wanted)
            assert difference(found, fit(world).objective) > 0.01
        states = [list_checkpoints(one.folder / "checkpoints")[-1].training() for one in (alone, some)]
        assert states[0]["position"] == states[1]["position"] and states[1]["planned"] == 1
        ends.clear()


def content(folder):
    """The files of a folder; of results, what does not depend on time."""
    found = {}
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and "state" not in path.parts):
        found[str(file.relative_to(folder))] = file.read_bytes()
        if file.name == "results.jsonl":
            rows = map(json.loads, file.read_text().splitlines())
            found["results.jsonl"] = [row | {"minutes": 0, "evaluation_minutes": 0} for row in rows]
    return found


class Once(MainPhase):
    """Counts how often a process does its work."""

    done = 0

    def work(self, workspace):
        self.done += 1


def shares(world, place):
    """Both processes translate: in Generate, Evaluate and a validation; what comes out is what one process makes."""
    workspace, alone = place("two"), place("one")
    alone.world, alone.rank = 1, 0
    model = Path(__file__).parents[2] / "golden" / "model"
    words = "one two three four five six seven eight".split()
    rows = [
        {
            "id": f"r{n}",
            "source_text": " ".join(words[: n % 8 + 1]),
            "source_language": "en",
            "target_text": "zwei eins",
        }
        for n in range(11)
    ]
    data = workspace.output / "data" / "en-de" / "test.arrow"
    on_main(lambda: Manifest.write(data, [row | {"target_language": "de"} for row in rows]) and None, workspace)
    asked = {"model": str(model), "manifests": [str(data)], "search": BeamSearch(beam=2), "budget": Budget(tokens=12)}
    validation = Validation(
        manifests=[str(world.manifest)],
        budget=Budget(rows=5),
        search=GreedySearch(rules=Rules(maximum_length_extra=4)),
        metrics=["chrf"],
    )
    objective = EncoderDecoderObjective(system=world.system(), parts=[CrossEntropy(label_smoothing=0.1)])
    once = Once()
    once.run(workspace)
    assert gather(once.done, workspace) == [1, 0]
    translated = []
    translate = System.translate_batch

    def counted(self, batch, search):
        translated.extend(batch.ids)
        return translate(self, batch, search)

    System.translate_batch = counted
    scores = []
    for where in [alone, workspace] if workspace.main else [workspace]:
        for name, phase in (
            ("generate", Generate(**asked, shard_rows=3)),
            ("evaluate", Evaluate(**asked, metrics=["chrf"])),
        ):
            where.phase, where.recipe = name, "test"
            translated.clear()
            phase.run(where)
            mine = gather(list(translated), where)
            assert sorted(name for names in mine for name in names) == sorted(row["id"] for row in rows)
            assert all(mine), "a process had nothing to do"
        parts = gather(validation.share(objective, world.stream(), where), where)
        assert all(part.texts[0] and part.losses[0] for part in parts)
        scores.append(on_main(lambda parts=parts, where=where: validation.judge(parts, objective, where), where))
    if workspace.main:
        assert scores[0] == scores[1] and scores[0].values["loss"] > 1
        one, two = content(alone.output), content(workspace.output)
        two.pop("data/en-de/test.arrow")
        assert one == two, [name for name in one.keys() | two.keys() if one.get(name) != two.get(name)]
        assert {"generate/en-de/test.arrow", "evaluate/en-de.test.tsv", "results.jsonl"} <= one.keys()


def control(world, place):
    """Check the sums and decisions that processes agree on."""
    workspace = place("control")
    mine = {"both": torch.tensor(workspace.rank + 1.0), f"only{workspace.rank}": torch.tensor(5)}
    counts = add_up(mine, workspace, "cpu")
    assert {name: float(count) for name, count in counts.items()} == {"both": 3.0, "only0": 5.0, "only1": 5.0}
    assert on_main(lambda: workspace.rank, workspace) == 0
    assert on_main(lambda: None, workspace) is None
    assert gather(workspace.rank, workspace) == [0, 1]
    try:
        on_main(lambda: int("x"), workspace)
    except DataError as error:
        assert not workspace.main and "process 0 of this run has ended" in str(error)
    except ValueError:
        assert workspace.main
    else:
        raise AssertionError("no error")


def dies(world, place):
    """Rank 1 meets a row that cannot be read."""

    class Broken(EncoderDecoderObjective):
        def prepare(self, batch):
            if place("x").rank == 1:
                raise DataError("train.arrow: row 'r7': broken")
            return batch

    fit(world, objective=Broken(system=world.system(), parts=[CrossEntropy()])).run(place("dies"))


def killed(world, place):
    """Rank 1 is killed, as by a system that has no memory left."""

    class Killed(EncoderDecoderObjective):
        def prepare(self, batch):
            if place("x").rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return batch

    fit(world, objective=Killed(system=world.system(), parts=[CrossEntropy()])).run(place("killed"))


def stopped(world, place):
    """Rank 1 alone gets a signal; both stop after the same update."""

    class Stopping(EncoderDecoderObjective):
        calls = 0

        def prepare(self, batch):
            Stopping.calls += 1
            if place("x").rank == 1 and Stopping.calls == 3:
                os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)
            return batch

    objective = Stopping(system=world.system(), parts=[CrossEntropy()])
    try:
        fit(world, objective=objective, updates=50).run(place("stopped"))
    except Interrupted as error:
        assert "stopped at update 3 of 50" in str(error), error
    else:
        raise AssertionError("went on")


def main():
    folder, cases = Path(sys.argv[1]), sys.argv[2:]

    def place(name):
        torch.manual_seed(0)
        return Workspace(output=folder / name, device="cpu", phase="fit", noprogressbar=True, workers=0)

    join(place("x"))
    world = on_main(lambda: World(folder), place("x"))
    try:
        with together(place("x")):
            for case in cases:
                globals()[case](world, place)
    except DataError as error:
        print(f"process {place('x').rank}: {error}", file=sys.stderr, flush=True)
        sys.exit(1)
    leave()


if __name__ == "__main__":
    main()
