"""The grammars of the second world against forms of other sources, and against sentences that were written by hand.

FORMS are from simplemma 2.0 (its lists of word forms: en, de, fr, es, it, tr) and pymorphy3 2.0 with the OpenCorpora
dictionary 417150 (ru). Chinese does not inflect: its nouns have the measure words of CC-CEDICT (7 November 2023).
"""

import datetime
import re
from itertools import product
from pathlib import Path

import babel.dates
import num2words
import pytest
from babel import Locale

from dragoman.almanac import russian_cases
from dragoman.almanac.frames import randomness
from dragoman.almanac.grammars import de, en, es, fr, it, ru, tr, zh
from dragoman.almanac.meanings import ACTS, CLASSES, CLOSED, INTENTS, OPEN, Meaning, class_of, draw_meaning
from dragoman.almanac.phrases import LANGUAGES, PHRASINGS, Word, grammar
from dragoman.shared.errors import UsageError

# base form and another form
FORMS = {
    "en": """
horse horses; dog dogs; cat cats; cow cows; bird birds; duck ducks; goat goats; pig pigs; rabbit rabbits
chicken chickens; donkey donkeys; lion lions; tiger tigers; elephant elephants; bear bears; wolf wolves; fox foxes
mouse mice; rat rats; snake snakes; frog frogs; bee bees; ant ants; spider spiders; butterfly butterflies
eagle eagles; owl owls; pigeon pigeons; parrot parrots; swan swans; goose geese; monkey monkeys; camel camels
giraffe giraffes; crocodile crocodiles; turtle turtles; whale whales; dolphin dolphins; zebra zebras
squirrel squirrels; hedgehog hedgehogs; kangaroo kangaroos; penguin penguins; small smaller; heavy heavier
light lighter; long longer; short shorter; wide wider; narrow narrower; thick thicker; thin thinner; old older
new newer; dirty dirtier; ugly uglier; cheap cheaper; strong stronger; weak weaker; fast faster; slow slower
warm warmer; cold colder; hard harder; soft softer; dry drier; wet wetter; dark darker; bright brighter; loud louder
quiet quieter; simple simpler; strange stranger; funny funnier; smart smarter; sweet sweeter
doctor doctors; teacher teachers; judge judges; lawyer lawyers; nurse nurses; singer singers; painter painters
butcher butchers; journalist journalists; photographer photographers; king kings; queen queens; suitcase suitcases
key keys; book books; mirror mirrors; fork forks; spoon spoons; bottle bottles; box boxes; bicycle bicycles
camera cameras; picture pictures; dress dresses; blanket blankets; candle candles; hammer hammers; brush brushes
ticket tickets; toy toys; glass glasses; blue bluer; green greener; black blacker; white whiter; grey greyer
""",
    "de": """
Pferd Pferde; Hund Hunde; Katze Katzen; Kuh Kühe; Schaf Schafe; Vogel Vögel; Ente Enten; Ziege Ziegen
Schwein Schweine; Huhn Hühner; Löwe Löwen; Elefant Elefanten; Wolf Wölfe; Fuchs Füchse; Maus Mäuse; Ratte Ratten
Schlange Schlangen; Frosch Frösche; Fisch Fische; Biene Bienen; Ameise Ameisen; Spinne Spinnen
Schmetterling Schmetterlinge; Eule Eulen; Papagei Papageien; Schwan Schwäne; Gans Gänse; Affe Affen; Kamel Kamele
Giraffe Giraffen; Krokodil Krokodile; Schildkröte Schildkröten; Wal Wale; Delfin Delfine; Zebra Zebras
Känguru Kängurus; Pinguin Pinguine; Pferd Pferden; Hund Hunden; Kuh Kühen; Schaf Schafen; Vogel Vögeln
Schwein Schweinen; Huhn Hühnern; Esel Eseln; Tiger Tigern; Wolf Wölfen; Fuchs Füchsen; Maus Mäusen; Frosch Fröschen
Fisch Fischen; Schmetterling Schmetterlingen; Adler Adlern; Schwan Schwänen; Gans Gänsen; Kamel Kamelen
Krokodil Krokodilen; Wal Walen; Delfin Delfinen; Igel Igeln; Pinguin Pinguinen; Bauer Bauern; Architekt Architekten
Pilot Piloten; Matrose Matrosen; Soldat Soldaten; Polizist Polizisten; Journalist Journalisten; Fotograf Fotografen
Student Studenten; groß größer; groß große; klein kleiner; klein kleine; schwer schwerer; schwer schwere
leicht leichter; leicht leichte; lang länger; kurz kürzer; kurz kurze; breit breiter; breit breite; schmal schmaler
schmal schmale; dick dicker; dick dicke; dünn dünner; dünn dünne; alt älter; alt alte; neu neuer; neu neue
sauber sauberer; sauber saubere; schmutzig schmutziger; schmutzig schmutzige; schön schöner; schön schöne
hässlich hässlicher; hässlich hässliche; billig billiger; billig billige; teuer teurer; teuer teure; stark stärker
stark starke; schwach schwächer; schwach schwache; schnell schneller
""",
    "fr": """
cheval chevaux; chien chiens; chat chats; vache vaches; mouton moutons; oiseau oiseaux; canard canards
chèvre chèvres; cochon cochons; lapin lapins; poule poules; âne ânes; lion lions; tigre tigres; éléphant éléphants
loup loups; renard renards; rat rats; serpent serpents; grenouille grenouilles; poisson poissons; abeille abeilles
fourmi fourmis; araignée araignées; papillon papillons; aigle aigles; chouette chouettes; pigeon pigeons
perroquet perroquets; cygne cygnes; oie oies; chameau chameaux; girafe girafes; crocodile crocodiles; tortue tortues
baleine baleines; dauphin dauphins; zèbre zèbres; écureuil écureuils; porc-épic porcs-épics; kangourou kangourous
pingouin pingouins; grand grande; petit petite; lourd lourde; léger légère; long longue; court courte; épais épaisse
ancien ancienne; neuf neuve; joli jolie; laid laide; fort forte; froid froide; sec sèche; bruyant bruyante
silencieux silencieuse; dangereux dangereuse; intelligent intelligente; doux douce; bleu bleue; vert verte
noir noire
médecin médecins; professeur professeurs; avocat avocate; boulanger boulangers; chanteur chanteurs
ingénieur ingénieurs; journaliste journalistes; musicien musiciens; étudiant étudiante; reine reines; valise valises
parapluie parapluies; clé clés; chemise chemises; lampe lampes; écharpe écharpes; miroir miroirs
fourchette fourchettes; cuillère cuillères; assiette assiettes; tasse tasses; vélo vélos; échelle échelles
poupée poupées; grand grands; petit petits; lourd lourds; large larges; étroit étroits; propre propres; laid laids
fort forts; lent lents; froid froids; utile utiles; célèbre célèbres; drôle drôles; rouge rouges; vert verts
noir noirs
""",
    "es": """
caballo caballos; perro perros; gato gatos; vaca vacas; oveja ovejas; pájaro pájaros; pato patos; cabra cabras
cerdo cerdos; conejo conejos; gallina gallinas; burro burros; león leones; tigre tigres; elefante elefantes
oso osos; lobo lobos; zorro zorros; rata ratas; serpiente serpientes; rana ranas; pez peces; abeja abejas
hormiga hormigas; araña arañas; mariposa mariposas; águila águilas; búho búhos; paloma palomas; loro loros
cisne cisnes; ganso gansos; mono monos; camello camellos; jirafa jirafas; cocodrilo cocodrilos; tortuga tortugas
ballena ballenas; delfín delfines; cebra cebras; ardilla ardillas; erizo erizos; canguro canguros
pingüino pingüinos; pequeño pequeña; pesado pesada; ligero ligera; largo larga; delgado delgada; viejo vieja
nuevo nueva; limpio limpia; sucio sucia; bonito bonita; feo fea; rápido rápida; lento lenta; cálido cálida
frío fría; blando blanda; seco seca; oscuro oscura; claro clara; ruidoso ruidosa; silencioso silenciosa
peligroso peligrosa; sencillo sencilla; famoso famosa; gracioso graciosa; rojo roja; negro negra; blanco blanca
amarillo amarilla
médico médicos; médico médica; profesor profesores; cocinero cocinera; conductor conductores; juez jueces
actor actores; bailarín bailarines; ingeniero ingenieros; periodista periodistas; músico músicos; rey reyes
llave llaves; lámpara lámparas; espejo espejos; tenedor tenedores; cuchara cucharas; ordenador ordenadores
lápiz lápices; cinturón cinturones; balón balones; muñeca muñecas; grande grandes; ligero ligeros; fuerte fuertes
débil débiles; útil útiles; feo feos; dulce dulces; azul azules; marrón marrones; gris grises; verde verdes
""",
    "it": """
cavallo cavalli; cane cani; gatto gatti; mucca mucche; pecora pecore; uccello uccelli; papera papere; maiale maiali
coniglio conigli; gallina galline; asino asini; leone leoni; tigre tigri; elefante elefanti; orso orsi; lupo lupi
volpe volpi; topo topi; ratto ratti; serpente serpenti; rana rane; pesce pesci; ape api; formica formiche
ragno ragni; farfalla farfalle; aquila aquile; gufo gufi; piccione piccioni; pappagallo pappagalli; cigno cigni
oca oche; scimmia scimmie; cammello cammelli; coccodrillo coccodrilli; tartaruga tartarughe; balena balene
delfino delfini; scoiattolo scoiattoli; riccio ricci; pinguino pinguini; piccolo piccola; leggero leggera
lungo lunga; corto corta; largo larga; spesso spessa; nuovo nuova; pulito pulita; sporco sporca; bello bella
brutto brutta; economico economica; caro cara; lento lenta; caldo calda; freddo fredda; duro dura; morbido morbida
bagnato bagnata; scuro scura; chiaro chiara; rumoroso rumorosa; silenzioso silenziosa; pericoloso pericolosa
strano strana; famoso famosa; rosso rossa; azzurro azzurra; nero nera; bianco bianca; giallo gialla
medico medici; medico medica; fornaio fornai; autista autisti; giudice giudici; cantante cantanti; attore attori
ingegnere ingegneri; pilota piloti; idraulico idraulici; musicista musicisti; studente studenti; valigia valigie
chiave chiavi; camicia camicie; sedia sedie; specchio specchi; cucchiaio cucchiai; bottiglia bottiglie
portafoglio portafogli; biglietto biglietti; pallone palloni; grande grandi; leggero leggeri; vecchio vecchi
economico economici; forte forti; veloce veloci; caldo caldi; chiaro chiari; utile utili; dolce dolci; verde verdi
grigio grigi
""",
    "zh": """
包 个; 箱子 个; 雨伞 把; 帽子 顶; 钥匙 把; 书 本; 衬衫 件; 灯 盏; 围巾 条; 桌子 张; 椅子 把; 床 张; 镜子 面; 刀 把
叉子 把; 勺子 把; 盘子 个; 瓶子 个; 自行车 辆; 吉他 把; 电脑 台; 报纸 份; 信 封; 画 幅; 铅笔 支; 裙子 条; 皮带 条
毛衣 件; 毯子 条; 蜡烛 支; 锤子 把; 刷子 把; 毛巾 条; 梳子 把; 票 张; 球 个; 地图 张; 马 匹; 狗 条; 猫 只; 鸟 只; 猪 头
兔子 只; 鸡 只; 驴 头; 狮子 头; 老虎 只; 狼 只; 蛇 条; 青蛙 只; 鱼 条; 蜜蜂 只; 蝴蝶 只; 鹅 只; 猴子 只; 长颈鹿 只
斑马 匹; 火腿 个; 苹果 个; 梨 个; 香蕉 个; 李子 个; 土豆 个; 学校 所; 银行 家; 图书馆 个; 餐馆 家; 电影院 家; 剧院 家
医院 家; 公园 个; 大学 所; 超市 家; 商店 家; 咖啡馆 家; 酒吧 家; 沙漠 个; 大使馆 个; 医生 个; 老师 个; 农民 个; 护士 个
演员 个; 画家 个; 作家 个; 工程师 个; 士兵 个; 警察 个; 服务员 个; 记者 个; 科学家 个; 翻译 个; 国王 个; 音乐会 场
婚礼 场; 节日 个; 大会 个; 课 节; 比赛 场; 展览 个; 歌剧 场; 拍卖会 场; 宴会 个
""",
}
# class, key, case or suffix, form
CASES = {
    "ru": """
animal bear мн медведей; animal bee род пчелы; animal bee тв пчелой; animal butterfly мн бабочек
animal butterfly род бабочки; animal crocodile тв крокодилом; animal dolphin тв дельфином; animal duck род утки
animal duck тв уткой; animal eagle мн орлов; animal eagle тв орлом; animal elephant мн слонов
animal elephant тв слоном; animal giraffe род жирафа; animal hedgehog род ежа; animal hedgehog тв ежом
animal horse мн лошадей; animal mouse род мыши; animal owl род совы; animal owl тв совой; animal parrot род попугая
animal parrot тв попугаем; animal penguin мн пингвинов; animal penguin род пингвина; animal penguin тв пингвином
animal pigeon мн голубей; animal pigeon род голубя; animal pigeon тв голубем; animal rabbit тв кроликом
animal rat род крысы; animal sheep мн овец; animal sheep род овцы; animal squirrel тв белкой; animal swan тв лебедем
animal wolf тв волком; animal zebra мн зебр; animal zebra род зебры; food bread род хлеба; food carrots род моркови
food cherries род вишни; food chocolate род шоколада; food garlic род чеснока; food honey род мёда
food pasta род лапши; food salt род соли; food spinach род шпината; job architect род архитектора
job cook род повара; job dancer род танцора; job electrician род электрика; job engineer род инженера
job hunter род охотника; job lawyer род адвоката; job librarian род библиотекаря; job nurse род медсестры
job plumber род сантехника; job singer род певца; job soldier род солдата; job translator род переводчика
job waiter род официанта; job writer род писателя; place castle пр замке; place cathedral пр соборе
place clinic пр клинике; place desert пр пустыне; place hut пр хижине; place kitchen пр кухне; place museum пр музее
place park пр парке; place restaurant пр ресторане; place school пр школе; place shop пр магазине
place stable пр конюшне; place tower пр башне; subject architecture вин архитектуру; subject art вин искусство
subject biology вин биологию; subject chemistry вин химию; subject economics вин экономику
subject geography вин географию; subject geology вин геологию; subject hebrew вин иврит; subject law вин право
subject music вин музыку; subject physics вин физику; subject sociology вин социологию; thing bag вин сумку
thing ball вин мяч; thing basket вин корзину; thing blanket вин одеяло; thing bottle вин бутылку
thing box вин коробку; thing camera вин камеру; thing chair вин стул; thing computer вин компьютер
thing doll вин куклу; thing dress вин платье; thing fork вин вилку; thing glass вин стакан; thing hammer вин молоток
thing key вин ключ; thing letter вин письмо; thing map вин карту; thing mirror вин зеркало; thing plate вин тарелку
thing scarf вин шарф; thing spoon вин ложку; thing suitcase вин чемодан; thing ticket вин билет
thing towel вин полотенце
""",
    "tr": """
animal ant DAn karıncadan; animal butterfly DAn kelebekten; animal cat lAr kediler; animal chicken DAn tavuktan
animal chicken lAr tavuklar; animal duck DAn ördekten; animal frog DAn kurbağadan; animal giraffe DAn zürafadan
animal goat DAn keçiden; animal goat lAr keçiler; animal goose DAn kazdan; animal horse DAn attan
animal kangaroo DAn kangurudan; animal owl DAn baykuştan; animal rabbit DAn tavşandan; animal rabbit lAr tavşanlar
animal rat DAn sıçandan; animal sheep lAr koyunlar; animal snake DAn yılandan; animal spider lAr örümcekler
animal swan DAn kuğudan; animal tiger DAn kaplandan; animal whale lAr balinalar; animal wolf DAn kurttan
animal wolf lAr kurtlar; animal zebra DAn zebradan; food bananas (y)I muzu; food bread (y)I ekmeği
food carrots (y)I havucu; food chocolate (y)I çikolatayı; food coffee (y)I kahveyi; food flour (y)I unu
food garlic (y)I sarımsağı; food grapes (y)I üzümü; food ham (y)I jambonu; food lemons (y)I limonu
food nuts (y)I fındığı; food pears (y)I armudu; food plums (y)I eriği; food potatoes (y)I patatesi
food rice (y)I pirinci; job architect (n)In mimarın; job baker (n)In fırıncının; job cook (n)In aşçının
job hairdresser (n)In kuaförün; job mechanic (n)In tamircinin; job nurse (n)In hemşirenin
job painter (n)In ressamın; job photographer (n)In fotoğrafçının; job queen (n)In kraliçenin
job soldier (n)In askerin; job waiter (n)In garsonun; place bank DA bankada; place bar (y)A bara
place cafe DA kafede; place cathedral (y)A katedrale; place cathedral DA katedralde; place church DA kilisede
place cinema DA sinemada; place circus DA sirkte; place clinic (y)A kliniğe; place desert DA çölde
place embassy (y)A elçiliğe; place forest DA ormanda; place garage (y)A garaja; place hospital DA hastanede
place hotel (y)A otele; place hut DA kulübede; place laboratory (y)A laboratuvara; place library DA kütüphanede
place monastery DA manastırda; place park (y)A parka; place pharmacy DA eczanede; place prison (y)A hapishaneye
place restaurant (y)A restorana; place sauna DA saunada; place shop (y)A mağazaya; place stable (y)A ahıra
place studio DA stüdyoda; place tent (y)A çadıra; place theater DA tiyatroda; place tower (y)A kuleye
place tunnel (y)A tünele; place university (y)A üniversiteye; thing bag (n)In çantanın; thing ball (y)I topu
thing bed (y)I yatağı; thing blanket (n)In battaniyenin; thing book (n)In kitabın; thing computer (y)I bilgisayarı
thing doll (y)I bebeği; thing dress (y)I elbiseyi; thing glass (n)In bardağın; thing guitar (y)I gitarı
thing hat (y)I şapkayı; thing jacket (n)In ceketin; thing jacket (y)I ceketi; thing lamp (n)In lambanın
thing lamp (y)I lambayı; thing letter (y)I mektubu; thing map (n)In haritanın; thing newspaper (n)In gazetenin
thing pencil (y)I kalemi; thing plate (y)I tabağı; thing scarf (n)In atkının; thing shirt (n)In gömleğin
thing toy (n)In oyuncağın; thing toy (y)I oyuncağı; thing umbrella (y)I şemsiyeyi; thing wallet (n)In cüzdanın
""",
}


