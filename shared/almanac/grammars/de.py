"""German in Almanac's second world. How to read this file: shared/almanac/phrases.py."""

from __future__ import annotations

import re

from shared.almanac.phrases import Word

GENDERS = {"der": "m", "die": "f", "das": "n"}
#: Things, places, jobs, events: singular. Animals: singular, plural; the dative plural takes -n.
LEXICON = {
    "man": "victor = Viktor; ivan = Iwan; oscar = Oskar; philip = Philipp",
    "city": """
rome = Rom; vienna = Wien; munich = München; cologne = Köln; geneva = Genf; prague = Prag; athens = Athen
lisbon = Lissabon; warsaw = Warschau; moscow = Moskau; brussels = Brüssel; milan = Mailand; naples = Neapel
venice = Venedig; florence = Florenz; seville = Sevilla; zurich = Zürich; copenhagen = Kopenhagen; tokyo = Tokio
beijing = Peking; shanghai = Schanghai; vilnius = Wilna; belgrade = Belgrad
""",
    "thing": """
bag = die Tasche; suitcase = der Koffer; umbrella = der Regenschirm; hat = der Hut; key = der Schlüssel; book = das Buch
shirt = das Hemd; lamp = die Lampe; scarf = der Schal; table = der Tisch; chair = der Stuhl; bed = das Bett
mirror = der Spiegel; knife = das Messer; fork = die Gabel; spoon = der Löffel; plate = der Teller; cup = die Tasse
bottle = die Flasche; box = die Schachtel; basket = der Korb; bicycle = das Fahrrad; guitar = die Gitarre
camera = die Kamera; computer = der Computer; newspaper = die Zeitung; letter = der Brief; picture = das Bild
pencil = der Bleistift; ring = der Ring; jacket = die Jacke; dress = das Kleid; belt = der Gürtel
sweater = der Pullover; blanket = die Decke; pillow = das Kissen; candle = die Kerze; ladder = die Leiter
hammer = der Hammer; brush = die Bürste; towel = das Handtuch; comb = der Kamm; wallet = die Brieftasche
ticket = die Fahrkarte; toy = das Spielzeug; ball = der Ball; doll = die Puppe; carpet = der Teppich
map = die Landkarte; glass = das Glas
""",
    "animal": """
horse = das Pferd, Pferde; dog = der Hund, Hunde; cat = die Katze, Katzen; cow = die Kuh, Kühe
sheep = das Schaf, Schafe; bird = der Vogel, Vögel; duck = die Ente, Enten; goat = die Ziege, Ziegen
pig = das Schwein, Schweine; rabbit = das Kaninchen, Kaninchen; chicken = das Huhn, Hühner; donkey = der Esel, Esel
lion = der Löwe, Löwen; tiger = der Tiger, Tiger; elephant = der Elefant, Elefanten; bear = der Bär, Bären
wolf = der Wolf, Wölfe; fox = der Fuchs, Füchse; mouse = die Maus, Mäuse; rat = die Ratte, Ratten
snake = die Schlange, Schlangen; frog = der Frosch, Frösche; fish = der Fisch, Fische; bee = die Biene, Bienen
ant = die Ameise, Ameisen; spider = die Spinne, Spinnen; butterfly = der Schmetterling, Schmetterlinge
eagle = der Adler, Adler; owl = die Eule, Eulen; pigeon = die Taube, Tauben; parrot = der Papagei, Papageien
swan = der Schwan, Schwäne; goose = die Gans, Gänse; monkey = der Affe, Affen; camel = das Kamel, Kamele
giraffe = die Giraffe, Giraffen; crocodile = das Krokodil, Krokodile; turtle = die Schildkröte, Schildkröten
whale = der Wal, Wale; dolphin = der Delfin, Delfine; zebra = das Zebra, Zebras
squirrel = das Eichhörnchen, Eichhörnchen; hedgehog = der Igel, Igel; kangaroo = das Känguru, Kängurus
penguin = der Pinguin, Pinguine
""",
    "food": """
rice = Reis; bread = Brot; butter = Butter; cheese = Käse; flour = Mehl; sugar = Zucker; salt = Salz; pepper = Pfeffer
meat = Fleisch; ham = Schinken; honey = Honig; chocolate = Schokolade; fish = Fisch; pasta = Nudeln; apples = Äpfel
pears = Birnen; oranges = Orangen; lemons = Zitronen; bananas = Bananen; grapes = Trauben; cherries = Kirschen
strawberries = Erdbeeren; plums = Pflaumen; peaches = Pfirsiche; melons = Melonen; potatoes = Kartoffeln
tomatoes = Tomaten; onions = Zwiebeln; carrots = Karotten; cucumbers = Gurken; beans = Bohnen; peas = Erbsen
mushrooms = Pilze; garlic = Knoblauch; cabbage = Kohl; spinach = Spinat; nuts = Nüsse; almonds = Mandeln
olives = Oliven; figs = Feigen; coffee = Kaffee; tea = Tee
""",
    "place": """
bakery = die Bäckerei; museum = das Museum; school = die Schule; hotel = das Hotel; bank = die Bank
pharmacy = die Apotheke; library = die Bibliothek; restaurant = das Restaurant; cinema = das Kino; theater = das Theater
hospital = das Krankenhaus; church = die Kirche; kitchen = die Küche; park = der Park; village = das Dorf
castle = das Schloss; prison = das Gefängnis; sauna = die Sauna; university = die Universität
supermarket = der Supermarkt; shop = das Geschäft; cafe = das Café; bar = die Bar; club = der Klub; garage = die Garage
tunnel = der Tunnel; tent = das Zelt; cave = die Höhle; desert = die Wüste; valley = das Tal; tower = der Turm
forest = der Wald; circus = der Zirkus; laboratory = das Labor; pool = das Schwimmbad; stable = der Stall
monastery = das Kloster; embassy = die Botschaft; clinic = die Klinik; studio = das Studio; cathedral = der Dom
hut = die Hütte; temple = der Tempel; basement = der Keller
""",
    "job": """
doctor = der Arzt; teacher = der Lehrer; baker = der Bäcker; cook = der Koch; driver = der Fahrer; farmer = der Bauer
judge = der Richter; lawyer = der Anwalt; nurse = die Krankenschwester; singer = der Sänger; actor = der Schauspieler
painter = der Maler; writer = der Schriftsteller; dancer = der Tänzer; engineer = der Ingenieur
architect = der Architekt; pilot = der Pilot; sailor = der Matrose; soldier = der Soldat; policeman = der Polizist
butcher = der Metzger; tailor = der Schneider; waiter = der Kellner; hairdresser = der Friseur; gardener = der Gärtner
hunter = der Jäger; fisherman = der Fischer; mechanic = der Mechaniker; electrician = der Elektriker
plumber = der Klempner; journalist = der Journalist; photographer = der Fotograf; librarian = der Bibliothekar
postman = der Briefträger; musician = der Musiker; scientist = der Wissenschaftler; translator = der Übersetzer
student = der Student; king = der König; queen = die Königin
""",
    "activity": """
swim = schwimmen; dance = tanzen; sing = singen; cook = kochen; read = lesen; write = schreiben; draw = zeichnen
paint = malen; drive = fahren; ride = reiten; run = laufen; climb = klettern; fish = angeln; hunt = jagen; sew = nähen
knit = stricken; count = zählen; whistle = pfeifen; dive = tauchen; row = rudern; fly = fliegen; jump = springen
sleep = schlafen; rest = ruhen; work = arbeiten; travel = reisen; wait = warten; pay = bezahlen; eat = essen
drink = trinken; talk = reden; laugh = lachen; cry = weinen; smoke = rauchen; play = spielen; wash = waschen
think = denken; help = helfen; fight = kämpfen; pray = beten; dream = träumen; shout = schreien; cough = husten
""",
    "subject": """
mathematics = Mathematik; physics = Physik; chemistry = Chemie; biology = Biologie; history = Geschichte
geography = Geografie; music = Musik; art = Kunst; philosophy = Philosophie; medicine = Medizin; law = Recht
economics = Wirtschaft; politics = Politik; psychology = Psychologie; sociology = Soziologie; astronomy = Astronomie
geology = Geologie; architecture = Architektur; english = Englisch; german = Deutsch; french = Französisch
russian = Russisch; turkish = Türkisch; chinese = Chinesisch; spanish = Spanisch; italian = Italienisch
greek = Griechisch; latin = Latein; arabic = Arabisch; japanese = Japanisch; portuguese = Portugiesisch
polish = Polnisch; dutch = Niederländisch; swedish = Schwedisch; hungarian = Ungarisch; czech = Tschechisch
finnish = Finnisch; danish = Dänisch; norwegian = Norwegisch; hebrew = Hebräisch
""",
    "event": """
concert = das Konzert; wedding = die Hochzeit; exam = die Prüfung; party = die Party; festival = das Festival
conference = die Konferenz; meeting = die Sitzung; lecture = der Vortrag; lesson = die Unterrichtsstunde
match = das Match; race = das Rennen; game = das Spiel; exhibition = die Ausstellung; opera = die Oper
ballet = das Ballett; play = das Theaterstück; reading = die Lesung; course = der Kurs; seminar = das Seminar
congress = der Kongress; fair = die Messe; carnival = der Karneval; parade = die Parade; auction = die Auktion
ceremony = die Zeremonie; excursion = der Ausflug; walk = der Spaziergang; trip = die Reise; banquet = das Bankett
vote = die Abstimmung; breakfast = das Frühstück; picnic = das Picknick; competition = der Wettbewerb
tournament = das Turnier; marathon = der Marathon; rehearsal = die Probe; premiere = die Premiere
demonstration = die Demonstration; strike = der Streik; discussion = die Diskussion
""",
    "quality": """
big = groß, größer; small = klein; heavy = schwer; light = leicht; long = lang, länger; short = kurz, kürzer
wide = breit; narrow = schmal; thick = dick; thin = dünn; old = alt, älter; new = neu; clean = sauber; dirty = schmutzig
beautiful = schön; ugly = hässlich; cheap = billig; expensive = teuer, teurer; strong = stark, stärker
weak = schwach, schwächer; fast = schnell; slow = langsam; warm = warm, wärmer; cold = kalt, kälter; hard = hart, härter
soft = weich; dry = trocken; wet = nass; dark = dunkel, dunkler; bright = hell; loud = laut; quiet = leise
dangerous = gefährlich; useful = nützlich; simple = einfach; strange = seltsam; famous = berühmt; funny = lustig
smart = klug, klüger; sweet = süß
""",
    "colour": """
red = rot; blue = blau; green = grün; black = schwarz; white = weiß; yellow = gelb; brown = braun; grey = grau
""",
    "weather": """
rain = regnen; snow = schneien; wind = windig sein; fog = neblig sein; sun = sonnig sein; storm = stürmen
""",
}

