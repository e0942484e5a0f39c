"""French, as Almanac speaks it: for each intent, six sentences that mean the same as the English ones.

Slots arrive as the keys and numbers of frames.py. A sentence gets its capital letter from `words.capitalised`, later.
"""

from __future__ import annotations

from dragoman.almanac import words
from dragoman.almanac.french_words import (
    ANIMAL,
    CITY,
    DAY_PART,
    DISH,
    INGREDIENT,
    PLACE,
    QUALITY,
    RELATIVE,
    SHOP,
    SKY,
    VEHICLE,
    at_the,
    clock_time,
    coloured,
    count,
    date,
    elided,
    portion,
    the,
    the_animal,
)


def clock(city: str, time: tuple[int, int]) -> list[str]:
    """Return sentences on the time in a city."""
    here, now = f"à {CITY[city]}", clock_time(time)
    return [
        f"il est maintenant {now} {here}.",
        f"{here}, il est déjà {now}.",
        f"est-il vraiment {now} {here} ?",
        f"je crois qu'il n'est que {now} {here}.",
        f"on dit qu'il est maintenant {now} {here}.",
        f"savez-vous s'il est déjà {now} {here} ?",
    ]


def calendar(weekday: int, day: int, month: int) -> list[str]:
    """Return sentences on the date, and on the day when something begins."""
    when = f"le {words.weekday(weekday, 'fr')} {date(day, month)}"
    return [
        f"aujourd'hui, nous sommes {when}.",
        f"le concert a lieu {when}.",
        f"est-ce que demain est vraiment {when} ?",
        f"nos vacances commencent {when}.",
        f"j'ai entendu dire que le concert a lieu {when}.",
        f"savez-vous si nos vacances commencent {when} ?",
    ]


def price(thing: str, colour: str, euros: int) -> list[str]:
    """Return sentences on the price of a thing."""
    gender, noun, shade = coloured(thing, colour)
    it, much, he = f"{the(gender, noun)} {shade}", f"{count(euros)} euros", "il" if gender == "m" else "elle"
    return [
        f"{it} coûte {much}.",
        f"pour {much}, vous pouvez acheter {it}.",
        f"{it} coûte-t-{he} vraiment {much} ?",
        f"j'ai payé {much} pour {it}.",
        f"on dit que {it} coûte {much}.",
        f"pouvez-vous acheter {it} pour {much} ?",
    ]


def weather(city: str, weekday: int, sky: str) -> list[str]:
    """Return sentences on the weather of a weekday."""
    here, when, will = f"à {CITY[city]}", words.weekday(weekday, "fr"), f"il {SKY[sky]}"
    return [
        f"{when}, {will} {here}.",
        f"peut-être qu'{will} {here} {when}.",
        f"est-ce qu'{will} {here} {when} ?",
        f"on dit qu'{will} {here} {when}.",
        f"je crois qu'{will} {here} {when}.",
        f"malheureusement, {will} {here} {when}.",
    ]


def departure(city: str, time: tuple[int, int], platform: int) -> list[str]:
    """Return sentences on the time and platform of a train."""
    train, then, track = f"train pour {CITY[city]}", f"à {clock_time(time)}", f"du quai {count(platform)}"
    return [
        f"le {train} part {then} {track}.",
        f"{then}, un {train} part {track}.",
        f"le {train} part-il {then} {track} ?",
        f"malheureusement, le {train} part {then} {track}.",
        f"je crois que le {train} part {then} {track}.",
        f"{track}, un {train} part {then}.",
    ]


def distance(city: str, other: str, kilometres: int) -> list[str]:
    """Return sentences on the distance between two cities."""
    here, there, far = CITY[city], CITY[other], f"{count(kilometres)} kilomètres"
    from_here, from_there = elided("de", here), elided("de", there)
    return [
        f"{here} est à {far} {from_there}.",
        f"{from_here} à {there}, il y a {far}.",
        f"est-ce {elided('que', here)} est vraiment à {far} {from_there} ?",
        f"j'ai entendu dire {elided('que', here)} est à {far} {from_there}.",
        f"savez-vous s'il y a {far} {from_here} à {there} ?",
        f"bien sûr, il y a {far} {from_here} à {there}.",
    ]


