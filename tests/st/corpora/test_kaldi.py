"""Kaldi's data folders: recordings and segments, texts of two languages, and files that do not fit together."""

import re

import numpy as np
import pytest
import soundfile

from dragoman import DataError, Manifest
from dragoman.preparing.preparation import prepare
from dragoman.shared.sound.audio import read_audio
from dragoman.shared.text.lines import Unusable
from dragoman.st.corpora.kaldi import Kaldi
from tests.small import refuses

FILES = {
    "wav.scp": ["a wav/a.wav", "b cat {root}/wav/b.wav |"],
    "segments": ["a_1 a 0.25 1.5", "a_2 a 2 3.5", "b_1 b 0 1"],
    "text": ["a_1 one", "a_2 two", "b_1 three"],
    "text.tc.en": ["a_1 One.", "a_2 Two two.", "b_1 Three."],
    "text.tc.de": ["a_1 Eins.", "a_2 Zwei zwei.", "b_1 Drei."],
    "utt2spk": ["a_1 anna", "a_2 anna", "b_1 ben"],
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "wav").mkdir()
    sound = np.random.default_rng(1).normal(0, 0.1, 4 * 16000)
    for name in "ab":
        soundfile.write(tmp_path / "wav" / f"{name}.wav", sound, 16000)

    def write(split="train.en-de", **changes):
        place = tmp_path / "data" / split
        place.mkdir(parents=True, exist_ok=True)
        for name, lines in (FILES | {name.replace("_", "."): lines for name, lines in changes.items()}).items():
            if lines is not None:
                text = "".join(f"{line}\n" for line in lines).replace("{root}", str(tmp_path))
                (place / name).write_text(text, encoding="utf-8")
        return place

    return write


def reader(folder, **options):
    options = {"source_language": "en", "target_language": "de", "audio_root": str(folder.parent.parent)} | options
    return Kaldi(root=folder.parent, **options)


def test_segments_with_texts_of_two_languages(folder, tmp_path):
    found = reader(folder())
    assert (found.folder, found.splits(), found.count("train")) == ("en-de", ["train"], 3)
    one, two, three = found.rows("train")
    assert (one["id"], one["audio"], one["start"], one["duration"]) == ("a_1", str(tmp_path / "wav/a.wav"), 0.25, 1.25)
    assert (one["source_text"], one["target_text"], one["speaker"], one["document"]) == ("One.", "Eins.", "anna", "a")
    assert (two["source_language"], two["target_language"], two["start"]) == ("en", "de", 2.0)
    assert three["audio"] == str(tmp_path / "wav/b.wav")  # `cat FILE |` is the file
    assert (three.line, three.files["target_text"].name) == (3, "text.tc.de")


def test_recognition_of_whole_files(folder, tmp_path):
    place = folder("test", segments=None, text=["a one", "b two"], utt2spk=None, **{"text.tc.en": None})
    found = Kaldi(root=place, source_language="en", audio_root=str(tmp_path))
    assert (found.folder, found.splits()) == ("en", ["test"])
    one, two = found.rows("test")
    assert (one["id"], one["start"], one["duration"], one["source_text"]) == ("a", 0.0, None, "one")
    assert two["speaker"] is None and "target_text" not in two


def test_the_files_of_texts_may_be_named(folder):
    place = folder(text_lc_rm_en=["a_1 lower", "a_2 lower", "b_1 lower"])
    assert next(reader(place, source_text="text.lc.rm.en").rows("train"))["source_text"] == "lower"
    message = "train.en-de: has no text.xx; its texts: text, text.lc.rm.en, text.tc.de"
    refuses(DataError, message, list, reader(place, target_text="text.xx").rows("train"))
    message = "has no text.tc.fr or text.fr or text.lc.fr or text.lc.rm.fr; its texts: "
    refuses(DataError, message, list, Kaldi(root=place, source_language="en", target_language="fr").rows("train.en-de"))


def test_an_end_of_minus_one_is_that_of_the_file(folder, tmp_path):
    place = folder(segments=["a_1 a 0.25 1.5", "a_2 a 2 -1", "b_1 b 0 -1.00"])
    assert [row["duration"] for row in reader(place).rows("train")] == [1.25, None, None]
    prepare(reader(place), tmp_path / "manifests", workers=1)
    rows = Manifest.open(tmp_path / "manifests" / "en-de" / "train.arrow")
    assert [(rows[n]["start"], rows[n]["duration"]) for n in (1, 2)] == [(2.0, 2.0), (0.0, 4.0)]


def test_an_utterance_that_one_file_lacks_is_named_once(folder):
    _, bad, good = reader(folder(text_tc_en=["a_1 One.", "b_1 Three."])).rows("train")
    assert (bad.reason, bad.file.name, good["target_text"]) == ("text.tc.en has no line for it", "segments", "Drei.")
    assert good["speaker"] == "ben"


def test_other_directions_are_left_out(folder, tmp_path):
    for split in ("train.en-de", "train.en-fr", "train.de-en", "train.en-zh-CN", "dev", "tst.low-res"):
        folder(split, text_tc_fr=FILES["text"])
    english = {"root": tmp_path / "data", "source_language": "en"}
    german, french = (Kaldi(**english, target_language=code) for code in ("de", "fr"))
    assert german.splits() == french.splits() == ["train", "dev", "tst.low-res"]
    assert german.inputs("train")[0].parent.name == "train.en-de"
    assert french.inputs("train")[0].parent.name == "train.en-fr"
    message = "no split 'train.en-fr'; there are dev, train, tst.low-res"
    refuses(DataError, message, Kaldi, **english, target_language="de", splits=["train.en-fr"])
    assert Kaldi(**english, target_language="de", splits=["train.en-de", "dev"]).splits() == ["train", "dev"]


