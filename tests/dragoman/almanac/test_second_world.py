"""Files of the second world, read as plain files and with the readers of real corpora."""

from collections import Counter
from itertools import combinations, groupby
from pathlib import Path

import pytest

from dragoman.almanac import Almanac
from dragoman.almanac.documents import FOLLOW_UPS, split_of
from dragoman.almanac.frames import randomness
from dragoman.almanac.lexicons import forms, lexicon, split_words
from dragoman.almanac.meanings import CLASSES, WORDS, class_of, draw_meaning, is_withheld
from dragoman.almanac.phrases import LANGUAGES, grammar
from dragoman.almanac.worlds import KINDS, WORLDS, draw
from dragoman.mt.corpora.moses import Moses
from dragoman.shared.errors import UsageError
from tests.dragoman.almanac.test_almanac import digest
from tests.small import refuses

SIZES = {"text": 3000, "monolingual": 2000, "dev": 60, "test": 150, "documents": 40}
TEXT = ("moses", "monolingual", "documents", "lexicons")
PAIRS = [["en", "de"], ["de", "en"], *(["en", code] for code in LANGUAGES if code not in ("en", "de"))]


def almanac(root, **changes):
    settings = dict(root=root, world=2, languages=LANGUAGES, pairs=PAIRS, sizes=SIZES, layouts=TEXT)
    return Almanac(**{**settings, **changes})


def lines(path):
    return Path(path).read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    root = tmp_path_factory.mktemp("second") / "corpus"
    almanac(root, wide=["en-fr"]).write()
    return root


def test_the_first_world_keeps_its_settings(tmp_path):
    """Whoever has a corpus of world 1 on disk is not asked to write it again."""
    assert sorted(Almanac(root=tmp_path).settings) == ["languages", "layouts", "pairs", "seed", "sizes", "version"]


def test_new_spoken_splits_are_opt_in_and_tests_have_a_thousand_lines(tmp_path):
    sizes = Almanac(root=tmp_path, world=2).sizes
    assert not {"tst-voices", "tst-phrases"} & sizes.keys()
    assert sizes["test"] == sizes["tst-COMMON"] == sizes["tst-HE"] == 1000
    refuses(UsageError, "tst-voices", Almanac, root=tmp_path, sizes={"tst-voices": 10})


def test_a_pair_is_the_same_whatever_stands_beside_it(corpus, tmp_path):
    almanac(tmp_path, pairs=[["de", "en"]], languages=["de", "en"], layouts=["moses"], workers=1).write()
    assert digest(tmp_path / "text/de-en") == digest(corpus / "text/de-en")


def test_a_test_has_all_sentences_that_say_the_same(corpus):
    for language in LANGUAGES[1:]:
        folder = corpus / "text" / "-".join(sorted(("en", language)))
        for split in ("test", "test-new", "test-words"):
            said = [lines(folder / f"{split}.{language}{further}") for further in ("", ".1", ".2")]
            assert {len(column) for column in said} == {SIZES["test"]}
            assert all(len(set(texts)) == 3 for texts in zip(*said, strict=True))


@pytest.mark.parametrize("pair", [("en", "de"), ("de", "en")])
def test_the_reader_of_moses_files_finds_both_directions(corpus, pair):
    reader = Moses(root=corpus / "text", source_language=pair[0], target_language=pair[1])
    assert reader.splits() == ["train", "dev", "test", "test-new", "test-words"]
    row = next(iter(reader.rows("test")))
    assert {"source_text", "target_text", "target_text_1", "target_text_2"} <= row.keys()


def test_source_and_target_are_phrased_independently():
    sayings = draw(KINDS["wide"], 2000, randomness("phrasing"))
    pairs = Counter((saying.phrasing("en"), saying.phrasing("de")) for saying in sayings)
    assert len(pairs) == 9 and all(150 < count < 300 for count in pairs.values())
    narrow = draw(KINDS["train"], 500, randomness("phrasing"))
    assert {saying.phrasing("en") for saying in narrow} == {0, 1}