SAYINGS = """
buy.tell: {person} hat für {price} Euro {colour thing:einen} gekauft.
für {price} Euro hat {person} {colour thing:einen} gekauft.
{person} hat {price} Euro für {colour thing:einen} bezahlt.
buy.ask: hat {person} für {price} Euro {colour thing:einen} gekauft?
stimmt es, dass {person} {colour thing:einen} für {price} Euro gekauft hat?
hat {person} wirklich {price} Euro für {colour thing:einen} bezahlt?
lose.tell: ich habe {place:in dem} {colour thing:meinen} verloren.
{colour thing:mein} ist {place:in dem} verloren gegangen. | {place:in dem} habe ich {colour thing:meinen} verloren.
lose.ask: haben Sie {place:in dem} {colour thing:einen} gesehen?
hat jemand {place:in dem} {colour thing:einen} gefunden? | gibt es {place:in dem} {colour thing:einen}?
cost.tell: {quality colour thing:der} kostet {price} Euro.
der Preis für {quality colour thing:den} beträgt {price} Euro.
für {price} Euro können Sie {quality colour thing:den} haben.
cost.ask: kostet {quality colour thing:der} {price} Euro?
beträgt der Preis für {quality colour thing:den} wirklich {price} Euro?
kann ich {quality colour thing:den} für {price} Euro haben?
lie.tell: {thing:der} ist {place:in dem}. | Sie finden {thing:den} {place:in dem}.
jemand hat {thing:den} {place:in dem} gelassen.
lie.ask: ist {thing:der} {place:in dem}? | haben Sie {thing:den} {place:in dem} gelassen?
finde ich {thing:den} {place:in dem}?
travel.tell: {person} fährt im {month} nach {city}. | im {month} reist {person} nach {city}.
{person} plant für {month} eine Reise nach {city}.
travel.ask: fährt {person} im {month} nach {city}? | wird {person} im {month} nach {city} reisen?
plant {person} für {month} eine Reise nach {city}?
live.tell: {job:der} wohnt in {city}. | {job:der} hat in {city} eine Wohnung. | in {city} wohnt {job:der}.
live.ask: wohnt {job:der} in {city}? | hat {job:der} in {city} eine Wohnung?
stimmt es, dass {job:der} in {city} wohnt?
know.tell: {person} kennt {job:einen} in {city}. | in {city} kennt {person} {job:einen}.
{person} hat {job:einen} aus {city} getroffen.
know.ask: kennt {person} {job:einen} in {city}? | hat {person} jemals {job:einen} aus {city} getroffen?
gibt es in {city} {job:einen}, {job/den/die} {person} kennt?
can.tell: {person} kann {activity}. | {person} hat {activity} gelernt. | {activity} kann {person}.
can.ask: kann {person} {activity}? | hat {person} {activity} gelernt? | kann {person} wirklich {activity}?
want.tell: am {weekday} will {job:der} {activity}. | {job:der} möchte am {weekday} {activity}.
{job:der} wird am {weekday} {activity}.
want.ask: will {job:der} am {weekday} {activity}? | möchte {job:der} am {weekday} {activity}?
wird {job:der} am {weekday} {activity}?
learn.tell: {person} lernt in {city} {activity}. | in {city} lernt {person} {activity}.
{person} ist nach {city} gegangen und lernt dort {activity}.
learn.ask: lernt {person} in {city} {activity}? | ist {person} nach {city} gegangen und lernt dort {activity}?
kann {person} in {city} {activity} lernen?
study.tell: {person} studiert in {city} {subject}. | in {city} studiert {person} {subject}.
{person} hat {subject} als Fach an der Universität in {city}.
study.ask: studiert {person} in {city} {subject}? | hat {person} {subject} als Fach an der Universität in {city}?
stimmt es, dass {person} in {city} {subject} studiert?
timetable.tell: am {weekday} haben wir um {time} Uhr {subject}. | {subject} beginnt am {weekday} um {time} Uhr.
die Stunde in {subject} ist am {weekday} um {time} Uhr.
timetable.ask: haben wir am {weekday} um {time} Uhr {subject}? | beginnt {subject} am {weekday} um {time} Uhr?
ist die Stunde in {subject} am {weekday} um {time} Uhr?
when.tell: {event:der} ist am {date}. | am {date} gibt es {event:einen}. | {event:der} findet am {date} statt.
when.ask: ist {event:der} am {date}? | findet {event:der} am {date} statt? | gibt es am {date} {event:einen}?
where.tell: {event:der} fand {year} in {city} statt. | {year} gab es in {city} {event:einen}.
{year} haben wir in {city} {event:einen} gesehen.
where.ask: fand {event:der} {year} in {city} statt? | gab es {year} in {city} {event:einen}?
haben Sie {year} in {city} {event:einen} gesehen?
invite.tell: {person} hat uns am {weekday} {event:zu dem} eingeladen.
am {weekday} gehen wir mit {person} {event:zu dem}.
wir haben von {person} für {weekday} eine Einladung {event:zu dem}.
invite.ask: hat {person} Sie am {weekday} {event:zu dem} eingeladen?
gehen Sie am {weekday} mit {person} {event:zu dem}?
haben Sie von {person} für {weekday} eine Einladung {event:zu dem}?
see.tell: {place:in dem} gibt es {count animal:viele}. | {place:in dem} habe ich {count animal:viele} gesehen.
{count animal:viele} leben {place:in dem}.
see.ask: gibt es {place:in dem} {count animal:viele}? | haben Sie {place:in dem} {count animal:viele} gesehen?
leben {count animal:viele} {place:in dem}?
keep.tell: {person} hat {animal:einen}. | {person} besitzt {animal:einen}. | {person} hält zu Hause {animal:einen}.
keep.ask: hat {person} {animal:einen}? | besitzt {person} {animal:einen}? | hält {person} zu Hause {animal:einen}?
compare.tell: {animal:der} ist {quality:mehr} als {animal2:der}.
im Vergleich mit {animal2:dem} ist {animal:der} {quality:mehr}.
ich glaube, dass {animal:der} {quality:mehr} ist als {animal2:der}.
compare.ask: ist {animal:der} {quality:mehr} als {animal2:der}?
ist {animal:der} im Vergleich mit {animal2:dem} {quality:mehr}?
glauben Sie, dass {animal:der} {quality:mehr} ist als {animal2:der}?
describe.tell: {thing:der} ist sehr {quality}. | es ist {quality thing:ein sehr}.
ich finde {thing:den} sehr {quality}.
describe.ask: ist {thing:der} sehr {quality}? | ist es {quality thing:ein sehr}?
finden Sie {thing:den} sehr {quality}?
eat.tell: {job:der} isst am {weekday} {food}. | am {weekday} bekommt {job:der} {food}.
am {weekday} gibt es für {job:den} {food}.
eat.ask: isst {job:der} am {weekday} {food}? | gibt es am {weekday} für {job:den} {food}?
bekommt {job:der} am {weekday} {food}?
like.tell: {person} mag {food}. | {person} isst gern {food}. | {person} hat eine Vorliebe für {food}.
like.ask: mag {person} {food}? | isst {person} gern {food}? | hat {person} eine Vorliebe für {food}?
weigh.tell: {count} Kilo {food} kosten {price} Euro. | für {price} Euro bekommen Sie {count} Kilo {food}.
für {count} Kilo {food} bezahlen Sie {price} Euro.
weigh.ask: kosten {count} Kilo {food} {price} Euro? | bekomme ich für {price} Euro {count} Kilo {food}?
bezahle ich {price} Euro für {count} Kilo {food}?
stock.tell: {place:in dem} gibt es {food} nicht mehr. | {food} gibt es {place:in dem} nicht mehr.
{food} bekommt man {place:in dem} nicht mehr.
stock.ask: gibt es {place:in dem} {food}? | haben sie {place:in dem} {food}? | kann man {place:in dem} {food} bekommen?
work.tell: {job:der} arbeitet in {city} {place:in dem}. | in {city} arbeitet {job:der} {place:in einem}.
{job:der} hat in {city} {place:in einem} Arbeit gefunden.
work.ask: arbeitet {job:der} in {city} {place:in dem}? | hat {job:der} in {city} {place:in einem} Arbeit gefunden?
arbeitet {job:der} in {city} {place:in einem}?
meet.tell: wir treffen {person} um {time} Uhr {place:in dem}. | um {time} Uhr wartet {person} {place:in dem} auf uns.
wir sehen {person} {place:in dem} um {time} Uhr.
meet.ask: treffen Sie {person} um {time} Uhr {place:in dem}? | wartet {person} um {time} Uhr {place:in dem} auf uns?
sehen wir {person} {place:in dem} um {time} Uhr?
open.tell: {place:der} öffnet am {weekday} um {time} Uhr. | am {weekday} ist {place:der} ab {time} Uhr offen.
ab {time} Uhr können Sie am {weekday} {place:in den} gehen.
open.ask: öffnet {place:der} am {weekday} um {time} Uhr? | ist {place:der} am {weekday} ab {time} Uhr offen?
können wir am {weekday} ab {time} Uhr {place:in den} gehen?
train.tell: der Zug nach {city} fährt um {time} Uhr von Gleis {platform} ab.
um {time} Uhr gibt es von Gleis {platform} einen Zug nach {city}.
von Gleis {platform} fährt der Zug um {time} Uhr nach {city}.
train.ask: fährt der Zug nach {city} um {time} Uhr von Gleis {platform} ab?
gibt es um {time} Uhr von Gleis {platform} einen Zug nach {city}?
fährt der Zug von Gleis {platform} um {time} Uhr nach {city}?
distance.tell: von {city} nach {city2} sind es {kilometres} Kilometer.
{city} liegt {kilometres} Kilometer von {city2} entfernt.
die Entfernung zwischen {city} und {city2} beträgt {kilometres} Kilometer.
distance.ask: sind es von {city} nach {city2} {kilometres} Kilometer?
liegt {city} {kilometres} Kilometer von {city2} entfernt?
beträgt die Entfernung zwischen {city} und {city2} {kilometres} Kilometer?
born.tell: {person} wurde {year} in {city} geboren. | {year} wurde {person} in {city} geboren.
{person} kommt aus {city} und ist {year} geboren.
born.ask: wurde {person} {year} in {city} geboren? | kommt {person} aus {city} und ist {person/er/sie} {year} geboren?
stimmt es, dass {person} {year} in {city} geboren wurde?
forecast.tell: am {weekday} wird es in {city} {weather}. | in {city} wird es am {weekday} {weather}.
man sagt, dass es am {weekday} in {city} {weather} wird.
forecast.ask: wird es am {weekday} in {city} {weather}? | wird es in {city} am {weekday} {weather}?
sagt man, dass es am {weekday} in {city} {weather} wird?
temperature.tell: im {month} sind es in {city} {degrees} Grad.
die Temperatur beträgt in {city} im {month} {degrees} Grad. | in {city} haben wir im {month} {degrees} Grad.
temperature.ask: sind es im {month} in {city} {degrees} Grad?
beträgt die Temperatur in {city} im {month} {degrees} Grad? | haben Sie in {city} im {month} {degrees} Grad?
give.tell: {person} schenkt {person2} {thing:einen}. | {person} möchte {person2} {thing:einen} schenken.
{person2} bekommt von {person} {thing:einen}.
give.ask: schenkt {person} {person2} {thing:einen}? | möchte {person} {person2} {thing:einen} schenken?
bekommt {person2} von {person} {thing:einen}?
room.tell: {person} ist in Zimmer {room}. | Sie finden {person} in Zimmer {room}. | in Zimmer {room} ist {person}.
room.ask: ist {person} in Zimmer {room}? | finde ich {person} in Zimmer {room}?
stimmt es, dass {person} in Zimmer {room} ist?
bring.tell: bitte bringen Sie {quality thing:den} {place:in den}.
{quality thing:der} muss {place:in den} gebracht werden. | bringen Sie {quality thing:den} bitte {place:in den}.
bring.ask: können Sie {quality thing:den} {place:in den} bringen? | soll ich {quality thing:den} {place:in den} bringen?
muss {quality thing:der} {place:in den} gebracht werden?
fear.tell: {job:der} hat Angst vor {animal:n}. | {job:der} mag keine {animal:pl}. | {animal:pl} machen {job:dem} Angst.
fear.ask: hat {job:der} Angst vor {animal:n}? | mag {job:der} keine {animal:pl}? | machen {animal:pl} {job:dem} Angst?
explain.tell: {job:der} weiß viel über {subject}. | {job:der} erklärt uns {subject}.
{job:der} unterrichtet uns in {subject}.
explain.ask: weiß {job:der} viel über {subject}? | erklärt uns {job:der} {subject}?
unterrichtet uns {job:der} in {subject}?
it: {thing/er/sie/es} ist sehr {quality}. | {thing/er/sie/es} hat {price} Euro gekostet.
jetzt ist {thing/er/sie/es} {place:in dem}.
who: {person/er/sie} wohnt in {city}. | {person/er/sie} arbeitet {place:in dem}.
{person/er/sie} kann sehr gut {activity}.
"""
# determiner: endings by gender in nominative, accusative, dative; and of the adjective behind it
DER = {"m": ("der", "den", "dem"), "f": ("die", "die", "der"), "n": ("das", "das", "dem")}
EIN = {"m": ("ein", "einen", "einem"), "f": ("eine", "eine", "einer"), "n": ("ein", "ein", "einem")}
AFTER_DER = {"m": ("e", "en", "en"), "f": ("e", "e", "en"), "n": ("e", "e", "en")}
AFTER_EIN = {"m": ("er", "en", "en"), "f": ("e", "e", "en"), "n": ("es", "es", "en")}
# nouns that take -n or -en in all cases but the nominative
WEAK_N = "Löwe Affe Matrose Bauer".split()
WEAK_EN = "Elefant Bär Architekt Pilot Soldat Polizist Journalist Fotograf Student".split()
STEMS = {"teuer": "teur", "dunkel": "dunkl", "leise": "leis"}