def test_recognition_counts_no_sound_twice(folder, tmp_path):
    def read(*splits):
        return Kaldi(root=tmp_path / "data", source_language="en", splits=[*splits] or None)

    for split in ("train.en-de", "dev.en-de", "train.de-en"):
        folder(split)
    assert read().splits() == ["train", "dev"]
    for split in ("train.en-fr", "dev.en-fr"):
        folder(split)
    said = r"data: {0}.en-de and {0}.en-fr have the same sound, .* by --splits {1}$"
    refuses(DataError, said.format("dev", "dev.en-de,train.en-de"), read)
    refuses(DataError, said.format("train", "train.en-de"), read, "train")
    found = read("train.en-fr", "dev.en-de")
    assert found.splits() == ["train", "dev"]
    assert [found.inputs(split)[0].parent.name for split in found.splits()] == ["train.en-fr", "dev.en-de"]
    folder("train")
    assert read("train").inputs("train")[0].parent.name == "train"
    (tmp_path / "data" / "train" / "wav.scp").unlink()
    message = "data: has no folder for fr, only dev.en-de, dev.en-fr, train.de-en"
    refuses(DataError, message, Kaldi, root=tmp_path / "data", source_language="fr")


#: Lines for the second segment, and what is wrong with them.
SECOND = {
    "a_2 a 2": "is not a recording, a start and an end",
    "a_2 a 3 2": "start 3 and end 2 are not the times",
    "a_2 a 1 -2": "end is '-2', not a number",
    "a_2 a 1 nan": "end is 'nan', not a number",
    "a_2 c 0 1": "the recording 'c' is not in wav.scp",
} | {f"a_2 a 0 1 {channel}": "channel is" for channel in ("-1", "x", "1.0")}


@pytest.mark.parametrize(
    ("changes", "place", "reason"),
    [
        ({"text_tc_de": ["a_1 Eins.", "b_1 Drei."]}, ("segments", 2), "text.tc.de has no line for it"),
        ({"segments": ["a_1 a 0 1", "b_1 b 0 1"]}, ("text.tc.en", 2), "segments has no utterance 'a_2'"),
        ({"segments": ["a_1 a 0 1", "a_2 a 1 2"]}, ("text.tc.en", 3), "segments has no utterance 'b_1'"),
        *(({"segments": ["a_1 a 0 1", line, "b_1 b 0 1"]}, ("segments", 2), why) for line, why in SECOND.items()),
        ({"wav_scp": ["a a.wav", "b sox b.mp3 -t wav - |"]}, ("segments", 3), "wav.scp, line 2: .* a command is not"),
        ({"wav_scp": ["a a.wav", "b dump/b.ark:123"]}, ("segments", 3), "wav.scp, line 2: .* is inside an archive"),
        ({"wav_scp": ["a a.wav", "b"]}, ("segments", 3), "'' is no sound file"),
    ],
)
def test_a_line_that_does_not_fit_is_named(folder, changes, place, reason):
    bad = [row for row in reader(folder(**changes)).rows("train") if isinstance(row, Unusable)]
    assert (bad[0].file.name, bad[0].line) == place
    assert re.search(reason, bad[0].reason), bad[0].reason


def test_what_is_not_sorted_is_refused(folder):
    place = folder(text_tc_de=["a_1 Eins.", "b_1 Drei.", "a_2 Zwei."])
    message = "text.tc.de, line 3: 'a_2' comes after 'b_1': sort it as Kaldi does"
    refuses(DataError, message, list, reader(place).rows("train"))
    place = folder(text_tc_de=FILES["text.tc.de"], wav_scp=["a a.wav", "a a.wav", "b b.wav"])
    refuses(DataError, r"wav.scp, line 2: 'a' comes after 'a'", list, reader(place).rows("train"))


def test_a_folder_without_data_is_refused(folder, tmp_path):
    refuses(DataError, r"has no wav.scp, nor a folder with one", Kaldi, root=tmp_path, source_language="en")
    refuses(DataError, r"no split 'test'; there are train", lambda: reader(folder(), splits=["test"]))


def test_channels_of_segments_of_recordings_and_of_sph2pipe(folder, tmp_path):
    """The second channel has another tone. A segment counts channels from 0, sph2pipe from 1, a recording from A."""
    times = np.arange(4 * 16000) / 16000
    tones = np.stack([0.4 * np.sin(2 * np.pi * pitch * times) for pitch in (440, 1000)], 1)
    soundfile.write(tmp_path / "wav" / "a.wav", tones, 16000)
    place = folder(
        wav_scp=["a wav/a.wav", "b wav/a.wav", "c sph2pipe -f wav -p -c 2 wav/a.wav |", "d wav/b.wav", "e wav/a.wav"],
        segments=["a_1 a 0 1", "a_2 a 1 2 1", "b_1 b 0 1", "c_1 c 0 1", "c_2 c 1 2 0", "d_1 d 0 1", "e_1 e 0 1"],
        text=None,
        utt2spk=None,
        **{f"text_tc_{code}": [f"{name} x" for name in "a_1 a_2 b_1 c_1 c_2 d_1 e_1".split()] for code in ("en", "de")},
    )
    (place / "reco2file_and_channel").write_text("a wav A\nb wav B\nc wav B\nd wav 2\n")
    rows = list(reader(place).rows("train"))
    marks = [row["audio"].removeprefix(f"{tmp_path}/wav/") for row in rows]
    first, second = "a.wav#channel:0", "a.wav#channel:1"
    assert marks == [first, second, second, second, second, "b.wav", "a.wav"]
    heard = [np.abs(np.fft.rfft(read_audio(row["audio"], 0, 1))).argmax() for row in rows[:5]]
    assert heard == [440, 1000, 1000, 1000, 1000]
