"""Manifests of NeMo and of lhotse; what the cuts that are written say is what their reader reads."""

import gzip
import json
import re

import numpy as np
import pytest
import soundfile

from dragoman.commands.inspection import check_corpus
from dragoman.exchange.cuts import write_cuts
from dragoman.preparing.preparation import prepare
from dragoman.shared.batches.manifest import COLUMNS, Manifest
from dragoman.shared.errors import DataError
from dragoman.shared.sound.audio import read_audio
from dragoman.shared.text.lines import Unusable
from dragoman.st.corpora.lhotse import Lhotse
from dragoman.st.corpora.nemo import Nemo
from tests.small import refuses


@pytest.fixture
def wav(tmp_path):
    (tmp_path / "clips").mkdir()
    soundfile.write(tmp_path / "clips" / "a.wav", np.random.default_rng(1).uniform(-0.5, 0.5, 3 * 8000), 8000)
    return tmp_path / "clips" / "a.wav"


LINE = {"audio_filepath": "clips/a.wav", "offset": 0.5, "duration": 1.0, "text": "Wie geht es?"}
GIVEN = LINE | {"source_lang": "en", "target_lang": "en"}


def write(path, *records):
    with gzip.open(path, "wt") if path.suffix == ".gz" else open(path, "w") as file:
        file.write("".join(json.dumps(record) + "\n" for record in records))


@pytest.mark.parametrize("ending", [".json", ".jsonl.gz"])
def test_nemo_text_is_a_transcript_or_a_translation_by_its_language(tmp_path, wav, ending):
    translated = LINE | {"source_lang": "en", "target_lang": "de", "transcript": "How are you?", "pnc": "yes"}
    asked = {"audio_filepath": str(wav), "duration": 2.0, "source_lang": "de", "target_lang": "de"}
    write(tmp_path / f"train{ending}", translated, asked | {"text": "x", "answer": "Guten Tag."})
    prepare(Nemo(root=tmp_path), tmp_path / "out", workers=1)
    [first, second] = Manifest.open(tmp_path / "out" / "train.arrow")
    values = ("a-1", str(wav), 0.5, 1.0, "How are you?", "en", "Wie geht es?", "de", None, None)
    assert first == dict(zip(COLUMNS, values, strict=True))
    assert (second["source_text"], second["target_text"], second["audio"]) == ("Guten Tag.", None, str(wav))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"audio_filepath": "a"', "not JSON"),
        ("[1]", r"an object is expected, not \[1\]"),
        ('{"text": "x"}', "audio_filepath is missing"),
        ('{"audio_filepath": "a", "text": "x"}', "source_lang is missing, and no language was given for all lines"),
        (json.dumps(GIVEN | {"duration": "1"}), "duration is '1', not a n"),
        (json.dumps(GIVEN | {"text": 1}), "text is 1, not a text"),
        ("\udce4", "not JSON"),
        *((json.dumps(GIVEN | {key: 10**309}), f"{key} is 1000") for key in ("offset", "duration")),
        *(
            (json.dumps(GIVEN | {"channel_selector": n}), "channel_selector is")
            for n in (-1, 1.5, "left", [0, 1], True)
        ),
    ],
)
def test_a_bad_line_is_named_and_the_others_come(tmp_path, line, reason):
    good = json.dumps(GIVEN)
    (tmp_path / "train.json").write_bytes(f"{good}\n\n{line}\n{good}\n".encode(errors="surrogateescape"))
    rows = list(Nemo(root=tmp_path).rows("train"))
    assert [isinstance(row, Unusable) for row in rows] == [False, True, False]
    assert re.search(rf"train\.json, line 3: .*{reason}", str(rows[1]))


def test_a_damaged_archive_is_named(tmp_path):
    write(tmp_path / "train.jsonl.gz", LINE)
    (tmp_path / "train.jsonl.gz").write_bytes((tmp_path / "train.jsonl.gz").read_bytes()[:-12])
    rows = Nemo(root=tmp_path, source_language="en").rows("train")
    refuses(DataError, r"train\.jsonl\.gz: cannot be read", list, rows)