@pytest.fixture(scope="module")
def spoken():
    """What is said in the training data and in the tests of the layouts with sound, and in the sound without text."""
    drawn = (draw(KINDS[split], 1000, randomness("spoken", split)) for split in ("train", "wide"))
    trained = [saying for sayings in drawn for saying in sayings]
    splits = [split for split in WORLDS[2].splits if split != "train"]
    return trained, [saying for split in splits for saying in draw(KINDS[split], 150, randomness("spoken", split))]


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_test_sentence_is_in_any_training_text(corpus, spoken, language):
    """Pairs (one of them wide), monolingual text, documents, and what is spoken; with all references of the tests."""
    files = [*corpus.rglob(f"train.{language}")]
    assert {path.parent.name for path in files} >= {"monolingual", "documents"} and len(files) >= 3
    trained = {line for path in files for line in lines(path)} | {saying.sentence(language) for saying in spoken[0]}
    paths = [*corpus.glob(f"text/*/test*.{language}*"), *corpus.glob(f"*/**/dev.{language}*")]
    paths += corpus.glob(f"documents/test.{language}")
    tests = {line for path in paths for line in lines(path) if line}
    tests |= {text for saying in spoken[1] for text in (saying.sentence(language), *saying.references(language))}
    assert len(tests) > 1000 < len(trained)
    assert not tests & trained, sorted(tests & trained)[:3]


def test_each_sentence_that_refers_back_has_something_to_say_in_every_split():
    for key, (_, slot) in FOLLOW_UPS.items():
        splits = Counter(split_of(key, filler) for filler in CLASSES[class_of(slot)])
        assert splits.keys() == {"train", "dev", "test"} and min(splits.values()) > 3, (key, splits)


def test_documents_of_before_are_not_taken_for_those_of_now(tmp_path):
    """Their tests had sentences of the training text."""
    plain, documents = (Almanac(root=tmp_path, world=2, layouts=[name]) for name in ("moses", "documents"))
    assert (plain.settings["version"], documents.settings["version"]) == (1, 2)


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_sentence_has_one_meaning(language):
    """So that what is said in a test is in no training text, however large."""
    generator, meant = randomness("meant"), {}
    for _ in range(30_000):
        meaning = draw_meaning(generator)
        for text in grammar(language).references(meaning):
            assert meant.setdefault(text, meaning) == meaning


def test_wide_text_has_all_phrasings_of_training_meanings_alone():
    sayings = draw(KINDS["wide"], 2000, randomness("wide"))
    assert {saying.meaning.split for saying in sayings} == {"train"}
    assert {saying.phrasing("tr") for saying in sayings} == {0, 1, 2}


def test_every_pair_has_sayings_of_its_own(corpus):
    english = [set(lines(corpus / f"text/{pair}/train.en")) for pair in ("de-en", "en-tr", "en-zh")]
    assert all(len(one & other) < 0.1 * len(one) for one, other in combinations(english, 2))


def _documents(path):
    return ((blank, group) for blank, group in groupby(lines(path), key=bool) if blank)


def test_new_phrasings_are_not_in_narrow_training(corpus):
    """`fond of` and `Vorliebe` are the last phrasings of `like`."""
    for language, phrase in (("en", " fond of "), ("de", " Vorliebe ")):
        folder = corpus / "text/de-en"
        assert not [line for line in lines(folder / f"train.{language}") if phrase in line]
        assert [line for line in lines(folder / f"test-new.{language}") if phrase in line]
        assert [line for line in lines(corpus / f"monolingual/train.{language}") if phrase in line]


def test_wide_pairs_have_all_phrasings(tmp_path):
    almanac(tmp_path, layouts=["moses"], wide=["de-en"], pair_sizes={"de-en": 2000}).write()
    train = lines(tmp_path / "text/de-en/train.en")
    assert len(train) == 2000 and [line for line in train if " fond of " in line]
    if len(LANGUAGES) > 2:
        assert not [line for line in lines(tmp_path / "text/en-fr/train.en") if " fond of " in line]


