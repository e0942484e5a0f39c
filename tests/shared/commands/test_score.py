"""Files of hypotheses and references: what editors of other systems leave in them does not change a score."""

import pytest

from shared.commands.input_files import lines
from shared.commands.options import METRIC_NAMES
from shared.commands.score import score_files
from shared.errors import DataError
from shared.evaluation.metrics import METRICS

TEXT = b"the cat sat on the mat\nhello world again my friend\n"


@pytest.mark.parametrize("marked", ["hypotheses", "references"])
@pytest.mark.parametrize("text", [b"\xef\xbb\xbf" + TEXT, TEXT.replace(b"\n", b"\r\n"), TEXT.rstrip()])
def test_marks_of_other_systems_are_no_part_of_a_text(tmp_path, capsys, marked, text):
    files = {name: tmp_path / name for name in ("hypotheses", "references")}
    for name, path in files.items():
        path.write_bytes(text if name == marked else TEXT)
    score_files(files["hypotheses"], [files["references"]], "en", ["bleu", "ter", "wer"])
    values = [line.split("\t")[1:3] for line in capsys.readouterr().out.splitlines()]
    assert values == [["bleu", "100.00"], ["ter", "0.00"], ["wer", "0.00"]]


def test_the_help_names_all_metrics(dragoman):
    assert METRIC_NAMES.split(", ") == [*METRICS]
    for command in ("evaluate", "score", "diff"):
        shown = " ".join(dragoman(command, "--help")[1].replace("│", " ").split())
        assert METRIC_NAMES in shown


def test_comet_is_found_in_another_command(dragoman, tmp_path):
    (tmp_path / "text").write_bytes(TEXT)
    code, _, messages = dragoman(
        "score", tmp_path / "text", tmp_path / "text", "--language", "en", "--metrics", "comet"
    )
    assert code == 2 and "use `dragoman score --comet FOLDER`" in messages


def test_a_mark_inside_a_file_is_kept(tmp_path):
    (tmp_path / "text").write_bytes(b"one\n\xef\xbb\xbftwo\n")
    assert list(lines([tmp_path / "text", tmp_path / "text"])) == ["one", "\ufefftwo"] * 2


def test_an_empty_file_of_references_is_named(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(DataError, match=r"empty: is empty, so there is nothing to score against"):
        score_files(tmp_path / "empty", [tmp_path / "empty"], "en", ["bleu"])
