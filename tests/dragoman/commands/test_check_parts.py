"""Several machines together report what a single one reports, byte for byte, in whatever order they come."""

import itertools

import numpy as np
import pytest
import soundfile

from dragoman.commands import check_parts, inspection
from dragoman.commands.output_parts import OutputParts

HEADER = "id\taudio\tstart\tduration\tsource_text\ttarget_text"
RATE = 16000
#: Of the table below, in pairs of chunks of two rows: parts of four rows, of which the last one is of two splits.
CHUNK, PART = 2, 2


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(inspection, "CHUNK", CHUNK)
    monkeypatch.setattr(check_parts, "PART", PART)


@pytest.fixture
def asked(tmp_path):
    """The command for a corpus whose faults are of rows in different parts, of single rows, and of a whole split."""
    root = tmp_path / "corpus"
    root.mkdir()
    for name, peak in (("good", 0.5), ("silent", 0.0), ("loud", 4.0)):
        sound = np.clip(peak * np.sin(np.arange(2 * RATE) / 7), -1, 1)
        soundfile.write(root / f"{name}.wav", sound, RATE, subtype="PCM_16")
    train = [
        "one\tgood.wav\t0\t1\tA dog runs.\tEin Hund läuft.",
        "two\tsilent.wav\t\t\tAn owl.\tEine Eule.",
        "three\tgone.wav\t\t\tA cat.\tEine Katze.",
        "four\t\t\t\tA cow.\tEine Kuh.",
        "five\tloud.wav\t\t\tA ram.\tEin Widder.",
        "six\tgood.wav\t1\t2\tA bee.\tEine Biene.",
        "one\t\t\t\tTwice.\tZweimal.",
        "eight\t\t\t\tAn ant.\t ",
        "nine\tgood.wav\t0.5\t1\tAn elk.\tEin Elch.",
    ]
    test = ["t1\tgood.wav\t0\t1\tA dog runs.\tEin Hund läuft.", "t2\tgood.wav\t0\t2\tNew.\tNeu."]
    for split, lines in (("train", train), ("test", test)):
        (root / f"{split}.tsv").write_text("\n".join([HEADER, *lines]) + "\n", encoding="utf-8")
    (root / "dev.tsv").write_bytes(b"id\ttranscript\nd1\tNo such column.\n")
    languages = ["--source-language", "en", "--target-language", "de"]
    return ["check", "tsv", "--root", root, *languages, "--workers", 1]


@pytest.fixture
def printed(dragoman, asked):
    """The report of a single machine, which has the findings that the rows above were written for."""
    code, output, _ = dragoman(*asked)
    lines = [line.rpartition("  ") for line in output.splitlines()]
    found = {kind.split("  ")[0]: count for kind, _, count in lines if kind.split()[-1:] in (["error"], ["warning"])}
    counts = {kind: int(count) for kind, count in found.items()}
    expected = {"missing audio": 1, "segment outside its file": 1, "duplicate id": 1, "silent audio": 1}
    expected |= {"broken files": 1, "clipped audio": 1, "text in train and test": 1, "audio in train and test": 1}
    assert code == 1 and counts.items() >= expected.items(), output
    return output


@pytest.mark.parametrize("order", [*itertools.permutations((1, 2, 3))])
def test_machines_share_a_check_and_the_last_one_writes_the_report(dragoman, asked, printed, tmp_path, order):
    out, left = tmp_path / "report.txt", [1, 2, 3]
    for number in order[:2]:
        left.remove(number)
        code, output, _ = dragoman(*asked, "--out", out, "--shard", f"{number}/3")
        waiting = ", ".join(map(str, left))
        assert (code, output) == (0, f"{out}: shard {number}/3 is done; {waiting} of 3 still to be run\n")
        assert not out.exists()
    for said in ("done", "done before"):
        code, output, messages = dragoman(*asked, "--out", out, "--shard", f"{order[2]}/3")
        assert (code, output) == (1, f"{out}: {said}\n") and f"{out}: tsv: " in messages and "errors" in messages
        assert out.read_text(encoding="utf-8") == printed
    assert {place.name for place in tmp_path.iterdir()} == {"corpus", "report.txt", "report.txt.json"}


