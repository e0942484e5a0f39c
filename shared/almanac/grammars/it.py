"""Italian in Almanac's second world. How to read this file: shared/almanac/phrases.py."""

from __future__ import annotations

import re

from shared.almanac.phrases import Word

GENDERS = {"un": "m", "uno": "m", "una": "f", "i": "m", "gli": "m", "le": "f"}
#: An article tells the gender, and is not elided here (una ape). Food: "i", "gli" and "le" are plurals.
LEXICON = {
    "woman": """
monika = Monica; natalia = Natalia; clara = Chiara; julia = Giulia
""",
    "man": """
peter = Pietro; paul = Paolo; thomas = Tommaso; victor = Vittorio; max = Massimo; mark = Marco; stefan = Stefano
arthur = Arturo; philip = Filippo; alexander = Alessandro; andreas = Andrea; simon = Simone; martin = Martino
robert = Roberto; anton = Antonio; daniel = Daniele; david = Davide; felix = Felice
""",
    "city": """
berlin = Berlino; paris = Parigi; london = Londra; rome = Roma; munich = Monaco; cologne = Colonia; geneva = Ginevra
hamburg = Amburgo; prague = Praga; athens = Atene; lisbon = Lisbona; warsaw = Varsavia; moscow = Mosca; dublin = Dublino
brussels = Bruxelles; milan = Milano; naples = Napoli; venice = Venezia; florence = Firenze; barcelona = Barcellona
seville = Siviglia; zurich = Zurigo; stockholm = Stoccolma; beijing = Pechino; belgrade = Belgrado; zagreb = Zagabria
izmir = Smirne; copenhagen = Copenaghen
""",
    "thing": """
bag = una borsa; suitcase = una valigia; umbrella = un ombrello; hat = un cappello; key = una chiave; book = un libro
shirt = una camicia; lamp = una lampada; scarf = una sciarpa; table = un tavolo; chair = una sedia; bed = un letto
mirror = uno specchio; knife = un coltello; fork = una forchetta; spoon = un cucchiaio; plate = un piatto
cup = una tazza; bottle = una bottiglia; box = una scatola; basket = un cesto; bicycle = una bicicletta
guitar = una chitarra; camera = una fotocamera; computer = un computer; newspaper = un giornale; letter = una lettera
picture = un quadro; pencil = una matita; ring = un anello; jacket = una giacca; dress = un vestito; belt = una cintura
sweater = un maglione; blanket = una coperta; pillow = un cuscino; candle = una candela; ladder = una scala
hammer = un martello; brush = una spazzola; towel = un asciugamano; comb = un pettine; wallet = un portafoglio
ticket = un biglietto; toy = un giocattolo; ball = un pallone; doll = una bambola; carpet = un tappeto; map = una mappa
glass = un bicchiere
""",
    "animal": """
horse = un cavallo; dog = un cane; cat = un gatto; cow = una mucca; sheep = una pecora; bird = un uccello
duck = una papera; goat = una capra; pig = un maiale; rabbit = un coniglio; chicken = una gallina; donkey = un asino
lion = un leone; tiger = una tigre; elephant = un elefante; bear = un orso; wolf = un lupo; fox = una volpe
mouse = un topo; rat = un ratto; snake = un serpente; frog = una rana; fish = un pesce; bee = una ape; ant = una formica
spider = un ragno; butterfly = una farfalla; eagle = una aquila; owl = un gufo; pigeon = un piccione
parrot = un pappagallo; swan = un cigno; goose = una oca; monkey = una scimmia; camel = un cammello
giraffe = una giraffa; crocodile = un coccodrillo; turtle = una tartaruga; whale = una balena; dolphin = un delfino
zebra = una zebra; squirrel = uno scoiattolo; hedgehog = un riccio; kangaroo = un canguro; penguin = un pinguino
""",
    "food": """
rice = un riso; bread = un pane; butter = un burro; cheese = un formaggio; flour = una farina; sugar = uno zucchero
salt = un sale; pepper = un pepe; meat = una carne; ham = un prosciutto; honey = un miele; chocolate = una cioccolata
fish = un pesce; pasta = una pasta; apples = le mele; pears = le pere; oranges = le arance; lemons = i limoni
bananas = le banane; grapes = una uva; cherries = le ciliegie; strawberries = le fragole; plums = le prugne
peaches = le pesche; melons = i meloni; potatoes = le patate; tomatoes = i pomodori; onions = le cipolle
carrots = le carote; cucumbers = i cetrioli; beans = i fagioli; peas = i piselli; mushrooms = i funghi
garlic = un aglio; cabbage = un cavolo; spinach = gli spinaci; nuts = le noci; almonds = le mandorle; olives = le olive
figs = i fichi; coffee = un caffè; tea = un tè
""",
    "place": """
bakery = un panificio; museum = un museo; school = una scuola; hotel = un albergo; bank = una banca
pharmacy = una farmacia; library = una biblioteca; restaurant = un ristorante; cinema = un cinema; theater = un teatro
hospital = un ospedale; church = una chiesa; kitchen = una cucina; park = un parco; village = un paese
castle = un castello; prison = una prigione; sauna = una sauna; university = una università
supermarket = un supermercato; shop = un negozio; cafe = una caffetteria; bar = un bar; club = un club
garage = un garage; tunnel = un tunnel; tent = una tenda; cave = una grotta; desert = un deserto; valley = una valle
tower = una torre; forest = una foresta; circus = un circo; laboratory = un laboratorio; pool = una piscina
stable = una stalla; monastery = un monastero; embassy = una ambasciata; clinic = una clinica; studio = uno studio
cathedral = un duomo; hut = una capanna; temple = un tempio; basement = una cantina
""",
    "job": """
doctor = un medico; teacher = un professore; baker = un fornaio; cook = un cuoco; driver = un autista
farmer = un contadino; judge = un giudice; lawyer = un avvocato; nurse = una infermiera; singer = un cantante
actor = un attore; painter = un pittore; writer = uno scrittore; dancer = un ballerino; engineer = un ingegnere
architect = un architetto; pilot = un pilota; sailor = un marinaio; soldier = un soldato; policeman = un poliziotto
butcher = un macellaio; tailor = un sarto; waiter = un cameriere; hairdresser = un parrucchiere
gardener = un giardiniere; hunter = un cacciatore; fisherman = un pescatore; mechanic = un meccanico
electrician = un elettricista; plumber = un idraulico; journalist = un giornalista; photographer = un fotografo
librarian = un bibliotecario; postman = un postino; musician = un musicista; scientist = uno scienziato
translator = un traduttore; student = uno studente; king = un re; queen = una regina
""",
    "activity": """
swim = nuotare; dance = ballare; sing = cantare; cook = cucinare; read = leggere; write = scrivere; draw = disegnare
paint = dipingere; drive = guidare; ride = cavalcare; run = correre; climb = scalare; fish = pescare; hunt = cacciare
sew = cucire; knit = sferruzzare; count = contare; whistle = fischiare; dive = tuffarsi; row = remare; fly = volare
jump = saltare; sleep = dormire; rest = riposare; work = lavorare; travel = viaggiare; wait = aspettare; pay = pagare
eat = mangiare; drink = bere; talk = parlare; laugh = ridere; cry = piangere; smoke = fumare; play = giocare
wash = lavare; think = pensare; help = aiutare; fight = lottare; pray = pregare; dream = sognare; shout = gridare
cough = tossire
""",
    "subject": """
mathematics = una matematica; physics = una fisica; chemistry = una chimica; biology = una biologia
history = una storia; geography = una geografia; music = una musica; art = una arte; philosophy = una filosofia
medicine = una medicina; law = un diritto; economics = una economia; politics = una politica
psychology = una psicologia; sociology = una sociologia; astronomy = una astronomia; geology = una geologia
architecture = una architettura; english = un inglese; german = un tedesco; french = un francese; russian = un russo
turkish = un turco; chinese = un cinese; spanish = uno spagnolo; italian = un italiano; greek = un greco
latin = un latino; arabic = un arabo; japanese = un giapponese; portuguese = un portoghese; polish = un polacco
dutch = un olandese; swedish = uno svedese; hungarian = un ungherese; czech = un ceco; finnish = un finlandese
danish = un danese; norwegian = un norvegese; hebrew = un ebraico
""",
    "event": """
concert = un concerto; wedding = un matrimonio; exam = un esame; party = una festa; festival = un festival
conference = una conferenza; meeting = una riunione; lecture = una relazione; lesson = una lezione; match = una partita
race = una corsa; game = un gioco; exhibition = una mostra; opera = una opera; ballet = un balletto; play = una commedia
reading = una lettura; course = un corso; seminar = un seminario; congress = un congresso; fair = una fiera
carnival = un carnevale; parade = una sfilata; auction = una asta; ceremony = una cerimonia; excursion = una escursione
walk = una passeggiata; trip = un viaggio; banquet = un banchetto; vote = una votazione; breakfast = una colazione
picnic = un picnic; competition = un concorso; tournament = un torneo; marathon = una maratona; rehearsal = una prova
premiere = una prima; demonstration = una manifestazione; strike = uno sciopero; discussion = una discussione
""",
    "quality": """
big = grande; small = piccolo; heavy = pesante; light = leggero; long = lungo; short = corto; wide = largo
narrow = stretto; thick = spesso; thin = sottile; old = vecchio; new = nuovo; clean = pulito; dirty = sporco
beautiful = bello; ugly = brutto; cheap = economico; expensive = caro; strong = forte; weak = debole; fast = veloce
slow = lento; warm = caldo; cold = freddo; hard = duro; soft = morbido; dry = secco; wet = bagnato; dark = scuro
bright = chiaro; loud = rumoroso; quiet = silenzioso; dangerous = pericoloso; useful = utile; simple = semplice
strange = strano; famous = famoso; funny = divertente; smart = furbo; sweet = dolce
""",
    "colour": """
red = rosso; blue = azzurro; green = verde; black = nero; white = bianco; yellow = giallo; brown = marrone
grey = grigio
""",
    "weather": """
rain = piovere; snow = nevicare; wind = esserci vento; fog = esserci nebbia; sun = esserci sole
storm = esserci tempesta
""",
}

