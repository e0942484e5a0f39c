"""Noise on text: what a word and a sentence are, and that only words change."""

import itertools
import json
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from dragoman import DataError, Manifest, UsageError
from dragoman.exchange.vocabularies.json_file import JsonTokenizer
from dragoman.exchange.vocabularies.segmenters import ByteLevelPairs, BytePairs
from dragoman.exchange.vocabularies.vocabulary import VocabularyTokenizer
from dragoman.mt.noise import NoisyText, SpanDraw, WordFinder, share_of, words_of
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.stream import Budget, Stream
from tests import small
from tests.small import refuses

TEXTS = ['He said "no." She left! Why?', "One word.", "low lower lowest", "今日は。さようなら。"]


TRAINING = [
    *('He said "no." She left! Why? low lower lowest newer wider', "„Nein.“ Sie ging. « Oui. » »Ja.«"),
    *("今日は。さようなら。また明日。", "今天天气很好。我们走吧。", "l o w e r n s t i d"),
]


def sentence_pieces(folder, kind="unigram", texts=TRAINING, size=400):
    return small.tokenizer(texts * 4, ["en", "ja"], kind=kind, size=size)


def characters(folder):
    return sentence_pieces(folder, "char")


def from_json(folder, model, pre_tokenizer, decoder, trainer):
    built = Tokenizer(model)
    built.pre_tokenizer, built.decoder = pre_tokenizer, decoder
    built.train_from_iterator(TRAINING * 4, trainer)
    built.save(str(folder / "tokenizer.json"))
    symbols = {"<pad>": "[PAD]", "</s>": "[SEP]", "<unk>": "[UNK]"}
    return JsonTokenizer(file=str(folder / "tokenizer.json"), symbols=symbols)


SPECIALS = ["[PAD]", "[SEP]", "[UNK]", "Ġx", "▁", "x@@"]  # the last are no marks here


def word_piece(folder):
    return from_json(
        folder,
        models.WordPiece(unk_token="[UNK]"),
        pre_tokenizers.BertPreTokenizer(),
        decoders.WordPiece(prefix="##", cleanup=False),
        trainers.WordPieceTrainer(vocab_size=150, special_tokens=SPECIALS),
    )


def byte_level(folder):
    return from_json(
        folder,
        models.BPE(),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
        trainers.BpeTrainer(
            vocab_size=500, special_tokens=SPECIALS, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        ),
    )


def numbered_bytes(folder):
    """Pieces whose names are numbers, as those of fairseq's BART."""
    byte_level(folder)
    content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    numbers = {piece: number for number, piece in enumerate(content["vocab"])}
    (folder / "encoder.json").write_text(json.dumps(numbers), encoding="utf-8")
    merges = "".join(f"{' '.join(pair)}\n" for pair in content["merges"])
    (folder / "vocab.bpe").write_text("#version: 0.2\n" + merges, encoding="utf-8")
    (folder / "dict.txt").write_text("".join(f"{number} 1\n" for number in range(len(numbers))), encoding="utf-8")
    segmenter = ByteLevelPairs(vocabulary=str(folder / "encoder.json"), merges=str(folder / "vocab.bpe"))
    return VocabularyTokenizer(segmenter=segmenter, vocabulary=str(folder / "dict.txt"))


def codes(folder):
    (folder / "codes").write_text("#version: 0.2\nl o\nlo w\ne r</w>\ns t</w>\nH e</w>\n", encoding="utf-8")
    letters = sorted({letter for text in TRAINING for letter in text if not letter.isspace()})
    pieces = [*letters, *(letter + "@@" for letter in letters), "lo@@", "low", "low@@", "er", "er@@", "st", "He", "▁"]
    (folder / "dict.txt").write_text("".join(f"{piece} 1\n" for piece in pieces), encoding="utf-8")
    return VocabularyTokenizer(segmenter=BytePairs(codes=str(folder / "codes")), vocabulary=str(folder / "dict.txt"))


TOKENIZERS = [sentence_pieces, characters, word_piece, byte_level, numbered_bytes, codes]


