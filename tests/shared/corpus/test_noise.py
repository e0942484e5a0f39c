"""Noise on text: what a word and a sentence are, and that only words change."""

import numpy as np
import pytest
import torch

from shared.corpus.fields import TextField
from shared.corpus.loader import Loader
from shared.corpus.manifest import Manifest
from shared.corpus.noise import NoisyText, Words, words_of
from shared.corpus.stream import Budget, Stream
from shared.described import Described
from shared.tokenizer import SentencePieceTokenizer, train_sentencepiece

TEXTS = ['He said "no." She left! Why?', "One word.", "low lower lowest", "今日は。さようなら。"]


class Pieces(Described):
    """A vocabulary, and nothing else."""

    def __init__(self, *, pieces):
        self.pieces = pieces

    @property
    def size(self):
        return len(self.pieces)

    def symbol(self, id):
        return self.pieces[id]


def split(text, language="en"):
    """Split pieces, divided by spaces, into words, and those into sentences."""
    pieces = text.split()
    known = sorted({*pieces})
    words = Words(Pieces(pieces=known))
    found = words.split([known.index(piece) for piece in pieces], language)
    shown = [[" ".join(known[id] for id in word) for word in sentence] for sentence in words.sentences(found)]
    return [" ".join(known[id] for id in word) for word in found], shown


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ("▁low er ▁ new est .", ["▁low er", "▁ new est ."]),
        ("Ġlow er Ġnew est", ["Ġlow er", "Ġnew est"]),
        ("low er Ġnew", ["low er", "Ġnew"]),  # byte-level: the first word has no space before it
        ("low@@ er new@@ est .", ["low@@ er", "new@@ est", "."]),
        ("low ##er new ##est .", ["low ##er", "new ##est", "."]),
        ("▁low@@ er ▁##new", ["▁low@@ er", "▁##new"]),  # the other marks are ordinary characters then
    ],
)
def test_words(pieces, words):
    assert split(pieces)[0] == words


def test_in_languages_without_spaces_each_piece_is_a_word():
    assert split("▁今日 は 。", "ja")[0] == ["▁今日", "は", "。"]
    assert split("▁今日 は 。", None)[0] == ["▁今日 は 。"]
    assert split("") == ([], [])


@pytest.mark.parametrize(
    ("pieces", "sentences"),
    [
        ("▁He ▁went . ▁She ▁left", [["▁He", "▁went ."], ["▁She", "▁left"]]),
        ('▁" No . " ▁Why ?', [['▁" No . "'], ["▁Why ?"]]),
        ("▁He ▁said ▁no. ▁” ▁Why?! ▁Oh…", [["▁He", "▁said", "▁no.", "▁”"], ["▁Why?!"], ["▁Oh…"]]),
        ("▁ 3.5 ▁miles .", [["▁ 3.5", "▁miles ."]]),
        ("▁no ▁stop", [["▁no", "▁stop"]]),
    ],
)
def test_sentences(pieces, sentences):
    assert split(pieces)[1] == sentences


def test_sentences_of_japanese():
    assert split("▁今日 は 。 」 また ね 。", "ja")[1] == [["▁今日", "は", "。", "」"], ["また", "ね", "。"]]


# -- the field ------------------------------------------------------------------------------------------------------


class Shuffled:
    """Words in a random order, all but the last."""

    def __call__(self, words, rng):
        return [words[number] for number in rng.permutation(len(words))[:-1]] if len(words) > 1 else words


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    model = train_sentencepiece(TEXTS * 3, folder / "t.model", kind="unigram", size=320)
    return SentencePieceTokenizer(model=str(model), tags=["en", "ja"])


def row(number, language="en"):
    return {"id": f"r{number}", "source_text": TEXTS[number], "source_language": language}


def test_only_the_words_change(tokenizer):
    field = TextField(column="source_text", tokenizer=tokenizer, prefix=["<mask>", "<{language}>"])
    noisy = NoisyText(field=field, noise=[Shuffled(), Shuffled()])
    plain = field(row(0), None).tolist()
    ids = noisy(row(0), np.random.default_rng(1)).tolist()
    assert ids[:2] == [tokenizer.mask, tokenizer.id("<en>")] and ids[-1] == tokenizer.eos
    words = words_of(tokenizer).split(plain[2:-1], "en")
    assert len(words) == 6  # He said "no." She left! Why?
    left = words_of(tokenizer).split(ids[2:-1], "en")
    assert len(left) == 4 and all(word in words for word in left) and left != words[:4]
    assert ids == noisy(row(0), np.random.default_rng(1)).tolist() != noisy(row(0), np.random.default_rng(2)).tolist()
    assert noisy.evaluating() is field
    assert (noisy.padding, noisy.overhead, noisy.unit) == (field.padding, 3, field.unit)
    assert noisy.length(row(0)) == len(plain)
    rows = [row(number) for number in range(3)] + [{"id": "x"}]
    assert noisy.lengths(rows).tolist() == field.lengths(rows).tolist() and noisy.lengths(rows)[-1] == -1


def test_the_same_noise_with_any_number_of_workers_and_other_noise_in_other_epochs(tokenizer, tmp_path):
    manifest = Manifest.write(tmp_path / "train.arrow", [row(0) | {"id": f"r{n}"} for n in range(12)])
    field = TextField(column="source_text", tokenizer=tokenizer)
    fields = {"source": NoisyText(field=field, noise=[Shuffled()]), "target": field}
    stream = Stream(name="s", manifests=[str(manifest.path)], fields=fields, budget=Budget(rows=5))
    epochs = []
    for workers in (0, 2):
        loader = Loader(streams=[stream], seed=3, workers=workers)
        epochs += [
            {
                i: values
                for batch in loader.epoch(n)
                for i, values in zip(batch.ids, batch["source"].values, strict=True)
            }
            for n in (0, 1)
        ]
    one, other, again, _ = epochs
    assert one.keys() == other.keys() and all(torch.equal(one[i], again[i]) for i in one)
    assert any(not torch.equal(one[i], other[i]) for i in one)
    assert len({tuple(values.tolist()) for values in one.values()}) > 1  # rows of equal text have noise of their own
