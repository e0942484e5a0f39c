"""Words are linked with those of the translation, by a phase that copies manifests."""

import pytest

from dragoman import DataError, Manifest, UsageError
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases import AlignWords, linking
from dragoman.shared.phases.adding_columns import WORDS_TYPE
from dragoman.shared.phases.linking import bare, key
from dragoman.shared.text.normalise import RemovePunctuation
from tests import small
from tests.small import refuses

PAIRS = [
    ("The house is small.", "Das Haus ist klein."),
    ("The book is big!", "Das Buch ist groß!"),
    ("A small book", "Ein klein Buch"),
    ("The old house", "Das alt Haus"),
    ("A book is old.", "Ein Buch ist alt."),
    ("Indeed, a big house", "Ein groß Haus"),
    ("Indeed, the book", "Das Buch"),
]


def row(number, source, target, **more):
    return small.row(number, source, target or "") | {"target_text": target} | more


def spoken(text):
    return [{"text": word, "start": float(n), "end": n + 1.0} for n, word in enumerate(text.split())]


@pytest.fixture
def folder(tmp_path):
    Manifest.write(tmp_path / "text" / "train.arrow", [row(n, *pair) for n, pair in enumerate(PAIRS)])
    texts = ["small house", "INDEED, the book", "strange book"]
    targets = ["haus klein", "Das Buch.", None]
    pairs = enumerate(zip(texts, targets, strict=True))
    rows = [row(n, text, target, words=spoken(text)) for n, (text, target) in pairs]
    rows.append(row(3, "a book", "Ein Buch", words=None))
    Manifest.write(tmp_path / "en-de" / "train.arrow", rows, {"words": WORDS_TYPE})
    return tmp_path


def run(folder, manifest="en-de", **changes):
    arguments = {"manifests": [str(folder / manifest / "train.arrow")], "pairs": [str(folder / "text" / "train.arrow")]}
    AlignWords(**arguments | {"iterations": 10} | changes).run(Workspace(output=folder / "run", phase="link"))
    return list(Manifest.open(folder / "run" / "link" / manifest / "train.arrow"))


def test_links_and_translations_by_hand(folder):
    made = run(folder, symmetrisation="intersection")
    assert [row["word_links"] for row in made] == ["0-1 1-0", "1-0 2-1", None, None]
    assert made[0]["word_translations"] == ["klein", "Haus"]  # as "Haus" is most often written
    assert made[1]["word_translations"] == ["", "Das", "Buch"]
    assert made[2]["word_translations"] == ["", "Buch"]  # without a translation: the table, which lacks a word
    assert made[3]["word_translations"] is None  # its words were not found in its sound
    assert [word["text"] for word in made[1]["words"]] == ["INDEED,", "the", "book"]


def test_by_default_a_word_without_a_counterpart_is_linked_with_a_neighbours(folder):
    """One direction says so, and the word has no other link."""
    made = run(folder)
    assert [row["word_links"] for row in made] == ["0-1 1-0", "0-0 1-0 2-1", None, None]
    assert made[1]["word_translations"] == ["Das", "Das", "Buch"]


def test_by_table_no_translation_is_read(folder):
    made = run(folder, by_table=True)
    assert [row["word_links"] for row in made] == [None] * 4
    assert made[0]["word_translations"] == ["klein", "Haus"]
    assert made[1]["word_translations"][1:] == ["Das", "Buch"]
    assert made[0]["target_text"] == "haus klein"  # it is still there


def test_text_alone_gets_links(folder):
    made = run(folder, "text", symmetrisation="intersection")
    assert made[0]["word_links"] == "0-0 1-1 2-2 3-3"
    assert made[0]["word_translations"] is None
    assert made[5]["word_links"] == "1-0 2-1 3-2"


def test_normalizers_make_other_words(folder):
    Manifest.write(folder / "en-de" / "train.arrow", [row(0, "A - small book", "Ein klein Buch")])
    assert run(folder)[0]["word_links"] == "0-0 2-1 3-2"
    (folder / "run" / "link" / "en-de" / "train.arrow").unlink()
    made = run(folder, normalizers={"source_text": [RemovePunctuation()]})
    assert made[0]["word_links"] == "0-0 1-1 2-2"


