"""Files of hypotheses and references: what editors of other systems leave in them does not change a score."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from dragoman.commands.input_files import lines
from dragoman.commands.options import METRIC_NAMES
from dragoman.commands.score import Learned, cutter, print_scores, score_files
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.evaluation.metrics import METRICS
from dragoman.shared.evaluation.scores import Score, TextScorer
from tests.small import refusal, refuses

TEXT = b"the cat sat on the mat\nhello world again my friend\n"


def test_what_cannot_be_scored_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(TEXT)
    (tmp_path / "empty").write_bytes(b"")
    for name, metrics, error, message in (
        ("a", [], UsageError, "^there is no metric to score with$"),
        ("a", ["blue"], UsageError, "blue"),
        ("empty", ["bleu"], DataError, "empty: is empty, so there is nothing to score against"),
    ):
        refuses(error, message, score_files, tmp_path / name, [tmp_path / name], "en", metrics)


@pytest.mark.parametrize("marked", ["hypotheses", "references"])
@pytest.mark.parametrize("text", [b"\xef\xbb\xbf" + TEXT, TEXT.replace(b"\n", b"\r\n"), TEXT.rstrip()])
def test_marks_of_other_systems_are_no_part_of_a_text(tmp_path, capsys, marked, text):
    files = {name: tmp_path / name for name in ("hypotheses", "references")}
    for name, path in files.items():
        path.write_bytes(text if name == marked else TEXT)
    score_files(files["hypotheses"], [files["references"]], "en", ["bleu", "ter", "wer"])
    values = [line.split("\t")[1:3] for line in capsys.readouterr().out.splitlines()]
    assert values == [["bleu", "100.00"], ["ter", "0.00"], ["wer", "0.00"]]
    files["references"].write_bytes(b"one\n\xef\xbb\xbftwo\n")  # inside a file it is kept
    assert list(lines([files["references"]] * 2)) == ["one", "\ufefftwo"] * 2


def test_the_help_names_all_metrics(dragoman):
    assert METRIC_NAMES.split(", ") == [*METRICS]
    for command in ("evaluate", "score", "diff"):
        assert METRIC_NAMES in " ".join(dragoman(command, "--help")[1].replace("│", " ").split())


def test_comet_is_found_in_another_command(dragoman, tmp_path):
    (tmp_path / "text").write_bytes(TEXT)
    files = [tmp_path / "text"] * 2
    code, _, messages = dragoman("score", *files, "--language", "en", "--metrics", "comet")
    assert code == 2 and "use `dragoman score --comet FOLDER`" in messages


def test_names_in_a_list_may_have_spaces_and_a_misspelt_one_is_told(dragoman, tmp_path):
    (tmp_path / "text").write_bytes(TEXT)
    asked = ["score", tmp_path / "text", tmp_path / "text", "--language", "en", "--metrics"]
    code, output, _ = dragoman(*asked, " bleu, chrf ,ter")
    assert code == 0 and [line.split("\t")[1] for line in output.splitlines()] == ["bleu", "chrf", "ter"]
    assert "unknown metric 'BLEU' (did you mean 'bleu'?); known are bleu, " in dragoman(*asked, "BLEU")[2]
    assert "unknown metric 'rouge-l' (did you mean 'rougeL'?)" in dragoman(*asked, "bleu, rouge-l")[2]


def test_files_of_other_lengths_are_named(tmp_path):
    for name, count in (("three", 3), ("two", 2)):
        (tmp_path / name).write_text("a b c d\n" * count)
    three, two = tmp_path / "three", tmp_path / "two"
    for hypotheses, references, baseline in ((two, [three], None), (three, [three, two], None), (three, [three], two)):
        with pytest.raises(DataError, match="two: 2 lines, but .*three has 3"):
            score_files(hypotheses, references, "en", ["bleu"], baseline=baseline)


def test_a_line_for_each_score_and_a_comparison_with_a_baseline(tmp_path, capsys):
    (tmp_path / "a").write_bytes(TEXT)
    (tmp_path / "b").write_bytes(TEXT.replace(b"cat", b"dog"))
    score_files(tmp_path / "b", [tmp_path / "a"], "en", ["wer"], baseline=tmp_path / "a")
    first, second, empty, *table = capsys.readouterr().out.splitlines()
    assert first.split("\t")[:4] == [str(tmp_path / "b"), "wer", "9.09", "2 lines"]  # one word of eleven
    assert second.split("\t")[:4] == [str(tmp_path / "a"), "wer", "0.00", "2 lines"]
    assert empty == "" and any("wer" in line for line in table)
    score_files(tmp_path / "a", [tmp_path / "a", tmp_path / "b"], "en", ["ter", "bleu"])
    found = [line.split("\t")[1:3] for line in capsys.readouterr().out.splitlines()]
    assert found == [["ter", "0.00"], ["bleu", "100.00"]]
    print_scores([Score("bleu", 12.25, "by hand", 7)], "name")
    assert capsys.readouterr().out == "name\tbleu\t12.25\t7 lines\tby hand\n"


TALK = ["one two three", "four five", "six seven eight nine"]


def test_outputs_of_talks_are_cut_to_the_lines_of_references():
    path = Path("out")
    assert cutter(TALK, None, "en")(["one two three four", "five six seven eight nine"], path) == TALK
    cut = cutter(TALK, ["a", "a", "b"], "en")
    assert cut(["one two three four five", "six seven eight nine"], path) == TALK
    for outputs in (["one"], ["one", "two", "three"]):
        refuses(DataError, f"^out: {len(outputs)} lines, but the references are of 2 talks$", cut, outputs, path)
    refuses(DataError, "^2 lines name talks, but there are 3 lines of references$", cutter, TALK, ["a", "b"], "en")
    refuses(DataError, "^the lines of a talk must follow one another$", cutter, TALK, ["a", "b", "a"], "en")


def test_files_of_talks_are_cut_before_they_are_scored(tmp_path, capsys):
    texts = {"references": "\n".join(TALK), "talks": "a\na\nb", "out": "one two three four five\nsix seven eight nine"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text + "\n")
    given = (tmp_path / "out", [tmp_path / "references"], "en", ["wer"])
    score_files(*given, talks=(tmp_path / "talks",))
    score_files(*given, talks=(None,))
    assert [line.split("\t")[2:4] for line in capsys.readouterr().out.splitlines()] == [["0.00", "3 lines"]] * 2
    refuses(DataError, "out: 2 lines, but .*references has 3$", score_files, *given)


class Counted:
    """A trained metric whose model cuts two texts of every file."""

    def __init__(self, model, sources, sets):
        self.model, self.given = model, (sources, sets)

    def count(self, hypotheses):
        self.model.cut = 2
        return (hypotheses, *self.given)


@pytest.mark.parametrize("with_reference", [True, False])
def test_a_trained_metric_gets_sources_and_tells_what_it_cuts(tmp_path, monkeypatch, caplog, with_reference):
    (tmp_path / "sources").write_bytes(TEXT)
    devices = []
    regressor = SimpleNamespace(to=devices.append)
    model = SimpleNamespace(regressor=regressor, with_reference=with_reference, cut=0, longest=512)
    monkeypatch.setattr("dragoman.exchange.comet.read_comet", lambda folder: model)
    monkeypatch.setattr("dragoman.exchange.learned.LearnedMetric", Counted)
    learned = Learned(tmp_path / "model", tmp_path / "sources", device="cpu")
    assert Learned(tmp_path, tmp_path).device == "auto"
    count = learned.counter([["a", "b"]])
    sources = TEXT.decode().splitlines()
    assert count(["x", "y"]) == (["x", "y"], sources, [["a", "b"]] if with_reference else [])
    assert devices == ["cpu"] and model.cut == 0
    assert caplog.messages == [f"{tmp_path / 'model'}: 2 texts were cut to the 512 tokens that it reads"]
    assert refusal(DataError, learned.counter, [["a"]]) == f"{tmp_path / 'sources'}: 2 lines, but the references have 1"


def test_a_trained_metric_comes_behind_those_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "a").write_bytes(TEXT)

    class Own:
        def counter(self, sets):
            return lambda hypotheses: TextScorer(sets, "en", ["ter"]).count(hypotheses)[0]

    for metrics, names in ((["bleu"], ["bleu", "ter"]), ([], ["ter"])):
        score_files(tmp_path / "a", [tmp_path / "a"], "en", metrics, learned=Own())
        assert [line.split("\t")[1] for line in capsys.readouterr().out.splitlines()] == names