def test_a_check_that_was_killed_looks_at_what_is_left(dragoman, asked, printed, tmp_path, monkeypatch):
    out, write, looked, examine = tmp_path / "report.txt", OutputParts.write, [], check_parts.examine_segments

    def killed(parts, number, lines):
        if number == 1:
            raise KeyboardInterrupt
        write(parts, number, lines)

    def counted(segments, **options):
        looked.extend(segments)
        return examine(segments, **options)

    monkeypatch.setattr(OutputParts, "write", killed)
    assert dragoman(*asked, "--out", out)[0] != 0 and not out.exists()
    monkeypatch.setattr(OutputParts, "write", write)
    monkeypatch.setattr(check_parts, "examine_segments", counted)
    assert dragoman(*asked, "--out", out)[1] == f"{out}: done\n"
    assert out.read_text(encoding="utf-8") == printed
    rows = printed.splitlines()[0].split()[1]
    assert len(looked) == int(rows) - CHUNK * PART  # each once, but for those of the first part


def test_manifests_are_shared_too(dragoman, asked, tmp_path):
    root, made = asked[3], tmp_path / "made"
    (root / "dev.tsv").unlink()
    assert dragoman("prepare", *asked[1:], "--out", made, "--skip-bad")[0] == 0
    (root / "good.wav").unlink()
    code, printed, _ = dragoman("check", made / "*.arrow")
    assert code == 1 and "missing audio" in printed and "audio in train and test" in printed
    for number in ("2/2", "1/2"):
        shared = ["--out", tmp_path / "report.txt", "--shard", number]
        code, output, _ = dragoman("check", made / "*.arrow", *shared)
    assert (code, output) == (1, f"{tmp_path}/report.txt: done\n")
    assert (tmp_path / "report.txt").read_text(encoding="utf-8") == printed


def test_parts_of_other_texts_or_options_are_not_mixed_in(dragoman, asked, tmp_path):
    out, table = tmp_path / "report.txt", asked[3] / "train.tsv"
    assert dragoman(*asked, "--out", out, "--shard", "1/2")[0] == 0
    code, _, messages = dragoman(*asked, "--out", out, "--shard", "2/2", "--headers-only")
    assert code == 2 and "was begun with headers_only False, not True" in messages
    table.write_text(table.read_text() + "ten\t\t\t\tA yak.\tEin Yak.\n")
    code, _, messages = dragoman(*asked, "--out", out, "--shard", "2/2")
    assert code == 2 and f"--out {out}: was begun with tsv" in messages and not out.exists()


def test_a_text_that_changes_while_it_is_checked_ends_the_check(dragoman, asked, tmp_path, monkeypatch):
    join, table = OutputParts.join, asked[3] / "train.tsv"

    def changed(*given):
        table.write_text(table.read_text() + "ten\t\t\t\tA yak.\tEin Yak.\n")
        return join(*given)

    monkeypatch.setattr(OutputParts, "join", changed)
    code, _, messages = dragoman(*asked, "--out", tmp_path / "report.txt")
    assert code == 2 and "other rows than sound files were looked into for" in messages
    assert not (tmp_path / "report.txt").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["tsv", "--shard", "1/2"], "--shard needs --out"),
        (["tsv", "--root", ".", "--source-language", "en", "--out", ".", "--shard", "1/2"], "is a folder; name a file"),
        (["almanac/mt_low", "--out", "report.txt"], "--out is for the report on a corpus or manifests"),
    ],
)
def test_reports_that_cannot_be_made_are_refused(dragoman, asked, monkeypatch, options, message):
    monkeypatch.chdir(asked[3])
    code, output, messages = dragoman("check", *options)
    assert code == 2 and not output and message in messages, messages
