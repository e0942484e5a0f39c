"""The translation benchmarks: tiny models of the same making end where their clocks say, and counts are right."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import cost
from benchmarks.translation import models
from benchmarks.translation.ours import Counter
from benchmarks.translation.work import Task, plain, some_batches
from dragoman import BeamSearch, Rules, System
from dragoman.exchange.importing import import_model
from dragoman.shared.batch import Batch
from dragoman.shared.padded import Padded

TINY = replace(models.TEXT, vocabulary=64, width=32, inner=16, layers=(1, 1), clocks=(4, 4), attention_heads=2)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> System:
    """Return a tiny model that came the whole way: fairseq's form, ``dragoman import``."""
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(1)
    tensors = models.stack(TINY, "encoder") | {"encoder.embed_tokens.weight": models.embedding(TINY, TINY.clocks[0])}
    tensors |= models.decoder(TINY)
    given = models.settings(TINY, arch="transformer", task="translation", share_decoder_input_output_embed=False)
    models.write_checkpoint(folder / "fairseq", tensors, given, ["dict.en.txt", "dict.de.txt"])
    import_model(folder / "fairseq", folder / "ours").check()
    return System.load(folder / "ours")


def batch(*lengths: int) -> Batch:
    return Batch({"source": Padded.from_sequences([torch.randint(4, 64, (length,)) for length in lengths], padding=1)})


@torch.inference_mode()
def test_the_end_comes_nearer_with_each_step_and_later_for_longer_sources(system: System) -> None:
    """On the average over random texts: so narrow a model's clock is loud with other features."""
    torch.manual_seed(2)
    rows = 64
    ends = []
    for length in (3, 9):
        encoding = system.model.encode(batch(*[length] * rows))
        prefix = torch.cat([torch.full((rows, 1), 2), torch.randint(4, 64, (rows, 11))], 1)
        states = system.model.decode(Padded(prefix, torch.full((rows,), 12)), encoding)
        ends.append(system.model.project(states)[..., 2].mean(0))
    assert ends[0][9] > ends[0][1] + 4 and ends[1][9] > ends[1][1] + 4
    assert ends[0][5] > ends[1][5] + 3


@torch.inference_mode()
def test_operations_are_those_of_the_weights_that_each_row_meets(system: System) -> None:
    counter = Counter(system.model)
    rules = Rules(minimum_length=3, maximum_length=3)
    sources = batch(4, 2)
    prefix = system.prefix(["de"] * 2)
    found = BeamSearch(beam=5, rules=rules).search(system.model, sources, prefix=prefix, end=2, padding=1)
    assert [len(hypotheses[0].tokens) for hypotheses in found] == [4, 4]
    # Two rows before there are beams, then 3 steps of 2 x 5; a layer's matrices by hand.
    assert (counter.encoded, counter.steps) == (6, 2 + 3 * 10)
    width, inner, vocabulary = 32, 16, 64
    encoder = 4 * width**2 + 2 * width * inner
    decoder = 6 * width**2 + 2 * width * inner + vocabulary * width
    least = counter.least()
    assert least["flops"] == 2 * (6 * (encoder + 2 * width**2) + 32 * decoder)
    assert least["bytes"] == 4 * (1 * (encoder + 2 * width**2) + 4 * decoder)  # a batch, four steps


def test_batches_hold_each_input_once_the_longest_first() -> None:
    task = Task(Path(), [[0] * length for length in (3, 9, 1, 7, 5)], 2, 0, "cpu", "float32", "", "")
    assert task.batches() == [[1, 3], [4, 0], [2]]


def test_some_inputs_are_batches_of_all() -> None:
    inputs = [[0] * length for length in range(1, 21)]
    assert [len(row) for row in some_batches(inputs[::-1], 4, 4)] == [9, 10, 11, 12]
    assert [len(row) for row in some_batches(inputs, 6, 4)] == [5, 6, 7, 8, 13, 14]
    assert some_batches(inputs, 100, 4) == inputs


def test_outputs_are_compared_without_what_stands_behind_them() -> None:
    assert plain([5, 6, 2, 1, 1], 0) == [5, 6]
    assert plain([5, 6, 7], 0) == plain([5, 6, 7, 8], 3) == [5, 6, 7]


def test_recordings_are_as_long_as_they_should_be() -> None:
    waveform = models.recording(np.random.default_rng(1), 1.5)
    assert waveform.dtype == np.int16 and waveform.shape == (24000,) and np.abs(waveform).max() > 1000


def test_a_slope_is_the_exponent_of_a_power() -> None:
    assert cost.slope([1, 2, 4, 8, 16], [3.0 * x**1.5 for x in (1, 2, 4, 8, 16)]) == pytest.approx(1.5)


@pytest.mark.slow
def test_costs_are_measured_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WIDTH": 8, "INNER": 8, "HEADS": 2, "LAYERS": 1}.items():
        monkeypatch.setattr(cost, name, value)
    monkeypatch.setattr(cost, "AXES", {"length": [2, 4], "beam": [1, 2], "batch": [1, 2], "vocabulary": [50, 100]})
    monkeypatch.setattr("sys.argv", ["cost", "--repeats", "1", "--out", str(tmp_path / "cost")])
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    cost.main()
    found = json.loads((tmp_path / "cost.json").read_text())
    assert [point["value"] for point in found["points"]["vocabulary"]] == [50, 100]
    assert "| beam | 1 | 2 |" in (tmp_path / "cost.md").read_text() and (tmp_path / "cost.svg").stat().st_size > 1000