def number(kind: str, value: int) -> str | None:
    """Nothing of its own."""
    return None


def noun(item: Word, case: int) -> str:
    """A noun in the singular, nominative 0, accusative 1, dative 2."""
    name = str(item)
    weak = "n" if name in WEAK_N else "en" if name in WEAK_EN else ""
    return name + weak if case else name


def adjective(item: Word, ending: str) -> str:
    """An adjective before its noun: großer, teures, dunkle."""
    return STEMS.get(str(item), str(item)) + ending


def phrase(determiner: str, case: int, *items: Word) -> str:
    """Determiner, adjectives, noun."""
    *adjectives, thing = items
    definite = determiner == "der"
    endings = AFTER_DER if definite else AFTER_EIN
    first = DER[thing.gender][case] if definite else EIN[thing.gender][case].replace("ein", determiner, 1)
    described = [adjective(item, endings[thing.gender][case]) for item in adjectives]
    return " ".join([first, *described, noun(thing, case)])


def very(quality: Word, thing: Word) -> str:
    """Ein sehr schöner Hut."""
    return f"{EIN[thing.gender][0]} sehr {adjective(quality, AFTER_EIN[thing.gender][0])} {thing}"


def comparative(item: Word) -> str:
    """Kleiner, größer, teurer."""
    return item.form(1) or f"{STEMS.get(str(item), item)}er"


