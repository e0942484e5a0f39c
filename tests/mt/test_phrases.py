"""Phrases of both sides by hand, and against a phrase table that is counted with dictionaries."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from dragoman import DataError, Manifest, UsageError
from dragoman.mt.phrases import ExtractPhrases, PhrasePair, best, phrase_pairs
from dragoman.shared.text.normalise import RemovePunctuation
from dragoman.shared.text.word_links import read
from tests.shared.phases.test_linking import row
from tests.small import refuses
from tests.small import run as small_run

ROWS = [  # texts and links; "davon" and "now" are linked with nothing
    ("Michael geht davon aus.", "Michael assumes.", "0-0 1-1 3-1"),
    ("das Haus", "the house now", "0-0 1-1"),
    ("ein Haus", "a house now", "0-0 1-1"),
    ("Haus!", "house", "0-0"),
    ("HAUS alt", "house old", "0-0 1-1"),
    ("Baum", "tree", ""),
    ("Baum", None, None),
]


def write(path, rows=ROWS):
    texts = [row(n, source, target, word_links=links) for n, (source, target, links) in enumerate(rows)]
    return Manifest.write(path, texts)


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "en-de" / "train.arrow")
    return tmp_path


def run(folder, manifest="train", **changes):
    path = str(folder / "en-de" / f"{manifest}.arrow")
    arguments = {"manifests": [path], "pairs": [str(folder / "en-de" / "train.arrow")]} | changes
    made = small_run(ExtractPhrases(**arguments), folder / "run", "phrases").folder
    return list(Manifest.open(made / "en-de" / f"{manifest}.arrow"))


def test_phrases_of_both_sides_by_hand(folder):
    made = run(folder)
    assert made[0]["source_phrases"] == [[0, 1, 0, 1], [0, 4, 0, 2], [1, 4, 1, 2]]
    assert made[0]["target_phrases"] == [[0, 1, 0, 1], [0, 2, 0, 4], [1, 2, 1, 4]]
    # "haus" is "house" four times, and "house now" twice
    assert made[1]["source_phrases"] == [[0, 1, 0, 1], [0, 2, 0, 2], [1, 2, 1, 2]]
    # each phrase with "now" has one counterpart
    assert made[1]["target_phrases"] == [[0, 1, 0, 1], [0, 2, 0, 2], [0, 3, 0, 2], [1, 2, 1, 2], [1, 3, 1, 2]]
    assert made[3]["source_phrases"] == [[0, 1, 0, 1]]
    assert made[5]["source_phrases"] == made[5]["target_phrases"] == []
    assert made[6]["source_phrases"] is made[6]["target_phrases"] is None


def test_the_most_probable_counterpart_wins_over_the_shortest(folder):
    """Where "now" is linked, "haus" becomes "house now"; the table is that of the pairs, not of the manifest."""
    write(folder / "en-de" / "train.arrow", [*ROWS[:2], *[("HAUS", "House now!", "0-0 0-1")] * 2, ROWS[3]])
    write(folder / "en-de" / "dev.arrow", ROWS[1:2])
    assert run(folder, "dev")[0]["source_phrases"] == [[0, 1, 0, 1], [0, 2, 0, 2], [1, 2, 1, 3]]


def test_against_a_phrase_table(folder):
    """p(t | s) of all phrase pairs, by dictionaries."""
    words = "das alt haus buch ist ein".split()
    rows = []
    for n in range(60):
        source = [words[(n * k + k) % len(words)] for k in range(1, 2 + n % 5)]
        target = [words[(n + 2 * k) % len(words)].upper() for k in range(1, 2 + (n * 7) % 6)]
        links = {(k % len(source), (k * n) % len(target)) for k in range(1 + n % 4)}
        rows.append((" ".join(source), " ".join(target), " ".join(f"{s}-{t}" for s, t in sorted(links))))
    write(folder / "en-de" / "train.arrow", rows)
    tables = [defaultdict(Counter), defaultdict(Counter)]
    found = []
    for source, target, links in rows:
        sides = source.split(), target.lower().split()
        pairs = [(p[:2], p[2:]) for p in phrase_pairs(read(links), *map(len, sides), 3)]
        found.append((sides, pairs))
        for pair in pairs:
            texts = [" ".join(side[slice(*span)]) for side, span in zip(sides, pair, strict=True)]
            tables[0][texts[0]][texts[1]] += 1
            tables[1][texts[1]][texts[0]] += 1
    several = 0
    for made, (sides, pairs) in zip(run(folder, longest=3), found, strict=True):
        for own, column in enumerate(("source_phrases", "target_phrases")):
            choices = defaultdict(list)
            for pair in pairs:
                texts = [" ".join(side[slice(*span)]) for side, span in zip(sides, pair, strict=True)]
                counts = tables[own][texts[own]]
                probability = counts[texts[1 - own]] / counts.total()
                start, end = pair[1 - own]
                choices[pair[own]].append((-probability, end - start, start, end))
            several += any(len(choice) > 1 for choice in choices.values())
            assert made[column] == [[*span, *min(choices[span])[2:]] for span in sorted(choices)]
    assert several > 20


def test_normalizers_make_other_words(folder):
    write(folder / "en-de" / "train.arrow", [("A - B", "a b", "2-0")])
    said = "row '0': 2-0 links a word that is not there: the texts have 2 and 2 words"
    refuses(DataError, said, run, folder, normalizers={"source_text": [RemovePunctuation()]})
    write(folder / "en-de" / "train.arrow", [("A - B", "a b", "0-0 1-1")])
    made = run(folder, normalizers={"source_text": [RemovePunctuation()]})
    assert made[0]["source_phrases"] == [[0, 1, 0, 1], [0, 2, 0, 2], [1, 2, 1, 2]]


def test_a_turned_manifest_has_the_phrases_of_the_other_side(folder):
    run(folder)
    manifest = Manifest.open(folder / "run" / "phrases" / "en-de" / "train.arrow")
    assert manifest.turned()[1]["source_phrases"] == manifest[1]["target_phrases"]


def test_refusals(folder):
    refuses(UsageError, "ExtractPhrases: longest must be at least 1, not 0", run, folder, longest=0)
    Manifest.write(folder / "en-de" / "train.arrow", [row(0, "a", "b")])
    refuses(DataError, "row '0' has no column word_links: AlignWords adds it", run, folder)


def test_the_best_counterpart_is_the_most_frequent_then_the_shortest_then_the_first():
    pairs = [PhrasePair(*spans) for spans in ((0, 1, 2, 4), (0, 1, 3, 4), (0, 1, 2, 3), (1, 2, 0, 3), (1, 2, 0, 1))]
    assert best(pairs, [1, 1, 1, 2, 1]) == [[0, 1, 2, 3], [1, 2, 0, 3]]
    assert best(pairs[::-1], [1, 2, 1, 1, 1]) == [[0, 1, 2, 3], [1, 2, 0, 3]]
    assert best([], []) == []


def test_what_is_counted_is_told_and_what_the_table_lacks_counts_nothing(folder, caplog):
    with caplog.at_level("INFO", logger="dragoman"):
        made = run(folder)
    counted = [message for message in caplog.messages if "phrase pairs" in message]
    assert len(counted) == 1 and counted[0].startswith("phrases: ")
    total, different = (int(part) for part in counted[0].split() if part.isdigit())
    assert total >= different > 0
    phrases = sum(len(row["source_phrases"] or []) for row in made)
    rows = sum(row["word_links"] is not None for row in made)
    assert f"{phrases} source phrases in {rows} sentence pairs" in caplog.text
    phase = ExtractPhrases(manifests=[], pairs=[])
    phase._numbers, phase._counts = np.array([3, 5], dtype=np.uint64), np.array([7, 9])
    assert phase._counted([5, 4, 3, 6, 0]) == [9, 0, 7, 0, 0] and phase._counted([]) == []
    phase._numbers = np.array([], dtype=np.uint64)
    assert phase._counted([1, 2]) == [0, 0] and phase.longest == 4
