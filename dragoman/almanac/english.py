"""English, as Almanac speaks it: a lexicon and, for each intent, six sentences that mean the same.

Slots arrive as the keys and numbers of frames.py. A sentence gets its capital letter from `words.capitalised`, later.
"""

from __future__ import annotations

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


def on_weekday(weekday: int) -> str:
    """On Monday."""
    return f"on {words.weekday(weekday, 'en')}"


def date(day: int, month: int) -> str:
    """The third of May."""
    return f"the {words.ordinal(day, 'en')} of {words.month(month, 'en')}"


def coloured(thing: str, colour: str) -> str:
    """Red bag."""
    return f"{COLOUR.get(colour, colour)} {thing}"


def several(value: int, noun: str) -> str:
    """One soup, two soups, three sheep."""
    return f"{count(value)} {noun if value == 1 else PLURAL.get(noun, noun + 's')}"


def clock(city: str, time: tuple[int, int]) -> list[str]:
    """Return sentences on the time in a city."""
    here, now = CITY[city], clock_time(time)
    return [
        f"it is now {now} in {here}.",
        f"in {here} it is already {now}.",
        f"is it really {now} in {here}?",
        f"I think that it is only {now} in {here}.",
        f"they say that it is now {now} in {here}.",
        f"do you know whether it is already {now} in {here}?",
    ]


def calendar(weekday: int, day: int, month: int) -> list[str]:
    """Return sentences on the date, and on the day when something begins."""
    when = f"{words.weekday(weekday, 'en')}, {date(day, month)}"
    return [
        f"today is {when}.",
        f"the concert is on {when}.",
        f"is tomorrow really {when}?",
        f"our holidays begin on {when}.",
        f"I have heard that the concert is on {when}.",
        f"do you know whether our holidays begin on {when}?",
    ]


def price(thing: str, colour: str, euros: int) -> list[str]:
    """Return sentences on the price of a thing."""
    it, much = coloured(thing, colour), f"{count(euros)} euros"
    return [
        f"the {it} costs {much}.",
        f"for {much} you can buy the {it}.",
        f"does the {it} really cost {much}?",
        f"I paid {much} for the {it}.",
        f"they say that the {it} costs {much}.",
        f"can you buy the {it} for {much}?",
    ]


def weather(city: str, weekday: int, sky: str) -> list[str]:
    """Return sentences on the weather of a weekday."""
    here, when, be = CITY[city], on_weekday(weekday), SKY[sky]
    return [
        f"{when} it will {be} in {here}.",
        f"perhaps it will {be} in {here} {when}.",
        f"will it {be} in {here} {when}?",
        f"they say that it will {be} in {here} {when}.",
        f"I think that it will {be} in {here} {when}.",
        f"unfortunately, it will {be} in {here} {when}.",
    ]


def departure(city: str, time: tuple[int, int], platform: int) -> list[str]:
    """Return sentences on the time and platform of a train."""
    there, then, track = CITY[city], clock_time(time), f"platform {count(platform)}"
    return [
        f"the train to {there} leaves at {then} from {track}.",
        f"at {then} a train to {there} leaves from {track}.",
        f"does the train to {there} leave at {then} from {track}?",
        f"unfortunately, the train to {there} leaves at {then} from {track}.",
        f"I think that the train to {there} leaves at {then} from {track}.",
        f"from {track} a train to {there} leaves at {then}.",
    ]


def distance(city: str, other: str, kilometres: int) -> list[str]:
    """Return sentences on the distance between two cities."""
    here, there, far = CITY[city], CITY[other], f"{count(kilometres)} kilometers"
    return [
        f"{here} is {far} from {there}.",
        f"from {here} to {there} it is {far}.",
        f"is {here} really {far} from {there}?",
        f"I have heard that {here} is {far} from {there}.",
        f"do you know whether it is {far} from {here} to {there}?",
        f"of course it is {far} from {here} to {there}.",
    ]


def duration(city: str, vehicle: str, hours: int) -> list[str]:
    """Return sentences on the duration of a journey."""
    there, by, long = CITY[city], f"by {vehicle}", f"{count(hours)} hours"
    return [
        f"the journey to {there} takes {long} {by}.",
        f"{by} you get to {there} in {long}.",
        f"does the journey to {there} take {long} {by}?",
        f"of course the journey to {there} takes {long} {by}.",
        f"I have heard that the journey to {there} takes {long} {by}.",
        f"perhaps you get to {there} in {long} {by}.",
    ]


def opening(shop: str, weekday: int, time: tuple[int, int]) -> list[str]:
    """Return sentences on the opening hours of a shop."""
    when, then = on_weekday(weekday), clock_time(time)
    return [
        f"{when} the {shop} opens at {then}.",
        f"the {shop} closes at {then} {when}.",
        f"does the {shop} open at {then} {when}?",
        f"do you know whether the {shop} closes at {then} {when}?",
        f"I have heard that the {shop} opens at {then} {when}.",
        f"unfortunately, the {shop} closes at {then} {when}.",
    ]


def meeting(person: str, weekday: int, time: tuple[int, int]) -> list[str]:
    """Return sentences on the time of a meeting."""
    who, when, then = words.name(person), on_weekday(weekday), clock_time(time)
    return [
        f"we are meeting {who} {when} at {then}.",
        f"{when} at {then} I have an appointment with {who}.",
        f"can we meet {who} {when} at {then}?",
        f"{who} is coming to the office {when} at {then}.",
        f"perhaps {who} is coming to the office {when} at {then}.",
        f"I think that we are meeting {who} {when} at {then}.",
    ]


