"""Words get the times of their pieces' positions in a CTC head."""

import numpy as np
import pytest
import soundfile
import torch

from shared.corpus.fields import TextField
from shared.corpus.speech_field import SpeechField
from shared.corpus.stream import Budget
from shared.errors import UsageError
from shared.generator import Encoding
from shared.padded import Padded
from shared.systems.ctc_system import CtcSystem
from shared.systems.system import System
from shared.systems.timed import TimedText
from shared.systems.word_times import aligned_field, word_times, words_of_segments
from shared.text.tokenizer import SentencePieceTokenizer
from tests.shared.conftest import GOLDEN


class Positions(torch.nn.Module):
    """An encoder with a position for each tenth of a second, whose head emits given ids at given positions."""

    def __init__(self, vocabulary, blank, emitted):
        super().__init__()
        self.emitted, self.vocabulary = emitted, vocabulary
        self.heads = torch.nn.ModuleDict({"ctc": torch.nn.Identity()})
        self.heads["ctc"].blank = blank
        self.anchor = torch.nn.Parameter(torch.zeros(()))

    def encode(self, batch):
        lengths = batch["speech"].lengths // 1600
        logits = torch.zeros(len(batch), int(lengths.max()), self.vocabulary)
        logits[..., self.heads["ctc"].blank] = 5.0
        for row in logits:
            for place, id in self.emitted.items():
                row[place, id] = 10.0
        return Encoding({}, {"logits.ctc": Padded(logits, lengths)})


@pytest.fixture
def tokenizer():
    return SentencePieceTokenizer(model=str(GOLDEN / "tokenizer.model"), tags=["en", "de"])


def system_of(tokenizer, emitted):
    model = Positions(tokenizer.size, tokenizer.blank, emitted)
    field = TextField(column="source_text", tokenizer=tokenizer)
    return CtcSystem(
        model=model,
        inputs={"speech": SpeechField()},
        output=field,
        output_name="transcript",
        source_languages=["en"],
        target_languages=["en"],
    )


def test_a_word_lasts_from_its_first_piece_to_its_last(tokenizer, tmp_path):
    words = ["one", "three", "seven"]
    pieces = [tokenizer.encode(word) for word in words]
    flat = [id for ids in pieces for id in ids]
    assert tokenizer.encode(" ".join(words)) == flat
    places = [3 + 2 * number for number in range(len(flat))]
    seconds = (places[-1] + 4) / 10
    soundfile.write(tmp_path / "a.wav", np.full(int(16000 * (1.5 + seconds)), 0.1), 16000)
    row = {
        "id": "a",
        "audio": str(tmp_path / "a.wav"),
        "start": 1.5,
        "duration": seconds,
        "source_text": " ".join(words),
    }
    row |= {"source_text": " ".join(words), "source_language": "en", "target_language": "en"}
    system = system_of(tokenizer, dict(zip(places, flat, strict=True)))
    [found, short] = word_times(system, [row, row | {"duration": 0.1}], budget=Budget(rows=2))
    assert short is None
    assert [cue.text for cue in found] == words
    first = 0
    for cue, ids in zip(found, pieces, strict=True):
        begin, end = places[first], places[first + len(ids) - 1] + 1
        assert (cue.start, cue.end) == pytest.approx((1.5 + begin / 10, 1.5 + end / 10))
        first += len(ids)


def test_a_system_without_a_head_has_no_times_of_words():
    system = System.load(GOLDEN)
    system.ctc_output = None
    assert aligned_field(system) is None
    with pytest.raises(UsageError, match="come from a CTC head, which this system does not have"):
        word_times(system, [], budget=Budget(rows=2))


def test_the_model_computes_in_the_type_for_which_its_matrices_were_stored(tokenizer, tmp_path, monkeypatch):
    soundfile.write(tmp_path / "a.wav", np.full(16000, 0.1), 16000)
    row = {"id": "a", "audio": str(tmp_path / "a.wav"), "start": 0.0, "duration": 1.0, "source_text": "one"}
    system = system_of(tokenizer, {})
    types, real = [], system.model.encode

    def encode(batch):
        types.append(torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32)
        return real(batch)

    monkeypatch.setattr(system.model, "encode", encode)
    for stored in (None, torch.bfloat16):
        system.autocast_dtype = stored
        word_times(system, [row | {"source_language": "en", "target_language": "en"}], budget=Budget(rows=1))
    assert types == [torch.float32, torch.bfloat16]


def test_a_transcript_is_in_the_language_that_was_spoken(tokenizer, monkeypatch):
    seen = []
    monkeypatch.setattr("shared.systems.word_times.word_times", lambda system, rows, budget: seen.append(rows) or [[]])
    system = system_of(tokenizer, {})
    system.target_languages = ["de"]
    words_of_segments(system, "talk.wav", [TimedText(0.0, 1.0, {"transcript": "one"}, 0.0)])
    assert [row["source_language"] for row in seen[0]] == ["en"]
