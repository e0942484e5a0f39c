"""The Turkish words of Almanac's first world, and their suffixes; sentences are templates/tr.txt (see sentences.py).

Suffixes are written as grammars of Turkish write them: A is a or e, I is ı, i, u or ü, D is d or t, a consonant in
brackets stands after vowels only and a vowel in brackets after consonants only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.almanac import words

BACK, FRONT, HARD = "aıou", "eiöü", "fstkçşhp"
SOFTENED = {  # before a suffix that begins with a vowel
    "kitap": "kitab", "gömlek": "gömleğ", "köpek": "köpeğ", "inek": "ineğ", "ördek": "ördeğ", "tavuk": "tavuğ",
    "eşek": "eşeğ", "dört": "dörd", "pirinç": "pirinc",
}  # fmt: skip
FRONT_IN_SPITE_OF_ITS_VOWEL = ("saat",)
CITY = {
    "berlin": "Berlin", "paris": "Paris", "london": "Londra", "rome": "Roma", "vienna": "Viyana",
    "istanbul": "İstanbul", "munich": "Münih", "cologne": "Köln", "geneva": "Cenevre", "hamburg": "Hamburg",
    "prague": "Prag", "athens": "Atina",
}  # fmt: skip
THING = {
    "umbrella": "şemsiye", "bag": "çanta", "suitcase": "bavul", "coat": "palto", "hat": "şapka", "key": "anahtar",
    "watch": "saat", "phone": "telefon", "book": "kitap", "shirt": "gömlek", "lamp": "lamba", "scarf": "atkı",
}  # fmt: skip
COLOUR = {
    "red": "kırmızı", "blue": "mavi", "green": "yeşil", "black": "siyah", "white": "beyaz", "yellow": "sarı",
    "brown": "kahverengi", "grey": "gri",
}  # fmt: skip
ANIMAL = {
    "horse": "at", "dog": "köpek", "cat": "kedi", "cow": "inek", "sheep": "koyun", "bird": "kuş", "duck": "ördek",
    "goat": "keçi", "pig": "domuz", "rabbit": "tavşan", "hen": "tavuk", "donkey": "eşek",
}  # fmt: skip
QUALITY = {
    "big": "büyük", "small": "küçük", "fast": "hızlı", "slow": "yavaş", "heavy": "ağır", "old": "yaşlı",
    "young": "genç", "strong": "güçlü",
}  # fmt: skip
PLACE = {
    "garden": "bahçe", "park": "park", "forest": "orman", "field": "tarla", "meadow": "çayır", "barn": "ahır",
    "yard": "avlu", "street": "sokak",
}  # fmt: skip
SHOP = {
    "bakery": "fırın", "pharmacy": "eczane", "library": "kütüphane", "museum": "müze", "bank": "banka",
    "market": "çarşı", "restaurant": "restoran", "cinema": "sinema", "school": "okul", "hotel": "otel",
}  # fmt: skip
FOOD = {
    "coffee": "kahve", "tea": "çay", "beer": "bira", "soup": "çorba", "salad": "salata", "pizza": "pizza",
    "sandwich": "sandviç", "cake": "kek",
}  # fmt: skip
DISH = {"cake": "kek", "soup": "çorba", "salad": "salata", "sauce": "sos", "dough": "hamur", "pudding": "puding"}
INGREDIENT = {
    "flour": "un", "sugar": "şeker", "butter": "tereyağı", "rice": "pirinç", "cheese": "peynir",
    "chocolate": "çikolata", "potatoes": "patates", "tomatoes": "domates", "onions": "soğan",
}  # fmt: skip
VEHICLE = {"train": "tren", "bus": "otobüs", "car": "araba", "plane": "uçak", "ship": "gemi", "bicycle": "bisiklet"}
RELATIVE = {
    "brother": "erkek kardeş", "sister": "kız kardeş", "mother": "anne", "father": "baba", "uncle": "amca",
    "aunt": "teyze", "grandmother": "büyükanne", "grandfather": "büyükbaba",
}  # fmt: skip
SKY = {
    "rain": "yağmur yağacak", "snow": "kar yağacak", "sun": "hava güneşli olacak", "wind": "hava rüzgârlı olacak",
    "fog": "hava sisli olacak", "clouds": "hava bulutlu olacak", "cold": "hava soğuk olacak",
    "warmth": "hava sıcak olacak",
}  # fmt: skip
DAY_PART = {"morning": "sabah", "noon": "öğlen", "afternoon": "öğleden sonra", "evening": "akşam", "night": "gece"}


def harmony(text: str) -> tuple[str, str]:
    """Return the vowels that A and I become after this text: (a or e, one of ı i u ü)."""
    last = next(letter for letter in reversed(text.lower()) if letter in BACK + FRONT)
    front = last in FRONT or text.split()[-1] in FRONT_IN_SPITE_OF_ITS_VOWEL
    return ("e" if front else "a"), {(0, 0): "ı", (1, 0): "i", (0, 1): "u", (1, 1): "ü"}[front, last in "ouöü"]


def add(word: str, suffix: str) -> str:
    """A noun with a suffix: kitap and (y)I give kitabı; Paris and DA give Paris'te, for names take an apostrophe."""
    if suffix.startswith("("):
        consonant, after_vowel = suffix[1] not in "AI", word[-1].lower() in BACK + FRONT
        suffix = suffix[1] + suffix[3:] if consonant == after_vowel else suffix[3:]
    last, tail = word.split()[-1], ""
    proper = last[0].isupper()
    softened = word[: -len(last)] + SOFTENED.get(last, last) if suffix[0] in "AI" else word
    for letter in suffix:
        a, i = harmony(tail if set(tail) & set(BACK + FRONT) else word)
        tail += {"A": a, "I": i, "D": "t" if (word + tail)[-1] in HARD else "d"}.get(letter, letter)
    return f"{word}'{tail}" if proper else softened + tail


