"""The search for the largest batches: what it finds, against devices made up; and on a real recipe, in processes."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from dragoman import DataError, Recipe, UsageError
from dragoman.commands import trial
from dragoman.commands.batch_size import in_bytes, print_batch_sizes, search, settings
from dragoman.commands.trial import Trial, peak_memory
from dragoman.shared.recipe.planned import PlannedPhase
from tests.small import refuses


def device(capacity: float, tried: list[float], corpus: float = 1e9) -> Callable[[float], Trial]:
    def attempt(value: float) -> Trial:
        tried.append(value)
        return Trial(fits=value <= capacity, batches=int(-(-corpus // value)))

    return attempt


@pytest.mark.parametrize("capacity", [100, 101, 199, 7000, 24.5, 3.3])
def test_the_largest_that_fits_is_found_within_a_tenth(capacity: float):
    tried: list[float] = []
    found = search(100.0, device(capacity, tried), whole=False)
    assert capacity / 1.1 <= found <= capacity and len(tried) == len(set(tried)) <= 14


def test_whole_numbers_and_ends():
    tried: list[float] = []
    found = search(4096, device(10_000, tried), whole=True)
    assert 9_000 < found <= 10_000 and all(isinstance(value, int) for value in tried)
    assert search(8, device(3, []), whole=True) == 3
    assert search(1, device(1.5, []), whole=True) == 1
    refuses(DataError, "not even a budget of", search, 100.0, device(0, []), whole=False)

    def too_small_for_the_rows(value: float) -> Trial:
        if value < 40:
            raise DataError("stream 's' would drop 9 of 10 rows")
        return Trial(fits=False)

    with pytest.raises(DataError, match="a budget of 50.0 does not fit into memory, and stream 's' would drop"):
        search(100.0, too_small_for_the_rows, whole=False)


@pytest.mark.parametrize("start", [100.0, 800.0, 51200.0])
def test_an_epoch_keeps_ten_batches(start: float):
    """Of 1,000 in all, 10 batches have 100 each: however much memory there is, and whatever the recipe says."""
    found = search(start, device(1e9, [], corpus=1000), whole=False)
    assert 9 * found < 1000 and 12 * found >= 1000


def test_data_that_cannot_make_ten_batches_have_the_most_that_they_can():
    def attempt(value: float) -> Trial:
        if value < 40:
            raise DataError("stream 's' would drop 9 of 10 rows")
        return Trial(fits=True, batches=3)

    assert search(100.0, attempt, whole=False) == 50.0


def test_memory_is_read():
    assert in_bytes("4GB") == in_bytes("4 GiB") == in_bytes("4g") == 4 * 1024**3 and in_bytes("1.5mb") == 1572864
    for wrong in ("4", "GB", "-1GB", "0GB", "4 gigabytes"):
        refuses(UsageError, "memory is a number", in_bytes, wrong)


def test_the_key_of_a_budget_is_found():
    (found,) = settings(Recipe.load("almanac/st", {}), "fit", "almanac/st", [])
    assert (found.key, found.kind, found.value, found.stream) == ("batch_seconds", "seconds", 80.0, "speech")
    # 80 stands elsewhere too, and the budget is given in place
    given = ["--stream.budget.seconds=80.0", "--updates=80"]
    (found,) = settings(Recipe.load("almanac/st", given), "fit", "almanac/st", given)
    assert found.key == "stream.budget.seconds"


def test_passes_are_refused_before_anything_is_done(tmp_path, monkeypatch):
    monkeypatch.setattr("dragoman.commands.batch_size.run_recipe", lambda *_, **__: pytest.fail("a phase was run"))
    filled = ["--data_folder=x", f"--results_folder={tmp_path}"]
    said = "mustc/st.yaml: phase 'fit' computes updates in passes: .* --passes null"
    refuses(UsageError, said, print_batch_sizes, "mustc/st", filled, memory="4GB", phase=None)
    refuses(UsageError, "a CPU", print_batch_sizes, "mustc/st", [*filled, "--passes=null"], memory=None, phase=None)


def test_peak_memory_counts_what_was_used():
    before = peak_memory()
    pages = int(Path("/proc/self/statm").read_text().split()[1]) if sys.platform == "linux" else 0
    now = pages * resource.getpagesize()
    block = np.ones(before - now + 50_000_000, dtype=np.uint8)  # more than ever before, so that the peak has to move
    assert len(block) * 0.9 < peak_memory() and peak_memory() > before + 40_000_000
    del block
    assert peak_memory() > before + 40_000_000


TINY = "--width 32 --heads 2 --feedforward 64 --encoder_layers 1 --decoder_layers 1 --pieces 300".split()


def batch_size(*arguments, cwd):
    command = [sys.executable, "-m", "dragoman", "batch-size", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=str(cwd), timeout=400)


def text_corpus(folder, rows):
    """Write tables of sentences to train on and of a few to score."""
    rng, words = np.random.default_rng(0), "one two three four five six seven eight".split()
    for split, count in (("train", rows), ("dev", 5), ("test", 5)):
        lines = [f"{n}\t{' '.join(rng.choice(words, 12))}\t{' '.join(rng.choice(words, 12))}" for n in range(count)]
        (folder / f"{split}.tsv").write_text("\n".join(["id\tsource_text\ttarget_text", *lines]) + "\n")


@pytest.mark.slow
def test_the_command_on_a_cpu(tmp_path):
    text_corpus(tmp_path, rows=20_000)
    common = ["own/mt", "--data_folder", tmp_path, "--source_language", "en", "--target_language", "de", *TINY]
    common += ["--device", "cpu", "--batch_tokens", "2000"]
    done = batch_size(*common, "--memory", "6GB", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    *lines, larger, used = done.stdout.splitlines()[2:]
    assert larger == "larger batches fit into memory, but an epoch of this data would have fewer than 10"
    rows = {int(value): (float(peak), int(batches)) for value, peak, _, batches, *_ in map(str.split, lines)}
    doubled = [2000 * 2**n for n in range(len(rows)) if 2000 * 2**n in rows]
    assert [*rows][: len(doubled)] == doubled
    assert [value for value in doubled if rows[value][1] < 10] == doubled[-1:]
    largest = max(value for value, (_, batches) in rows.items() if batches >= 10)
    assert used == f"use: --batch_tokens {largest}" and rows[max(rows)][0] > rows[2000][0] > 0.1
    # a limit that the largest of these does not keep to
    less = batch_size(*common, "--memory", f"{(rows[2000][0] + rows[largest][0]) / 2 * 1024:.0f}MB", cwd=tmp_path)
    assert less.returncode == 0 and "does not fit" in less.stdout, less.stderr
    assert 2000 <= int(less.stdout.split()[-1]) < largest
    refused = batch_size(*common, "--memory", "20MB", cwd=tmp_path)
    assert refused.returncode == 2 and "less than the process takes" in refused.stderr


def test_running_out_of_a_gpus_memory_is_not_an_error(monkeypatch):
    failed = RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")
    errors = [torch.OutOfMemoryError("CUDA out of memory"), failed]
    monkeypatch.setattr(trial, "measure", Mock(side_effect=errors))
    monkeypatch.setattr(PlannedPhase, "build", lambda _: None)
    for _ in errors:
        trial._child(sender := Mock(), "almanac/st", ["--device=cpu"], "fit", 0, None)
        sender.send.assert_called_once_with(Trial(fits=False))