def duration(city: str, vehicle: str, hours: int) -> list[str]:
    """Return sentences on the duration of a journey."""
    there, by, long = f"à {CITY[city]}", VEHICLE[vehicle], f"{count(hours)} heures"
    return [
        f"le voyage {there} {by} dure {long}.",
        f"{by}, vous arrivez {there} en {long}.",
        f"le voyage {there} {by} dure-t-il {long} ?",
        f"bien sûr, le voyage {there} {by} dure {long}.",
        f"j'ai entendu dire que le voyage {there} {by} dure {long}.",
        f"peut-être que vous arrivez {there} en {long} {by}.",
    ]


def opening(shop: str, weekday: int, time: tuple[int, int]) -> list[str]:
    """Return sentences on the opening hours of a shop."""
    it, when, then = the(*SHOP[shop]), words.weekday(weekday, "fr"), f"à {clock_time(time)}"
    return [
        f"{when}, {it} ouvre {then}.",
        f"{it} ferme {when} {then}.",
        f"{it} ouvre-t-{'il' if SHOP[shop][0] == 'm' else 'elle'} {when} {then} ?",
        f"savez-vous si {it} ferme {when} {then} ?",
        f"j'ai entendu dire que {it} ouvre {when} {then}.",
        f"malheureusement, {it} ferme {when} {then}.",
    ]


def meeting(person: str, weekday: int, time: tuple[int, int]) -> list[str]:
    """Return sentences on the time of a meeting."""
    who, when = words.name(person), f"{words.weekday(weekday, 'fr')} à {clock_time(time)}"
    return [
        f"nous rencontrons {who} {when}.",
        f"{when}, j'ai un rendez-vous avec {who}.",
        f"pouvons-nous rencontrer {who} {when} ?",
        f"{who} vient au bureau {when}.",
        f"peut-être {elided('que', who)} vient au bureau {when}.",
        f"je crois que nous rencontrons {who} {when}.",
    ]


def age(person: str, month: int, years: int) -> list[str]:
    """Return sentences on somebody's age."""
    who, when, old = words.name(person), f"en {words.month(month, 'fr')}", f"{count(years)} ans"
    return [
        f"{who} aura {old} {when}.",
        f"{when}, {who} aura {old}.",
        f"est-ce {elided('que', who)} aura vraiment {old} {when} ?",
        f"je crois {elided('que', who)} aura {old} {when}.",
        f"on dit {elided('que', who)} aura {old} {when}.",
        f"bien sûr, {who} aura {old} {when}.",
    ]


def birthday(person: str, day: int, month: int) -> list[str]:
    """Return sentences on the date of somebody's birth."""
    who, when = words.name(person), f"le {date(day, month)}"
    feast, born = f"l'anniversaire {elided('de', who)}", "née" if person in words.WOMEN else "né"
    return [
        f"{feast} est {when}.",
        f"{who} est {born} {when}.",
        f"{feast} est-il {when} ?",
        f"{when}, nous fêtons {feast}.",
        f"savez-vous si {who} est {born} {when} ?",
        f"j'ai entendu dire que {feast} est {when}.",
    ]


def telephone(person: str, first: int, second: int, third: int) -> list[str]:
    """Return sentences on somebody's telephone number."""
    who, digits = words.name(person), f"{count(first)} {count(second)} {count(third)}"
    his = elided("de", who)
    return [
        f"le numéro {his} est le {digits}.",
        f"appelez {who} au {digits}, s'il vous plaît.",
        f"le numéro {his} est-il vraiment le {digits} ?",
        f"le numéro de la chambre {his} est le {digits}.",
        f"je crois que le numéro {his} est le {digits}.",
        f"vous pouvez appeler {who} au {digits}.",
    ]


def temperature(city: str, part: str, degrees: int) -> list[str]:
    """Return sentences on the temperature."""
    here, when, warm = f"à {CITY[city]}", DAY_PART[part], f"{count(degrees)} degrés"
    return [
        f"{when}, il fait {warm} {here}.",
        f"la température {here} est de {warm} {when}.",
        f"est-ce qu'il fait vraiment {warm} {here} {when} ?",
        f"on dit qu'il fait {warm} {here} {when}.",
        f"bien sûr, il fait {warm} {here} {when}.",
        f"est-ce que la température {here} est de {warm} {when} ?",
    ]