SAYINGS = """
buy.tell: {person} ha comprato {thing colour:un} per {price} euro.
per {price} euro {person} ha comprato {thing colour:un}. | {person} ha pagato {price} euro per {thing colour:un}.
buy.ask: {person} ha comprato {thing colour:un} per {price} euro?
è vero che {person} ha comprato {thing colour:un} per {price} euro?
{person} ha davvero pagato {price} euro per {thing colour:un}?
lose.tell: ho perso {thing colour:mio} in {place:il}. | {thing colour:mio} si è pers{thing/o/a} in {place:il}.
in {place:il} ho perso {thing colour:mio}.
lose.ask: ha visto {thing colour:un} in {place:il}? | qualcuno ha trovato {thing colour:un} in {place:il}?
c'è {thing colour:un} in {place:il}?
cost.tell: {thing colour quality:il} costa {price} euro. | il prezzo di {thing colour quality:il} è di {price} euro.
per {price} euro può avere {thing colour quality:il}.
cost.ask: {thing colour quality:il} costa {price} euro?
il prezzo di {thing colour quality:il} è davvero di {price} euro?
posso avere {thing colour quality:il} per {price} euro?
lie.tell: {thing:il} è in {place:il}. | troverà {thing:il} in {place:il}.
qualcuno ha lasciato {thing:il} in {place:il}.
lie.ask: {thing:il} è in {place:il}? | ha lasciato {thing:il} in {place:il}? | troverò {thing:il} in {place:il}?
travel.tell: {person} va a {city} in {month}. | in {month} {person} parte per {city}.
{person} prevede un viaggio a {city} per {month}.
travel.ask: {person} va a {city} in {month}? | {person} parte per {city} in {month}?
{person} prevede un viaggio a {city} per {month}?
live.tell: {job:il} abita a {city}. | {job:il} ha un appartamento a {city}. | è a {city} che abita {job:il}.
live.ask: {job:il} abita a {city}? | {job:il} ha un appartamento a {city}? | è vero che {job:il} abita a {city}?
know.tell: {person} conosce {job:un} a {city}. | a {city} {person} conosce {job:un}.
{person} ha incontrato {job:un} di {city}.
know.ask: {person} conosce {job:un} a {city}? | {person} ha mai incontrato {job:un} di {city}?
c'è {job:un} a {city} che {person} conosce?
can.tell: {person} sa {activity}. | {person} ha imparato a {activity}. | {person} è capace di {activity}.
can.ask: {person} sa {activity}? | {person} ha imparato a {activity}? | {person} è capace di {activity}?
want.tell: {weekday} {job:il} vuole {activity}. | {job:il} vorrebbe {activity} {weekday}.
{job:il} ha intenzione di {activity} {weekday}.
want.ask: {job:il} vuole {activity} {weekday}? | {job:il} vorrebbe {activity} {weekday}?
{job:il} ha intenzione di {activity} {weekday}?
learn.tell: {person} impara a {activity} a {city}. | a {city} {person} impara a {activity}.
{person} è andat{person/o/a} a {city} per imparare a {activity}.
learn.ask: {person} impara a {activity} a {city}? | {person} è andat{person/o/a} a {city} per imparare a {activity}?
{person} può imparare a {activity} a {city}?
study.tell: {person} studia {subject} a {city}. | a {city} {person} studia {subject}.
{person} è all'università di {city} per studiare {subject}.
study.ask: {person} studia {subject} a {city}? | {person} è all'università di {city} per studiare {subject}?
è vero che {person} studia {subject} a {city}?
timetable.tell: {weekday} abbiamo {subject} alle {time}. | la lezione di {subject} comincia alle {time} di {weekday}.
{weekday} alle {time} c'è {subject}.
timetable.ask: {weekday} abbiamo {subject} alle {time}? | la lezione di {subject} comincia alle {time} di {weekday}?
{weekday} alle {time} c'è {subject}?
when.tell: {event:il} è il {date}. | il {date} c'è {event:un}. | {event:il} ha luogo il {date}.
when.ask: {event:il} è il {date}? | {event:il} ha luogo il {date}? | c'è {event:un} il {date}?
where.tell: {event:il} ha avuto luogo a {city} nel {year}. | nel {year} c'è stat{event/o/a} {event:un} a {city}.
nel {year} abbiamo visto {event:un} a {city}.
where.ask: {event:il} ha avuto luogo a {city} nel {year}? | c'è stat{event/o/a} {event:un} a {city} nel {year}?
avete visto {event:un} a {city} nel {year}?
invite.tell: {person} ci ha invitati a {event:il} {weekday}. | {weekday} andiamo a {event:il} con {person}.
abbiamo un invito di {person} a {event:il} per {weekday}.
invite.ask: {person} vi ha invitati a {event:il} {weekday}? | {weekday} andate a {event:il} con {person}?
avete un invito di {person} a {event:il} per {weekday}?
see.tell: ci sono {count animal:molti} in {place:il}. | in {place:il} ho visto {count animal:molti}.
{count animal:molti} vivono in {place:il}.
see.ask: ci sono {count animal:molti} in {place:il}? | ha visto {count animal:molti} in {place:il}?
{count animal:molti} vivono in {place:il}?
keep.tell: {person} ha {animal:un}. | {person} possiede {animal:un}. | {person} tiene {animal:un} a casa.
keep.ask: {person} ha {animal:un}? | {person} possiede {animal:un}? | {person} tiene {animal:un} a casa?
compare.tell: {animal:il} è più {quality animal:accordo} di {animal2:il}.
rispetto a {animal2:il}, {animal:il} è più {quality animal:accordo}.
credo che {animal:il} sia più {quality animal:accordo} di {animal2:il}.
compare.ask: {animal:il} è più {quality animal:accordo} di {animal2:il}?
rispetto a {animal2:il}, {animal:il} è più {quality animal:accordo}?
crede che {animal:il} sia più {quality animal:accordo} di {animal2:il}?
describe.tell: {thing:il} è molto {quality thing:accordo}. | è {thing:un} molto {quality thing:accordo}.
trovo {thing:il} molto {quality thing:accordo}.
describe.ask: {thing:il} è molto {quality thing:accordo}? | è {thing:un} molto {quality thing:accordo}?
trova {thing:il} molto {quality thing:accordo}?
eat.tell: {job:il} mangia {food} {weekday}. | {weekday} {job:il} prende {food}.
{weekday} per {job:il} c{food:è} {food}.
eat.ask: {job:il} mangia {food} {weekday}? | {weekday} per {job:il} c{food:è} {food}?
{weekday} {job:il} prende {food}?
like.tell: a {person} piac{food:e} {food:il}. | a {person} piace mangiare {food}. | {person} adora {food:il}.
like.ask: a {person} piac{food:e} {food:il}? | a {person} piace mangiare {food}? | {person} adora {food:il}?
weigh.tell: {count} chili di {food} costano {price} euro. | per {price} euro si hanno {count} chili di {food}.
si pagano {price} euro per {count} chili di {food}.
weigh.ask: {count} chili di {food} costano {price} euro? | posso avere {count} chili di {food} per {price} euro?
si pagano {price} euro per {count} chili di {food}?
stock.tell: in {place:il} non c{food:è} più {food}. | in {place:il} non hanno più {food}.
non c{food:è} più {food} in {place:il}.
stock.ask: c{food:è} {food} in {place:il}? | in {place:il} hanno {food}? | si può comprare {food} in {place:il}?
work.tell: {job:il} lavora in {place:il} a {city}. | a {city} {job:il} lavora in {place:un}.
{job:il} ha trovato lavoro in {place:un} a {city}.
work.ask: {job:il} lavora in {place:il} a {city}? | {job:il} ha trovato lavoro in {place:un} a {city}?
{job:il} lavora in {place:un} a {city}?
meet.tell: incontriamo {person} alle {time} in {place:il}. | alle {time} {person} ci aspetta in {place:il}.
vedremo {person} in {place:il} alle {time}.
meet.ask: incontrate {person} alle {time} in {place:il}? | {person} ci aspetta in {place:il} alle {time}?
vedremo {person} in {place:il} alle {time}?
open.tell: {place:il} apre alle {time} {weekday}. | {weekday} {place:il} è apert{place/o/a} dalle {time}.
dalle {time} di {weekday} può andare in {place:il}.
open.ask: {place:il} apre alle {time} {weekday}? | {weekday} {place:il} è apert{place/o/a} dalle {time}?
dalle {time} di {weekday} possiamo andare in {place:il}?
train.tell: il treno per {city} parte alle {time} dal binario {platform}.
alle {time} c'è un treno per {city} al binario {platform}.
dal binario {platform} parte alle {time} il treno per {city}.
train.ask: il treno per {city} parte alle {time} dal binario {platform}?
c'è un treno per {city} alle {time} al binario {platform}?
dal binario {platform} parte alle {time} il treno per {city}?
distance.tell: ci sono {kilometres} chilometri da {city} a {city2}. | {city} è a {kilometres} chilometri da {city2}.
la distanza tra {city} e {city2} è di {kilometres} chilometri.
distance.ask: ci sono {kilometres} chilometri da {city} a {city2}? | {city} è a {kilometres} chilometri da {city2}?
la distanza tra {city} e {city2} è di {kilometres} chilometri?
born.tell: {person} è nat{person/o/a} a {city} nel {year}. | nel {year} {person} è nat{person/o/a} a {city}.
{person} viene da {city} ed è nat{person/o/a} nel {year}.
born.ask: {person} è nat{person/o/a} a {city} nel {year}? | {person} viene da {city} ed è nat{person/o/a} nel {year}?
è vero che {person} è nat{person/o/a} a {city} nel {year}?
forecast.tell: {weekday} dovrebbe {weather} a {city}. | a {city} {weekday} dovrebbe {weather}.
dicono che {weekday} dovrebbe {weather} a {city}.
forecast.ask: {weekday} dovrebbe {weather} a {city}? | a {city} {weekday} dovrebbe {weather}?
dicono che {weekday} dovrebbe {weather} a {city}?
temperature.tell: in {month} ci sono {degrees} gradi a {city}.
la temperatura a {city} è di {degrees} gradi in {month}. | a {city} abbiamo {degrees} gradi in {month}.
temperature.ask: in {month} ci sono {degrees} gradi a {city}? | la temperatura a {city} è di {degrees} gradi in {month}?
a {city} avete {degrees} gradi in {month}?
give.tell: {person} dà {thing:un} a {person2}. | {person} vorrebbe dare {thing:un} a {person2}.
{person2} riceve {thing:un} da {person}.
give.ask: {person} dà {thing:un} a {person2}? | {person} vorrebbe dare {thing:un} a {person2}?
{person2} riceve {thing:un} da {person}?
room.tell: {person} è nella stanza {room}. | troverà {person} nella stanza {room}. | nella stanza {room} c'è {person}.
room.ask: {person} è nella stanza {room}? | troverò {person} nella stanza {room}?
è vero che {person} è nella stanza {room}?
bring.tell: per favore, porti {thing quality:il} in {place:il}. | bisogna portare {thing quality:il} in {place:il}.
porti {thing quality:il} in {place:il}, per favore.
bring.ask: può portare {thing quality:il} in {place:il}? | devo portare {thing quality:il} in {place:il}?
bisogna portare {thing quality:il} in {place:il}?
fear.tell: {job:il} ha paura di {animal:i}. | a {job:il} non piacciono {animal:i}. | {animal:i} fanno paura a {job:il}.
fear.ask: {job:il} ha paura di {animal:i}? | a {job:il} non piacciono {animal:i}? | {animal:i} fanno paura a {job:il}?
explain.tell: {job:il} sa molto di {subject}. | {job:il} ci spiega {subject:il}. | {job:il} ci insegna {subject:il}.
explain.ask: {job:il} sa molto di {subject}? | {job:il} ci spiega {subject:il}? | {job:il} ci insegna {subject:il}?
it: è molto {quality thing:accordo}. | è costat{thing/o/a} {price} euro. | ora è in {place:il}.
who: {person/lui/lei} abita a {city}. | {person/lui/lei} lavora in {place:il}.
{person/lui/lei} sa {activity} molto bene.
"""
IMPURE = re.compile("s[^aeiou]|z|gn|ps|x|y")  # before these il is lo, un is uno, i is gli


