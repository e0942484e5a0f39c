"""Words get the times of their pieces' positions in a CTC head."""

import numpy as np
import pytest
import soundfile
import torch

from dragoman import System, UsageError
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.batches.stream import Budget
from dragoman.shared.generator import Encoding
from dragoman.shared.padded import Padded
from dragoman.shared.systems.ctc_system import CtcSystem
from dragoman.shared.systems.timed import TimedText
from dragoman.shared.systems.word_times import aligned_field, aligned_text, timed_words, word_times, words_of_segments
from dragoman.shared.text.tokenizer import SentencePieceTokenizer
from tests import small
from tests.small import GOLDEN


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
    options = {"output_name": "transcript", "source_languages": ["en"], "target_languages": ["en"]}
    inputs = {"speech": SpeechField()}
    return small.system(tokenizer, model, cls=CtcSystem, inputs=inputs, output=small.text(tokenizer), **options)


def test_a_word_lasts_from_its_first_piece_to_its_last(tokenizer, tmp_path):
    words = ["one", "three", "seven"]
    pieces = [tokenizer.encode(word) for word in words]
    flat = [id for ids in pieces for id in ids]
    assert tokenizer.encode(" ".join(words)) == flat
    places = [3 + 2 * number for number in range(len(flat))]
    seconds = (places[-1] + 4) / 10
    soundfile.write(tmp_path / "a.wav", np.full(int(16000 * (1.5 + seconds)), 0.1), 16000)
    row = {"id": "a", "audio": str(tmp_path / "a.wav"), "start": 1.5, "duration": seconds}
    row |= {"source_text": " ".join(words), "source_language": "en", "target_language": "en"}
    system = system_of(tokenizer, dict(zip(places, flat, strict=True)))
    [found, short] = word_times(system, [row, row | {"duration": 0.1}], budget=Budget(rows=2))
    assert short is None
    assert [cue.text for cue in found] == words
    first = 0
    for cue, ids in zip(found, pieces, strict=True):
        spaces = [tokenizer.symbol(id) for id in ids].count("▁") if first else 0  # only the first is nearer to its word
        begin, end = places[first + spaces], places[first + len(ids) - 1] + 1
        assert (cue.start, cue.end) == pytest.approx((1.5 + begin / 10, 1.5 + end / 10))
        first += len(ids)


@pytest.mark.parametrize(("language", "words"), [("zh", ["公司", "工作"]), ("en", ["公司工作"])])
def test_words_without_spaces_are_those_of_the_language(tokenizer, tmp_path, language, words):
    """A byte every tenth of a second, three for each sign."""
    ids = tokenizer.encode("公司工作")[-12:]
    places = range(3, 15)
    soundfile.write(tmp_path / "a.wav", np.full(16000 * 2, 0.1), 16000)
    row = {"id": "a", "audio": str(tmp_path / "a.wav"), "start": 0.0, "duration": 2.0, "source_text": "公司工作"}
    system = system_of(tokenizer, dict(zip(places, ids, strict=True)))
    system.output.prefix = []  # this tokenizer has no symbol for Chinese
    row |= {"source_language": language, "target_language": "en"}
    [found] = word_times(system, [row], budget=Budget(rows=1))
    assert [cue.text for cue in found] == words
    ends = [0.9, 1.5][-len(words) :]
    assert [cue.end for cue in found] == pytest.approx(ends)
    if len(words) == 2:
        assert found[1].start == pytest.approx(0.9)


def test_a_space_belongs_to_the_word_that_it_is_nearer_to():
    """The head of letters marks it behind a word, that of pieces often just before one."""
    tokens = Written([*"A|B"], letters)
    assert timed_words(tokens, range(3), [(0, 1), (7, 8), (9, 10)], spaced=True) == [(0, 1, "A"), (7, 10, "B")]
    assert timed_words(tokens, range(3), [(0, 1), (2, 3), (9, 10)], spaced=True) == [(0, 1, "A"), (9, 10, "B")]


