"""CSP: fragments by hand and by counting; places and labels are those of the text as it is."""

from collections import Counter
from itertools import chain

import numpy as np
import pytest
import torch

from dragoman import DataError, Manifest, UsageError
from dragoman.mt.csp import SwitchedFragment
from dragoman.mt.lexicon import Lexicon
from dragoman.mt.mass import FragmentCrossEntropy
from dragoman.mt.noise import words_of
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.stream import Budget, Stream
from dragoman.shared.objectives import CrossEntropy
from tests import small
from tests.mt.test_mass import model, row, used_states  # noqa: F401 - a fixture
from tests.small import objective

TEXTS = ["the Dog sees a cat, twice.", "a cat sees", "the dog"]
PAIRS = {"dog": ["hund", "köter", "wauwau", "tier"], "sees": ["sieht"], "cat": ["katze"]}


@pytest.fixture(scope="module")
def plain():
    texts = [*TEXTS, *chain.from_iterable(PAIRS.values()), "Hund Köter Wauwau"]
    return TextField(column="source_text", tokenizer=small.tokenizer(texts * 4, ["en", "de"], size=320))


@pytest.fixture(scope="module")
def lexicon(tmp_path_factory):
    file = tmp_path_factory.mktemp("lexicon") / "en-de.txt"
    file.write_text("".join(f"{word} {other}\n" for word, found in PAIRS.items() for other in found), encoding="utf-8")
    return Lexicon(files={"en-de": str(file)})


class Drawn:
    """A generator that begins a fragment where the test wants it, translates all and takes the first translation."""

    def __init__(self, start):
        self.starts = [start]

    def random(self):
        return 0.0

    def integers(self, end):
        return self.starts.pop() if self.starts else 0


@pytest.mark.parametrize(
    ("start", "read", "fragment", "ends"),
    [
        (0, "the hund sieht a cat, twice.", "the Dog sees", False),
        (1, "the hund sieht a cat, twice.", "Dog sees a", False),
        (2, "the Dog sieht a katze, twice.", "sees a cat,", False),
        (3, "the Dog sees a katze, twice.", "a cat, twice.", True),
    ],
)
def test_a_fragment_by_hand(plain, lexicon, start, read, fragment, ends):
    tokenizer, text = plain.tokenizer, plain(row(TEXTS[0]), None)
    found = SwitchedFragment(field=plain, lexicon=lexicon)(row(TEXTS[0]), Drawn(start))
    assert tokenizer.decode(found[""].tolist()) == read
    assert found[""].tolist() == [int(text[0]), *tokenizer.encode(read), int(text[-1])]
    labels = found["labels"].tolist()
    assert labels == tokenizer.encode(fragment) + [tokenizer.eos] * ends
    assert text[found["places"]].tolist() == labels
    assert found["places"].tolist() == [*range(int(found["places"][0]), int(found["places"][0]) + len(labels))]
    assert found["seen"].tolist() == [*range(len(found[""]))]


def test_a_capital_begins_a_sentence(plain, lexicon):
    field = SwitchedFragment(field=plain, lexicon=lexicon, share=1.0, growth=3.0)
    read = field(row("Dog sees a Dog. Cat."), Drawn(0))[""].tolist()
    assert plain.tokenizer.decode(read) == "Hund sieht a hund. Katze."


def test_what_becomes_of_the_words_of_a_fragment(plain, lexicon):
    field = SwitchedFragment(field=plain, lexicon=lexicon, share=1.0, growth=3.0)
    rng, kinds = np.random.default_rng(1), Counter()
    for _ in range(4000):
        read = plain.tokenizer.decode(field(row("dog"), rng)[""].tolist())
        kinds[read] += 1
    expected = {"dog": 0.1, **dict.fromkeys(("hund", "köter", "wauwau"), 0.8 / 3), "tier": 0}
    assert {word: kinds[word] / 4000 for word in expected} == pytest.approx(expected, abs=0.03)


def test_translations_are_drawn_by_their_probabilities(plain, tmp_path):
    """Those of the first three, in proportion; the fourth is never drawn."""
    lines = zip(PAIRS["dog"], (0.5, 0.3, 0.1, 0.1), strict=True)
    (tmp_path / "en-de.txt").write_text("".join(f"dog\t{word}\t{p}\n" for word, p in lines), encoding="utf-8")
    lexicon = Lexicon(files={"en-de": str(tmp_path / "en-de.txt")})
    field = SwitchedFragment(field=plain, lexicon=lexicon, share=1.0, switched=1.0, replaced=0.0, growth=3.0)
    rng = np.random.default_rng(2)
    drawn = Counter(plain.tokenizer.decode(field(row("Dog"), rng)[""].tolist()).lower() for _ in range(4000))
    shares = {word: count / 4000 for word, count in drawn.items()}
    assert shares == pytest.approx({"hund": 5 / 9, "köter": 3 / 9, "wauwau": 1 / 9}, abs=0.03)