def number(kind: str, value: int) -> str | None:
    """Nothing of its own."""
    return None


def is_plural(noun: Word) -> bool:
    """Return True if the food is a plural."""
    return noun.kind == "food" and str(noun)[-1] in "ie" and str(noun) not in SINGULAR_FOOD


SINGULAR_FOOD = ("pane", "sale", "pepe", "carne", "miele", "pesce")


def agreeing(quality: Word, noun: Word) -> str:
    """Lungo, lunga; grande."""
    name = str(quality)
    return name[:-1] + "a" if noun.gender == "f" and name.endswith("o") else name


def described(noun: Word, *qualities: Word) -> str:
    """A noun and its adjectives."""
    return " ".join([str(noun), *(agreeing(quality, noun) for quality in qualities)])


def article(name: str, gender: str, many: bool) -> str:
    """Il, lo, l', la; i, gli, le; with the space behind it."""
    vowel = name[0] in "aeiouè"
    if many:
        return "le " if gender == "f" else "gli " if vowel or IMPURE.match(name) else "i "
    if vowel:
        return "l'"
    return "la " if gender == "f" else "lo " if IMPURE.match(name) else "il "


def definite(noun: Word, *qualities: Word) -> str:
    """Il cane nero, lo studente, l'ape, gli spinaci."""
    return article(str(noun), noun.gender, is_plural(noun)) + described(noun, *qualities)


