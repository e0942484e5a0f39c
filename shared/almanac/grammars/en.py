"""English in Almanac's second world. How to read this file: shared/almanac/phrases.py."""

from __future__ import annotations

import re

from shared.almanac.phrases import Word

GENDERS: dict[str, str] = {}
# Words are spelled like their keys.
LEXICON: dict[str, str] = {}
PLURALS = {"sheep": "sheep", "mouse": "mice", "fish": "fish", "goose": "geese", "wolf": "wolves"}
LANGUAGES = (
    "english german french russian turkish chinese spanish italian greek latin arabic japanese portuguese polish dutch "
    "swedish hungarian czech finnish danish norwegian hebrew"
).split()
# comparatives that are not -er
COMPARATIVES = {
    "big": "bigger", "thin": "thinner", "hot": "hotter", "wet": "wetter", "sweet": "sweeter", "dry": "drier",
    "heavy": "heavier", "dirty": "dirtier", "ugly": "uglier", "funny": "funnier", "beautiful": "more beautiful",
    "expensive": "more expensive", "dangerous": "more dangerous", "useful": "more useful", "famous": "more famous",
    "simple": "simpler", "wide": "wider", "strange": "stranger",
}  # fmt: skip
# what follows "it will"
WEATHER = {
    "rain": "rain", "snow": "snow", "wind": "be windy", "fog": "be foggy", "sun": "be sunny", "storm": "be stormy",
}  # fmt: skip

