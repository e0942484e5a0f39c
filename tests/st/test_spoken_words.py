"""Words of a recording: where they are in the sound that was resampled, which are hidden, and their pieces."""

import numpy as np
import pytest
import soundfile
import torch

from dragoman import DataError, Manifest, UsageError
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.randomness import generator
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.batches.stream import Budget
from dragoman.shared.phases.adding_columns import WORDS_TYPE
from dragoman.shared.phases.linking import TRANSLATIONS_TYPE
from dragoman.shared.text.normalise import Lowercase
from dragoman.st.spoken_words import SpokenWords
from tests import small
from tests.small import refuses

#: Seconds from the beginning of the row, which is half a second into the file.
STARTS = [0.25, 0.8, 1.4, 2.1]
TEXTS = ["Anna", "sees", "a", "tree"]


@pytest.fixture(scope="module")
def tokenizer():
    return small.tokenizer(["anna sees a tree baum"] * 3, ["en", "de"], size=290)


@pytest.fixture(scope="module")
def row(tmp_path_factory):
    """A recording with a click where each word begins."""
    sound = np.zeros(int(3.5 * 16000))
    for start in STARTS:
        sound[round((0.5 + start) * 16000)] = 0.9
    path = tmp_path_factory.mktemp("s") / "clicks.wav"
    soundfile.write(path, sound, 16000)
    spans = zip(TEXTS, STARTS, [*STARTS[1:], 3.0], strict=True)
    words = [{"text": text, "start": start, "end": end} for text, start, end in spans]
    sound = {"audio": str(path), "start": 0.5, "duration": 3.0}
    more = sound | {"words": words, "word_translations": ["Anna", "", "", "Baum"]}
    return small.row(1, " ".join(TEXTS), "Anna sieht einen Baum", **more)


def field(tokenizer, speeds=(1.0,), **changes):
    texts = {
        key: TextField(column=column, tokenizer=tokenizer, normalizers=[Lowercase()])
        for key, column in (("said", "source_text"), ("translated", "target_text"))
    }
    return SpokenWords(speech=SpeechField(speeds=[*speeds]), **texts | changes)


def test_what_is_evaluated_is_the_recording_at_its_own_speed(tokenizer, row):
    evaluated = field(tokenizer, [0.9, 1.1]).evaluating()
    assert isinstance(evaluated, SpeechField) and len(evaluated(row, generator(1))) == 48000


@pytest.mark.parametrize("speed", [0.9, 1.0, 1.1])
def test_words_are_where_they_are_heard_at_every_speed(tokenizer, row, speed):
    found = field(tokenizer, [speed])(row, generator(1))
    sound = found[""]
    assert len(sound) == -(-48000 * 100 // round(100 * speed))
    clicks = [first for first, _ in found["words"].tolist()]
    for place in clicks:
        near = sound[max(place - 300, 0) : place + 300].abs()
        assert abs(int(near.argmax()) - 300) <= 1 and near.max() > 0.5
    rest = sound.clone()
    for place in clicks:
        rest[place - 300 : place + 300] = 0
    assert rest.abs().max() < 0.05
    assert found["words"][:-1, 1].tolist() == pytest.approx(clicks[1:], abs=1)  # one ends where the next begins
    assert found["words"][-1, 1] == len(sound)


def test_the_speed_of_the_words_is_that_which_was_drawn_for_the_sound(tokenizer, row):
    several, lengths = field(tokenizer, [0.9, 1.0, 1.1]), set()
    for seed in range(20):
        found = several(row, generator(seed))
        assert torch.equal(found[""], several.speech(row, generator(seed)))
        assert found["words"][0, 0] == pytest.approx(0.25 / 3 * len(found[""]), abs=1)
        lengths.add(len(found[""]))
    assert len(lengths) == 3


def test_pieces_and_their_shares_by_hand(tokenizer, row):
    found = field(tokenizer)(row, generator(1))
    ids = {letter: tokenizer.encode(letter)[-1] for letter in "ansetrbum"}
    space = tokenizer.encode("a")[0]
    by_word = [{} for _ in TEXTS]
    for (word, id), share in zip(found["said"].tolist(), found["said_shares"].tolist(), strict=True):
        by_word[word][id] = share
    assert by_word[0] == pytest.approx({space: 0.2, ids["a"]: 0.4, ids["n"]: 0.4})  # " anna", in lower case
    assert by_word[1] == pytest.approx({space: 0.2, ids["s"]: 0.4, ids["e"]: 0.4})
    assert by_word[2] == pytest.approx({space: 0.5, ids["a"]: 0.5})
    assert {*found["translated"][:, 0].tolist()} == {0, 3}  # nothing translates the others
    baum = [id for word, id in found["translated"].tolist() if word == 3]
    assert {*baum} == {space, *(ids[letter] for letter in "baum")}


def test_hidden_words_are_a_share_and_at_least_one(tokenizer, row):
    for share, count in ((0.15, 1), (0.5, 2), (1.0, 4), (0.0, 0)):
        assert field(tokenizer, share=share)(row, generator(1))["hidden"].sum() == count
    drawn = [int(field(tokenizer)(row, generator(seed))["hidden"].long().argmax()) for seed in range(200)]
    assert all(30 <= drawn.count(word) <= 70 for word in range(4))


def test_a_manifest_with_rows_whose_words_are_not_known(tokenizer, row, tmp_path):
    rows = [row, row | {"id": "2", "words": None}, row | {"id": "3", "words": [], "word_translations": []}]
    columns = {"words": WORDS_TYPE, "word_translations": TRANSLATIONS_TYPE}
    manifest = Manifest.write(tmp_path / "m.arrow", rows, columns)
    one = field(tokenizer, [0.9, 1.1])
    assert one.lengths(manifest).tolist() == one.lengths(rows).tolist() == [53334, -1, 53334]
    some = manifest.select([0, 2])
    [(batch, numbers)] = list(Loader.evaluation(some, {"speech": one}, Budget(rows=2)))
    words = dict(zip(numbers.tolist(), batch["speech.words"].lengths.tolist(), strict=True))
    assert words == {0: 4, 1: 0}
    assert batch["speech.words"].values.dtype == torch.int64 and batch["speech.hidden"].values.dtype == torch.bool


def test_refusals(tokenizer, row):
    refuses(UsageError, "share must be between 0 and 1, not 1.5", field, tokenizer, share=1.5)
    for changes, message in (
        ({"words": None}, "has no words"),
        ({"word_translations": None}, "has no word_translations"),
        ({"word_translations": ["a"]}, "has 4 words, but 1 translations"),
    ):
        refuses(DataError, message, field(tokenizer), row | changes, generator(1))
