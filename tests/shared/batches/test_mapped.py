"""Tables and plans that are computed in blocks and written once for all processes are what they are otherwise."""

from __future__ import annotations

import hashlib
import multiprocessing
import pickle
from pathlib import Path

import numpy as np
import pytest

from dragoman import DataError, Manifest
from dragoman.shared.batches import mapped, plan, stream
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.plan import plan_pass
from dragoman.shared.batches.stream import Budget, Filter, Stream
from tests.shared.batches.test_plan import make_stream, speech_lengths, token_lengths
from tests.shared.batches.test_stream import TEXT, Seconds, make_rows


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = make_rows(400)
    rows[5]["target_text"], rows[6]["target_text"], rows[7]["audio"] = None, "", None
    return Manifest.write(tmp_path_factory.mktemp("corpus") / "train.arrow", rows).path


def speech_and_text(manifest: Path, **changes: object) -> list[Stream]:
    fields = {"speech": Seconds(0.9), **TEXT}
    limits = Filter(minimum_seconds=1, maximum_tokens=30, maximum_dropped=1)
    given: dict = {"manifests": [str(manifest)], "filter": limits, "group_by": ["source_language", "target_language"]}
    return [
        Stream(name="a/b", fields=fields, budget=Budget(seconds=60), **given | changes),
        Stream(name="text", fields=TEXT, budget=Budget(tokens=300, grid=4), weight=0.5, **given | changes),
    ]


def steps(loader: Loader, epoch: int) -> list[tuple[int, list[int], list[int]]]:
    found = loader.plan(epoch)
    return [(one.stream, one.rows.tolist(), one.copies.tolist()) for one in map(found.step, range(len(found)))]


GROUPS = np.random.default_rng(1).integers(0, 3, 3000)
TEXTS = {"lengths": token_lengths(3000), "budget": Budget(tokens=500)}
MIXED = {"parts": [np.arange(100), np.arange(100, 3000)], "alpha": 0.3}
#: Streams, how they are planned, and what version 0.2 planned, before it was computed in blocks: a run that is
#: interrupted goes on with these batches.
CASES: dict[str, tuple[dict, dict, str]] = {
    "text": (TEXTS, {}, "f050666699e44d9d"),
    "speech": (
        {"lengths": speech_lengths(3000), "budget": Budget(seconds=60), "units": "samples tokens"},
        {},
        "bafbc6b08e0fd203",
    ),
    "one": (TEXTS | {"lengths": token_lengths(3000)[:1], "units": "tokens"}, {"world": 3}, "83ae0afa21cf8bdb"),
    "groups": (TEXTS | {"groups": GROUPS}, {"even": True}, "5dd18b0f88677fb9"),
    "grid": (TEXTS | {"budget": Budget(tokens=500, grid=4)}, {"world": 4}, "f40635cafb6b5f83"),
    "mixed": (TEXTS | MIXED, {}, "b4170234963d455e"),
}


@pytest.mark.parametrize("block", [1 << 18, 1000, 7])
@pytest.mark.parametrize("case", CASES)
def test_a_pass_has_the_batches_that_it_always_had(case: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "BLOCK", block)
    made, how, planned = CASES[case]
    found = plan_pass(make_stream(**made), seed=1, number=2, **how)
    digest = hashlib.blake2b(digest_size=8)
    for array in (found.rows, found.copies, found.bounds):
        digest.update(array.astype(np.int64).tobytes())
    assert digest.hexdigest() == planned


@pytest.mark.parametrize("block", [1000, 7])
def test_a_table_in_blocks_is_that_of_all_rows(manifest: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [one.table for one in speech_and_text(manifest)]
    monkeypatch.setattr(mapped, "BLOCK", block)
    for table, expected in zip([one.table for one in speech_and_text(manifest)], whole, strict=True):
        for name in ("lengths", "padded", "capacities", "groups"):
            np.testing.assert_array_equal(getattr(table, name), getattr(expected, name))
        assert [part.tolist() for part in table.kept] == [part.tolist() for part in expected.kept]
        assert (table.dropped, table.group_names) == (expected.dropped, expected.group_names)
        assert table.dropped and len(table.group_names) == 3


def test_processes_that_share_a_folder_compute_once_what_each_would(
    manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifests = [str(manifest), str(manifest)]  # found once
    expected = [steps(Loader(streams=speech_and_text(manifest), seed=3), epoch) for epoch in range(3)]
    monkeypatch.setattr(mapped, "SMALLEST_MAPPED", 1)
    computed = []
    for module, name in ((plan, "_planned"), (stream.Stream, "_table")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, real=real: computed.append(real.__name__) or real(*given))
    loaders = [
        Loader(streams=speech_and_text(manifest, manifests=manifests), seed=3, mapped_in=tmp_path / "plans")
        for _ in range(3)
    ]
    for epoch in range(3):
        for loader in loaders:
            assert steps(loader, epoch) == expected[epoch]
            assert loader.report(epoch) == Loader(streams=speech_and_text(manifest), seed=3).report(epoch)
        # two tables; a pass of the first stream for each epoch, of the other one or two; the loaders that compute for
        # themselves count as well
        assert len(list((tmp_path / "plans" / f"epoch-{epoch}").glob("[!.]*"))) in (2, 3)
    assert len(list((tmp_path / "plans").glob("table-*"))) == 2
    assert {path.name for path in (tmp_path / "plans").glob("epoch-*")} == {"epoch-1", "epoch-2"}
    table = loaders[0].streams[0].table
    assert not table.lengths.flags.writeable and type(table.lengths) is np.ndarray
    sent = pickle.loads(pickle.dumps(loaders[0].plan(2).step(0)))
    assert type(sent.rows) is np.ndarray and sent.rows.flags.owndata
    assert not list((tmp_path / "plans").rglob(".*"))


def _computes(folder: Path, began: multiprocessing.Queue, number: int) -> None:
    def compute() -> tuple[dict[str, np.ndarray], int]:
        began.put(number)
        return {"a": np.full(1000, number)}, number

    arrays, beside = mapped.mapped(folder, "x", compute)
    assert (arrays["a"] == beside).all()
    began.put(("read", beside))


def test_processes_that_come_at_the_same_time_wait_for_the_first(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    heard = context.Queue()
    started = [context.Process(target=_computes, args=(tmp_path / "new", heard, number)) for number in range(4)]
    for one in started:
        one.start()
    said = [heard.get(timeout=60) for _ in range(5)]
    for one in started:
        one.join()
    assert [one.exitcode for one in started] == [0] * 4
    (first,) = (one for one in said if isinstance(one, int))
    assert said.count(("read", first)) == 4


def test_who_cannot_compute_leaves_nothing_and_the_next_one_tries_again(
    manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped, "SMALLEST_MAPPED", 1)
    strict = speech_and_text(manifest, filter=Filter(maximum_ratio=1))
    for _ in range(2):
        with pytest.raises(DataError, match="would drop"):
            Loader(streams=strict, seed=1, mapped_in=tmp_path / "plans").plan(0)
    assert not list((tmp_path / "plans").iterdir())


def test_few_rows_are_not_written(manifest: Path, tmp_path: Path) -> None:
    Loader(streams=speech_and_text(manifest), seed=1, mapped_in=tmp_path / "plans").plan(0)
    assert not (tmp_path / "plans").exists()
