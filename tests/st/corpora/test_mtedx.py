"""mTEDx is MuST-C with other splits, and flac where the yaml says wav."""

import numpy as np
import pytest
import soundfile

from dragoman import DataError, Manifest
from dragoman.preparing.preparation import prepare
from dragoman.st.corpora.mtedx import MTedx
from tests.small import refuses


def write_mtedx(root, pair="es-en", splits=("train", "valid", "test")):
    """Write a pair in the layout of mTEDx: one talk a split with two segments."""
    source, target = pair.split("-")
    for number, split in enumerate(splits):
        data = root / pair / "data" / split
        (data / "wav").mkdir(parents=True)
        (data / "txt").mkdir()
        noise = np.random.default_rng(number).uniform(-0.5, 0.5, 4 * 16000)
        soundfile.write(data / "wav" / f"{split}talk.flac", noise, 16000)
        segment = "- {{duration: 1.5, offset: {0}, speaker_id: s{1}, wav: {2}talk.wav}}\n"
        segments = [segment.format(2.0 * n, n, split) for n in range(2)]
        (data / "txt" / f"{split}.yaml").write_text("".join(segments))
        for language in {source, target}:
            (data / "txt" / f"{split}.{language}").write_text(f"{language} one\n{language} two\n")


def test_rows_have_flac_and_the_split_for_development_is_dev(tmp_path):
    write_mtedx(tmp_path)
    reader = MTedx(root=tmp_path, source_language="es", target_language="en")
    assert reader.splits() == ["train", "dev", "test"] and reader.folder == "es-en"
    prepare(reader, tmp_path / "manifests", workers=1)
    [first, second] = Manifest.open(tmp_path / "manifests" / "es-en" / "dev.arrow")
    assert first["audio"] == f"{tmp_path}/es-en/data/valid/wav/validtalk.flac"
    assert (second["id"], second["start"], second["duration"]) == ("validtalk_1", 2.0, 1.5)
    assert (second["source_text"], second["target_text"]) == ("es two", "en two")


def test_a_pair_of_one_language_is_for_recognition(tmp_path):
    write_mtedx(tmp_path, "es-es")
    [row, _] = MTedx(root=tmp_path, source_language="es", target_language="es").rows("dev")
    assert row["source_text"] == row["target_text"] == "es one"


def test_who_has_nothing_is_told_where_it_is(tmp_path):
    message = r"holds no pair\. mTEDx: https://www\.openslr\.org/100/"
    refuses(DataError, message, MTedx, root=tmp_path, source_language="es", target_language="en")


@pytest.mark.parametrize("name", ["/", "..", ".", "../..", "x/.."])
def test_what_is_no_name_of_a_sound_file_is_named(tmp_path, name):
    write_mtedx(tmp_path)
    path = tmp_path / "es-en" / "data" / "valid" / "txt" / "valid.yaml"
    path.write_text(path.read_text().replace("wav: validtalk.wav", f"wav: {name}"))
    rows = MTedx(root=tmp_path, source_language="es", target_language="en").rows("dev")
    refuses(DataError, r"valid\.yaml, line 1, item 1: wav is .*, not the name of a sound file", list, rows)
