"""Turkish in Almanac's second world. How to read this file: shared/almanac/phrases.py.

A form is a suffix: {place:DA} is müzede or okulda. A and I stand for the vowels of harmony, D for d or t, and what is
in parentheses is there after a vowel, or after a consonant (see `suffixed`).
"""

from __future__ import annotations

import re
from functools import partial

from shared.almanac import words
from shared.almanac.phrases import Word

GENDERS: dict[str, str] = {}
#: The second form is the stem before a vowel, where the final consonant is softened or a vowel is lost.
LEXICON = {
    "woman": """
irina = İrina; clara = Klara; olga = Olga; vera = Vera; silvia = Silvia; natalia = Natalya; diana = Diana
""",
    "man": """
igor = İgor; ivan = İvan; victor = Viktor; max = Maks; felix = Feliks; mark = Mark; philip = Filip
alexander = Aleksander; thomas = Tomas; oscar = Oskar; stefan = Stefan; peter = Peter
""",
    "city": """
london = Londra; rome = Roma; vienna = Viyana; istanbul = İstanbul; munich = Münih; cologne = Köln; geneva = Cenevre
prague = Prag; athens = Atina; lisbon = Lizbon; warsaw = Varşova; moscow = Moskova; budapest = Budapeşte
brussels = Brüksel; milan = Milano; naples = Napoli; venice = Venedik; florence = Floransa; barcelona = Barselona
seville = Sevilla; zurich = Zürih; stockholm = Stokholm; copenhagen = Kopenhag; beijing = Pekin; shanghai = Şanghay
sydney = Sidney; chicago = Şikago; belgrade = Belgrad; izmir = İzmir
""",
    "thing": """
bag = çanta; suitcase = bavul; umbrella = şemsiye; hat = şapka; key = anahtar; book = kitap, kitab
shirt = gömlek, gömleğ; lamp = lamba; scarf = atkı; table = masa; chair = sandalye; bed = yatak, yatağ; mirror = ayna
knife = bıçak, bıçağ; fork = çatal; spoon = kaşık, kaşığ; plate = tabak, tabağ; cup = fincan; bottle = şişe; box = kutu
basket = sepet; bicycle = bisiklet; guitar = gitar; camera = kamera; computer = bilgisayar; newspaper = gazete
letter = mektup, mektub; picture = resim, resm; pencil = kalem; ring = yüzük, yüzüğ; jacket = ceket; dress = elbise
belt = kemer; sweater = kazak, kazağ; blanket = battaniye; pillow = yastık, yastığ; candle = mum; ladder = merdiven
hammer = çekiç, çekic; brush = fırça; towel = havlu; comb = tarak, tarağ; wallet = cüzdan; ticket = bilet
toy = oyuncak, oyuncağ; ball = top; doll = bebek, bebeğ; carpet = halı; map = harita; glass = bardak, bardağ
""",
    "animal": """
horse = at; dog = köpek, köpeğ; cat = kedi; cow = inek, ineğ; sheep = koyun; bird = kuş; duck = ördek, ördeğ
goat = keçi; pig = domuz; rabbit = tavşan; chicken = tavuk, tavuğ; donkey = eşek, eşeğ; lion = aslan; tiger = kaplan
elephant = fil; bear = ayı; wolf = kurt, kurd; fox = tilki; mouse = fare; rat = sıçan; snake = yılan; frog = kurbağa
fish = balık, balığ; bee = arı; ant = karınca; spider = örümcek, örümceğ; butterfly = kelebek, kelebeğ; eagle = kartal
owl = baykuş; pigeon = güvercin; parrot = papağan; swan = kuğu; goose = kaz; monkey = maymun; camel = deve
giraffe = zürafa; crocodile = timsah; turtle = kaplumbağa; whale = balina; dolphin = yunus; zebra = zebra
squirrel = sincap, sincab; hedgehog = kirpi; kangaroo = kanguru; penguin = penguen
""",
    "food": """
rice = pirinç, pirinc; bread = ekmek, ekmeğ; butter = tereyağı; cheese = peynir; flour = un; sugar = şeker; salt = tuz
pepper = biber; meat = et; ham = jambon; honey = bal; chocolate = çikolata; fish = balık, balığ; pasta = makarna
apples = elma; pears = armut, armud; oranges = portakal; lemons = limon; bananas = muz; grapes = üzüm; cherries = kiraz
strawberries = çilek, çileğ; plums = erik, eriğ; peaches = şeftali; melons = kavun; potatoes = patates
tomatoes = domates; onions = soğan; carrots = havuç, havuc; cucumbers = salatalık, salatalığ; beans = fasulye
peas = bezelye; mushrooms = mantar; garlic = sarımsak, sarımsağ; cabbage = lahana; spinach = ıspanak, ıspanağ
nuts = fındık, fındığ; almonds = badem; olives = zeytin; figs = incir; coffee = kahve; tea = çay
""",
    "place": """
bakery = fırın; museum = müze; school = okul; hotel = otel; bank = banka; pharmacy = eczane; library = kütüphane
restaurant = restoran; cinema = sinema; theater = tiyatro; hospital = hastane; church = kilise; kitchen = mutfak, mutfağ
park = park; village = köy; castle = kale; prison = hapishane; sauna = sauna; university = üniversite
supermarket = süpermarket; shop = mağaza; cafe = kafe; bar = bar; club = kulüp, kulüb; garage = garaj; tunnel = tünel
tent = çadır; cave = mağara; desert = çöl; valley = vadi; tower = kule; forest = orman; circus = sirk
laboratory = laboratuvar; pool = havuz; stable = ahır; monastery = manastır; embassy = elçilik, elçiliğ
clinic = klinik, kliniğ; studio = stüdyo; cathedral = katedral; hut = kulübe; temple = tapınak, tapınağ
basement = bodrum
""",
    "job": """
doctor = doktor; teacher = öğretmen; baker = fırıncı; cook = aşçı; driver = şoför; farmer = çiftçi; judge = hakim
lawyer = avukat; nurse = hemşire; singer = şarkıcı; actor = oyuncu; painter = ressam; writer = yazar; dancer = dansçı
engineer = mühendis; architect = mimar; pilot = pilot; sailor = denizci; soldier = asker; policeman = polis
butcher = kasap, kasab; tailor = terzi; waiter = garson; hairdresser = kuaför; gardener = bahçıvan; hunter = avcı
fisherman = balıkçı; mechanic = tamirci; electrician = elektrikçi; plumber = tesisatçı; journalist = gazeteci
photographer = fotoğrafçı; librarian = kütüphaneci; postman = postacı; musician = müzisyen; scientist = bilgin
translator = çevirmen; student = öğrenci; king = kral; queen = kraliçe
""",
    "activity": """
swim = yüz; dance = dans et, dans ed; sing = şarkı söyle; cook = yemek pişir; read = oku; write = yaz; draw = çiz
paint = boya; drive = araba kullan; ride = ata bin; run = koş; climb = tırman; fish = balık tut; hunt = avlan; sew = dik
knit = ör; count = say; whistle = ıslık çal; dive = dal; row = kürek çek; fly = uç; jump = zıpla; sleep = uyu
rest = dinlen; work = çalış; travel = gez; wait = bekle; pay = öde; eat = ye, yi; drink = iç; talk = konuş; laugh = gül
cry = ağla; smoke = sigara iç; play = oyna; wash = yıka; think = düşün; help = yardım et, yardım ed; fight = dövüş
pray = dua et, dua ed; dream = hayal kur; shout = bağır; cough = öksür
""",
    "subject": """
mathematics = matematik, matematiğ; physics = fizik, fiziğ; chemistry = kimya; biology = biyoloji; history = tarih
geography = coğrafya; music = müzik, müziğ; art = sanat; philosophy = felsefe; medicine = tıp, tıbb; law = hukuk
economics = ekonomi; politics = siyaset; psychology = psikoloji; sociology = sosyoloji; astronomy = astronomi
geology = jeoloji; architecture = mimarlık, mimarlığ; english = İngilizce; german = Almanca; french = Fransızca
russian = Rusça; turkish = Türkçe; chinese = Çince; spanish = İspanyolca; italian = İtalyanca; greek = Yunanca
latin = Latince; arabic = Arapça; japanese = Japonca; portuguese = Portekizce; polish = Lehçe; dutch = Flemenkçe
swedish = İsveççe; hungarian = Macarca; czech = Çekçe; finnish = Fince; danish = Danca; norwegian = Norveççe
hebrew = İbranice
""",
    "event": """
concert = konser; wedding = düğün; exam = sınav; party = parti; festival = festival; conference = konferans
meeting = toplantı; lecture = sunum; lesson = ders; match = maç; race = yarış; game = oyun; exhibition = sergi
opera = opera; ballet = bale; play = piyes; reading = okuma; course = kurs; seminar = seminer; congress = kongre
fair = fuar; carnival = karnaval; parade = geçit, geçid; auction = müzayede; ceremony = tören; excursion = gezi
walk = yürüyüş; trip = yolculuk, yolculuğ; banquet = ziyafet; vote = oylama; breakfast = kahvaltı
picnic = piknik, pikniğ; competition = yarışma; tournament = turnuva; marathon = maraton; rehearsal = prova
premiere = gala; demonstration = gösteri; strike = grev; discussion = tartışma
""",
    "quality": """
big = büyük; small = küçük; heavy = ağır; light = hafif; long = uzun; short = kısa; wide = geniş; narrow = dar
thick = kalın; thin = ince; old = eski; new = yeni; clean = temiz; dirty = kirli; beautiful = güzel; ugly = çirkin
cheap = ucuz; expensive = pahalı; strong = güçlü; weak = zayıf; fast = hızlı; slow = yavaş; warm = sıcak; cold = soğuk
hard = sert; soft = yumuşak; dry = kuru; wet = ıslak; dark = koyu; bright = parlak; loud = gürültülü; quiet = sessiz
dangerous = tehlikeli; useful = yararlı; simple = basit; strange = garip; famous = ünlü; funny = komik; smart = akıllı
sweet = tatlı
""",
    "colour": """
red = kırmızı; blue = mavi; green = yeşil; black = siyah; white = beyaz; yellow = sarı; brown = kahverengi; grey = gri
""",
    "weather": """
rain = yağmur; snow = kar; wind = rüzgar; fog = sis; sun = güneş; storm = fırtına
""",
}

