"""The French words of Almanac's first world, and their forms; its sentences are templates/fr.txt (see sentences.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.almanac import words

CITY = {
    "berlin": "Berlin", "paris": "Paris", "london": "Londres", "rome": "Rome", "vienna": "Vienne",
    "istanbul": "Istanbul", "munich": "Munich", "cologne": "Cologne", "geneva": "Genève", "hamburg": "Hambourg",
    "prague": "Prague", "athens": "Athènes",
}  # fmt: skip
# gender (m, f), noun
THING = {
    "umbrella": ("m", "parapluie"), "bag": ("m", "sac"), "suitcase": ("f", "valise"), "coat": ("m", "manteau"),
    "hat": ("m", "chapeau"), "key": ("f", "clé"), "watch": ("f", "montre"), "phone": ("m", "téléphone"),
    "book": ("m", "livre"), "shirt": ("f", "chemise"), "lamp": ("f", "lampe"), "scarf": ("f", "écharpe"),
}  # fmt: skip
# masculine, feminine; marron does not change
COLOUR = {
    "red": ("rouge", "rouge"), "blue": ("bleu", "bleue"), "green": ("vert", "verte"), "black": ("noir", "noire"),
    "white": ("blanc", "blanche"), "yellow": ("jaune", "jaune"), "brown": ("marron", "marron"),
    "grey": ("gris", "grise"),
}  # fmt: skip
# gender, singular, plural
ANIMAL = {
    "horse": ("m", "cheval", "chevaux"), "dog": ("m", "chien", "chiens"), "cat": ("m", "chat", "chats"),
    "cow": ("f", "vache", "vaches"), "sheep": ("m", "mouton", "moutons"), "bird": ("m", "oiseau", "oiseaux"),
    "duck": ("m", "canard", "canards"), "goat": ("f", "chèvre", "chèvres"), "pig": ("m", "cochon", "cochons"),
    "rabbit": ("m", "lapin", "lapins"), "hen": ("f", "poule", "poules"), "donkey": ("m", "âne", "ânes"),
}  # fmt: skip
QUALITY = {
    "big": ("grand", "grande"), "small": ("petit", "petite"), "fast": ("rapide", "rapide"), "slow": ("lent", "lente"),
    "heavy": ("lourd", "lourde"), "old": ("vieux", "vieille"), "young": ("jeune", "jeune"), "strong": ("fort", "forte"),
}  # fmt: skip
PLACE = {
    "garden": "dans le jardin", "park": "dans le parc", "forest": "dans la forêt", "field": "dans le champ",
    "meadow": "dans le pré", "barn": "dans l'étable", "yard": "dans la cour", "street": "dans la rue",
}  # fmt: skip
# gender, noun
SHOP = {
    "bakery": ("f", "boulangerie"), "pharmacy": ("f", "pharmacie"), "library": ("f", "bibliothèque"),
    "museum": ("m", "musée"), "bank": ("f", "banque"), "market": ("m", "marché"), "restaurant": ("m", "restaurant"),
    "cinema": ("m", "cinéma"), "school": ("f", "école"), "hotel": ("m", "hôtel"),
}  # fmt: skip
# gender, singular, plural
FOOD = {
    "coffee": ("m", "café", "cafés"), "tea": ("m", "thé", "thés"), "beer": ("f", "bière", "bières"),
    "soup": ("f", "soupe", "soupes"), "salad": ("f", "salade", "salades"), "pizza": ("f", "pizza", "pizzas"),
    "sandwich": ("m", "sandwich", "sandwichs"), "cake": ("m", "gâteau", "gâteaux"),
}  # fmt: skip
DISH = {
    "cake": ("m", "gâteau"), "soup": ("f", "soupe"), "salad": ("f", "salade"), "sauce": ("f", "sauce"),
    "dough": ("f", "pâte"), "pudding": ("m", "pudding"),
}  # fmt: skip
INGREDIENT = {
    "flour": "farine", "sugar": "sucre", "butter": "beurre", "rice": "riz", "cheese": "fromage",
    "chocolate": "chocolat", "potatoes": "pommes de terre", "tomatoes": "tomates", "onions": "oignons",
}  # fmt: skip
VEHICLE = {
    "train": "en train", "bus": "en bus", "car": "en voiture", "plane": "en avion", "ship": "en bateau",
    "bicycle": "à vélo",
}  # fmt: skip
RELATIVE = {
    "brother": "son frère", "sister": "sa sœur", "mother": "sa mère", "father": "son père", "uncle": "son oncle",
    "aunt": "sa tante", "grandmother": "sa grand-mère", "grandfather": "son grand-père",
}  # fmt: skip
# what follows "il"
SKY = {
    "rain": "pleuvra", "snow": "neigera", "sun": "y aura du soleil", "wind": "y aura du vent",
    "fog": "y aura du brouillard", "clouds": "y aura des nuages", "cold": "fera froid", "warmth": "fera chaud",
}  # fmt: skip
DAY_PART = {
    "morning": "le matin", "noon": "à midi", "afternoon": "l'après-midi", "evening": "le soir", "night": "la nuit",
}  # fmt: skip


def count(value: int) -> str:
    """Un, deux, ..., vingt et un."""
    return words.number(value, "fr")


def elided(word: str, following: str) -> str:
    """De or que (or le, la) before a name or a noun: d'Anna, qu'il, l'école; but de Hambourg."""
    before_vowel = following == "hôtel" or following[0].lower() in "aâeéèêiîoôœu"
    return f"{word[:-1]}'{following}" if before_vowel else f"{word} {following}"


