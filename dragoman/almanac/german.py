"""The German words of Almanac's first world, and their forms; its sentences are templates/de.txt (see sentences.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.almanac import words

CITY = {
    "berlin": "Berlin", "paris": "Paris", "london": "London", "rome": "Rom", "vienna": "Wien", "istanbul": "Istanbul",
    "munich": "München", "cologne": "Köln", "geneva": "Genf", "hamburg": "Hamburg", "prague": "Prag", "athens": "Athen",
}  # fmt: skip

# gender (m, f, n), noun
THING = {
    "umbrella": ("m", "Regenschirm"), "bag": ("f", "Tasche"), "suitcase": ("m", "Koffer"), "coat": ("m", "Mantel"),
    "hat": ("m", "Hut"), "key": ("m", "Schlüssel"), "watch": ("f", "Uhr"), "phone": ("n", "Telefon"),
    "book": ("n", "Buch"), "shirt": ("n", "Hemd"), "lamp": ("f", "Lampe"), "scarf": ("m", "Schal"),
}  # fmt: skip
COLOUR = {
    "red": "rot", "blue": "blau", "green": "grün", "black": "schwarz", "white": "weiß", "yellow": "gelb",
    "brown": "braun", "grey": "grau",
}  # fmt: skip
# gender, singular, plural
ANIMAL = {
    "horse": ("n", "Pferd", "Pferde"), "dog": ("m", "Hund", "Hunde"), "cat": ("f", "Katze", "Katzen"),
    "cow": ("f", "Kuh", "Kühe"), "sheep": ("n", "Schaf", "Schafe"), "bird": ("m", "Vogel", "Vögel"),
    "duck": ("f", "Ente", "Enten"), "goat": ("f", "Ziege", "Ziegen"), "pig": ("n", "Schwein", "Schweine"),
    "rabbit": ("n", "Kaninchen", "Kaninchen"), "hen": ("n", "Huhn", "Hühner"), "donkey": ("m", "Esel", "Esel"),
}  # fmt: skip
# positive, comparative
QUALITY = {
    "big": ("groß", "größer"), "small": ("klein", "kleiner"), "fast": ("schnell", "schneller"),
    "slow": ("langsam", "langsamer"), "heavy": ("schwer", "schwerer"), "old": ("alt", "älter"),
    "young": ("jung", "jünger"), "strong": ("stark", "stärker"),
}  # fmt: skip
PLACE = {
    "garden": "im Garten", "park": "im Park", "forest": "im Wald", "field": "auf dem Feld", "meadow": "auf der Wiese",
    "barn": "im Stall", "yard": "auf dem Hof", "street": "auf der Straße",
}  # fmt: skip
# article and noun in the nominative; where one is
SHOP = {
    "bakery": ("die Bäckerei", "in der Bäckerei"), "pharmacy": ("die Apotheke", "in der Apotheke"),
    "library": ("die Bibliothek", "in der Bibliothek"), "museum": ("das Museum", "im Museum"),
    "bank": ("die Bank", "in der Bank"), "market": ("der Markt", "auf dem Markt"),
    "restaurant": ("das Restaurant", "im Restaurant"), "cinema": ("das Kino", "im Kino"),
    "school": ("die Schule", "in der Schule"), "hotel": ("das Hotel", "im Hotel"),
}  # fmt: skip
# gender, singular, plural as one orders it
FOOD = {
    "coffee": ("m", "Kaffee", "Kaffee"), "tea": ("m", "Tee", "Tee"), "beer": ("n", "Bier", "Bier"),
    "soup": ("f", "Suppe", "Suppen"), "salad": ("m", "Salat", "Salate"), "pizza": ("f", "Pizza", "Pizzen"),
    "sandwich": ("n", "Sandwich", "Sandwiches"), "cake": ("m", "Kuchen", "Kuchen"),
}  # fmt: skip
DISH = {
    "cake": ("m", "Kuchen"), "soup": ("f", "Suppe"), "salad": ("m", "Salat"), "sauce": ("f", "Soße"),
    "dough": ("m", "Teig"), "pudding": ("m", "Pudding"),
}  # fmt: skip
INGREDIENT = {
    "flour": "Mehl", "sugar": "Zucker", "butter": "Butter", "rice": "Reis", "cheese": "Käse", "chocolate": "Schokolade",
    "potatoes": "Kartoffeln", "tomatoes": "Tomaten", "onions": "Zwiebeln",
}  # fmt: skip
VEHICLE = {  # masculine or neuter, each of them
    "train": "Zug", "bus": "Bus", "car": "Auto", "plane": "Flugzeug", "ship": "Schiff", "bicycle": "Fahrrad",
}  # fmt: skip
RELATIVE = {
    "brother": ("m", "Bruder"), "sister": ("f", "Schwester"), "mother": ("f", "Mutter"), "father": ("m", "Vater"),
    "uncle": ("m", "Onkel"), "aunt": ("f", "Tante"), "grandmother": ("f", "Großmutter"),
    "grandfather": ("m", "Großvater"),
}  # fmt: skip
# what follows "es wird"
SKY = {
    "rain": "regnen", "snow": "schneien", "sun": "sonnig sein", "wind": "windig sein", "fog": "neblig sein",
    "clouds": "bewölkt sein", "cold": "kalt sein", "warmth": "warm sein",
}  # fmt: skip
DAY_PART = {
    "morning": "am Morgen", "noon": "am Mittag", "afternoon": "am Nachmittag", "evening": "am Abend",
    "night": "in der Nacht",
}  # fmt: skip
# definite article, its adjective's ending; indefinite ending (ein-, mein-), its adjective's ending
NOMINATIVE = {"m": ("der", "e"), "f": ("die", "e"), "n": ("das", "e")}
ACCUSATIVE = {"m": ("den", "en"), "f": ("die", "e"), "n": ("das", "e")}
ACCUSATIVE_INDEFINITE = {"m": ("en", "en"), "f": ("e", "e"), "n": ("", "es")}
DATIVE_INDEFINITE = {"m": "em", "f": "er", "n": "em"}


def count(value: int) -> str:
    """As one counts: eins, zwei, ..., einundzwanzig."""
    return words.number(value, "de")


def clock_time(time: tuple[int, int]) -> str:
    """Drei Uhr, Viertel nach drei, halb vier, Viertel vor vier; but ein Uhr, Viertel nach eins."""
    hour, minute = time
    following = hour % 12 + 1
    return {
        0: f"{'ein' if hour == 1 else count(hour)} Uhr",
        15: f"Viertel nach {count(hour)}",
        30: f"halb {count(following)}",
        45: f"Viertel vor {count(following)}",
    }[minute]


def date(day: int, month: int, ending: str) -> str:
    """Dritte Mai after `der` (ending ""), dritten Mai after `am` and `dem` (ending "n")."""
    return f"{words.ordinal(day, 'de')}{ending} {words.month(month, 'de')}"


def definite(thing: str, colour: str, case: dict[str, tuple[str, str]]) -> str:
    """Die rote Tasche, den roten Hut."""
    gender, noun = THING[thing]
    article, ending = case[gender]
    return f"{article} {COLOUR[colour]}{ending} {noun}"


def indefinite(thing: str, colour: str, article: str) -> str:
    """A thing in the accusative after `ein` or `mein`: einen roten Hut, meine rote Tasche, ein rotes Buch."""
    gender, noun = THING[thing]
    article_ending, ending = ACCUSATIVE_INDEFINITE[gender]
    return f"{article}{article_ending} {COLOUR[colour]}{ending} {noun}"


def the_animal(animal: str) -> str:
    """Das Pferd."""
    return f"{NOMINATIVE[ANIMAL[animal][0]][0]} {ANIMAL[animal][1]}"


def into_and_inside(gender: str, noun: str) -> tuple[str, str]:
    """Den Kuchen, im Kuchen; die Suppe, in der Suppe."""
    return f"{ACCUSATIVE[gender][0]} {noun}", f"in der {noun}" if gender == "f" else f"im {noun}"


def possessed(pronoun: str, gender: str, noun: str) -> str:
    """Somebody in the dative after `ihr` or `sein`: ihrem Bruder, seiner Mutter."""
    return f"{pronoun}{DATIVE_INDEFINITE[gender]} {noun}"


def portion(value: int, food: str) -> str:
    """Food in the accusative: einen Kaffee, eine Suppe, ein Bier, zwei Suppen."""
    gender, one, many = FOOD[food]
    return f"ein{ACCUSATIVE_INDEFINITE[gender][0]} {one}" if value == 1 else f"{count(value)} {many}"


Word = str
WORDS: dict[str, Callable[[Any], str]] = {
    "animal": the_animal,
    "city": CITY.__getitem__,
    "ingredient": INGREDIENT.__getitem__,
    "part": DAY_PART.__getitem__,
    "place": PLACE.__getitem__,
    "shop": lambda shop: SHOP[shop][0],
    "sky": SKY.__getitem__,
    "time": clock_time,
    "vehicle": VEHICLE.__getitem__,
}
PARTS: dict[str, Callable[..., dict[str, str]]] = {
    "calendar": lambda weekday, day, month: {"date": date(day, month, ""), "dative": date(day, month, "n")},
    "price": lambda thing, colour, euros: {
        "subject": definite(thing, colour, NOMINATIVE),
        "it": definite(thing, colour, ACCUSATIVE),
    },
    "birthday": lambda person, day, month: {"dative": date(day, month, "n")},
    "recipe": lambda dish, ingredient, grams: dict(zip(("into", "inside"), into_and_inside(*DISH[dish]), strict=True)),
    "animals": lambda animal, place, number: {"animals": ANIMAL[animal][2]},
    "comparison": lambda animal, other, quality: {"positive": QUALITY[quality][0], "comparative": QUALITY[quality][1]},
    "lost": lambda thing, colour, shop: {
        "my": indefinite(thing, colour, "mein"),
        "one": indefinite(thing, colour, "ein"),
        "it": definite(thing, colour, NOMINATIVE),
        "where": SHOP[shop][1],
    },
    "gift": lambda person, relative, thing, colour: {
        "whom": possessed("ihr" if person in words.WOMEN else "sein", *RELATIVE[relative]),
        "it": indefinite(thing, colour, "ein"),
    },
    "order": lambda food, number, other, more: {"food": portion(number, food), "other": portion(more, other)},
}
