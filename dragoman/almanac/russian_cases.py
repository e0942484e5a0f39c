"""The six cases of Russian nouns and adjectives in the singular, for grammars/ru.py.

A form that the rules do not make is in the lexicon as case:form, and comes first.
"""

from __future__ import annotations

from dragoman.almanac.phrases import Word

INDECLINABLE = ("Осло", "Хельсинки", "Токио", "Чикаго", "кенгуру", "кофе", "кафе")
CASES = ("им", "род", "дат", "вин", "тв", "пр")
#: Last letter of the nominative -> endings of the six cases.
MASCULINE = {"": ",а,у,,ом,е", "ь": "ь,я,ю,ь,ем,е", "й": "й,я,ю,й,ем,е"}
FEMININE = {"а": "а,ы,е,у,ой,е", "я": "я,и,е,ю,ей,е", "ь": "ь,и,и,ь,ью,и"}
NEUTER = {"о": "о,а,у,о,ом,е", "е": "е,я,ю,е,ем,е"}
VELAR, HUSHING = "гкх", "жчшщ"


def noun(word: Word, case: str) -> str:
    """A noun in the singular, as an inanimate one; a plural as it is in the lexicon."""
    name, given = str(word), dict(form.split(":") for form in word.forms[1:])
    if case in given or name in INDECLINABLE or (word.gender == "p" and case in ("им", "вин")):
        return given.get(case, name)
    if case == "пр" and "род" in given and word.gender == "m":  # the vowel that замка has lost stays away
        return given["род"][:-1] + "е"
    table = FEMININE if name[-1] in "ая" else {"f": FEMININE, "n": NEUTER}.get(word.gender, MASCULINE)
    last = name[-1] if name[-1] in table else ""
    stem, ending = name[: len(name) - len(last)], table[last].split(",")[CASES.index(case)]
    if stem[-1] == "и" and case in ("дат", "пр"):  # Марии, Венеции, чтении
        ending = "ю" if word.gender == "n" and case == "дат" else "и"
    return spelled(stem, ending)


def spelled(stem: str, ending: str) -> str:
    """Spelling: и and not ы after г к х ж ч ш щ; е and not о after ж ч ш щ ц."""
    if stem[-1] in VELAR + HUSHING and ending.startswith("ы"):
        return stem + "и"
    if stem[-1] in HUSHING + "ц" and ending in ("ом", "ой"):
        return stem + "е" + ending[1]
    return stem + ending


def alive(word: Word) -> str:
    """The accusative of a person or an animal: for masculine nouns, the genitive."""
    return noun(word, "вин" if word.gender == "f" or str(word)[-1] in "ая" else "род")


def adjective(word: Word, gender: str, case: str) -> str:
    """Nominative and inanimate accusative: новый, новая, новую, новое; синий, синяя, синюю, синее."""
    name, soft = str(word), str(word).endswith("ний")
    if gender == "m":
        return name
    if gender == "n":
        return name[:-2] + ("ее" if soft else "ое")
    hard_ending, soft_ending = ("ую", "юю") if case == "вин" else ("ая", "яя")
    return name[:-2] + (soft_ending if soft else hard_ending)


def phrase(case: str, *words: Word) -> str:
    """Adjectives and a noun."""
    *adjectives, last = words
    return " ".join([*(adjective(word, last.gender, case) for word in adjectives), noun(last, case)])