def divided(tokenizer, text, language="en"):
    """Return the texts of a text's words, and how many of them each sentence has."""
    finder = WordFinder(tokenizer)
    words = finder.split(tokenizer.encode(text), language)
    assert [id for word in words for id in word] == tokenizer.encode(text)
    return [tokenizer.decode(word).strip() for word in words], [len(one) for one in finder.sentences(words)]


@pytest.mark.parametrize("make", TOKENIZERS)
def test_words_are_what_stands_between_spaces(make, tmp_path):
    tokenizer = make(tmp_path)
    texts = ["He said lower lowest", "low", "widened sewers low lower He", "t o w"]
    for text in texts:
        assert divided(tokenizer, text)[0] == text.split()
    assert max(len(tokenizer.encode(text)) - len(text.split()) for text in texts) >= 2  # words of several pieces
    assert divided(tokenizer, "") == ([], [])


@pytest.mark.parametrize("make", TOKENIZERS)
def test_sentences_end_at_full_stops_and_what_closes_behind_them(make, tmp_path):
    tokenizer = make(tmp_path)
    for text, words in {
        'He said "no." She left! Why? low': ['He said "no."', "She left!", "Why?", "low"],
        "low lower": ["low lower"],
        "„Nein.“ Sie ging.": ["„Nein.“", "Sie ging."],
        "»Ja.« Sie": ["»Ja.«", "Sie"],
        "« Oui. » Sie ging.": ["« Oui. »", "Sie ging."],
        '" low': ['" low'],
        "He said ... She left ?! He": ["He said ...", "She left ?!", "He"],
    }.items():
        found, counts = divided(tokenizer, text)
        bounds = np.cumsum([0, *counts])
        sentences = ["".join(found[a:b]).replace(" ", "") for a, b in zip(bounds, bounds[1:], strict=False)]
        assert sentences == [one.replace(" ", "") for one in words]


@pytest.mark.parametrize("make", [sentence_pieces, characters, byte_level, numbered_bytes])
def test_in_languages_without_spaces_each_piece_is_a_word(make, tmp_path):
    tokenizer = make(tmp_path)
    words, _ = divided(tokenizer, "今日は。」さようなら。また明日", "ja")
    assert len(words) > 3 and "".join(words) == "今日は。」さようなら。また明日"
    assert len(divided(tokenizer, "今日は。さようなら。", "en")[0]) == 1
    # Characters that are spelled in three bytes each: no word ends inside of one.
    assert divided(tokenizer, "魑魅魍魎", "zh")[0] == ["魑", "魅", "魍", "魎"]


@pytest.mark.parametrize("make", [sentence_pieces, characters])
def test_sentences_in_languages_without_spaces(make, tmp_path):
    tokenizer = make(tmp_path)
    for text in ("今日は。」さようなら。また明日", "今日は！？さようなら。。。また明日"):
        assert len(divided(tokenizer, text, "ja")[1]) == 3
    assert len(divided(tokenizer, "今天天气很好。", "zh")[1]) == 1


class Damaged:
    """Three pieces: one that ends in a sign of damage, one that is nothing else, and a whole word."""

    size, symbols, fingerprint = 3, (), "damaged"

    def decode(self, ids):
        return "".join(("a\ufffd", "\ufffd", "b")[id] for id in ids)

    def encode(self, text):
        return [2] * text.count("b")

    def id(self, symbol):
        raise KeyError(symbol)


def test_only_parts_of_a_character_belong_together_not_what_looks_damaged():
    """In languages without spaces: two parts that make no whole character yet are one word."""
    split = WordFinder(Damaged()).split
    assert split([1, 1, 2], "zh") == [[1, 1], [2]]
    assert split([0, 1], "zh") == [[0], [1]]


def test_symbols_begin_sentences_and_empty_words_are_none(tokenizer):
    finder, low = words_of(tokenizer), tokenizer.encode("low")
    stop = tokenizer.encode("low.")
    assert finder.sentences([stop, [tokenizer.mask], low]) == [[stop], [[tokenizer.mask], low]]
    noisy = NoisyText(field=small.text(tokenizer), noise=[lambda words, rng: [[], *words, []], Shuffled()])
    assert len(noisy(row(0), np.random.default_rng(1))) > 3


