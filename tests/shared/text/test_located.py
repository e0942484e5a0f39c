"""Where in a text its pieces are: what they spell is what stands there, however the text is normalised."""

import random
import unicodedata

import pytest

from dragoman import DataError, UsageError
from dragoman.exchange.vocabularies.json_file import JsonTokenizer
from dragoman.exchange.vocabularies.segmenters import SentencePieces, Words
from dragoman.exchange.vocabularies.vocabulary import VocabularyTokenizer
from tests.small import pieces, refuses, tokenizer

TEXTS = ["über die Straße nach 北京", "株式会社 ist ein Wort", "각 한글 e\u0301te\u0301", "a good day"]
#: Letters of which some compose with others, are rewritten by NFKC, take several bytes, or are spaces.
LETTERS = ["a", "e", "u", "S", " ", "  ", "\u0301", "\u0308", "\u0323", "ß", "é", "北", "😀", "\u09c7", "\u09be", "x"]
LETTERS += ["\u1100", "\u1161", "\u11a8", "㍿", "ﬁ", "½", "\u3000", "\t", "▁", "\u200b", "…"]


def drawn_texts(count=300):
    rng = random.Random(7)
    return TEXTS + ["".join(rng.choices(LETTERS, k=rng.randint(0, 12))) for _ in range(count)]


def spelled(text, rule):
    normal = unicodedata.normalize("NFC" if rule == "nfc" else "NFKC", text)
    return "".join(sign for sign in normal if not sign.isspace() and sign not in "▁\u200b")


@pytest.mark.parametrize("rule", ["nfc", "nmt_nfkc"])
@pytest.mark.parametrize("kind", ["char", "unigram"])
def test_pieces_spell_what_stands_at_their_places(kind, rule):
    path = pieces(TEXTS, kind=kind, size=320, normalisation=rule)
    own = tokenizer(TEXTS, kind=kind, size=320, normalisation=rule)
    foreign = VocabularyTokenizer(segmenter=SentencePieces(model=path))
    for text in drawn_texts():
        for one in (own, foreign):
            ids, places = one.located(text)
            assert ids == one.encode(text) and places.shape == (len(ids), 2)
            begins, ends = places.T
            assert (begins <= ends).all() and (begins[1:] >= begins[:-1]).all() and (ends <= len(text)).all()
            apart = sorted({(begin, end) for begin, end in places.tolist() if begin < end})
            assert all(end <= begin for (_, end), (begin, _) in zip(apart, apart[1:], strict=False)), text
            assert spelled("".join(text[a:b] for a, b in apart), rule) == spelled(text, rule)
        for id, (begin, end) in zip(*own.located(text), strict=True):
            said = own.symbol(id).replace("▁", "")
            if not (said.startswith("<0x") or (said and begin == end)) and rule == "nfc":
                stands = spelled(text[begin:end], rule)
                assert stands == said if unicodedata.is_normalized("NFC", text) else said in stands, text


def test_places_by_hand():
    own = tokenizer(TEXTS)
    ids, places = own.located(" e\u0301t  die")
    assert [own.symbol(id) for id in ids] == ["▁", "é", "t", "▁", "d", "i", "e"]
    assert places.tolist() == [[1, 1], [1, 3], [3, 4], [4, 6], [6, 7], [7, 8], [8, 9]]
    ids, places = own.located("a😀n")
    assert places.tolist() == [[0, 0], [0, 1], *[[1, 2]] * 4, [2, 3]]
    ids, places = own.located("")
    assert ids == [] and places.shape == (0, 2)
    refuses(DataError, "not valid Unicode", own.located, "a\udc80")


def test_words_do_not_say_where_they_are(tmp_path):
    (tmp_path / "vocab.json").write_text('["<pad>", "</s>", "<unk>", "a"]')
    symbols = {name: name for name in ("<pad>", "</s>", "<unk>")}
    words = VocabularyTokenizer(segmenter=Words(), vocabulary=str(tmp_path / "vocab.json"), symbols=symbols)
    refuses(UsageError, "Words does not say where in a text its pieces are", words.located, "a")


def test_places_of_a_library_tokenizer(tmp_path):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    vocabulary = {word: id for id, word in enumerate(["[PAD]", "[UNK]", "[SEP]", "uber", "##all", "[", "S", "E", "a"])}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens(["[PAD]", "[UNK]", "[SEP]"])
    made.save(str(tmp_path / "tokenizer.json"))
    own = JsonTokenizer(
        file=str(tmp_path / "tokenizer.json"), symbols={"<pad>": "[PAD]", "</s>": "[SEP]", "<unk>": "[UNK]"}
    )
    text = "A  U\u0308berall 北 a"
    ids, places = own.located(text)
    assert ids == own.encode(text) == [8, 3, 4, 1, 8]
    assert [text[begin:end] for begin, end in places.tolist()] == ["A", "U\u0308ber", "all", "北", "a"]
    ids, places = own.located("a [SEP]")
    assert ids == own.encode("a [SEP]")
    assert [own.symbol(id) for id in ids][1:] != ["[SEP]"] and (places[1:] >= 2).all()
    assert own.located("")[1].shape == (0, 2)
    refuses(DataError, "not valid Unicode", own.located, "\udc80")
