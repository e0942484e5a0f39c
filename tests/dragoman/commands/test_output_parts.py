"""Lines that are translated into a file: in parts, by several machines, and on after a kill."""

import json
import os
from pathlib import Path

import pytest

from dragoman.commands import line_translation
from dragoman.commands.output_parts import OutputParts
from tests.small import GOLDEN

LINES = ["one two", "", "three four", "two one", "four", "three", "one"]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(line_translation, "LINES", 2)


@pytest.fixture
def source(tmp_path):
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return tmp_path / "in.txt"


@pytest.fixture
def printed(dragoman, source):
    code, output, _ = dragoman("translate", GOLDEN, source)
    assert code == 0 and len(output.splitlines()) == len(LINES) and output.startswith("zwei eins\n")
    return output


def test_a_file_holds_what_would_be_printed_and_is_made_once(dragoman, source, printed, tmp_path):
    out = tmp_path / "out.txt"
    assert dragoman("translate", GOLDEN, source, "--out", out)[:2] == (0, f"{out}: done\n")
    assert out.read_text(encoding="utf-8") == printed
    assert {place.name for place in tmp_path.iterdir()} == {"in.txt", "out.txt", "out.txt.json"}
    made_by = json.loads((tmp_path / "out.txt.json").read_text())
    assert made_by["model"].startswith(str(GOLDEN)) and str(source) in made_by["inputs"]
    out.write_text("kept")
    assert dragoman("translate", GOLDEN, source, "--out", out)[:2] == (0, f"{out}: done before\n")
    assert out.read_text() == "kept"


def test_machines_share_a_file_and_the_last_one_puts_it_together(dragoman, source, printed, tmp_path):
    out = tmp_path / "out.txt"
    for number, said in ((3, "shard 3/3 is done; 1, 2 of 3"), (1, "shard 1/3 is done; 2 of 3")):
        code, output, _ = dragoman("translate", GOLDEN, source, "--out", out, "--shard", f"{number}/3")
        assert (code, output) == (0, f"{out}: {said} still to be run\n") and not out.exists()
    assert dragoman("translate", GOLDEN, source, "--out", out, "--shard", "2/3")[1] == f"{out}: done\n"
    assert out.read_text(encoding="utf-8") == printed


def test_a_command_that_was_killed_translates_what_is_left(dragoman, source, printed, tmp_path, monkeypatch):
    out, write, written = tmp_path / "out.txt", OutputParts.write, []

    def killed(parts, number, lines, lacking):
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(number)
        write(parts, number, lines, lacking)

    monkeypatch.setattr(OutputParts, "write", killed)
    assert dragoman("translate", GOLDEN, source, "--out", out)[0] != 0 and not out.exists()
    monkeypatch.setattr(OutputParts, "write", lambda *given: written.append(given[1]) or write(*given))
    assert dragoman("translate", GOLDEN, source, "--out", out)[0] == 0
    assert written == [0, 1, 2, 3] and out.read_text(encoding="utf-8") == printed


def test_parts_of_something_else_are_not_mixed_in(dragoman, source, tmp_path):
    out = tmp_path / "out.txt"
    asked = ["translate", GOLDEN, source, "--out", out, "--shard", "1/2"]
    assert dragoman(*asked)[0] == 0
    code, _, messages = dragoman(*asked, "--beam", 2)
    assert code == 2 and f"--out {out}: was begun with beam None, not 2; delete {out}.parts" in messages
    source.write_text("four\n" * 9)
    code, _, messages = dragoman(*asked)
    assert code == 2 and f"was begun with inputs {source} (" in messages
    code, _, messages = dragoman("translate", GOLDEN, source, "--out", source)
    assert code == 2 and f"--out {source}: is there already" in messages and source.read_text() == "four\n" * 9


def test_of_two_that_begin_together_one_is_refused(dragoman, source, tmp_path, monkeypatch):
    out, write = tmp_path / "out.txt", OutputParts.write
    asked = ["translate", GOLDEN, source, "--out", out, "--shard"]

    def late(*given):
        monkeypatch.setattr(OutputParts, "write", write)
        assert dragoman(*asked, "2/2", "--beam", 2)[0] == 0
        write(*given)

    monkeypatch.setattr(OutputParts, "write", late)
    code, _, messages = dragoman(*asked, "1/2")
    assert code == 2 and "was begun with beam 2, not None" in messages
    assert [place.name for place in sorted((tmp_path / "out.txt.parts").glob("0*"))] == ["00000001", "00000003"]


def test_whoever_comes_late_with_a_part_leaves_a_file_that_is_done(dragoman, source, printed, tmp_path, monkeypatch):
    out, write = tmp_path / "out.txt", OutputParts.write

    def late(*given):
        monkeypatch.setattr(OutputParts, "write", write)
        assert dragoman("translate", GOLDEN, source, "--out", out)[0] == 0
        write(*given)

    monkeypatch.setattr(OutputParts, "write", late)
    assert dragoman("translate", GOLDEN, source, "--out", out, "--shard", "1/2")[:2] == (0, f"{out}: done\n")
    assert {place.name for place in tmp_path.iterdir()} == {"in.txt", "out.txt", "out.txt.json"}
    assert out.read_text(encoding="utf-8") == printed


