"""Several machines together write what a single one writes, byte for byte, in whatever order they come."""

import itertools
import multiprocessing
import os
import re

import numpy as np
import pytest
import soundfile

from dragoman import DataError, Manifest, UsageError
from dragoman.commands.prepare_shard import prepare_shard
from dragoman.commands.shard_numbers import Waiting, read_shard
from dragoman.preparing import preparation as module
from dragoman.preparing.preparation import Allowed, prepare, prepare_locked
from dragoman.st.corpora.tsv import Tsv
from tests.small import refusal, refuses


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """Eleven clips for training (three chunks of four) and two for testing."""
    monkeypatch.setattr(module, "CHUNK", 4)
    for split, count in (("train", 11), ("test", 2)):
        lines = []
        for i in range(count):
            name = f"{split}{i}.flac"
            soundfile.write(tmp_path / name, np.random.default_rng(i).uniform(-0.5, 0.5, 1600 + 160 * i), 16000)
            lines.append(f"{split}-{i}\t{name}\tWords {i}.")
        (tmp_path / f"{split}.tsv").write_text("\n".join(["id\taudio\tsource_text", *lines]) + "\n")
    return Tsv(root=tmp_path, source_language="en")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".arrow", ".tsv")}


@pytest.mark.parametrize("order", list(itertools.permutations((1, 2, 3))))
def test_shards_in_any_order_are_a_single_run(corpus, tmp_path, order):
    single = prepare(corpus, tmp_path / "single", workers=1)
    first, second, third = order
    out = tmp_path / "shards"
    assert prepare_shard(corpus, out, shard=(first, 3), workers=1) == Waiting(sorted((second, third)))
    assert prepare_shard(corpus, out, shard=(second, 3), workers=1) == Waiting([third])
    assert not list(out.glob("*.arrow"))
    reports = prepare_shard(corpus, out, shard=(third, 3), workers=1)
    assert [report.rows for report in reports] == [11, 2]
    assert contents(out) == contents(tmp_path / "single")
    assert sorted(os.listdir(out)) == ["prepared.json", "test.arrow", "train.arrow"]
    assert [report.seconds for report in reports] == [report.seconds for report in single]
    assert prepare_shard(corpus, out, shard=(first, 3), workers=1) == reports


def test_every_file_is_looked_into_once(corpus, tmp_path, count_checks):
    looked = count_checks()
    shares = []
    for number in (1, 2):
        prepare_shard(corpus, tmp_path / "out", shard=(number, 2), workers=1)
        shares.append(len(looked))
    assert shares == [4 + 3 + 2, 13] and len(set(looked)) == 13
    prepare_shard(corpus, tmp_path / "other", shard=(2, 3), workers=1)
    prepare(corpus, tmp_path / "other", workers=1)  # takes what is there
    assert len(looked) == 13 + 13 and contents(tmp_path / "other") == contents(tmp_path / "out")


def test_machines_at_the_same_time(corpus, tmp_path):
    """Four processes at once, two with the same number: one of them writes, and nothing is left behind."""
    prepare(corpus, tmp_path / "single", workers=1)
    context = multiprocessing.get_context("fork")
    processes = [
        context.Process(target=prepare_shard, args=(corpus, tmp_path / "out"), kwargs={"shard": (n, 3), "workers": 1})
        for n in (1, 2, 3, 3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    assert contents(tmp_path / "out") == contents(tmp_path / "single")
    assert sorted(os.listdir(tmp_path / "out")) == ["prepared.json", "test.arrow", "train.arrow"]


def test_errors_stop_the_shard_that_finds_them(corpus, tmp_path):
    """The fifth row is in the second chunk; once it is mended, its shard alone has to be run again."""
    clip = tmp_path / "train4.flac"
    whole = clip.read_bytes()
    clip.unlink()
    out = tmp_path / "out"
    assert prepare_shard(corpus, out, shard=(1, 2), workers=1) == Waiting([2])
    message = r"1 of 4 rows cannot be used: .*train\.tsv, line 6: row train-4: .*train4\.flac"
    refuses(DataError, message, prepare_shard, corpus, out, shard=(2, 2), workers=1)
    assert not list(out.glob("*.arrow"))
    prepare(corpus, tmp_path / "single", workers=1, skip_bad=True)
    for number in (2, 1):
        prepare_shard(corpus, tmp_path / "skipped", shard=(number, 2), workers=1, skip_bad=True)
    assert contents(tmp_path / "skipped") == contents(tmp_path / "single")
    assert "train.skipped.tsv" in contents(tmp_path / "skipped")
    clip.write_bytes(whole)
    assert len(prepare_shard(corpus, out, shard=(2, 2), workers=1)) == 2
    assert len(Manifest.open(out / "train.arrow")) == 11


def test_a_changed_corpus_needs_all_shards_again(corpus, tmp_path):
    prepare_shard(corpus, tmp_path / "out", shard=(1, 2), workers=1)
    table = tmp_path / "train.tsv"
    table.write_text(table.read_text() + "more\ttrain0.flac\tMore.\n")
    assert prepare_shard(corpus, tmp_path / "out", shard=(2, 2), workers=1) == Waiting([1])


def test_the_journal_of_a_machine_that_came_too_late_is_deleted(corpus, tmp_path):
    """It saw no finished split, and the others' journals were gone already: it looked at its share once more."""
    prepare(corpus, tmp_path / "out", workers=1)
    (tmp_path / "out" / ".train.arrow.3-of-3.part").write_text("late")
    prepare_locked(corpus, tmp_path / "out", Allowed(False, 0.05), workers=1, progress=None)
    assert sorted(os.listdir(tmp_path / "out")) == ["prepared.json", "test.arrow", "train.arrow"]


@pytest.mark.parametrize(
    "text", ["", "1", "0/2", "3/2", "a/b", "1/2/3", "-1/2", "1/", "²/3", "1/10001", f"1/{10**14}", f"1/{'9' * 5000}"]
)
def test_a_shard_is_a_number_of_how_many(text):
    assert read_shard("2/8") == (2, 8) and read_shard("002/010000") == (2, 10_000)
    message = refusal(UsageError, read_shard, text)
    assert re.match("a shard is written i/n.*n at most 10,000, not", message) and len(message) < 200


def test_the_progress_of_a_shard_is_of_its_share(corpus, tmp_path):
    told = []
    prepare_shard(corpus, tmp_path / "out", shard=(1, 3), workers=1, progress=lambda *given: told.append(given))
    # of 13 rows; the first of three chunks for training, and the one chunk for testing
    assert [given for given in told if given[1] == 4] == [(4, 4), (6, 4)]
    waiting = prepare_shard(corpus, tmp_path / "other", shard=(3, 10_000), workers=1)
    assert waiting.shards == [1, 2, *range(4, 10_001)]
    assert str(waiting) == "1, 2, 4, 5, 6 and 9,994 more" and str(Waiting([1, 2])) == "1, 2"