def entries(text):
    return [entry.split() for entry in re.split(r"[;\n]", text) if entry.strip()]


def word(language, form):
    """The filler that a language spells so; nouns before adjectives."""
    found = grammar(language).words
    kinds = ("animal", "job", "thing", "quality", "colour", "food", "place", "event")
    spelled = [item for item in found.values() if str(item) == form]
    return next(item for kind in kinds for item in spelled if item.kind == kind)


def made(language, base):
    """The other forms that a grammar makes of a word."""
    item = word(language, base)
    thing = Word("thing", "", ("",), "f")
    functions = {
        "en": [en.plural, en.comparative],
        "de": [
            lambda w: w.form(1),
            lambda w: de.dative_plural(w) if w.form(1) else "",
            lambda w: de.noun(w, 1),
            de.comparative,
            lambda w: de.adjective(w, "e"),
        ],
        "fr": [fr.plural, lambda w: fr.agreeing(w, thing)],
        "es": [es.plural, lambda w: es.agreeing(w, thing)],
        "it": [it.plural, lambda w: it.agreeing(w, thing)],
        "zh": [zh.measure],
    }
    return {function(item) for function in functions[language]}


@pytest.mark.parametrize("language", FORMS)
def test_forms_agree_with_word_lists(language):
    assert len(entries(FORMS[language])) >= 100
    wrong = [(base, form) for base, form in entries(FORMS[language]) if form not in made(language, base)]
    assert not wrong


