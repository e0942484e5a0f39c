"""The LibriSpeech reader on miniatures of the layout."""

import numpy as np
import pytest
import soundfile

from dragoman import DataError, Manifest
from dragoman.preparing.preparation import prepare
from dragoman.st.corpora.librispeech import LibriSpeech
from tests.small import refuses

UTTERANCES = {
    "train-clean-100": {"103-1240-0000": "CHAPTER ONE", "103-1240-0001": "MISSUS RACHEL LYNDE", "19-198-0000": "AH"},
    "dev-other": {"116-288017-0000": "NOT A  WORD"},
}


def make_corpus(root, utterances=UTTERANCES):
    """Write flac files of 0.5 s, 0.6 s, ... and the transcripts of their chapters."""
    number = 0
    for split, texts in utterances.items():
        for name, text in texts.items():
            speaker, chapter, _ = name.split("-")
            home = root / split / speaker / chapter
            home.mkdir(parents=True, exist_ok=True)
            noise = np.random.default_rng(number).uniform(-0.5, 0.5, int(16000 * (0.5 + number / 10)))
            soundfile.write(home / f"{name}.flac", noise, 16000)
            with open(home / f"{speaker}-{chapter}.trans.txt", "a", encoding="utf-8") as file:
                file.write(f"{name} {text}\n")
            number += 1
    return root


def test_rows(tmp_path):
    corpus = LibriSpeech(root=make_corpus(tmp_path))
    assert corpus.splits() == ["train-clean-100", "dev-other"]
    assert corpus.published["dev-other"] == {"rows": 2864, "hours": 5.3}
    rows = list(corpus.rows("train-clean-100"))
    assert [row["id"] for row in rows] == ["103-1240-0000", "103-1240-0001", "19-198-0000"]
    audio = str(tmp_path / "train-clean-100/103/1240/103-1240-0001.flac")
    names = ("id", "audio", "start", "duration", "source_text", "source_language", "speaker", "document")
    values = ("103-1240-0001", audio, 0.0, None, "MISSUS RACHEL LYNDE", "en", "103", "1240")
    assert rows[1] == dict(zip(names, values, strict=True))
    assert (rows[1].file.name, rows[1].line) == ("103-1240.trans.txt", 2)
    assert corpus.count("train-clean-100") == 3


def test_prepared(tmp_path):
    prepare(LibriSpeech(root=make_corpus(tmp_path / "a"), splits=["dev-other"]), tmp_path / "m", workers=1)
    [row] = Manifest.open(tmp_path / "m" / "en" / "dev-other.arrow")
    assert (row["duration"], row["source_text"]) == (pytest.approx(0.8), "NOT A  WORD")


def test_a_line_of_another_chapter_is_named(tmp_path):
    make_corpus(tmp_path)
    file = tmp_path / "dev-other/116/288017/116-288017.trans.txt"
    file.write_text("117-288017-0000 NO\n", encoding="utf-8")
    [found] = LibriSpeech(root=tmp_path).rows("dev-other")
    assert str(found) == f"{file}, line 1: '117-288017-0000' is no utterance of 116-288017"


def test_refusals(tmp_path):
    refuses(DataError, "has none of train-clean-100.*is it the folder LibriSpeech", LibriSpeech, root=tmp_path)
    make_corpus(tmp_path)
    refuses(DataError, "LibriSpeech has no split 'train'", LibriSpeech, root=tmp_path, splits=["train"])
    refuses(DataError, "test-clean: not there", LibriSpeech, root=tmp_path, splits=["test-clean"])
    (tmp_path / "test-clean").mkdir()
    refuses(DataError, r"has no speaker/chapter/\*.trans.txt", LibriSpeech(root=tmp_path).inputs, "test-clean")
