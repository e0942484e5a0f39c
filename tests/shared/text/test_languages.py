"""Language codes against the corpora's own lists and sacreBLEU."""

import pytest
from sacrebleu.metrics import BLEU

from dragoman.shared.errors import DataError
from dragoman.shared.text import languages
from tests.small import refuses

MUSTC = "ar cs de es fa fr it nl pt ro ru tr vi zh"
COVOST_TO_ENGLISH = "fr de es ca it ru zh-CN pt fa et mn nl tr ar sv-SE lv sl ta ja id cy"
COVOST_FROM_ENGLISH = "de tr fa sv-SE mn zh-CN cy ca sl et id ar ta lv ja"
MBART_50 = (
    "ar cs de en es et fi fr gu hi it ja kk ko lt lv my ne nl ro ru si tr vi zh af az bn fa he hr id ka km mk ml mn mr "
    "pl ps pt sv sw ta te th tl uk ur xh gl sl"
)
MRASP = "af ar be bg cs de el eo es et fi fr gu he hi it ja ka kk ko lt lv ms mt my ro ru sr tr uk vi zh"
OPUS_100 = (
    "af am an ar as az be bg bn br bs ca cs cy da de dz el en eo es et eu fa fi fr fy ga gd gl gu ha he hi hr hu hy id "
    "ig is it ja ka kk km kn ko ku ky li lt lv mg mk ml mn mr ms mt my nb ne nl nn no oc or pa pl ps pt ro ru rw se sh "
    "si sk sl sq sr sv ta te tg th tk tr tt ug uk ur uz vi wa xh yi yo zh zu"
)


@pytest.mark.parametrize("codes", [MUSTC, COVOST_TO_ENGLISH, COVOST_FROM_ENGLISH, MBART_50, MRASP, OPUS_100])
def test_corpora_are_covered(codes: str) -> None:
    for code in codes.split():
        assert languages.check(code) == code
        assert languages.tag(code) == f"<{code}>"


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ("cmn", "zh"), ("iw", "he"), ("nob", "nb"), ("jp", "ja"), ("ger", "de"), ("deu", "de"), ("fas", "fa"),
        ("per", "fa"), ("in", "id"), ("ji", "yi"), ("mo", "ro"), ("scc", "sr"), ("dut", "nl"), ("arb", "ar"),
        ("prs", "prs"), ("yue", "yue"), ("fil", "fil"), ("pob", "pt-BR"), ("CMN", "zh"), ("DE", "de"),
        ("german", "de"), ("Deutsch", "de"), ("English", "en"), ("Bokmål", "nb"), ("norwegian nynorsk", "nn"),
        ("de-AT", "de"), ("de_AT", "de"), ("deu_Latn", "de"), ("zh_CN", "zh-CN"), ("zh_Hans_CN", "zh-CN"),
        ("zh_Hant_TW", "zh-TW"), ("cmn-Hant", "zh-Hant"), ("por_BR", "pt-BR"), ("es_419", "es"),
        ("de_DE.UTF-8", "de-DE"), ("sr@latin", "sr"),
    ],
)  # fmt: skip
def test_codes_and_names_of_the_same_language(other: str, code: str) -> None:
    assert languages.called(other) == code
    if other != code:
        refuses(DataError, f"unknown language code '{other}': write '{code}' for ", languages.check, other)


def test_iso_codes_have_the_meaning_that_the_cldr_gives_them() -> None:
    aliases = pytest.importorskip("babel.core").get_global("language_aliases")
    ours = {other: code for other, code in aliases.items() if code in languages.LANGUAGES and len(code) == 2}
    apart = {"tw", "twi"}  # to the CLDR a dialect of ak, and a language of its own here
    unknown = {"adp", "bh", "bih", "cls", "drh", "fuc", "pbu", "prp", "src"}  # withdrawn, or those of parts
    assert len(ours) > 190
    for other, code in ours.items():
        if other not in apart:
            assert languages.called(other) == (None if other in unknown else code)


@pytest.mark.parametrize("wrong", ["qqq", "zz", "x", "Ελ", "de-nonsense", "cmnx_Hans", "1" * 100_000])
def test_what_is_no_language_is_not_taken_for_one(wrong: str) -> None:
    assert languages.called(wrong) is None


def test_a_language_is_found_among_the_tags_of_a_file() -> None:
    tags = ["de_AT", "en-US", "EN", "zh-TW", "x-none", "sr-Latn"]
    found = {code: languages.among(code, tags) for code in ("en", "de", "en-US", "zh", "sr", "zh-CN", "fr")}
    assert found == {"en": "EN", "de": "de_AT", "en-US": "en-US", "zh": "zh-TW", "sr": "sr-Latn"} | dict.fromkeys(
        ["zh-CN", "fr"]
    )


def test_the_nearest_spelling_is_the_last_resort() -> None:
    refuses(DataError, "unknown language code 'germann'; did you mean 'de'", languages.check, "germann")
    for other in ("zz", "gan", "nan", "hak", "nan_TW", "gan-Hans"):  # languages, of which none is like its spelling
        refuses(DataError, f"unknown language code '{other}'. Codes are those of ISO 639", languages.check, other)
    refuses(DataError, "^'' is not a language code$", languages.check, "")


def test_scoring_tokenizers() -> None:
    expected = {
        "de": "13a",
        "ja": "ja-mecab",
        "ko": "ko-mecab",
        "zh": "zh",
        "zh-CN": "zh",
        "th": "char",
        "sv-SE": "13a",
    }
    assert {code: languages.sacrebleu_tokenizer(code) for code in expected} == expected
    used = {languages.sacrebleu_tokenizer(code) for code in languages.LANGUAGES}
    assert used <= set(BLEU.TOKENIZERS)


def test_spaces() -> None:
    assert [code for code in MBART_50.split() if not languages.spaced(code)] == ["ja", "my", "zh", "km", "th"]


def test_names_and_scripts() -> None:
    assert (languages.name("sv-SE"), languages.script("ru"), languages.name("nb")) == ("Swedish", "Cyrl", "Bokmål")


def test_many_codes_are_not_all_listed() -> None:
    codes = [f"l{number}" for number in range(22)]
    assert languages.listed(["en", "de"]) == "en, de" and languages.listed(codes[:21]).endswith(", l19, l20")
    assert languages.listed(codes) == f"{', '.join(codes[:20])} and 2 more"
