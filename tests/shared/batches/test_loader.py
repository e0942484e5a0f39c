"""The loader on real files: the same batches however many workers, resumed anywhere; errors that name their row."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from dragoman import DataError, Manifest, UsageError
from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.loader import Loader, collate
from dragoman.shared.batches.plan import split
from dragoman.shared.batches.randomness import generator
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.batches.stream import Budget, Stream
from dragoman.shared.described import Described
from dragoman.shared.text.tokenizer import SentencePieceTokenizer
from tests import small
from tests.conftest import IMPORT_PATH
from tests.small import refuses, slow_but


class Noisy(Described):
    """A field that is nothing but its random numbers."""

    unit, padding, overhead = "tokens", -1.0, 0

    def __call__(self, row: dict, rng: np.random.Generator) -> torch.Tensor:
        return torch.from_numpy(rng.integers(0, 1 << 30, size=3))

    def length(self, row: dict) -> int:
        return 3

    def lengths(self, rows: Manifest, folder: Path | None = None) -> np.ndarray:
        return np.full(len(rows), 3)

    def evaluating(self) -> Noisy:
        return self


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    rng = np.random.default_rng(5)
    sound = (0.1 * rng.standard_normal(16000 * 40)).astype(np.float32)
    soundfile.write(folder / "talk.wav", sound, 16000)
    soundfile.write(folder / "talk.flac", sound[:640000:2], 8000)
    words = "yes no perhaps seven nine hello world".split()
    rows = []
    for i in range(60):
        text = " ".join(rng.choice(words, rng.integers(1, 9)))
        rows.append(
            small.row(
                f"r{i}", text, text.upper(), target_language=["de", "fr"][i % 2],
                audio=str(folder / ("talk.wav" if i % 3 else "talk.flac")), start=float(rng.uniform(0, 30)),
                duration=float(rng.uniform(0.3, 3)),
            )
        )  # fmt: skip
    Manifest.write(folder / "train.arrow", rows)
    return folder


@pytest.fixture(scope="module")
def tokenizer(corpus: Path) -> SentencePieceTokenizer:
    texts = [row["source_text"] + " " + row["target_text"] for row in Manifest.open(corpus / "train.arrow")]
    return small.tokenizer(texts, ["de", "fr", "en"], kind="bpe", size=320)


def make_streams(corpus: Path, tokenizer: SentencePieceTokenizer) -> list[Stream]:
    train = [str(corpus / "train.arrow")]
    speech = {
        "speech": SpeechField(speeds=[0.9, 1.0, 1.1]),
        "target": TextField(column="target_text", tokenizer=tokenizer),
        "noise": Noisy(),
    }
    text = {"source": TextField(column="source_text", tokenizer=tokenizer), "target": speech["target"]}
    return [
        Stream(name="st", manifests=train, fields=speech, budget=Budget(seconds=12), group_by="target_language"),
        Stream(name="mt", manifests=train, fields=text, budget=Budget(tokens=60), weight=0.5),  # type: ignore[arg-type]
    ]


def plain(batches: Iterator[Batch]) -> list[tuple]:
    """Batches as comparable data, bit by bit."""
    return [
        (
            batch.stream,
            batch.group,
            tuple(batch.ids),
            {n: (p.values.numpy().tobytes(), p.values.shape, p.lengths.tolist()) for n, p in batch.fields.items()},
            batch.languages,
        )
        for batch in batches
    ]


def test_the_memory_of_a_batch_is_about_that_of_its_tensors(corpus, tokenizer):
    loader = Loader(streams=make_streams(corpus, tokenizer), seed=7)
    sizes = [
        sum(padded.values.numel() * padded.values.element_size() for padded in batch.fields.values())
        for batch in loader.epoch(0)
    ]
    mean = sum(sizes) / len(sizes)
    assert mean < loader.mean_bytes() < 1.3 * mean + 4096


@pytest.fixture(scope="module")
def expected(corpus: Path, tokenizer: SentencePieceTokenizer) -> list[list[tuple]]:
    loader = Loader(streams=make_streams(corpus, tokenizer), seed=7)
    return [plain(loader.epoch(number)) for number in (0, 1)]


@pytest.mark.parametrize("workers", [1, 2])
def test_the_number_of_workers_changes_nothing(corpus, tokenizer, expected, workers) -> None:
    loader = Loader(streams=make_streams(corpus, tokenizer), seed=7, workers=workers)
    assert loader.length(0) == len(expected[0])
    abandoned = loader.epoch(1)
    next(abandoned)  # an epoch may be left in the middle
    abandoned.close()
    assert [plain(loader.epoch(number)) for number in (0, 1)] == expected
    for start in (1, 5, len(expected[1]) - 1, len(expected[1])):
        assert plain(loader.epoch(1, start=start)) == expected[1][start:]


@pytest.mark.parametrize(("world", "start"), [(1, 0), (2, 0), (2, 2), (4, 1)])
def test_fewer_processes_share_the_batches_that_were_planned_for_four(corpus, tokenizer, world, start) -> None:
    streams = make_streams(corpus, tokenizer)
    four = [plain(Loader(streams=streams, seed=7, rank=rank, world=4).epoch(1)) for rank in range(4)]
    steps = [list(batches) for batches in zip(*four, strict=True)][start:]
    assert len(steps) > 1
    for rank in range(world):
        loader = Loader(streams=streams, seed=7, rank=rank, world=world, planned=4)
        assert plain(loader.epoch(1, start=start)) == [batch for step in steps for batch in step[rank::world]]


@pytest.mark.parametrize(
    ("planned", "world", "start", "tokens"), [(2, 4, 0, 99), (1, 2, 1, 99), (3, 2, 0, 99), (2, 7, 0, 30), (4, 3, 0, 30)]
)
def test_other_numbers_of_processes_share_the_rows_of_each_step(corpus, tokenizer, planned, world, start, tokens):
    """Each row stands once in a part of its own batch; all have equally many parts, as few as there can be."""
    streams = make_streams(corpus, tokenizer)[1:]
    streams[0].budget = Budget(tokens=tokens)  # of 30, one or two rows
    whole = [list(Loader(streams=streams, seed=7, rank=rank, world=planned).epoch(1)) for rank in range(planned)]
    loaders = [Loader(streams=streams, seed=7, rank=rank, world=world, planned=planned) for rank in range(world)]
    steps = [*zip(*whole, strict=True)][start:]
    cut = [*zip(*(loader.steps(1, start=start) for loader in loaders), strict=True)]
    assert len(steps) == len(cut) > 3
    idle = 0
    for batches, shares in zip(steps, cut, strict=True):
        rows = sum(map(len, batches))
        parts = [batch for share in shares for batch in share]
        busy = [batch for batch in parts if not batch.idle]
        assert {len(share) for share in shares} == {-(-planned // world)}
        assert len(busy) == min(len(parts), rows)
        assert sorted(id for batch in busy for id in batch.ids) == sorted(id for batch in batches for id in batch.ids)
        for part in parts:
            [own] = [batch for batch in batches if {*part.ids} <= {*batch.ids}]
            assert not part.idle or len(part) == 1
            for row, id in enumerate(part.ids):
                for name, padded in part.fields.items():
                    theirs = own.fields[name].rows()[own.ids.index(id)]
                    assert torch.equal(padded.rows()[row], theirs)
        idle += len(parts) - len(busy)
    assert (idle > 0) == (tokens == 30)


def test_of_batches_that_are_cut_those_that_take_the_most_are_cut_first() -> None:
    """Two rows that take half of a budget each are as much as four that take a quarter."""
    bounds = np.array([0, 4, 6, 7])
    assert split(bounds, 4, np.array([0.25] * 4 + [0.5, 0.51] + [1.0])).tolist() == [0, 4, 5, 6, 7]  # type: ignore
    assert split(bounds, 4, np.array([0.25] * 4 + [0.5, 0.49] + [1.0])).tolist() == [0, 2, 4, 6, 7]  # type: ignore


@pytest.mark.slow
def test_spawned_workers(corpus: Path, tokenizer: SentencePieceTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    def batches(workers: int) -> list[tuple]:
        streams = make_streams(corpus, tokenizer)
        del streams[0].fields["noise"]  # spawned processes cannot import this file
        return plain(Loader(streams=streams, seed=7, workers=workers).epoch(0))

    monkeypatch.setattr("dragoman.shared.batches.workers.START_METHOD", "spawn")
    assert batches(1) == batches(0)


def test_threads_and_torch_seeds_change_nothing(corpus, tokenizer, expected) -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    try:
        torch.set_num_threads(2)
        loader = Loader(streams=make_streams(corpus, tokenizer), seed=7)
        assert plain(loader.epoch(0)) == expected[0]
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(torch.get_rng_state(), state)  # the model's own random numbers are left alone


class Threads(Noisy):
    """A field that is the number of threads which compute it."""

    def __call__(self, row: dict, rng: np.random.Generator) -> torch.Tensor:
        return torch.tensor([torch.get_num_threads()])


@pytest.mark.parametrize("workers", [0, 1])
def test_fields_are_computed_by_one_thread_wherever_that_is(corpus: Path, workers: int) -> None:
    """The last bit of a resampled waveform depends on their number."""
    fields: dict = {"threads": Threads()}
    stream = Stream(name="s", manifests=[str(corpus / "train.arrow")], fields=fields, budget=Budget(rows=20))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        for batch in Loader(streams=[stream], seed=1, workers=workers).epoch(0):
            assert set(batch["threads"].values.flatten().tolist()) == {1}
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_batches_hold_what_their_rows_say(corpus: Path, tokenizer: SentencePieceTokenizer) -> None:
    rows = {row["id"]: row for row in Manifest.open(corpus / "train.arrow")}
    loader = Loader(streams=make_streams(corpus, tokenizer), seed=7)
    seen, noise = [], set()
    for batch in loader.epoch(0):
        expected_target = [
            [tokenizer.id(f"<{rows[i]['target_language']}>"), *tokenizer.encode(rows[i]["target_text"]), tokenizer.eos]
            for i in batch.ids
        ]
        assert [row.tolist() for row in batch["target"].rows()] == expected_target
        longest = max(map(len, expected_target))
        values = [ids + [tokenizer.pad] * (longest - len(ids)) for ids in expected_target]
        assert batch["target"].values.tolist() == values
        assert batch.languages == {
            "source": ["en"] * len(batch),
            "target": [rows[i]["target_language"] for i in batch.ids],
        }
        if batch.stream == "st":
            seen += batch.ids
            assert set(batch.languages["target"]) == {batch.group}
            assert batch["speech"].values.shape[0] * batch["speech"].values.shape[1] <= 12 * 16000
            noise |= {tuple(row.tolist()) for row in batch["noise"].rows()}
            for i, waveform in zip(batch.ids, batch["speech"].rows(), strict=True):
                ratio = rows[i]["duration"] * 16000 / len(waveform)
                assert min(abs(ratio - speed) for speed in (0.9, 1.0, 1.1)) < 1e-3
        else:
            assert batch.group is None and "speech" not in batch
            assert max(p.values.numel() for p in batch.fields.values()) <= 60
    assert sorted(seen) == sorted(rows) and len(noise) == len(rows)  # each row has its own random numbers


def test_other_seeds_and_epochs_give_other_noise(corpus: Path, tokenizer: SentencePieceTokenizer) -> None:
    def noise(seed: int, epoch: int) -> dict[str, list]:
        found = {}
        for batch in Loader(streams=make_streams(corpus, tokenizer)[:1], seed=seed).epoch(epoch):
            found |= dict(zip(batch.ids, batch["noise"].values.tolist(), strict=True))
        return found

    first = noise(1, 0)
    assert noise(1, 0) == first
    for other in (noise(1, 1), noise(2, 0)):
        assert not any(other[i] == first[i] for i in first)


def test_generators_are_the_same_on_every_machine() -> None:
    # the first 16 bytes of BLAKE2b of the key as text, little-endian, seed numpy's PCG64
    assert generator(1, "a").integers(1 << 30, size=3).tolist() == [338057058, 1047440708, 153645430]
    assert generator(1, "a").integers(9) != generator("1", "a").random()


def test_repeated_rows_have_different_noise(corpus: Path, tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    rows = list(Manifest.open(corpus / "train.arrow"))
    paths = [str(Manifest.write(tmp_path / f"{n}.arrow", rows[:n]).path) for n in (40, 4)]
    stream = Stream(name="s", manifests=paths, fields={"noise": Noisy()}, budget=Budget(rows=8), alpha=0.0)
    found = [
        tuple(row.tolist()) for batch in Loader(streams=[stream], seed=1).epoch(0) for row in batch["noise"].rows()
    ]
    assert len(found) == 44 and len(set(found)) >= 40  # only copy 0 of both manifests' equal ids may agree


@pytest.mark.parametrize("workers", [0, 2])
def test_unreadable_rows_are_named(corpus, tokenizer, tmp_path, workers) -> None:
    rows = list(Manifest.open(corpus / "train.arrow"))
    rows[17]["audio"] = str(tmp_path / "gone.wav")
    manifest = Manifest.write(tmp_path / "broken.arrow", rows)
    fields = make_streams(corpus, tokenizer)[0].fields
    stream = Stream(name="st", manifests=[str(manifest.path)], fields=fields, budget=Budget(seconds=12))
    message = r"^[^\n]*broken\.arrow: row 'r17': field 'speech': [^\n]*gone\.wav[^\n]*$"
    refuses(DataError, message, lambda: list(Loader(streams=[stream], seed=1, workers=workers).epoch(0)))
    refuses(DataError, message, lambda: list(Loader.evaluation(manifest, fields, Budget(seconds=12), workers)))


@pytest.mark.parametrize("workers", [0, 2])
def test_evaluation_leaves_nothing_out(corpus: Path, tokenizer: SentencePieceTokenizer, workers: int) -> None:
    manifest = Manifest.open(corpus / "train.arrow")
    fields = {"speech": SpeechField(speeds=[0.9, 1.1]).evaluating(), "target": TextField(tokenizer=tokenizer)}
    found = list(Loader.evaluation(manifest, fields, Budget(seconds=2.5), workers))
    indices = [index for _, rows in found for index in rows.tolist()]
    assert sorted(indices) == list(range(60))  # also the rows that are longer than the budget
    assert [manifest[i]["id"] for i in indices] == [i for batch, _ in found for i in batch.ids]
    for batch, rows in found:
        durations = [manifest[i]["duration"] for i in rows]
        assert batch["speech"].lengths.tolist() == [int(d * 16000 + 0.5) for d in durations]  # at normal speed
        assert len(batch) == 1 or batch["speech"].values.numel() <= 2.5 * 16000
    longest = [int(batch["speech"].lengths.max()) for batch, _ in found]
    assert longest == sorted(longest, reverse=True)
    shares = [list(Loader.evaluation(manifest, fields, Budget(seconds=2.5), workers, rank=r, world=2)) for r in (0, 1)]
    dealt = [share.pop(0) for number in range(len(found)) if (share := shares[number % 2])]
    assert [batch.ids for batch, _ in dealt] == [batch.ids for batch, _ in found] and shares == [[], []]
    listed = list(Loader.evaluation(list(manifest), fields, Budget(seconds=2.5), workers))
    assert plain(batch for batch, _ in listed) == plain(batch for batch, _ in found)
    assert list(Loader.evaluation([], fields, Budget(rows=1))) == []
    nothing = [list(manifest)[0] | {"id": "x", "target_text": None}]
    evaluation = Loader.evaluation(nothing, fields, Budget(rows=1))
    refuses(DataError, "row 'x': there is nothing for field 'target'", list, evaluation)


def test_collate(tokenizer: SentencePieceTokenizer) -> None:
    rows = [{"id": "a", "source_text": "yes no", "source_language": "en"}, {"id": "b", "source_text": "seven"}]
    field = TextField(column="source_text", tokenizer=tokenizer, prefix=[])
    batch = collate(rows, {"source": field}, np.random.default_rng(0))
    assert batch.ids == ["a", "b"] and batch.languages == {} and len(batch["source"]) == 2


def test_largest_and_report(corpus: Path, tokenizer: SentencePieceTokenizer) -> None:
    streams = make_streams(corpus, tokenizer)
    loader = Loader(streams=streams, seed=7)
    largest = list(loader.largest())
    for stream in streams:
        for field in stream.fields:
            sizes = [
                len(batch)
                * max(
                    stream.fields[field].length(row)
                    for row in Manifest.open(corpus / "train.arrow")
                    if row["id"] in batch.ids
                )
                for batch in [*loader.epoch(0), *largest]
                if batch.stream == stream.name
            ]
            assert max(sizes) == max(sizes[-sum(batch.stream == stream.name for batch in largest) :])
    report = loader.report()
    assert "stream 'st': 60 rows; " in report[0] and "padding: speech " in report[0] and len(report) == 2


def test_arguments_are_checked(corpus: Path, tokenizer: SentencePieceTokenizer) -> None:
    streams = make_streams(corpus, tokenizer)
    for wrong in ({"streams": []}, {"streams": streams[:1] * 2}, {"workers": -1}, {"rank": 2, "world": 2}):
        with pytest.raises(UsageError):
            Loader(**{"streams": streams, "seed": 1} | wrong)  # type: ignore[arg-type]


def started(folder: Path, corpus: Path, beginning: str) -> subprocess.Popen[str]:
    """Start a process in a session of its own that trains with two workers until Ctrl-C."""
    script = folder / "run.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import os, signal, time
            from dragoman.shared.batches.loader import Loader
            from dragoman.shared.batches.speech_field import SpeechField
            from dragoman.shared.batches.stream import Budget, Stream
            path = {str(corpus / "train.arrow")!r}
            stream = Stream(name="s", manifests=[path], fields={{"speech": SpeechField()}}, budget=Budget(rows=1))
            signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background ignore it
            {beginning}

            def train():
                for batch in Loader(streams=[stream], seed=1, workers=2).epoch(0):
                    print("ready", flush=True)
                    time.sleep(30)

            try:
                train()
            except KeyboardInterrupt:
                print("stopped", flush=True)
            """
        )
    )
    few_cores = "ignore:This DataLoader will create"  # torch's advice on a machine with one core is no noise of ours
    return subprocess.Popen(
        [sys.executable, "-W", few_cores, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": IMPORT_PATH, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
        text=True,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="forked workers")
@pytest.mark.parametrize("who", slow_but(["after_in_parent"], ["after_in_child", "after_in_parent"]))
def test_ctrl_c_while_workers_start_is_silent(corpus: Path, tmp_path: Path, who: str) -> None:
    process = started(tmp_path, corpus, f"os.register_at_fork({who}=lambda: os.kill(os.getpid(), signal.SIGINT))")
    if who == "after_in_child":  # the workers have been told, and now the process itself
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGINT)
    try:
        out, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert out == "stopped\n" and errors == "" and process.returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_leaves_no_traceback_of_workers(corpus: Path, tmp_path: Path) -> None:
    process = started(tmp_path, corpus, "")
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)  # the terminal sends it to the whole group
    out, errors = process.communicate(timeout=120)
    assert out == "stopped\n" and errors == "" and process.returncode == 0