SAYINGS = """
buy.tell: {person} {price} avroya {colour thing:bir} aldı. | {person} {colour thing:bir} aldı ve {price} avro ödedi.
{person} {colour thing:bir} için {price} avro ödedi.
buy.ask: {person} {price} avroya {colour thing:bir} aldı mı? | {person} {colour thing:bir} için {price} avro ödedi mi?
{person} gerçekten {price} avroya {colour thing:bir mI} aldı?
lose.tell: {place:DA} {colour thing:(I)mI} kaybettim. | {colour thing:(I)m} {place:DA} kayboldu.
{colour thing:(I)mI} {place:DA} kaybettim.
lose.ask: {place:DA} {colour thing:bir} gördünüz mü? | {place:DA} {colour thing:bir} bulan var mı?
{place:DA} {colour thing:bir} var mı?
cost.tell: {quality colour thing} {price} avro. | {quality colour thing:(n)In} fiyatı {price} avro.
{price} avroya {quality colour thing:(y)I} alabilirsiniz.
cost.ask: {quality colour thing} {price} avro mu? | {quality colour thing:(n)In} fiyatı gerçekten {price} avro mu?
{price} avroya {quality colour thing:(y)I} alabilir miyim?
lie.tell: {thing} {place:DA}. | {thing:(y)I} {place:DA} bulacaksınız. | birisi {thing:(y)I} {place:DA} bıraktı.
lie.ask: {thing} {place:DA mI}? | {thing:(y)I} {place:DA mI} bıraktınız? | {thing:(y)I} {place:DA} bulacak mıyım?
travel.tell: {person} {month} ayında {city:(y)A} gidiyor. | {month} ayında {person} {city:(y)A} gidecek.
{person} {month} ayı için {city:(y)A} bir gezi planlıyor.
travel.ask: {person} {month} ayında {city:(y)A} gidiyor mu? | {month} ayında {person} {city:(y)A} gidecek mi?
{person} {month} ayı için {city:(y)A} bir gezi planlıyor mu?
live.tell: {job} {city:DA} oturuyor. | {job:(n)In} {city:DA} bir evi var. | {city:DA} oturan kişi {job}.
live.ask: {job} {city:DA} oturuyor mu? | {job:(n)In} {city:DA} bir evi var mı? | {job} gerçekten {city:DA mI} oturuyor?
know.tell: {person} {city:DA} bir {job} tanıyor. | {city:DA} {person:(n)In} tanıdığı bir {job} var.
{person} {city:DAn} bir {job} ile tanıştı.
know.ask: {person} {city:DA} bir {job} tanıyor mu? | {person} hiç {city:DAn} bir {job} ile tanıştı mı?
{city:DA} {person:(n)In} tanıdığı bir {job} var mı?
can.tell: {person} {activity:mAyI} biliyor. | {person} {activity:(y)A}biliyor. | {person} {activity:mAyI} öğrendi.
can.ask: {person} {activity:mAyI} biliyor mu? | {person} {activity:(y)A}biliyor mu?
{person} {activity:mAyI} öğrendi mi?
want.tell: {weekday} günü {job} {activity:mAk} istiyor. | {job} {weekday} günü {activity:mAk} ister.
{job} {weekday} günü {activity:(y)AcAk}.
want.ask: {job} {weekday} günü {activity:mAk} istiyor mu? | {job} {weekday} günü {activity:mAk} ister mi?
{job} {weekday} günü {activity:(y)AcAk mI}?
learn.tell: {person} {city:DA} {activity:mAyI} öğreniyor. | {city:DA} {person} {activity:mAyI} öğreniyor.
{person} {activity:mAyI} öğrenmek için {city:(y)A} gitti.
learn.ask: {person} {city:DA} {activity:mAyI} öğreniyor mu?
{person} {activity:mAyI} öğrenmek için {city:(y)A} gitti mi? | {person} {city:DA} {activity:mAyI} öğrenebilir mi?
study.tell: {person} {city:DA} {subject} okuyor. | {city:DA} {person} {subject} okuyor.
{person} {city:DA} {subject} öğrencisi.
study.ask: {person} {city:DA} {subject} okuyor mu? | {person} {city:DA} {subject} öğrencisi mi?
{person} gerçekten {city:DA} {subject:mI} okuyor?
timetable.tell: {weekday} günü saat {time:DA} {subject} dersimiz var.
{subject} dersi {weekday} günü saat {time:DA} başlıyor. | {subject} dersi {weekday} günü saat {time:DA}.
timetable.ask: {weekday} günü saat {time:DA} {subject} dersimiz var mı?
{subject} dersi {weekday} günü saat {time:DA mI} başlıyor? | {subject} dersi {weekday} günü saat {time:DA mI}?
when.tell: {event} {date} günü. | {date} günü bir {event} var. | {event} {date} günü yapılacak.
when.ask: {event} {date} günü mü? | {event} {date} günü mü yapılacak? | {date} günü bir {event} var mı?
where.tell: {event} {year} yılında {city:DA} yapıldı. | {year} yılında {city:DA} bir {event} oldu.
{year} yılında {city:DA} bir {event} gördük.
where.ask: {event} {year} yılında {city:DA mI} yapıldı? | {year} yılında {city:DA} bir {event} oldu mu?
{year} yılında {city:DA} bir {event} gördünüz mü?
invite.tell: {person} bizi {weekday} günü {event:(y)A} davet etti. | {weekday} günü {person} ile {event:(y)A} gidiyoruz.
{weekday} günkü {event} için {person:DAn} davet aldık.
invite.ask: {person} sizi {weekday} günü {event:(y)A} davet etti mi?
{weekday} günü {person} ile {event:(y)A} gidiyor musunuz? | {weekday} günkü {event} için {person:DAn} davet aldınız mı?
see.tell: {place:DA} {count} {animal} var. | {place:DA} {count} {animal} gördüm. | {count} {animal} {place:DA} yaşıyor.
see.ask: {place:DA} {count} {animal} var mı? | {place:DA} {count} {animal} gördünüz mü?
{count} {animal} {place:DA mI} yaşıyor?
keep.tell: {person:(n)In} bir {animal:(s)I} var. | {person} bir {animal} besliyor.
{person} evde bir {animal} besliyor.
keep.ask: {person:(n)In} bir {animal:(s)I} var mı? | {person} bir {animal} besliyor mu?
{person} evde bir {animal} besliyor mu?
compare.tell: {animal} {animal2:DAn} daha {quality}. | {animal2} ile karşılaştırınca {animal} daha {quality}.
bence {animal} {animal2:DAn} daha {quality}.
compare.ask: {animal} {animal2:DAn} daha {quality:mI}? | {animal2} ile karşılaştırınca {animal} daha {quality:mI}?
sizce {animal} {animal2:DAn} daha {quality:mI}?
describe.tell: {thing} çok {quality}. | bu çok {quality} bir {thing}. | {thing:(y)I} çok {quality} buluyorum.
describe.ask: {thing} çok {quality:mI}? | bu çok {quality} bir {thing:mI}? | {thing:(y)I} çok {quality} buluyor musunuz?
eat.tell: {job} {weekday} günü {food} yiyor. | {weekday} günü {job} {food} alıyor.
{weekday} günü {job} için {food} var.
eat.ask: {job} {weekday} günü {food} yiyor mu? | {weekday} günü {job} için {food} var mı?
{weekday} günü {job} {food} alıyor mu?
like.tell: {person} {food:(y)I} seviyor. | {person} {food} yemeyi seviyor. | {person} {food:DAn} hoşlanıyor.
like.ask: {person} {food:(y)I} seviyor mu? | {person} {food} yemeyi seviyor mu? | {person} {food:DAn} hoşlanıyor mu?
weigh.tell: {count} kilo {food} {price} avro. | {price} avroya {count} kilo {food} alırsınız.
{count} kilo {food} için {price} avro ödersiniz.
weigh.ask: {count} kilo {food} {price} avro mu? | {price} avroya {count} kilo {food} alabilir miyim?
{count} kilo {food} için {price} avro mu ödüyorum?
stock.tell: {place:DA} artık {food} yok. | artık {place:DA} {food} kalmadı. | {place:DA} {food} bitti.
stock.ask: {place:DA} {food} var mı? | {place:DA} {food} bulunur mu? | {food:(y)I} {place:DA} bulabilir miyim?
work.tell: {job} {city:DA} {place:DA} çalışıyor. | {city:DA} {job} bir {place:DA} çalışıyor.
{job} {city:DA} bir {place:DA} iş buldu.
work.ask: {job} {city:DA} {place:DA mI} çalışıyor? | {job} {city:DA} bir {place:DA} iş buldu mu?
{job} {city:DA} bir {place:DA} çalışıyor mu?
meet.tell: {person} ile saat {time:DA} {place:DA} buluşuyoruz. | saat {time:DA} {person} bizi {place:DA} bekliyor.
{person:(y)I} {place:DA} saat {time:DA} göreceğiz.
meet.ask: {person} ile saat {time:DA} {place:DA mI} buluşuyorsunuz?
{person} bizi saat {time:DA} {place:DA} bekliyor mu? | {person:(y)I} {place:DA} saat {time:DA} görecek miyiz?
open.tell: {place} {weekday} günü saat {time:DA} açılıyor. | {weekday} günü {place} saat {time:DAn} itibaren açık.
saat {time:DAn} itibaren {weekday} günü {place:(y)A} gidebilirsiniz.
open.ask: {place} {weekday} günü saat {time:DA} açılıyor mu? | {weekday} günü {place} saat {time:DAn} itibaren açık mı?
{weekday} günü saat {time:DAn} itibaren {place:(y)A} gidebilir miyiz?
train.tell: {city} treni saat {time:DA} {platform} numaralı perondan kalkıyor.
saat {time:DA} {platform} numaralı perondan {city:(y)A} bir tren var.
{platform} numaralı perondan {city:(y)A} tren saat {time:DA} gidiyor.
train.ask: {city} treni saat {time:DA} {platform} numaralı perondan mı kalkıyor?
saat {time:DA} {platform} numaralı perondan {city:(y)A} bir tren var mı?
{platform} numaralı perondan {city:(y)A} tren saat {time:DA mI} gidiyor?
distance.tell: {city:DAn} {city2:(y)A} {kilometres} kilometre. | {city}, {city2:DAn} {kilometres} kilometre uzakta.
{city} ile {city2} arasındaki uzaklık {kilometres} kilometre.
distance.ask: {city:DAn} {city2:(y)A} {kilometres} kilometre mi? | {city}, {city2:DAn} {kilometres} kilometre uzakta mı?
{city} ile {city2} arasındaki uzaklık {kilometres} kilometre mi?
born.tell: {person} {year} yılında {city:DA} doğdu. | {year} yılında {city:DA} {person} doğdu.
{city} doğumlu {person} {year} yılında doğdu.
born.ask: {person} {year} yılında {city:DA mI} doğdu? | {city} doğumlu {person} {year} yılında mı doğdu?
{person} gerçekten {year} yılında {city:DA mI} doğdu?
forecast.tell: {weekday} günü {city:DA} {weather} bekleniyor. | {city:DA} {weekday} günü {weather} olacak.
{weekday} günü {city:DA} {weather} olacağını söylüyorlar.
forecast.ask: {weekday} günü {city:DA} {weather} bekleniyor mu? | {city:DA} {weekday} günü {weather} olacak mı?
{weekday} günü {city:DA} {weather} olacağını söylüyorlar mı?
temperature.tell: {month} ayında {city:DA} hava {degrees} derece. | {city:DA} sıcaklık {month} ayında {degrees} derece.
{city:DA} {month} ayında {degrees} derece var.
temperature.ask: {month} ayında {city:DA} hava {degrees} derece mi?
{city:DA} sıcaklık {month} ayında {degrees} derece mi? | {city:DA} {month} ayında {degrees} derece var mı?
give.tell: {person} {person2:(y)A} bir {thing} veriyor. | {person} {person2:(y)A} bir {thing} vermek istiyor.
{person2} {person:DAn} bir {thing} alıyor.
give.ask: {person} {person2:(y)A} bir {thing} veriyor mu? | {person} {person2:(y)A} bir {thing} vermek istiyor mu?
{person2} {person:DAn} bir {thing} alıyor mu?
room.tell: {person} {room} numaralı odada. | {person:(y)I} {room} numaralı odada bulacaksınız.
{room} numaralı odada {person} var.
room.ask: {person} {room} numaralı odada mı? | {person:(y)I} {room} numaralı odada mı bulacağım?
{room} numaralı odada {person:mI} var?
bring.tell: lütfen {quality thing:(y)I} {place:(y)A} getirin.
{quality thing:(n)In} {place:(y)A} götürülmesi gerekiyor. | {quality thing:(y)I} {place:(y)A} götürün, lütfen.
bring.ask: {quality thing:(y)I} {place:(y)A} getirebilir misiniz? | {quality thing:(y)I} {place:(y)A} götüreyim mi?
{quality thing:(n)In} {place:(y)A} götürülmesi gerekiyor mu?
fear.tell: {job} {animal:lArDAn} korkuyor. | {job} {animal:lArI} sevmiyor. | {animal:lAr} {job:(y)I} korkutuyor.
fear.ask: {job} {animal:lArDAn} korkuyor mu? | {job} {animal:lArI} sevmiyor mu? | {animal:lAr} {job:(y)I} korkutuyor mu?
explain.tell: {job} {subject} hakkında çok şey biliyor. | {job} bize {subject:(y)I} açıklıyor.
{job} bize {subject} öğretiyor.
explain.ask: {job} {subject} hakkında çok şey biliyor mu? | {job} bize {subject:(y)I} açıklıyor mu?
{job} bize {subject} öğretiyor mu?
it: o çok {quality}. | onun için {price} avro ödendi. | o şimdi {place:DA}.
who: {city:DA} oturuyor. | {place:DA} çalışıyor. | {activity:mAyI} çok iyi biliyor.
"""
FRONT, BACK, HARD = "eiöü", "aıou", "fstkçşhp"
FRONT_ANYWAY = ("festival", "katedral")
#: A compound that ends in a possessive, and takes n before its suffix.
COMPOUNDS = ("tereyağı",)
SUFFIXES = (
    "DA", "DAn", "(y)A", "(y)I", "(n)In", "(s)I", "(I)m", "(I)mI", "lAr", "lArI", "lArDAn", " mI", "DA mI",
    "mAk", "mAyI", "(y)AcAk", "(y)AcAk mI",
)  # fmt: skip


