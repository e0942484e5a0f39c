"""Bilingual lexicons of the second world, as MUSE has them: a source word and a translation a line, lower case.

They are found by contrast and not in the grammar files, so that they hold inflected forms: a sentence is said with
every filler of a slot, and the word that only one filler brings is that filler's form. A form is paired with the forms
that the same filler has in the other language's phrasings of the same meaning. A word with several translations, be
it by inflection or because two fillers share it, has a line for each. Where no spaces divide words (Chinese, which
does not inflect), a form is the word of the grammar file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import product

from dragoman.almanac.frames import fraction, randomness
from dragoman.almanac.meanings import ACTS, CLASSES, CLOSED, INTENTS, WORDS, Meaning, class_of, draw_meaning
from dragoman.almanac.phrases import PHRASINGS, grammar
from dragoman.shared.text import languages

KINDS = (*WORDS, *CLOSED, "person", "weekday", "month", "count")
SAMPLE = 5000  # sentences that tell how frequent words are

Place = tuple[str, str, str, str | int]  # intent, act, slot, filler


def split_words(text: str, language: str = "") -> list[str]:
    """Lower-case words without punctuation; apostrophes divide: l'école is two words."""
    if language == "tr":
        text = text.replace("İ", "i").replace("I", "ı")
    kept = "".join(letter if letter.isalnum() or letter == "-" else " " for letter in text.lower())
    return kept.split()


@cache
def forms(language: str) -> dict[Place, frozenset[str]]:
    """The forms of every filler, by intent, act and slot; without those of several words."""
    spaced = languages.spaced(language)
    by_place: dict[Place, set[str]] = {}
    for intent, act, phrasing in product(INTENTS, ACTS, range(PHRASINGS)):
        for slot in filter(lambda slot: class_of(slot) in KINDS, INTENTS[intent]):
            fillers = CLASSES[class_of(slot)]
            texts = [_text(language, intent, act, phrasing, slot, filler) for filler in fillers]
            words = [str(grammar(language).word(class_of(slot), filler)) for filler in fillers]
            same = ([word] if word in text else [] for word, text in zip(words, texts, strict=True))
            for filler, form in zip(fillers, _contrast(texts, language) if spaced else same, strict=True):
                place = (intent, act, slot, filler)
                by_place.setdefault(place, set()).update(form)
    return {place: frozenset(words) for place, words in by_place.items()}


def _text(language: str, intent: str, act: str, phrasing: int, slot: str, filler: str | int) -> str:
    """A sentence whose other fillers are the same for all of a slot's."""
    slots = {other: CLASSES[class_of(other)][0 if other == class_of(other) else 1] for other in INTENTS[intent]}
    meaning = Meaning(intent, act, tuple((slots | {slot: filler}).values()))
    return grammar(language).sentence(meaning, phrasing)


def _contrast(texts: list[str], language: str) -> Iterator[list[str]]:
    """For each text the word that no other has; nothing if there are several, or none."""
    bags = [set(split_words(text, language)) for text in texts]
    counts = Counter(word for bag in bags for word in bag)
    for bag in bags:
        once = [word for word in bag if counts[word] == 1]
        yield once if len(once) == 1 else []


def lexicon(source: str, target: str) -> list[tuple[str, str]]:
    """Word pairs, frequent source words first."""
    ours, theirs = forms(source), forms(target)
    pairs = {pair for place in ours for pair in product(ours[place], theirs[place])}
    frequency = _frequencies(source)
    return sorted(pairs, key=lambda pair: (-frequency[pair[0]], pair))


@cache
def _frequencies(language: str) -> Counter[str]:
    generator = randomness("frequencies")
    frequencies: Counter[str] = Counter()
    for _ in range(SAMPLE):
        meaning = draw_meaning(generator)
        for slot, filler in meaning.slots.items():
            frequencies.update(forms(language).get((meaning.intent, meaning.act, slot, filler), ()))
    return frequencies


def halves(pairs: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """A seed lexicon and a test lexicon without a common source word, by a hash of the word."""
    first = [pair for pair in pairs if fraction("half", pair[0]) < 0.5]
    return first, [pair for pair in pairs if fraction("half", pair[0]) >= 0.5]
