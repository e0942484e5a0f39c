"""Models that bring all sound to one length: batches count windows, and a CPU encodes one window at a time."""

import math

import numpy as np
import pytest
import torch

from dragoman.exchange.huggingface.log_mel import LogMel
from dragoman.shared.batch import Batch
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.batches.stream import Budget
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.subsampler import ConvolutionalStem
from dragoman.shared.padded import Padded
from dragoman.shared.systems import rows
from tests import small

SECONDS = 0.4


@pytest.fixture
def system():
    words = small.tokenizer(["ab cd ef"])
    stem = ConvolutionalStem(inputs=16, width=16)
    speech = small.speech_embedding(frontend=LogMel(bins=16, seconds=SECONDS), subsampler=stem, normalisation=None)
    model = small.translator(words, embeddings={"speech": speech}, encoder=small.encoder(2, taps=[1]), seed=3)
    return small.system(words, model, inputs={"speech": SpeechField()}, output=small.text(words, "target")).eval()


def sounds(count):
    rng = np.random.default_rng(4)
    return [rng.normal(0, 0.1, 1600 * (1 + number % 4)).astype(np.float32) for number in range(count)]


def test_windows_are_encoded_as_they_are_together(system, monkeypatch):
    speech = Padded.from_sequences([torch.from_numpy(sound) for sound in sounds(5)])
    batch = Batch({"speech": speech}, {"target": ["de"] * 5}, ["a", "b", "c", "d", "e"])
    together = system.model.encode(batch)  # with gradients, all at once
    sizes = []
    embed = type(system.model).embed

    def looked_at(model, one, field=None):
        sizes.append((len(one), one.ids, one.languages["target"]))
        return embed(model, one, field)

    monkeypatch.setattr(type(system.model), "embed", looked_at)
    with torch.no_grad():
        alone = system.model.encode(batch)
    assert sizes == [(1, [name], ["de"]) for name in "abcde"]
    assert alone.memories.keys() == {"source"} and alone.extras.keys() == together.extras.keys() == {"tap.1"}
    for name, group in (("memories", "source"), ("extras", "tap.1")):
        found, expected = (getattr(one, name)[group] for one in (alone, together))
        torch.testing.assert_close(found.values, expected.values, atol=1e-6, rtol=1e-5)
        assert found.lengths.tolist() == expected.lengths.tolist() == [20] * 5


def test_batches_count_windows_and_outputs_stay(system, monkeypatch):
    sizes = []
    searched = type(system).translate_batch

    def looked_at(self, batch, search, **more):
        sizes.append(len(batch))
        return searched(self, batch, search, **more)

    monkeypatch.setattr(type(system), "translate_batch", looked_at)
    options = {"sample_rate": 16000, "keep_silence": True, "beam": 2}
    expected = [system.hypotheses([sound], **options)[0][0].tokens for sound in sounds(7)]
    sizes.clear()
    monkeypatch.setattr(rows, "SECONDS_OF_WINDOWS", 3.5 * SECONDS)
    found = system.hypotheses(sounds(7), batch_size=32, **options)
    assert sizes == [3, 3, 1]
    assert [one[0].tokens for one in found] == expected


def test_the_budget_of_other_models_and_of_smaller_batches_stays(system):
    words = small.tokenizer(["ab cd ef"])
    budget = Budget(rows=9, seconds=480.0, tokens=16384)
    assert rows.of_windows(budget, small.system(words)) is budget
    assert rows.of_windows(budget, system).rows == 9
    for own in (None, 10**6):
        capped = rows.of_windows(Budget(rows=own, seconds=480.0, tokens=7), system)
        assert (capped.rows, capped.seconds, capped.tokens) == (math.floor(60 / SECONDS), 480.0, 7)
    system.model.embeddings["speech"].frontend = LogMel(bins=16, seconds=300.0)
    assert rows.of_windows(budget, system).rows == 1


def test_encodings_are_joined():
    def encoding(start):
        memory = Padded(torch.full((2, 3, 1), float(start)), torch.tensor([3, start]))
        return Encoding({"source": memory}, {"tap.1": memory, "sizes": torch.tensor([start, 9])})

    joined = Encoding.joined([encoding(1), encoding(2)])
    assert len(joined) == 4 and joined.memories["source"].lengths.tolist() == [3, 1, 3, 2]
    assert joined.memories["source"].values[:, 0, 0].tolist() == [1, 1, 2, 2]
    assert joined.extras["tap.1"].lengths.tolist() == [3, 1, 3, 2]
    assert joined.extras["sizes"].tolist() == [1, 9, 2, 9]
