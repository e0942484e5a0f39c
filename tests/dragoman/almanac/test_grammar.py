"""Sentences written down by hand, by rules that a school grammar of each language has."""

import pytest

from dragoman.almanac import turkish
from dragoman.almanac.frames import INTENTS, Frame, Saying, draw, randomness
from dragoman.almanac.sentences import GRAMMARS, grammar, places, sentence, templates
from dragoman.shared.errors import UsageError


def say(language, intent, template, **slots):
    assert list(slots) == list(INTENTS[intent].slots)
    return sentence(Saying(Frame(intent, tuple(slots.values())), template), language)


ENGLISH = [
    ("It is now a quarter to one in Rome.", "clock", 0, dict(city="rome", time=(12, 45))),
    ("Is it really half past three in Munich?", "clock", 2, dict(city="munich", time=(3, 30))),
    ("Our holidays begin on Monday, the third of May.", "calendar", 3, dict(weekday=0, day=3, month=5)),
    ("There are three sheep in the barn.", "animals", 0, dict(animal="sheep", place="barn", number=3)),
    ("The horse is bigger than the dog.", "comparison", 0, dict(animal="horse", other="dog", quality="big")),
    ("Please bring us one coffee and two sandwiches.", "order", 1,
     dict(food="coffee", number=1, other="sandwich", more=2)),
    ("Paul bought his aunt a gray hat.", "gift", 0, dict(person="paul", relative="aunt", thing="hat", colour="grey")),
    ("Anna would like to give her uncle a red key.", "gift", 1,
     dict(person="anna", relative="uncle", thing="key", colour="red")),
    ("Does the train to Vienna leave at one o'clock from platform four?", "departure", 2,
     dict(city="vienna", time=(1, 0), platform=4)),
    ("Emma was born on the twenty-first of June.", "birthday", 1, dict(person="emma", day=21, month=6)),
]  # fmt: skip
GERMAN = [
    # the clock: ein Uhr but nach eins; halb counts to the next hour
    ("In Rom ist es jetzt ein Uhr.", "clock", 0, dict(city="rome", time=(1, 0))),
    ("In Rom ist es schon Viertel nach eins.", "clock", 1, dict(city="rome", time=(1, 15))),
    ("Ist es in München wirklich halb eins?", "clock", 2, dict(city="munich", time=(12, 30))),
    ("Ich glaube, dass es in Wien erst Viertel vor vier ist.", "clock", 3, dict(city="vienna", time=(3, 45))),
    # ordinals: nominative and dative; the verb at the end after an apposition
    ("Heute ist Montag, der dritte Mai.", "calendar", 0, dict(weekday=0, day=3, month=5)),
    ("Das Konzert ist am Samstag, dem siebten März.", "calendar", 1, dict(weekday=5, day=7, month=3)),
    ("Wissen Sie, ob unsere Ferien am Freitag, dem ersten Juli, beginnen?", "calendar", 5,
     dict(weekday=4, day=1, month=7)),
    # adjectives: weak nominative, weak accusative, mixed accusative, in three genders
    ("Der rote Koffer kostet einundzwanzig Euro.", "price", 0, dict(thing="suitcase", colour="red", euros=21)),
    ("Für zehn Euro können Sie den roten Koffer kaufen.", "price", 1, dict(thing="suitcase", colour="red", euros=10)),
    ("Kostet die grüne Tasche wirklich zwei Euro?", "price", 2, dict(thing="bag", colour="green", euros=2)),
    ("Ich habe drei Euro für das weiße Hemd bezahlt.", "price", 3, dict(thing="shirt", colour="white", euros=3)),
    ("Ich habe meinen gelben Regenschirm im Museum verloren.", "lost", 0,
     dict(thing="umbrella", colour="yellow", shop="museum")),
    ("Gestern habe ich auf dem Markt ein schwarzes Buch gefunden.", "lost", 1,
     dict(thing="book", colour="black", shop="market")),
    ("Haben Sie meine blaue Uhr in der Schule gesehen?", "lost", 2, dict(thing="watch", colour="blue", shop="school")),
    # ihr/sein, dative, participle or infinitive at the end
    ("Anna hat ihrem Bruder eine braune Lampe gekauft.", "gift", 0,
     dict(person="anna", relative="brother", thing="lamp", colour="brown")),
    ("Peter möchte seiner Großmutter ein graues Telefon schenken.", "gift", 1,
     dict(person="peter", relative="grandmother", thing="phone", colour="grey")),
    ("Ich habe gehört, dass Emma ihrem Vater einen grünen Hut gekauft hat.", "gift", 3,
     dict(person="emma", relative="father", thing="hat", colour="green")),
    # separable verbs; wird at the end
    ("Der Zug nach Genf fährt um halb vier von Gleis eins ab.", "departure", 0,
     dict(city="geneva", time=(3, 30), platform=1)),
    ("Ich glaube, dass der Zug nach Köln um zwölf Uhr von Gleis elf abfährt.", "departure", 4,
     dict(city="cologne", time=(12, 0), platform=11)),
    ("Man sagt, dass es am Mittwoch in Athen neblig sein wird.", "weather", 3,
     dict(city="athens", weekday=2, sky="fog")),
    # dishes: für + accusative, in + accusative and dative
    ("Geben Sie dann dreihundertfünfzig Gramm Zwiebeln in die Suppe.", "recipe", 1,
     dict(dish="soup", ingredient="onions", grams=350)),
    ("In der Soße sind fünfzig Gramm Mehl.", "recipe", 3, dict(dish="sauce", ingredient="flour", grams=50)),
    ("Für den Teig brauchen wir neunhundert Gramm Käse.", "recipe", 0,
     dict(dish="dough", ingredient="cheese", grams=900)),
    # plurals and ein-, eine, einen
    ("Auf der Wiese sind sieben Hühner.", "animals", 0, dict(animal="hen", place="meadow", number=7)),
    ("Wir möchten bitte einen Kaffee und zwei Pizzen.", "order", 0,
     dict(food="coffee", number=1, other="pizza", more=2)),
    ("Gestern haben wir eine Suppe und ein Bier bestellt.", "order", 3,
     dict(food="soup", number=1, other="beer", more=1)),
    ("Julias Wohnung in Prag ist im siebten Stock.", "floor", 1, dict(person="julia", city="prague", floor=7)),
    ("Ich glaube, dass die Kuh langsamer ist als das Schwein.", "comparison", 1,
     dict(animal="cow", other="pig", quality="slow")),
    ("Bitte rufen Sie Martin unter null eins sechs an.", "telephone", 1,
     dict(person="martin", first=0, second=1, third=6)),
]  # fmt: skip
FRENCH = [
    ("Il est maintenant une heure à Rome.", "clock", 0, dict(city="rome", time=(1, 0))),
    ("À Vienne, il est déjà une heure moins le quart.", "clock", 1, dict(city="vienna", time=(12, 45))),
    ("Je crois qu'il n'est que trois heures et demie à Londres.", "clock", 3, dict(city="london", time=(3, 30))),
    ("Savez-vous s'il est déjà neuf heures et quart à Athènes ?", "clock", 5, dict(city="athens", time=(9, 15))),
    ("Aujourd'hui, nous sommes le lundi premier mai.", "calendar", 0, dict(weekday=0, day=1, month=5)),
    ("Le concert a lieu le samedi vingt et un août.", "calendar", 1, dict(weekday=5, day=21, month=8)),
    # gender and elision; colours agree, marron does not
    ("L'écharpe verte coûte vingt et un euros.", "price", 0, dict(thing="scarf", colour="green", euros=21)),
    ("La valise blanche coûte-t-elle vraiment dix euros ?", "price", 2,
     dict(thing="suitcase", colour="white", euros=10)),
    ("Le sac gris coûte-t-il vraiment dix euros ?", "price", 2, dict(thing="bag", colour="grey", euros=10)),
    ("J'ai perdu mon écharpe grise à l'hôtel.", "lost", 0, dict(thing="scarf", colour="grey", shop="hotel")),
    ("J'ai perdu ma clé bleue au musée.", "lost", 0, dict(thing="key", colour="blue", shop="museum")),
    ("Hier, j'ai trouvé une montre marron à l'école.", "lost", 1, dict(thing="watch", colour="brown", shop="school")),
    ("Est-ce qu'Emma a acheté une chemise noire à sa sœur ?", "gift", 2,
     dict(person="emma", relative="sister", thing="shirt", colour="black")),
    ("J'ai entendu dire que Paul a acheté un livre vert à son oncle.", "gift", 3,
     dict(person="paul", relative="uncle", thing="book", colour="green")),
    # de before a vowel and before an aspirated h
    ("D'Istanbul à Hambourg, il y a cent kilomètres.", "distance", 1,
     dict(city="istanbul", other="hamburg", kilometres=100)),
    ("Paris est à deux cents kilomètres de Hambourg.", "distance", 0,
     dict(city="paris", other="hamburg", kilometres=200)),
    ("J'ai entendu dire qu'Athènes est à deux cent cinquante kilomètres de Rome.", "distance", 3,
     dict(city="athens", other="rome", kilometres=250)),
    ("L'anniversaire d'Oscar est le onze avril.", "birthday", 0, dict(person="oscar", day=11, month=4)),
    ("Laura est née le deux juin.", "birthday", 1, dict(person="laura", day=2, month=6)),
    ("David est né le deux juin.", "birthday", 1, dict(person="david", day=2, month=6)),
    ("Ajoutez ensuite cinq cents grammes d'oignons à la soupe.", "recipe", 1,
     dict(dish="soup", ingredient="onions", grams=500)),
    ("Ajoutez ensuite cinq cent cinquante grammes de farine au gâteau.", "recipe", 1,
     dict(dish="cake", ingredient="flour", grams=550)),
    # plurals in -x, adjectives that agree with the subject
    ("Il y a deux chevaux dans la cour.", "animals", 0, dict(animal="horse", place="yard", number=2)),
    ("Avez-vous vu les huit oiseaux dans l'étable ?", "animals", 5, dict(animal="bird", place="barn", number=8)),
    ("La vache est plus vieille que l'âne.", "comparison", 0, dict(animal="cow", other="donkey", quality="old")),
    ("L'âne est aussi lent que la chèvre.", "comparison", 3, dict(animal="donkey", other="goat", quality="slow")),
    ("Apportez-nous une bière et deux gâteaux, s'il vous plaît.", "order", 1,
     dict(food="beer", number=1, other="cake", more=2)),
    ("Peut-être que l'appartement d'Anna à Genève est au cinquième étage.", "floor", 5,
     dict(person="anna", city="geneva", floor=5)),
    ("À vélo, vous arrivez à Prague en onze heures.", "duration", 1, dict(city="prague", vehicle="bicycle", hours=11)),
    ("L'école ouvre-t-elle mardi à dix heures ?", "opening", 2, dict(shop="school", weekday=1, time=(10, 0))),
]  # fmt: skip
TURKISH = [
    # the clock: dative and accusative of numbers, dört with d before a vowel
    ("Paris'te saat şimdi üç buçuk.", "clock", 0, dict(city="paris", time=(3, 30))),
    ("Londra'da saat artık dörde çeyrek var.", "clock", 1, dict(city="london", time=(3, 45))),
    ("Sanırım Köln'de saat daha altıyı çeyrek geçiyor.", "clock", 3, dict(city="cologne", time=(6, 15))),
    ("Münih'te saat gerçekten üç mü?", "clock", 2, dict(city="munich", time=(3, 0))),
    ("Roma'da saat gerçekten altı mı?", "clock", 2, dict(city="rome", time=(6, 0))),
    ("İstanbul'da saat gerçekten dokuz mu?", "clock", 2, dict(city="istanbul", time=(9, 0))),
    ("Bugün yirmi üç Nisan Pazar.", "calendar", 0, dict(weekday=6, day=23, month=4)),
    ("Tatilimiz on bir Mart Salı günü başlıyor.", "calendar", 3, dict(weekday=1, day=11, month=3)),
    # accusative, with k and p softened; loan words with front suffixes
    ("Altı avroya kırmızı gömleği alabilirsiniz.", "price", 1, dict(thing="shirt", colour="red", euros=6)),
    ("Gri kitabı yirmi avroya alabilir misiniz?", "price", 5, dict(thing="book", colour="grey", euros=20)),
    ("Beyaz saati on avroya alabilir misiniz?", "price", 5, dict(thing="watch", colour="white", euros=10)),
    ("Sarı telefon gerçekten beş avro mu?", "price", 2, dict(thing="phone", colour="yellow", euros=5)),
    # possessive of the first person with accusative
    ("Mavi kitabımı okulda kaybettim.", "lost", 0, dict(thing="book", colour="blue", shop="school")),
    ("Yeşil şemsiyemi müzede kaybettim.", "lost", 0, dict(thing="umbrella", colour="green", shop="museum")),
    ("Siyah saatimi otelde gördünüz mü?", "lost", 2, dict(thing="watch", colour="black", shop="hotel")),
    ("Gri bavulumu eczanede gördünüz mü?", "lost", 2, dict(thing="suitcase", colour="grey", shop="pharmacy")),
    # third person possessive with dative
    ("Anna erkek kardeşine kırmızı bir palto aldı.", "gift", 0,
     dict(person="anna", relative="brother", thing="coat", colour="red")),
    ("Paul babasına gri bir şapka aldı.", "gift", 0,
     dict(person="paul", relative="father", thing="hat", colour="grey")),
    ("Duyduğuma göre Clara büyükannesine mavi bir atkı almış.", "gift", 3,
     dict(person="clara", relative="grandmother", thing="scarf", colour="blue")),
    # ablative, dative and locative of names
    ("Atina'dan Münih'e dokuz yüz elli kilometre var.", "distance", 1,
     dict(city="athens", other="munich", kilometres=950)),
    ("Paris, Prag'dan yüz kilometre uzakta.", "distance", 0, dict(city="paris", other="prague", kilometres=100)),
    ("Berlin, Paris'ten iki yüz kilometre uzakta.", "distance", 0, dict(city="berlin", other="paris", kilometres=200)),
    ("Trenle beş saatte Viyana'ya varırsınız.", "duration", 1, dict(city="vienna", vehicle="train", hours=5)),
    ("Cenevre'ye yolculuk arabayla on saat sürüyor.", "duration", 0, dict(city="geneva", vehicle="car", hours=10)),
    ("Oscar'ın doğum günü üç Mayıs'ta.", "birthday", 0, dict(person="oscar", day=3, month=5)),
    ("Emma'nın doğum günü beş Eylül'de mi?", "birthday", 2, dict(person="emma", day=5, month=9)),
    ("Peter mayısta kırk yaşına girecek.", "age", 0, dict(person="peter", month=5, years=40)),
    ("Kek için yüz gram tereyağına ihtiyacımız var.", "recipe", 0, dict(dish="cake", ingredient="butter", grams=100)),
    ("Çorba için elli gram pirince ihtiyacımız var.", "recipe", 0, dict(dish="soup", ingredient="rice", grams=50)),
    ("Sosta gerçekten elli gram un mu var?", "recipe", 5, dict(dish="sauce", ingredient="flour", grams=50)),
    # nouns stay singular after numbers
    ("Komşumuzun bahçede üç köpeği var.", "animals", 3, dict(animal="dog", place="garden", number=3)),
    ("Komşumuzun ahırda iki keçisi var.", "animals", 3, dict(animal="goat", place="barn", number=2)),
    ("Sokaktaki on kuşu gördünüz mü?", "animals", 5, dict(animal="bird", place="street", number=10)),
    ("At gerçekten kediden daha büyük mü?", "comparison", 2, dict(animal="horse", other="cat", quality="big")),
    ("Kedi attan daha küçük.", "comparison", 0, dict(animal="cat", other="horse", quality="small")),
    ("İki kahve ve bir çay istiyoruz, lütfen.", "order", 0, dict(food="coffee", number=2, other="tea", more=1)),
    ("David Hamburg'da on ikinci katta mı oturuyor?", "floor", 2, dict(person="david", city="hamburg", floor=12)),
    ("Martin'in Berlin'deki dairesi dördüncü katta.", "floor", 1, dict(person="martin", city="berlin", floor=4)),
    ("Fırın pazar günü saat dörtte mi açılıyor?", "opening", 2, dict(shop="bakery", weekday=6, time=(4, 0))),
    ("Banka cuma günü saat ona çeyrek kala kapanıyor.", "opening", 1, dict(shop="bank", weekday=4, time=(9, 45))),
    ("Pazartesi günü Prag'da yağmur yağacak mı?", "weather", 2, dict(city="prague", weekday=0, sky="rain")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("language", "expected", "intent", "template", "slots"),
    [
        (language, *case)
        for language, cases in {"en": ENGLISH, "de": GERMAN, "fr": FRENCH, "tr": TURKISH}.items()
        for case in cases
    ],
)
def test_sentence(language, expected, intent, template, slots):
    assert say(language, intent, template, **slots) == expected


@pytest.mark.parametrize(
    ("word", "suffix", "expected"),
    [
        ("ev", "DA", "evde"), ("ev", "DAn", "evden"), ("kitap", "DA", "kitapta"), ("okul", "(y)I", "okulu"),
        ("gün", "(y)I", "günü"), ("kapı", "(y)I", "kapıyı"), ("kapı", "(n)In", "kapının"), ("ev", "(n)In", "evin"),
        ("kapı", "(s)I", "kapısı"), ("ev", "(s)I", "evi"), ("ev", "(I)m", "evim"), ("kapı", "(I)m", "kapım"),
        ("araba", "(y)lA", "arabayla"), ("uçak", "(y)lA", "uçakla"), ("saat", "DAn", "saatten"),
        ("Ankara", "(y)A", "Ankara'ya"), ("İzmir", "DA", "İzmir'de"), ("Sinop", "DAn", "Sinop'tan"),
    ],
)  # fmt: skip
def test_turkish_suffixes_of_words_outside_the_lexicon(word, suffix, expected):
    assert turkish.add(word, suffix) == expected


@pytest.mark.parametrize("language", GRAMMARS)
def test_every_template_is_a_cased_and_punctuated_sentence(language):
    for split in ("train", "tst-HE"):
        for saying in draw(split, 1500, randomness("grammar", split)):
            text = sentence(saying, language)
            words = text.split()
            assert text[0].isupper() and text[-1] in ".?" and 3 <= len(words) <= 19, text
            assert "  " not in text and not any(digit in text for digit in "0123456789"), text
            assert text.endswith("?") == sentence(saying, "en").endswith("?"), text


def said(language, intent, slots):
    return [line.format(**places(language, intent, slots)) for line in templates(language)[intent]]


def test_every_grammar_has_every_intent_in_six_templates():
    for language in GRAMMARS:
        for name, intent in INTENTS.items():
            slots = {slot: fillers[index] for index, (slot, fillers) in enumerate(intent.slots.items())}
            assert len({*said(language, name, slots)}) == 6, (language, name)


def test_every_filler_has_a_word_in_every_language():
    for language in GRAMMARS:
        for name, intent in INTENTS.items():
            some = {slot: fillers[n % len(fillers)] for n, (slot, fillers) in enumerate(intent.slots.items())}
            for slot, fillers in intent.slots.items():
                for filler in fillers:
                    assert len(said(language, name, some | {slot: filler})) == 6


def test_unknown_language_is_named():
    with pytest.raises(UsageError, match="'xx'.*en, de, fr, tr"):
        grammar("xx")
