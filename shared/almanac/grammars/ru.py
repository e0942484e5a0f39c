"""Russian in Almanac's second world. How to read this file: shared/almanac/phrases.py."""

from __future__ import annotations

import re
from functools import partial

from shared.almanac.phrases import Word
from shared.almanac.russian_cases import CASES, adjective, alive, noun, phrase

GENDERS = {"м": "m", "ж": "f", "с": "n", "мн": "p"}
#: Gender and nominative; then the forms that the rules below do not make, as case:form (им род дат вин тв пр; мн is the
#: genitive plural). Adjectives: masculine, comparative.
LEXICON = {
    "woman": """
anna = Анна; emma = Эмма; laura = Лаура; clara = Клара; maria = Мария; julia = Юлия; eva = Ева; nina = Нина; sara = Сара
lena = Лена; marta = Марта; elena = Елена; irina = Ирина; olga = Ольга; vera = Вера; diana = Диана; rosa = Роза
teresa = Тереза; paula = Паула; silvia = Сильвия; monika = Моника; natalia = Наталия
""",
    "man": """
peter = Петер; paul = Пауль; martin = Мартин; david = Давид; robert = Роберт; thomas = Томас; daniel = Даниэль
simon = Симон; victor = Виктор; anton = Антон; igor = Игорь; ivan = Иван; max = Макс; felix = Феликс; mark = Марк
stefan = Стефан; boris = Борис; oscar = Оскар; arthur = Артур; philip = Филипп; alexander = Александр; andreas = Андреас
""",
    "city": """
berlin = м Берлин; paris = м Париж; london = м Лондон; rome = м Рим; vienna = ж Вена; istanbul = м Стамбул
munich = м Мюнхен; cologne = м Кёльн; geneva = ж Женева; hamburg = м Гамбург; prague = ж Прага
athens = мн Афины, род:Афин, пр:Афинах, тв:Афинами; madrid = м Мадрид; lisbon = м Лиссабон; warsaw = ж Варшава
moscow = ж Москва; budapest = м Будапешт; dublin = м Дублин; brussels = м Брюссель; amsterdam = м Амстердам
milan = м Милан; naples = м Неаполь; venice = ж Венеция; florence = ж Флоренция; barcelona = ж Барселона
seville = ж Севилья; zurich = м Цюрих; oslo = с Осло; stockholm = м Стокгольм; helsinki = м Хельсинки
copenhagen = м Копенгаген; tokyo = с Токио; beijing = м Пекин; shanghai = м Шанхай; ankara = ж Анкара; sydney = м Сидней
chicago = с Чикаго; boston = м Бостон; riga = ж Рига; vilnius = м Вильнюс; tallinn = м Таллин; belgrade = м Белград
zagreb = м Загреб; izmir = м Измир
""",
    "thing": """
bag = ж сумка; suitcase = м чемодан; umbrella = м зонт; hat = ж шляпа; key = м ключ; book = ж книга; shirt = ж рубашка
lamp = ж лампа; scarf = м шарф; table = м стол; chair = м стул; bed = ж кровать; mirror = с зеркало; knife = м нож
fork = ж вилка; spoon = ж ложка; plate = ж тарелка; cup = ж чашка; bottle = ж бутылка; box = ж коробка
basket = ж корзина; bicycle = м велосипед; guitar = ж гитара; camera = ж камера; computer = м компьютер
newspaper = ж газета; letter = с письмо; picture = ж картина; pencil = м карандаш; ring = с кольцо; jacket = ж куртка
dress = с платье; belt = м пояс; sweater = м свитер; blanket = с одеяло; pillow = ж подушка; candle = ж свеча
ladder = ж лестница; hammer = м молоток; brush = ж щётка; towel = с полотенце; comb = ж расчёска; wallet = м кошелёк
ticket = м билет; toy = ж игрушка; ball = м мяч; doll = ж кукла; carpet = м ковёр; map = ж карта; glass = м стакан
""",
    "animal": """
horse = ж лошадь, мн:лошадей; dog = ж собака, мн:собак; cat = ж кошка, мн:кошек; cow = ж корова, мн:коров
sheep = ж овца, тв:овцой, мн:овец; bird = ж птица, мн:птиц; duck = ж утка, мн:уток; goat = ж коза, мн:коз
pig = ж свинья, тв:свиньёй, мн:свиней; rabbit = м кролик, мн:кроликов; chicken = ж курица, мн:кур
donkey = м осёл, род:осла, тв:ослом, мн:ослов; lion = м лев, род:льва, тв:львом, мн:львов; tiger = м тигр, мн:тигров
elephant = м слон, мн:слонов; bear = м медведь, мн:медведей; wolf = м волк, мн:волков; fox = ж лиса, мн:лис
mouse = ж мышь, мн:мышей; rat = ж крыса, мн:крыс; snake = ж змея, тв:змеёй, мн:змей; frog = ж лягушка, мн:лягушек
fish = ж рыба, мн:рыб; bee = ж пчела, мн:пчёл; ant = м муравей, род:муравья, тв:муравьём, мн:муравьёв
spider = м паук, мн:пауков; butterfly = ж бабочка, мн:бабочек; eagle = м орёл, род:орла, тв:орлом, мн:орлов
owl = ж сова, мн:сов; pigeon = м голубь, мн:голубей; parrot = м попугай, мн:попугаев; swan = м лебедь, мн:лебедей
goose = м гусь, мн:гусей; monkey = ж обезьяна, мн:обезьян; camel = м верблюд, мн:верблюдов
giraffe = м жираф, мн:жирафов; crocodile = м крокодил, мн:крокодилов; turtle = ж черепаха, мн:черепах
whale = м кит, мн:китов; dolphin = м дельфин, мн:дельфинов; zebra = ж зебра, мн:зебр; squirrel = ж белка, мн:белок
hedgehog = м ёж, тв:ежом, род:ежа, мн:ежей; kangaroo = м кенгуру, мн:кенгуру; penguin = м пингвин, мн:пингвинов
""",
    "food": """
rice = м рис; bread = м хлеб; butter = с масло; cheese = м сыр; flour = ж мука; sugar = м сахар; salt = ж соль
pepper = м перец, род:перца; meat = с мясо; ham = ж ветчина; honey = м мёд; chocolate = м шоколад; fish = ж рыба
pasta = ж лапша; apples = мн яблоки, род:яблок; pears = мн груши, род:груш; oranges = мн апельсины, род:апельсинов
lemons = мн лимоны, род:лимонов; bananas = мн бананы, род:бананов; grapes = м виноград; cherries = ж вишня
strawberries = ж клубника; plums = мн сливы, род:слив; peaches = мн персики, род:персиков; melons = мн дыни, род:дынь
potatoes = м картофель; tomatoes = мн помидоры, род:помидоров; onions = м лук; carrots = ж морковь
cucumbers = мн огурцы, род:огурцов; beans = ж фасоль; peas = м горох; mushrooms = мн грибы, род:грибов
garlic = м чеснок; cabbage = ж капуста; spinach = м шпинат; nuts = мн орехи, род:орехов; almonds = м миндаль
olives = мн оливки, род:оливок; figs = м инжир; coffee = м кофе; tea = м чай
""",
    "place": """
bakery = ж пекарня; museum = м музей; school = ж школа; hotel = ж гостиница; bank = м банк; pharmacy = ж аптека
library = ж библиотека; restaurant = м ресторан; cinema = м кинотеатр; theater = м театр; hospital = ж больница
church = ж церковь, пр:церкви; kitchen = ж кухня; park = м парк; village = ж деревня; castle = м замок, род:замка
prison = ж тюрьма; sauna = ж сауна; university = м университет; supermarket = м супермаркет; shop = м магазин
cafe = с кафе; bar = м бар; club = м клуб; garage = м гараж; tunnel = м туннель; tent = ж палатка; cave = ж пещера
desert = ж пустыня; valley = ж долина; tower = ж башня; forest = м лес, пр:лесу; circus = м цирк
laboratory = ж лаборатория; pool = м бассейн; stable = ж конюшня; monastery = м монастырь; embassy = с посольство
clinic = ж клиника; studio = ж студия; cathedral = м собор; hut = ж хижина; temple = м храм; basement = м подвал
""",
    "job": """
doctor = м врач; teacher = м учитель; baker = м пекарь; cook = м повар; driver = м водитель; farmer = м фермер
judge = м судья; lawyer = м адвокат; nurse = ж медсестра; singer = м певец, род:певца; actor = м актёр
painter = м художник; writer = м писатель; dancer = м танцор; engineer = м инженер; architect = м архитектор
pilot = м пилот; sailor = м моряк; soldier = м солдат; policeman = м полицейский, род:полицейского; butcher = м мясник
tailor = м портной, род:портного; waiter = м официант; hairdresser = м парикмахер; gardener = м садовник
hunter = м охотник; fisherman = м рыбак; mechanic = м механик; electrician = м электрик; plumber = м сантехник
journalist = м журналист; photographer = м фотограф; librarian = м библиотекарь; postman = м почтальон
musician = м музыкант; scientist = м учёный, род:учёного; translator = м переводчик; student = м студент
king = м король; queen = ж королева
""",
    "activity": """
swim = плавать; dance = танцевать; sing = петь; cook = готовить; read = читать; write = писать; draw = чертить
paint = рисовать; drive = водить; ride = скакать; run = бегать; climb = лазать; fish = рыбачить; hunt = охотиться
sew = шить; knit = вязать; count = считать; whistle = свистеть; dive = нырять; row = грести; fly = летать
jump = прыгать; sleep = спать; rest = отдыхать; work = работать; travel = путешествовать; wait = ждать; pay = платить
eat = есть; drink = пить; talk = говорить; laugh = смеяться; cry = плакать; smoke = курить; play = играть
wash = стирать; think = думать; help = помогать; fight = бороться; pray = молиться; dream = мечтать; shout = кричать
cough = кашлять
""",
    "subject": """
mathematics = ж математика; physics = ж физика; chemistry = ж химия; biology = ж биология; history = ж история
geography = ж география; music = ж музыка; art = с искусство; philosophy = ж философия; medicine = ж медицина
law = с право; economics = ж экономика; politics = ж политика; psychology = ж психология; sociology = ж социология
astronomy = ж астрономия; geology = ж геология; architecture = ж архитектура; english = м английский
german = м немецкий; french = м французский; russian = м русский; turkish = м турецкий; chinese = м китайский
spanish = м испанский; italian = м итальянский; greek = м греческий; latin = ж латынь; arabic = м арабский
japanese = м японский; portuguese = м португальский; polish = м польский; dutch = м нидерландский; swedish = м шведский
hungarian = м венгерский; czech = м чешский; finnish = м финский; danish = м датский; norwegian = м норвежский
hebrew = м иврит
""",
    "event": """
concert = м концерт; wedding = ж свадьба; exam = м экзамен; party = ж вечеринка; festival = м фестиваль
conference = ж конференция; meeting = с собрание; lecture = ж лекция; lesson = м урок; match = м матч; race = м забег
game = ж игра; exhibition = ж выставка; opera = ж опера; ballet = м балет; play = м спектакль; reading = с чтение
course = м курс; seminar = м семинар; congress = м конгресс; fair = ж ярмарка; carnival = м карнавал; parade = м парад
auction = м аукцион; ceremony = ж церемония; excursion = ж экскурсия; walk = ж прогулка; trip = ж поездка
banquet = м банкет; vote = с голосование; breakfast = м завтрак; picnic = м пикник; competition = м конкурс
tournament = м турнир; marathon = м марафон; rehearsal = ж репетиция; premiere = ж премьера
demonstration = ж демонстрация; strike = ж забастовка; discussion = ж дискуссия
""",
    "quality": """
big = большой, больше; small = маленький, меньше; heavy = тяжёлый, тяжелее; light = лёгкий, легче
long = длинный, длиннее; short = короткий, короче; wide = широкий, шире; narrow = узкий, уже; thick = толстый, толще
thin = тонкий, тоньше; old = старый, старее; new = новый, новее; clean = чистый, чище; dirty = грязный, грязнее
beautiful = красивый, красивее; ugly = уродливый, уродливее; cheap = дешёвый, дешевле; expensive = дорогой, дороже
strong = сильный, сильнее; weak = слабый, слабее; fast = быстрый, быстрее; slow = медленный, медленнее
warm = тёплый, теплее; cold = холодный, холоднее; hard = твёрдый, твёрже; soft = мягкий, мягче; dry = сухой, суше
wet = мокрый, мокрее; dark = тёмный, темнее; bright = светлый, светлее; loud = громкий, громче; quiet = тихий, тише
dangerous = опасный, опаснее; useful = полезный, полезнее; simple = простой, проще; strange = странный, страннее
famous = известный, известнее; funny = смешной, смешнее; smart = умный, умнее; sweet = сладкий, слаще
""",
    "colour": """
red = красный; blue = синий; green = зелёный; black = чёрный; white = белый; yellow = жёлтый; brown = коричневый
grey = серый
""",
    "weather": """
rain = м дождь; snow = м снег; wind = м ветер; fog = м туман; sun = с солнце; storm = ж гроза
""",
}