def cut(**changes):
    supervision = {"id": "a1", "recording_id": "a", "start": 0.0, "duration": 1.0, "channel": 0, "text": "How are you?"}
    supervision |= {"language": "en", "speaker": "anna", "custom": {"translation": {"de": "Wie geht es?"}}}
    return {
        "id": "cut1",
        "start": 0.5,
        "duration": 1.0,
        "channel": 0,
        "supervisions": [supervision],
        "recording": {"id": "a", "sources": [{"type": "file", "channels": [0], "source": "clips/a.wav"}]},
        "type": "MonoCut",
    } | changes


[SAID] = cut()["supervisions"]
NONE = ("soon", [1], {}, float("nan"), True)


def test_a_cut_with_several_supervisions_is_a_row_for_each(tmp_path, wav):
    two = SAID | {"id": "a2", "start": 0.75, "duration": 0.25, "custom": {"translation": "Gut."}}
    write(tmp_path / "cuts_train.jsonl.gz", cut(), cut(id="cut2", supervisions=[SAID, two]))
    reader = Lhotse(root=tmp_path, target_language="de")
    assert reader.splits() == ["train"]
    rows = list(reader.rows("train"))
    found = [(row["id"], row["start"], row["duration"]) for row in rows]
    assert found == [("cut1", 0.5, 1.0), ("a1", 0.5, 1.0), ("a2", 1.25, 0.25)]
    assert [row["target_text"] for row in rows] == ["Wie geht es?", "Wie geht es?", "Gut."]
    assert rows[0]["audio"] == str(wav) and rows[0]["source_language"] == "en" and rows[0]["document"] == "a"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"type": "MixedCut"}, "a MonoCut or MultiCut is expected, not 'MixedCut'"),
        ({"channel": 1}, "a supervision of channel 0, but the cut is of channel 1"),
        ({"supervisions": []}, "a cut without supervision"),
        ({"recording": None}, "recording is None"),
        ({"recording": {"sources": [{"type": "url", "source": "https://a"}]}}, "not one file"),
        ({"recording": cut()["recording"] | {"transforms": [{"name": "Speed"}]}}, "transformed"),
        *(({"supervisions": [SAID, SAID | {"id": "a2", "start": n}]}, f"start is {n!r}, not a number") for n in NONE),
    ],
)
def test_cuts_that_cannot_be_read_are_refused(tmp_path, changes, reason):
    write(tmp_path / "train.jsonl", cut(**changes))
    [row] = Lhotse(root=tmp_path, source_language="en").rows("train")
    assert isinstance(row, Unusable) and reason in row.reason


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz"])
def test_cuts_that_were_written_are_read_as_the_manifest_they_came_from(tmp_path, wav, ending):
    row = dict.fromkeys(COLUMNS) | {"id": "r1", "audio": str(wav), "start": 0.25, "duration": 1.5, "document": "talk"}
    row |= {"source_text": "Good “day”", "source_language": "en", "target_text": "Guten Tag", "target_language": "de"}
    manifest = Manifest.write(tmp_path / "x.arrow", [row, row | {"id": "r2", "target_text": None, "speaker": "ben"}])
    assert write_cuts(manifest, tmp_path / f"cuts{ending}") == 2
    [first, second] = [json.loads(line) for line in read_text(tmp_path / f"cuts{ending}").splitlines()]
    assert first["recording"]["num_samples"] == 24000 and first["recording"]["sampling_rate"] == 8000
    assert "custom" not in second["supervisions"][0]
    reader = Lhotse(root=tmp_path / f"cuts{ending}", target_language="de")
    read = next(iter(reader.rows(reader.splits()[0])))
    assert dict(read) == manifest[0]


def read_text(path):
    return gzip.open(path, "rt").read() if path.suffix == ".gz" else path.read_text()


def test_a_supervision_may_begin_before_its_cut(tmp_path):
    write(tmp_path / "train.jsonl", cut(supervisions=[SAID | {"start": -0.25}, SAID | {"id": "a2", "start": None}]))
    assert [row["start"] for row in Lhotse(root=tmp_path, source_language="en").rows("train")] == [0.25, 0.5]


@pytest.mark.parametrize("other", ["train.jsonl.gz", "cuts_train.jsonl"])
def test_two_files_of_one_split_are_refused(tmp_path, other):
    write(tmp_path / "train.jsonl", cut())
    write(tmp_path / other, cut())
    refuses(DataError, r"both this and .*train.jsonl.* (are there|would be split 'train')", Lhotse, root=tmp_path)


