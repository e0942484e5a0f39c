"""The command, from the outside: a corpus of one's own to a scored translation, and wrong usage."""

import json
import logging
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import click
import pytest
import torch
import typer
from rich.text import Text
from typer.testing import CliRunner

from dragoman.cli import main as cli
from dragoman.cli.main import app
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.evaluation.results import read
from dragoman.shared.machine.stopping import Interrupted

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
WORTE = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht"]
TINY = "--width 32 --heads 2 --feedforward 64 --encoder_layers 1 --decoder_layers 1 --pieces 300 --dropout 0.0".split()


def process(*arguments, text=None, cwd=None):
    command = [sys.executable, "-m", "dragoman", *map(str, arguments)]
    return subprocess.run(command, input=text, capture_output=True, text=True, cwd=cwd, timeout=300)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A tiny translator of two number words, trained by the command on tables."""
    folder = tmp_path_factory.mktemp("own")
    pairs = [(f"{WORDS[i]} {WORDS[j]}", f"{WORTE[j]} {WORTE[i]}") for i in range(8) for j in range(8)]
    for split, some in (("train", pairs), ("dev", pairs[::9]), ("test", pairs[::7])):
        rows = [f"{split}{n}\t{source}\t{target}" for n, (source, target) in enumerate(some)]
        header = "id\tsource_text\ttarget_text"
        if split == "test":  # has a second reference, but for the last row
            header += "\ttarget_text_1"
            second = [f"so {target}" for _, target in some[:-1]] + [""]
            rows = [f"{row}\t{other}" for row, other in zip(rows, second, strict=True)]
        (folder / f"{split}.tsv").write_text("\n".join([header, *rows]) + "\n")
    common = ["--data_folder", folder, "--source_language", "en", "--target_language", "de"]
    common += ["--results_folder", folder / "results", "--noprogressbar", "--device", "cpu", *TINY]
    common += "--updates 160 --warmup 30 --learning_rate 0.01 --batch_tokens 400 --validate_every 80".split()
    result = process("run", "own/mt", *common)
    assert result.returncode == 0, result.stderr
    return folder, folder / "results" / "mt" / "1"


def test_help_is_quick_and_needs_nothing_heavy():
    code = "import sys; sys.argv = ['dragoman', '--help']\nfrom dragoman.cli.main import main\ntry: main()\nfinally: "
    code += "assert not {'torch', 'numpy', 'pyarrow', 'sentencepiece'} & set(sys.modules), 'heavy import'"
    started = time.monotonic()
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert time.monotonic() - started < 20
    for name in ("prepare", "run", "batch-size", "translate", "evaluate", "score", "diff", "seeds", "recipes", "demo"):
        assert name in result.stdout


def test_the_log_begins_with_the_machine_and_ends_with_the_model_and_what_to_do_with_it(
    run, dragoman, tmp_path, monkeypatch
):
    _, output = run
    log = (output / "log.txt").read_text().splitlines()
    assert "device cpu (" in log[0] and "precision fp32" in log[0]
    assert f"Python {platform.python_version()}, torch {torch.__version__}" in log[0]
    model = output / "average" / "model"
    said = f"the model is in {model}; to use it: dragoman translate {model} news.txt"
    assert log[-1].partition(" ")[2].partition(" ")[2] == said
    (tmp_path / "news.txt").write_text("one two\n")
    monkeypatch.chdir(tmp_path)
    code, translated, _ = dragoman(*log[-1].partition("to use it: dragoman ")[2].split())
    assert code == 0 and translated.count("\n") == 1


def test_the_folder_of_a_run_stands_for_its_model(run, dragoman):
    _, output = run
    code, of_model, _ = dragoman("translate", output / "average" / "model", text="one two\n")
    assert code == 0 and dragoman("translate", output, "--ensemble", output, text="one two\n")[:2] == (0, of_model)
    assert f"dragoman translate {output}/average/model" in dragoman("show", output)[1]


def test_a_run_leaves_a_model_scores_and_a_curve(run):
    _, output = run
    rows = {row["metric"]: row for row in read(output / "results.jsonl")}
    assert rows["chrf"]["value"] > 95 and rows["bleu"]["lines"] == 10 and "tok:13a" in rows["bleu"]["signature"]
    assert rows["bleu"]["recipe"] == "own/mt" and rows["bleu"]["averaging"] == "best 2"
    assert "nrefs:var" in rows["bleu"]["signature"] and rows["bleu"]["language"] == "de"
    assert (rows["bleu"]["beam"], rows["bleu"]["length_penalty"], rows["bleu"]["seed"]) == (5, 1.0, 1)
    assert rows["bleu"]["keys"]["width"] == 32 and "results_folder" not in rows["bleu"]["keys"]
    assert (output / rows["bleu"]["outputs"]).is_file() and len(rows["bleu"]["corpus"]) == 12
    assert (output / "fit" / "training.png").stat().st_size > 5000
    files = {"averaged.json", "config.json", "model.safetensors", "tokenizer.model"}
    assert {p.name for p in (output / "average" / "model").iterdir()} == files


def test_translate_keeps_blank_lines_and_order(run, dragoman, tmp_path):
    _, output = run
    model = output / "average" / "model"
    code, stdout, stderr = dragoman("translate", model, text="one two\n\n   \neight three\n")
    assert (code, stdout) == (0, "zwei eins\n\n\ndrei acht\n"), stderr
    (tmp_path / "a.txt").write_text("six six\n")
    (tmp_path / "b.txt").write_text("one eight")
    _, stdout, _ = dragoman("translate", model, tmp_path / "b.txt", tmp_path / "a.txt", "--n-best", 2, "--beam", 2)
    lines = [line.split("\t") for line in stdout.splitlines()]
    assert [line[2] for line in lines][::2] == ["acht eins", "sechs sechs"]
    assert [line[0] for line in lines] == ["1", "1", "2", "2"]
    assert float(lines[0][1]) >= float(lines[1][1])


def test_python_says_the_same(run):
    from dragoman.shared.systems.system import System

    system = System.load(run[1] / "average" / "model")
    assert system.translate("four five") == "fünf vier"
    assert system.translate(["four five", ""]) == ["fünf vier", ""]
    assert system.hypotheses(["four five", ""])[1][0].texts == {"translation": ""}


def test_evaluate_and_score_agree_with_the_run(run, dragoman, tmp_path):
    folder, output = run
    manifest = folder / "manifests" / "test.arrow"
    model = output / "average" / "model"
    code, stdout, stderr = dragoman("evaluate", model, manifest, "--metrics", "chrf", "--out", tmp_path)
    assert code == 0, stderr
    row = read(tmp_path / "results.jsonl")[0]
    assert stdout.split("\t")[1:3] == ["chrf", f"{row['value']:.2f}"]
    wanted = read(output / "results.jsonl")
    assert row["value"] == next(w["value"] for w in wanted if w["metric"] == "chrf")
    table = next(output.glob("evaluate/*.tsv")).read_text().splitlines()[1:]
    assert (row["recipe"], row["seed"], row["averaging"], row["minutes"]) == ("own/mt", 1, "best 2", None)
    for name, column in (("hyp", 1), ("ref", 2), ("ref2", 3)):
        (tmp_path / name).write_text("".join(line.split("\t")[column] + "\n" for line in table))
    files = [tmp_path / "hyp", tmp_path / "ref", tmp_path / "ref2"]
    _, stdout, _ = dragoman("score", *files, "--language", "de", "--metrics", "chrf")
    assert stdout.split("\t")[1:3] == ["chrf", f"{row['value']:.2f}"]
    (tmp_path / "bad").write_text("eins\n" * 10)
    _, stdout, _ = dragoman("score", *files, "--language", "de", "--metrics", "chrf", "--baseline", tmp_path / "bad")
    assert stdout.splitlines()[-2].split()[0] == "chrf" and stdout.splitlines()[-2].endswith("  better")
    code, _, stderr = dragoman("score", *files[:2], "--language", "de", "--baseline", tmp_path / "nothing")
    assert code == 1 and "nothing" in stderr


@pytest.mark.slow
def test_seeds_and_diff(run, tmp_path):
    folder, _ = run
    keys = ["--data_folder", folder, "--source_language", "en", "--target_language", "de", "--noprogressbar"]
    keys += ["--results_folder", tmp_path / "results", "--device", "cpu", *TINY, "--batch_tokens", 400]
    keys += ["--validate_every", 20, "--warmup", 10]
    keys += ["--updates", 120, "--learning_rate", 0.01]
    against = f"own/mt --updates 20 --results_folder {tmp_path}/short"
    words = ["seeds", "own/mt", "--seeds", "1,2", "--against", against, *keys]
    result = process(*words)
    assert result.returncode == 0, result.stderr
    assert "WARNING: updates differ" in result.stdout and "test, 10 lines" in result.stdout
    rows = read(tmp_path / "results.jsonl")
    [row] = [row for row in rows if row.get("kind") == "comparison" and row["metric"] == "chrf"]
    assert row["value"] > 0 and row["p"] < 0.05 and row["against_keys"]["updates"] == 20
    again = process(*words)
    assert again.returncode == 0 and again.stdout.count("done before") == 4
    result = process("diff", tmp_path / "results" / "mt" / "1", tmp_path / "short" / "mt" / "1", "--show", 1)
    assert result.returncode == 0, result.stderr
    assert "reference 1 so " in result.stdout
    assert ["updates", "120", "20"] in [line.split() for line in result.stdout.splitlines()]


def test_a_second_run_has_nothing_to_do_and_a_changed_one_is_refused(run, dragoman):
    folder, output = run
    before = (output / "log.txt").read_text()
    common = ["--data_folder", folder, "--source_language", "en", "--target_language", "de"]
    common += ["--results_folder", folder / "results", "--noprogressbar", "--device", "cpu", *TINY]
    common += "--updates 160 --warmup 30 --learning_rate 0.01 --batch_tokens 400 --validate_every 80".split()
    assert dragoman("run", "own/mt", *common)[0] == 0
    assert "starting" not in (output / "log.txt").read_text()[len(before) :]
    scores = (output / "results.jsonl").read_text().splitlines()
    assert dragoman("run", "own/mt", *common, "--restart", "evaluate")[0] == 0
    again = (output / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["scores"] for line in again] == [json.loads(line)["scores"] for line in scores]
    code, _, messages = dragoman("run", "own/mt", *common, "--label_smoothing", "0.2")
    assert code == 2
    assert messages.strip().splitlines()[-1].startswith("dragoman: error:") and "--restart fit" in messages


@pytest.fixture
def main(monkeypatch):
    """The command in this process, with arguments or an error that its work raises; returns the exit code.

    The environment is put back.
    """
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "THP_MEM_ALLOC_ENABLE", "RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(logging, "lastResort", logging.lastResort)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def run(error=None, arguments=None):
        def work():
            if error is not None:
                raise error

        if arguments is None:
            monkeypatch.setattr(cli, "app", work)
        monkeypatch.setattr(sys, "argv", ["dragoman", *(arguments or [])])
        try:
            cli.main()
        except SystemExit as end:
            return end.code
        return 0

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)
    for name in ("GOMP_SPINCOUNT", "THP_MEM_ALLOC_ENABLE"):
        os.environ.pop(name, None)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["run", "almanac/sst"], 2, "almanac/st"),
        (["run", "almanac/st", "--widht", "3"], 2, "width"),
        (["run", "almanac/st", "--width", "wide"], 2, "width"),
        (["run", "mustc/st"], 2, "data_folder"),
        (["prepare", "mustk", "--root", "x"], 2, "mustc"),
        (["prepare", "mustc", "--root", "missing", "--out", "m"], 1, "missing"),
        (["prepare", "mustc", "--root", "x", "--out", "m", "--target-langage", "de"], 2, "--target-language"),
        (["translate", "missing"], 1, "not a model folder"),
        (["evaluate", "missing", "x.arrow"], 1, "missing"),
        (["score", "missing", "missing", "--language", "de"], 1, "missing"),
        (["prepare", "covost2", "--root", "x", "--out", "m"], 2, "needs --source-language"),
        (["translate", "missing", "--beam", "2", "--n-best", "3"], 2, "--n-best 3 is more than --beam 2"),
        (["translate", "missing", "--device", "gpu"], 2, "gpu"),
        (["evaluate", "missing", "x.arrow", "--metrics", "blue"], 2, "known are bleu, "),
        (["results", "--into", "missing"], 1, "missing: has no results.jsonl"),
        (["diff", "missing", "missing"], 1, "missing: has no results.jsonl"),
        (["seeds", "almanac/mt", "--seeds", "1,x"], 2, "'1,x'"),
        (["seeds", "almanac/mt", "--widht", "1"], 2, "width"),
        (["evaluate", "missing", "x.arrow", "--limit", "3", "--out", "o"], 2, "--limit"),
        (["batch-size", "almanac/st", "--device", "cpu"], 2, "--memory 4GB"),
        (["batch-size", "almanac/st", "--memory", "much"], 2, "for example 4GB"),
        (["batch-size", "almanac/st", "--phase", "prepare", "--memory", "1GB"], 2, "does not train"),
        (["translate"], 2, "Missing argument"),
        (["fly"], 2, "fly"),
    ],
)
def test_mistakes_are_one_line_and_an_exit_code(arguments, code, message, tmp_path, monkeypatch, main, capfd):
    monkeypatch.chdir(tmp_path)
    found = main(arguments=arguments)
    said = capfd.readouterr().err
    assert found == code, said
    assert message in said and "Traceback" not in said


# -- help -------------------------------------------------------------------------------------------------------------


def help_texts(command: click.Command) -> Iterator[str]:
    yield from [command.help or "", *(getattr(parameter, "help", "") or "" for parameter in command.params)]
    for inside in getattr(command, "commands", {}).values():
        yield from help_texts(inside)


def test_help_loses_no_brackets_to_markup():
    texts = [*help_texts(typer.main.get_command(app))]
    assert any("\\[hf]" in text for text in texts)
    for text in texts:
        assert Text.from_markup(text).plain == text.replace("\\[", "[")


def test_help_names_extras_in_full():
    shown = CliRunner().invoke(app, ["import", "--help"]).stdout
    assert "pip install 'dragoman[hf]'" in " ".join(shown.split())


def test_lines_of_help_are_as_wide_as_the_terminal():
    shown = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "80"}).stdout
    (line,) = (line for line in shown.splitlines() if "--phases.asr null" in line)
    assert "trains from scratch" in line  # which begins a line of the docstring


def test_threads_and_pages_are_asked_for_unless_somebody_has(main, monkeypatch):
    main()
    assert os.environ.pop("GOMP_SPINCOUNT") == "10000" and os.environ.pop("THP_MEM_ALLOC_ENABLE") == "1"
    for number in (signal.SIGTERM, signal.SIGINT):
        assert signal.getsignal(number) not in (signal.SIG_DFL, signal.default_int_handler)
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    monkeypatch.setenv("THP_MEM_ALLOC_ENABLE", "0")
    main()
    assert "GOMP_SPINCOUNT" not in os.environ and os.environ["THP_MEM_ALLOC_ENABLE"] == "0"


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (None, 0, ""),
        (UsageError("wrong\nusage"), 2, "dragoman: error: wrong usage\n"),
        (DataError("wrong data"), 1, "dragoman: error: wrong data\n"),
        (OSError(28, "No space left", "/a"), 1, "dragoman: error: /a: No space left\n"),
        (Interrupted("asked to stop"), 1, "dragoman: error: asked to stop\n"),
    ],
)
def test_errors_end_the_command_with_a_line_and_a_code(main, capsys, error, code, said):
    assert main(error) == code
    assert capsys.readouterr().err == said


def test_one_process_says_that_all_were_stopped(main, capsys, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    assert main(Interrupted("asked to stop")) == 1 and capsys.readouterr().err == ""


def test_without_words_the_command_helps():
    done = CliRunner().invoke(app, [])
    assert "Usage" in done.output and "translate" in done.output
