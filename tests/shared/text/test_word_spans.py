"""Words of texts: hand-made examples in scripts with and without spaces."""

import pytest
from hypothesis import given, strategies

from dragoman.shared.text.word_spans import bare_span, has_capital_of_sentence, is_known, linked_words, words


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


def test_words_for_links_are_what_spaces_divide_else_characters():
    assert linked_words(" Der Hund, ", "de") == [(1, 4), (5, 10)]
    assert linked_words("我 在。", "zh") == [(0, 1), (2, 3), (3, 4)]
    assert linked_words("", "de") == []


@pytest.mark.parametrize(
    ("text", "span", "bare"),
    [
        ("„Hund“, x", (0, 7), (1, 5)),
        ("Hund", (0, 4), (0, 4)),
        ("a „Hund“", (2, 8), (3, 7)),
        ("(1)", (0, 3), (1, 2)),
        ("x...y", (1, 4), (1, 4)),
    ],
)
def test_signs_at_the_ends_of_a_word(text, span, bare):
    assert bare_span(text, span) == bare


def test_a_lexicon_has_a_word_in_its_case_or_in_lower_case():
    assert is_known("Hund", "de", {"Hund"}) and is_known("HUND", "de", {"hund"})
    assert not is_known("hund", "de", {"Hund"})
    assert is_known("ISI", "tr", {"ısı"}) and not is_known("ISI", "en", {"ısı"})


def test_known_words_change_nothing_where_there_is_nothing_to_divide():
    assert cut("Der Hund, l'ami", "fr", {"x"}) == ["Der", "Hund", "l", "ami"]
    assert cut("ab-cd ef", "en", set()) == ["ab", "cd", "ef"]
    assert cut("ab-cd'ef", "en", {"ab-cd'ef"}) == ["ab-cd'ef"]
    assert cut("é-a’b", "fr", {"x"}) == ["é", "a", "b"]


def test_without_a_lexicon_each_character_is_a_word_and_latin_names_stay_together():
    assert cut("我在Köln。", "zh") == ["我", "在", "Köln"]
    assert cut("红色的狗", "zh", {"红色的", "红色", "的狗"}, 2) == ["红色", "的狗"]
    assert cut("红色的狗", "zh", {"红色的狗"}, 4) == ["红色的狗"]
    assert cut("红色的狗", "zh", {"红色的狗"}) == ["红", "色", "的", "狗"]
    assert cut("ΑΒГД", "zh", {"ΑΒ"}, 2) == ["ΑΒГД"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The Dog saw. It ran!  Far?) Yes", ["The", "It", "Far", "Yes"]),
        ("“He” said: “Run.” – Then he ran…", ["He", "Then"]),
        ("¿Qué? ¡No! vale. (Sí) a", ["Qué", "No", "Sí"]),
        ("the dog. the cat", []),
    ],
)
def test_capitals_of_sentences(text, found):
    """A capital inside of a sentence is the word's own, and so is one after a colon."""
    assert [text[a:b] for a, b in words(text, "es") if has_capital_of_sentence(text, a)] == found
