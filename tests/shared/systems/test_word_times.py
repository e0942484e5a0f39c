"""Words get the times of their pieces' positions in a CTC head."""

import numpy as np
import pytest
import soundfile
import torch

from shared.corpus.fields import SpeechField, TextField
from shared.corpus.stream import Budget
from shared.errors import UsageError
from shared.generator import Encoding
from shared.padded import Padded
from shared.systems.ctc_system import CtcSystem
from shared.systems.system import System
from shared.systems.word_times import aligned_field, word_times
from shared.text.tokenizer import SentencePieceTokenizer
from tests.shared.commands.conftest import GOLDEN


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
