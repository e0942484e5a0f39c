"""Windows of an epoch: neighbours come together, every row as often as before, each process with rows of its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from dragoman import DataError, Manifest
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.plan import Plan, plan_pass
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.batches.steps import Pass
from dragoman.shared.batches.stream import Budget, Stream
from dragoman.shared.batches.windows import MIXED
from dragoman.shared.machine import remote
from dragoman.shared.sound import shards
from tests.object_store import Store, answering
from tests.shared.batches.test_plan import batches, make_stream, token_lengths
from tests.small import refuses
from tests.st.corpora.shards import sound, write_shard

ROWS, WINDOW = 4000, 640


def windowed(window: int | None, budget: Budget | None = None, **how: object) -> Stream:
    stream = make_stream(token_lengths(ROWS), budget or Budget(tokens=1000), **how)  # type: ignore[arg-type]
    stream.window = window
    return stream


def in_windows(found: Pass) -> list[list[list[int]]]:
    """Return the batches of each window."""
    every, ends = batches(found), [*found.windows.tolist(), len(found)]
    return [every[begin:end] for begin, end in zip(ends[:-1], ends[1:], strict=True)]


@pytest.mark.parametrize("world", [1, 3])
def test_a_window_has_whole_runs_of_neighbours_and_each_process_its_own(world: int) -> None:
    stream = windowed(WINDOW)
    found = plan_pass(stream, seed=1, number=0, world=world)
    assert Counter(found.rows.tolist()) == Counter(range(ROWS))
    parts = ROWS // (WINDOW * world) * world
    run = ROWS // (parts * MIXED)
    seen: set[int] = set()
    assert len(found.windows) == parts // world > 1
    for window in in_windows(found):
        assert len(window) % world == 0
        runs = {row // run for batch in window for row in batch}
        assert not runs & seen and len(runs) <= world * (MIXED + 2)
        seen |= runs
        own = [{row // run for batch in window[rank::world] for row in batch} for rank in range(world)]
        shared = [one for one, count in Counter(run for runs in own for run in runs).items() if count > 1]
        assert len(shared) <= world * MIXED / 2  # a batch or two change hands, so that all have equally many
        for batch in window:
            assert len(batch) * max(stream.table.lengths[:, batch].max(1)) <= 1000


def test_runs_of_a_window_lie_far_apart_and_elsewhere_in_each_epoch() -> None:
    first, second = (in_windows(plan_pass(windowed(WINDOW), seed=1, number=n)) for n in (0, 1))
    rows = [np.concatenate(window[0]) for window in (first, second)]
    assert all(np.ptp(one) > ROWS / 2 for one in rows)
    assert len({*rows[0]} & {*rows[1]}) < WINDOW / 2
    assert plan_pass(windowed(None), seed=1, number=0).windows.tolist() == [0]


def test_a_mixture_draws_rows_equally_often_and_a_part_of_a_turn_has_whole_runs() -> None:
    parts = [np.arange(1000), np.arange(1000, ROWS)]
    stream = windowed(WINDOW, parts=parts, alpha=0.5)
    counts = stream.shares()
    passes = [plan_pass(stream, seed=1, number=number) for number in range(6)]
    for part, count in zip(parts, counts.tolist(), strict=True):
        drawn = Counter(row for one in passes for row in one.rows.tolist() if part[0] <= row <= part[-1])
        assert sum(drawn.values()) == 6 * count
        assert {*drawn.values()} <= {6 * count // len(part), -(-6 * count // len(part))}
    run = ROWS // (ROWS // WINDOW * MIXED)
    large = [row for row in passes[0].rows.tolist() if row >= 1000]
    assert len(large) == counts[1] < 2700 and len({row // run for row in large}) < len(large) / run + 4


@pytest.mark.parametrize("world", [1, 4])
def test_the_rows_of_the_next_window_are_read_ahead_once_by_who_needs_them(world: int) -> None:
    plan = Plan([windowed(300)], seed=1, epoch=0, world=world)
    whole = plan.passes[0][0]
    assert len(whole.windows) > 2
    starts = [start // world for start in [*whole.windows, len(whole)]]
    for rank in range(world):
        for first, begin, end in zip(starts, starts[1:], starts[2:], strict=False):
            ahead = [plan.step(step, rank).ahead for step in range(first, begin)]
            later = np.concatenate([plan.step(step, rank).rows for step in range(begin, end)])
            np.testing.assert_array_equal(np.concatenate(ahead), np.sort(later))
            assert max(map(len, ahead)) - min(map(len, ahead)) <= 1
        assert not any(len(plan.step(step, rank).ahead) for step in range(starts[-2], starts[-1]))


def test_more_processes_than_rows_are_refused_and_a_row_for_each_is_enough() -> None:
    stream = make_stream(token_lengths(3), Budget(rows=2))
    stream.window = 100
    refuses(DataError, "3 rows, too few for 4 processes", plan_pass, stream, seed=1, number=0, world=4)
    assert [len(batch) for batch in batches(plan_pass(stream, seed=1, number=0, world=3))] == [1, 1, 1]


@pytest.fixture
def store(tmp_path, monkeypatch) -> Iterator[Store]:
    """A store with two shards of 40 rows in groups of 4, and a manifest of them."""
    monkeypatch.setattr(remote, "WAITS", (0.0, 0.0))
    monkeypatch.setattr(remote, "BLOCK", 1024)  # less than a row group has
    shards._opened.cache_clear()
    shards._column.cache_clear()
    rows = []
    with answering(monkeypatch, tmp_path / "cache") as found:
        for shard in range(2):
            content = [sound(40 * shard + n, seconds=0.3 + 0.01 * (n % 7))[1] for n in range(40)]
            write_shard(tmp_path / f"{shard}.parquet", {"audio": content}, rows_per_group=4)
            found.objects[f"b/{shard}.parquet"] = (tmp_path / f"{shard}.parquet").read_bytes()
            for n in range(40):
                place = {"audio": f"s3://b/{shard}.parquet#audio:{n}", "start": 0.0, "duration": 0.3 + 0.01 * (n % 7)}
                rows.append({"id": f"{shard}-{n}"} | place)
        Manifest.write(tmp_path / "train.arrow", rows)
        yield found


def stream_of(folder: object, window: int | None, **how: object) -> Stream:
    given = {"manifests": [f"{folder}/train.arrow"], "budget": Budget(seconds=2), "window": window}
    return Stream(name="s", fields={"speech": SpeechField(**how)}, **given)  # type: ignore[arg-type]


def read(folder: object, window: int | None, workers: int = 0, start: int = 0, number: int = 1) -> list[object]:
    loader = Loader(streams=[stream_of(folder, window, speeds=[0.9, 1.1])], seed=1, workers=workers)
    found = [(batch.ids, batch["speech"].values.numpy().tobytes()) for batch in loader.epoch(number, start)]
    loader.close()
    return found


def crowding(folder: object, window: int | None, world: int = 1, **how: int) -> list[str]:
    return Loader(streams=[stream_of(folder, window)], seed=1, world=world, **how).crowding()


def fetched(store: Store) -> list[tuple[str, int]]:
    """Return the row groups that were asked for: the parts of files, but for their ends."""
    parts = [(name, first, last) for method, name, first, last in store.asked if method == "GET"]
    return [(name, first) for name, first, last in parts if last + 1 < len(store.objects[name])]  # type: ignore[operator]


def test_row_groups_are_fetched_once_for_all_workers_and_an_epoch_goes_on_at_any_batch(store, tmp_path) -> None:
    expected = read(tmp_path, 20)
    groups = fetched(store)
    assert len({*groups}) == len(groups) == 20
    assert sorted(one for ids, _ in expected for one in ids) == sorted(f"{s}-{n}" for s in (0, 1) for n in range(40))
    for kept in (tmp_path / "cache" / "row_groups").iterdir():
        kept.unlink()
    shards._column.cache_clear()
    store.asked.clear()
    assert read(tmp_path, 20, workers=2, start=5) == expected[5:]
    groups = fetched(store)
    assert len({*groups}) == len(groups) <= 20


def test_windows_that_find_no_room_are_warned_of_with_both_numbers(store, tmp_path, monkeypatch) -> None:
    content = sum(len(sound(40 * shard + n, seconds=0.3 + 0.01 * (n % 7))[1]) for shard in (0, 1) for n in range(40))
    monkeypatch.setenv(shards.VARIABLE, str(content * 1.05 / 1e9))  # Parquet has a few bytes of its own beside them
    assert crowding(tmp_path, 40) == crowding(tmp_path, None) == []
    monkeypatch.setenv(shards.VARIABLE, str(content * 0.95 / 1e9))
    [said] = crowding(tmp_path, 40)
    assert "stream 's': 80 rows, two windows of 40, " in said
    found, room = (float(number) for number in re.findall(r"([\d.e-]+) GB", said))
    assert found == pytest.approx(content / 1e9, rel=0.05) and room == pytest.approx(content * 0.95 / 1e9, rel=0.01)
    assert "DRAGOMAN_CACHE_GB larger" in said and not crowding(tmp_path, None)
    monkeypatch.setattr(shards, "_ASKED", 1)  # what one of the two files has, twice
    assert float(re.findall(r"([\d.e-]+) GB", *crowding(tmp_path, 40))[0]) == pytest.approx(content / 1e9, rel=0.1)


def test_processes_of_other_machines_need_room_there(store, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(shards.VARIABLE, "0")
    rows = {here: int(crowding(tmp_path, 10, world=4)[0].split()[2]) for here in local_worlds(monkeypatch, 1, 2, 4)}
    assert rows[4] == 80 and rows[1] < rows[2] < 60
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    assert crowding(tmp_path, 80, world=4, passes=1)[0].startswith("stream 's': 80 rows")  # each machine reads all


def local_worlds(monkeypatch: pytest.MonkeyPatch, *counts: int) -> Iterator[int]:
    for count in counts:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", str(count))
        yield count


def test_without_windows_nothing_is_kept_and_groups_are_read_again_and_again(store, tmp_path, monkeypatch) -> None:
    before, decoded = shards._decoded, []
    monkeypatch.setattr(shards, "_decoded", lambda *given: decoded.append(given) or before(*given))
    read(tmp_path, None)
    assert len(decoded) > 40 and not (tmp_path / "cache" / "row_groups").exists()
    decoded.clear()
    read(tmp_path, 20)
    assert len(decoded) == len({*decoded}) == 20