@pytest.mark.parametrize("only", [False, True])
def test_noise_may_be_for_texts_that_were_left_as_they_are(tokenizer, only):
    class Replace:
        growth = 2.0

        def __call__(self, text, rng, *, language, row):
            return [(0, 3, "lower")] if text.startswith("low ") else []

    field = small.text(tokenizer)
    mask = lambda words, rng: [[tokenizer.mask]] * len(words)  # noqa: E731
    noisy = NoisyText(field=field, noise=[mask], rewriting=Replace(), unchanged_only=only)
    rng = np.random.default_rng(0)
    changed, kept = (noisy(small.row(1, text), rng).tolist()[1:-1] for text in ("low wide", "wide low"))
    assert kept == [tokenizer.mask] * 2
    assert changed == (tokenizer.encode("lower wide") if only else [tokenizer.mask] * 2)


@pytest.mark.parametrize(
    ("language", "stop"), [("my", "။"), ("hy", "։"), ("am", "።"), ("hi", "।"), ("ur", "۔"), ("ar", "؟"), ("fr", "…")]
)
def test_full_stops(language, stop, tmp_path):
    tokenizer = sentence_pieces(tmp_path, "char", [f"a b{stop} c"], size=300)
    assert len(divided(tokenizer, f"a b{stop} c", "en")[1]) == 2


class Shuffled:
    """Words in a random order, all but the last."""

    def __call__(self, words, rng):
        return [words[number] for number in rng.permutation(len(words))[:-1]] if len(words) > 1 else words


@pytest.fixture(scope="module")
def tokenizer():
    return small.tokenizer(TEXTS * 3, ["en", "ja"], kind="unigram", size=320)


def row(number, language="en"):
    return {"id": f"r{number}", "source_text": TEXTS[number], "source_language": language}


def test_only_the_words_change(tokenizer):
    field = small.text(tokenizer, prefix=["<mask>", "<{language}>"])
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


def test_the_language_of_the_row_decides_what_a_word_is(tokenizer):
    """A Japanese row has as many words as pieces, but for the space before it."""
    heard = []
    field = small.text(tokenizer)
    noisy = NoisyText(field=field, noise=[lambda words, rng: heard.append(len(words)) or words])
    for language in ("ja", "en"):
        noisy(row(3, language), np.random.default_rng(1))
    assert heard == [len(tokenizer.encode(TEXTS[3])) - 1, 1] and tokenizer.symbol(tokenizer.encode(TEXTS[3])[0]) == "▁"


def test_noise_that_makes_a_text_longer_is_an_error(tokenizer):
    field = small.text(tokenizer)
    noisy = NoisyText(field=field, noise=[lambda words, rng: words * 2])
    refuses(DataError, "noise made 12 ids of 6|noise made [0-9]+ ids of", noisy, row(1), np.random.default_rng(1))


def test_the_same_noise_with_any_number_of_workers_and_other_noise_in_other_epochs(tokenizer, tmp_path):
    manifest = Manifest.write(tmp_path / "train.arrow", [row(0) | {"id": f"r{n}"} for n in range(12)])
    field = small.text(tokenizer)
    fields = {"source": NoisyText(field=field, noise=[Shuffled()]), "target": field}
    stream = Stream(name="s", manifests=[str(manifest.path)], fields=fields, budget=Budget(rows=5))

    def read(workers, epoch):
        batches = Loader(streams=[stream], seed=3, workers=workers).epoch(epoch)
        return {i: values for batch in batches for i, values in zip(batch.ids, batch["source"].values, strict=True)}

    one, other, again = read(0, 0), read(0, 1), read(2, 0)
    assert one.keys() == other.keys() and all(torch.equal(one[i], again[i]) for i in one)
    assert any(not torch.equal(one[i], other[i]) for i in one)
    assert len({tuple(values.tolist()) for values in one.values()}) > 1  # rows of equal text have noise of their own


class Words:
    """Replaces words by others from a table."""

    def __init__(self, table, growth=1.0):
        self.table, self.growth = table, growth

    def load(self):
        pass

    def __call__(self, text, rng, *, language, row):
        assert (language, row["source_text"]) == ("en", text)
        return [(text.index(old), text.index(old) + len(old), new) for old, new in self.table.items()]


