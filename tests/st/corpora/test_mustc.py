"""The MuST-C reader on miniatures of the layout, with yaml in the styles that PyYAML writes."""

import textwrap

import numpy as np
import pytest
import soundfile
import yaml

from dragoman import DataError, Manifest
from dragoman.preparing.preparation import prepare
from dragoman.shared.batches.manifest import COLUMNS
from dragoman.shared.sound.audio import read_audio
from dragoman.st.corpora import mustc
from dragoman.st.corpora.mustc import MustC
from tests.small import refuses, sides

#: Talks by wav: (offset, duration, transcript, translation) in the order of the files, which is not that of time.
TALKS = {
    "ted_1": [(0.5, 1.0, "One.", "Eins."), (10.25, 0.5, "Ten.", "Zehn."), (9.0, 1.125, "Nine.", "Neun.")],
    "ted_22": [(0.0, 0.75, "(Applause)", "(Applaus)"), (2.0, 1.5, "A line\u2028in two.", "Zwei.")],
}


def make_corpus(root, yaml_text=None, split="train", talks=TALKS):
    """Write a split in the layout of MuST-C en-de and return the segments as (wav, offset, duration, en, de)."""
    data = root / "en-de" / "data" / split
    (data / "wav").mkdir(parents=True)
    (data / "txt").mkdir()
    segments = [(talk, *segment) for talk, parts in talks.items() for segment in parts]
    for number, talk in enumerate(talks):
        noise = np.random.default_rng(number).uniform(-0.9, 0.9, 12 * 16000)
        soundfile.write(data / "wav" / f"{talk}.wav", noise, 16000, subtype="PCM_16")
    form = "- {{duration: {2:.6f}, offset: {1:.6f}, rW: 3, speaker_id: spk.{3}, wav: {0}.wav}}"
    lines = [form.format(*segment[:3], segment[0][4:]) for segment in segments]
    (data / "txt" / f"{split}.yaml").write_text(yaml_text or "\n".join(lines) + "\n", encoding="utf-8")
    (data / "txt" / f"{split}.en").write_text("".join(f"{s[3]}\n" for s in segments), encoding="utf-8")
    (data / "txt" / f"{split}.de").write_text("".join(f"{s[4]}\n" for s in segments), encoding="utf-8")
    return segments


def test_rows(tmp_path):
    """Rows are the lines in order; ids count in time within the talk."""
    segments = make_corpus(tmp_path)
    rows = list(MustC(root=tmp_path).rows("train"))
    assert sides(rows) == [segment[3:] for segment in segments]
    assert [row["id"] for row in rows] == ["ted_1_0", "ted_1_2", "ted_1_1", "ted_22_0", "ted_22_1"]
    assert [(row["start"], row["duration"]) for row in rows] == [segment[1:3] for segment in segments]
    audio = str(tmp_path / "en-de/data/train/wav/ted_22.wav")
    values = ("ted_22_0", audio, 0.0, 0.75, "(Applause)", "en", "(Applaus)", "de", "spk.22", "ted_22")
    assert rows[3] == dict(zip(COLUMNS, values, strict=True))


def test_prepared(tmp_path):
    for split in ("train", "tst-COMMON"):
        make_corpus(tmp_path / "in", split=split)
    corpus = MustC(root=tmp_path / "in")
    assert corpus.splits() == ["train", "tst-COMMON"] and corpus.folder == "en-de"
    reports = prepare(corpus, tmp_path / "out", workers=2)
    assert [report.rows for report in reports] == [5, 5]
    assert reports[0].seconds == pytest.approx(1.0 + 0.5 + 1.125 + 0.75 + 1.5)
    assert (reports[0].source_words, reports[0].target_words, reports[0].speakers) == (8, 5, 2)
    row = Manifest.open(tmp_path / "out" / "en-de" / "train.arrow")[2]
    whole, _ = soundfile.read(row["audio"], dtype="float32")
    found = read_audio(row["audio"], row["start"], row["duration"])
    np.testing.assert_array_equal(found, whole[9 * 16000 : 9 * 16000 + 18000])


