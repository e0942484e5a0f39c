"""Words get times in their recordings, by a phase that copies manifests."""

import logging

import numpy as np
import pytest
import soundfile

from dragoman import DataError, Manifest, System, UsageError
from dragoman.shared.batches.stream import Budget
from dragoman.st.aligning import AlignSpeech, ReadWords, widened
from tests.shared.systems.test_word_times import system_of, tokenizer  # noqa: F401 - a fixture
from tests.small import refuses
from tests.small import run as small_run


def test_spans_grow_by_reach_at_most_to_the_middle_of_a_gap():
    spans = [(0.05, 0.2), (0.2, 0.3), (0.36, 0.5), (1.5, 1.7)]
    assert [pytest.approx(span) for span in widened(spans, 2.0, 0.1)] == [
        (0.0, 0.2),  # up to the beginning, and not into what is next to it
        (0.2, 0.33),  # half of 0.06
        (0.33, 0.6),  # all of 0.1
        (1.4, 1.8),
    ]
    assert widened([(0.5, 1.95)], 2.0, 0.1) == [pytest.approx((0.4, 2.0))]
    assert widened(spans, 2.0, 0.0) == spans
    assert widened([], 2.0, 0.1) == []


@pytest.fixture
def folder(tmp_path, monkeypatch, tokenizer):  # noqa: F811 - a fixture
    """Two utterances of a file, one too short for its text, one without; the head marks a word every 1.2 seconds."""
    words = ["one", "three", "seven"]
    pieces = [tokenizer.encode(word) for word in words]
    places, emitted = [], {}
    for number, ids in enumerate(pieces):
        places.append([3 + 12 * number + 2 * place for place in range(len(ids))])
        emitted |= dict(zip(places[-1], ids, strict=True))
    seconds = (max(emitted) + 4) / 10
    soundfile.write(tmp_path / "a.wav", np.full(int(16000 * (1.5 + seconds)), 0.1), 16000)
    row = {"audio": str(tmp_path / "a.wav"), "start": 1.5, "duration": seconds, "source_text": " ".join(words)}
    row |= {"source_language": "en", "target_text": "eins drei sieben", "target_language": "de", "topic": "numbers"}
    rows = [row | {"id": "long"}, row | {"id": "short", "duration": 0.1}, row | {"id": "silent", "source_text": None}]
    Manifest.write(tmp_path / "en-de" / "train.arrow", rows)
    system = system_of(tokenizer, emitted)
    monkeypatch.setattr(System, "load", lambda folder, device: system)
    return tmp_path, places


def run(folder, reach, **changes):
    given = {"model": "somewhere", "manifests": [str(folder / "*" / "train.arrow")], "budget": Budget(rows=2)}
    made = small_run(AlignSpeech(**given | {"reach": reach} | changes), folder / "run", "align").folder
    return made / "en-de" / "train.arrow"


def test_rows_keep_their_columns_and_get_their_words(folder, caplog):
    where, places = folder
    with caplog.at_level(logging.INFO, logger="dragoman"):
        made = Manifest.open(run(where, 0.0))
    assert [row["id"] for row in made] == ["long", "short", "silent"]
    assert [row["topic"] for row in made] == ["numbers"] * 3
    assert made[1]["words"] is made[2]["words"] is None
    found = made[0]["words"]
    assert [word["text"] for word in found] == ["one", "three", "seven"]
    for word, positions in zip(found, places, strict=True):  # a position is a tenth of a second, of the row
        assert (word["start"], word["end"]) == pytest.approx((positions[0] / 10, (positions[-1] + 1) / 10))
    assert "3 words of 1 of 3 rows" in caplog.text


def test_words_reach_beyond_where_they_are_marked(folder):
    where, places = folder
    found = Manifest.open(run(where, 0.1))[0]["words"]
    assert found[0]["start"] == pytest.approx(places[0][0] / 10 - 0.1)
    gap = places[1][0] / 10 - (places[0][-1] + 1) / 10
    assert found[0]["end"] == pytest.approx((places[0][-1] + 1) / 10 + min(0.1, gap / 2))


def test_what_is_whole_stays_and_what_is_missing_is_made(folder, monkeypatch):
    where, _ = folder
    first = run(where, 0.0)
    before = first.stat().st_mtime_ns, first.read_bytes()
    Manifest.write(where / "en-fr" / "train.arrow", list(Manifest.open(where / "en-de" / "train.arrow")))
    again = run(where, 0.0)
    assert (again.stat().st_mtime_ns, again.read_bytes()) == before
    assert Manifest.open(again.parent.parent / "en-fr" / "train.arrow")[0]["words"] == Manifest.open(again)[0]["words"]
    monkeypatch.setattr(System, "load", None)  # all is there: no model is loaded
    run(where, 0.0)


def test_refusals(folder):
    where, _ = folder
    refuses(UsageError, "AlignSpeech: reach must be at least 0, not -1\\.0", run, where, -1.0)
    Manifest.write(where / "other" / "en-de" / "train.arrow", [{"id": "1"}])
    both = [str(where / "en-de" / "train.arrow"), str(where / "other" / "en-de" / "train.arrow")]
    refuses(UsageError, "align: two of .* have the same names of folder and file", run, where, 0.0, manifests=both)


TABLE = """utterance\tword\tstart\tend
0\tbefore\t0.100\t0.900
1\t"The\t1.000\t1.250
1\thouse.\t1.250\t2.100
2\tafter\t2.100\t3.000
"""


def read(folder, *tables):
    for number, table in enumerate(tables):
        (folder / f"{number}.words.tsv").write_text(table, encoding="utf-8")
    sound = str(folder / "0.wav")
    rows = [{"id": "a", "audio": sound, "start": 1.05, "duration": 1.0}, {"id": "b", "audio": None}]
    rows.append({"id": "c", "audio": sound, "start": 5.0, "duration": 1.0})
    Manifest.write(folder / "en-de" / "train.arrow", rows)
    made = small_run(ReadWords(manifests=[str(folder / "en-de" / "train.arrow")]), folder / "run", "read").folder
    return [row["words"] for row in Manifest.open(made / "en-de" / "train.arrow")]


def test_words_of_a_table_are_cut_to_their_row(tmp_path):
    [words, nothing, silence] = read(tmp_path, TABLE)
    assert [word["text"] for word in words] == ['"The', "house."]
    times = [time for word in words for time in (word["start"], word["end"])]
    assert times == pytest.approx([0.0, 0.2, 0.2, 1.0])
    assert nothing is None and silence == []


def test_tables_that_are_none(tmp_path):
    refuses(DataError, r"0\.words\.tsv", read, tmp_path)
    message = r"0\.words\.tsv: column 'end' is missing \(it has word, start\)"
    refuses(DataError, message, read, tmp_path, "word\tstart\n")
    late = TABLE.replace("1.250\n1", "later\n1").replace("0.900", "0.9")
    refuses(DataError, r"0\.words\.tsv, line 3: a word and two times were expected", read, tmp_path, late)
