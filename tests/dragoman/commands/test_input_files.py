"""What commands read of folders and files, and what they say is missing of outputs."""

import json

import numpy as np
import pytest
import soundfile

from dragoman import System
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.systems.timed import TimedText
from tests import small
from tests.small import GOLDEN, slow_but

RATE = 16000
#: Kinds of sound files by ending, as soundfile calls them, and the numbers of their samples.
KINDS = {
    "a.wav": "WAV", "b.WAV": "WAV", "c.flac": "FLAC", "d.aiff": "AIFF", "e.aif": "AIFF", "f.au": "AU", "g.snd": "AU",
    "h.caf": "CAF", "i.w64": "W64", "j.rf64": "RF64", "k.sph": "NIST", "l.voc": "VOC", "m.ogg": "OGG", "n.oga": "OGG",
    "o.opus": "OGG", "p.mp3": "MP3", "q.MP3": "MP3", "r.Wave": "WAV",
}  # fmt: skip


def write(path, kind, seconds=0.5):
    noise = np.random.default_rng(1).normal(0, 0.1, int(seconds * RATE))
    soundfile.write(path, noise, RATE, format=kind, subtype="OPUS" if path.suffix == ".opus" else None)


@pytest.mark.parametrize(
    "command", slow_but([["translate"]], [["translate"], ["translate", "--format", "json"], ["subtitle", "--out"]])
)
def test_a_folder_is_read_whatever_its_sound_is_called(dragoman, speech_model, tmp_path, command):
    folder = tmp_path / "folder"
    (folder / "inside").mkdir(parents=True)
    for name, kind in KINDS.items():
        write(folder / name, kind)
    write(folder / "inside" / "s.wav", "WAV")
    for name in ("notes.txt", "list.txt", "README", "cover.jpg", "inside/t.textgrid"):
        (folder / name).write_text("no sound\n")
    name, *options = command
    options += [tmp_path / "out"] if options == ["--out"] else []
    code, output, messages = dragoman(name, speech_model, folder, *options, "--keep-silence", "--device", "cpu")
    assert code == 0, messages
    wanted = sorted([*(str(folder / name) for name in KINDS), str(folder / "inside" / "s.wav")])
    if name == "subtitle":
        assert sorted(path.stem for path in (tmp_path / "out").iterdir()) == [*"abcdefghijklmnopqrs"]
    elif options:
        assert sorted(json.loads(line)["file"] for line in output.splitlines()) == wanted
    else:
        assert sorted(line.split("\t")[0] for line in output.splitlines()) == wanted
    said = f"dragoman: warning: {folder}: 5 files not read as sound: 2 .txt, 1 "
    [line] = [line for line in messages.splitlines() if "not read" in line]
    assert line.startswith(said) and all(one in line for one in ("1 without ending", "1 .jpg", "1 .textgrid"))


def test_a_folder_without_sound_names_the_endings(dragoman, speech_model, tmp_path):
    (tmp_path / "notes.txt").write_text("no sound\n")
    code, output, messages = dragoman("translate", speech_model, tmp_path, "--device", "cpu")
    assert (code, output) == (1, "") and f"{tmp_path}: holds no sound file (" in messages
    assert all(ending in messages for ending in (".opus", ".caf", ".mp3", ".wav"))


@pytest.mark.parametrize("kind", ["flac", "ogg", "mp3"])
@pytest.mark.parametrize("options", [[], ["--format", "json"]])
def test_neighbours_of_a_file_that_breaks_in_its_middle_are_translated(dragoman, speech_model, tmp_path, kind, options):
    """Its header is right, and the second half of its bytes zero."""
    for name in "abc":
        write(tmp_path / f"{name}.{kind}", kind.upper(), seconds=4)
    content = bytearray((tmp_path / f"b.{kind}").read_bytes())
    half = len(content) // 2
    content[half:] = bytes(len(content) - half)
    (tmp_path / f"b.{kind}").write_bytes(content)
    options = [*options, "--keep-silence", "--device", "cpu"]
    code, output, messages = dragoman("translate", speech_model, tmp_path, *options)
    files = [json.loads(line)["file"] if "--format" in options else line.split("\t")[0] for line in output.splitlines()]
    assert (code, files) == (1, [str(tmp_path / f"{name}.{kind}") for name in "ac"]), messages
    assert f"dragoman: error: {tmp_path}/b.{kind}: " in messages and "Traceback" not in messages
    assert messages.splitlines()[-1] == "dragoman: error: 1 of 3 sound files could not be translated"


@pytest.mark.parametrize("command", ["translate", "subtitle", "stream"])
@pytest.mark.parametrize("name", ["talk.wav", "talk.MP3", "talk.opus", "folder"])
def test_sound_that_a_model_of_text_is_given_is_refused(dragoman, tmp_path, command, name):
    (tmp_path / "folder").mkdir()
    if name != "folder":
        (tmp_path / name).write_bytes(b"ID3")
    code, output, messages = dragoman(command, GOLDEN, tmp_path / name)
    assert (code, output) == (2, "") and messages.count("\n") == 1
    said = {"translate": "reads lines of text", "subtitle": "reads text", "stream": "only a system that reads speech"}
    assert said[command] in messages and (command == "stream" or str(GOLDEN) in messages)


