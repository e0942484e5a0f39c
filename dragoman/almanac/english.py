"""The English words of Almanac's first world; its sentences are templates/en.txt (see sentences.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.almanac import words

CITY = {
    "berlin": "Berlin", "paris": "Paris", "london": "London", "rome": "Rome", "vienna": "Vienna",
    "istanbul": "Istanbul", "munich": "Munich", "cologne": "Cologne", "geneva": "Geneva", "hamburg": "Hamburg",
    "prague": "Prague", "athens": "Athens",
}  # fmt: skip
COLOUR = {"grey": "gray"}  # the others are spelled like their keys, as are things, animals, places, shops, ...
PLURAL = {"sheep": "sheep", "sandwich": "sandwiches"}  # the others take -s
# positive, comparative
QUALITY = {
    "big": ("big", "bigger"), "small": ("small", "smaller"), "fast": ("fast", "faster"), "slow": ("slow", "slower"),
    "heavy": ("heavy", "heavier"), "old": ("old", "older"), "young": ("young", "younger"),
    "strong": ("strong", "stronger"),
}  # fmt: skip
# what follows "it will"
SKY = {
    "rain": "rain", "snow": "snow", "sun": "be sunny", "wind": "be windy", "fog": "be foggy", "clouds": "be cloudy",
    "cold": "be cold", "warmth": "be warm",
}  # fmt: skip
DAY_PART = {
    "morning": "in the morning", "noon": "at noon", "afternoon": "in the afternoon", "evening": "in the evening",
    "night": "at night",
}  # fmt: skip


def count(value: int) -> str:
    """One, two, ..., twenty-one."""
    return words.number(value, "en")


def clock_time(time: tuple[int, int]) -> str:
    """Three o'clock, a quarter past three, half past three, a quarter to four."""
    hour, minute = time
    following = hour % 12 + 1
    return {
        0: f"{count(hour)} o'clock",
        15: f"a quarter past {count(hour)}",
        30: f"half past {count(hour)}",
        45: f"a quarter to {count(following)}",
    }[minute]


def date(day: int, month: int) -> str:
    """The third of May."""
    return f"the {words.ordinal(day, 'en')} of {words.month(month, 'en')}"


def several(value: int, noun: str) -> str:
    """One soup, two soups, three sheep."""
    return f"{count(value)} {noun if value == 1 else PLURAL.get(noun, noun + 's')}"


Word = str
WORDS: dict[str, Callable[[Any], str]] = {
    "city": CITY.__getitem__,
    "colour": lambda colour: COLOUR.get(colour, colour),
    "part": DAY_PART.__getitem__,
    "sky": SKY.__getitem__,
    "time": clock_time,
}
PARTS: dict[str, Callable[..., dict[str, str]]] = {
    "calendar": lambda weekday, day, month: {"date": date(day, month)},
    "birthday": lambda person, day, month: {"date": date(day, month)},
    "animals": lambda animal, place, number: {"many": several(number, animal)},
    "comparison": lambda animal, other, quality: {"positive": QUALITY[quality][0], "comparative": QUALITY[quality][1]},
    "gift": lambda person, relative, thing, colour: {"her": "her" if person in words.WOMEN else "his"},
    "order": lambda food, number, other, more: {"food": several(number, food), "other": several(more, other)},
}
