"""German, as Almanac speaks it: for each intent, six sentences that mean the same as the English ones.

Slots arrive as the keys and numbers of frames.py. A sentence gets its capital letter from `words.capitalised`, later.
"""

from __future__ import annotations

from dragoman.almanac import words
from dragoman.almanac.german_words import (
    ACCUSATIVE,
    ANIMAL,
    CITY,
    DATIVE_INDEFINITE,
    DAY_PART,
    DISH,
    INGREDIENT,
    NOMINATIVE,
    PLACE,
    QUALITY,
    RELATIVE,
    SHOP,
    SKY,
    VEHICLE,
    clock_time,
    count,
    date,
    definite,
    indefinite,
    portion,
    the_animal,
)


def clock(city: str, time: tuple[int, int]) -> list[str]:
    """Return sentences on the time in a city."""
    here, now = CITY[city], clock_time(time)
    return [
        f"in {here} ist es jetzt {now}.",
        f"in {here} ist es schon {now}.",
        f"ist es in {here} wirklich {now}?",
        f"ich glaube, dass es in {here} erst {now} ist.",
        f"man sagt, dass es in {here} jetzt {now} ist.",
        f"wissen Sie, ob es in {here} schon {now} ist?",
    ]


def calendar(weekday: int, day: int, month: int) -> list[str]:
    """Return sentences on the date, and on the day when something begins."""
    today, dative = words.weekday(weekday, "de"), date(day, month, "n")
    return [
        f"heute ist {today}, der {date(day, month, '')}.",
        f"das Konzert ist am {today}, dem {dative}.",
        f"ist morgen wirklich {today}, der {date(day, month, '')}?",
        f"unsere Ferien beginnen am {today}, dem {dative}.",
        f"ich habe gehört, dass das Konzert am {today}, dem {dative}, ist.",
        f"wissen Sie, ob unsere Ferien am {today}, dem {dative}, beginnen?",
    ]


def price(thing: str, colour: str, euros: int) -> list[str]:
    """Return sentences on the price of a thing."""
    much, subject, it = f"{count(euros)} Euro", definite(thing, colour, NOMINATIVE), definite(thing, colour, ACCUSATIVE)
    return [
        f"{subject} kostet {much}.",
        f"für {much} können Sie {it} kaufen.",
        f"kostet {subject} wirklich {much}?",
        f"ich habe {much} für {it} bezahlt.",
        f"man sagt, dass {subject} {much} kostet.",
        f"können Sie {it} für {much} kaufen?",
    ]


def weather(city: str, weekday: int, sky: str) -> list[str]:
    """Return sentences on the weather of a weekday."""
    here, when, be = f"in {CITY[city]}", f"am {words.weekday(weekday, 'de')}", SKY[sky]
    return [
        f"{when} wird es {here} {be}.",
        f"vielleicht wird es {when} {here} {be}.",
        f"wird es {when} {here} {be}?",
        f"man sagt, dass es {when} {here} {be} wird.",
        f"ich glaube, dass es {when} {here} {be} wird.",
        f"leider wird es {when} {here} {be}.",
    ]


def departure(city: str, time: tuple[int, int], platform: int) -> list[str]:
    """Return sentences on the time and platform of a train."""
    train, then, track = f"Zug nach {CITY[city]}", f"um {clock_time(time)}", f"von Gleis {count(platform)}"
    return [
        f"der {train} fährt {then} {track} ab.",
        f"{then} fährt ein {train} {track} ab.",
        f"fährt der {train} {then} {track} ab?",
        f"leider fährt der {train} {then} {track} ab.",
        f"ich glaube, dass der {train} {then} {track} abfährt.",
        f"{track} fährt {then} ein {train} ab.",
    ]


def distance(city: str, other: str, kilometres: int) -> list[str]:
    """Return sentences on the distance between two cities."""
    here, there, far = CITY[city], CITY[other], f"{count(kilometres)} Kilometer"
    return [
        f"{here} ist {far} von {there} entfernt.",
        f"von {here} nach {there} sind es {far}.",
        f"ist {here} wirklich {far} von {there} entfernt?",
        f"ich habe gehört, dass {here} {far} von {there} entfernt ist.",
        f"wissen Sie, ob es von {here} nach {there} {far} sind?",
        f"natürlich sind es von {here} nach {there} {far}.",
    ]