def ask(text: str) -> str:
    """The question particle after what is asked about: üç mü, altı mı."""
    return f"{text} m{harmony(text)[1]}"


def count(value: int) -> str:
    """Bir, iki, ..., yirmi bir; nouns stay singular after it."""
    return words.number(value, "tr")


def clock_time(time: tuple[int, int], question: bool = False) -> str:
    """Saat üç, saat üçü çeyrek geçiyor, saat üç buçuk, saat dörde çeyrek var; as a question: saat üç mü, ..."""
    hour, minute = time
    now, following = count(hour), count(hour % 12 + 1)
    quarter = ask("çeyrek") if question else "çeyrek"
    return {
        0: ask(now) if question else now,
        15: f"{add(now, '(y)I')} {quarter} geçiyor",
        30: ask(f"{now} buçuk") if question else f"{now} buçuk",
        45: f"{add(following, '(y)A')} {quarter} var",
    }[minute]


def at_time(time: tuple[int, int]) -> str:
    """Saat üçte, saat üçü çeyrek geçe, saat üç buçukta, saat dörde çeyrek kala."""
    hour, minute = time
    now, following = count(hour), count(hour % 12 + 1)
    return "saat " + {
        0: add(now, "DA"),
        15: f"{add(now, '(y)I')} çeyrek geçe",
        30: f"{now} buçukta",
        45: f"{add(following, '(y)A')} çeyrek kala",
    }[minute]  # fmt: skip


def on_weekday(weekday: int) -> str:
    """Pazartesi günü: small letters where there is no date."""
    return f"{words.weekday(weekday, 'tr').lower()} günü"


def date(day: int, month: int) -> str:
    """Üç Mayıs."""
    return f"{count(day)} {words.month(month, 'tr')}"


class Word(str):
    """A word that takes a suffix and the question particle: {city:DA} is "Paris'te", {city:DA?} "Paris'te mi"."""

    def __format__(self, suffix: str) -> str:
        plain = suffix.removesuffix("?")
        word = add(str(self), plain) if plain else str(self)
        return word if plain == suffix else ask(word)


WORDS: dict[str, Callable[[Any], str]] = {
    "animal": ANIMAL.__getitem__,
    "city": CITY.__getitem__,
    "colour": COLOUR.__getitem__,
    "dish": DISH.__getitem__,
    "food": FOOD.__getitem__,
    "ingredient": INGREDIENT.__getitem__,
    "part": DAY_PART.__getitem__,
    "place": PLACE.__getitem__,
    "quality": QUALITY.__getitem__,
    "relative": RELATIVE.__getitem__,
    "shop": SHOP.__getitem__,
    "sky": SKY.__getitem__,
    "thing": THING.__getitem__,
    "time": clock_time,
    "vehicle": VEHICLE.__getitem__,
    "weekday": on_weekday,
}
PARTS: dict[str, Callable[..., dict[str, str]]] = {
    "clock": lambda city, time: {"is_it": clock_time(time, question=True)},
    "calendar": lambda weekday, day, month: {"date": date(day, month), "weekday": words.weekday(weekday, "tr")},
    "departure": lambda city, time, platform: {"then": at_time(time)},
    "opening": lambda shop, weekday, time: {"then": at_time(time)},
    "meeting": lambda person, weekday, time: {"then": at_time(time)},
    "age": lambda person, month, years: {"month": words.month(month, "tr").lower()},
    "birthday": lambda person, day, month: {"date": date(day, month)},
    # tereyağı ends in a possessive suffix, after which the dative takes n
    "recipe": lambda dish, ingredient, grams: {
        "needed": add(INGREDIENT[ingredient], "(n)A" if ingredient == "butter" else "(y)A")
    },
}