def test_russian_cases_agree_with_opencorpora():
    assert len(entries(CASES["ru"])) >= 100
    for kind, key, case, form in entries(CASES["ru"]):
        item = grammar("ru").word(kind, key)
        assert (ru.plural(item) if case == "мн" else russian_cases.noun(item, case)) == form


def test_turkish_suffixes_agree_with_word_lists():
    assert len(entries(CASES["tr"])) >= 100
    for kind, key, suffix, form in entries(CASES["tr"]):
        assert tr.suffixed(suffix, grammar("tr").word(kind, key)) == form


SENTENCES = {
    "en": [
        ("buy.tell", 0, ("anna", "umbrella", "yellow", 30), "Anna bought a yellow umbrella for 30 euros."),
        ("describe.tell", 1, ("bag", "old"), "It is a very old bag."),
        ("describe.ask", 1, ("umbrella", "useful"), "Is it a very useful umbrella?"),
        ("work.tell", 1, ("doctor", "university", "rome"), "In Rome the doctor works in a university."),
        ("see.tell", 0, ("mouse", "park", 3), "There are three mice in the park."),
        ("stock.tell", 0, ("apples", "hotel"), "There are no more apples in the hotel."),
    ],
    "de": [
        ("buy.tell", 0, ("anna", "umbrella", "yellow", 30), "Anna hat für 30 Euro einen gelben Regenschirm gekauft."),
        ("cost.tell", 0, ("book", "expensive", "red", 9), "Das teure rote Buch kostet 9 Euro."),
        ("lose.tell", 1, ("book", "school", "red"), "Mein rotes Buch ist in der Schule verloren gegangen."),
        ("know.tell", 0, ("max", "journalist", "vienna"), "Max kennt einen Journalisten in Wien."),
        ("bring.ask", 0, ("table", "big", "museum"), "Können Sie den großen Tisch ins Museum bringen?"),
        ("invite.tell", 1, ("anna", "wedding", 0), "Am Montag gehen wir mit Anna zur Hochzeit."),
        ("fear.tell", 0, ("king", "kangaroo"), "Der König hat Angst vor Kängurus."),
    ],
    "fr": [
        ("lose.tell", 0, ("scarf", "school", "white"), "J'ai perdu mon écharpe blanche dans l'école."),
        ("compare.tell", 0, ("donkey", "eagle", "heavy"), "L'âne est plus lourd que l'aigle."),
        ("invite.tell", 0, ("anna", "concert", 0), "Anna nous a invités au concert lundi."),
        ("eat.tell", 0, ("cook", "garlic", 1), "Le cuisinier mange de l'ail mardi."),
        ("distance.tell", 0, ("athens", "hamburg", 900), "Il y a 900 kilomètres d'Athènes à Hambourg."),
        ("keep.ask", 1, ("igor", "horse"), "Igor possède-t-il un cheval ?"),
        ("study.tell", 0, ("paul", "hungarian", "rome"), "Paul étudie le hongrois à Rome."),
        ("timetable.tell", 1, ("mathematics", 2, 805), "Les mathématiques commencent mercredi à 8 h 05."),
    ],
    "ru": [
        ("buy.tell", 0, ("anna", "bag", "blue", 30), "Анна купила синюю сумку за 30 евро."),
        ("buy.tell", 0, ("max", "letter", "red", 30), "Макс купил красное письмо за 30 евро."),
        ("know.tell", 0, ("igor", "singer", "venice"), "Игорь знает певца в Венеции."),
        ("see.tell", 1, ("cat", "forest", 2), "В лесу я видел двух кошек."),
        ("see.tell", 0, ("cat", "forest", 2), "В лесу есть две кошки."),
        ("see.tell", 0, ("elephant", "church", 5), "В церкви есть пять слонов."),
        ("want.tell", 0, ("doctor", "swim", 1), "Во вторник врач хочет плавать."),
        ("distance.tell", 1, ("athens", "tokyo", 900), "Афины находятся в 900 километрах от Токио."),
        ("temperature.tell", 0, ("florence", 21, 5), "В мае во Флоренции 21 градус."),
        ("like.tell", 2, ("maria", "apples"), "Марии нравятся яблоки."),
    ],
    "tr": [
        ("lose.tell", 0, ("book", "school", "red"), "Okulda kırmızı kitabımı kaybettim."),
        ("describe.ask", 0, ("book", "old"), "Kitap çok eski mi?"),
        ("describe.ask", 0, ("book", "long"), "Kitap çok uzun mu?"),
        ("travel.tell", 0, ("anna", "paris", 5), "Anna mayıs ayında Paris'e gidiyor."),
        ("distance.tell", 0, ("paris", "izmir", 900), "Paris'ten İzmir'e 900 kilometre."),
        ("want.tell", 2, ("cook", "eat", 0), "Aşçı pazartesi günü yiyecek."),
        ("can.tell", 1, ("anna", "help"), "Anna yardım edebiliyor."),
        ("open.tell", 0, ("museum", 4, 940), "Müze cuma günü saat 9.40'ta açılıyor."),
        ("like.tell", 0, ("anna", "butter"), "Anna tereyağını seviyor."),
    ],
    "zh": [
        ("buy.tell", 0, ("anna", "book", "red", 30), "安娜花30欧元买了一本红色书。"),
        ("see.tell", 0, ("horse", "park", 2), "公园里有两匹马。"),
        ("open.tell", 0, ("museum", 6, 900), "博物馆星期日9点开门。"),
        ("when.tell", 0, ("concert", 503), "音乐会在5月3日。"),
    ],
    "es": [
        ("see.tell", 0, ("fish", "park", 3), "Hay tres peces en el parque."),
        ("compare.tell", 0, ("eagle", "lion", "small"), "El águila es más pequeña que el león."),
        ("invite.tell", 0, ("anna", "concert", 0), "Anna nos invitó al concierto el lunes."),
        ("like.tell", 0, ("anna", "nuts"), "A Anna le gustan las nueces."),
        ("fear.ask", 1, ("king", "lion"), "¿Al rey no le gustan los leones?"),
    ],
    "it": [
        ("lie.tell", 0, ("mirror", "studio"), "Lo specchio è nello studio."),
        ("travel.tell", 0, ("anna", "athens", 5), "Anna va ad Atene in maggio."),
        ("fear.tell", 0, ("king", "squirrel"), "Il re ha paura degli scoiattoli."),
        ("see.tell", 0, ("goose", "university", 3), "Ci sono tre oche nell'università."),
        ("stock.tell", 0, ("spinach", "hotel"), "Nell'albergo non ci sono più spinaci."),
        ("born.tell", 0, ("maria", "rome", 1970), "Maria è nata a Roma nel 1970."),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("language", "name", "phrasing", "fillers", "expected"),
    [(language, *case) for language, cases in SENTENCES.items() for case in cases],
)
def test_sentence(language, name, phrasing, fillers, expected):
    intent, _, act = name.partition(".")
    assert grammar(language).sentence(Meaning(intent, act, fillers), phrasing) == expected


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_sentence_is_cased_punctuated_and_filled(language):
    generator = randomness("grammar")
    for _ in range(1500):
        meaning = draw_meaning(generator)
        for text in grammar(language).references(meaning):
            assert text[-1] in ".?。？" and not text[0].islower() and "  " not in text, text
            assert not set(text) & set("{}:|/") - {":"}, text
            assert text.endswith(("?", "？")) == (meaning.act == "ask"), text


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_three_phrasings_of_a_meaning_differ(language):
    for intent, act in product(INTENTS, ACTS):
        meaning = draw_meaning(randomness(intent), f"{intent}.{act}")
        assert len(set(grammar(language).references(meaning))) == PHRASINGS, (intent, act)


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_two_fillers_of_a_class_have_one_word(language):
    """Or the same sentence would have two meanings, and might stand in training and in a test."""
    for kind in (*OPEN, *CLOSED):
        spelled = [str(grammar(language).word(kind, key)).lower() for key in CLASSES[kind]]
        assert len(set(spelled)) == len(spelled), (kind, sorted(w for w in spelled if spelled.count(w) > 1))


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_has_at_least_1500_word_types(language):
    """Names, numbers and clock times are words, too. In Chinese, which has no spaces, they are those of the fillers."""
    generator = randomness("types")
    meanings = [draw_meaning(generator) for _ in range(20_000)]
    made = grammar(language).word
    if language == "zh":
        types = {str(made(class_of(slot), key)) for meaning in meanings for slot, key in meaning.slots.items()}
    else:
        sentences = [grammar(language).sentence(meaning, generator.randrange(3)) for meaning in meanings]
        types = {word for text in sentences for word in re.findall(r"[\w':.]+\b", text.lower())}
    numbers = sum(any(map(str.isdecimal, word)) for word in types)
    print(f"{language}: {len(types):,} word types, {len(types) - numbers:,} without digits")
    assert len(types) >= 1500 and numbers > 300
    assert len({str(made("person", name)).lower() for name in CLASSES["person"]} & types) > 30


@pytest.mark.parametrize("language", LANGUAGES)
def test_days_months_dates_and_counts_are_those_of_cldr_and_num2words(language):
    """Chinese, which num2words lacks, counts in hand values: two is 两 before a measure word."""
    locale = Locale.parse(language)
    made = grammar(language).word
    days = [str(made("weekday", day)).lower() for day in range(7)]
    assert days == [locale.days["format"]["wide"][day].lower() for day in range(7)]
    form = ("stand-alone", "wide") if language == "ru" else ("format", "abbreviated" if language == "zh" else "wide")
    names = locale.months[form[0]][form[1]]
    assert [str(made("month", month)).lower() for month in names] == [name.lower() for name in names.values()]
    for month, day in ((1, 2), (5, 13), (12, 28)):
        date = datetime.date(2020, month, day)
        assert str(made("date", 100 * month + day)) == babel.dates.format_skeleton("MMMMd", date, locale=language)
    chinese = dict(zip(CLASSES["count"], "两 三 四 五 六 七 八 九 十 十一 十二".split(), strict=True))
    for value in CLASSES["count"]:
        expected = chinese[value] if language == "zh" else num2words.num2words(value, lang=language)
        assert str(made("count", value)).replace(" ", "") == expected


#: The meanings of docs/almanac.md, and the phrasing that it shows of each.
SHOWN = [
    ("buy.tell", 0, ("anna", "umbrella", "yellow", 30)),
    ("lose.ask", 0, ("key", "library", "black")),
    ("cost.tell", 1, ("book", "expensive", "red", 9)),
    ("travel.ask", 0, ("igor", "venice", 5)),
    ("want.tell", 0, ("doctor", "swim", 1)),
    ("see.tell", 0, ("cat", "forest", 2)),
    ("compare.tell", 0, ("eagle", "lion", "small")),
    ("like.tell", 0, ("maria", "apples")),
    ("open.ask", 0, ("museum", 4, 940)),
    ("born.tell", 0, ("clara", "rome", 1970)),
]


def test_a_speaker_checks_what_the_grammars_say():
    """The page shows ten meanings in all languages, as they are said now."""
    page = (Path(__file__).parents[3] / "docs" / "almanac.md").read_text(encoding="utf-8")
    _, *sections = re.split(r"^\d+\. ", page.partition("## Ten meanings")[2], flags=re.MULTILINE)
    shown = [re.findall(r"`([\w.]+)`|^    - (\w+): (.*)$", section, re.MULTILINE) for section in sections]
    said = []
    for name, phrasing, fillers in SHOWN:
        meaning = Meaning(*name.split("."), fillers)
        said.append([(name, "", ""), *(("", code, grammar(code).sentence(meaning, phrasing)) for code in LANGUAGES)])
    assert shown == said


def test_unknown_language_is_named():
    with pytest.raises(UsageError, match="'xx'.*en, de, fr"):
        grammar("xx")
