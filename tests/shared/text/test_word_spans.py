"""Words of texts: hand-made examples in scripts with and without spaces."""

import pytest
from hypothesis import given, strategies

from shared.text.word_spans import words


def cut(text, language, *rest):
    return [text[start:end] for start, end in words(text, language, *rest)]


@pytest.mark.parametrize(
    ("text", "language", "found"),
    [
        ("The dog's bone, (3 euros) isn't well-known.", "en", ["The", "dog's", "bone", "euros", "isn't", "well-known"]),
        ("„Der Hund.“", "de", ["Der", "Hund"]),
        ("'tis rock-'n'-roll - no", "en", ["tis", "rock", "n", "roll", "no"]),
        ("ёжик и ё", "ru", ["ёжик", "и", "ё"]),
        ("cafe\u0301 noir", "fr", ["cafe\u0301", "noir"]),
        ("हिन्दी में लिखी", "hi", ["हिन्दी", "में", "लिखी"]),
        ("a1b 2024", "en", ["a", "b"]),
        ("", "en", []),
        ("...", "zh", []),
    ],
)
def test_words_are_runs_of_letters_with_apostrophes_and_hyphens_inside(text, language, found):
    assert cut(text, language) == found


def test_a_run_that_the_lexicon_lacks_is_divided_at_its_apostrophes():
    assert cut("L'homme d'aujourd'hui", "fr", {"homme", "aujourd'hui"}) == ["L", "homme", "d", "aujourd", "hui"]
    assert cut("Aujourd'hui", "fr", {"aujourd'hui"}) == ["Aujourd'hui"]
    assert cut("İstanbul'un", "tr", {"istanbul'un"}) == ["İstanbul'un"]


def test_without_spaces_the_longest_known_word_is_taken_else_a_character():
    assert cut("我喜欢红色的狗。Berlin很大", "zh", {"喜欢", "红色", "红色的", "狗"}, 3) == [
        *("我", "喜欢", "红色的", "狗"),
        *("Berlin", "很", "大"),
    ]
    assert cut("红色的狗", "zh", {"红色的"}, 2) == ["红", "色", "的", "狗"]


@given(strategies.text(strategies.characters(codec="ascii"), max_size=60))
def test_words_of_ascii_are_those_of_a_text_with_another_letter(text):
    """A text of ASCII alone takes another way."""
    assert words(f"{text} é", "en")[:-1] == words(text, "en")