def indefinite(noun: Word, *qualities: Word) -> str:
    """Un cane, uno studente, una papera, un'ape."""
    name = str(noun)
    if noun.gender == "f":
        return ("un'" if name[0] in "aeiou" else "una ") + described(noun, *qualities)
    return ("uno " if IMPURE.match(name) else "un ") + described(noun, *qualities)


def plural(noun: Word) -> str:
    """Cani, oche, ricci, mucche; formiche."""
    name = str(noun)
    if name.endswith("a") and noun.gender == "f":
        return name[:-1] + ("he" if name[-2] in "cg" else "e")
    return name[:-1] + ("" if name.endswith("io") else "i")


FORMS = {
    "": lambda *items: " ".join(map(str, items)),
    "il": definite,
    "un": indefinite,
    "mio": lambda *items: f"{'la mia' if items[0].gender == 'f' else 'il mio'} {described(*items)}",
    "accordo": agreeing,
    "molti": lambda count, noun: f"{count} {plural(noun)}",
    "i": lambda noun: article(plural(noun), noun.gender, many=True) + plural(noun),
    "e": lambda noun: "ciono" if is_plural(noun) else "e",
    "è": lambda noun: "i sono" if is_plural(noun) else "'è",
}
JOINED = {"in": "ne", "a": "a", "di": "de", "da": "da"}
DOUBLED = {"il ": "l ", "lo ": "llo ", "la ": "lla ", "l'": "ll'", "i ": "i ", "gli ": "gli ", "le ": "lle "}


def finish(text: str) -> str:
    """Nel parco, nello studio, all'opera, dei gatti, degli orsi; ad Atene."""
    text = re.sub(r"\b(in|a|di|da) (il |lo |la |l'|i |gli |le )", lambda m: JOINED[m[1]] + DOUBLED[m[2]], text)
    return re.sub(r"\ba (?=[aA])", "ad ", text)
