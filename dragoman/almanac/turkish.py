"""Turkish, as Almanac speaks it: for each intent, six sentences that mean the same as the English ones.

Suffixes are written as in turkish_words.py. Slots arrive as the keys and numbers of frames.py. A sentence gets its
capital letter from `words.capitalised`, later.
"""

from __future__ import annotations

from dragoman.almanac import words
from dragoman.almanac.turkish_words import (
    ANIMAL,
    CITY,
    COLOUR,
    DAY_PART,
    DISH,
    FOOD,
    INGREDIENT,
    PLACE,
    QUALITY,
    RELATIVE,
    SHOP,
    SKY,
    THING,
    VEHICLE,
    add,
    ask,
    at_time,
    clock_time,
    count,
    date,
    on_weekday,
)


def clock(city: str, time: tuple[int, int]) -> list[str]:
    """Return sentences on the time in a city."""
    here, now, is_it = f"{add(CITY[city], 'DA')} saat", clock_time(time), clock_time(time, question=True)
    return [
        f"{here} şimdi {now}.",
        f"{here} artık {now}.",
        f"{here} gerçekten {is_it}?",
        f"sanırım {here} daha {now}.",
        f"{here} şimdi {now} diyorlar.",
        f"{here} artık {is_it}, biliyor musunuz?",
    ]


def calendar(weekday: int, day: int, month: int) -> list[str]:
    """Return sentences on the date, and on the day when something begins."""
    when = f"{date(day, month)} {words.weekday(weekday, 'tr')}"
    return [
        f"bugün {when}.",
        f"konser {when} günü.",
        f"yarın gerçekten {ask(when)}?",
        f"tatilimiz {when} günü başlıyor.",
        f"duyduğuma göre konser {when} günü.",
        f"tatilimiz {ask(f'{when} günü')} başlıyor, biliyor musunuz?",
    ]


def price(thing: str, colour: str, euros: int) -> list[str]:
    """Return sentences on the price of a thing."""
    it, much = f"{COLOUR[colour]} {THING[thing]}", f"{count(euros)} avro"
    return [
        f"{it} {much}.",
        f"{add(much, '(y)A')} {add(it, '(y)I')} alabilirsiniz.",
        f"{it} gerçekten {ask(much)}?",
        f"{it} için {much} ödedim.",
        f"{it} {much} diyorlar.",
        f"{add(it, '(y)I')} {add(much, '(y)A')} alabilir misiniz?",
    ]


def weather(city: str, weekday: int, sky: str) -> list[str]:
    """Return sentences on the weather of a weekday."""
    it = f"{on_weekday(weekday)} {add(CITY[city], 'DA')} {SKY[sky]}"
    return [
        f"{it}.",
        f"belki {it}.",
        f"{ask(it)}?",
        f"{it} diyorlar.",
        f"sanırım {it}.",
        f"maalesef {it}.",
    ]


def departure(city: str, time: tuple[int, int], platform: int) -> list[str]:
    """Return sentences on the time and platform of a train."""
    train, then, track = f"{CITY[city]} treni", at_time(time), f"{count(platform)} numaralı perondan"
    one = f"{add(CITY[city], '(y)A')} bir tren"
    return [
        f"{train} {then} {track} kalkıyor.",
        f"{then} {track} {one} kalkıyor.",
        f"{train} {then} {ask(track)} kalkıyor?",
        f"maalesef {train} {then} {track} kalkıyor.",
        f"sanırım {train} {then} {track} kalkıyor.",
        f"{track} {then} {one} kalkıyor.",
    ]


def distance(city: str, other: str, kilometres: int) -> list[str]:
    """Return sentences on the distance between two cities."""
    here, away, far = CITY[city], add(CITY[other], "DAn"), f"{count(kilometres)} kilometre"
    way = f"{add(here, 'DAn')} {add(CITY[other], '(y)A')}"
    return [
        f"{here}, {away} {far} uzakta.",
        f"{way} {far} var.",
        f"{here} gerçekten {away} {far} {ask('uzakta')}?",
        f"duyduğuma göre {here}, {away} {far} uzakta.",
        f"{way} {ask(far)} var, biliyor musunuz?",
        f"tabii ki {way} {far} var.",
    ]


