"""A SentencePiece model rewritten for the library tokenizers: the same pieces and the same text of any text."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import System, UsageError
from dragoman.exchange.huggingface.hf_tokenizer import new_order, sentencepiece_json, write_tokenizer
from dragoman.exchange.vocabularies.adding import merges_of
from dragoman.shared.batches.fields import TextField
from dragoman.shared.text.normalise import Lowercase
from dragoman.shared.text.piece_file import parsed
from dragoman.shared.text.piece_model import train_sentencepiece
from dragoman.shared.text.tokenizer import SentencePieceTokenizer
from tests import small
from tests.dragoman.exchange.huggingface.test_hf_export import system_of, tokenizer  # noqa: F401 (a fixture)
from tests.small import examples

TEXTS = ["hello world，a b c… é می\u200cخواهم 你好，世界！ ﬁ²", "Tiếng Việt rất đẹp", "안녕하세요 여러분"]
#: Spaces, controls and signs before marks too, which the library's own reading of SentencePiece's tables loses.
SIGNS = "ab éế가²，…ﬁ▁ש\t\r\n\v\x01\x85\x9f\ufeff\u200b\u200c\u200d\u200f\u3000\u00a0"
SIGNS += "\u0301\u0302\u0323\u05c1\u05b8▁ش\u0651\u064e"


@pytest.fixture(scope="module", params=["unigram", "bpe", "char"])
def kinds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):  # noqa: ANN201
    path = train_sentencepiece(TEXTS * 5, tmp_path_factory.mktemp("m") / "m.model", kind=request.param, size=400)
    ours = SentencePieceTokenizer(model=str(path), tags=["en"])
    return ours, sentencepiece_json(Path(path), [ours.symbol(id) for id in range(ours.size)])


@settings(max_examples=examples(300))
@given(text=st.text(alphabet=SIGNS, max_size=12))
def test_any_text_has_the_same_pieces(kinds, text: str) -> None:  # noqa: ANN001
    ours, theirs = kinds
    for form in (text, unicodedata.normalize("NFD", text)):
        ids = ours.encode(form)
        assert theirs.encode(form).ids == ids
        assert theirs.decode(ids) == ours.decode(ids)


def test_words_of_sentencepiece_have_no_native_class(tmp_path: Path) -> None:
    path = Path(train_sentencepiece(TEXTS * 5, tmp_path / "m.model", kind="unigram", size=400))
    proto = parsed(path.read_bytes())
    proto.trainer_spec.model_type = 3
    path.write_bytes(proto.SerializeToString())
    complaint = small.refusal(UsageError, sentencepiece_json, path, ["<unk>"])
    assert complaint == f"{path}: transformers has no native class for a SentencePiece model of words"


def test_merges_come_by_the_rank_of_what_they_make() -> None:
    scores = {"a": -3.0, "b": -4.0, "c": -5.0, "ab": -1.0, "bc": 0.0, "abc": -2.0}
    # bc is the best, then ab, then abc: of a and bc or of ab and c, the one whose left part is the better
    assert merges_of(scores) == [("b", "c"), ("a", "b"), ("ab", "c"), ("a", "bc")]


@pytest.fixture
def system(tokenizer: SentencePieceTokenizer) -> System:  # noqa: F811
    return system_of(tokenizer)


def test_special_symbols_come_first(system: System) -> None:
    tokenizer = system.output.tokenizer  # noqa: F811
    order = new_order(system)
    assert sorted(order) == list(range(tokenizer.size))
    assert [tokenizer.symbol(id) for id in order[:4]] == ["<s>", "<pad>", "</s>", "<unk>"]
    assert order[4:] == sorted(order[4:])


def test_an_export_has_settings_of_its_tokenizer(system: System, tmp_path: Path) -> None:
    tokenizer, order = system.output.tokenizer, new_order(system)  # noqa: F811
    start = write_tokenizer(system, order, tmp_path)
    at = {name: order.index(tokenizer.id(name)) for name in ("<s>", "<pad>", "</s>", "<en>", "<de>")}
    ids = {"bos_token_id": at["<s>"], "pad_token_id": at["<pad>"], "eos_token_id": at["</s>"]}
    common = ids | {"forced_eos_token_id": at["</s>"], "decoder_start_token_id": at["<de>"]}
    assert {name: value for name, value in start.settings.items() if name != "dragoman"} == common
    assert start.generation == common | {
        "num_beams": 5, "early_stopping": True, "suppress_tokens": [at["<pad>"]],
    }  # fmt: skip
    assert start.notes == [] and start.settings["dragoman"]["source"]["languages"] == ["en"]
    said = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert said == {
        "bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "mask_token": "<mask>",
        "clean_up_tokenization_spaces": False, "tokenizer_class": "PreTrainedTokenizerFast",
    }  # fmt: skip
    content = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    row = {"id": "", "source_text": "the low", "source_language": "en", "target_language": "de"}
    wanted = [order.index(id) for id in system.inputs["source"](row, np.random.default_rng(0)).tolist()]
    assert content.encode("the low").ids == wanted


def test_several_languages_are_left_to_who_generates(system: System, tmp_path: Path) -> None:
    codes = {"source_languages": ["en", "de"], "target_languages": ["de", "en"]}
    both = System(**system.arguments | codes)
    tokenizer, order = both.output.tokenizer, new_order(both)  # noqa: F811
    start = write_tokenizer(both, order, tmp_path)
    numbers = {code: order.index(tokenizer.id(f"<{code}>")) for code in ("de", "en")}
    tag = min(("<de>", "<en>"), key=tokenizer.id)
    told = f"decoder_start_token_id= de {numbers['de']}, en {numbers['en']}"
    first = f"each source has to begin with the symbol of its language: {tag} and the text"
    assert start.notes == [first, f"generate() needs the output's language: {told}"]
    assert "decoder_start_token_id" not in start.settings


def test_what_transformers_has_no_place_for(system: System, tmp_path: Path) -> None:
    tokenizer = system.output.tokenizer  # noqa: F811

    def changed(**source) -> System:  # noqa: ANN003
        field = TextField(**{"column": "source_text", "tokenizer": tokenizer} | source)
        codes = {"source_languages": ["en", "de"], "target_languages": ["de"]}
        return System(**system.arguments | codes | {"inputs": {"source": field}})

    order = new_order(system)
    for wrong, said in (
        (changed(normalizers=[Lowercase()]), "transformers has no place for Lowercase before the tokenizer"),
        (changed(suffix=["<{language}>"]),
         "transformers has no place for a language behind the source of a model of several languages"),
        (changed(prefix=["<{language}>", "<sep>"]),
         "transformers has no place for 2 symbols before a source that depend on its language"),
    ):  # fmt: skip
        assert small.refusal(UsageError, write_tokenizer, wrong, order, tmp_path) == said
    output = TextField(column="target_text", tokenizer=tokenizer, prefix=["<s>", "<sep>", "<{language}>"])
    with pytest.raises(UsageError, match="^transformers has no place for 3 symbols before an output$"):
        write_tokenizer(System(**system.arguments | {"output": output}), order, tmp_path)


def test_both_sides_have_one_tokenizer(system: System) -> None:
    other = small.tokenizer(["the tower low"] * 9, ["en", "de"], kind="bpe")
    inputs = {"source": TextField(column="source_text", tokenizer=other)}
    mixed = SimpleNamespace(inputs=inputs, output=system.output)
    with pytest.raises(UsageError) as error:
        new_order(mixed)
    said = "source and target have different tokenizers, which transformers has no native class for"
    assert str(error.value) == said