def the(gender: str, noun: str) -> str:
    """Le sac, la valise, l'école."""
    return elided("le" if gender == "m" else "la", noun)


def at_the(gender: str, noun: str) -> str:
    """Au musée, à la banque, à l'hôtel."""
    return f"à {the(gender, noun)}".replace("à le ", "au ")


def clock_time(time: tuple[int, int]) -> str:
    """Trois heures, trois heures et quart, trois heures et demie, quatre heures moins le quart."""
    hour = time[0] % 12 + 1 if time[1] == 45 else time[0]
    hours = "une heure" if hour == 1 else f"{count(hour)} heures"
    return hours + {0: "", 15: " et quart", 30: " et demie", 45: " moins le quart"}[time[1]]


def date(day: int, month: int) -> str:
    """Trois mai; premier mai. Its article differs: le lundi trois mai."""
    return f"{'premier' if day == 1 else count(day)} {words.month(month, 'fr')}"


def coloured(article: str, thing: str, colour: str) -> str:
    """A thing with its colour behind an article, le, un or mon, which agree: la valise verte, une valise verte."""
    gender, noun = THING[thing]
    shade = COLOUR[colour][gender == "f"]
    if article == "le":
        return f"{the(gender, noun)} {shade}"
    # mon écharpe: ma does not stand before a vowel
    feminine = {"un": "une", "mon": "mon" if noun.startswith("é") else "ma"}[article]
    return f"{feminine if gender == 'f' else article} {noun} {shade}"


def he(gender: str) -> str:
    """Il, elle."""
    return "il" if gender == "m" else "elle"


def the_animal(animal: str) -> str:
    """Le cheval, la vache, l'âne."""
    return the(*ANIMAL[animal][:2])


def portion(value: int, food: str) -> str:
    """Un café, une soupe, deux soupes."""
    gender, one, many = FOOD[food]
    return f"{'un' if gender == 'm' else 'une'} {one}" if value == 1 else f"{count(value)} {many}"


class Word(str):
    """A word that another one loses its vowel before: {person:de} is "de Paul" or "d'Anna"."""

    def __format__(self, before: str) -> str:
        return elided(before, str(self)) if before else str(self)


WORDS: dict[str, Callable[[Any], str]] = {
    "animal": the_animal,
    "city": CITY.__getitem__,
    "dish": lambda dish: the(*DISH[dish]),
    "ingredient": INGREDIENT.__getitem__,
    "part": DAY_PART.__getitem__,
    "place": PLACE.__getitem__,
    "relative": RELATIVE.__getitem__,
    "shop": lambda shop: the(*SHOP[shop]),
    "sky": SKY.__getitem__,
    "time": clock_time,
    "vehicle": VEHICLE.__getitem__,
}
PARTS: dict[str, Callable[..., dict[str, str]]] = {
    "calendar": lambda weekday, day, month: {"date": date(day, month)},
    "price": lambda thing, colour, euros: {"it": coloured("le", thing, colour), "he": he(THING[thing][0])},
    "opening": lambda shop, weekday, time: {"he": he(SHOP[shop][0])},
    "birthday": lambda person, day, month: {
        "date": date(day, month),
        "born": "née" if person in words.WOMEN else "né",
    },
    "recipe": lambda dish, ingredient, grams: {"into": at_the(*DISH[dish])},
    "animals": lambda animal, place, number: {"animals": ANIMAL[animal][2]},
    "comparison": lambda animal, other, quality: {"like": QUALITY[quality][ANIMAL[animal][0] == "f"]},
    "lost": lambda thing, colour, shop: {
        "my": coloured("mon", thing, colour),
        "one": coloured("un", thing, colour),
        "it": coloured("le", thing, colour),
        "where": at_the(*SHOP[shop]),
    },
    "gift": lambda person, relative, thing, colour: {"one": coloured("un", thing, colour)},
    "order": lambda food, number, other, more: {"food": portion(number, food), "other": portion(more, other)},
}
