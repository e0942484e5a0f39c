"""A laboratory of real recipes, as a dry run: two updates of each, of tiny models on a miniature."""

import pytest

from dragoman.commands.lab import run_lab
from dragoman.shared.evaluation.results import read

LAB = """\
experiments:
    - {recipe: help/mt_from_mbart, against: [none, help/mt --arm longer]}
    - {recipe: help/mt_from_vectors, against: none}
keys: {packages_folder: nowhere}
at_once: 2
"""
TINY = {"low_pairs": 12, "pieces": 500, "width": 16, "heads": 2, "feedforward": 32, "encoder_layers": 1}
TINY |= {"decoder_layers": 1, "workers": 0, "device": "cpu"}


@pytest.mark.recipes
def test_a_dry_run_of_a_laboratory(miniature, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab.yaml").write_text(LAB)
    keys = TINY | {"packages_folder": miniature["help"]}
    words = ["--debug", *(word for key, value in keys.items() for word in (f"--{key}", str(value)))]
    done = run_lab(tmp_path / "lab.yaml", words, minutes=None, command="dragoman lab")
    said = capsys.readouterr().out
    assert done, said
    assert "5 of 5 runs are done" in said and "not compared" not in said
    rows = read(tmp_path / "lab-debug" / "results.jsonl")
    assert {(row["against"], row.get("against_arm", "")) for row in rows if row.get("kind") == "comparison"} == {
        ("help/mt_from_mbart", "none"),
        ("help/mt", "longer"),
        ("help/mt_from_vectors", "none"),
    }
    assert all(row["lines"] == 2 for row in rows if row["metric"] == "bleu")
    assert all(path.name == "1-debug" for path in (tmp_path / "results" / "help" / "fi-12").glob("*/*"))