def test_where_fragments_begin(plain, lexicon):
    field = SwitchedFragment(field=plain, lexicon=lexicon)
    rng = np.random.default_rng(1)
    starts = Counter(int(field(row(TEXTS[0]), rng)["places"][0]) for _ in range(4000))
    words = [len(word) + 1 for word in TEXTS[0].split()]  # a piece a character, and a space
    assert sorted(starts) == [1 + sum(words[:number]) for number in range(4)]
    assert all(abs(count / 4000 - 0.25) < 0.03 for count in starts.values())


def test_lengths_of_fragments_and_what_replaces_their_words(plain, lexicon):
    """Of three words, 0.6 are two; no special symbol or tag replaces a word."""
    field = SwitchedFragment(field=plain, lexicon=lexicon, share=0.6, switched=0.0, replaced=1.0, growth=3.0)
    rng, symbols = np.random.default_rng(1), {plain.tokenizer.id(symbol) for symbol in plain.tokenizer.symbols}
    lengths = set()
    for _ in range(400):
        found = field(row("ab cd ef"), rng)
        lengths.add(len(found["labels"]))
        assert not symbols & {*found[""].tolist()[1:-1]}
    assert lengths == {6, 7}  # two words with their spaces, with the end or without it
    assert field.evaluating() is plain


def test_growth_is_bounded(plain, lexicon):
    field = SwitchedFragment(field=plain, lexicon=lexicon, share=1.0, switched=1.0, replaced=0.0, growth=1.1)
    rng = np.random.default_rng(1)
    for text in TEXTS:
        longest, pieces = field.length(row(text)), len(plain(row(text), None)) - 2
        assert longest == 2 + int(np.ceil(1.1 * pieces))
        for _ in range(50):
            assert len(field(row(text), rng)[""]) <= longest


def test_words_are_given_up_evenly(plain, lexicon):
    """Three words would have four pieces more, with room for three; with room for four nothing more is drawn."""
    field = SwitchedFragment(field=plain, lexicon=lexicon, share=1.0, switched=1.0, replaced=0.0, top=1, growth=1.2)
    rng, read = np.random.default_rng(1), Counter()
    for _ in range(2000):
        read[plain.tokenizer.decode(field(row("dog cat dog"), rng)[""].tolist())] += 1
    expected = {"hund katze dog", "hund cat hund", "dog katze hund"}
    assert {*read} == expected and all(abs(count / 2000 - 1 / 3) < 0.04 for count in read.values())
    fragment = words_of(plain.tokenizer).split(plain.tokenizer.encode("dog cat dog"), "en")
    one, other = (np.random.default_rng(3) for _ in range(2))
    found = [field._switched(fragment, "en", rng, capitals=[True] * 3, room=n) for rng, n in ((one, 4), (other, 99))]
    assert found[0] == found[1] and one.random() == other.random()


def batch_of(field, plain, folder):
    texts = ["a cat sees", "the dog"]
    Manifest.write(folder / "texts.arrow", [row(text, str(number)) for number, text in enumerate(texts)])
    fields = {"source": field, "target": plain}
    stream = Stream(name="text", manifests=[str(folder / "texts.arrow")], fields=fields, budget=Budget(rows=2))
    [batch] = Loader(streams=[stream], seed=1, workers=0).epoch(0)
    return batch


def test_a_whole_text_that_is_not_switched_is_copied(plain, lexicon, model, tmp_path):  # noqa: F811 - a fixture
    field = SwitchedFragment(field=plain, lexicon=lexicon, share=1.0, switched=0.0, replaced=0.0)
    batch = batch_of(field, plain, tmp_path)
    found = objective(model, FragmentCrossEntropy(label_smoothing=0.1))(batch).parts["fragment"]
    expected = objective(model, CrossEntropy(label_smoothing=0.1))(batch).parts["cross_entropy"]
    assert int(found.count) == int(expected.count)
    torch.testing.assert_close(found.sum, expected.sum)


def test_the_decoder_sees_all_that_was_read(plain, lexicon, model, tmp_path):  # noqa: F811 - a fixture
    batch = batch_of(SwitchedFragment(field=plain, lexicon=lexicon, growth=1.2), plain, tmp_path)
    assert torch.equal(used_states(model, batch), batch["source"].mask)


def test_what_cannot_be_is_refused(plain, lexicon):
    switched, rng = SwitchedFragment(field=plain, lexicon=lexicon), np.random.default_rng(1)
    german = row("hund") | {"source_language": "de"}
    small.refuses(DataError, "the lexicon has no words of its language, 'de'", switched, german, rng)
    nameless = {"id": "1", "source_text": "hund"}
    small.refuses(DataError, "row '1' does not name the language of its text", switched, nameless, rng)
    bare = TextField(column="source_text", tokenizer=plain.tokenizer, prefix=[])
    for wrong, message in (
        ({"replaced": 0.3}, r"switched and replaced must add up to at most 1, .* 0\.8 and 0\.3"),
        ({"top": 0}, "top must be at least 1, not 0"),
        ({"growth": 0.9}, r"growth must be at least 1, not 0\.9"),
        ({"field": bare}, "one symbol before it and one behind it, not 0 and 1"),
    ):
        small.refuses(UsageError, message, SwitchedFragment, **{"field": plain, "lexicon": lexicon} | wrong)