def number(kind: str, value: int) -> str | None:
    """Clock times as 7.45; months and days in lower case, as without a date."""
    if kind == "time":
        return f"{value // 100}.{value % 100:02}"
    if kind in ("month", "weekday"):
        return (words.month if kind == "month" else words.weekday)(value, "tr").lower()
    return None


def harmony(text: str) -> tuple[str, str]:
    """A and I after the last vowel of a text."""
    last = next(letter for letter in reversed(text.replace("I", "ı").lower()) if letter in FRONT + BACK)
    front = last in FRONT or text.endswith(FRONT_ANYWAY)
    return "e" if front else "a", ("ü" if front else "u") if last in "oöuü" else ("i" if front else "ı")


def suffixed(suffix: str, *items: Word) -> str:
    """Words with a suffix behind the last one: kitap and (y)I give kitabı; Paris and DA give Paris'te."""
    before, last = [str(item) for item in items[:-1]], items[-1]
    name, sound = str(last), str(last)
    if last.kind == "time":  # 7.45 is spoken: yedi kırk beş
        hour, minute = divmod(int(last.key), 100)
        sound = words.number(minute or hour, "tr")
    if name in COMPOUNDS and suffix != " mI":
        sound = name = f"{name}n"
    buffer, rest = re.match(r"(?:\((.)\))?(.*)", suffix).groups()  # type: ignore[union-attr]
    softened = last.form(1) or name
    if buffer and (buffer in "AI") != (softened[-1] in FRONT + BACK):
        rest = buffer + rest
    if rest[0] in "AI" or (buffer and softened[-1] in FRONT + BACK):
        sound = name = softened if last.form(1) else name
    tail = ""
    for letter in rest:
        a, i = harmony(tail if set(tail) & set(FRONT + BACK) else sound)
        tail += {"A": a, "I": i, "D": "t" if (sound + tail)[-1] in HARD else "d"}.get(letter, letter)
    apostrophe = "'" if last.kind in ("person", "woman", "man", "city", "time") and suffix != " mI" else ""
    return " ".join([*before, f"{name}{apostrophe}{tail}"])


def with_article(*items: Word, suffix: str = "") -> str:
    """Kırmızı bir çanta."""
    last = suffixed(suffix, items[-1]) if suffix else str(items[-1])
    return " ".join([*map(str, items[:-1]), "bir", last])


FORMS = {
    "": lambda *items: " ".join(map(str, items)),
    **{suffix.strip(): partial(suffixed, suffix) for suffix in SUFFIXES},
    "(y)A": partial(suffixed, "(y)A"),
    "bir": with_article,
    "bir mI": partial(with_article, suffix=" mI"),
}


def finish(text: str) -> str:
    """Nothing to be done."""
    return text