ITEMS = [
    {"duration": duration, "offset": offset, "speaker_id": speaker, "wav": wav}
    for duration, offset, speaker, wav in (
        (1.0, 0.5, "0123", "ted_1.wav"),
        (0.5, 10.25, "no", "ted_1.wav"),
        (1.125, 9.0, "a: b", "ted_1.wav"),
        (0.75, 0.0, "null_1", "ted_22.wav"),
        (1.5, 2.0, "it's", "ted_22.wav"),
    )
]
STYLES = {
    "other order, quotes, integers": """\
---
# a comment
- {wav: 'ted_1.wav', "speaker_id": 0123, offset: "0.5", duration: 1}
- {wav: "ted_1.wav", speaker_id: no, offset: 10.25, duration: .5, rW: 4}

- { duration: 1.125 , wav: ted_1.wav, offset: 9, speaker_id: "a: b" }
- {duration: 7.5e-1, offset: 0, wav: ted_22.wav, speaker_id: null_1}
- {duration: 1.5, offset: 2.0, wav: ted_22.wav, speaker_id: 'it''s'}
""",
    "block maps": yaml.safe_dump(ITEMS),
    "maps over two lines": yaml.safe_dump(ITEMS, default_flow_style=None, width=40),
    "indented": textwrap.indent(yaml.safe_dump(ITEMS, default_flow_style=None), "  "),
    "one line": yaml.safe_dump(ITEMS, default_flow_style=True, width=9999),
    "aliases": """\
- {duration: 1.0, offset: 0.5, speaker_id: "0123", wav: &talk ted_1.wav}
- {duration: 0.5, offset: 10.25, speaker_id: "no", wav: *talk}
- {duration: 1.125, offset: 9.0, speaker_id: "a: b", wav: *talk}
- {duration: 0.75, offset: 0.0, speaker_id: null_1, wav: &other ted_22.wav}
- {duration: 1.5, offset: 2.0, speaker_id: "it's", wav: *other}
""",
}


@pytest.mark.parametrize("part", [1, 2, 3, 2000])
@pytest.mark.parametrize("style", STYLES)
def test_any_yaml(tmp_path, monkeypatch, style, part):
    """Any order, quoting and style gives the same rows, however the file is parted; speakers stay strings."""
    monkeypatch.setattr(mustc, "_PART", part)
    segments = make_corpus(tmp_path, STYLES[style])
    rows = list(MustC(root=tmp_path).rows("train"))
    assert [(row["document"], row["start"], row["duration"]) for row in rows] == [segment[:3] for segment in segments]
    assert [row["speaker"] for row in rows] == ["0123", "no", "a: b", "null_1", "it's"]


#: The project's words, or those of PyYAML from 6.0.4 on.
TOO_DEEP = r"(nested more than 100 levels deep|not yaml \(exceeded maximum nesting depth)"
ITEM = "- {duration: 1.0, offset: 0.5, speaker_id: a, wav: ted_1.wav}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ITEM * 6, r"train\.yaml: 6 segments, but train\.en has 5 lines"),
        (ITEM * 4, r"train\.yaml: 4 segments, but train\.en has 5 lines"),
        (ITEM * 4 + "- {duration: 1.0, speaker_id: a, wav: b.wav}\n", r"train\.yaml, line 5, item 5: offset is None"),
        (ITEM * 4 + ITEM.replace("0.5", "half"), r"train\.yaml, line 5, item 5: offset is 'half', not a number"),
        (ITEM * 4 + ITEM.replace("1.0", "nan"), r"train\.yaml, line 5, item 5: duration is 'nan', not a number"),
        (ITEM * 4 + ITEM.replace(" wav: ted_1.wav", ""), r"train\.yaml, line 5, item 5: wav is None"),
        (ITEM * 4 + "- ted_1.wav\n", r"train\.yaml, line 5: a map is expected, not 'ted_1\.wav'"),
        (ITEM * 4 + ITEM.replace("}", ""), r"train\.yaml, line \d+: not yaml"),
        ("duration: 1.0\n", r"train\.yaml, line 1: a list of segments is expected, not a map"),
        ("one\n", r"train\.yaml, line 1: a list of segments is expected, not 'one'"),
        ("# nothing\n", r"train\.yaml: a list of segments is expected, but the file is empty"),
        (ITEM + "- [1]\n", r"train\.yaml, line 2: a map is expected, not a list"),
        (ITEM + "- *talk\n", r"train\.yaml, line 2: not yaml \(no anchor 'talk' before its alias\)"),
        ("- &a {b: &b c}\n- *b\n", r"train\.yaml, line 1, item 1: wav is None, not the name of a sound file"),
        (ITEM + "- {[a]: b}\n", r"train\.yaml, line 2: a key is expected, not a list"),
        (ITEM + "---\n" + ITEM, r"train\.yaml, line 2: a second document begins"),
        ("- {a: b, c}: {\n", r"train\.yaml, line 1: a key is expected, not a map"),
    ],
)
def test_bad_yaml(tmp_path, text, message):
    make_corpus(tmp_path, text)
    with pytest.raises(DataError, match=message) as caught:
        list(MustC(root=tmp_path).rows("train"))
    assert "\n" not in str(caught.value)


