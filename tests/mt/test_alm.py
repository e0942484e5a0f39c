"""ALM: alternating sentences by hand and by counting; what is masked in them; what the recipe reads."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
import torch

from dragoman import DataError, Manifest, Recipe, UsageError
from dragoman.mt.alm import AlternatedPhrases
from dragoman.runs.running import run_recipe
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.masked_text import MaskedText
from dragoman.shared.batches.rewriting import edited
from dragoman.shared.text.normalise import RemovePunctuation
from tests.recipes.test_recipes import small
from tests.small import refuses
from tests.small import tokenizer as small_tokenizer

GERMAN, ENGLISH = "Der alte Hund, sagt er, sieht die Katze nicht.", "He says the old dog does not see the cat."
#: Where phrases begin and end, and their counterparts; "er" and "He says" share a word with other phrases.
PHRASES = [[0, 3, 2, 5], [0, 1, 2, 3], [1, 2, 3, 4], [3, 5, 0, 2], [4, 5, 0, 1], [6, 8, 8, 10], [7, 8, 9, 10]]
TURNED = [[0, 2, 3, 5], [0, 1, 4, 5], [2, 5, 0, 3], [9, 10, 7, 8]]
ROW = {"id": "1", "source_text": GERMAN, "source_language": "de", "target_text": ENGLISH, "target_language": "en"}
ROW |= {"source_phrases": PHRASES, "target_phrases": TURNED}


@pytest.fixture(scope="module")
def fields():
    texts = [GERMAN, ENGLISH, "他说老狗看不见猫"]
    tokenizer = small_tokenizer(texts * 4, ["en", "de", "zh"], size=330)
    return {side: TextField(column=f"{side}_text", tokenizer=tokenizer) for side in ("source", "target")}


def alternated(fields, seed, major="source", row=ROW, **changes):
    """Return a sentence of the major language and what it has become."""
    other = fields["target" if major == "source" else "source"]
    change = AlternatedPhrases(other=other, **{"plain": 0.0, "growth": 9.0} | changes)
    text = fields[major].text(row)
    edits = change(text, np.random.default_rng(seed), language=row[f"{major}_language"], row=row)
    return text, edited(text, edits)


class InOrder:
    """A generator that draws phrases in their order."""

    def random(self):
        return 0.5

    def permutation(self, count):
        return np.arange(count)


@pytest.mark.parametrize(
    ("major", "share", "expected"),
    [
        ("source", 1.0, "the old dog, He says, sieht the cat nicht."),
        ("source", 0.67, "the old dog, He says, sieht die cat nicht."),
        ("source", 6 / 9, "the old dog, He says, sieht die Katze nicht."),  # fewer than six words
        ("source", 0.3, "the old Hund, sagt er, sieht die Katze nicht."),
        ("target", 1.0, "sagt er Der alte Hund does not see the Katze."),
        ("target", 0.0, ENGLISH),
    ],
)
def test_a_sentence_by_hand(fields, major, share, expected):
    other = fields["target" if major == "source" else "source"]
    change = AlternatedPhrases(other=other, share=share, plain=0.0)
    edits = change(fields[major].text(ROW), InOrder(), language=ROW[f"{major}_language"], row=ROW)
    assert edited(fields[major].text(ROW), edits) == expected


def test_what_can_become_of_a_sentence(fields):
    """Below a share of 0.25, two of nine words: every set of phrases that fit, and no other."""
    found = Counter(alternated(fields, seed, share=0.25)[1] for seed in range(3000))
    words = [("Der", "the"), ("alte", "old"), ("er,", "He,"), ("Katze", "cat")]
    wanted = {GERMAN.replace(*one).replace(*other) for one, other in combinations(words, 2)}
    assert {*found} == wanted | {GERMAN.replace("sagt er", "He says"), GERMAN.replace("die Katze", "the cat")}


def test_a_share_that_is_a_whole_number_of_words(fields):
    """0.07 * 100 is a little more than 7, and fewer than 7 words are replaced."""
    words, phrases = " ".join("a" * 100), [[n, n + 1] * 2 for n in range(100)]
    row = ROW | {"source_text": words, "target_text": words.upper(), "source_phrases": phrases}
    assert alternated(fields, 1, row=row, share=0.07)[1].count("A") == 6


def test_neither_phrases_nor_counterparts_overlap(fields):
    """Both counterparts, or both phrases, have the word "now"."""
    row = ROW | {"source_text": "a b c d", "target_text": "w now x y", "source_phrases": [[0, 1, 0, 2], [1, 2, 1, 3]]}
    found = {alternated(fields, seed, row=row, share=1.0)[1] for seed in range(40)}
    assert found == {"w now b c d", "a now x c d"}
    row |= {"source_text": "w now x y z", "target_text": "a b c d", "source_phrases": [[0, 2, 0, 1], [1, 3, 1, 2]]}
    found = {alternated(fields, seed, row=row, share=1.0)[1] for seed in range(40)}
    assert found == {"a x y z", "w b y z"}


def test_a_share_of_the_sentences_stays_as_it_is(fields):
    same = sum(alternated(fields, seed, plain=0.2)[1] == GERMAN for seed in range(3000))
    assert abs(same / 3000 - 0.2) < 0.03
    assert alternated(fields, 1, plain=1.0)[1] == GERMAN


def test_phrases_of_a_script_without_spaces(fields):
    row = ROW | {"source_text": "他说老狗", "source_language": "zh"}
    phrases = {"source_phrases": [[0, 2, 0, 2]], "target_phrases": [[0, 2, 0, 2]]}
    assert alternated(fields, 1, row=row | phrases, share=1.0)[1] == "He says 老狗"
    middle = {"source_phrases": [[1, 3, 3, 4]], "target_phrases": [[3, 5, 2, 4]]}
    assert alternated(fields, 1, row=row | middle, share=1.0)[1] == "他 old 狗"
    assert alternated(fields, 1, row=row | middle, share=1.0, major="target")[1] == ENGLISH.replace("old dog", "老狗")


def test_normalizers_are_those_of_the_fields(fields):
    bare = TextField(column="source_text", tokenizer=fields["source"].tokenizer, normalizers=[RemovePunctuation()])
    row = ROW | {"source_text": "Der – alte Hund", "source_phrases": [[1, 2, 3, 4]]}
    assert alternated({**fields, "source": bare}, 1, row=row, share=1.0)[1] == "Der old Hund"


def test_alternating_text_is_masked(fields):
    """Tokens and labels are those of the alternating sentence, with the symbols of the major language around it."""
    change = AlternatedPhrases(other=fields["target"], plain=0.0)
    field = MaskedText(field=fields["source"], share=0.5, masked=1.0, replaced=0.0, rewriting=change)
    tokenizer, sentences = fields["source"].tokenizer, set()
    for seed in range(100):
        found = field(ROW, np.random.default_rng(seed))
        tokens = found[""].clone()
        assert (tokens[found["places"]] == tokenizer.mask).all()
        tokens[found["places"]] = found["labels"]
        assert tokens[0] == tokenizer.id("<de>") and tokens[-1] == tokenizer.eos
        sentences.add(tokenizer.decode(tokens[1:-1].tolist()))
        pieces = len(tokens) - 2
        assert len(found["places"]) == round(0.5 * pieces)
        assert len(tokens) <= field.length(ROW) == field.lengths([ROW])[0]
        assert torch.equal(found[""], field(ROW, np.random.default_rng(seed))[""])
    assert len(sentences) == 8 and GERMAN not in sentences
    assert sentences <= {alternated(fields, seed)[1] for seed in range(2000)}
    assert field.length(ROW) == 2 + int(np.ceil(1.25 * (len(fields["source"](ROW, None)) - 2)))


def test_growth_is_bounded(fields):
    """Where the sentence would become longer, the phrase that was drawn last stays."""
    row = ROW | {"source_text": "a b c d e f g", "target_text": "long longer"}
    row |= {"source_phrases": [[0, 1, 0, 1], [3, 4, 1, 2]]}
    change = AlternatedPhrases(other=fields["target"], share=0.5, plain=0.0, growth=1.5)
    field = MaskedText(field=fields["source"], share=0.0, rewriting=change)
    tokenizer = fields["source"].tokenizer
    found = {tokenizer.decode(field(row, np.random.default_rng(seed))[""].tolist()[1:-1]) for seed in range(40)}
    assert found == {"long b c d e f g", "a b c longer e f g"}


def test_what_cannot_be_is_refused(fields):
    behind = "words 8 to 10 have the counterpart 0 to 1, but the texts have 9 and 10 words"
    for wrong, message in (
        ({"source_phrases": None}, "row '1' has no source_phrases: ExtractPhrases adds them"),
        ({"target_language": None}, "row '1' does not name the languages of both sides"),
        ({"source_phrases": [[8, 10, 0, 1]]}, behind),
        ({"source_phrases": [[0, 1, 9, 11]]}, "words 0 to 1 have the counterpart 9 to 11"),
    ):
        refuses(DataError, message, alternated, fields, 1, row=ROW | wrong)
    for name, value in (("share", 1.1), ("plain", -0.1)):
        message = rf"{name} must be between 0 and 1, not {value}"
        refuses(UsageError, message, AlternatedPhrases, other=fields["target"], **{name: value})


def bare_words(text):
    return {word.strip(".,?!") for word in text.split()}


@pytest.mark.recipes
def test_the_recipe_reads_alternating_sentences_of_both_languages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe = Recipe.load("almanac/alm", small(Recipe.load("almanac/alm", {})) | {"device": "cpu"})
    workspace = run_recipe(recipe, command="a test", until="extract_phrases")
    [path] = workspace.output.glob("extract_phrases/*/train.arrow")
    rows, fit = Manifest.open(path), recipe.plan["fit"].build()
    streams = {stream.name: stream for stream in fit.streams}
    assert [*streams] == ["source", "target", "source_major", "target_major"]
    for major, other in (("source", "target"), ("target", "source")):
        [(name, field)] = streams[f"{major}_major"].fields.items()
        assert name == major
        tokenizer, foreign = fit.objective.system.inputs[major].tokenizer, 0
        for number, row in enumerate(rows):
            found = field(row, np.random.default_rng(number))
            found[""][found["places"]] = found["labels"]
            assert found[""][0] == tokenizer.id(f"<{row[f'{major}_language']}>")
            said = bare_words(tokenizer.decode(found[""].tolist()[1:-1]))
            assert said <= bare_words(row[f"{major}_text"]) | bare_words(row[f"{other}_text"])
            foreign += not said <= bare_words(row[f"{major}_text"])
        assert foreign > len(rows) / 4
