"""docs/real_input/verses.py divides aligned text, and finds a lexicon in it."""

import importlib.util
import random
from pathlib import Path

import pytest

from dragoman.almanac.frames import randomness
from dragoman.almanac.lexicons import lexicon as true_lexicon
from dragoman.almanac.worlds import KINDS, draw

PATH = Path(__file__).parent.parent / "docs" / "real_input" / "verses.py"


@pytest.fixture(scope="module")
def verses():
    spec = importlib.util.spec_from_file_location("verses", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_fourth_block_of_forty_lines_is_the_small_pairs(verses):
    lines = [str(number) for number in range(330)]
    small, large = (verses.blocks(lines, which) for which in ({3}, {0, 1, 2}))
    assert small == lines[120:160] + lines[280:320]
    assert large == lines[:120] + lines[160:280] + lines[320:]


def test_a_lexicon_has_the_words_that_are_each_others_best_by_dices_coefficient(verses):
    """Compared with a loop over sets of lines; what is not in five lines, or not in five together, is left out."""
    chance = random.Random(1)
    words = {"Dog": "Hund", "cat": "Katze", "bird": "Vogel", "fish": "Fisch", "tree": "Baum", "rare": "selten"}
    sources, targets = [], []
    for _ in range(60):
        said = chance.sample([*words][:5], 2) + (["rare"] if len(sources) < 4 else [])
        sources.append(" ".join(said) + ".")
        # "Welpe" is never without "Dog", and yet "Hund" is nearer to it, which now and then is.
        further = ("Hund", "Baum")[chance.random() < 0.9], "Welpe" if "Dog" in said and chance.random() < 0.5 else ""
        targets.append(" ".join((*(words[word] for word in said if chance.random() < 0.8), *further)))
    found = verses.lexicon(sources, targets, ("en", "de"))

    def lines_of(texts):
        rows = (text.lower().replace(".", " ").replace(",", " ").split() for text in texts)
        spoken = {number: {*words} for number, words in enumerate(rows)}
        everything = {word for one in spoken.values() for word in one}
        places = {word: {number for number, one in spoken.items() if word in one} for word in everything}
        return {word: numbers for word, numbers in places.items() if len(numbers) >= 5}

    def best(place, others):
        return max(others, key=lambda word: 2 * len(place & others[word]) / (len(place) + len(others[word])))

    here, there = lines_of(sources), lines_of(targets)
    expected = {(word, best(here[word], there)) for word in here}
    expected = {(one, other) for one, other in expected if best(there[other], here) == one}
    expected = {(one, other) for one, other in expected if len(here[one] & there[other]) >= 5}
    assert {*found} == expected and len(found) == len(expected)
    assert ("dog", "hund") in expected and "rare" not in dict(found)
    counts = [len(here[word]) for word, _ in found]
    assert counts == sorted(counts, reverse=True)


def test_words_that_meet_in_fewer_than_five_lines_are_not_paired(verses):
    for together, found in ((4, []), (5, [("dog", "hund")])):
        sources = ["dog"] * together + ["dog"] * 3 + [""] * 3
        targets = ["Hund"] * together + [""] * 3 + ["Hund"] * 3
        assert verses.lexicon(sources, targets, ("en", "de")) == found


def test_words_are_divided_where_a_part_stands_alone(verses):
    lines = ["L'hôtel est grand, part-il ?", "Il a un hôtel aujourd'hui.", "L’hôtel"]
    words = [{"hôtel", "est", "grand", "il"}, {"il", "a", "un", "hôtel", "aujourd'hui"}, {"hôtel"}]
    assert verses.words_of(lines, "fr") == words
    assert verses.words_of(["Israel's king", "Israel"], "en") == [{"israel", "king"}, {"israel"}]


@pytest.mark.parametrize(
    ("code", "precision", "coverage"), [("de", 0.97, 0.94), ("fr", 0.91, 0.90), ("ru", 0.94, 0.81)]
)
def test_the_lexicon_agrees_with_almanacs_true_one(verses, code, precision, coverage):
    """3,000 pairs of the second world, whose true lexicon comes from its grammars and not from counts.

    An entry is judged if the true lexicon has its English word. Coverage is of the true lexicon's English words that
    are in five lines.
    """
    pair = min("en", code), max("en", code)
    source = randomness(1, "pairs", "-".join(pair), "train")
    sayings = draw(KINDS["train"], 3000, source, lambda meaning: not meaning.withheld(pair))
    texts = [[saying.sentence(side) for saying in sayings] for side in ("en", code)]
    true: dict[str, set[str]] = {}
    for one, other in true_lexicon("en", code):
        true.setdefault(one, set()).add(other)
    judged = [other in true[one] for one, other in verses.lexicon(*texts, ("en", code)) if one in true]
    present = sum(word in true for word in verses.incidence(texts[0], "en")[0])
    print(f"{code}: {sum(judged)} of {len(judged)} entries are right; {present} words could be found")
    assert sum(judged) / len(judged) >= precision
    assert sum(judged) / present >= coverage


def test_pairs_share_no_line_and_have_the_layout_that_recipes_read(verses, tmp_path):
    root, out = tmp_path / "text", tmp_path / "pairs"
    root.mkdir()
    for code in ("en", "de", "es", "fr", "it", "ru"):
        for split, size in (("train", 200), ("dev", 3), ("test", 4)):
            (root / f"{split}.{code}").write_text("".join(f"{code} line {n} {split}\n" for n in range(size)))
    verses.write(root, out)
    lines = {path.parent.name: path.read_text().splitlines() for path in out.glob("en-*/train.en")}
    assert lines.keys() == {"en-de", "en-es", "en-fr", "en-it", "en-ru"} and len(lines["en-de"]) == 40
    assert all(len(rows) == 160 and not {*rows} & {*lines["en-de"]} for pair, rows in lines.items() if pair != "en-de")
    assert (out / "en-ru/test.ru").read_text() == (root / "test.ru").read_text()
    codes = ("de", "es", "fr", "it", "ru")
    pairs = {f"{one}-{other}.txt" for code in codes for one, other in (("en", code), (code, "en"))}
    assert {path.name for path in (out / "dictionaries").iterdir()} == pairs
    assert "en\tfr\n" in (out / "dictionaries/en-fr.txt").read_text()
    assert "de\ten\n" in (out / "dictionaries/de-en.txt").read_text()
    texts = {code: (out / f"monolingual/train.{code}").read_text() for code in ("en", "de", "ru")}
    numbers = {code: {int(line.split()[2]) for line in text.splitlines()} for code, text in texts.items()}
    assert numbers["en"] == {*range(40), *range(80, 120), *range(160, 200)} and numbers["de"] == {*range(40, 80)}
    assert numbers["ru"] == numbers["de"] and not numbers["en"] & numbers["de"]
    assert not numbers["en"] & {int(line.split()[2]) for line in lines["en-de"]}
    verses.write(root, tmp_path / "few", 30)
    assert (tmp_path / "few/en-de/train.de").read_text() == "".join(f"de line {n} train\n" for n in range(120, 150))
    for number in (0, 41):
        with pytest.raises(SystemExit, match=f"has 1 to 40 pairs of English and de to take, not {number}$"):
            verses.write(root, tmp_path / "more", number)