SAYINGS = """
buy.tell: {person} купил{person//а} {colour thing:вин} за {price} евро.
за {price} евро {person} купил{person//а} {colour thing:вин}.
{person} заплатил{person//а} {price} евро за {colour thing:вин}.
buy.ask: {person} купил{person//а} {colour thing:вин} за {price} евро?
правда ли, что {person} купил{person//а} {colour thing:вин} за {price} евро?
действительно ли {person} заплатил{person//а} {price} евро за {colour thing:вин}?
lose.tell: я потерял {colour thing:вин} в {place:пр}.
{thing/мой/моя/моё} {colour thing:им} потерял{thing/ся/ась/ось} в {place:пр}.
в {place:пр} я потерял {colour thing:вин}.
lose.ask: вы видели {colour thing:вин} в {place:пр}? | кто-нибудь нашёл {colour thing:вин} в {place:пр}?
есть ли в {place:пр} {colour thing:им}?
cost.tell: {quality colour thing:им} стоит {price} евро. | цена за {quality colour thing:вин} составляет {price} евро.
за {price} евро вы можете взять {quality colour thing:вин}.
cost.ask: {quality colour thing:им} стоит {price} евро?
действительно ли цена за {quality colour thing:вин} составляет {price} евро?
могу ли я взять {quality colour thing:вин} за {price} евро?
lie.tell: {thing:им} находится в {place:пр}. | вы найдёте {thing:вин} в {place:пр}.
кто-то оставил {thing:вин} в {place:пр}.
lie.ask: {thing:им} находится в {place:пр}? | вы оставили {thing:вин} в {place:пр}?
найду ли я {thing:вин} в {place:пр}?
travel.tell: {person} едет в {city:вин} в {month:пр}. | в {month:пр} {person} поедет в {city:вин}.
{person} планирует поездку в {city:вин} на {month}.
travel.ask: {person} едет в {city:вин} в {month:пр}? | поедет ли {person} в {city:вин} в {month:пр}?
планирует ли {person} поездку в {city:вин} на {month}?
live.tell: {job:им} живёт в {city:пр}. | у {job:род} есть квартира в {city:пр}. | в {city:пр} живёт {job:им}.
live.ask: {job:им} живёт в {city:пр}? | есть ли у {job:род} квартира в {city:пр}?
правда ли, что {job:им} живёт в {city:пр}?
know.tell: {person} знает {job:лицо} в {city:пр}. | в {city:пр} {person} знает {job:лицо}.
{person} встретил{person//а} {job:лицо} из {city:род}.
know.ask: {person} знает {job:лицо} в {city:пр}? | встречал{person//а} ли {person} {job:лицо} из {city:род}?
есть ли в {city:пр} {job:им}, {job/которого/которую} знает {person}?
can.tell: {person} умеет {activity}. | {person} научил{person/ся/ась} {activity}. | {person} хорошо умеет {activity}.
can.ask: {person} умеет {activity}? | научил{person/ся/ась} ли {person} {activity}? | умеет ли {person} {activity}?
want.tell: {weekday:в} {job:им} хочет {activity}. | {job:им} хотел{job//а} бы {activity} {weekday:в}.
{job:им} будет {activity} {weekday:в}.
want.ask: {job:им} хочет {activity} {weekday:в}? | хотел{job//а} бы {job:им} {activity} {weekday:в}?
будет ли {job:им} {activity} {weekday:в}?
learn.tell: {person} учится {activity} в {city:пр}. | в {city:пр} {person} учится {activity}.
{person} приехал{person//а} в {city:вин} учиться {activity}.
learn.ask: {person} учится {activity} в {city:пр}? | приехал{person//а} ли {person} в {city:вин} учиться {activity}?
может ли {person} научиться {activity} в {city:пр}?
study.tell: {person} изучает {subject:вин} в {city:пр}. | в {city:пр} {person} изучает {subject:вин}.
{person} учит {subject:вин} в {city:пр}.
study.ask: {person} изучает {subject:вин} в {city:пр}? | учит ли {person} {subject:вин} в {city:пр}?
правда ли, что {person} изучает {subject:вин} в {city:пр}?
timetable.tell: {weekday:в} у нас {subject:им} в {time}. | {subject:им} начинается в {time} {weekday:в}.
{weekday:в} в {time} будет {subject:им}.
timetable.ask: {weekday:в} у нас {subject:им} в {time}? | начинается ли {subject:им} в {time} {weekday:в}?
будет ли {subject:им} {weekday:в} в {time}?
when.tell: {event:им} будет {date}. | {date} у нас {event:им}. | {event:им} состоится {date}.
when.ask: {event:им} будет {date}? | состоится ли {event:им} {date}? | {date} у нас {event:им}?
where.tell: {event:им} состоял{event/ся/ась/ось} в {city:пр} в {year} году.
в {year} году в {city:пр} был{event//а/о} {event:им}. | в {year} году мы видели {event:вин} в {city:пр}.
where.ask: {event:им} состоял{event/ся/ась/ось} в {city:пр} в {year} году?
был{event//а/о} ли {event:им} в {city:пр} в {year} году? | вы видели {event:вин} в {city:пр} в {year} году?
invite.tell: {person} пригласил{person//а} нас на {event:вин} {weekday:в}.
{weekday:в} мы идём на {event:вин} вместе с {person:тв}.
мы получили от {person:род} приглашение на {event:вин} {weekday:в}.
invite.ask: {person} пригласил{person//а} вас на {event:вин} {weekday:в}?
вы идёте на {event:вин} вместе с {person:тв} {weekday:в}?
вы получили от {person:род} приглашение на {event:вин} {weekday:в}?
see.tell: в {place:пр} есть {count animal:несколько}. | в {place:пр} я видел {count animal:нескольких}.
{count animal:несколько} живут в {place:пр}.
see.ask: в {place:пр} есть {count animal:несколько}? | вы видели {count animal:нескольких} в {place:пр}?
живут ли в {place:пр} {count animal:несколько}?
keep.tell: у {person:род} есть {animal:им}. | {person} держит {animal:лицо}. | у {person:род} дома живёт {animal:им}.
keep.ask: у {person:род} есть {animal:им}? | держит ли {person} {animal:лицо}?
живёт ли у {person:род} дома {animal:им}?
compare.tell: {animal:им} {quality:сравнение}, чем {animal2:им}.
по сравнению с {animal2:тв} {animal:им} {quality:сравнение}.
я думаю, что {animal:им} {quality:сравнение}, чем {animal2:им}.
compare.ask: {animal:им} {quality:сравнение}, чем {animal2:им}?
{animal:им} {quality:сравнение} по сравнению с {animal2:тв}?
вы думаете, что {animal:им} {quality:сравнение}, чем {animal2:им}?
describe.tell: {thing:им} очень {quality thing:каков}. | это очень {quality thing:им}.
я нахожу, что {thing:им} очень {quality thing:каков}.
describe.ask: {thing:им} очень {quality thing:каков}? | это очень {quality thing:им}?
вы находите, что {thing:им} очень {quality thing:каков}?
eat.tell: {job:им} ест {food:вин} {weekday:в}. | {weekday:в} {job:им} получает {food:вин}.
{weekday:в} для {job:род} есть {food:им}.
eat.ask: {job:им} ест {food:вин} {weekday:в}? | есть ли {food:им} для {job:род} {weekday:в}?
получает ли {job:им} {food:вин} {weekday:в}?
like.tell: {person} любит {food:вин}. | {person} с удовольствием ест {food:вин}.
{person:дат} нрав{food/ится/ится/ится/ятся} {food:им}.
like.ask: {person} любит {food:вин}? | с удовольствием ли {person} ест {food:вин}? | любит ли {person} есть {food:вин}?
weigh.tell: {count} кило {food:род} стоят {price} евро. | за {price} евро вы получите {count} кило {food:род}.
вы платите {price} евро за {count} кило {food:род}.
weigh.ask: {count} кило {food:род} стоят {price} евро? | могу ли я получить {count} кило {food:род} за {price} евро?
я плачу {price} евро за {count} кило {food:род}?
stock.tell: в {place:пр} больше нет {food:род}. | {food:род} в {place:пр} больше нет.
в {place:пр} не осталось {food:род}.
stock.ask: есть ли в {place:пр} {food:им}? | в {place:пр} есть {food:им}? | можно ли в {place:пр} получить {food:вин}?
work.tell: {job:им} работает в {place:пр} в {city:пр}. | в {city:пр} {job:им} работает в {place:пр}.
{job:им} наш{job/ёл/ла} работу в {place:пр} в {city:пр}.
work.ask: {job:им} работает в {place:пр} в {city:пр}? | наш{job/ёл/ла} ли {job:им} работу в {place:пр} в {city:пр}?
работает ли {job:им} в {place:пр} в {city:пр}?
meet.tell: мы встречаем {person:лицо} в {time} в {place:пр}. | в {time} {person} ждёт нас в {place:пр}.
мы увидим {person:лицо} в {place:пр} в {time}.
meet.ask: вы встречаете {person:лицо} в {time} в {place:пр}? | ждёт ли нас {person} в {place:пр} в {time}?
увидим ли мы {person:лицо} в {place:пр} в {time}?
open.tell: {place:им} открывается в {time} {weekday:в}. | {weekday:в} {place:им} работает с {time}.
с {time} {weekday:в} вы можете пойти в {place:вин}.
open.ask: {place:им} открывается в {time} {weekday:в}? | работает ли {place:им} с {time} {weekday:в}?
можем ли мы пойти в {place:вин} с {time} {weekday:в}?
train.tell: поезд в {city:вин} отправляется в {time} с пути {platform}.
в {time} с пути {platform} есть поезд в {city:вин}. | с пути {platform} поезд идёт в {city:вин} в {time}.
train.ask: поезд в {city:вин} отправляется в {time} с пути {platform}?
есть ли в {time} поезд в {city:вин} с пути {platform}? | идёт ли поезд с пути {platform} в {city:вин} в {time}?
distance.tell: от {city:род} до {city2:род} {kilometres} километров.
{city} наход{city/ится/ится/ится/ятся} в {kilometres} километрах от {city2:род}.
расстояние между {city:тв} и {city2:тв} составляет {kilometres} километров.
distance.ask: от {city:род} до {city2:род} {kilometres} километров?
наход{city/ится/ится/ится/ятся} ли {city} в {kilometres} километрах от {city2:род}?
составляет ли расстояние между {city:тв} и {city2:тв} {kilometres} километров?
born.tell: {person} родил{person/ся/ась} в {city:пр} в {year} году.
в {year} году в {city:пр} родил{person/ся/ась} {person}. | {person} из {city:род} и родил{person/ся/ась} в {year} году.
born.ask: {person} родил{person/ся/ась} в {city:пр} в {year} году?
{person} из {city:род} и родил{person/ся/ась} в {year} году?
правда ли, что {person} родил{person/ся/ась} в {city:пр} в {year} году?
forecast.tell: {weekday:в} в {city:пр} будет {weather}. | в {city:пр} {weekday:в} будет {weather}.
говорят, что {weekday:в} в {city:пр} будет {weather}.
forecast.ask: {weekday:в} в {city:пр} будет {weather}? | будет ли {weather} в {city:пр} {weekday:в}?
говорят ли, что {weekday:в} в {city:пр} будет {weather}?
temperature.tell: в {month:пр} в {city:пр} {degrees:градусы}.
температура в {city:пр} в {month:пр} составляет {degrees:градусы}. | в {city:пр} у нас {degrees:градусы} в {month:пр}.
temperature.ask: в {month:пр} в {city:пр} {degrees:градусы}?
составляет ли температура в {city:пр} в {month:пр} {degrees:градусы}?
у вас в {city:пр} {degrees:градусы} в {month:пр}?
give.tell: {person} дарит {person2:дат} {thing:вин}. | {person} хочет подарить {person2:дат} {thing:вин}.
{person2} получает {thing:вин} от {person:род}.
give.ask: {person} дарит {person2:дат} {thing:вин}? | хочет ли {person} подарить {person2:дат} {thing:вин}?
получает ли {person2} {thing:вин} от {person:род}?
room.tell: {person} находится в комнате {room}. | вы найдёте {person:лицо} в комнате {room}.
в комнате {room} находится {person}.
room.ask: {person} находится в комнате {room}? | найду ли я {person:лицо} в комнате {room}?
правда ли, что {person} находится в комнате {room}?
bring.tell: принесите, пожалуйста, {quality thing:вин} в {place:вин}.
{quality thing:вин} нужно принести в {place:вин}. | отнесите {quality thing:вин} в {place:вин}, пожалуйста.
bring.ask: вы можете принести {quality thing:вин} в {place:вин}?
должен ли я принести {quality thing:вин} в {place:вин}? | нужно ли принести {quality thing:вин} в {place:вин}?
fear.tell: {job:им} боится {animal:мн}. | {job:им} не любит {animal:мн}. | {job:лицо} пугает вид {animal:мн}.
fear.ask: {job:им} боится {animal:мн}? | {job:им} не любит {animal:мн}? | боится ли {job:им} {animal:мн}?
explain.tell: {job:им} хорошо знает {subject:вин}. | {job:им} объясняет нам {subject:вин}.
{job:им} преподаёт нам {subject:вин}.
explain.ask: {job:им} хорошо знает {subject:вин}? | объясняет ли нам {job:им} {subject:вин}?
преподаёт ли нам {job:им} {subject:вин}?
it: {thing/он/она/оно} очень {quality thing:каков}. | {thing/он/она/оно} стоил{thing//а/о} {price} евро.
сейчас {thing/он/она/оно} в {place:пр}.
who: {person/он/она} живёт в {city:пр}. | {person/он/она} работает в {place:пр}.
{person/он/она} очень хорошо умеет {activity}.
"""
MONTHS = "январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь".split()