LAUGHS = "".join(
    f"- {{duration: 1.0, offset: 0.5, wav: ted_1.wav, more: &l{n} [{', '.join([f'*l{n - 1}'] * 9) if n else 'x'}]}}\n"
    for n in range(30)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGHS + "- *l29\n", r"line 31: a map is expected, not the alias 'l29' of something else"),
        (LAUGHS + ITEM.replace("ted_1.wav", "*l29"), r"line 31, item 31: wav is None"),
        (LAUGHS + ITEM.replace("0.5", "*l29"), r"line 31, item 31: offset is None, not a number"),
        (LAUGHS, r"30 segments, but train\.en has 5 lines"),
        ("[" * 100_000, rf"line 1: (a map is expected, not a list|{TOO_DEEP})"),
        (ITEM + "- {wav: " + "[" * 100_000, rf"line 2: {TOO_DEEP}"),
        (ITEM + "- " + "{a: " * 100_000, rf"line 2: {TOO_DEEP}"),
        (ITEM + "- {? " + "[" * 100_000, rf"line 2: {TOO_DEEP}"),
        (ITEM.replace("ted_1", "x" * 100_000).replace("0.5", "y" * 100_000), r"offset is 'yyyy.*, not a number"),
        ("- *" + "x" * 100_000, r"line 1: not yaml \(no anchor 'xxx"),
        ("- " + "x" * 100_000, r"line 1: a map is expected, not 'xxx"),
        ("- {" + "x" * 100_000 + "}: {\n", r"line 1"),
    ],
)
def test_yaml_that_stands_for_more_than_it_is(tmp_path, text, message):
    """Aliases of aliases (9^29 texts), levels that no parser can follow, long values: refused in a short line."""
    make_corpus(tmp_path, text)
    with pytest.raises(DataError, match=rf"train\.yaml.*{message}") as caught:
        list(MustC(root=tmp_path).rows("train"))
    assert len(str(caught.value)) < 500


def test_yaml_that_is_not_utf8(tmp_path):
    make_corpus(tmp_path)
    path = tmp_path / "en-de/data/train/txt/train.yaml"
    path.write_bytes(path.read_bytes().replace(b"ted_22", b"ted_\xff22", 1))
    refuses(DataError, r"train\.yaml, line 4: not UTF-8 \(byte 0xff", list, MustC(root=tmp_path).rows("train"))


def test_line_counts(tmp_path):
    make_corpus(tmp_path)
    path = tmp_path / "en-de/data/train/txt/train.de"
    path.write_text(path.read_text(encoding="utf-8") + "Noch eine.", encoding="utf-8")
    refuses(DataError, r"train\.yaml: 5 segments, but train\.de has 6 lines", list, MustC(root=tmp_path).rows("train"))


def test_segment_outside_the_talk(tmp_path):
    """A segment past the end of its talk stops, with the numbers; one that is 30 ms too long is cut."""
    talks = {"ted_1": [(11.0, 1.03, "One.", "Eins."), (11.5, 2.0, "Two.", "Zwei.")]}
    make_corpus(tmp_path / "a", talks=talks)
    message = r"1 of 2 rows cannot be used: .*en, line 2: row ted_1_1: .*ted_1\.wav.*11\.500 to 13\.500"
    refuses(DataError, message, prepare, MustC(root=tmp_path / "a"), tmp_path / "out", workers=1)
    make_corpus(tmp_path / "b", talks={"ted_1": talks["ted_1"][:1]})
    (report,) = prepare(MustC(root=tmp_path / "b"), tmp_path / "out", workers=1)
    assert report.clipped == 1 and report.seconds == pytest.approx(1.0)
    assert Manifest.open(tmp_path / "out/en-de/train.arrow")[0]["duration"] == pytest.approx(1.0)


def test_missing_folders(tmp_path):
    make_corpus(tmp_path)
    message = r"en-fr/data: no such folder; .* holds en-de\. .*licence form.*mtedx or fleurs"
    refuses(DataError, message, MustC, root=tmp_path, target_language="fr")
    refuses(DataError, r"no split 'tst-HE'; there are train", MustC, root=tmp_path, splits=["train", "tst-HE"])
    refuses(DataError, "unknown language code 'xx'", MustC, root=tmp_path, target_language="xx")
    (tmp_path / "en-de/data/train/txt/train.de").unlink()
    refuses(DataError, r"train\.de", prepare, MustC(root=tmp_path), tmp_path / "out")
