"""The stated bytes are those of the buffers that a search holds, and too large a search is refused before it."""

from __future__ import annotations

import pytest
import torch

from dragoman import BeamSearch, CtcPrefixSearch, GreedySearch, SamplingSearch, System, UsageError
from dragoman.shared.batch import Batch
from dragoman.shared.machine import memory
from dragoman.shared.nn.combined import Ensemble
from dragoman.shared.padded import Padded
from dragoman.shared.search.ctc_prefix import _Prefixes
from dragoman.shared.search.search_bytes import check_beam, kept_outputs, search_bytes
from dragoman.shared.systems.combining import through_ctc
from tests.small import GOLDEN, padded, refuses

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


def test_bytes_of_what_a_decoder_attends_to(system):
    """All outputs of a sentence attend to the same keys and values; the batch is padded to its longest sentence."""
    batch = padded([[5] * 9, [6] * 4, [7] * 2])
    state = system.model.start(system.model.encode(Batch({"source": batch})), None).fork(4)
    kept = [memory for cache in state.caches for memory in cache.memories.values()]
    held = sum(memory.keys.nbytes + memory.values.nbytes for memory in kept)
    assert held == system.model.read_bytes(Batch({"source": batch}), 4) > 0
    both = Ensemble(models=[system.model, system.model])
    assert both.read_bytes(Batch({"source": batch}), 4) == 2 * held


def test_what_is_read_is_counted(system, monkeypatch):
    """A batch whose outputs fit, but not what they attend to."""
    rows = Batch({"source": padded([[5] * 60] * 3)}, {"source": ["en"] * 3, "target": ["de"] * 3})
    search = BeamSearch(beam=2)
    sizes = {"sentences": 3, "vocabulary": system.output.tokenizer.size, "state": system.model.state_bytes(60)}
    needed = search_bytes(search, **sizes)
    for more, fits in ((0, False), (system.model.read_bytes(rows, 2), True)):
        monkeypatch.setattr(memory, "available_memory", lambda device, more=more: needed + more)
        if fits:
            system.check_memory(rows, search)
        else:
            refuses(UsageError, "BeamSearch of 2 outputs for 3 inputs", system.check_memory, rows, search)


def test_bytes_of_scores_and_states_grow_with_beams_and_samples():
    size = {"sentences": 2, "vocabulary": 100, "state": 7}
    assert search_bytes(GreedySearch(), **size) == 2 * (100 * 8 + 7)
    assert search_bytes(BeamSearch(beam=6), **size) == 12 * (100 * 8 + 7)
    least = 12 * (100 * 5 * 4 + 7)  # scores, tempered, noise, its bits
    assert least < search_bytes(SamplingSearch(samples=6), **size) == 12 * (100 * 24 + 7)


@pytest.mark.parametrize(
    ("candidates", "positions", "expected"),
    [
        (3, 10, 2 * (2 * (20 + 16) + 24 * (10 + 4))),  # two times the positions are more than four candidates
        (40, 10, 2 * (2 * (41 + 16) + 24 * (10 + 41))),
        (99, 10, 2 * (2 * (50 + 16) + 24 * (10 + 50))),  # there are no more than the vocabulary's
        (0, 10, 2 * (2 * (50 + 16) + 24 * (10 + 50))),
    ],
)
def test_bytes_of_prefix_search_by_hand(candidates, positions, expected):
    search = CtcPrefixSearch(beam=2, candidates=candidates)
    assert search_bytes(search, sentences=3, vocabulary=50, positions=positions) == 3 * expected


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


def test_outputs_and_beams_of_each_search():
    assert kept_outputs(BeamSearch(beam=7)) == kept_outputs(CtcPrefixSearch(beam=7)) == 7
    assert kept_outputs(SamplingSearch(samples=5)) == 5 and kept_outputs(GreedySearch()) == 1
    check_beam(BeamSearch(beam=7), 7)
    check_beam(GreedySearch(), 1)
    with pytest.raises(UsageError) as error:
        check_beam(BeamSearch(beam=1234), 1000)
    assert str(error.value) == "a beam of 1,234 is more than the 1,000 symbols of the model"
    refuses(UsageError, "^a beam of 1 is more than the 0 symbols of the model$", check_beam, GreedySearch(), 0)