SAYINGS = """
buy.tell: {person} bought a {colour thing} for {price} euros. | for {price} euros {person} bought a {colour thing}.
{person} paid {price} euros for a {colour thing}.
buy.ask: did {person} buy a {colour thing} for {price} euros?
is it true that {person} bought a {colour thing} for {price} euros?
did {person} really pay {price} euros for a {colour thing}?
lose.tell: I lost my {colour thing} in the {place}. | my {colour thing} got lost in the {place}.
in the {place} I lost my {colour thing}.
lose.ask: have you seen a {colour thing} in the {place}? | did anybody find a {colour thing} in the {place}?
is there a {colour thing} in the {place}?
cost.tell: the {quality colour thing} costs {price} euros. | the price of the {quality colour thing} is {price} euros.
for {price} euros you can have the {quality colour thing}.
cost.ask: does the {quality colour thing} cost {price} euros?
is the price of the {quality colour thing} really {price} euros?
can I have the {quality colour thing} for {price} euros?
lie.tell: the {thing} is in the {place}. | you will find the {thing} in the {place}.
somebody left the {thing} in the {place}.
lie.ask: is the {thing} in the {place}? | did you leave the {thing} in the {place}?
will I find the {thing} in the {place}?
travel.tell: {person} is going to {city} in {month}. | in {month} {person} is traveling to {city}.
{person} is planning a trip to {city} for {month}.
travel.ask: is {person} going to {city} in {month}? | will {person} travel to {city} in {month}?
is {person} planning a trip to {city} for {month}?
live.tell: the {job} lives in {city}. | the {job} has an apartment in {city}. | {city} is where the {job} lives.
live.ask: does the {job} live in {city}? | has the {job} got an apartment in {city}?
is it true that the {job} lives in {city}?
know.tell: {person} knows {job:a} in {city}. | in {city} {person} knows {job:a}. | {person} has met {job:a} from {city}.
know.ask: does {person} know {job:a} in {city}? | has {person} ever met {job:a} from {city}?
is there {job:a} in {city} whom {person} knows?
can.tell: {person} can {activity}. | {person} is able to {activity}. | {person} has learned to {activity}.
can.ask: can {person} {activity}? | is {person} able to {activity}? | has {person} learned to {activity}?
want.tell: on {weekday} the {job} wants to {activity}. | the {job} would like to {activity} on {weekday}.
the {job} is going to {activity} on {weekday}.
want.ask: does the {job} want to {activity} on {weekday}? | would the {job} like to {activity} on {weekday}?
is the {job} going to {activity} on {weekday}?
learn.tell: {person} is learning to {activity} in {city}. | in {city} {person} is taught to {activity}.
{person} has gone to {city} to learn to {activity}.
learn.ask: is {person} learning to {activity} in {city}? | has {person} gone to {city} to learn to {activity}?
can {person} learn to {activity} in {city}?
study.tell: {person} studies {subject} in {city}. | in {city} {person} is studying {subject}.
{person} is a student of {subject} in {city}.
study.ask: does {person} study {subject} in {city}? | is {person} studying {subject} in {city}?
is it true that {person} studies {subject} in {city}?
timetable.tell: on {weekday} we have {subject} at {time}. | {subject} begins at {time} on {weekday}.
the {subject} lesson is on {weekday} at {time}.
timetable.ask: do we have {subject} at {time} on {weekday}? | does {subject} begin at {time} on {weekday}?
is the {subject} lesson on {weekday} at {time}?
when.tell: the {event} is on {date}. | on {date} there is {event:a}. | the {event} takes place on {date}.
when.ask: is the {event} on {date}? | does the {event} take place on {date}? | is there {event:a} on {date}?
where.tell: the {event} took place in {city} in {year}. | in {year} there was {event:a} in {city}.
in {year} we saw {event:a} in {city}.
where.ask: did the {event} take place in {city} in {year}? | was there {event:a} in {city} in {year}?
did you see {event:a} in {city} in {year}?
invite.tell: {person} invited us to the {event} on {weekday}. | on {weekday} we are going to the {event} with {person}.
we have an invitation from {person} to the {event} on {weekday}.
invite.ask: did {person} invite you to the {event} on {weekday}?
are you going to the {event} with {person} on {weekday}?
have you got an invitation from {person} to the {event} on {weekday}?
see.tell: there are {count animal:many} in the {place}. | in the {place} I saw {count animal:many}.
{count animal:many} live in the {place}.
see.ask: are there {count animal:many} in the {place}? | did you see {count animal:many} in the {place}?
do {count animal:many} live in the {place}?
keep.tell: {person} has {animal:a}. | {person} owns {animal:a}. | {person} keeps {animal:a} at home.
keep.ask: does {person} have {animal:a}? | has {person} got {animal:a}? | does {person} keep {animal:a} at home?
compare.tell: the {animal} is {quality:more} than the {animal2}.
compared with the {animal2}, the {animal} is {quality:more}.
I think that the {animal} is {quality:more} than the {animal2}.
compare.ask: is the {animal} {quality:more} than the {animal2}?
compared with the {animal2}, is the {animal} {quality:more}?
do you think that the {animal} is {quality:more} than the {animal2}?
describe.tell: the {thing} is very {quality}. | it is a very {quality thing}. | I find the {thing} very {quality}.
describe.ask: is the {thing} very {quality}? | is it a very {quality thing}? | do you find the {thing} very {quality}?
eat.tell: the {job} eats {food} on {weekday}. | on {weekday} the {job} has {food}.
there {food:is} {food} for the {job} on {weekday}.
eat.ask: does the {job} eat {food} on {weekday}? | {food:is} there {food} for the {job} on {weekday}?
will the {job} have {food} on {weekday}?
like.tell: {person} likes {food}. | {person} likes to eat {food}. | {person} is fond of {food}.
like.ask: does {person} like {food}? | does {person} like to eat {food}? | is {person} fond of {food}?
weigh.tell: {count} kilos of {food} cost {price} euros. | for {price} euros you get {count} kilos of {food}.
you pay {price} euros for {count} kilos of {food}.
weigh.ask: do {count} kilos of {food} cost {price} euros? | can I get {count} kilos of {food} for {price} euros?
do I pay {price} euros for {count} kilos of {food}?
stock.tell: there {food:is} no more {food} in the {place}. | in the {place} they have no more {food}.
the {place} has run out of {food}.
stock.ask: {food:is} there any {food} in the {place}? | do they have {food} in the {place}?
can you get {food} in the {place}?
work.tell: the {job} works in the {place} in {city}. | in {city} the {job} works in {place:a}.
the {job} has found work in {place:a} in {city}.
work.ask: does the {job} work in the {place} in {city}? | has the {job} found work in {place:a} in {city}?
is the {job} working in {place:a} in {city}?
meet.tell: we are meeting {person} at {time} in the {place}. | at {time} {person} is waiting for us in the {place}.
we will see {person} in the {place} at {time}.
meet.ask: are you meeting {person} at {time} in the {place}? | is {person} waiting for us in the {place} at {time}?
will we see {person} in the {place} at {time}?
open.tell: the {place} opens at {time} on {weekday}. | on {weekday} the {place} is open from {time}.
from {time} on {weekday} you can go to the {place}.
open.ask: does the {place} open at {time} on {weekday}? | is the {place} open from {time} on {weekday}?
can we go to the {place} from {time} on {weekday}?
train.tell: the train to {city} leaves at {time} from platform {platform}.
at {time} there is a train to {city} from platform {platform}.
from platform {platform} the train goes to {city} at {time}.
train.ask: does the train to {city} leave at {time} from platform {platform}?
is there a train to {city} at {time} from platform {platform}?
does the train from platform {platform} go to {city} at {time}?
distance.tell: it is {kilometres} kilometers from {city} to {city2}. | {city} is {kilometres} kilometers from {city2}.
the distance between {city} and {city2} is {kilometres} kilometers.
distance.ask: is it {kilometres} kilometers from {city} to {city2}? | is {city} {kilometres} kilometers from {city2}?
is the distance between {city} and {city2} {kilometres} kilometers?
born.tell: {person} was born in {city} in {year}. | in {year} {person} was born in {city}.
{person} comes from {city} and was born in {year}.
born.ask: was {person} born in {city} in {year}?
does {person} come from {city}, and was {person/he/she} born in {year}?
is it true that {person} was born in {city} in {year}?
forecast.tell: it will {weather:be} in {city} on {weekday}. | on {weekday} it is going to {weather:be} in {city}.
they say that it will {weather:be} in {city} on {weekday}.
forecast.ask: will it {weather:be} in {city} on {weekday}? | is it going to {weather:be} in {city} on {weekday}?
do they say that it will {weather:be} in {city} on {weekday}?
temperature.tell: in {month} it is {degrees} degrees in {city}.
the temperature in {city} is {degrees} degrees in {month}. | in {city} we have {degrees} degrees in {month}.
temperature.ask: is it {degrees} degrees in {city} in {month}?
is the temperature in {city} {degrees} degrees in {month}? | do you have {degrees} degrees in {city} in {month}?
give.tell: {person} is giving {person2} {thing:a}. | {person} would like to give {thing:a} to {person2}.
{person2} is getting {thing:a} from {person}.
give.ask: is {person} giving {person2} {thing:a}? | would {person} like to give {thing:a} to {person2}?
is {person2} getting {thing:a} from {person}?
room.tell: {person} is in room {room}. | you will find {person} in room {room}. | room {room} is where {person} is.
room.ask: is {person} in room {room}? | will I find {person} in room {room}?
is it true that {person} is in room {room}?
bring.tell: please bring the {quality thing} to the {place}. | the {quality thing} must be taken to the {place}.
take the {quality thing} to the {place}, please.
bring.ask: can you bring the {quality thing} to the {place}? | should I take the {quality thing} to the {place}?
must the {quality thing} be taken to the {place}?
fear.tell: the {job} is afraid of {animal:s}. | the {job} does not like {animal:s}. | {animal:s} frighten the {job}.
fear.ask: is the {job} afraid of {animal:s}? | does the {job} not like {animal:s}? | do {animal:s} frighten the {job}?
explain.tell: the {job} knows a lot about {subject}. | the {job} is explaining {subject} to us.
the {job} teaches us {subject}.
explain.ask: does the {job} know a lot about {subject}? | is the {job} explaining {subject} to us?
does the {job} teach us {subject}?
it: it is very {quality}. | it cost {price} euros. | now it is in the {place}.
who: {person/he/she} lives in {city}. | {person/he/she} works in the {place}.
{person/he/she} can {activity} very well.
"""


def number(kind: str, value: int) -> str | None:
    """Nothing of its own."""
    return None


def word(item: Word) -> str:
    """A word as it is spelled; languages have a capital letter."""
    return str(item).capitalize() if item.key in LANGUAGES else str(item)


def plural(item: Word) -> str:
    """Dogs, foxes, butterflies, mice."""
    noun = str(item)
    if noun in PLURALS:
        return PLURALS[noun]
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if re.search("(s|x|sh|ch)$", noun) else "s")


def comparative(item: Word) -> str:
    """Smaller, bigger, more useful."""
    adjective = str(item)
    return COMPARATIVES.get(adjective, adjective + ("r" if adjective.endswith("e") else "er"))


FORMS = {
    "": lambda *items: " ".join(map(word, items)),
    "a": lambda item: f"a {item}",
    "s": plural,
    "many": lambda count, item: f"{count} {plural(item)}",
    "more": comparative,
    "is": lambda item: "are" if str(item).endswith("s") else "is",  # food
    "be": lambda item: WEATHER[str(item)],
}


def finish(text: str) -> str:
    """An before a vowel."""
    return re.sub(r"\ba (?=[aeiou](?!niv|seful))", "an ", text)