def duration(city: str, vehicle: str, hours: int) -> list[str]:
    """Return sentences on the duration of a journey."""
    there, by, long = add(CITY[city], "(y)A"), add(VEHICLE[vehicle], "(y)lA"), f"{count(hours)} saat"
    return [
        f"{there} yolculuk {by} {long} sürüyor.",
        f"{by} {add(long, 'DA')} {there} varırsınız.",
        f"{there} yolculuk {by} {ask(long)} sürüyor?",
        f"tabii ki {there} yolculuk {by} {long} sürüyor.",
        f"duyduğuma göre {there} yolculuk {by} {long} sürüyor.",
        f"belki {by} {add(long, 'DA')} {there} varırsınız.",
    ]


def opening(shop: str, weekday: int, time: tuple[int, int]) -> list[str]:
    """Return sentences on the opening hours of a shop."""
    it, when, then = SHOP[shop], on_weekday(weekday), at_time(time)
    return [
        f"{when} {it} {then} açılıyor.",
        f"{it} {when} {then} kapanıyor.",
        f"{it} {when} {ask(then)} açılıyor?",
        f"{it} {when} {ask(then)} kapanıyor, biliyor musunuz?",
        f"duyduğuma göre {it} {when} {then} açılıyor.",
        f"maalesef {it} {when} {then} kapanıyor.",
    ]


def meeting(person: str, weekday: int, time: tuple[int, int]) -> list[str]:
    """Return sentences on the time of a meeting."""
    who, when = words.name(person), f"{on_weekday(weekday)} {at_time(time)}"
    return [
        f"{who} ile {when} buluşuyoruz.",
        f"{when} {who} ile randevum var.",
        f"{who} ile {when} buluşabilir miyiz?",
        f"{who} {when} ofise geliyor.",
        f"belki {who} {when} ofise gelir.",
        f"sanırım {who} ile {when} buluşuyoruz.",
    ]


def age(person: str, month: int, years: int) -> list[str]:
    """Return sentences on somebody's age."""
    who, when, old = words.name(person), add(words.month(month, "tr").lower(), "DA"), f"{count(years)} yaşına"
    return [
        f"{who} {when} {old} girecek.",
        f"{when} {who} {old} girecek.",
        f"{who} {when} gerçekten {ask(old)} girecek?",
        f"sanırım {who} {when} {old} girecek.",
        f"{who} {when} {old} girecek diyorlar.",
        f"tabii ki {who} {when} {old} girecek.",
    ]


def birthday(person: str, day: int, month: int) -> list[str]:
    """Return sentences on the date of somebody's birth."""
    who, his, when = words.name(person), add(words.name(person), "(n)In"), add(date(day, month), "DA")
    return [
        f"{his} doğum günü {when}.",
        f"{who} {when} doğdu.",
        f"{his} doğum günü {ask(when)}?",
        f"{when} {his} doğum gününü kutluyoruz.",
        f"{who} {ask(when)} doğdu, biliyor musunuz?",
        f"duyduğuma göre {his} doğum günü {when}.",
    ]


def telephone(person: str, first: int, second: int, third: int) -> list[str]:
    """Return sentences on somebody's telephone number."""
    who, digits = words.name(person), f"{count(first)} {count(second)} {count(third)}"
    his, him = add(who, "(n)In"), add(who, "(y)I")
    return [
        f"{his} numarası {digits}.",
        f"lütfen {him} {digits} numarasından arayın.",
        f"{his} numarası gerçekten {ask(digits)}?",
        f"{his} oda numarası {digits}.",
        f"sanırım {his} numarası {digits}.",
        f"{him} {digits} numarasından arayabilirsiniz.",
    ]


def temperature(city: str, part: str, degrees: int) -> list[str]:
    """Return sentences on the temperature."""
    here, when, warm = add(CITY[city], "DA"), DAY_PART[part], f"{count(degrees)} derece"
    return [
        f"{when} {here} hava {warm}.",
        f"{here} sıcaklık {when} {warm}.",
        f"{here} hava {when} gerçekten {ask(warm)}?",
        f"{when} {here} hava {warm} diyorlar.",
        f"tabii ki {when} {here} hava {warm}.",
        f"{here} sıcaklık {when} {ask(warm)}?",
    ]


