"""The Libri-Light reader on miniatures of the layout."""

import json

import numpy as np
import pytest
import soundfile

from dragoman import DataError, Manifest, UsageError
from dragoman.preparing.preparation import prepare
from dragoman.st.corpora.librilight import LibriLight, segments
from tests.small import refusal, refuses

TIMES = ((0.5, 2.0), (2.5, 4.0), (6.0, 6.4))


def make_corpus(root, times=TIMES, speakers=("100", "20")):
    """Write a book of 8 s for each speaker."""
    for number, speaker in enumerate(speakers):
        home = root / "small" / speaker / "a_book_64kb_mp3"
        home.mkdir(parents=True)
        noise = np.random.default_rng(number).uniform(-0.5, 0.5, 8 * 16000)
        soundfile.write(home / "one_64kb.flac", noise, 16000)
        description = {"speaker": speaker, "book_meta": {"id": 7}, "snr": 3.2, "voice_activity": list(times)}
        (home / "one_64kb.json").write_text(json.dumps(description), encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("times", "seconds", "expected"),
    [
        (TIMES, 10.0, [(0.5, 6.4)]),
        (TIMES, 3.5, [(0.5, 4.0), (6.0, 6.4)]),
        (TIMES, 2.0, [*TIMES]),
        (TIMES, 1.0, [(0.5, 1.25), (1.25, 2.0), (2.5, 3.25), (3.25, 4.0), (6.0, 6.4)]),
        ([], 5.0, []),
        ([(0.0, 2.0), (2.0, 5.0)], 5.0, [(0.0, 5.0)]),
        ([(0.0, 2.0), (2.0, 5.1)], 5.0, [(0.0, 2.0), (2.0, 5.1)]),
        ([(0.0, 9.0)], 3.0, [(0.0, 3.0), (3.0, 6.0), (6.0, 9.0)]),
        ([(1.0, 1.0)], 3.0, [(1.0, 1.0)]),
    ],
)
def test_stretches_are_joined_or_cut(times, seconds, expected):
    assert segments(times, seconds) == expected


def test_rows(tmp_path):
    corpus = LibriLight(root=make_corpus(tmp_path), seconds=3.5, held_out=0.0)
    assert corpus.splits() == ["train"]
    rows = list(corpus.rows("train"))
    assert [row["id"] for row in rows] == [f"{speaker}/a_book_64kb_mp3/one_64kb/0000" for speaker in ("100", "20")]
    assert rows[0] == {
        "id": "100/a_book_64kb_mp3/one_64kb/0000",
        "audio": str(tmp_path / "small/100/a_book_64kb_mp3/one_64kb.flac"),
        "start": 0.5,
        "duration": 3.5,
        "source_language": "en",
        "speaker": "100",
        "document": "a_book_64kb_mp3",
    }
    assert len(list(LibriLight(root=tmp_path, seconds=3.5, shortest=0.3, held_out=0.0).rows("train"))) == 4


def test_prepared_without_text(tmp_path):
    prepare(LibriLight(root=make_corpus(tmp_path / "a"), held_out=0.0), tmp_path / "m", workers=1)
    manifest = Manifest.open(tmp_path / "m" / "en" / "train.arrow")
    assert [(row["start"], row["duration"]) for row in manifest] == [(0.5, pytest.approx(5.9))] * 2
    assert manifest[0].get("source_text") is None


def test_whole_speakers_are_held_out(tmp_path):
    speakers = [str(number) for number in range(60)]
    corpus = LibriLight(root=make_corpus(tmp_path, speakers=speakers), held_out=0.2)
    found = {split: {path.parent.parent.name for path in corpus.inputs(split)} for split in corpus.splits()}
    assert found["train"] | found["dev"] == set(speakers) and not found["train"] & found["dev"]
    assert 5 <= len(found["dev"]) <= 20
    more = LibriLight(root=tmp_path, held_out=0.4)
    assert found["dev"] < {path.parent.parent.name for path in more.inputs("dev")}


@pytest.mark.parametrize("times", [[[3.0, 2.0]], [[0, "x"]], [[1]], None, [[0, float("nan")]]])
def test_a_broken_description_is_named(tmp_path, times):
    make_corpus(tmp_path, speakers=["100"])
    file = tmp_path / "small/100/a_book_64kb_mp3/one_64kb.json"
    file.write_text(json.dumps({"voice_activity": times}), encoding="utf-8")
    [found] = LibriLight(root=tmp_path, held_out=0.0).rows("train")
    assert str(found).startswith(f"{file}, line 1: no times of speech (")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"shortest": 0.0}, "LibriLight: shortest must be above 0, not 0.0"),
        ({"shortest": 31.0}, "need shortest <= seconds, not 31.0 and 30.0"),
        ({"held_out": 1.0}, "LibriLight: held_out must be at least 0 and below 1, not 1.0"),
        ({"held_out": -0.1}, "LibriLight: held_out must be at least 0 and below 1, not -0.1"),
        ({"seconds": 0.9}, "need shortest <= seconds, not 1.0 and 0.9"),
    ],
)
def test_ranges_are_shown(tmp_path, given, said):
    make_corpus(tmp_path)
    assert refusal(UsageError, LibriLight, root=tmp_path, **given) == said
    LibriLight(root=tmp_path, shortest=2.0, seconds=2.0, held_out=0.0)


def test_defaults_and_what_is_passed_over(tmp_path):
    refuses(DataError, "has none of the folders small, medium, large", LibriLight, root=tmp_path)
    make_corpus(tmp_path, times=((0.0, 0.5), (1.0, 2.0), (7.0, 7.9)))
    refuses(DataError, "of split dev", LibriLight(root=tmp_path, held_out=1e-9).inputs, "dev")
    corpus = LibriLight(root=tmp_path)
    assert corpus.splits() == ["train", "dev"] and corpus.count("train") is None and corpus.folder == "en"
    corpus = LibriLight(root=tmp_path, seconds=1.5, held_out=0.0)
    [report] = prepare(corpus, tmp_path / "out", workers=1)
    assert report.rows == 2 and "segments of less than 1 s" in str(report.passed_over)
    assert LibriLight(root=tmp_path, sizes=["small"])._sizes == ["small"]
    message = f"^{tmp_path / 'tiny'}: not there; Libri-Light has small, medium, large$"
    refuses(DataError, message, LibriLight, root=tmp_path, sizes=["tiny"])
    refuses(DataError, "^unknown language code 'xx'", LibriLight, root=tmp_path, source_language="xx")