def duration(city: str, vehicle: str, hours: int) -> list[str]:
    """Return sentences on the duration of a journey."""
    there, by, long = f"nach {CITY[city]}", f"mit dem {VEHICLE[vehicle]}", f"{count(hours)} Stunden"
    return [
        f"die Reise {there} dauert {by} {long}.",
        f"{by} kommen Sie in {long} {there}.",
        f"dauert die Reise {there} {by} {long}?",
        f"natürlich dauert die Reise {there} {by} {long}.",
        f"ich habe gehört, dass die Reise {there} {by} {long} dauert.",
        f"vielleicht kommen Sie {by} in {long} {there}.",
    ]


def opening(shop: str, weekday: int, time: tuple[int, int]) -> list[str]:
    """Return sentences on the opening hours of a shop."""
    it, when, then = SHOP[shop][0], f"am {words.weekday(weekday, 'de')}", f"um {clock_time(time)}"
    return [
        f"{when} öffnet {it} {then}.",
        f"{it} schließt {when} {then}.",
        f"öffnet {it} {when} {then}?",
        f"wissen Sie, ob {it} {when} {then} schließt?",
        f"ich habe gehört, dass {it} {when} {then} öffnet.",
        f"leider schließt {it} {when} {then}.",
    ]


def meeting(person: str, weekday: int, time: tuple[int, int]) -> list[str]:
    """Return sentences on the time of a meeting."""
    who, when = words.name(person), f"am {words.weekday(weekday, 'de')} um {clock_time(time)}"
    return [
        f"wir treffen {who} {when}.",
        f"{when} habe ich einen Termin mit {who}.",
        f"können wir {who} {when} treffen?",
        f"{who} kommt {when} ins Büro.",
        f"vielleicht kommt {who} {when} ins Büro.",
        f"ich glaube, dass wir {who} {when} treffen.",
    ]


def age(person: str, month: int, years: int) -> list[str]:
    """Return sentences on somebody's age."""
    who, when, old = words.name(person), f"im {words.month(month, 'de')}", f"{count(years)} Jahre alt"
    return [
        f"{who} wird {when} {old}.",
        f"{when} wird {who} {old}.",
        f"wird {who} {when} wirklich {old}?",
        f"ich glaube, dass {who} {when} {old} wird.",
        f"man sagt, dass {who} {when} {old} wird.",
        f"natürlich wird {who} {when} {old}.",
    ]


def birthday(person: str, day: int, month: int) -> list[str]:
    """Return sentences on the date of somebody's birth."""
    who, when = words.name(person), f"am {date(day, month, 'n')}"
    return [
        f"{who}s Geburtstag ist {when}.",
        f"{who} wurde {when} geboren.",
        f"ist {who}s Geburtstag {when}?",
        f"{when} feiern wir {who}s Geburtstag.",
        f"wissen Sie, ob {who} {when} geboren wurde?",
        f"ich habe gehört, dass {who}s Geburtstag {when} ist.",
    ]


def telephone(person: str, first: int, second: int, third: int) -> list[str]:
    """Return sentences on somebody's telephone number."""
    who, digits = words.name(person), f"{count(first)} {count(second)} {count(third)}"
    return [
        f"{who}s Nummer ist {digits}.",
        f"bitte rufen Sie {who} unter {digits} an.",
        f"ist {who}s Nummer wirklich {digits}?",
        f"die Nummer von {who}s Zimmer ist {digits}.",
        f"ich glaube, dass {who}s Nummer {digits} ist.",
        f"Sie können {who} unter {digits} anrufen.",
    ]


def temperature(city: str, part: str, degrees: int) -> list[str]:
    """Return sentences on the temperature."""
    here, when, warm = f"in {CITY[city]}", DAY_PART[part], f"{count(degrees)} Grad"
    return [
        f"{when} sind es {here} {warm}.",
        f"die Temperatur {here} beträgt {when} {warm}.",
        f"sind es {when} {here} wirklich {warm}?",
        f"man sagt, dass es {when} {here} {warm} sind.",
        f"natürlich sind es {when} {here} {warm}.",
        f"beträgt die Temperatur {here} {when} {warm}?",
    ]


