"""Russian in Almanac's second world. How to read this file: dragoman/almanac/phrases.py."""

from __future__ import annotations

import re
from functools import partial

from dragoman.almanac.phrases import Word
from dragoman.almanac.russian_cases import CASES, adjective, alive, noun, phrase

# In words.tsv: Gender and nominative; then the forms that the rules below do not make, as case:form (им род дат вин тв
# пр; мн is the genitive plural). Adjectives: masculine, comparative.
GENDERS = {"м": "m", "ж": "f", "с": "n", "мн": "p"}
MONTHS = "январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь".split()


def number(kind: str, value: int) -> str | None:
    """Months in the nominative."""
    return MONTHS[value - 1] if kind == "month" else None


def plural(animal: Word) -> str:
    """The genitive plural: слонов, кошек, мышей."""
    return next(form.removeprefix("мн:") for form in animal.forms if form.startswith("мн:"))


def several(count: Word, animal: Word) -> str:
    """Две кошки, три слона, пять собак: the genitive singular after 2 to 4."""
    name = "две" if count.key == 2 and animal.gender == "f" else str(count)
    return f"{name} {noun(animal, 'род') if int(count.key) < 5 else plural(animal)}"


def several_seen(count: Word, animal: Word) -> str:
    """The accusative: двух кошек, трёх слонов, пять собак."""
    name = {2: "двух", 3: "трёх", 4: "четырёх"}.get(int(count.key), str(count))
    return f"{name} {plural(animal)}"


def on_day(weekday: Word) -> str:
    """В понедельник, во вторник, в среду."""
    name = str(weekday)
    return ("во " if name.startswith("вт") else "в ") + (name[:-1] + "у" if name.endswith("а") else name)


def degrees(word: Word) -> str:
    """Два градуса, пять градусов, 21 градус."""
    value = int(word.key)
    last = 0 if value in range(11, 15) else value % 10
    return f"{value} градус{'' if last == 1 else 'а' if last in (2, 3, 4) else 'ов'}"


FORMS = {
    "": lambda *items: " ".join(map(str, items)),
    **{case: partial(phrase, case) for case in CASES},
    "лицо": alive,
    "каков": lambda quality, thing: adjective(quality, thing.gender, "им"),
    "сравнение": lambda quality: quality.forms[1],
    "мн": plural,
    "несколько": several,
    "нескольких": several_seen,
    "в": on_day,
    "градусы": degrees,
}


def finish(text: str) -> str:
    """Во Флоренции, со Стефаном."""
    return re.sub(r"\b([вс]) (?=Фл|Стеф)", r"\1о ", text, flags=re.IGNORECASE)