def dative_plural(item: Word) -> str:
    """Hunden, Katzen, Kängurus."""
    name = item.forms[1]
    return name if name[-1] in "ns" else name + "n"


FORMS = {
    "": lambda *items: " ".join(map(str, items)),
    "der": lambda *items: phrase("der", 0, *items),
    "den": lambda *items: phrase("der", 1, *items),
    "dem": lambda *items: phrase("der", 2, *items),
    "einen": lambda *items: phrase("ein", 1, *items),
    "mein": lambda *items: phrase("mein", 0, *items),
    "meinen": lambda *items: phrase("mein", 1, *items),
    "in dem": lambda item: f"in {phrase('der', 2, item)}",
    "in den": lambda item: f"in {phrase('der', 1, item)}",
    "in einem": lambda item: f"in {phrase('ein', 2, item)}",
    "zu dem": lambda item: f"zu {phrase('der', 2, item)}",
    "ein sehr": very,
    "mehr": comparative,
    "viele": lambda count, item: f"{count} {item.forms[1]}",
    "pl": lambda item: item.forms[1],
    "n": dative_plural,
}  # fmt: skip
CONTRACTIONS = {"in dem": "im", "in das": "ins", "zu dem": "zum", "zu der": "zur"}


def finish(text: str) -> str:
    """Im Park, ins Museum, zur Hochzeit."""
    return re.sub(r"\b(in dem|in das|zu dem|zu der)\b", lambda match: CONTRACTIONS[match[0]], text)
