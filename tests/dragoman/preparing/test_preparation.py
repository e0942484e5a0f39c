"""Preparing: parallel equals serial, what was interrupted goes on, what is finished is kept, what changed is redone."""

import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import pytest
import soundfile

from dragoman import DataError, Manifest
from dragoman.commands.inspection import check_corpus
from dragoman.preparing import preparation as module
from dragoman.preparing.preparation import prepare
from dragoman.preparing.report import SplitReport, render
from dragoman.shared.described import Described
from dragoman.shared.preparing.reader import SourceRow
from dragoman.shared.text.lines import Unusable
from tests.small import refuses


class Made(Described):
    """A corpus of the test's own rows; the text file stands for its inputs."""

    name = "made"
    folder = "en-zh"

    def __init__(self, *, root, rows, setting=1):
        self._rows = {split: [dict(row) for row in items] for split, items in rows.items()}
        self._root = root
        self.published = {"train": {"rows": 12345.0, "hours": 1.5}}
        if not (root / "text").exists():
            (root / "text").touch()

    def splits(self):
        return list(self._rows)

    def inputs(self, split):
        return [self._root / "text"]

    def count(self, split):
        return len(self._rows[split])

    def rows(self, split):
        for row in self._rows[split]:
            yield Unusable(row["reason"]) if "reason" in row else dict(row)


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """Eleven training rows (three chunks of four) over two talks, and two test rows of text."""
    monkeypatch.setattr(module, "CHUNK", 4)
    for name, seconds in (("a", 4.0), ("b", 3.0)):
        soundfile.write(tmp_path / f"{name}.wav", np.zeros(int(seconds * 8000)), 8000)
    train = [
        {
            "id": f"r{i}",
            "audio": str(tmp_path / ("a.wav" if i < 6 else "b.wav")),
            "start": 0.25 * (i % 6),
            "duration": None if i == 10 else 0.5 + i / 16,
            "source_text": "two words",
            "source_language": "en",
            "target_text": "四个汉字",
            "target_language": "zh",
            "speaker": f"s{i % 3}",
        }
        for i in range(11)
    ]
    return {"train": train, "test": [{"id": "t1", "source_text": "x"}, {"id": "t2", "source_text": ""}]}


def prepared(root, rows, **how):
    """Prepare rows into the folder "out", in this process unless ``how`` says otherwise."""
    return prepare(Made(root=root, rows=rows), root / "out", **{"workers": 1} | how)


def test_report_and_manifest(tmp_path, rows):
    calls = []
    train, test = prepared(tmp_path, rows, workers=2, progress=lambda done, total: calls.append((done, total)))
    expected = [0.5 + i / 16 for i in range(10)] + [3.0 - 1.0]
    assert train.seconds == pytest.approx(sum(expected)) and train.hours == pytest.approx(sum(expected) / 3600)
    assert (train.rows, train.source_words, train.target_words, train.speakers) == (11, 22, 44, 3)
    assert (test.rows, test.seconds, test.speakers) == (2, 0.0, 0)
    manifest = Manifest.open(tmp_path / "out/en-zh/train.arrow")
    np.testing.assert_allclose(manifest.column("duration"), expected)
    assert manifest.column("id").to_pylist() == [row["id"] for row in rows["train"]]
    assert calls == sorted(calls) and calls[-1] == (13, 13) and (4, 13) in calls
    assert sorted(os.listdir(tmp_path / "out/en-zh")) == ["prepared.json", "test.arrow", "train.arrow"]


def test_parallel_is_serial(tmp_path, rows):
    prints = set()
    for workers in (1, 2, 3):
        prepare(Made(root=tmp_path, rows=rows), tmp_path / str(workers), workers=workers)
        prints.add(Manifest.open(tmp_path / str(workers) / "en-zh/train.arrow").fingerprint)
    assert len(prints) == 1


