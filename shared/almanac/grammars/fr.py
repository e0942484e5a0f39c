"""French in Almanac's second world. How to read this file: shared/almanac/phrases.py."""

from __future__ import annotations

import re

from shared.almanac.phrases import Word

GENDERS = {"un": "m", "une": "f", "les": "p"}
#: Animals: singular, and a plural that is not -s. Qualities: masculine, and a feminine that is not -e.
LEXICON = {
    "woman": """
natalia = Natalia; silvia = Silvia; monika = Monika
""",
    "man": """
peter = Pierre; thomas = Thomas; mark = Marc; stefan = Stéphane; philip = Philippe; andreas = André
alexander = Alexandre
""",
    "city": """
london = Londres; vienna = Vienne; munich = Munich; geneva = Genève; hamburg = Hambourg; prague = Prague
athens = Athènes; lisbon = Lisbonne; warsaw = Varsovie; moscow = Moscou; brussels = Bruxelles; naples = Naples
venice = Venise; barcelona = Barcelone; seville = Séville; copenhagen = Copenhague; beijing = Pékin; florence = Florence
belgrade = Belgrade; izmir = Izmir
""",
    "thing": """
bag = un sac; suitcase = une valise; umbrella = un parapluie; hat = un chapeau; key = une clé; book = un livre
shirt = une chemise; lamp = une lampe; scarf = une écharpe; table = une table; chair = une chaise; bed = un lit
mirror = un miroir; knife = un couteau; fork = une fourchette; spoon = une cuillère; plate = une assiette
cup = une tasse; bottle = une bouteille; box = une boîte; basket = un panier; bicycle = un vélo; guitar = une guitare
camera = une caméra; computer = un ordinateur; newspaper = un journal; letter = une lettre; picture = un tableau
pencil = un crayon; ring = une bague; jacket = une veste; dress = une robe; belt = une ceinture; sweater = un pull
blanket = une couverture; pillow = un oreiller; candle = une bougie; ladder = une échelle; hammer = un marteau
brush = une brosse; towel = une serviette; comb = un peigne; wallet = un portefeuille; ticket = un billet
toy = un jouet; ball = un ballon; doll = une poupée; carpet = un tapis; map = une carte; glass = un verre
""",
    "animal": """
horse = un cheval, chevaux; dog = un chien; cat = un chat; cow = une vache; sheep = un mouton; bird = un oiseau, oiseaux
duck = un canard; goat = une chèvre; pig = un cochon; rabbit = un lapin; chicken = une poule; donkey = un âne
lion = un lion; tiger = un tigre; elephant = un éléphant; bear = un ours, ours; wolf = un loup; fox = un renard
mouse = une souris, souris; rat = un rat; snake = un serpent; frog = une grenouille; fish = un poisson
bee = une abeille; ant = une fourmi; spider = une araignée; butterfly = un papillon; eagle = un aigle
owl = une chouette; pigeon = un pigeon; parrot = un perroquet; swan = un cygne; goose = une oie; monkey = un singe
camel = un chameau, chameaux; giraffe = une girafe; crocodile = un crocodile; turtle = une tortue; whale = une baleine
dolphin = un dauphin; zebra = un zèbre; squirrel = un écureuil; hedgehog = un porc-épic, porcs-épics
kangaroo = un kangourou; penguin = un pingouin
""",
    "food": """
rice = un riz; bread = un pain; butter = un beurre; cheese = un fromage; flour = une farine; sugar = un sucre
salt = un sel; pepper = un poivre; meat = une viande; ham = un jambon; honey = un miel; chocolate = un chocolat
fish = un poisson; pasta = les pâtes; apples = les pommes; pears = les poires; oranges = les oranges
lemons = les citrons; bananas = les bananes; grapes = un raisin; cherries = les cerises; strawberries = les fraises
plums = les prunes; peaches = les pêches; melons = les melons; potatoes = les patates; tomatoes = les tomates
onions = les oignons; carrots = les carottes; cucumbers = les concombres; beans = les fèves; peas = les pois
mushrooms = les champignons; garlic = un ail; cabbage = un chou; spinach = les épinards; nuts = les noix
almonds = les amandes; olives = les olives; figs = les figues; coffee = un café; tea = un thé
""",
    "place": """
bakery = une boulangerie; museum = un musée; school = une école; hotel = un hôtel; bank = une banque
pharmacy = une pharmacie; library = une bibliothèque; restaurant = un restaurant; cinema = un cinéma
theater = un théâtre; hospital = un hôpital; church = une église; kitchen = une cuisine; park = un parc
village = un village; castle = un château; prison = une prison; sauna = un sauna; university = une université
supermarket = un supermarché; shop = un magasin; cafe = un café; bar = un bar; club = un club; garage = un garage
tunnel = un tunnel; tent = une tente; cave = une grotte; desert = un désert; valley = une vallée; tower = une tour
forest = une forêt; circus = un cirque; laboratory = un laboratoire; pool = une piscine; stable = une écurie
monastery = un monastère; embassy = une ambassade; clinic = une clinique; studio = un studio; cathedral = une cathédrale
hut = une cabane; temple = un temple; basement = un sous-sol
""",
    "job": """
doctor = un médecin; teacher = un professeur; baker = un boulanger; cook = un cuisinier; driver = un chauffeur
farmer = un fermier; judge = un juge; lawyer = un avocat; nurse = une infirmière; singer = un chanteur
actor = un acteur; painter = un peintre; writer = un écrivain; dancer = un danseur; engineer = un ingénieur
architect = un architecte; pilot = un pilote; sailor = un marin; soldier = un soldat; policeman = un policier
butcher = un boucher; tailor = un tailleur; waiter = un serveur; hairdresser = un coiffeur; gardener = un jardinier
hunter = un chasseur; fisherman = un pêcheur; mechanic = un mécanicien; electrician = un électricien
plumber = un plombier; journalist = un journaliste; photographer = un photographe; librarian = un bibliothécaire
postman = un facteur; musician = un musicien; scientist = un scientifique; translator = un traducteur
student = un étudiant; king = un roi; queen = une reine
""",
    "activity": """
swim = nager; dance = danser; sing = chanter; cook = cuisiner; read = lire; write = écrire; draw = dessiner
paint = peindre; drive = conduire; ride = chevaucher; run = courir; climb = grimper; fish = pêcher; hunt = chasser
sew = coudre; knit = tricoter; count = compter; whistle = siffler; dive = plonger; row = ramer; fly = voler
jump = sauter; sleep = dormir; rest = se reposer; work = travailler; travel = voyager; wait = attendre; pay = payer
eat = manger; drink = boire; talk = parler; laugh = rire; cry = pleurer; smoke = fumer; play = jouer; wash = laver
think = penser; help = aider; fight = lutter; pray = prier; dream = rêver; shout = crier; cough = tousser
""",
    "subject": """
mathematics = les mathématiques; physics = une physique; chemistry = une chimie; biology = une biologie
history = une histoire; geography = une géographie; music = une musique; art = un art; philosophy = une philosophie
medicine = une médecine; law = un droit; economics = une économie; politics = une politique
psychology = une psychologie; sociology = une sociologie; astronomy = une astronomie; geology = une géologie
architecture = une architecture; english = un anglais; german = un allemand; french = un français; russian = un russe
turkish = un turc; chinese = un chinois; spanish = un espagnol; italian = un italien; greek = un grec; latin = un latin
arabic = un arabe; japanese = un japonais; portuguese = un portugais; polish = un polonais; dutch = un néerlandais
swedish = un suédois; hungarian = un hongrois; czech = un tchèque; finnish = un finnois; danish = un danois
norwegian = un norvégien; hebrew = un hébreu
""",
    "event": """
concert = un concert; wedding = un mariage; exam = un examen; party = une fête; festival = un festival
conference = une conférence; meeting = une réunion; lecture = un exposé; lesson = une leçon; match = un match
race = une course; game = un jeu; exhibition = une exposition; opera = un opéra; ballet = un ballet; play = une pièce
reading = une lecture; course = un cours; seminar = un séminaire; congress = un congrès; fair = une foire
carnival = un carnaval; parade = un défilé; auction = une vente; ceremony = une cérémonie; excursion = une excursion
walk = une promenade; trip = un voyage; banquet = un banquet; vote = un vote; breakfast = un petit-déjeuner
picnic = un pique-nique; competition = un concours; tournament = un tournoi; marathon = un marathon
rehearsal = une répétition; premiere = une première; demonstration = une manifestation; strike = une grève
discussion = une discussion
""",
    "quality": """
big = grand; small = petit; heavy = lourd; light = léger, légère; long = long, longue; short = court; wide = large
narrow = étroit; thick = épais, épaisse; thin = mince; old = ancien, ancienne; new = neuf, neuve; clean = propre
dirty = sale; beautiful = joli; ugly = laid; cheap = abordable; expensive = cher, chère; strong = fort; weak = faible
fast = rapide; slow = lent; warm = chaud; cold = froid; hard = dur; soft = mou, molle; dry = sec, sèche; wet = humide
dark = sombre; bright = clair; loud = bruyant; quiet = silencieux, silencieuse; dangerous = dangereux, dangereuse
useful = utile; simple = simple; strange = étrange; famous = célèbre; funny = drôle; smart = intelligent
sweet = doux, douce
""",
    "colour": """
red = rouge; blue = bleu; green = vert; black = noir; white = blanc, blanche; yellow = jaune; brown = brun; grey = gris
""",
    "weather": """
rain = pleuvoir; snow = neiger; wind = faire du vent; fog = faire du brouillard; sun = faire soleil
storm = y avoir un orage
""",
}

