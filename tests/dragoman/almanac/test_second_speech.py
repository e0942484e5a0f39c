"""Speech of the second world: splits, references, times of words, sound without text."""

import csv
import json
from collections import Counter

import numpy as np
import pytest
import soundfile
import yaml

from dragoman.almanac import Almanac, voices
from dragoman.almanac.audio_writers import UTTERANCES, LibriLightWriter
from dragoman.almanac.worlds import WORLDS
from dragoman.almanac.writers import Settings
from dragoman.st.corpora.librilight import LibriLight
from dragoman.st.corpora.mustc import MustC

SIZES = {"train": 24, "dev": 2, "tst-COMMON": 6, "tst-HE": 4, "tst-voices": 6, "tst-phrases": 6, "audio": 40}
SPLITS = ("train", "dev", "tst-COMMON", "tst-HE", "tst-voices", "tst-phrases")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    root = tmp_path_factory.mktemp("second") / "speech"
    settings = {"world": 2, "languages": ["en", "de", "ru", "zh"], "layouts": ["mustc", "librilight"], "workers": 2}
    Almanac(root=root, pairs=[["en", "de"], ["en", "ru"], ["zh", "en"]], sizes=SIZES, **settings).write()
    return root


def lines(corpus, split, ending, pair="en-de"):
    return (corpus / f"{pair}/data/{split}/txt/{split}.{ending}").read_text(encoding="utf-8").splitlines()


def speakers(corpus, split):
    segments = yaml.safe_load("\n".join(lines(corpus, split, "yaml")))
    return {int(segment["speaker_id"].split(".")[1]) for segment in segments}


def test_voices_is_common_in_other_voices(corpus):
    assert lines(corpus, "tst-voices", "en") == lines(corpus, "tst-COMMON", "en")
    assert lines(corpus, "tst-voices", "de") == lines(corpus, "tst-COMMON", "de")
    seen = set(range(1, len(voices.SEEN_VOICES) + 1))
    assert speakers(corpus, "tst-COMMON") | speakers(corpus, "tst-phrases") | speakers(corpus, "train") <= seen
    assert not (speakers(corpus, "tst-voices") | speakers(corpus, "tst-HE")) & seen


def test_phrases_is_common_in_other_words(corpus):
    """The sentence of tst-phrases is one of the references of tst-COMMON, and never the one that was said."""
    said = lines(corpus, "tst-phrases", "de")
    common = [lines(corpus, "tst-COMMON", ending) for ending in ("de", "de.1", "de.2")]
    for new, first, *others in zip(said, *common, strict=True):
        assert new in others and new != first


def test_tests_have_references_and_training_has_none(corpus):
    reader = MustC(root=str(corpus), target_language="de")
    assert sorted(reader.splits()) == sorted(SPLITS)
    rows = list(reader.rows("tst-COMMON"))
    assert [row["target_text_2"] for row in rows] == lines(corpus, "tst-COMMON", "de.2")
    assert "target_text_1" not in next(iter(reader.rows("train")))


@pytest.mark.parametrize("pair", ["en-de", "en-ru", "zh-en"])
def test_words_have_times_inside_their_utterance(corpus, pair):
    segments = yaml.safe_load("\n".join(lines(corpus, "train", "yaml", pair)))
    texts = lines(corpus, "train", pair[:2], pair)
    [table] = sorted((corpus / pair / "data/train/wav").glob("*.words.tsv"))[:1]
    with table.open(encoding="utf-8", newline="") as rows:
        words = list(csv.DictReader(rows, delimiter="\t", quoting=csv.QUOTE_NONE))
    wav = table.name.removesuffix(".words.tsv") + ".wav"
    mine = [(segment, text) for segment, text in zip(segments, texts, strict=True) if segment["wav"] == wav]
    for row in words:
        segment, text = mine[int(row["utterance"])]
        begin, end = segment["offset"], segment["offset"] + segment["duration"]
        assert begin - 0.001 <= float(row["start"]) <= float(row["end"]) <= end + 0.011
        assert row["word"] in text
    if pair != "zh-en":
        found = Counter(int(row["utterance"]) for row in words)
        assert all(found[number] >= 0.7 * len(text.split()) for number, (_, text) in enumerate(mine))


def test_the_first_word_begins_where_the_sound_does(corpus):
    samples, rate = soundfile.read(next(iter(sorted((corpus / "en-de/data/train/wav").glob("*.wav")))))
    table = next(iter(sorted((corpus / "en-de/data/train/wav").glob("*.words.tsv"))))
    start = float(table.read_text(encoding="utf-8").splitlines()[1].split("\t")[2])
    assert np.std(samples[int(start * rate) : int((start + 0.2) * rate)]) > 5 * np.std(samples[: int(0.2 * rate)])


def test_sound_without_text_is_in_the_layout_of_libri_light(corpus):
    files = sorted((corpus / "librilight/en/small").glob("*/*/*.flac"))
    assert len(files) == 2 and len({file.parents[1].name for file in files}) == 2
    for file in files:
        samples, rate = soundfile.read(file)
        content = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
        assert rate == 16_000 and content["speaker"] == file.parents[1].name
        assert content["book_meta"]["language"] == "en"
        for begin, end in content["voice_activity"]:
            assert np.std(samples[int(begin * rate) : int(end * rate)]) > 0.01
    assert not list((corpus / "librilight").rglob("*.txt")) and not list((corpus / "librilight").rglob("*.tsv"))


def test_the_reader_of_libri_light_finds_the_sound_without_text(corpus):
    for language in ("en", "zh"):
        reader = LibriLight(root=corpus / "librilight" / language, source_language=language, held_out=0.0)
        rows = list(reader.rows("train"))
        files = {row["audio"] for row in rows}
        assert len(files) == 2 and all(soundfile.info(file).samplerate == 16_000 for file in files)
        assert {row["source_language"] for row in rows} == {language} and sum(row["duration"] for row in rows) > 60


def test_every_voice_is_in_the_sound_without_text(tmp_path):
    every = voices.SEEN_VOICES + voices.UNSEEN_VOICES
    places = {"root": tmp_path, "parts": tmp_path, "sizes": {"audio": UTTERANCES * len(every)}}
    settings = Settings(**places, languages=("en", "de"), pairs=(("en", "de"),), seed=1, world=WORLDS[2])
    recordings = list(LibriLightWriter(settings=settings).recordings())
    assert {recording.variant for recording in recordings} == {*every} and len(recordings) == len(every)


def test_workers_change_no_byte(corpus, tmp_path):
    sizes = {split: 1 for split in SIZES} | {"dev": SIZES["dev"], "tst-HE": SIZES["tst-HE"]}
    Almanac(root=tmp_path / "one", world=2, languages=["en", "de"], layouts=["mustc"], workers=1, sizes=sizes).write()
    files = [path.relative_to(corpus) for split in ("dev", "tst-HE") for path in corpus.glob(f"en-de/data/{split}/*/*")]
    assert {path.suffix for path in files} >= {".wav", ".tsv", ".yaml", ".de", ".en", ".1", ".2"}
    assert all((tmp_path / "one" / path).read_bytes() == (corpus / path).read_bytes() for path in files)


def test_pairs_of_a_source_share_sound_and_times(corpus):
    for ending in ("*.wav", "*.words.tsv"):
        one, other = (sorted((corpus / pair / "data/dev/wav").glob(ending)) for pair in ("en-de", "en-ru"))
        assert [file.read_bytes() for file in one] == [file.read_bytes() for file in other] != []
