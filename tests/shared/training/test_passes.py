"""Passes: an update is the same however it is cut, and what a GPU takes at once is found and kept."""

import json
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dragoman import DataError
from dragoman.shared.batches.loader import Loader, collate
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.plan import cut, evened
from dragoman.shared.batches.randomness import generator
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.batches.stream import Budget, Stream
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective
from dragoman.shared.training import passes
from dragoman.shared.training.fit import Fit
from dragoman.shared.training.history import Meter, report
from dragoman.shared.training.optimizer import Adam
from dragoman.shared.training.passes import passes_of, passes_on_cpu
from dragoman.shared.training.update import Learner
from tests.shared.training.test_fit import same, weights


def tokens_of(world, tokens, manifest=None):
    manifests, fields = [str(manifest or world.manifest)], world.stream().fields
    return Stream(name="text", manifests=manifests, fields=fields, budget=Budget(tokens=tokens))


@pytest.fixture
def uneven(world, tmp_path):
    """A stream whose rows have 1 to 9 letters, on the target's side 9 to 1."""
    rows = [dict(row) for row in Manifest.open(world.manifest)]
    for number, row in enumerate(rows):
        word = "".join(str(number * digit % 10) for digit in range(1, 10))
        row |= {"source_text": word[: 1 + number % 9], "target_text": word[number % 9 :]}
    path = Manifest.write(tmp_path / "uneven.arrow", rows).path
    return lambda tokens: tokens_of(world, tokens, path)