SAYINGS = """
buy.tell: {person} a acheté {thing colour:un} pour {price} euros.
pour {price} euros, {person} a acheté {thing colour:un}. | {person} a payé {price} euros pour {thing colour:un}.
buy.ask: est-ce que {person} a acheté {thing colour:un} pour {price} euros?
est-il vrai que {person} a acheté {thing colour:un} pour {price} euros?
{person} a-t-{person/il/elle} vraiment payé {price} euros pour {thing colour:un}?
lose.tell: j'ai perdu {thing colour:mon} dans {place:le}. | {thing colour:mon} a été perdu{thing//e} dans {place:le}.
dans {place:le}, j'ai perdu {thing colour:mon}.
lose.ask: avez-vous vu {thing colour:un} dans {place:le}?
est-ce que quelqu'un a trouvé {thing colour:un} dans {place:le}? | y a-t-il {thing colour:un} dans {place:le}?
cost.tell: {thing colour quality:le} coûte {price} euros. | le prix de {thing colour quality:le} est de {price} euros.
pour {price} euros, vous pouvez avoir {thing colour quality:le}.
cost.ask: est-ce que {thing colour quality:le} coûte {price} euros?
le prix de {thing colour quality:le} est-il vraiment de {price} euros?
puis-je avoir {thing colour quality:le} pour {price} euros?
lie.tell: {thing:le} est dans {place:le}. | vous trouverez {thing:le} dans {place:le}.
quelqu'un a laissé {thing:le} dans {place:le}.
lie.ask: est-ce que {thing:le} est dans {place:le}? | avez-vous laissé {thing:le} dans {place:le}?
vais-je trouver {thing:le} dans {place:le}?
travel.tell: {person} va à {city} en {month}. | en {month}, {person} part pour {city}.
{person} prévoit un voyage à {city} en {month}.
travel.ask: est-ce que {person} va à {city} en {month}? | {person} part-{person/il/elle} pour {city} en {month}?
est-ce que {person} prévoit un voyage à {city} en {month}?
live.tell: {job:le} habite à {city}. | {job:le} a un appartement à {city}. | c'est à {city} que {job:le} habite.
live.ask: est-ce que {job:le} habite à {city}? | est-ce que {job:le} a un appartement à {city}?
est-il vrai que {job:le} habite à {city}?
know.tell: {person} connaît {job:un} à {city}. | à {city}, {person} connaît {job:un}.
{person} a rencontré {job:un} de {city}.
know.ask: est-ce que {person} connaît {job:un} à {city}?
{person} a-t-{person/il/elle} déjà rencontré {job:un} de {city}? | y a-t-il {job:un} à {city} que {person} connaît?
can.tell: {person} sait {activity}. | {person} a appris à {activity}. | {person} est capable de {activity}.
can.ask: est-ce que {person} sait {activity}? | {person} a-t-{person/il/elle} appris à {activity}?
est-ce que {person} est capable de {activity}?
want.tell: {weekday}, {job:le} veut {activity}. | {job:le} voudrait {activity} {weekday}.
{job:le} va {activity} {weekday}.
want.ask: est-ce que {job:le} veut {activity} {weekday}? | est-ce que {job:le} voudrait {activity} {weekday}?
est-ce que {job:le} va {activity} {weekday}?
learn.tell: {person} apprend à {activity} à {city}. | à {city}, {person} apprend à {activity}.
{person} est à {city} pour apprendre à {activity}.
learn.ask: est-ce que {person} apprend à {activity} à {city}?
est-ce que {person} est à {city} pour apprendre à {activity}?
{person} peut-{person/il/elle} apprendre à {activity} à {city}?
study.tell: {person} étudie {subject:le} à {city}. | à {city}, {person} étudie {subject:le}.
{person} fait des études de {subject} à {city}.
study.ask: est-ce que {person} étudie {subject:le} à {city}?
{person} fait-{person/il/elle} des études de {subject} à {city}?
est-il vrai que {person} étudie {subject:le} à {city}?
timetable.tell: {weekday}, nous avons {subject} à {time}. | {subject:le} commence{subject////nt} {weekday} à {time}.
le cours de {subject} est {weekday} à {time}.
timetable.ask: est-ce que nous avons {subject} à {time} {weekday}?
est-ce que {subject:le} commence{subject////nt} {weekday} à {time}? | le cours de {subject} est-il {weekday} à {time}?
when.tell: {event:le} est le {date}. | le {date}, il y a {event:un}. | {event:le} a lieu le {date}.
when.ask: est-ce que {event:le} est le {date}? | est-ce que {event:le} a lieu le {date}?
y a-t-il {event:un} le {date}?
where.tell: {event:le} a eu lieu à {city} en {year}. | en {year}, il y a eu {event:un} à {city}.
en {year}, nous avons vu {event:un} à {city}.
where.ask: est-ce que {event:le} a eu lieu à {city} en {year}? | y a-t-il eu {event:un} à {city} en {year}?
avez-vous vu {event:un} à {city} en {year}?
invite.tell: {person} nous a invités à {event:le} {weekday}. | {weekday}, nous allons à {event:le} avec {person}.
nous avons une invitation de {person} à {event:le} pour {weekday}.
invite.ask: est-ce que {person} vous a invités à {event:le} {weekday}?
allez-vous à {event:le} avec {person} {weekday}? | avez-vous une invitation de {person} à {event:le} pour {weekday}?
see.tell: il y a {count animal:plusieurs} dans {place:le}. | dans {place:le}, j'ai vu {count animal:plusieurs}.
{count animal:plusieurs} vivent dans {place:le}.
see.ask: y a-t-il {count animal:plusieurs} dans {place:le}? | avez-vous vu {count animal:plusieurs} dans {place:le}?
est-ce que {count animal:plusieurs} vivent dans {place:le}?
keep.tell: {person} a {animal:un}. | {person} possède {animal:un}. | {person} a {animal:un} à la maison.
keep.ask: est-ce que {person} a {animal:un}? | {person} possède-t-{person/il/elle} {animal:un}?
est-ce que {person} a {animal:un} à la maison?
compare.tell: {animal:le} est plus {quality animal:accord} que {animal2:le}.
par rapport à {animal2:le}, {animal:le} est plus {quality animal:accord}.
je crois que {animal:le} est plus {quality animal:accord} que {animal2:le}.
compare.ask: est-ce que {animal:le} est plus {quality animal:accord} que {animal2:le}?
par rapport à {animal2:le}, {animal:le} est-{animal/il/elle} plus {quality animal:accord}?
croyez-vous que {animal:le} est plus {quality animal:accord} que {animal2:le}?
describe.tell: {thing:le} est très {quality thing:accord}. | c'est {thing:un} très {quality thing:accord}.
je trouve {thing:le} très {quality thing:accord}.
describe.ask: est-ce que {thing:le} est très {quality thing:accord}? | est-ce {thing:un} très {quality thing:accord}?
trouvez-vous {thing:le} très {quality thing:accord}?
eat.tell: {job:le} mange {food:du} {weekday}. | {weekday}, {job:le} prend {food:du}.
il y a {food:du} pour {job:le} {weekday}.
eat.ask: est-ce que {job:le} mange {food:du} {weekday}? | y a-t-il {food:du} pour {job:le} {weekday}?
est-ce que {job:le} prend {food:du} {weekday}?
like.tell: {person} aime {food:le}. | {person} aime manger {food:du}. | {person} adore {food:le}.
like.ask: est-ce que {person} aime {food:le}? | {person} aime-t-{person/il/elle} manger {food:du}?
est-ce que {person} adore {food:le}?
weigh.tell: {count} kilos de {food} coûtent {price} euros. | pour {price} euros, vous avez {count} kilos de {food}.
vous payez {price} euros pour {count} kilos de {food}.
weigh.ask: est-ce que {count} kilos de {food} coûtent {price} euros?
puis-je avoir {count} kilos de {food} pour {price} euros?
est-ce que je paie {price} euros pour {count} kilos de {food}?
stock.tell: il n'y a plus de {food} dans {place:le}. | dans {place:le}, ils n'ont plus de {food}.
on ne trouve plus de {food} dans {place:le}.
stock.ask: y a-t-il {food:du} dans {place:le}? | ont-ils {food:du} dans {place:le}?
peut-on trouver {food:du} dans {place:le}?
work.tell: {job:le} travaille dans {place:le} à {city}. | à {city}, {job:le} travaille dans {place:un}.
{job:le} a trouvé du travail dans {place:un} à {city}.
work.ask: est-ce que {job:le} travaille dans {place:le} à {city}?
est-ce que {job:le} a trouvé du travail dans {place:un} à {city}?
est-ce que {job:le} travaille dans {place:un} à {city}?
meet.tell: nous retrouvons {person} à {time} dans {place:le}. | à {time}, {person} nous attend dans {place:le}.
nous verrons {person} dans {place:le} à {time}.
meet.ask: retrouvez-vous {person} à {time} dans {place:le}? | est-ce que {person} nous attend dans {place:le} à {time}?
verrons-nous {person} dans {place:le} à {time}?
open.tell: {place:le} ouvre à {time} {weekday}. | {weekday}, {place:le} est ouvert{place//e} dès {time}.
dès {time}, vous pouvez aller dans {place:le} {weekday}.
open.ask: est-ce que {place:le} ouvre à {time} {weekday}?
est-ce que {place:le} est ouvert{place//e} dès {time} {weekday}?
pouvons-nous aller dans {place:le} dès {time} {weekday}?
train.tell: le train pour {city} part à {time} de la voie {platform}.
à {time}, il y a un train pour {city} sur la voie {platform}.
de la voie {platform}, le train part pour {city} à {time}.
train.ask: est-ce que le train pour {city} part à {time} de la voie {platform}?
y a-t-il un train pour {city} à {time} sur la voie {platform}?
le train de la voie {platform} part-il pour {city} à {time}?
distance.tell: il y a {kilometres} kilomètres de {city} à {city2}. | {city} est à {kilometres} kilomètres de {city2}.
la distance entre {city} et {city2} est de {kilometres} kilomètres.
distance.ask: y a-t-il {kilometres} kilomètres de {city} à {city2}?
est-ce que {city} est à {kilometres} kilomètres de {city2}?
la distance entre {city} et {city2} est-elle de {kilometres} kilomètres?
born.tell: {person} est né{person//e} à {city} en {year}. | en {year}, {person} est né{person//e} à {city}.
{person} vient de {city} et est né{person//e} en {year}.
born.ask: est-ce que {person} est né{person//e} à {city} en {year}?
est-ce que {person} vient de {city} et est né{person//e} en {year}?
est-il vrai que {person} est né{person//e} à {city} en {year}?
forecast.tell: il va {weather} à {city} {weekday}. | {weekday}, il va {weather} à {city}.
on dit qu'il va {weather} à {city} {weekday}.
forecast.ask: est-ce qu'il va {weather} à {city} {weekday}? | va-t-il {weather} à {city} {weekday}?
dit-on qu'il va {weather} à {city} {weekday}?
temperature.tell: en {month}, il fait {degrees} degrés à {city}.
la température à {city} est de {degrees} degrés en {month}. | à {city}, nous avons {degrees} degrés en {month}.
temperature.ask: est-ce qu'il fait {degrees} degrés à {city} en {month}?
la température à {city} est-elle de {degrees} degrés en {month}? | avez-vous {degrees} degrés à {city} en {month}?
give.tell: {person} donne {thing:un} à {person2}. | {person} voudrait donner {thing:un} à {person2}.
{person2} reçoit {thing:un} de {person}.
give.ask: est-ce que {person} donne {thing:un} à {person2}?
{person} voudrait-{person/il/elle} donner {thing:un} à {person2}? | est-ce que {person2} reçoit {thing:un} de {person}?
room.tell: {person} est dans la chambre {room}. | vous trouverez {person} dans la chambre {room}.
c'est dans la chambre {room} que se trouve {person}.
room.ask: est-ce que {person} est dans la chambre {room}? | vais-je trouver {person} dans la chambre {room}?
est-il vrai que {person} est dans la chambre {room}?
bring.tell: apportez {thing quality:le} dans {place:le}, s'il vous plaît.
il faut apporter {thing quality:le} dans {place:le}. | veuillez apporter {thing quality:le} dans {place:le}.
bring.ask: pouvez-vous apporter {thing quality:le} dans {place:le}?
dois-je apporter {thing quality:le} dans {place:le}? | faut-il apporter {thing quality:le} dans {place:le}?
fear.tell: {job:le} a peur des {animal:pl}. | {job:le} n'aime pas les {animal:pl}.
les {animal:pl} font peur à {job:le}.
fear.ask: est-ce que {job:le} a peur des {animal:pl}? | est-ce que {job:le} n'aime pas les {animal:pl}?
est-ce que les {animal:pl} font peur à {job:le}?
explain.tell: {job:le} connaît bien {subject:le}. | {job:le} nous explique {subject:le}.
{job:le} nous enseigne {subject:le}.
explain.ask: est-ce que {job:le} connaît bien {subject:le}? | est-ce que {job:le} nous explique {subject:le}?
est-ce que {job:le} nous enseigne {subject:le}?
it: {thing/il/elle} est très {quality thing:accord}. | {thing/il/elle} a coûté {price} euros.
maintenant, {thing/il/elle} est dans {place:le}.
who: {person/il/elle} habite à {city}. | {person/il/elle} travaille dans {place:le}.
{person/il/elle} sait très bien {activity}.
"""
VOWEL = "[aeiouyhâàéèêîôœ]"  # and most h; two words with an aspirated one are named in `finish`