def test_finished_splits_are_kept(tmp_path, rows, monkeypatch):
    corpus = Made(root=tmp_path, rows=rows)
    first = prepare(corpus, tmp_path / "out", workers=1)
    read = []
    original = Made.rows
    monkeypatch.setattr(Made, "rows", lambda self, split: read.append(split) or original(self, split))
    assert prepare(corpus, tmp_path / "out", workers=1) == first and read == []
    train = tmp_path / "out/en-zh/train.arrow"
    train.write_bytes(train.read_bytes()[:-100])
    assert prepare(corpus, tmp_path / "out", workers=1) == first and read == ["train"]
    train.unlink()
    assert prepare(corpus, tmp_path / "out", workers=1) == first and read == ["train", "train"]
    read.clear()
    prepare(Made(root=tmp_path, rows=rows, setting=2), tmp_path / "out", workers=1)
    assert read == ["train", "test"]
    (tmp_path / "text").write_text("changed")
    read.clear()
    prepare(Made(root=tmp_path, rows=rows, setting=2), tmp_path / "out", workers=1)
    assert read == ["train", "test"]


def test_finished_chunks_are_kept(tmp_path, rows, count_checks):
    """After a stop in the third chunk only that one is looked at again, and the result is as if nothing had been."""
    whole = prepare(Made(root=tmp_path, rows=rows), tmp_path / "whole", workers=1)
    looked = count_checks()
    audio = rows["train"][9]["audio"]
    rows["train"][9]["audio"] = str(tmp_path / "gone.wav")
    refuses(DataError, r"1 of 11 rows cannot be used: row r9: .*gone\.wav: no such file", prepared, tmp_path, rows)
    assert len(looked) == 11 and not (tmp_path / "out/en-zh/train.arrow").exists()
    journal = tmp_path / "out/en-zh/.train.arrow.journal"
    with open(journal, "a") as file:
        file.write("[2, [0.5, 0.")  # a kill in the middle of a line
    looked.clear()
    soundfile.write(tmp_path / "gone.wav", soundfile.read(audio)[0], 8000)
    reports = prepared(tmp_path, rows)
    assert [path for path, _, _ in looked if path] == [str(tmp_path / f"{name}.wav") for name in ("b", "gone", "b")]
    assert not journal.exists()
    assert [report.seconds for report in reports] == [report.seconds for report in whole]


def test_the_journal_of_a_corpus_with_other_settings_is_not_believed(tmp_path, rows, count_checks):
    rows["train"][9]["audio"] = str(tmp_path / "gone.wav")
    for setting in (1, 2):
        looked = count_checks()
        with pytest.raises(DataError):
            prepare(Made(root=tmp_path, rows=rows, setting=setting), tmp_path / "out", workers=1)
        assert len(looked) == 11


def test_interruption(tmp_path, rows, count_checks):
    """Ctrl-C in the middle leaves no half manifest, and what was looked at is known afterwards."""

    def interrupt(done, total):
        if done == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepared(tmp_path, rows, workers=2, progress=interrupt)
    assert os.listdir(tmp_path / "out/en-zh") == [".train.arrow.journal"]
    looked = count_checks()
    prepared(tmp_path, rows)
    assert [segment[0] for segment in looked if segment[0]] == [str(tmp_path / "b.wav")] * 3


KILLED = """
import sys, time
sys.path[:0] = {path!r}
from dragoman.preparing.probing import Pool, check_segments
pool = Pool(2)
assert [found for _, found in pool.check(check_segments, [(0, [({wav!r}, 0.0, None)], None)] * 2)] == [[4.0]] * 2
print(*(process for process in pool._executor._processes), flush=True)
time.sleep(60)
"""


def test_killed(tmp_path, rows):
    """When the process is killed outright, its workers end too; leftovers are swept by the next call."""
    code = KILLED.format(path=sys.path, wav=str(tmp_path / "a.wav"))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    workers = [int(pid) for pid in process.stdout.readline().split()]
    assert len(workers) == 2 and all(alive(pid) for pid in workers)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(alive(pid) for pid in workers)
    (tmp_path / "out/en-zh").mkdir(parents=True)
    (tmp_path / "out/en-zh/.train.arrow.123.tmp").write_bytes(b"half")
    prepared(tmp_path, rows)
    assert sorted(os.listdir(tmp_path / "out/en-zh")) == ["prepared.json", "test.arrow", "train.arrow"]