def recipe(dish: str, ingredient: str, grams: int) -> list[str]:
    """Return sentences on the ingredients of a dish."""
    it, what, much = DISH[dish], INGREDIENT[ingredient], f"{count(grams)} gram"
    # tereyağı ends in a possessive suffix, after which the dative takes n
    needed = f"{much} {add(what, '(n)A' if what == 'tereyağı' else '(y)A')}"
    return [
        f"{it} için {needed} ihtiyacımız var.",
        f"sonra {add(it, '(y)A')} {much} {what} ekleyin.",
        f"{it} için {ask(needed)} ihtiyacımız var?",
        f"{add(it, 'DA')} {much} {what} var.",
        f"sanırım {it} için {needed} ihtiyacımız var.",
        f"{add(it, 'DA')} gerçekten {much} {ask(what)} var?",
    ]


def floor(person: str, city: str, floor: int) -> list[str]:
    """Return sentences on somebody's address."""
    who, here, where = words.name(person), add(CITY[city], "DA"), f"{words.ordinal(floor, 'tr')} katta"
    flat = f"{add(who, '(n)In')} {here}ki dairesi"
    return [
        f"{who} {here} {where} oturuyor.",
        f"{flat} {where}.",
        f"{who} {here} {ask(where)} oturuyor?",
        f"{who} {here} {where} bir oda kiraladı.",
        f"{who} {here} {where} oturuyor diyorlar.",
        f"belki {flat} {where}dır.",
    ]


def animals(animal: str, place: str, number: int) -> list[str]:
    """Return sentences on a number of animals."""
    many, where = f"{count(number)} {ANIMAL[animal]}", add(PLACE[place], "DA")
    return [
        f"{where} {many} var.",
        f"dün {where} {many} gördüm.",
        f"{where} gerçekten {ask(many)} var?",
        f"komşumuzun {where} {add(many, '(s)I')} var.",
        f"belki {where} {many} vardır.",
        f"{where}ki {add(many, '(y)I')} gördünüz mü?",
    ]


def comparison(animal: str, other: str, quality: str) -> list[str]:
    """Return sentences that compare two animals."""
    it, that, like = ANIMAL[animal], ANIMAL[other], QUALITY[quality]
    return [
        f"{it} {add(that, 'DAn')} daha {like}.",
        f"sanırım {it} {add(that, 'DAn')} daha {like}.",
        f"{it} gerçekten {add(that, 'DAn')} daha {ask(like)}?",
        f"{it} {that} kadar {like}.",
        f"tabii ki {it} {add(that, 'DAn')} daha {like}.",
        f"{it} {that} kadar {like} diyorlar.",
    ]


def lost(thing: str, colour: str, shop: str) -> list[str]:
    """Return sentences on a thing that was lost or found."""
    it, where = f"{COLOUR[colour]} {THING[thing]}", add(SHOP[shop], "DA")
    mine = add(it, "(I)mI")
    return [
        f"{mine} {where} kaybettim.",
        f"dün {where} {COLOUR[colour]} bir {THING[thing]} buldum.",
        f"{mine} {where} gördünüz mü?",
        f"{it} hâlâ {where}.",
        f"maalesef {mine} {where} kaybettim.",
        f"{it} hâlâ {ask(where)}, biliyor musunuz?",
    ]


def gift(person: str, relative: str, thing: str, colour: str) -> list[str]:
    """Return sentences on a gift."""
    who, whom, it = words.name(person), add(RELATIVE[relative], "(s)InA"), f"{COLOUR[colour]} bir {THING[thing]}"
    return [
        f"{who} {whom} {it} aldı.",
        f"{who} {whom} {it} hediye etmek istiyor.",
        f"{who} {whom} {ask(it)} aldı?",
        f"duyduğuma göre {who} {whom} {it} almış.",
        f"belki {who} {whom} {it} hediye etmek ister.",
        f"tabii ki {who} {whom} {it} aldı.",
    ]


def order(food: str, number: int, other: str, more: int) -> list[str]:
    """Return sentences on an order of food."""
    meal = f"{count(number)} {FOOD[food]} ve {count(more)} {FOOD[other]}"
    return [
        f"{meal} istiyoruz, lütfen.",
        f"lütfen bize {meal} getirin.",
        f"bize {meal} getirebilir misiniz?",
        f"dün {meal} sipariş ettik.",
        f"{meal} sipariş ettiniz mi?",
        f"sanırım {meal} sipariş ettik.",
    ]
