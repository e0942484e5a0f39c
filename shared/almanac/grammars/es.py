"""Spanish in Almanac's second world. How to read this file: shared/almanac/phrases.py."""

from __future__ import annotations

import re

from shared.almanac.phrases import Word

GENDERS = {"un": "m", "una": "f", "los": "m", "las": "f"}
#: Animals: singular; the plural is made. Qualities: masculine; the feminine is made. Food: "los" and "las" are plurals.
LEXICON = {
    "woman": """
monika = Mónica; natalia = Natalia
""",
    "man": """
peter = Pedro; paul = Pablo; thomas = Tomás; victor = Víctor; felix = Félix; max = Max; mark = Marcos; stefan = Esteban
oscar = Óscar; arthur = Arturo; philip = Felipe; alexander = Alejandro; andreas = Andrés; simon = Simón; martin = Martín
robert = Roberto; igor = Ígor; ivan = Iván; anton = Antonio
""",
    "city": """
berlin = Berlín; paris = París; london = Londres; rome = Roma; vienna = Viena; istanbul = Estambul; munich = Múnich
cologne = Colonia; geneva = Ginebra; hamburg = Hamburgo; prague = Praga; athens = Atenas; lisbon = Lisboa
warsaw = Varsovia; moscow = Moscú; dublin = Dublín; brussels = Bruselas; amsterdam = Ámsterdam; milan = Milán
naples = Nápoles; venice = Venecia; florence = Florencia; seville = Sevilla; zurich = Zúrich; stockholm = Estocolmo
copenhagen = Copenhague; tokyo = Tokio; beijing = Pekín; shanghai = Shanghái; sydney = Sídney; vilnius = Vilna
belgrade = Belgrado; izmir = Esmirna
""",
    "thing": """
bag = una bolsa; suitcase = una maleta; umbrella = un paraguas; hat = un sombrero; key = una llave; book = un libro
shirt = una camisa; lamp = una lámpara; scarf = una bufanda; table = una mesa; chair = una silla; bed = una cama
mirror = un espejo; knife = un cuchillo; fork = un tenedor; spoon = una cuchara; plate = un plato; cup = una taza
bottle = una botella; box = una caja; basket = una cesta; bicycle = una bicicleta; guitar = una guitarra
camera = una cámara; computer = un ordenador; newspaper = un periódico; letter = una carta; picture = un cuadro
pencil = un lápiz; ring = un anillo; jacket = una chaqueta; dress = un vestido; belt = un cinturón; sweater = un jersey
blanket = una manta; pillow = una almohada; candle = una vela; ladder = una escalera; hammer = un martillo
brush = un cepillo; towel = una toalla; comb = un peine; wallet = una cartera; ticket = un billete; toy = un juguete
ball = un balón; doll = una muñeca; carpet = una alfombra; map = un mapa; glass = un vaso
""",
    "animal": """
horse = un caballo; dog = un perro; cat = un gato; cow = una vaca; sheep = una oveja; bird = un pájaro; duck = un pato
goat = una cabra; pig = un cerdo; rabbit = un conejo; chicken = una gallina; donkey = un burro; lion = un león
tiger = un tigre; elephant = un elefante; bear = un oso; wolf = un lobo; fox = un zorro; mouse = un ratón
rat = una rata; snake = una serpiente; frog = una rana; fish = un pez; bee = una abeja; ant = una hormiga
spider = una araña; butterfly = una mariposa; eagle = un águila; owl = un búho; pigeon = una paloma; parrot = un loro
swan = un cisne; goose = un ganso; monkey = un mono; camel = un camello; giraffe = una jirafa; crocodile = un cocodrilo
turtle = una tortuga; whale = una ballena; dolphin = un delfín; zebra = una cebra; squirrel = una ardilla
hedgehog = un erizo; kangaroo = un canguro; penguin = un pingüino
""",
    "food": """
rice = un arroz; bread = un pan; butter = una mantequilla; cheese = un queso; flour = una harina; sugar = un azúcar
salt = una sal; pepper = una pimienta; meat = una carne; ham = un jamón; honey = una miel; chocolate = un chocolate
fish = un pescado; pasta = una pasta; apples = las manzanas; pears = las peras; oranges = las naranjas
lemons = los limones; bananas = los plátanos; grapes = las uvas; cherries = las cerezas; strawberries = las fresas
plums = las ciruelas; peaches = los melocotones; melons = los melones; potatoes = las patatas; tomatoes = los tomates
onions = las cebollas; carrots = las zanahorias; cucumbers = los pepinos; beans = las judías; peas = los guisantes
mushrooms = los champiñones; garlic = un ajo; cabbage = un repollo; spinach = las espinacas; nuts = las nueces
almonds = las almendras; olives = las aceitunas; figs = los higos; coffee = un café; tea = un té
""",
    "place": """
bakery = una panadería; museum = un museo; school = una escuela; hotel = un hotel; bank = un banco
pharmacy = una farmacia; library = una biblioteca; restaurant = un restaurante; cinema = un cine; theater = un teatro
hospital = un hospital; church = una iglesia; kitchen = una cocina; park = un parque; village = un pueblo
castle = un castillo; prison = una cárcel; sauna = una sauna; university = una universidad
supermarket = un supermercado; shop = una tienda; cafe = una cafetería; bar = un bar; club = un club; garage = un garaje
tunnel = un túnel; tent = una carpa; cave = una cueva; desert = un desierto; valley = un valle; tower = una torre
forest = un bosque; circus = un circo; laboratory = un laboratorio; pool = una piscina; stable = un establo
monastery = un monasterio; embassy = una embajada; clinic = una clínica; studio = un estudio; cathedral = una catedral
hut = una cabaña; temple = un templo; basement = un sótano
""",
    "job": """
doctor = un médico; teacher = un profesor; baker = un panadero; cook = un cocinero; driver = un conductor
farmer = un granjero; judge = un juez; lawyer = un abogado; nurse = una enfermera; singer = un cantante
actor = un actor; painter = un pintor; writer = un escritor; dancer = un bailarín; engineer = un ingeniero
architect = un arquitecto; pilot = un piloto; sailor = un marinero; soldier = un soldado; policeman = un policía
butcher = un carnicero; tailor = un sastre; waiter = un camarero; hairdresser = un peluquero; gardener = un jardinero
hunter = un cazador; fisherman = un pescador; mechanic = un mecánico; electrician = un electricista
plumber = un fontanero; journalist = un periodista; photographer = un fotógrafo; librarian = un bibliotecario
postman = un cartero; musician = un músico; scientist = un científico; translator = un traductor
student = un estudiante; king = un rey; queen = una reina
""",
    "activity": """
swim = nadar; dance = bailar; sing = cantar; cook = cocinar; read = leer; write = escribir; draw = dibujar
paint = pintar; drive = conducir; ride = cabalgar; run = correr; climb = trepar; fish = pescar; hunt = cazar
sew = coser; knit = tejer; count = contar; whistle = silbar; dive = bucear; row = remar; fly = volar; jump = saltar
sleep = dormir; rest = descansar; work = trabajar; travel = viajar; wait = esperar; pay = pagar; eat = comer
drink = beber; talk = hablar; laugh = reír; cry = llorar; smoke = fumar; play = jugar; wash = lavar; think = pensar
help = ayudar; fight = luchar; pray = rezar; dream = soñar; shout = gritar; cough = toser
""",
    "subject": """
mathematics = las matemáticas; physics = una física; chemistry = una química; biology = una biología
history = una historia; geography = una geografía; music = una música; art = un arte; philosophy = una filosofía
medicine = una medicina; law = un derecho; economics = una economía; politics = una política
psychology = una psicología; sociology = una sociología; astronomy = una astronomía; geology = una geología
architecture = una arquitectura; english = un inglés; german = un alemán; french = un francés; russian = un ruso
turkish = un turco; chinese = un chino; spanish = un español; italian = un italiano; greek = un griego; latin = un latín
arabic = un árabe; japanese = un japonés; portuguese = un portugués; polish = un polaco; dutch = un neerlandés
swedish = un sueco; hungarian = un húngaro; czech = un checo; finnish = un finés; danish = un danés
norwegian = un noruego; hebrew = un hebreo
""",
    "event": """
concert = un concierto; wedding = una boda; exam = un examen; party = una fiesta; festival = un festival
conference = una conferencia; meeting = una reunión; lecture = una ponencia; lesson = una clase; match = un partido
race = una carrera; game = un juego; exhibition = una exposición; opera = una ópera; ballet = un ballet; play = una obra
reading = una lectura; course = un curso; seminar = un seminario; congress = un congreso; fair = una feria
carnival = un carnaval; parade = un desfile; auction = una subasta; ceremony = una ceremonia; excursion = una excursión
walk = un paseo; trip = un viaje; banquet = un banquete; vote = una votación; breakfast = un desayuno
picnic = un picnic; competition = un concurso; tournament = un torneo; marathon = un maratón; rehearsal = un ensayo
premiere = un estreno; demonstration = una manifestación; strike = una huelga; discussion = un debate
""",
    "quality": """
big = grande; small = pequeño; heavy = pesado; light = ligero; long = largo; short = corto; wide = ancho
narrow = estrecho; thick = grueso; thin = delgado; old = viejo; new = nuevo; clean = limpio; dirty = sucio
beautiful = bonito; ugly = feo; cheap = barato; expensive = caro; strong = fuerte; weak = débil; fast = rápido
slow = lento; warm = cálido; cold = frío; hard = duro; soft = blando; dry = seco; wet = mojado; dark = oscuro
bright = claro; loud = ruidoso; quiet = silencioso; dangerous = peligroso; useful = útil; simple = sencillo
strange = extraño; famous = famoso; funny = gracioso; smart = listo; sweet = dulce
""",
    "colour": """
red = rojo; blue = azul; green = verde; black = negro; white = blanco; yellow = amarillo; brown = marrón; grey = gris
""",
    "weather": """
rain = llover; snow = nevar; wind = hacer viento; fog = haber niebla; sun = hacer sol; storm = haber tormenta
""",
}