def test_a_system_without_a_head_has_no_times_of_words():
    system = System.load(GOLDEN)
    system.ctc_output = None
    assert aligned_field(system) is None
    said = "come from a CTC head, which this system does not have"
    small.refuses(UsageError, said, word_times, system, [], budget=Budget(rows=2))


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


class Written:
    """A tokenizer whose tokens are given, and how they are put together."""

    def __init__(self, tokens, join):
        self.tokens, self.join = tokens, join

    def decode(self, ids):
        return self.join([self.tokens[id] for id in ids])


def letters(tokens):
    """As wav2vec 2.0 and fairseq's letters have it."""
    return "".join(tokens).replace("|", " ").strip()


def pairs(tokens):
    """As subword-nmt has it."""
    return (" ".join(tokens) + " ").replace("@@ ", "").strip()


def bytes_of(tokens):
    return b"".join(tokens).decode("utf-8", "replace")


@pytest.mark.parametrize(
    "tokens, join, spaced, words",
    [
        ([*"AB|C|DE"], letters, True, [(0, 2, "AB"), (3, 4, "C"), (5, 7, "DE")]),
        ([*"|AB|"], letters, True, [(1, 3, "AB")]),
        (["lo@@", "w@@", "er", "end"], pairs, True, [(0, 3, "lower"), (3, 4, "end")]),
        (["|lower", "|", "end"], letters, True, [(0, 1, "lower"), (2, 3, "end")]),
        (["公司", "工", "作，"], "".join, False, [(0, 1, "公司"), (1, 3, "工作，")]),
        (["公司工作，"], "".join, False, [(0, 0.4, "公司"), (0.4, 1, "工作，")]),
        (["New", " York", "的"], "".join, False, [(0, 1, "New"), (1, 3, "York的")]),
        (["公".encode()[:1], "公".encode()[1:2], "公".encode()[2:], b"!"], bytes_of, False, [(0, 4, "公!")]),
        (["公".encode()[:1], "公".encode()[1:], "的司".encode()], bytes_of, True, [(0, 3, "公的司")]),
        ([], "".join, True, []),
        (["|"], letters, True, []),
    ],
    ids=["letters", "ends", "subword-nmt", "alone", "zh", "one piece", "latin", "bytes", "shared", "nothing", "space"],
)
def test_a_word_begins_where_the_text_has_a_space(tokens, join, spaced, words):
    """Token n is heard from n to n + 1."""
    spans = [(number, number + 1) for number in range(len(tokens))]
    found = timed_words(Written(tokens, join), range(len(tokens)), spans, spaced=spaced)
    assert [word for *_, word in found] == [word for *_, word in words]
    assert [time[:2] for time in found] == [pytest.approx(time[:2]) for time in words]


def test_words_of_segments_are_asked_for_where_there_is_text(tokenizer, monkeypatch):
    asked = []

    def times(system, rows, budget):
        asked.append((rows, budget))
        return [["first"], None]

    monkeypatch.setattr("dragoman.shared.systems.word_times.word_times", times)
    system = system_of(tokenizer, {})
    system.target_languages = ["de"]  # and a transcript is in the language that was spoken
    segments = [TimedText(1.5, 2.0, {"transcript": text}, 0.0) for text in ("one", "", "two")]
    assert words_of_segments(system, "talk.wav", segments, batch_size=3) == [["first"], [], None]
    rows, budget = asked[0]
    assert rows == [
        {"id": "talk.wav:1.50", "audio": "talk.wav", "start": 1.5, "duration": 0.5, "source_text": text}
        | {"source_language": "en"}
        for text in ("one", "two")
    ]
    assert budget.rows == 3
    words_of_segments(system, "talk.wav", segments)
    assert asked[1][1].rows == 16
    assert aligned_text(system) == "transcript"
    monkeypatch.setattr("dragoman.shared.systems.word_times.aligned_field", lambda system: None)
    assert aligned_text(system) is None
    said = "^the times of words need a CTC head on a text that the system writes$"
    small.refuses(UsageError, said, words_of_segments, system, "talk.wav", segments)
