"""The commands that use a model folder: what they print, what they refuse, and how they end."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sacrebleu.metrics.chrf import CHRF

from dragoman.commands.options import command_line
from dragoman.shared.batches.manifest import Manifest
from tests import small
from tests.small import GOLDEN, slow_but

# -- what is printed --------------------------------------------------------------------------------------------------


def test_n_best_lines_bear_the_number_of_their_input(dragoman):
    code, output, _ = dragoman("translate", GOLDEN, "--n-best", 2, "--beam", 2, text="one two\n\nthree four\n")
    rows = [line.split("\t") for line in output.splitlines()]
    assert code == 0 and [row[0] for row in rows] == ["1", "1", "2", "3", "3"]
    assert [row[2] for row in rows if row[0] == "2"] == [""] and rows[0][2] == "zwei eins"


def test_the_sample_that_is_most_like_all_of_them_is_chosen(dragoman):
    asked = ["translate", GOLDEN, "--samples", 6, "--maximum-length-extra", 4]
    _, drawn, _ = dragoman(*asked, "--sample", "--format", "json", text="one two three\n")
    texts = [one["translation"] for one in json.loads(drawn)["hypotheses"]]
    means = [sum(CHRF().sentence_score(text, [other]).score for other in texts) for text in texts]
    code, output, _ = dragoman(*asked, "--mbr", "chrf", text="one two three\n\n")
    assert (code, output) == (0, f"{texts[means.index(max(means))]}\n\n") and len({*texts}) > 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--samples", "3"], "--samples 3 needs --sample"),
        (["--n-best", "3", "--beam", "2"], "error: --n-best 3 is more than --beam 2 finds"),
        (["--mbr", "comet"], "--mbr comet: neither chrf, chrf++, bleu nor a folder of COMET, with hparams.yaml"),
        (["--mbr", "chrf", "--beam", "1"], "--mbr chooses among several hypotheses: give --samples, or"),
        (["--mbr", "chrf", "--rerank", str(GOLDEN)], "--mbr and --rerank do not go together"),
        (["--rerank", "nowhere"], "nowhere"),
        (["--beam", "4", "--n-best", "3", "--rerank", str(GOLDEN), "--to", "de"], "reads en, not the outputs' 'de'"),
        (["--rerank-weight", "2"], "--rerank-weight needs --rerank"),
        (["--rerank", str(GOLDEN), "--rerank-weight", "0"], "--rerank-weight must be a number above 0"),
    ],
)
def test_a_choice_that_cannot_be_made_is_refused(dragoman, options, message):
    code, output, messages = dragoman("translate", GOLDEN, *options, text="one two\n")
    assert code in (1, 2) and not output and message in messages, messages


def test_sound_files_around_a_broken_one_are_translated(dragoman, speech_model, tmp_path, write_sound):
    for name in ("a.wav", "c.wav"):
        write_sound(tmp_path / name)
    (tmp_path / "b.wav").write_bytes(b"RIFF, and no more")
    code, output, messages = dragoman("translate", speech_model, tmp_path)
    assert code == 1 and [Path(line.split("\t")[0]).name for line in output.splitlines()] == ["a.wav", "c.wav"]
    assert f"error: {tmp_path / 'b.wav'}: not readable as sound (17 bytes" in messages
    assert messages.splitlines()[-1] == "dragoman: error: 1 of 3 sound files could not be translated"


def test_a_sound_file_whose_name_is_not_utf_8_is_translated(dragoman, speech_model, tmp_path, write_sound, monkeypatch):
    (tmp_path / "talks").mkdir()
    name = os.fsencode(tmp_path / "talks") + b"/caf\xe9.wav"
    write_sound(os.fsdecode(name))
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, encoding="utf-8"))
    code, _, messages = dragoman("translate", speech_model, tmp_path / "talks")
    assert code == 0 and output.getvalue().startswith(name + b"\t"), messages


def test_a_model_folder_whose_name_is_not_utf_8_is_an_error_that_names_it(dragoman, tmp_path):
    folder = tmp_path / os.fsdecode(b"mod\xe8le")
    folder.symlink_to(GOLDEN)
    code, _, messages = dragoman("translate", folder, text="one")
    assert code in (0, 1) and "Traceback" not in messages
    assert code == 0 or "mod\\udce8le" in messages


def test_output_that_its_encoding_cannot_hold_is_an_error_that_says_how_to_mend_it(dragoman, tmp_path, monkeypatch):
    (tmp_path / "in.txt").write_text("five five\n")
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, encoding="ascii"))
    code, _, messages = dragoman("translate", GOLDEN, tmp_path / "in.txt")
    message = "dragoman: error: the output is written as ascii, which has no '\\xfc': set PYTHONIOENCODING=utf-8\n"
    assert (code, output.getvalue(), messages) == (2, b"", message)


def test_a_recorded_command_is_quoted_as_a_shell_needs_it(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/dragoman", "run", "my recipe.yaml", "--name", "it's"])
    assert command_line() == """dragoman run 'my recipe.yaml' --name 'it'"'"'s'"""


# -- what is refused --------------------------------------------------------------------------------------------------


def test_a_line_without_an_end_is_refused_before_it_is_read_whole(dragoman, tmp_path):
    (tmp_path / "long.txt").write_text("one two\n" + "eins " * 320_000)
    code, output, messages = dragoman("translate", GOLDEN, tmp_path / "long.txt")
    assert (code, output) == (1, "")
    assert f"{tmp_path / 'long.txt'}: line 2 has more than 131,072 characters: 'eins eins" in messages


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--length-penalty", "1e308"], "length_penalty must be between -50 and 50"),
        (["--length-penalty", "nan"], "--length-penalty must be a number, not nan"),
        (["--minimum-length", "1" + "0" * 22], "minimum_length 10000000000000000000000 is above maximum_length 1000"),
        (["--maximum-length-ratio", "inf"], "--maximum-length-ratio must be a number, not inf"),
        (["--beam", "1" + "0" * 22], "outputs for 1 inputs at a time: needs about "),
        (["--sample", "--samples", "1" + "0" * 22], "outputs for 1 inputs at a time: needs about "),
        (["--sample", "--temperature", "1e-308"], "temperature must be at least 1e-06"),
        (["--ctc", "--length-bonus", "1e308"], "length_bonus must be between -10,000 and 10,000, not 1e+308"),
        (["--lm", "x", "--lm-weight", "1e308"], "--lm-weight must be a number above 0 and at most 10,000"),
    ],
)
def test_numbers_out_of_their_range_are_refused_with_it(dragoman, options, message):
    code, output, messages = dragoman("translate", GOLDEN, *options, text="one two\n")
    assert (code, output) == (2, "") and message in messages, messages


def test_large_limits_are_no_limits(dragoman):
    limits = ["--maximum-length-ratio", "1e308"]
    for name in ("--maximum-length-extra", "--batch-size", "--no-repeat-ngram"):
        limits += [name, "1" + "0" * 22]
    assert dragoman("translate", GOLDEN, *limits, text="one two\n") == (0, "zwei eins\n", "")


def test_no_length_of_sound_is_a_limit(dragoman, speech_model, tmp_path, write_sound):
    write_sound(tmp_path / "a.wav")
    code, _, messages = dragoman("translate", speech_model, tmp_path / "a.wav", "--maximum-seconds", "1e308")
    assert code == 0 and "error" not in messages


@pytest.mark.parametrize("option", [["--keep-silence"], ["--speech-detector", "levels"], ["--maximum-seconds", "9"]])
def test_options_of_sound_are_refused_for_a_model_that_reads_text(dragoman, option):
    code, output, messages = dragoman("translate", GOLDEN, *option, text="one two\n")
    assert (code, output) == (2, "") and f"{option[0]} does not apply: this model reads text" in messages


# -- a full disk ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["evaluate", "rescore"])
def test_a_full_disk_is_an_error_that_names_the_file(dragoman, tmp_path, monkeypatch, command):
    manifest = Manifest.write(tmp_path / "test.arrow", [small.row("r", "one two", "zwei eins")])

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)  # where the kernel says so of what was written before
    code, _, messages = dragoman(command, GOLDEN, manifest.path, "--out", tmp_path / "out", "--device", "cpu")
    assert code == 1 and "No space left on device" in messages and str(tmp_path / "out") in messages, messages


@pytest.mark.parametrize("closed", slow_but([1], [1, 2]))
def test_closed_outputs_are_no_error(tmp_path, closed):
    (tmp_path / "in.txt").write_text("one two\n")
    command = f'exec "{sys.executable}" -m dragoman.cli.main translate "{GOLDEN}" "{tmp_path}/in.txt" {closed}>&-'
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == ("" if closed == 1 else "zwei eins\n")


@pytest.mark.parametrize("detector", ["levels", "auto"])
def test_sound_is_heard_in_any_precision(dragoman, speech_model, tmp_path, write_sound, detector):
    for kind in ("text", "srt"):
        write_sound(tmp_path / "a.wav")
        options = ["--format", kind, "--speech-detector", detector, "--device", "cpu"]
        given = ("translate", speech_model, tmp_path / "a.wav", *options, "--precision")
        one, other = (dragoman(*given, precision) for precision in ("fp32", "bf16"))
        assert one[:2] == other[:2] and one[0] == 0