SAYINGS = """
buy.tell: {person} compró {thing colour:un} por {price} euros. | por {price} euros {person} compró {thing colour:un}.
{person} pagó {price} euros por {thing colour:un}.
buy.ask: ¿{person} compró {thing colour:un} por {price} euros?
¿es verdad que {person} compró {thing colour:un} por {price} euros?
¿{person} pagó de verdad {price} euros por {thing colour:un}?
lose.tell: perdí mi {thing colour} en {place:el}. | mi {thing colour} se perdió en {place:el}.
en {place:el} perdí mi {thing colour}.
lose.ask: ¿ha visto usted {thing colour:un} en {place:el}? | ¿alguien ha encontrado {thing colour:un} en {place:el}?
¿hay {thing colour:un} en {place:el}?
cost.tell: {thing colour quality:el} cuesta {price} euros. | el precio de {thing colour quality:el} es de {price} euros.
por {price} euros puede tener {thing colour quality:el}.
cost.ask: ¿{thing colour quality:el} cuesta {price} euros?
¿el precio de {thing colour quality:el} es realmente de {price} euros?
¿puedo tener {thing colour quality:el} por {price} euros?
lie.tell: {thing:el} está en {place:el}. | encontrará {thing:el} en {place:el}. | alguien dejó {thing:el} en {place:el}.
lie.ask: ¿{thing:el} está en {place:el}? | ¿dejó usted {thing:el} en {place:el}?
¿voy a encontrar {thing:el} en {place:el}?
travel.tell: {person} va a {city} en {month}. | en {month} {person} viaja a {city}.
{person} planea un viaje a {city} para {month}.
travel.ask: ¿{person} va a {city} en {month}? | ¿viaja {person} a {city} en {month}?
¿{person} planea un viaje a {city} para {month}?
live.tell: {job:el} vive en {city}. | {job:el} tiene un piso en {city}. | es en {city} donde vive {job:el}.
live.ask: ¿{job:el} vive en {city}? | ¿{job:el} tiene un piso en {city}? | ¿es verdad que {job:el} vive en {city}?
know.tell: {person} conoce a {job:un} en {city}. | en {city} {person} conoce a {job:un}.
{person} conoció a {job:un} de {city}.
know.ask: ¿{person} conoce a {job:un} en {city}? | ¿{person} ha conocido a {job:un} de {city}?
¿hay {job:un} en {city} que {person} conozca?
can.tell: {person} sabe {activity}. | {person} aprendió a {activity}. | {person} es capaz de {activity}.
can.ask: ¿{person} sabe {activity}? | ¿{person} aprendió a {activity}? | ¿{person} es capaz de {activity}?
want.tell: {weekday:el} {job:el} quiere {activity}. | {job:el} quisiera {activity} {weekday:el}.
{job:el} va a {activity} {weekday:el}.
want.ask: ¿{job:el} quiere {activity} {weekday:el}? | ¿{job:el} quisiera {activity} {weekday:el}?
¿{job:el} va a {activity} {weekday:el}?
learn.tell: {person} aprende a {activity} en {city}. | en {city} {person} aprende a {activity}.
{person} fue a {city} para aprender a {activity}.
learn.ask: ¿{person} aprende a {activity} en {city}? | ¿{person} fue a {city} para aprender a {activity}?
¿puede {person} aprender a {activity} en {city}?
study.tell: {person} estudia {subject} en {city}. | en {city} {person} estudia {subject}.
{person} es estudiante de {subject} en {city}.
study.ask: ¿{person} estudia {subject} en {city}? | ¿{person} es estudiante de {subject} en {city}?
¿es verdad que {person} estudia {subject} en {city}?
timetable.tell: {weekday:el} tenemos {subject} a las {time}. | la clase de {subject} empieza a las {time} {weekday:el}.
la clase de {subject} es {weekday:el} a las {time}.
timetable.ask: ¿tenemos {subject} a las {time} {weekday:el}? | ¿la clase de {subject} empieza a las {time} {weekday:el}?
¿la clase de {subject} es {weekday:el} a las {time}?
when.tell: {event:el} es el {date}. | el {date} hay {event:un}. | {event:el} tiene lugar el {date}.
when.ask: ¿{event:el} es el {date}? | ¿{event:el} tiene lugar el {date}? | ¿hay {event:un} el {date}?
where.tell: {event:el} tuvo lugar en {city} en {year}. | en {year} hubo {event:un} en {city}.
en {year} vimos {event:un} en {city}.
where.ask: ¿{event:el} tuvo lugar en {city} en {year}? | ¿hubo {event:un} en {city} en {year}?
¿vio usted {event:un} en {city} en {year}?
invite.tell: {person} nos invitó a {event:el} {weekday:el}. | {weekday:el} vamos a {event:el} con {person}.
tenemos una invitación de {person} a {event:el} para {weekday:el}.
invite.ask: ¿{person} los invitó a {event:el} {weekday:el}? | ¿van ustedes a {event:el} con {person} {weekday:el}?
¿tienen una invitación de {person} a {event:el} para {weekday:el}?
see.tell: hay {count animal:varios} en {place:el}. | en {place:el} vi {count animal:varios}.
{count animal:varios} viven en {place:el}.
see.ask: ¿hay {count animal:varios} en {place:el}? | ¿vio usted {count animal:varios} en {place:el}?
¿viven {count animal:varios} en {place:el}?
keep.tell: {person} tiene {animal:un}. | {person} cuida de {animal:un}. | {person} tiene {animal:un} en casa.
keep.ask: ¿{person} tiene {animal:un}? | ¿{person} cuida de {animal:un}? | ¿{person} tiene {animal:un} en casa?
compare.tell: {animal:el} es más {quality animal:acuerdo} que {animal2:el}.
en comparación con {animal2:el}, {animal:el} es más {quality animal:acuerdo}.
creo que {animal:el} es más {quality animal:acuerdo} que {animal2:el}.
compare.ask: ¿{animal:el} es más {quality animal:acuerdo} que {animal2:el}?
en comparación con {animal2:el}, ¿es {animal:el} más {quality animal:acuerdo}?
¿cree usted que {animal:el} es más {quality animal:acuerdo} que {animal2:el}?
describe.tell: {thing:el} es muy {quality thing:acuerdo}. | es {thing:un} muy {quality thing:acuerdo}.
encuentro {thing:el} muy {quality thing:acuerdo}.
describe.ask: ¿{thing:el} es muy {quality thing:acuerdo}? | ¿es {thing:un} muy {quality thing:acuerdo}?
¿encuentra usted {thing:el} muy {quality thing:acuerdo}?
eat.tell: {job:el} come {food} {weekday:el}. | {weekday:el} {job:el} toma {food}.
hay {food} para {job:el} {weekday:el}.
eat.ask: ¿{job:el} come {food} {weekday:el}? | ¿hay {food} para {job:el} {weekday:el}?
¿{job:el} toma {food} {weekday:el}?
like.tell: a {person} le gusta{food:n} {food:el}. | a {person} le gusta comer {food}.
a {person} le encanta{food:n} {food:el}.
like.ask: ¿a {person} le gusta{food:n} {food:el}? | ¿a {person} le gusta comer {food}?
¿a {person} le encanta{food:n} {food:el}?
weigh.tell: {count} kilos de {food} cuestan {price} euros. | por {price} euros le dan {count} kilos de {food}.
se pagan {price} euros por {count} kilos de {food}.
weigh.ask: ¿{count} kilos de {food} cuestan {price} euros? | ¿me dan {count} kilos de {food} por {price} euros?
¿se pagan {price} euros por {count} kilos de {food}?
stock.tell: ya no hay {food} en {place:el}. | en {place:el} ya no tienen {food}.
ya no queda{food:n} {food} en {place:el}.
stock.ask: ¿hay {food} en {place:el}? | ¿tienen {food} en {place:el}? | ¿se puede comprar {food} en {place:el}?
work.tell: {job:el} trabaja en {place:el} en {city}. | en {city} {job:el} trabaja en {place:un}.
{job:el} ha encontrado trabajo en {place:un} en {city}.
work.ask: ¿{job:el} trabaja en {place:el} en {city}? | ¿{job:el} ha encontrado trabajo en {place:un} en {city}?
¿trabaja {job:el} en {place:un} en {city}?
meet.tell: nos encontramos con {person} a las {time} en {place:el}. | a las {time} {person} nos espera en {place:el}.
veremos a {person} en {place:el} a las {time}.
meet.ask: ¿se encuentran ustedes con {person} a las {time} en {place:el}?
¿{person} nos espera en {place:el} a las {time}? | ¿veremos a {person} en {place:el} a las {time}?
open.tell: {place:el} abre a las {time} {weekday:el}. | {weekday:el} {place:el} está abiert{place/o/a} desde las {time}.
desde las {time} puede ir a {place:el} {weekday:el}.
open.ask: ¿{place:el} abre a las {time} {weekday:el}?
¿{place:el} está abiert{place/o/a} desde las {time} {weekday:el}?
¿podemos ir a {place:el} desde las {time} {weekday:el}?
train.tell: el tren a {city} sale a las {time} de la vía {platform}.
a las {time} hay un tren a {city} en la vía {platform}. | de la vía {platform} sale el tren a {city} a las {time}.
train.ask: ¿el tren a {city} sale a las {time} de la vía {platform}?
¿hay un tren a {city} a las {time} en la vía {platform}? | ¿sale de la vía {platform} el tren a {city} a las {time}?
distance.tell: hay {kilometres} kilómetros de {city} a {city2}. | {city} está a {kilometres} kilómetros de {city2}.
la distancia entre {city} y {city2} es de {kilometres} kilómetros.
distance.ask: ¿hay {kilometres} kilómetros de {city} a {city2}? | ¿{city} está a {kilometres} kilómetros de {city2}?
¿la distancia entre {city} y {city2} es de {kilometres} kilómetros?
born.tell: {person} nació en {city} en {year}. | en {year} {person} nació en {city}.
{person} viene de {city} y nació en {year}.
born.ask: ¿{person} nació en {city} en {year}? | ¿{person} viene de {city} y nació en {year}?
¿es verdad que {person} nació en {city} en {year}?
forecast.tell: va a {weather} en {city} {weekday:el}. | {weekday:el} va a {weather} en {city}.
dicen que va a {weather} en {city} {weekday:el}.
forecast.ask: ¿va a {weather} en {city} {weekday:el}? | ¿{weekday:el} va a {weather} en {city}?
¿dicen que va a {weather} en {city} {weekday:el}?
temperature.tell: en {month} hace {degrees} grados en {city}.
la temperatura en {city} es de {degrees} grados en {month}. | en {city} tenemos {degrees} grados en {month}.
temperature.ask: ¿hace {degrees} grados en {city} en {month}?
¿la temperatura en {city} es de {degrees} grados en {month}? | ¿tienen {degrees} grados en {city} en {month}?
give.tell: {person} le da {thing:un} a {person2}. | {person} quisiera dar {thing:un} a {person2}.
{person2} recibe {thing:un} de {person}.
give.ask: ¿{person} le da {thing:un} a {person2}? | ¿{person} quisiera dar {thing:un} a {person2}?
¿{person2} recibe {thing:un} de {person}?
room.tell: {person} está en la habitación {room}. | encontrará a {person} en la habitación {room}.
en la habitación {room} está {person}.
room.ask: ¿{person} está en la habitación {room}? | ¿voy a encontrar a {person} en la habitación {room}?
¿es verdad que {person} está en la habitación {room}?
bring.tell: por favor, lleve {thing quality:el} a {place:el}. | hay que llevar {thing quality:el} a {place:el}.
lleve {thing quality:el} a {place:el}, por favor.
bring.ask: ¿puede llevar {thing quality:el} a {place:el}? | ¿tengo que llevar {thing quality:el} a {place:el}?
¿hay que llevar {thing quality:el} a {place:el}?
fear.tell: {job:el} tiene miedo de {animal:los}. | a {job:el} no le gustan {animal:los}.
{animal:los} dan miedo a {job:el}.
fear.ask: ¿{job:el} tiene miedo de {animal:los}? | ¿a {job:el} no le gustan {animal:los}?
¿{animal:los} dan miedo a {job:el}?
explain.tell: {job:el} sabe mucho de {subject}. | {job:el} nos explica {subject:el}. | {job:el} nos enseña {subject}.
explain.ask: ¿{job:el} sabe mucho de {subject}? | ¿{job:el} nos explica {subject:el}? | ¿{job:el} nos enseña {subject}?
it: es muy {quality thing:acuerdo}. | costó {price} euros. | ahora está en {place:el}.
who: {person/él/ella} vive en {city}. | {person/él/ella} trabaja en {place:el}.
{person/él/ella} sabe {activity} muy bien.
"""
#: Feminine nouns with a stressed a at the beginning: el águila pequeña.
STRESSED_A = ("águila",)