def test_withheld_words_are_in_their_test_only(corpus):
    """But for words that the phrasings themselves have, as `planning a trip`."""
    for code in ("de", "en"):
        withheld, shown = set(), set()
        for (_, _, slot, filler), words in forms(code).items():
            hidden = class_of(slot) in WORDS and is_withheld(class_of(slot), filler, ("de", "en"))
            (withheld if hidden else shown).update(words)
        only = withheld - shown
        trained = {word for line in lines(corpus / f"text/de-en/train.{code}") for word in split_words(line)}
        tested = {word for line in lines(corpus / f"text/de-en/test-words.{code}") for word in split_words(line)}
        assert len(trained & only) <= 3 and len(tested & only) > 15


def test_documents_of_all_languages_correspond(corpus):
    for split, number in (("train", 40), ("dev", 4), ("test", 4)):
        texts = [lines(corpus / f"documents/{split}.{code}") for code in LANGUAGES]
        assert len({tuple(bool(line) for line in text) for text in texts}) == 1
        assert len(list(_documents(corpus / f"documents/{split}.en"))) == number


def test_a_german_pronoun_follows_the_noun_that_it_stands_for(corpus):
    """English says `it` of all; the first sentence decides between er, sie and es."""
    pronouns = set()
    documents = zip(_documents(corpus / "documents/train.en"), _documents(corpus / "documents/train.de"), strict=True)
    for (_, english), (_, german) in documents:
        pairs = list(zip(english, german, strict=True))
        feminine = " eine " in pairs[0][1]
        for one, other in pairs[1:]:
            if one.startswith("It is very"):
                pronouns.add(other.split()[0])
                assert (other.split()[0] == "Sie") == feminine
    assert pronouns == {"Er", "Sie", "Es"}


def test_a_lexicon_has_inflected_forms_and_all_translations(corpus):
    pairs = set(lexicon("en", "de"))
    some = {("wolves", "wölfe"), ("lion", "löwen"), ("bigger", "größer"), ("dentist", "arzt")}
    assert some - pairs == {("dentist", "arzt")}
    text = [line.split("\t") for line in lines(corpus / "lexicons/en-de.txt")]
    assert {tuple(pair) for pair in text} == pairs
    words = (lines(corpus / f"lexicons/en-de.{name}.txt") for name in ("0-5000", "5000-6500"))
    seed, test = ({line.split("\t")[0] for line in own} for own in words)
    assert not seed & test and len(seed) > 150 and len(test) > 150


def test_homonyms_are_kept_with_all_their_translations():
    """In English, the animal and the food have one word."""
    assert {other for word, other in lexicon("en", "es") if word == "fish"} >= {"pescado", "peces"}
    assert {other for word, other in lexicon("es", "en") if word == "pescado"} == {"fish"}


def test_lexicon_entries_occur_in_text(corpus):
    text = {word for line in lines(corpus / "monolingual/train.de") for word in split_words(line)}
    words = {line.split("\t")[1] for line in lines(corpus / "lexicons/en-de.txt")}
    assert len(words & text) > 0.8 * len(words)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"world": 3}, "worlds 1, 2, not 3"),
        ({"layouts": ["kaldi"]}, "layout 'kaldi'"),
        ({"sizes": {"tst-COMMN": 4}}, "size 'tst-COMMN'"),
        ({"wide": ["de-fr"]}, "'de-fr'"),
        ({"pair_sizes": {"de-en": 0}}, "de-en .* not 0"),
        ({"world": 1, "wide": ["de-en"], "languages": ["de", "en"], "pairs": [["de", "en"]], "sizes": {}}, "'de-en'"),
    ],
)
def test_wrong_arguments_are_named(tmp_path, changes, message):
    refuses(UsageError, message, almanac, tmp_path, **{**changes, "layouts": changes.get("layouts", ["moses"])})