def test_a_step_has_the_same_rows_whatever_the_passes_and_the_processes(world, uneven):
    """Each row stands in one part, as long as it is, and all processes have equally many parts."""
    stream = uneven(120)
    uncut = [{id: row for id, row in rows(batch)} for batch in Loader(streams=[stream], seed=5, passes=1).epoch(0)]
    for count, processes in ((1, 1), (2, 1), (5, 1), (1, 2), (2, 3)):
        loaders = [Loader(streams=[stream], seed=5, rank=r, world=processes, passes=count) for r in range(processes)]
        for whole, *shares in zip(uncut, *(loader.steps(0) for loader in loaders), strict=True):
            assert len({len(share) for share in shares}) == 1
            parts = [batch for share in shares for batch in share]
            assert len(parts) == count * processes or len(whole) < 2 * count * processes
            found = [pair for batch in parts for pair in rows(batch)]
            assert sorted(id for id, _ in found) == sorted(whole)
            assert all(torch.equal(row, whole[id]) for id, row in found)
            pairs = [
                zip(batch["source"].lengths.tolist(), batch["target"].lengths.tolist(), strict=True) for batch in parts
            ]
            taken = [[1 / (120 // max(pair)) for pair in of_part] for of_part in pairs]
            spread = max(map(sum, taken)) - min(map(sum, taken))
            assert spread <= 2 * max(map(max, taken)) + 1e-9 or len(parts) < count * processes
    few, nobody = (Loader(streams=[tokens_of(world, 12)], seed=5, rank=r, world=9, passes=1) for r in (8, 0))
    for [batch], [first] in zip(few.steps(0), nobody.steps(0), strict=True):
        assert batch.idle and not first.idle


def test_a_rest_is_shared_with_the_batch_before_it():
    """A group's last two batches are halved, but for rows so long that fewer fit; other batches stay."""
    capacities, groups = np.full(25, 8), np.repeat([0, 1, 2], [17, 5, 3])
    assert cut(capacities, groups).tolist() == [0, 8, 16, 17, 22, 25]
    assert evened(cut(capacities, groups), capacities, groups).tolist() == [0, 8, 13, 17, 22, 25]
    capacities[16] = 2
    assert evened(cut(capacities, groups), capacities, groups).tolist() == [0, 8, 15, 17, 22, 25]
    half = np.array([0, 8, 12])
    assert evened(np.array([0, 4, 12]), np.full(12, 8), np.zeros(12)).tolist() == [0, 4, 12]
    assert evened(half, np.full(12, 8), np.zeros(12)).tolist() == [0, 6, 12] and half[1] == 8


def rows(batch):
    return [*zip(batch.ids, batch["source"].rows(), strict=True)]


def test_an_update_does_not_depend_on_how_it_is_cut(world, workspace):
    found = {}
    for count in (None, 1, 2, 5):
        trainer = world.fit(rows=16, passes=count, optimizer=Adam(eps=1e-3))
        trainer.objective.double()  # in single precision, how products of few rows round decides which ReLUs are open
        trainer.run(workspace(f"passes-{count}"))
        found[count] = weights(trainer.objective)
        losses = [json.loads(line) for line in (workspace(f"passes-{count}").folder / "history.jsonl").open()]
        found[count] |= {"loss": torch.tensor(losses[-1]["loss"])}
    begun = weights(world.fit().objective)
    assert max(float((found[1][name] - begun[name]).abs().max()) for name in begun) > 0.01
    for count in (None, 2, 5):
        for name, tensor in found[count].items():
            torch.testing.assert_close(tensor, found[1][name], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_gradient_is_that_of_the_mean_over_all_tokens(world, workspace, uneven, monkeypatch, count):
    """Row by row: the loss of each row's mean token counts as often as the row has tokens."""
    stream = uneven(120)
    objective = EncoderDecoderObjective(system=world.system(), parts=[CrossEntropy(label_smoothing=0.1)])
    (whole,) = islice(Loader(streams=[stream], seed=5, passes=1).epoch(0), 1)
    given = {row["id"]: row for row in stream.manifests[0]}
    rows = [collate([given[id]], stream.fields, generator(0)) for id in whole.ids]
    tokens = [int(row["target"].lengths[0]) - 1 for row in rows]  # all but the tag, which is given
    assert len(set(tokens)) > 1 and len(rows) > 5
    loss = sum(objective(row).total() * number for row, number in zip(rows, tokens, strict=True)) / sum(tokens)
    loss.backward()
    expected = [parameter.grad.clone() for parameter in objective.parameters()]
    objective.zero_grad()
    found = []

    def kept(optimizer, norm):
        found.extend(parameter.grad.clone() for parameter in objective.parameters())
        return torch.zeros(())

    monkeypatch.setattr("dragoman.shared.training.update.step_if_finite", kept)
    parts = next(Loader(streams=[stream], seed=5, passes=count).steps(0))
    assert len(parts) == count
    meter = Meter()
    Learner(objective, objective, Adam().build(objective)).update(parts, meter, workspace())
    assert report([meter.state()])["loss"] == pytest.approx(float(loss.detach()), rel=1e-5)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_the_largest_parts_are_tried_and_their_padding_told(uneven):
    stream = uneven(120)
    loader = Loader(streams=[stream], seed=5, passes=3)
    parts = [batch for step in loader.steps(0) for batch in step]
    tried = [*loader.largest()]
    for name in stream.fields:
        shapes = [batch[name].values.shape for batch in parts]
        assert max(rows * longest for rows, longest in shapes) == max(batch[name].values.numel() for batch in tried)
    real = sum(int(batch["source"].lengths.sum()) for batch in parts)
    padded = sum(batch["source"].values.numel() for batch in parts)
    assert 0.02 < 1 - real / padded < 0.5
    (line,) = loader.report()
    steps = len(loader.plan(0))
    shapes = len({(len(batch), *(batch[name].values.shape[1] for name in stream.fields)) for batch in parts})
    sizes = f"; {steps} batches in {3 * steps} parts of {shapes} shapes"
    assert f"{sizes}, padding: source {1 - real / padded:.0%}, target" in line


def test_a_run_in_passes_goes_on_bit_for_bit(world, workspace):
    straight = world.fit(dropout=0.3, passes=3, rows=16, updates=8)
    straight.run(workspace("straight"))
    for updates in (5, 8):
        again = world.fit(dropout=0.3, passes=3, rows=16, updates=updates)
        again.run(workspace("again"))
    assert same(weights(straight.objective), weights(again.objective))


def test_a_run_goes_on_with_other_passes(world, workspace):
    """Passes may differ from start to start, whether the recipe or the machine sets them; updates stay the same."""
    assert "passes" in Fit.without_effect
    straight = world.fit(passes=1, rows=16, updates=4, optimizer=Adam(eps=1e-3))
    straight.run(workspace("straight"))
    for count, updates in ((5, 1), ("auto", 2), (3, 4)):
        again = world.fit(passes=count, rows=16, updates=updates, optimizer=Adam(eps=1e-3))
        again.run(workspace("again"))
    for name, tensor in weights(again.objective).items():
        torch.testing.assert_close(tensor, weights(straight.objective)[name], rtol=1e-4, atol=1e-5)


def test_a_cpu_computes_what_fits_into_its_caches(world):
    assert [passes_on_cpu([tokens_of(world, tokens)]) for tokens in (50, 16_384, 16_385, 65_536)] == [1, 1, 2, 4]
    speech = Stream(name="speech", manifests=["x"], fields={"speech": SpeechField()}, budget=Budget(seconds=1000.0))
    assert passes_on_cpu([tokens_of(world, 50), speech]) == 3 and passes_on_cpu([world.stream()]) == 1
    speech.budget = Budget(seconds=480.0, rows=128)  # of windows of half a minute
    assert passes_on_cpu([speech]) == 8


@pytest.fixture
def card(monkeypatch, workspace):
    """A GPU of 100 bytes, of which a batch takes 60 in one pass; and a trial that counts."""
    used = SimpleNamespace(tried=[], bytes=60.0, broken_below=1, memory=100)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda device: SimpleNamespace(total_memory=used.memory))
    monkeypatch.setattr("torch.cuda.max_memory_reserved", lambda device: used.bytes / used.tried[-1])
    for name in ("reset_peak_memory_stats", "empty_cache"):
        monkeypatch.setattr(f"torch.cuda.{name}", lambda *device: None)

    def found(world, share=0.9, setting="auto"):
        loader = Loader(streams=[tokens_of(world, 120)], seed=1, passes=1)
        place = workspace("card")
        place.device, place.memory_share = "cuda:0", share

        def attempt():
            used.tried.append(loader.passes)
            if loader.passes < used.broken_below:
                raise DataError("does not fit")

        used.tried.clear()
        return passes_of(setting, loader, place, attempt=attempt), used.tried

    return used, found


def test_the_fewest_passes_that_fit_are_found_once(card, world):
    used, found = card
    assert found(world) == (1, [1])
    assert found(world) == (1, [])  # kept with the run
    assert found(world, share=0.2) == (4, [1, 2, 4])  # 15 of 100 bytes
    used.broken_below = 8
    assert found(world, share=0.5) == (8, [1, 2, 4, 8])
    used.memory = 200  # another card
    assert found(world, share=0.5) == (8, [1, 2, 4, 8])
    assert found(world, setting=3) == (3, [])


def test_what_fits_in_no_number_of_passes_is_refused(card, world):
    used, found = card
    used.broken_below = 10**6
    with pytest.raises(DataError, match="does not fit"):
        found(world)
    assert used.tried[-1] >= int(tokens_of(world, 120).table.capacities.max()) > used.tried[-2]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"passes": 0, "memory": 100, "share": 0.9, "processes": 1}', "7"])
def test_a_damaged_record_is_made_again(card, world, workspace, text):
    _, found = card
    (folder := workspace("card").folder).mkdir(parents=True, exist_ok=True)
    (folder / passes.FILE).write_text(text)
    assert found(world) == (1, [1])