def number(kind: str, value: int) -> str | None:
    """Months in the nominative."""
    return MONTHS[value - 1] if kind == "month" else None


def plural(animal: Word) -> str:
    """The genitive plural: слонов, кошек, мышей."""
    return next(form.removeprefix("мн:") for form in animal.forms if form.startswith("мн:"))


def several(count: Word, animal: Word) -> str:
    """Две кошки, три слона, пять собак: the genitive singular after 2 to 4."""
    name = "две" if count.key == 2 and animal.gender == "f" else str(count)
    return f"{name} {noun(animal, 'род') if int(count.key) < 5 else plural(animal)}"


def several_seen(count: Word, animal: Word) -> str:
    """The accusative: двух кошек, трёх слонов, пять собак."""
    name = {2: "двух", 3: "трёх", 4: "четырёх"}.get(int(count.key), str(count))
    return f"{name} {plural(animal)}"


def on_day(weekday: Word) -> str:
    """В понедельник, во вторник, в среду."""
    name = str(weekday)
    return ("во " if name.startswith("вт") else "в ") + (name[:-1] + "у" if name.endswith("а") else name)


def degrees(word: Word) -> str:
    """Два градуса, пять градусов, 21 градус."""
    value = int(word.key)
    last = 0 if value in range(11, 15) else value % 10
    return f"{value} градус{'' if last == 1 else 'а' if last in (2, 3, 4) else 'ов'}"


FORMS = {
    "": lambda *items: " ".join(map(str, items)),
    **{case: partial(phrase, case) for case in CASES},
    "лицо": alive,
    "каков": lambda quality, thing: adjective(quality, thing.gender, "им"),
    "сравнение": lambda quality: quality.forms[1],
    "мн": plural,
    "несколько": several,
    "нескольких": several_seen,
    "в": on_day,
    "градусы": degrees,
}


def finish(text: str) -> str:
    """Во Флоренции, со Стефаном."""
    return re.sub(r"\b([вс]) (?=Фл|Стеф)", r"\1о ", text, flags=re.IGNORECASE)