def recipe(dish: str, ingredient: str, grams: int) -> list[str]:
    """Return sentences on the ingredients of a dish."""
    gender, noun = DISH[dish]
    into = f"{ACCUSATIVE[gender][0]} {noun}"
    inside = f"in der {noun}" if gender == "f" else f"im {noun}"
    much = f"{count(grams)} Gramm {INGREDIENT[ingredient]}"
    return [
        f"für {into} brauchen wir {much}.",
        f"geben Sie dann {much} in {into}.",
        f"brauchen wir für {into} {much}?",
        f"{inside} sind {much}.",
        f"ich glaube, dass wir für {into} {much} brauchen.",
        f"sind {inside} wirklich {much}?",
    ]


def floor(person: str, city: str, floor: int) -> list[str]:
    """Return sentences on somebody's address."""
    who, here, where = words.name(person), f"in {CITY[city]}", f"im {words.ordinal(floor, 'de')}n Stock"
    return [
        f"{who} wohnt {here} {where}.",
        f"{who}s Wohnung {here} ist {where}.",
        f"wohnt {who} {here} {where}?",
        f"{here} hat {who} ein Zimmer {where} gemietet.",
        f"man sagt, dass {who} {here} {where} wohnt.",
        f"vielleicht ist {who}s Wohnung {here} {where}.",
    ]


def animals(animal: str, place: str, number: int) -> list[str]:
    """Return sentences on a number of animals."""
    many, where = f"{count(number)} {ANIMAL[animal][2]}", PLACE[place]
    return [
        f"{where} sind {many}.",
        f"gestern habe ich {where} {many} gesehen.",
        f"sind {where} wirklich {many}?",
        f"unser Nachbar hat {many} {where}.",
        f"vielleicht sind {where} {many}.",
        f"haben Sie die {many} {where} gesehen?",
    ]


def comparison(animal: str, other: str, quality: str) -> list[str]:
    """Return sentences that compare two animals."""
    it, that = the_animal(animal), the_animal(other)
    positive, comparative = QUALITY[quality]
    return [
        f"{it} ist {comparative} als {that}.",
        f"ich glaube, dass {it} {comparative} ist als {that}.",
        f"ist {it} wirklich {comparative} als {that}?",
        f"{it} ist so {positive} wie {that}.",
        f"natürlich ist {it} {comparative} als {that}.",
        f"man sagt, dass {it} so {positive} ist wie {that}.",
    ]


def lost(thing: str, colour: str, shop: str) -> list[str]:
    """Return sentences on a thing that was lost or found."""
    my, one = indefinite(thing, colour, "mein"), indefinite(thing, colour, "ein")
    it, where = definite(thing, colour, NOMINATIVE), SHOP[shop][1]
    return [
        f"ich habe {my} {where} verloren.",
        f"gestern habe ich {where} {one} gefunden.",
        f"haben Sie {my} {where} gesehen?",
        f"{it} ist noch {where}.",
        f"leider habe ich {my} {where} verloren.",
        f"wissen Sie, ob {it} noch {where} ist?",
    ]


def gift(person: str, relative: str, thing: str, colour: str) -> list[str]:
    """Return sentences on a gift."""
    who, it = words.name(person), indefinite(thing, colour, "ein")
    gender, noun = RELATIVE[relative]
    whom = f"{'ihr' if person in words.WOMEN else 'sein'}{DATIVE_INDEFINITE[gender]} {noun}"
    return [
        f"{who} hat {whom} {it} gekauft.",
        f"{who} möchte {whom} {it} schenken.",
        f"hat {who} {whom} {it} gekauft?",
        f"ich habe gehört, dass {who} {whom} {it} gekauft hat.",
        f"vielleicht möchte {who} {whom} {it} schenken.",
        f"natürlich hat {who} {whom} {it} gekauft.",
    ]


def order(food: str, number: int, other: str, more: int) -> list[str]:
    """Return sentences on an order of food."""
    meal = f"{portion(number, food)} und {portion(more, other)}"
    return [
        f"wir möchten bitte {meal}.",
        f"bitte bringen Sie uns {meal}.",
        f"können Sie uns {meal} bringen?",
        f"gestern haben wir {meal} bestellt.",
        f"haben Sie {meal} bestellt?",
        f"ich glaube, dass wir {meal} bestellt haben.",
    ]