def test_rows_without_an_id_are_named(tmp_path, wav):
    without = [{key: value for key, value in SAID.items() if key != "id"} | {"duration": 0.5} for _ in range(2)]
    write(tmp_path / "train.jsonl", cut(supervisions=without))
    reader = Lhotse(root=tmp_path, source_language="en")
    found = check_corpus(reader, workers=1).findings
    assert found.counts == {"missing id": 2} and "line 1: row None: id is None" in found.examples["missing id"][0]
    refuses(DataError, r"train\.jsonl, line 1: id is None", prepare, reader, tmp_path / "out", workers=1)


@pytest.fixture
def stereo(tmp_path):
    times = np.arange(2 * 16000) / 16000
    tones = np.stack([0.4 * np.sin(2 * np.pi * pitch * times) for pitch in (440, 1000)], 1)
    soundfile.write(tmp_path / "call.wav", tones, 16000)
    for number, name in enumerate(("left", "right")):
        soundfile.write(tmp_path / f"{name}.wav", tones[:, number], 16000)
    return tmp_path


def pitch(row):
    """Return the loudest frequencies of the row's second of sound, in Hz."""
    power = np.abs(np.fft.rfft(read_audio(row["audio"], row["start"], row["duration"])))
    return [int(place) for place in np.flatnonzero(power > power.max() / 2)]


def two(file, channels):
    return {"type": "file", "channels": channels, "source": file}


@pytest.mark.parametrize(
    "sources",
    [[two("call.wav", [0, 1])], [two("call.wav", None)], [two("left.wav", [0]), two("right.wav", [1])]],
    ids=["one file", "without channels", "two files"],
)
def test_a_cut_is_of_its_channel(stereo, sources):
    sources = [{key: value for key, value in source.items() if value is not None} for source in sources]
    call = {"id": "call", "sources": sources}
    cuts = [cut(id=f"c{n}", channel=n, supervisions=[SAID | {"channel": n}], recording=call) for n in (0, 1)]
    write(stereo / "cuts_train.jsonl", *cuts)
    prepare(Lhotse(root=stereo), stereo / "out", workers=1)
    assert [pitch(row) for row in Manifest.open(stereo / "out" / "train.arrow")] == [[440], [1000]]


def test_channels_may_be_called_otherwise_than_they_stand_in_the_file(stereo):
    recording = {"id": "call", "sources": [two("call.wav", [1, 0])]}
    write(stereo / "train.jsonl", cut(recording=recording))
    assert [pitch(row) for row in Lhotse(root=stereo).rows("train")] == [[1000]]


def test_supervisions_of_a_multicut_have_a_channel_each(stereo):
    said = [SAID | {"id": "l"}, SAID | {"id": "r", "channel": [1]}, SAID | {"id": "both", "channel": [0, 1]}]
    whole = {"type": "MultiCut", "channel": [0, 1]}
    whole |= {"recording": {"id": "call", "sources": [two("call.wav", [0, 1])]}}
    write(stereo / "train.jsonl", *(cut(supervisions=[one], **whole) for one in said))
    left, right, both = Lhotse(root=stereo).rows("train")
    assert (pitch(left), pitch(right)) == ([440], [1000])
    assert isinstance(both, Unusable) and "channel is [0, 1], not the number of a channel" in both.reason


@pytest.mark.parametrize(
    ("selected", "expected"), [(0, [440]), (1, [1000]), ([1], [1000]), ("average", [440, 1000]), (None, [440, 1000])]
)
def test_nemo_selects_a_channel(stereo, selected, expected):
    write(stereo / "train.json", LINE | {"audio_filepath": "call.wav", "channel_selector": selected})
    [row] = Nemo(root=stereo, source_language="en").rows("train")
    assert pitch(row) == expected


def test_cuts_of_a_channel_are_read_as_that_channel(stereo):
    row = dict.fromkeys(COLUMNS) | {"id": "r", "audio": f"{stereo}/call.wav#channel:1", "start": 0.0, "duration": 1.0}
    row |= {"source_text": "Hi", "source_language": "en", "document": "call"}
    assert write_cuts(Manifest.write(stereo / "x.arrow", [row]), stereo / "cuts_x.jsonl") == 1
    assert [dict(read) for read in Lhotse(root=stereo).rows("x")] == [row]
    mean = Manifest.write(stereo / "y.arrow", [row | {"audio": f"{stereo}/call.wav"}])
    refuses(DataError, "a cut has one channel, and the mean of 2 is read", write_cuts, mean, stereo / "cuts_y.jsonl")
