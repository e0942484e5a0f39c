"""Other projects' symbols for languages."""

from __future__ import annotations

import itertools
import logging

import pytest

from dragoman.exchange.codes import language_of, languages_of_side, tags_by_code, warn_of_unnamed
from dragoman.exchange.huggingface.hf_text import MBART, named_tags
from dragoman.shared.errors import DataError, UsageError
from tests.small import refusal


@pytest.mark.parametrize(
    ("symbol", "code"),
    [
        ("de_DE", "de"), ("en_XX", "en"), ("[zh_CN]", "zh"), ("__gu__", "gu"), ("deu_Latn", "de"), ("ace_Latn", "ace"),
        ("ace_Arab", "ace-Arab"), ("zho_Hans", "zh"), ("zho_Hant", "zh-Hant"), ("srp_Cyrl", "sr"), ("kor_Hang", "ko"),
        (">>fra<<", "fr"), (">>pt_br<<", "pt-BR"), ("__ns__", "nso"), ("qqq_Latn", None), ("<mask>", None),
        ("▁de", None), ("<2de>", "de"), ("<2zh_Hant>", "zh-Hant"), ("<2Arab>", None), ("<2back_translated>", None),
        ("<de>", None), ("<|jw|>", "jv"), ("<lang:zh>", "zh"), ("LANG_TOK_EN", "en"), (">>zh_TW<<", "zh-TW"),
        (">>fr_BE<<", "fr"), (">>ger<<", "de"), (">>hbs<<", "sh"), (">>pob<<", "pt-BR"), (">>pob_PT<<", None),
        (">>aze_Cyrl<<", None), (">>nob_Hebr<<", None), (">>jpn_Hira<<", None), ("zh_Hant_HK", "zh-HK"),
        ("ms_Arab_BN", None), ("", None), ("(nothing at 5)", None),
    ],
)  # fmt: skip
def test_codes(symbol: str, code: str | None) -> None:
    assert language_of(symbol) == code


def test_given_languages_are_those_of_a_side_if_the_model_has_symbols_for_them() -> None:
    side = {"said": None, "code": None, "path": "model"}
    assert languages_of_side("source", ["de", "en"], tagged=["en", "fr", "de"], **side) == ["de", "en"]
    assert languages_of_side("source", ["de"], tagged=[], **side) == ["de"]
    with pytest.raises(UsageError, match="the model has no symbol for ru, it, only for en, de"):
        languages_of_side("source", ["ru", "de", "it"], tagged=["en", "de"], **side)


@pytest.mark.parametrize(
    "expected",
    [
        {"fr": ">>fr<<", None: ">>fr_BE<<", "fr-CA": ">>fr_CA<<", "fr-FR": ">>fr_FR<<"},
        {"fr": ">>fr_FR<<", None: ">>fr_BE<<", "fr-CA": ">>fr_CA<<"},
        {"zh": ">>zh_CN<<", "zh-TW": ">>zh_TW<<", "zh-HK": ">>zh_HK<<"},
        {"zh": ">>cmn<<", "zh-Hans": ">>cmn_Hans<<", "zh-Hant": ">>cmn_Hant<<", "yue": ">>yue_Hant<<"},
        {"zh": ">>cmn_Hans<<", "zh-CN": ">>zh_CN<<", None: ">>cmn_Latn<<"},
        {"sr": ">>srp_Cyrl<<", "sr-Latn": ">>srp_Latn<<", "sh": ">>hbs<<"},
        {"sr": ">>srp<<", "sr-Latn": ">>srp_Latn<<", "sr-Cyrl": ">>srp_Cyrl<<"},
        {"pt": ">>por<<", "pt-BR": ">>pob<<", "pt-PT": ">>pt_PT<<"},
        {"pt": ">>pt<<", "pt-BR": ">>pt_BR<<", None: ">>pob<<"},
        {"es": "es_XX", "es-MX": "es_MX", "es-ES": "es_ES"},
        {"ar": ">>ara<<", None: ">>arb<<", "arz": ">>arz<<"},
        {"uz": ">>uzb_Latn<<", None: ">>uzb_Cyrl<<", "nb": ">>nob<<"},
    ],
)
def test_the_order_of_symbols_does_not_matter(expected: dict[str | None, str]) -> None:
    right = {code: tag for code, tag in expected.items() if code is not None}
    for tags in itertools.permutations(expected.values()):
        assert tags_by_code(tags) == right
        assert named_tags(tags) == {f"<{code}>": tag for code, tag in right.items()}
        assert [*tags_by_code(tags).values()] == [tag for tag in tags if tag in right.values()]


def test_all_languages_of_a_model_have_codes_of_their_own() -> None:
    assert [code for code in tags_by_code(MBART)] == [tag[:2] for tag in MBART]


def test_symbols_without_a_code_are_counted_and_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="dragoman"):
        warn_of_unnamed([">>fr<<", ">>haw<<", ">>fr_BE<<"], [">>fr<<"], "opus")
        warn_of_unnamed([">>fr<<"], [">>fr<<"], "all")
    assert caplog.messages == ["opus: 2 of 3 language tags have no code here: >>fr_BE<<, >>haw<<"]


def test_another_code_of_a_known_language_is_told() -> None:
    options = {"said": None, "code": None, "path": "m"}
    with pytest.raises(UsageError, match="no symbol for cmn, only for de, zh: write 'zh'"):
        languages_of_side("target", ["cmn"], tagged=["de", "zh"], **options)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (None, "m: does not say its source language: name it with --source-languages"),
        ("qqq", "m: calls its source language 'qqq': name it with --source-languages"),
    ],
)
def test_a_language_that_nobody_says(said: str | None, message: str) -> None:
    assert refusal(DataError, languages_of_side, "source", None, tagged=[], said=said, code=None, path="m") == message
    assert languages_of_side("source", None, tagged=[], said=said, code="de", path="m") == ["de"]
    assert languages_of_side("source", [], tagged=["de", "en"], said=said, code="de", path="m") == ["de", "en"]


def test_each_symbol_is_for_one_language_and_comes_once() -> None:
    assert tags_by_code([]) == {}
    assert tags_by_code(["de_DE", "de_DE", "en"]) == {"de": "de_DE", "en": "en"}
    assert [*tags_by_code(["en", "de"])] == ["en", "de"]
    assert language_of("zh_Hant_TW") == "zh-TW" and language_of("en_GB") == "en-GB"
    assert tags_by_code(["en_GB", "en_US"]) == {"en-GB": "en_GB", "en": "en_US"}


def test_our_own_code_of_a_language_comes_before_others() -> None:
    for symbols in itertools.permutations(["<2af>", "<2afr>"]):
        assert tags_by_code(symbols) == {"af": "<2af>"}
    for symbols in itertools.permutations(["<2deu>", "<2ger>"]):
        assert tags_by_code(symbols) == {"de": "<2deu>"}
