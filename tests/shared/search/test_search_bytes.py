"""The stated bytes are those of the buffers that a search holds, and too large a search is refused before it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from shared.errors import UsageError
from shared.machine import memory
from shared.nn.combined import Ensemble
from shared.padded import Padded
from shared.search import BeamSearch, CtcPrefixSearch, GreedySearch, SamplingSearch
from shared.search.ctc_prefix import _Prefixes
from shared.search.search_bytes import search_bytes
from shared.systems.combining import through_ctc
from shared.systems.system import System

GOLDEN = Path(__file__).parents[2] / "golden" / "model"
GB = 1024**3


@pytest.fixture(scope="module")
def system():
    system = System.load(GOLDEN)
    system.ctc_output = system.output
    return system


@pytest.mark.parametrize("length", [1, 16, 17, 40])
def test_bytes_of_a_decoders_state(system, length):
    sentences, beam = 3, 4
    encoding = system.model.encode_embedded(Padded(torch.randn(sentences, 9, 24), torch.full((sentences,), 9)))
    state = system.model.start(encoding, None).fork(beam)
    for _ in range(length):
        _, state = system.model.step(torch.ones(sentences * beam, dtype=torch.int64), state)
        state = state.reorder(torch.arange(sentences * beam))
    held = sum(tensor.nbytes for cache in state.caches for tensor in (cache.past._stored, cache.past._spare))
    assert held == sentences * beam * system.model.state_bytes(length)
    assert Ensemble(models=[system.model, system.model]).state_bytes(length) == 2 * system.model.state_bytes(length)


def test_bytes_of_scores_and_states_grow_with_beams_and_samples():
    size = {"sentences": 2, "vocabulary": 100, "state": 7}
    assert search_bytes(GreedySearch(), **size) == 2 * (100 * 8 + 7)
    assert search_bytes(BeamSearch(beam=6), **size) == 12 * (100 * 8 + 7)
    assert search_bytes(SamplingSearch(samples=6), **size) > 12 * (100 * 5 * 4 + 7)  # scores, tempered, noise, its bits


def test_bytes_of_prefix_search_cover_the_comparison_of_all_prefixes():
    beam, tokens = 20, 30
    numbers = torch.zeros(2, beam)
    prefixes = _Prefixes(numbers, numbers, torch.zeros(2, beam, tokens, dtype=torch.int64), numbers.long(), numbers)
    with torch.profiler.profile(profile_memory=True, acc_events=True) as profile:
        prefixes.children()
    largest = max(event.cpu_memory_usage for event in profile.events())
    estimate = search_bytes(CtcPrefixSearch(beam=beam), sentences=2, vocabulary=50, positions=tokens)
    assert largest <= estimate < 20 * largest


@pytest.mark.parametrize(
    ("search", "ctc", "name"),
    [
        (BeamSearch(beam=10**7), False, "BeamSearch of 10,000,000 outputs"),
        (SamplingSearch(samples=10**7), False, "SamplingSearch of 10,000,000 outputs"),
        (CtcPrefixSearch(beam=10**6), True, "CtcPrefixSearch of 1,000,000 outputs"),
    ],
    ids=["beam", "samples", "ctc"],
)
def test_a_search_that_needs_more_than_there_is_is_refused_with_both_figures(system, monkeypatch, search, ctc, name):
    monkeypatch.setattr(memory, "available_memory", lambda device: 8 * GB)
    chosen = through_ctc(system) if ctc else system
    figures = r"needs about [0-9.,]+ [GTP]B of memory on cpu, but only 8\.0 GB is available"
    with pytest.raises(UsageError, match=f"{name} for 2 inputs at a time: {figures}"):
        chosen.hypotheses(["one two", "three", ""], search=search)


def test_many_inputs_at_a_time_are_refused_too(system, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda device: 2**20)
    with pytest.raises(UsageError, match=r"BeamSearch of 5 outputs for 300 inputs at a time: needs about 1\d\.\d MB"):
        system.hypotheses(["one"] * 300, batch_size=300)
    assert system.hypotheses(["one two"] * 3, batch_size=2)[0][0].texts["translation"] == "zwei eins"
