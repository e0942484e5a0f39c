"""Symbols behind those of another tokenizer: hand values, what users may type, what is kept, and what is refused."""

import pickle
from pathlib import Path

import pytest

from dragoman.exchange.vocabularies.segmenters import Words
from dragoman.exchange.vocabularies.vocabulary import FIRST, VocabularyTokenizer
from dragoman.shared.described import assets_of, build, describe
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.text.tagged import TaggedTokenizer, extends
from dragoman.shared.text.tokenizer import Tokenizer as Protocol
from tests import small


@pytest.fixture
def words(tmp_path: Path) -> VocabularyTokenizer:
    """Make a vocabulary of <s>, <pad>, </s>, <unk>, low, slow and <mask>, which are 0 to 6."""
    (tmp_path / "dict.txt").write_text("low 9\nslow 8\n", encoding="utf-8")
    symbols = {name: name for name in (*FIRST, "<mask>")}
    return VocabularyTokenizer(
        segmenter=Words(), vocabulary=str(tmp_path / "dict.txt"), added=["<mask>"], symbols=symbols
    )


@pytest.fixture
def tagged(words: VocabularyTokenizer) -> TaggedTokenizer:
    return TaggedTokenizer(tokenizer=words, tags=["de", "<2fr>"])


def test_the_others_ids_stay_and_tags_are_behind_them(tagged: TaggedTokenizer) -> None:
    held: Protocol = tagged
    assert (held.size, held.id("<de>"), held.id("<2fr>")) == (9, 7, 8)
    assert held.encode("slow low high") == [5, 4, 3]
    assert held.lengths(["", "slow low high"]).tolist() == [0, 3]
    assert (held.bos, held.pad, held.eos, held.unk, held.mask) == (0, 1, 2, 3, 6)
    assert [held.symbol(id) for id in range(9)] == [*FIRST, "low", "slow", "<mask>", "<de>", "<2fr>"]
    assert held.symbols == [*FIRST, "<mask>", "<de>", "<2fr>"] and held.id("</s>") == 2
    assert held.decode([7, 0, 5, 4, 8, 2]) == "slow low"
    assert held.encode("<de> <2fr> low") == [3, 3, 4]  # what a user types is text


def test_ids_and_symbols_that_there_are_not(tagged: TaggedTokenizer) -> None:
    small.refuses(DataError, r"no symbol '<fr>', only <s> .*<mask> <de> <2fr>$", tagged.id, "<fr>")
    for wrong in (9, -1):
        small.refuses(ValueError, f"id {wrong} is outside the vocabulary", tagged.symbol, wrong)
        small.refuses(ValueError, f"id {wrong} is outside the vocabulary", tagged.decode, [wrong])
    for absent in ("sep", "blank"):
        small.refuses(DataError, f"no symbol '<{absent}>'", getattr, tagged, absent)


def test_it_extends_that_tokenizer_alone(words: VocabularyTokenizer, tagged: TaggedTokenizer, tmp_path: Path) -> None:
    other = VocabularyTokenizer(**words.arguments | {"added": ["<mask>", "<sep>"]})
    assert extends(tagged, words) and not extends(tagged, other)
    assert not extends(words, tagged) and not extends(words, words) and not extends(tagged, tagged)
    prints = [TaggedTokenizer(tokenizer=words, tags=tags).fingerprint for tags in (["de"], ["fr"], ["de", "fr"])]
    assert len({words.fingerprint, tagged.fingerprint, *prints}) == 5


def test_a_model_folder_builds_it_again(tagged: TaggedTokenizer, tmp_path: Path) -> None:
    files: dict[str, Path] = {}
    description = describe(tagged, files)
    assert assets_of(description) == ["dict.txt"]
    for again in (build(description, tmp_path), pickle.loads(pickle.dumps(tagged))):
        assert again.fingerprint == tagged.fingerprint
        assert (again.id("<2fr>"), again.encode("slow"), again.decode([5, 8])) == (8, [5], "slow")


def test_symbols_of_all_kinds_pass_through() -> None:
    inner = small.tokenizer(["abc", "cba"], ["de"])
    outer = TaggedTokenizer(tokenizer=inner, tags=["en"])
    symbols = {"pad": "<pad>", "bos": "<s>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>", "sep": "<sep>"}
    for name, symbol in (symbols | {"blank": "<blank>"}).items():
        assert getattr(outer, name) == outer.id(symbol) == inner.id(symbol)
    assert (outer.id("<de>"), outer.id("<en>")) == (inner.size - 1, inner.size)


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        (["xx"], "unknown language code 'xx'"),
        ([], r"must be a list of language codes or symbols, not \[\]"),
        ("de", "must be a list of language codes or symbols, not 'de'"),
        (["de", "<de>"], "must be given once, and be new to the tokenizer: <de>"),
        (["<mask>", "fr"], "must be given once, and be new to the tokenizer: <mask>"),
    ],
)
def test_tags_that_are_refused(words: VocabularyTokenizer, tags: list[str], message: str) -> None:
    small.refuses(DataError if tags == ["xx"] else UsageError, message, TaggedTokenizer, tokenizer=words, tags=tags)