SHORT = ["--maximum-length-ratio", "0", "--maximum-length-extra"]


def test_outputs_that_were_cut_are_named_by_line(dragoman):
    """With one beam nothing shorter is found instead."""
    lines = "one two\n\nthree four\nfive\n"
    code, whole, messages = dragoman("translate", GOLDEN, "--beam", 1, text=lines)
    assert (code, messages) == (0, "") and [bool(text) for text in whole.splitlines()] == [True, False, True, True]
    tokenizer = System.load(GOLDEN).output.tokenizer
    lengths = [len(tokenizer.encode(text)) for text in whole.splitlines()]
    for limit in range(1, max(lengths) + 1):
        code, output, messages = dragoman("translate", GOLDEN, "--beam", 1, *SHORT, limit, text=lines)
        cut = [f"line {n}" for n, length in enumerate(lengths, 1) if length > limit]
        said = f"dragoman: warning: cut off at the maximum length (see --maximum-length-extra): {', '.join(cut)}\n"
        assert code == 0 and messages == (said if cut else ""), (limit, lengths)
        assert (output == whole) == (not cut)
    _, _, messages = dragoman("translate", GOLDEN, *SHORT, 1, text="one two\n" * 12)
    assert messages.endswith("line 9, line 10 and 2 more\n")


def test_outputs_that_were_cut_are_an_alarm_of_evaluate(dragoman, tmp_path):
    texts = [("one two", "zwei eins"), ("five", "fünf"), ("three four", "vier drei")]
    rows = [small.row(number, *pair) for number, pair in enumerate(texts)]
    asked = ["evaluate", GOLDEN, Manifest.write(tmp_path / "test.arrow", rows).path, "--metrics", "chrf"]
    code, _, messages = dragoman(*asked, "--device", "cpu")
    assert code == 0 and "cut off" not in messages
    code, _, messages = dragoman(*asked, "--device", "cpu", *SHORT, 2)
    assert code == 0 and "100.0% of the outputs are cut off at the maximum length, for example line 1: " in messages


def test_sound_whose_output_was_cut_is_named_by_file_or_time(dragoman, speech_model, tmp_path, monkeypatch):
    """The untrained model finds no end of its own accord."""
    write(tmp_path / "a.wav", "WAV")
    options = ["--keep-silence", "--device", "cpu"]
    _, _, messages = dragoman("translate", speech_model, tmp_path / "a.wav", *options, *SHORT, 2)
    assert f"cut off at the maximum length (see --maximum-length-extra): {tmp_path}/a.wav\n" in messages
    segments = [TimedText(n, n + 1.5, {"translation": "x"}, -1.0, cut=n == 2) for n in (0.0, 2.0)]
    monkeypatch.setattr(System, "timed", lambda *_, **options: [segments])
    for command in (["subtitle"], ["translate", "--format", "json"]):
        name, *further = command
        _, _, messages = dragoman(name, speech_model, tmp_path / "a.wav", *further, *options)
        assert f"--maximum-length-extra): {tmp_path}/a.wav, 2.00 to 3.50 s\n" in messages


def test_json_lists_several_hypotheses_of_a_line_and_of_a_file(dragoman, speech_model, tmp_path):
    """Those of --n-best as text, a line each."""
    best = ["--n-best", "3", "--beam", "4", "--device", "cpu"]
    lines = "one two\n\nfive\n"
    code, output, _ = dragoman("translate", GOLDEN, *best, "--format", "json", text=lines)
    found = [json.loads(line) for line in output.splitlines()]
    assert code == 0 and [one["line"] for one in found] == [1, 2, 3]
    assert [len(one["hypotheses"]) for one in found] == [3, 1, 3] and found[0]["hypotheses"][0]["cut"] is False
    _, table, _ = dragoman("translate", GOLDEN, *best, text=lines)
    listed = [(one["line"], h["score"], h["translation"]) for one in found for h in one["hypotheses"]]
    assert table.splitlines() == [f"{line}\t{score:.4f}\t{text}" for line, score, text in listed]
    assert all(score == round(score, 4) for _, score, _ in listed)
    for name in "ab":
        write(tmp_path / f"{name}.wav", "WAV")
    options = [*best, "--keep-silence", "--maximum-length-extra", "4"]
    code, output, _ = dragoman("translate", speech_model, tmp_path, "--format", "json", *options)
    found = [json.loads(line) for line in output.splitlines()]
    assert code == 0 and [one["file"] for one in found] == [f"{tmp_path}/{name}.wav" for name in "ab"]
    _, table, _ = dragoman("translate", speech_model, tmp_path, *options)
    rows = [(one["file"], f"{h['score']:.4f}") for one in found for h in one["hypotheses"]]
    assert len(rows) == 6 and [tuple(line.split("\t")[:2]) for line in table.splitlines()] == rows