def number(kind: str, value: int) -> str | None:
    """Clock times as 7 h 45."""
    return f"{value // 100} h {value % 100:02}" if kind == "time" else None


def agreeing(quality: Word, noun: Word) -> str:
    """An adjective with the gender of its noun: lourd, lourde, sèche."""
    if noun.gender != "f":
        return str(quality)
    return quality.form(1) or str(quality).removesuffix("e") + "e"


def phrase(articles: tuple[str, str, str], noun: Word, *qualities: Word) -> str:
    """Article, noun, adjectives; before a vowel `le` becomes l', `mon` stands for `ma`."""
    article = articles["mfp".index(noun.gender)]
    return " ".join([article, str(noun), *(agreeing(quality, noun) for quality in qualities)])


def plural(noun: Word) -> str:
    """Chiens, chevaux, souris."""
    return noun.form(1) or f"{noun}s"


FORMS = {
    "": lambda *items: " ".join(map(str, items)),
    "le": lambda *items: phrase(("le", "la", "les"), *items),
    "un": lambda *items: phrase(("un", "une", "des"), *items),
    "mon": lambda *items: phrase(("mon", "ma", "mes"), *items),
    "du": lambda *items: phrase(("du", "de la", "des"), *items),
    "accord": agreeing,
    "plusieurs": lambda count, noun: f"{count} {plural(noun)}",
    "pl": plural,
}
CONTRACTIONS = {"de le": "du", "de les": "des", "à le": "au", "à les": "aux"}


def finish(text: str) -> str:
    """L'école, qu'Anna, d'ail, mon écharpe, du musée; a space before the question mark."""
    text = re.sub(
        rf"\b(le|la|de|que) (?={VOWEL})(?!Hambourg|hongrois)", lambda match: match[1][:-1] + "'", text, flags=re.I
    )
    text = re.sub(rf"\bdu (?={VOWEL})", "de l'", text)
    text = re.sub(rf"\bma (?={VOWEL})", "mon ", text)
    text = re.sub(r"\b(de|à) (le|les)\b(?!-)", lambda match: CONTRACTIONS[match[0]], text)
    return text.replace("?", " ?")
