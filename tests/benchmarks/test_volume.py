"""Scores against the volume of training data: two runs of two updates, and a table."""

import json

import pytest

from benchmarks import volume
from dragoman.shared.errors import UsageError
from tests.recipes.test_recipes import small


@pytest.mark.recipes
def test_each_volume_is_trained_once_and_has_a_line(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    sizes = small(volume.Recipe.load("almanac/mt", {})) | {"debug": True, "noprogressbar": True, "workers": 0}
    sizes |= {"results_folder": "!ref results/<utterances>", "data_folder": "!ref data/<utterances>", "device": "cpu"}
    del sizes["utterances"]
    overrides = [word for key, value in sizes.items() for word in (f"--{key}", str(value))]
    picture = tmp_path / "volume.png"
    volume.main(["utterances", "24", "40", "almanac/mt", "--out", str(picture), *overrides])
    assert picture.read_bytes().startswith(b"\x89PNG")
    first = capfd.readouterr().out.splitlines()[-3:]
    assert first[0].split() == ["utterances", "en-de/tst-COMMON", "en-de/tst-HE"]
    for line, number in zip(first[1:], ("24", "40"), strict=True):
        rows = [json.loads(row) for row in next(tmp_path.glob(f"results/{number}/**/results.jsonl")).open()]
        scores = [f"{row['value']:.2f}" for row in rows if row["metric"] == "bleu"]
        assert line.split() == [number, *scores]
    monkeypatch.setattr(volume.subprocess, "run", lambda *_, **__: pytest.fail("a finished run was run again"))
    volume.main(["utterances", "24", "40", "almanac/mt", *overrides])
    assert capfd.readouterr().out.splitlines()[-3:] == first


def test_only_numbers_are_drawn(tmp_path):
    with pytest.raises(UsageError, match="pieces char: only positive numbers can be drawn"):
        volume.plot("pieces", {"test": {"100": 1.0, "char": 2.0}}, "bleu", tmp_path / "none.png")
    assert not any(tmp_path.iterdir())


def test_two_volumes_need_two_folders(tmp_path):
    given = ["almanac/mt", "--results_folder", str(tmp_path)]
    with pytest.raises(UsageError, match="two values of utterances would run in the same folder: put <utterances>"):
        volume.runs("utterances", ["24", "40"], given)