def test_half_a_file_that_a_kill_has_left_is_cleared_away(dragoman, source, tmp_path):
    left, others = tmp_path / ".out.txt.1.tmp", tmp_path / ".out.txt.gz.1.tmp"
    left.touch(), others.touch()
    assert dragoman("translate", GOLDEN, source, "--out", tmp_path / "out.txt")[0] == 0
    assert not left.exists() and others.exists()


def test_a_place_counts_by_what_is_in_it_however_it_is_named(dragoman, source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source.rename(os.fsdecode(b"caf\xe9.txt"))
    for number, name in enumerate((os.fsdecode(b"caf\xe9.txt"), tmp_path / os.fsdecode(b"caf\xe9.txt")), start=1):
        code, _, messages = dragoman("translate", GOLDEN, name, "--out", "out.txt", "--shard", f"{number}/2")
        assert code == 0, messages
    assert f"{tmp_path}/caf\\udce9.txt (" in json.loads(Path("out.txt.json").read_text())["inputs"]


def test_what_cannot_be_read_twice_or_replaced_is_refused(dragoman, source, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for asked in ([pipe, "--out", tmp_path / "out.txt"], [source, "--out", pipe]):
        code, _, messages = dragoman("translate", GOLDEN, *asked)
        assert code == 1 and f"{pipe}: a named pipe, not a file" in messages
    assert pipe.is_fifo() and {place.name for place in tmp_path.iterdir()} == {"in.txt", "pipe"}


def test_a_file_in_the_place_of_the_note_is_kept(dragoman, source, tmp_path):
    note = tmp_path / "out.txt.json"
    note.write_text("mine")
    code, _, messages = dragoman("translate", GOLDEN, source, "--out", tmp_path / "out.txt")
    assert code == 2 and f"{note}, which is to say what made it, is there already" in messages
    assert note.read_text() == "mine" and len([*tmp_path.iterdir()]) == 2


def test_sound_that_was_not_read_is_told_every_time(dragoman, speech_model, tmp_path, write_sound, monkeypatch):
    monkeypatch.setattr(line_translation, "SOUNDS", 1)
    sounds, out = tmp_path / "talks", tmp_path / "out.txt"
    sounds.mkdir()
    broken = sounds / "a.wav"
    broken.write_bytes(b"RIFF, and no more")
    write_sound(sounds / "b.wav")
    asked = ["translate", speech_model, sounds, "--out", out, "--shard"]
    code, _, messages = dragoman(*asked, "1/2")
    assert code == 1 and messages.endswith("1 of 1 sound file could not be translated\n"), messages
    for _ in range(2):
        code, output, messages = dragoman(*asked, "2/2")
        assert code == 1 and output.startswith(f"{out}: done")
        assert f"{out}: lacks 1 sound file that could not be translated: not_translated in {out}.json" in messages
    assert [line.split("\t")[0] for line in out.read_text().splitlines()] == [str(sounds / "b.wav")]
    assert json.loads((tmp_path / "out.txt.json").read_text())["not_translated"] == [str(broken)]


def test_a_sound_file_that_was_changed_is_noticed_though_its_size_is_the_same(
    dragoman, speech_model, tmp_path, write_sound, monkeypatch
):
    monkeypatch.setattr(line_translation, "SOUNDS", 1)
    out, sounds = tmp_path / "out.txt", [tmp_path / "a.wav", tmp_path / "b.wav"]
    for sound in sounds:
        write_sound(sound)
    asked = ["translate", speech_model, *sounds, "--out", out]
    assert dragoman(*asked, "--shard", "1/2")[0] == 0
    content, status = bytearray(sounds[1].read_bytes()), sounds[1].stat()
    content[-1] ^= 1
    sounds[1].write_bytes(content)
    os.utime(sounds[1], ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    code, _, messages = dragoman(*asked, "--shard", "2/2")
    assert code == 2 and f"--out {out}: was begun with inputs 2 files (" in messages and not out.exists()
    os.utime(sounds[1], ns=(status.st_atime_ns, status.st_mtime_ns))
    assert dragoman(*asked, "--shard", "2/2")[:2] == (0, f"{out}: done\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["in.txt", "--shard", "1/2"], "--shard needs --out"),
        (["in.txt", "--out", "out.txt", "--shard", "3/2"], "a shard is written i/n"),
        (["none.txt", "--out", "out.txt"], "none.txt: cannot be read (No such file or directory)"),
        (["--out", "out.txt"], "--out needs input files: standard input cannot be read again"),
        (["in.txt", "--out", "."], "is a folder; name a file"),
        (["page.md", "--out", "made", "--shard", "1/2"], "--shard divides lines"),
        (["in.txt", "--documents", "--out", "out.txt"], "--documents prints"),
    ],
)
def test_files_that_cannot_be_made_are_refused(dragoman, source, monkeypatch, options, message):
    monkeypatch.chdir(source.parent)
    Path("page.md").write_text("one\n")
    code, output, messages = dragoman("translate", GOLDEN, *options, text="one\n")
    assert code in (1, 2) and not output and message in messages, messages
    assert {place.name for place in source.parent.iterdir()} == {"in.txt", "page.md"}
