"""Passes: an update is the same however it is cut, and what a GPU takes at once is found and kept."""

import json
from types import SimpleNamespace

import pytest
import torch

from dragoman import DataError
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.batches.stream import Budget, Stream
from dragoman.shared.training import passes
from dragoman.shared.training.optimizer import Adam
from dragoman.shared.training.passes import passes_of, passes_on_cpu
from tests.shared.training.test_fit import same, weights


def tokens_of(world, tokens):
    fields = world.stream().fields
    return Stream(name="text", manifests=[str(world.manifest)], fields=fields, budget=Budget(tokens=tokens))


def test_a_step_has_the_same_rows_whatever_the_passes_and_the_processes(world):
    """Each row stands in one part, as long as it is, and all processes have equally many parts."""
    stream = tokens_of(world, 120)
    uncut = [{id: row for id, row in rows(batch)} for batch in Loader(streams=[stream], seed=5).epoch(0)]
    for count, processes in ((1, 1), (2, 1), (5, 1), (1, 2), (2, 3)):
        loaders = [Loader(streams=[stream], seed=5, rank=r, world=processes, passes=count) for r in range(processes)]
        for whole, *shares in zip(uncut, *(loader.steps(0) for loader in loaders), strict=True):
            assert len({len(share) for share in shares}) == 1
            parts = [batch for share in shares for batch in share]
            assert len(parts) == count * processes
            found = [pair for batch in parts for pair in rows(batch)]
            assert sorted(id for id, _ in found) == sorted(whole)
            assert all(torch.equal(row, whole[id]) for id, row in found)
            volumes = [batch["source"].values.numel() for batch in parts]
            assert max(volumes) <= sum(map(len, whole.values())) / len(parts) + 2 * max(map(len, whole.values()))
    few = Loader(streams=[tokens_of(world, 12)], seed=5, world=9, passes=1)
    with pytest.raises(DataError, match="stream 'text': 9 processes cannot share a batch of . rows"):
        list(few.steps(0))


def rows(batch):
    return [*zip(batch.ids, batch["source"].rows(), strict=True)]


def test_an_update_does_not_depend_on_how_it_is_cut(world, workspace):
    found = {}
    for count in (None, 1, 2, 5):
        trainer = world.fit(rows=16, passes=count, optimizer=Adam(eps=1e-3))
        trainer.run(workspace(f"passes-{count}"))
        found[count] = weights(trainer.objective)
        losses = [json.loads(line) for line in (workspace(f"passes-{count}").folder / "history.jsonl").open()]
        assert losses[-1]["loss"] == pytest.approx(losses[-1]["loss"])
        found[count] |= {"loss": torch.tensor(losses[-1]["loss"])}
    begun = weights(world.fit().objective)
    assert max(float((found[1][name] - begun[name]).abs().max()) for name in begun) > 0.01
    for count in (None, 2, 5):
        for name, tensor in found[count].items():
            torch.testing.assert_close(tensor, found[1][name], rtol=1e-4, atol=1e-5)


def test_a_run_in_passes_goes_on_bit_for_bit(world, workspace):
    straight = world.fit(dropout=0.3, passes=3, rows=16, updates=8)
    straight.run(workspace("straight"))
    for updates in (5, 8):
        again = world.fit(dropout=0.3, passes=3, rows=16, updates=updates)
        again.run(workspace("again"))
    assert same(weights(straight.objective), weights(again.objective))


def test_a_cpu_computes_what_fits_into_its_caches(world):
    assert [passes_on_cpu([tokens_of(world, tokens)]) for tokens in (50, 16_384, 16_385, 65_536)] == [1, 1, 2, 4]
    speech = Stream(name="speech", manifests=["x"], fields={"speech": SpeechField()}, budget=Budget(seconds=1000.0))
    assert passes_on_cpu([tokens_of(world, 50), speech]) == 3 and passes_on_cpu([world.stream()]) == 1


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
        place.device = "cuda:0"

        def attempt():
            used.tried.append(loader.passes)
            if loader.passes < used.broken_below:
                raise DataError("does not fit")

        used.tried.clear()
        return passes_of(setting, loader, place, share=share, attempt=attempt), used.tried

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
