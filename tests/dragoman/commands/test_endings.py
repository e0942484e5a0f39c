"""What commands say at their end, and in between: one line each."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from dragoman import Manifest
from tests import small
from tests.small import GOLDEN, slow_but


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: torch.empty(2**50, dtype=torch.uint8), "1125899906842624 bytes"),
        (lambda: np.ones(2**50), "Unable to allocate 8.00 PiB"),
        (lambda: bytearray(2**62), ""),
    ],
)
def test_too_little_memory_is_one_line(dragoman, monkeypatch, ask, said):
    monkeypatch.setattr("dragoman.cli.main.app", ask)
    code, output, messages = dragoman("translate")
    assert (code, output) == (1, "") and messages.count("\n") == 1 and said in messages
    assert messages.startswith("dragoman: error: memory was not enough")


def test_other_errors_are_not_taken_for_too_little_memory(dragoman, monkeypatch):
    monkeypatch.setattr("dragoman.cli.main.app", lambda: torch.ones(3).view(2))
    with pytest.raises(RuntimeError, match="shape"):
        dragoman("translate")


def test_without_torch_its_errors_are_not_asked_for():
    code = "import sys\nfrom dragoman.cli import main as cli\ndef fail(): raise RecursionError('deep')\n"
    code += "cli.app = fail\ntry: cli.main()\nexcept RecursionError: print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout == "False\n", result.stderr


def test_a_warning_is_one_line_whatever_the_name_of_the_file(dragoman, speech_model, tmp_path, write_sound):
    write_sound(tmp_path / "a \n b.wav", 0.5)  # noise
    words = ["translate", speech_model, tmp_path / "a \n b.wav", "--speech-detector", "levels"]
    code, output, messages = dragoman(*words)
    first = f"dragoman: warning: {tmp_path}/a b.wav: no speech from 0.00 to 0.50 s: skipped"
    assert messages.startswith(first) and messages.count("\n") == 2, messages
    assert code == 0 and output == f"{tmp_path}/a   b.wav\t\n"


def test_names_of_files_do_not_divide_the_lines_of_scores(dragoman, tmp_path):
    (tmp_path / "a\nb").write_text("one two three four\n")
    code, output, _ = dragoman("score", tmp_path / "a\nb", tmp_path / "a\nb", "--language", "en", "--metrics", "bleu")
    assert code == 0 and output.startswith(f"{tmp_path}/a b\tbleu\t100.00\t1 line\t") and output.count("\n") == 1


COMMANDS = {
    "translate": [GOLDEN, "text.txt"],
    "translate json": [GOLDEN, "text.txt", "--format", "json", "--n-best", "2"],
    "subtitle": ["speech", "hum.wav", "--keep-silence"],
    "stream": ["speech", "hum.wav", "--speech-detector", "levels"],
    "score": ["text.txt", "text.txt", "--language", "en", "--metrics", "chrf"],
    "evaluate": [GOLDEN, "test.arrow", "--metrics", "chrf"],
    "show": [GOLDEN],
    "recipes": [],
}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full disk here")
@pytest.mark.parametrize("command", slow_but(["recipes"], COMMANDS))
def test_output_on_a_full_disk_is_one_line_that_names_it(speech_model, tmp_path, command):
    times = np.arange(16000) / 16000
    hum = np.sin(2 * np.pi * 150 * times) * (1 + np.sin(2 * np.pi * 4 * times)) / 4
    soundfile.write(tmp_path / "hum.wav", hum, 16000)
    (tmp_path / "text.txt").write_text("one two\n")
    Manifest.write(tmp_path / "test.arrow", [small.row(0, "one two", "zwei eins")])
    words = [str(speech_model) if word == "speech" else str(word) for word in COMMANDS[command]]
    with open("/dev/full", "w") as full:
        process = [sys.executable, "-m", "dragoman", command.split()[0], *words]
        result = subprocess.run(process, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    said = [line for line in result.stderr.splitlines() if "warning" not in line]
    assert result.returncode == 1 and said[-1:] == ["dragoman: error: standard output: No space left on device"], said
    assert "Traceback" not in result.stderr


def test_a_model_that_is_no_language_model_is_named(dragoman):
    code, output, messages = dragoman("translate", GOLDEN, "--lm", GOLDEN, text="one")
    message = f"dragoman: error: {GOLDEN}: not a language model: it reads an input\n"
    assert (code, output, messages) == (2, "", message)