def alive(pid):
    """Tell whether a process runs; one that ended and waits for its parent to ask does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = pathlib.Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_problems_are_counted_and_some_named(tmp_path, rows):
    """Many bad rows: their number, the first five, one line; test splits never lose a row."""
    for i in (0, 1, 2, 3, 4, 5, 6):
        rows["train"][i]["start"] = 50.0
    rows["train"][7] = {"reason": "list.tsv, line 9: no such clip"}
    with pytest.raises(DataError, match=r"made/en-zh/train: 8 of 11 rows cannot be used: row r0: ") as caught:
        prepared(tmp_path, rows, workers=2)
    message = str(caught.value)
    assert message.count("row r") == 5 and message.endswith("; ...") and "\n" not in message
    (train, _) = prepared(tmp_path, rows, workers=2, skip_bad=True)
    assert (train.rows, train.unusable, len(train.examples)) == (3, 8, 5)
    rows["test"].append({"id": "t3"})
    message = r"test: 1 of 3 rows cannot be used: row t3: neither audio nor text"
    refuses(DataError, message, prepared, tmp_path, rows, workers=2, skip_bad=True)


def test_a_split_without_rows_is_an_error(tmp_path):
    refuses(DataError, "made/en-zh/dev: 0 of 0 rows are left", prepared, tmp_path, {"dev": []})


def test_a_prepared_json_of_something_else_is_named_and_not_overwritten(tmp_path, rows):
    (tmp_path / "out/en-zh").mkdir(parents=True)
    (tmp_path / "out/en-zh/prepared.json").write_text("[]")
    refuses(DataError, r"prepared\.json: not what prepare writes", prepared, tmp_path, rows)


def test_dead_worker(tmp_path, rows, monkeypatch):
    """A process that dies (a sound file can crash a decoder) is an error that names where."""
    monkeypatch.setattr(module, "check_segments", die)
    message = r"a\.wav: a process died while reading this file"
    refuses(DataError, message, prepared, tmp_path, rows, workers=2)


def die(segments, **how):
    os._exit(1)


def test_the_table_shows_what_is_there_beside_published_totals_and_what_was_left_out():
    reports = [
        SplitReport("train", "x", rows=229703, seconds=1440000, source_words=12, published={"rows (v1)": 229703.0}),
        SplitReport("tst", "y", rows=3, seconds=1800, empty=2, unusable=5, examples=["row a: bad", "row b: bad"]),
    ]
    assert render(reports).split("\n") == [
        "split     rows   hours  source words  left out  published rows (v1)",
        "-----  -------  ------  ------------  --------  -------------------",
        "train  229,703  400.00            12         0              229,703",
        "tst          3    0.50             0         7                    -",
        "tst: left out 7: row a: bad; row b: bad; and 5 more",
    ]
    kept = json.loads(json.dumps([report.to_json() for report in reports]))
    assert [SplitReport.from_json(report) for report in kept] == reports


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda done: done.update(splits=[1]), "cannot convert dictionary update sequence"),
        (lambda done: done["splits"].update(train=5), "'int' object is not iterable"),
        (lambda done: done["splits"]["train"].pop("manifest"), "'manifest' is missing"),
        (lambda done: done["splits"]["train"]["report"].update(rows="many"), "rows is 'many'"),
        (lambda done: done["splits"]["train"]["report"].update(columns=1), "unexpected keyword argument 'columns'"),
    ],
)
def test_a_record_of_something_else_is_named(tmp_path, rows, spoil, message):
    prepared(tmp_path, rows)
    path = tmp_path / "out" / "en-zh" / "prepared.json"
    done = json.loads(path.read_text())
    spoil(done)
    path.write_text(json.dumps(done))
    refuses(
        DataError, rf"prepared\.json: not what prepare writes \(.*{message}.*\); delete it", prepared, tmp_path, rows
    )


@pytest.mark.parametrize("entry", ["5", "[0]", '[0, ["text"]]', "[0, [1.0]]", "[" * 5000, "[0, [1e999, 1, 1, 1]", "{}"])
def test_a_journal_of_something_else_is_not_believed(tmp_path, rows, entry):
    """Its rows are examined again, and the manifest is as without it."""
    corpus = Made(root=tmp_path, rows=rows)
    prepare(corpus, tmp_path / "single", workers=1)
    folder = tmp_path / "out" / "en-zh"
    folder.mkdir(parents=True)
    fingerprint = module.Split(corpus, "train", folder, module.Pool(1), module.Allowed(False, 0.05)).fingerprint
    (folder / ".train.arrow.journal").write_text(json.dumps({"fingerprint": fingerprint}) + f"\n{entry}\n")
    prepare(corpus, tmp_path / "out", workers=1)
    assert (folder / "train.arrow").read_bytes() == (tmp_path / "single" / "en-zh" / "train.arrow").read_bytes()


def test_segments_past_the_end_are_cut_within_a_tolerance(tmp_path):
    """Segments of a second that run 0.06 and 0.3 s past the end of a recording of 3 s, in a test split."""
    soundfile.write(tmp_path / "c.wav", np.ones(24000) * 0.1, 8000)
    one = {"id": "r0", "audio": str(tmp_path / "c.wav"), "start": 2.06, "duration": 1.0}
    late = [one, one | {"id": "r1", "start": 2.3}]
    first, both = ({"test": late[:1]}, {"test": late})
    message = r"2\.060 to 3\.060 s .* by 0\.060 s; --end-tolerance 0\.06 cuts it there"
    refuses(DataError, message, prepared, tmp_path, first)
    (report,) = prepared(tmp_path, first, end_tolerance=0.06)
    assert report.clipped == 1 and report.seconds == pytest.approx(0.94) and "cut at the end" in render([report])
    message = r"1 of 2 rows cannot be used: row r1: .*--end-tolerance 0\.3 cuts"
    refuses(DataError, message, prepared, tmp_path, both, end_tolerance=0.29)
    (report,) = prepared(tmp_path, both, workers=2, end_tolerance=0.3)
    assert report.clipped == 2
    np.testing.assert_allclose(Manifest.open(report.path).column("duration"), [0.94, 0.7])
    behind = {"dev": [late[0] | {"start": 3.0}]}
    refuses(DataError, "nothing at 3 s", prepared, tmp_path, behind, end_tolerance=9)
    # another tolerance, so it is prepared anew
    refuses(DataError, r"by 0\.060 s", prepared, tmp_path, first, end_tolerance=0)


def test_ids_are_compared_where_lines_have_the_same_number(tmp_path):
    lines = [SourceRow({"id": "x", "source_text": "a"}, file=tmp_path / name, line=1) for name in ("a", "b")]
    corpus = Made(root=tmp_path, rows={"train": []})
    corpus.rows = lambda split: iter(lines)
    refuses(DataError, "id 'x' is already used in line 1", prepare, corpus, tmp_path / "out", workers=1)


def test_a_pipe_as_sound_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "p.wav")
    rows = {"train": [{"id": "r", "audio": str(tmp_path / "p.wav")}]}
    refuses(DataError, r"p\.wav: a named pipe, not a sound file", prepared, tmp_path, rows)


@pytest.mark.parametrize("kind", ["flac", "ogg", "mp3"])
def test_sound_that_fails_in_decoding_is_found_behind_a_header_that_is_right(tmp_path, kind):
    noise = np.random.default_rng(1).normal(0, 0.1, 80_000)
    for name in ("good", "bad"):
        soundfile.write(tmp_path / f"{name}.{kind}", noise, 16000)
    content = bytearray((tmp_path / f"bad.{kind}").read_bytes())
    half = len(content) // 2
    content[half:] = bytes(len(content) - half)
    (tmp_path / f"bad.{kind}").write_bytes(content)
    rows = {"train": [{"id": name, "audio": str(tmp_path / f"{name}.{kind}")} for name in ("good", "bad")]}
    refuses(DataError, rf"row bad: .*bad\.{kind}: ", prepared, tmp_path, rows)
    (report,) = prepared(tmp_path, rows, skip_bad=True)
    assert (report.rows, report.unusable) == (1, 1)
    found = check_corpus(Made(root=tmp_path, rows=rows), workers=1).findings
    assert found.counts["unreadable audio"] == 1 and f"bad.{kind}" in found.examples["unreadable audio"][0]