def number(kind: str, value: int) -> str | None:
    """Nothing of its own."""
    return None


def is_plural(noun: Word) -> bool:
    """Return True if a word is a plural: food that is counted, and mathematics."""
    return (noun.kind == "food" or noun.key == "mathematics") and str(noun).endswith("s")


def feminine(noun: Word) -> bool:
    """Return True if a noun is feminine, whatever its article."""
    return noun.gender == "f" or str(noun) in STRESSED_A


def agreeing(quality: Word, noun: Word) -> str:
    """Pesado, pesada; grande, azul."""
    name = str(quality)
    return name[:-1] + "a" if feminine(noun) and name.endswith("o") else name


def described(noun: Word, *qualities: Word) -> str:
    """A noun and its adjectives."""
    return " ".join([str(noun), *(agreeing(quality, noun) for quality in qualities)])


def definite(noun: Word, *qualities: Word) -> str:
    """El oso, la oveja, los higos."""
    many = is_plural(noun)
    article = ("las" if many else "la") if noun.gender == "f" else ("los" if many else "el")
    return f"{article} {described(noun, *qualities)}"


def plural(noun: Word) -> str:
    """Gatos, leones, peces, delfines."""
    name = str(noun)
    if name[-1] in "aeiouáé":
        return f"{name}s"
    plain = re.sub("[áéíóú](?=[ns]$)", lambda match: "aeiou"["áéíóú".index(match[0])], name)
    return plain[:-1] + "ces" if plain.endswith("z") else f"{plain}es"


FORMS = {
    "": lambda *items: described(*items) if items[0].kind == "thing" else " ".join(map(str, items)),
    "el": definite,
    "un": lambda *items: f"{'una' if items[0].gender == 'f' else 'un'} {described(*items)}",
    "acuerdo": agreeing,
    "varios": lambda count, noun: f"{count} {plural(noun)}",
    "los": lambda noun: f"{'las' if feminine(noun) else 'los'} {plural(noun)}",
    "n": lambda noun: "n" if is_plural(noun) else "",
}


def finish(text: str) -> str:
    """Al museo, del concierto; a capital letter behind the opening question mark."""
    text = re.sub(r"\b(a|de) el\b", lambda match: "al" if match[1] == "a" else "del", text)
    return re.sub(r"^¿(.)", lambda match: "¿" + match[1].upper(), text)
