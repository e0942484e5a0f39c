"""Switched spans: how much is switched, what by, on which side; and what is refused."""

from collections import Counter

import numpy as np
import pytest

from dragoman.mt.csr import CodeSwitchedSpans
from dragoman.mt.lexicon import Lexicon
from dragoman.shared.batches.rewriting import edited
from dragoman.shared.errors import DataError, UsageError
from tests.small import refuses

ENGLISH = [f"w{letter}" for letter in "abcdefghijklmnopqrst"]
TEXT = " ".join(ENGLISH) + "."
ROW = {"id": "1", "source_language": "en", "target_language": "de"}


@pytest.fixture
def lexicon(tmp_path):
    lines = [f"{word} {word}{number}" for word in ENGLISH[:-1] for number in ("i", "ii", "iii", "iv")]
    (tmp_path / "en-de.txt").write_text("\n".join(lines))
    (tmp_path / "de-en.txt").write_text("hund dog\n")
    return Lexicon(files={name: str(tmp_path / f"{name}.txt") for name in ("en-de", "de-en")})


def switched(change, seed, text=TEXT, language="en", row=ROW):
    return edited(text, change(text, np.random.default_rng(seed), language=language, row=row))


def test_a_share_of_the_words_is_switched_in_spans(lexicon):
    change = CodeSwitchedSpans(lexicon=lexicon)
    places, runs, lengths = Counter(), 0, Counter()
    for seed in range(2000):
        found = switched(change, seed).rstrip(".").split()
        changed = [n for n, (old, new) in enumerate(zip(ENGLISH, found, strict=True)) if old != new]
        places.update(changed)
        runs += sum(n - 1 not in changed for n in changed)
        lengths[len(changed)] += 1
    assert set(lengths) == {6, 7}  # 0.35 * 20, and one fewer where a span has the last word, which the lexicon lacks
    assert ENGLISH[-1] in switched(change, 1)
    assert sorted(places) == [*range(19)]
    assert 2 < sum(places.values()) / runs < 4.5  # single words, drawn one by one, would give 1.5


@pytest.mark.parametrize("known", [20, 10, 7, 4, 0])
def test_of_the_words_that_the_lexicon_has_the_share_is_switched(known, tmp_path):
    """As in the authors' script, which lays spans over all words and passes over those without a translation."""
    words = ENGLISH[: 2 * known : 2] if known <= 10 else ENGLISH
    for name, pairs in (("en-de", [(word, f"{word}i") for word in words]), ("de-en", [])):
        lines = [f"{one} {other}" for one, other in [*pairs, ("hund", "dog")]]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines))
    change = CodeSwitchedSpans(lexicon=Lexicon(files={n: str(tmp_path / f"{n}.txt") for n in ("en-de", "de-en")}))
    counts, texts = Counter(), 1500
    for seed in range(texts):
        found = switched(change, seed).rstrip(".").split()
        counts.update(old for old, new in zip(ENGLISH, found, strict=True) if old != new)
    assert {*counts} == {*words}
    assert not known or counts.total() / (texts * known) == pytest.approx(0.35, abs=0.05)


def test_translations_are_drawn_evenly_from_the_first_three(lexicon):
    change = CodeSwitchedSpans(lexicon=lexicon, share=1.0)
    endings = Counter(word[2:] for seed in range(500) for word in switched(change, seed)[:-1].split()[:-1])
    total = sum(endings.values())
    assert sorted(endings) == ["i", "ii", "iii"]
    assert all(abs(count - total / 3) < 4 * (total * 2 / 9) ** 0.5 for count in endings.values())


def test_each_side_is_switched_into_the_language_of_the_other(lexicon):
    change = CodeSwitchedSpans(lexicon=lexicon, share=1.0)
    assert switched(change, 1, "Der Hund.", "de") == "Der dog."
    back = {"id": "1", "source_language": "de", "target_language": "en"}
    assert switched(change, 1, "Der Hund.", "de", back) == "Der dog."
    assert switched(CodeSwitchedSpans(lexicon=lexicon, share=0.0), 1) == TEXT
    assert switched(change, 1, "") == ""


def test_what_does_not_fit_is_refused(lexicon):
    for language, message in (
        ("fr", "row '1': the lexicon has no translations from 'en' into 'fr', only de-en, en-de"),
        (None, "row '1' does not name the languages of both sides"),
    ):
        refuses(
            DataError, message, switched, CodeSwitchedSpans(lexicon=lexicon), 1, row=ROW | {"target_language": language}
        )
    for arguments, message in (
        ({"share": -0.1}, r"share must be between 0 and 1, not -0\.1"),
        ({"mean_length": 0.0}, r"mean_length must be at least 0\.1, not 0\.0"),
        ({"top": 0}, "top must be at least 1, not 0"),
    ):
        refuses(UsageError, message, CodeSwitchedSpans, lexicon=lexicon, **arguments)