def age(person: str, month: int, years: int) -> list[str]:
    """Return sentences on somebody's age."""
    who, when, old = words.name(person), f"in {words.month(month, 'en')}", f"{count(years)} years old"
    return [
        f"{who} will be {old} {when}.",
        f"{when} {who} will be {old}.",
        f"will {who} really be {old} {when}?",
        f"I think that {who} will be {old} {when}.",
        f"they say that {who} will be {old} {when}.",
        f"of course {who} will be {old} {when}.",
    ]


def birthday(person: str, day: int, month: int) -> list[str]:
    """Return sentences on the date of somebody's birth."""
    who, when = words.name(person), f"on {date(day, month)}"
    return [
        f"{who}'s birthday is {when}.",
        f"{who} was born {when}.",
        f"is {who}'s birthday {when}?",
        f"{when} we are celebrating {who}'s birthday.",
        f"do you know whether {who} was born {when}?",
        f"I have heard that {who}'s birthday is {when}.",
    ]


def telephone(person: str, first: int, second: int, third: int) -> list[str]:
    """Return sentences on somebody's telephone number."""
    who, digits = words.name(person), f"{count(first)} {count(second)} {count(third)}"
    return [
        f"{who}'s number is {digits}.",
        f"please call {who} at {digits}.",
        f"is {who}'s number really {digits}?",
        f"the number of {who}'s room is {digits}.",
        f"I think that {who}'s number is {digits}.",
        f"you can call {who} at {digits}.",
    ]


def temperature(city: str, part: str, degrees: int) -> list[str]:
    """Return sentences on the temperature."""
    here, when, warm = CITY[city], DAY_PART[part], f"{count(degrees)} degrees"
    return [
        f"{when} it is {warm} in {here}.",
        f"the temperature in {here} is {warm} {when}.",
        f"is it really {warm} in {here} {when}?",
        f"they say that it is {warm} in {here} {when}.",
        f"of course it is {warm} in {here} {when}.",
        f"is the temperature in {here} {warm} {when}?",
    ]


def recipe(dish: str, ingredient: str, grams: int) -> list[str]:
    """Return sentences on the ingredients of a dish."""
    much = f"{count(grams)} grams of {ingredient}"
    return [
        f"for the {dish} we need {much}.",
        f"then add {much} to the {dish}.",
        f"do we need {much} for the {dish}?",
        f"there are {much} in the {dish}.",
        f"I think that we need {much} for the {dish}.",
        f"are there really {much} in the {dish}?",
    ]


def floor(person: str, city: str, floor: int) -> list[str]:
    """Return sentences on somebody's address; floors are counted as in Britain and on the continent."""
    who, here, where = words.name(person), CITY[city], f"on the {words.ordinal(floor, 'en')} floor"
    return [
        f"{who} lives in {here} {where}.",
        f"{who}'s apartment in {here} is {where}.",
        f"does {who} live in {here} {where}?",
        f"in {here} {who} has rented a room {where}.",
        f"they say that {who} lives in {here} {where}.",
        f"perhaps {who}'s apartment in {here} is {where}.",
    ]


def animals(animal: str, place: str, number: int) -> list[str]:
    """Return sentences on a number of animals."""
    many, where = several(number, animal), f"in the {place}"
    return [
        f"there are {many} {where}.",
        f"yesterday I saw {many} {where}.",
        f"are there really {many} {where}?",
        f"our neighbor has {many} {where}.",
        f"perhaps there are {many} {where}.",
        f"have you seen the {many} {where}?",
    ]


def comparison(animal: str, other: str, quality: str) -> list[str]:
    """Return sentences that compare two animals."""
    positive, comparative = QUALITY[quality]
    return [
        f"the {animal} is {comparative} than the {other}.",
        f"I think that the {animal} is {comparative} than the {other}.",
        f"is the {animal} really {comparative} than the {other}?",
        f"the {animal} is as {positive} as the {other}.",
        f"of course the {animal} is {comparative} than the {other}.",
        f"they say that the {animal} is as {positive} as the {other}.",
    ]


def lost(thing: str, colour: str, shop: str) -> list[str]:
    """Return sentences on a thing that was lost or found."""
    it, where = coloured(thing, colour), f"at the {shop}"
    return [
        f"I lost my {it} {where}.",
        f"yesterday I found a {it} {where}.",
        f"have you seen my {it} {where}?",
        f"the {it} is still {where}.",
        f"unfortunately, I lost my {it} {where}.",
        f"do you know whether the {it} is still {where}?",
    ]


def gift(person: str, relative: str, thing: str, colour: str) -> list[str]:
    """Return sentences on a gift."""
    who, it = words.name(person), f"a {coloured(thing, colour)}"
    whom = f"{'her' if person in words.WOMEN else 'his'} {relative}"
    return [
        f"{who} bought {whom} {it}.",
        f"{who} would like to give {whom} {it}.",
        f"did {who} buy {whom} {it}?",
        f"I have heard that {who} bought {whom} {it}.",
        f"perhaps {who} would like to give {whom} {it}.",
        f"of course {who} bought {whom} {it}.",
    ]


def order(food: str, number: int, other: str, more: int) -> list[str]:
    """Return sentences on an order of food."""
    meal = f"{several(number, food)} and {several(more, other)}"
    return [
        f"we would like {meal}, please.",
        f"please bring us {meal}.",
        f"can you bring us {meal}?",
        f"yesterday we ordered {meal}.",
        f"have you ordered {meal}?",
        f"I think that we ordered {meal}.",
    ]
