"""Each kind of finding in a corpus made for it; what is found is counted by hand."""

import json
import os

import numpy as np
import pytest
import soundfile

from dragoman import DataError, Manifest
from dragoman.commands.inspection import check_corpus, check_manifests
from dragoman.mt.corpora.moses import Moses
from dragoman.preparing.preparation import prepare
from dragoman.preparing.seen import Seen
from dragoman.shared.preparing.findings import ERRORS, RATIO_FROM, WARNINGS, Findings
from dragoman.st.corpora.mustc import MustC
from dragoman.st.corpora.tsv import Tsv
from tests.small import refuses

HEADER = "id\taudio\tstart\tduration\tsource_text\ttarget_text"
RATE = 16000


def tone(seconds, amplitude=0.5):
    return amplitude * np.sin(np.arange(round(seconds * RATE)) / 7)


@pytest.fixture
def corpus(tmp_path):
    """A corpus of own tables with every kind of finding that one can have."""
    sounds = {"good": tone(2), "talk": tone(10), "silent": np.zeros(2 * RATE), "short": tone(0.05)}
    sounds["clipped"] = np.clip(tone(2, 3.0), -1, 1)
    for name, values in sounds.items():
        soundfile.write(tmp_path / f"{name}.wav", values, RATE, subtype="PCM_16")
    (tmp_path / "empty.wav").touch()
    whole = (tmp_path / "good.wav").read_bytes()
    (tmp_path / "cut.wav").write_bytes(whole[: len(whole) // 2])
    nan = tone(2)
    nan[20000] = np.nan
    soundfile.write(tmp_path / "nan.wav", nan, RATE, subtype="FLOAT")
    train = [
        "fine\tgood.wav\t\t\tA dog runs home.\tEin Hund läuft heim.",
        "gone\tgone.wav\t\t\tA cat.\tEine Katze.",
        "zero\tempty.wav\t\t\tA cow.\tEine Kuh.",
        "half\tcut.wav\t\t\tA bee.\tEine Biene.",
        "nan\tnan.wav\t\t\tAn ant.\tEine Ameise.",
        "past\ttalk.wav\t9.5\t1\tA fox.\tEin Fuchs.",
        "tail\ttalk.wav\t9.5\t0.52\tA hen.\tEine Henne.",
        "silent\tsilent.wav\t\t\tAn owl.\tEine Eule.",
        "loud\tclipped.wav\t\t\tA ram.\tEin Widder.",
        "short\tshort.wav\t\t\tAn elk.\tEin Elch.",
        "slow\ttalk.wav\t\t\tOh!\tOh weh!",
        "long\tgood.wav\t\t\t" + "word " * 30 + "\t" + "Wort " * 30,
        f"ratio\t\t\t\t{'a' * (RATIO_FROM + 1)}\tkurz",
        "same\t\t\t\tUntouched words\tUntouched words",
        "void\t\t\t\tSomething.\t ",
        "bell\t\t\t\tDing\x07dong.\tDing dong?",
        "fine\t\t\t\tTwice.\tZweimal.",
        "wide\t\t\t\t1\t2\t3",
        "none\t\t\t\t\t",
        "num\tgood.wav\t1,5\t\tA yak.\tEin Yak.",
        "huge\t\t\t\t" + "x" * 140_000 + "\tHuge.",
    ]
    test = ["t1\tgood.wav\t\t\tA dog runs home.\tEin Hund läuft heim.", "t2\ttalk.wav\t0\t1\tNew.\tNeu."]
    for name, lines in (("train", train), ("test", test)):
        (tmp_path / f"{name}.tsv").write_text("\n".join([HEADER, *lines]) + "\n", encoding="utf-8")
    with open(tmp_path / "train.tsv", "ab") as file:
        file.write(b"bytes\t\t\t\tCaf\xe9.\tKaffee.\n")
        file.write("".join(f"plain{n}\t\t\t\tNumber {n}.\tNummer {n}.\n" for n in range(30)).encode())
    return Tsv(root=tmp_path, source_language="en", target_language="de")


EXPECTED = {
    "missing audio": (1, r"train.tsv, line 3: row gone: "),
    "unreadable audio": (3, r"line 4: row zero: .*empty.wav: not readable as sound (0 bytes"),
    "segment outside its file": (1, "line 7: row past: .*the segment 9.500 to 10.500 s runs past the end (10.000 s)"),
    "broken lines": (4, "line 19: 7 cells where"),
    "invalid UTF-8": (1, "line 23: row bytes: source_text is not UTF-8 (byte 0xe9 at character 3): 'Caf\\udce9.'"),
    "duplicate id": (1, "line 18: id 'fine' is already used in line 2"),
    "segment cut at the end": (1, "line 8: row tail: .*talk.wav, 9.5 s: 0.020 s past the end"),
    "silent audio": (1, "line 9: row silent"),
    "clipped audio": (1, "line 10: row loud"),
    "short audio": (1, "line 11: row short: .*: 0.050 s"),
    "implausible duration": (2, "line 12: row slow: 10.00 s for 3 characters: 'Oh!'"),
    "implausible length ratio": (1, "line 14: row ratio: 41 to 4 characters"),
    "missing text": (1, "line 16: row void: no target_text"),
    "untranslated text": (1, "line 15: row same: both sides are 'Untouched words'"),
    "control characters": (1, "line 17: row bell: source_text has U+0007 at character 4"),
    "text in train and test": (1, "test.tsv, line 2: row t1: line 2 of train: A dog runs home. / Ein Hund läuft heim."),
    "audio in train and test": (1, "test.tsv, line 2: row t1: line 2 of train"),
}


@pytest.mark.parametrize("workers", [1, 2])
def test_every_kind_is_found_and_counted(corpus, workers):
    told = []
    checked = check_corpus(corpus, workers=workers, progress=lambda done, total: told.append((done, total)))
    counts = checked.findings.counts
    expected = {kind: count for kind, (count, _) in EXPECTED.items() if count}
    # "wide" has a cell too many and "huge" one too long for a table, "none" holds nothing, 1,5 is no number
    assert {kind: counts[kind] for kind in expected} == expected
    assert set(counts) == set(expected)
    for kind, (_, example) in EXPECTED.items():
        for part in example.split(".*"):
            assert not part or part in checked.findings.examples[kind][0]
    assert (checked.findings.errors, checked.findings.warnings) == (11, 12)
    assert checked.rows == 54 and told[-1] == (54, 54)
    assert not [name for name in os.listdir(corpus.arguments["root"]) if name.endswith((".arrow", ".json"))]
    unheard = check_corpus(corpus, workers=workers, listen=False).findings.counts
    assert unheard == {kind: count for kind, count in counts.items() if kind not in ("silent audio", "clipped audio")}


def test_line_counts_are_a_finding_and_other_splits_go_on(tmp_path):
    for split, lines in (("train", 3), ("dev", 2)):
        (tmp_path / f"{split}.en").write_text("Hi there.\n" * lines)
        (tmp_path / f"{split}.de").write_text("Na du.\n" * 2)
    checked = check_corpus(Moses(root=tmp_path, source_language="en", target_language="de"), workers=1)
    assert checked.findings.counts == {"broken files": 1} and checked.rows == 2
    assert "train.en: 3 lines, but train.de has 2" in checked.findings.examples["broken files"][0]


def test_target_lines_are_named_with_their_own_file(tmp_path):
    (tmp_path / "train.en").write_text("One.\nTwo.\n")
    (tmp_path / "train.de").write_bytes(b"Eins.\nZw\xffi.\n")
    found = check_corpus(Moses(root=tmp_path, source_language="en", target_language="de"), workers=1).findings
    assert f"{tmp_path}/train.de, line 2: row train_2" in found.examples["invalid UTF-8"][0]


def test_published_counts(tmp_path):
    """Rows have to agree; hours within a hundredth."""
    (tmp_path / "train.tsv").write_text(f"{HEADER}\na\t\t\t\tHi.\tHallo.\n")
    corpus = Tsv(root=tmp_path, source_language="en", target_language="de")
    corpus.published = {"train": {"rows (v1)": 2.0, "hours": 0.0}}
    found = check_corpus(corpus, workers=1).findings
    assert found.examples == {"published counts": ["train: 1 rows, published rows (v1): 2"]}
    soundfile.write(tmp_path / "a.wav", tone(36), 16000)
    for split in ("dev", "train"):
        (tmp_path / f"{split}.tsv").write_text(f"{HEADER}\na\ta.wav\t\t\tHi.\tHallo.\n")
    corpus = Tsv(root=tmp_path, source_language="en", target_language="de")
    corpus.published = {"train": {"hours": 0.01}, "dev": {"hours": 0.02}}  # each has 36 s of its own
    found = check_corpus(corpus, workers=1).findings
    assert found.examples["published counts"] == ["dev: 0.01 hours, published hours: 0.02"]


def test_manifests(corpus, tmp_path):
    reports = prepare(corpus, tmp_path / "out", workers=1, skip_bad=True)
    assert [report.rows for report in reports] == [41, 2]
    paths = [tmp_path / "out" / "test.arrow", tmp_path / "out" / "train.arrow"]
    found = check_manifests(paths, workers=1).findings
    assert found.errors == 0 and found.counts["audio in train and test"] == 1
    assert "test.arrow, row 1: row t1: line 1 of train" in found.examples["audio in train and test"][0]
    (tmp_path / "good.wav").unlink()
    Manifest.write(tmp_path / "dev.arrow", [{"id": "x", "source_text": "?", "source_language": "xx"}])
    (tmp_path / "half.arrow").write_bytes(paths[0].read_bytes()[:500])
    found = check_manifests([*paths, tmp_path / "dev.arrow", tmp_path / "half.arrow"], workers=1).findings
    assert found.counts["missing audio"] == 3 and found.counts["broken files"] == 1
    assert "dev.arrow, row 1: row x: source_language is 'xx'" in found.examples["unknown language"][0]


def test_test_sentences_in_monolingual_text_are_counted_and_listed(tmp_path):
    """Either side is found, in its own language alone; sides of parallel text and transcripts are not monolingual."""
    pair = {"source_language": "en", "target_language": "de"}
    german = [{"id": f"m{n}", "source_text": text, "source_language": "de"} for n, text in enumerate(["Nein.", "Ja."])]
    english = [{"id": "m", "source_text": "Fine.", "source_language": "en"}]
    spoken = [{"id": "s", "audio": "gone.wav", "source_text": "Spoken.", "source_language": "en"}]
    paired = [{"id": "p", "source_text": "Paired.", "target_text": "Gepaart.", **pair}]
    tests = [("Yes.", "Ja."), ("Fine.", "Gut."), ("Nein.", "No."), ("Spoken.", "?"), ("Paired.", "!")]
    rows = [{"id": f"t{n}", "source_text": one, "target_text": other, **pair} for n, (one, other) in enumerate(tests)]
    written = {"de/train": german, "en/train": english, "asr/train": spoken, "en-de/train": paired, "en-de/test": rows}
    paths = [Manifest.write(tmp_path / f"{name}.arrow", given).path for name, given in written.items()]
    found = check_manifests(paths, workers=1, listen=False).findings
    place = f"{tmp_path}/en-de/test.arrow, row"
    assert found.counts["test sentence in monolingual text"] == 2
    assert sorted(found.examples["test sentence in monolingual text"]) == [
        f"{place} 1: row t0: line 2 of text without translations: Ja.",
        f"{place} 2: row t1: line 1 of text without translations: Fine.",
    ]


def test_skipped_rows_are_listed(corpus, tmp_path):
    """Id, file, line and reason, tab-separated; the list goes when there is nothing on it."""
    with pytest.raises(DataError, match=r"tsv/train: 11 of 52 rows cannot be used: .*line 3: row gone"):
        prepare(corpus, tmp_path / "out", workers=1)
    assert not list((tmp_path / "out").glob("*.arrow"))
    train, _ = prepare(corpus, tmp_path / "out", workers=1, skip_bad=True)
    assert (train.rows, train.unusable, train.empty) == (41, 11, 0)
    lines = (tmp_path / "out" / "train.skipped.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    assert rows[0] == ["id", "file", "line", "reason"] and {len(row) for row in rows} == {4}
    assert [int(row[2]) for row in rows[1:]] == [3, 4, 5, 6, 7, 18, 19, 20, 21, 22, 23]
    assert {row[1] for row in rows[1:]} == {str(tmp_path / "train.tsv")}
    assert rows[1][0] == "gone" and "no such file" in rows[1][3]
    assert rows[6] == ["fine", rows[1][1], "18", "id 'fine' is already used in line 2"]
    assert not (tmp_path / "out" / "test.skipped.tsv").exists()
    kept = json.loads((tmp_path / "out" / "prepared.json").read_text())["splits"]["train"]["report"]
    assert kept["unusable"] == 11


def test_more_than_a_quarter_of_bad_rows_is_an_error_whatever_may_be_skipped(tmp_path):
    rows = [f"r{i}\t{'gone.wav' if i < 20 else ''}\t\t\tHi {i}.\tHallo." for i in range(60)]
    (tmp_path / "train.tsv").write_text("\n".join([HEADER, *rows]) + "\n")
    corpus = Tsv(root=tmp_path, source_language="en", target_language="de")
    with pytest.raises(DataError, match=r"20 of 60 rows \(more than 25%\) cannot be used"):
        prepare(corpus, tmp_path / "out", workers=1, skip_bad=True)


def test_a_talk_of_must_c(tmp_path):
    """The rows of a yaml are named by the lines of the texts."""
    data = tmp_path / "en-de" / "data" / "train"
    (data / "wav").mkdir(parents=True)
    (data / "txt").mkdir()
    soundfile.write(data / "wav" / "t.wav", tone(5), RATE)
    (data / "txt" / "train.yaml").write_text(
        "- {duration: 1.0, offset: 0.5, speaker_id: s, wav: t.wav}\n"
        "- {duration: 2.0, offset: 4.0, speaker_id: s, wav: t.wav}\n"
    )
    (data / "txt" / "train.en").write_text("One.\nTwo.\n")
    (data / "txt" / "train.de").write_text("Eins.\nZwei.\n")
    found = check_corpus(MustC(root=tmp_path), workers=1).findings
    assert "train.en, line 2: row t_1: " in found.examples["segment outside its file"][0]
    assert "published rows (v1): 229,703" in found.examples["published counts"][0]


def test_seen_is_a_dictionary():
    """Against setdefault, with repetitions within and between chunks."""
    rng = np.random.default_rng(0)
    seen, oracle, place = Seen(), {}, 0
    for _ in range(40):
        keys = [f"k{number}" for number in rng.integers(0, 900, int(rng.integers(0, 60)))]
        places = list(range(place, place + len(keys)))
        place += len(keys)
        expected = []
        for key, number in zip(keys, places, strict=True):
            expected.append(oracle.get(key))
            oracle.setdefault(key, number)
        assert seen.add(keys, places) == expected
    assert seen.find([*oracle, "new"]) == [*oracle.values(), None]


def test_the_table():
    findings = Findings()
    for number in range(5):
        findings.add("empty text", f"a.tsv, line {number}: ", "target_text\nis empty")
    findings.add("missing audio", "", "gone")
    lines = findings.render().splitlines()
    assert [" ".join(line.split()[:4]) for line in lines[2:4]] == ["missing audio error 1", "gone"]
    assert lines[4].split() == ["empty", "text", "warning", "5"]
    assert lines[5:] == [*(f"    a.tsv, line {n}: target_text is empty" for n in range(3)), "    and 2 more"]
    assert Findings().render() == "nothing found" and not set(ERRORS) & set(WARNINGS)
    refuses(ValueError, "no kind", findings.add, "bad", "", "")