def test_links_of_a_file_replace_those_of_the_model(folder):
    (folder / "a.txt").write_text("0-0 1-1\n0-0 0-1\n\n0-0\n", encoding="utf-8")
    made = run(folder, pairs=[], links={"en-de/train.arrow": str(folder / "a.txt")})
    assert [row["word_links"] for row in made] == ["0-0 1-1", "0-0 0-1", "", "0-0"]
    assert [row["word_translations"] for row in made] == [["haus", "klein"], ["Das Buch", "", ""], ["", ""], None]


def test_a_script_without_spaces_has_a_word_for_each_character(folder):
    pairs = [("one tree", "一木"), ("one", "一"), ("tree", "木")] * 2
    chinese = [row(n, *pair) | {"target_language": "zh"} for n, pair in enumerate(pairs)]
    Manifest.write(folder / "text" / "train.arrow", chinese)
    both = chinese[0] | {"words": spoken("one tree")}
    Manifest.write(folder / "en-de" / "train.arrow", [both, both | {"target_text": "木木"}])
    made = run(folder)
    assert made[0]["word_links"] == "0-0 1-1"
    assert [row["word_translations"] for row in made] == [["一", "木"], ["", "木木"]]


def test_the_form_of_a_word():
    assert [bare(word) for word in ("«Haus»,", "l'homme", "--", "a", "3.5%")] == ["Haus", "l'homme", "--", "a", "3.5"]
    assert (key("İstanbul!", "tr"), key("DAS", "de")) == ("istanbul", "das")


def test_refusals(folder):
    refuses(UsageError, "symmetrisation must be one of", run, folder, symmetrisation="best")
    links = {"links": {"en-de/train.arrow": "a.txt"}}
    refuses(UsageError, "by_table: True does not read links", run, folder, by_table=True, **links)
    other = {"links": {"en-fr/train.arrow": "a.txt"}}
    said = "links of en-fr/train.arrow, but the manifests are en-de/train.arrow"
    refuses(UsageError, said, run, folder, **other)
    said = f"^{folder}/en-de/train.arrow: row '0': no pairs of en and de were given to learn from$"
    refuses(DataError, said, run, folder, pairs=[])
    (folder / "a.txt").write_text("0-0\n" * 4, encoding="utf-8")
    Manifest.write(folder / "en-de" / "train.arrow", [row(0, "a b c", "x", words=spoken("a b"))] * 4)
    links = {"links": {"en-de/train.arrow": str(folder / "a.txt")}}
    refuses(DataError, "aligned with 2 words, but its text has 3", run, folder, **links)


def test_what_is_learned_is_told(folder, caplog):
    with caplog.at_level("INFO", logger="dragoman"):
        run(folder)
    learned, linked = [message for message in caplog.messages if message.startswith("link: ")]
    assert learned.startswith("link: en-de: 7 pairs, ") and "; log-likelihood -" in learned
    assert linked == f"link: {folder}/en-de/train.arrow: 6 of 7 words have a translation"
    numbers = [float(part.split()[-1]) for part in learned.split("log-likelihood")[1].split(", in the last pass")]
    assert numbers[0] < numbers[1]


def test_files_of_links_are_looked_at_as_far_as_their_rows_in_a_trial(folder):
    (folder / "a.txt").write_text("0-0 1-1\n0-0 0-1\n\n0-0\n0-0\n", encoding="utf-8")
    given = {"pairs": [], "links": {"en-de/train.arrow": str(folder / "a.txt")}}
    refuses(DataError, "a.txt: more lines than the 4 sentence pairs", run, folder, **given)
    arguments = {"manifests": [str(folder / "en-de" / "train.arrow")], **given}
    place = Workspace(output=folder / "trial", phase="link", debug=True)
    AlignWords(**arguments).run(place)
    made = list(Manifest.open(folder / "trial" / "link" / "en-de" / "train.arrow"))
    assert [row["word_links"] for row in made] == ["0-0 1-1", "0-0 0-1", "", "0-0"][: len(made)]


def test_numbers_reach_the_aligner_and_have_defaults(folder, monkeypatch):
    asked = []
    real = linking.WordAligner
    monkeypatch.setattr(linking, "WordAligner", lambda pairs, **how: asked.append(how) or real(pairs, **how))
    AlignWords(manifests=[], pairs=[])
    assert asked == [{"symmetrisation": "grow-diag-final", "iterations": 5, "flat": 0, "concentration": 0.0}]
    AlignWords(manifests=[], pairs=[], symmetrisation="union", iterations=2, flat=1, concentration=0.5)
    assert asked[1] == {"symmetrisation": "union", "iterations": 2, "flat": 1, "concentration": 0.5}
