"""Case by language, against hand values."""

from __future__ import annotations

import unicodedata

import pytest

from dragoman.shared.text.case import base, capitalised, lower, upper

DOTTED = ["tr", "az", "crh", "tr-TR", "az_Latn", "TR"]


@pytest.mark.parametrize("language", DOTTED)
def test_turkish_and_its_kin_have_two_letters_i(language: str) -> None:
    assert lower("ISPARTA İZMİR", language) == lower("ISPARTA I\u0307ZMI\u0307R", language) == "ısparta izmir"
    assert upper("ısparta izmir", language) == "ISPARTA İZMİR"
    assert capitalised("izmir", language) == "İzmir" and capitalised("ısparta", language) == "Isparta"


@pytest.mark.parametrize("language", ["de", "en-GB", "azb", "trv", "lt", None])
def test_others_have_one(language: str | None) -> None:
    assert (lower("I", language), upper("i", language), capitalised("io", language)) == ("i", "I", "Io")


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("el", "ΟΔΟΣ ΣΑΣ", "οδος σας"),
        ("de", "STRAẞE Straße", "straße straße"),
        ("ka", "ᲡᲐᲥᲐᲠᲗᲕᲔᲚᲝ", "საქართველო"),
        ("hy", "ԵՐԵՎԱՆ", "երեվան"),
        ("en", "Ǆ ＡＢ Ω", "ǆ ａｂ ω"),
    ],
)
def test_scripts(language: str, text: str, expected: str) -> None:
    assert lower(text, language) == expected


def test_georgian_has_no_capitals_at_the_beginning() -> None:
    assert capitalised("საქართველო", "ka") == "საქართველო"


def test_codes_and_forms() -> None:
    assert [base(code) for code in ("tr-TR", "zh_Hant", "de", "", None)] == ["tr", "zh", "de", "", ""]
    for text in ("ÇIĞ", "Šalčininkai"):
        decomposed = unicodedata.normalize("NFD", text)
        for language in ("tr", "lt"):
            assert unicodedata.normalize("NFC", lower(decomposed, language)) == lower(text, language)
