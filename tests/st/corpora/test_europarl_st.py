"""Europarl-ST: speeches in one folder, segments in lists beside two texts."""

import numpy as np
import pytest
import soundfile

from dragoman import DataError, Manifest
from dragoman.preparing.preparation import prepare
from dragoman.st.corpora.europarl_st import EuroparlST
from tests.small import refusal, refuses


def write_europarl_st(root, source="en", target="de", splits=("train", "dev", "test"), ending=".wav"):
    """Write a direction in the layout of v1.1: two speeches a split, of two segments and one."""
    audios = root / source / "audios"
    audios.mkdir(parents=True)
    for number, split in enumerate(splits):
        folder = root / source / target / split
        folder.mkdir(parents=True)
        speeches = [f"{source}.2008{number}117.22.1-115", f"{source}.2008{number}118.3.2-007"]
        for speech in speeches:
            noise = np.random.default_rng(number).uniform(-0.5, 0.5, 5 * 16000)
            soundfile.write(audios / f"{speech}{ending}", noise, 16000, format="WAV")
        times = [(speeches[0], 0.25, 1.75), (speeches[0], 2.0, 4.5), (speeches[1], 0.0, 3.0)]
        (folder / "segments.lst").write_text("".join(f"{name} {start:.2f} {end:.2f}\n" for name, start, end in times))
        for language in (source, target):
            lines = [f"{language} {split} {word}\n" for word in ("one", "two", "three")]
            (folder / f"segments.{language}").write_text("".join(lines))
        (folder / "speeches.lst").write_text("".join(f"{speech}\n" for speech in speeches))
        (folder / "speakers.lst").write_text("MEP_1\nMEP_2\n")


def reader(root, **options):
    return EuroparlST(root=root, source_language="en", target_language="de", **options)


def test_rows_have_times_texts_and_speakers(tmp_path):
    write_europarl_st(tmp_path)
    corpus = reader(tmp_path)
    assert corpus.splits() == ["train", "dev", "test"] and corpus.folder == "en-de"
    prepare(corpus, tmp_path / "manifests", workers=1)
    [first, second, third] = Manifest.open(tmp_path / "manifests" / "en-de" / "dev.arrow")
    assert (first["id"], second["id"]) == ("en.20081117.22.1-115_0", "en.20081117.22.1-115_1")
    assert first["audio"] == f"{tmp_path}/en/audios/en.20081117.22.1-115.wav"
    assert (second["start"], second["duration"]) == (2.0, 2.5)
    assert (second["source_text"], second["target_text"]) == ("en dev two", "de dev two")
    assert (third["id"], third["speaker"], third["document"]) == ("en.20081118.3.2-007_0", "MEP_2", third["id"][:-2])


def test_m4a_comes_first_and_noisy_training_data_is_asked_for(tmp_path):
    write_europarl_st(tmp_path, splits=("train-noisy", "dev"))
    corpus = reader(tmp_path)
    assert corpus.splits() == ["dev"] and corpus.count("dev") == 3
    speech = next(corpus.rows("dev"))["document"]
    (tmp_path / "en" / "audios" / f"{speech}.m4a").touch()
    assert next(corpus.rows("dev"))["audio"].endswith(f"{speech}.m4a")
    noisy = reader(tmp_path, splits=["train-noisy"])
    assert noisy.splits() == ["train-noisy"] and len(list(noisy.rows("train-noisy"))) == 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("segments.de", "one\n", r"segments.lst: 3 segments, but segments.de has 1 lines"),
        ("speakers.lst", "one\n", r"speakers.lst: 1 speakers, but speeches.lst has 2 lines"),
    ],
)
def test_files_that_do_not_agree_are_refused(tmp_path, name, content, message):
    write_europarl_st(tmp_path)
    (tmp_path / "en" / "de" / "dev" / name).write_text(content)
    refuses(DataError, message, list, reader(tmp_path).rows("dev"))


def test_who_has_nothing_is_told_where_it_is(tmp_path):
    write_europarl_st(tmp_path)
    message = r"no such folder; .* holds en-de\. Europarl-ST: https://www\.mllp\.upv\.es"
    refuses(DataError, message, EuroparlST, root=tmp_path, source_language="en", target_language="fr")
    refuses(DataError, "no split 'tst'; there are train, dev, test", reader, tmp_path, splits=["tst"])


@pytest.mark.parametrize("line", ["a 1 1", "b 2 1", "a x 1", "a 0 1 2", "b 1", "", "a/b 0 1", "../a 1 2"])
def test_lines_that_are_no_segments(tmp_path, line):
    write_europarl_st(tmp_path)
    (tmp_path / "en" / "de" / "dev" / "segments.lst").write_text(f"a 0 1\n{line}\nc 1 2\n")
    found = refusal(DataError, list, reader(tmp_path).rows("dev"))
    assert found.endswith(f"segments.lst, line 2: {line!r} is not a speech with its start and end in seconds")


def test_a_folder_without_splits_and_files_that_are_read(tmp_path):
    write_europarl_st(tmp_path)
    home = tmp_path / "en" / "de" / "dev"
    names = ["segments.lst", "segments.en", "segments.de", "speeches.lst", "speakers.lst"]
    assert reader(tmp_path).inputs("dev") == [home / name for name in names]
    (home / "speakers.lst").unlink()
    assert reader(tmp_path).inputs("dev") == [home / name for name in names[:4]]
    rows = [*reader(str(tmp_path)).rows("dev")]
    assert {row["speaker"] for row in rows} == {None}
    assert (rows[1].file, rows[1].line, rows[1].files) == (home / names[1], 2, {"target_text": home / names[2]})
    for split in ("train", "dev", "test"):
        (tmp_path / "en" / "de" / split / "segments.lst").unlink()
    refuses(DataError, r"de: no split \(a folder with segments.lst\) is there$", reader, tmp_path)
    refuses(DataError, r"no split 'dev'; there are none$", reader, tmp_path, splits=["dev"])
    refuses(DataError, "holds no direction. Europarl-ST", reader, tmp_path / "none")