def recipe(dish: str, ingredient: str, grams: int) -> list[str]:
    """Return sentences on the ingredients of a dish."""
    it, much = the(*DISH[dish]), f"{count(grams)} grammes {elided('de', INGREDIENT[ingredient])}"
    return [
        f"pour {it}, nous avons besoin de {much}.",
        f"ajoutez ensuite {much} {at_the(*DISH[dish])}.",
        f"est-ce que nous avons besoin de {much} pour {it} ?",
        f"il y a {much} dans {it}.",
        f"je crois que nous avons besoin de {much} pour {it}.",
        f"est-ce qu'il y a vraiment {much} dans {it} ?",
    ]


def floor(person: str, city: str, floor: int) -> list[str]:
    """Return sentences on somebody's address."""
    who, here, where = words.name(person), f"à {CITY[city]}", f"au {words.ordinal(floor, 'fr')} étage"
    flat = f"l'appartement {elided('de', who)} {here}"
    return [
        f"{who} habite {here} {where}.",
        f"{flat} est {where}.",
        f"est-ce {elided('que', who)} habite {here} {where} ?",
        f"{here}, {who} a loué une chambre {where}.",
        f"on dit {elided('que', who)} habite {here} {where}.",
        f"peut-être que {flat} est {where}.",
    ]


def animals(animal: str, place: str, number: int) -> list[str]:
    """Return sentences on a number of animals."""
    many, where = f"{count(number)} {ANIMAL[animal][2]}", PLACE[place]
    return [
        f"il y a {many} {where}.",
        f"hier, j'ai vu {many} {where}.",
        f"est-ce qu'il y a vraiment {many} {where} ?",
        f"notre voisin a {many} {where}.",
        f"peut-être qu'il y a {many} {where}.",
        f"avez-vous vu les {many} {where} ?",
    ]


def comparison(animal: str, other: str, quality: str) -> list[str]:
    """Return sentences that compare two animals."""
    it, that, like = the_animal(animal), the_animal(other), QUALITY[quality][ANIMAL[animal][0] == "f"]
    return [
        f"{it} est plus {like} que {that}.",
        f"je crois que {it} est plus {like} que {that}.",
        f"est-ce que {it} est vraiment plus {like} que {that} ?",
        f"{it} est aussi {like} que {that}.",
        f"bien sûr, {it} est plus {like} que {that}.",
        f"on dit que {it} est aussi {like} que {that}.",
    ]


def lost(thing: str, colour: str, shop: str) -> list[str]:
    """Return sentences on a thing that was lost or found."""
    gender, noun, shade = coloured(thing, colour)
    # mon écharpe: ma does not stand before a vowel
    my = f"{'mon' if gender == 'm' or noun.startswith('é') else 'ma'} {noun} {shade}"
    one, it = f"{'un' if gender == 'm' else 'une'} {noun} {shade}", f"{the(gender, noun)} {shade}"
    where = at_the(*SHOP[shop])
    return [
        f"j'ai perdu {my} {where}.",
        f"hier, j'ai trouvé {one} {where}.",
        f"avez-vous vu {my} {where} ?",
        f"{it} est encore {where}.",
        f"malheureusement, j'ai perdu {my} {where}.",
        f"savez-vous si {it} est encore {where} ?",
    ]


def gift(person: str, relative: str, thing: str, colour: str) -> list[str]:
    """Return sentences on a gift."""
    gender, noun, shade = coloured(thing, colour)
    who, what = words.name(person), f"{'un' if gender == 'm' else 'une'} {noun} {shade} à {RELATIVE[relative]}"
    return [
        f"{who} a acheté {what}.",
        f"{who} voudrait offrir {what}.",
        f"est-ce {elided('que', who)} a acheté {what} ?",
        f"j'ai entendu dire {elided('que', who)} a acheté {what}.",
        f"peut-être {elided('que', who)} voudrait offrir {what}.",
        f"bien sûr, {who} a acheté {what}.",
    ]


def order(food: str, number: int, other: str, more: int) -> list[str]:
    """Return sentences on an order of food."""
    meal = f"{portion(number, food)} et {portion(more, other)}"
    return [
        f"nous voudrions {meal}, s'il vous plaît.",
        f"apportez-nous {meal}, s'il vous plaît.",
        f"pouvez-vous nous apporter {meal} ?",
        f"hier, nous avons commandé {meal}.",
        f"avez-vous commandé {meal} ?",
        f"je crois que nous avons commandé {meal}.",
    ]