def rewritten(tokenizer, table, growth):
    field = small.text(tokenizer)
    noisy = NoisyText(field=field, rewriting=Words(table, growth))
    one = {"id": "1", "source_text": "low lower lowest.", "source_language": "en"}
    ids = noisy(one, np.random.default_rng(1)).tolist()
    assert len(ids) <= noisy.length(one) == noisy.lengths([one])[0]
    assert (ids[0], ids[-1]) == (tokenizer.id("<en>"), tokenizer.eos)
    return tokenizer.decode(ids), noisy.length(one) - field.length(one)


def test_edits_are_given_up_from_the_last_while_there_is_no_room(tmp_path):
    tokenizer = characters(tmp_path)
    assert rewritten(tokenizer, {"lowest": "newer", "low": "wide"}, 1.0)[0] == "wide lower newer."
    assert rewritten(tokenizer, {}, 1.0)[0] == "low lower lowest."
    longer = {"lower": "wider!", "lowest": "lowests", "low": "slow"}
    assert rewritten(tokenizer, longer, 1.2) == ("slow wider! lowests.", 4)
    assert rewritten(tokenizer, longer, 1.1) == ("low wider! lowests.", 2)
    assert rewritten(tokenizer, {"low": "slow"}, 1.0) == ("low lower lowest.", 0)
    refuses(UsageError, r"growth must be at least 1, not 0\.9", rewritten, tokenizer, {}, 0.9)


def test_a_share_is_rounded_up_as_the_decimal_that_was_written():
    for hundredths in range(101):
        for count in (0, 1, 3, 7, 100, 101, 4096):
            exact = math.ceil(Fraction(hundredths, 100) * count)
            assert share_of(count, hundredths / 100) == exact


def test_spans_cover_their_share_and_every_place_is_equally_likely():
    rng, draw = np.random.default_rng(0), SpanDraw(share=0.3, mean_length=2.0)
    counts = Counter()
    for _ in range(3000):
        found = draw(7, rng)
        assert sum(end - begin for begin, end in found) == 3  # of 2.1, rounded up
        assert all(begin <= end for begin, end in found) and len(found) <= 3
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(found)) and 0 <= found[0][0] and found[-1][1] <= 7
        if [end - begin for begin, end in found] == [3]:
            counts[found[0][0]] += 1
    assert {*counts} == {0, 1, 2, 3, 4} and max(counts.values()) < 1.5 * min(counts.values())


def test_spans_of_nothing_and_of_everything():
    rng = np.random.default_rng(0)
    assert SpanDraw(share=0.0, mean_length=3.0)(9, rng) == SpanDraw(share=0.5, mean_length=3.0)(0, rng) == []
    assert SpanDraw(share=1.0, mean_length=1e9)(5, rng) == [(0, 5)]


class Lengths:
    """A generator that draws given lengths, and leaves orders and places as they are."""

    def __init__(self, *draws):
        self.draws, self.asked = list(draws), []

    def poisson(self, mean, size):
        self.asked.append((mean, size))
        return np.array(self.draws.pop(0))

    def permutation(self, spans):
        return np.array(spans)

    def choice(self, count, size, replace, shuffle):
        self.asked.append((count, size, replace))
        return np.arange(count)[::-1][:size]


def test_lengths_are_drawn_until_they_cover_and_the_last_is_cut():
    rng = Lengths([0, 1, 0], [0, 0, 5])
    found = SpanDraw(share=0.3, mean_length=1.5)(10, rng)
    assert rng.asked == [(1.5, 3), (1.5, 3), (10, 3, False)]
    # 1 and the first 2 of 5; of four spans without words, one is left: there are no more spans than words
    assert sorted(end - begin for begin, end in found) == [0, 1, 2]
    assert found[-1][1] == 10
    for wrong in ({"share": 1.5, "mean_length": 3}, {"share": 0.5, "mean_length": 0.09}):
        refuses(UsageError, "must be", SpanDraw, **wrong)
    SpanDraw(share=1, mean_length=0.1)
