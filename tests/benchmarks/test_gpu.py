"""`make gpu`: steps that fail, hang or have no time left end alone, and what was found is on the disk after each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from benchmarks import first_tries, gpu
from benchmarks.gpu import STEPS, Step, of_comparison, of_program, of_tests, run
from benchmarks.graphics import busy, missing

WRITES = "import json, pathlib, sys; pathlib.Path(sys.argv[1], 'found.json').write_text(json.dumps({'speed': 3}))"
HANGS = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
pathlib.Path(sys.argv[1]).write_text(str(child.pid))
time.sleep(600)
"""


def step(name: str, program: str, *arguments: str, seconds: int = 60) -> Step:
    return Step(name, ["-c", program, *arguments], seconds, of_program)


def steps_of(folder: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads((folder / "results.json").read_text())["steps"]
    return found


def test_a_step_that_fails_leaves_the_others_alone_and_its_last_lines(tmp_path, capsys):
    wrong = step("wrong", "import sys; print('before'); sys.exit('no such thing')")
    assert run([wrong, step("good", WRITES, "{folder}")], device="cpu", folder=tmp_path, minutes=1) == ["wrong"]
    found = steps_of(tmp_path)
    assert found["wrong"]["status"] == "failed" and found["wrong"]["exit_code"] == 1
    assert found["wrong"]["says"] == ["before", "no such thing"] and found["good"]["status"] == "passed"
    assert found["good"]["found"] == {"speed": 3} and "says" not in found["good"]
    assert "no such thing" in capsys.readouterr().out and "-c" in (tmp_path / "logs" / "wrong.txt").read_text()


def test_a_program_that_leaves_nothing_behind_has_failed(tmp_path):
    assert run([step("empty", "pass")], device="cpu", folder=tmp_path, minutes=1) == ["empty"]


@pytest.mark.skipif(sys.platform != "linux", reason="processes of other sessions are found in /proc")
def test_a_step_that_hangs_is_ended_with_all_that_it_has_started(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu, "SLOWER", 1)
    hangs = step("hangs", HANGS, str(tmp_path / "pid"), seconds=3)
    assert run([hangs, step("good", WRITES, "{folder}")], device="cpu", folder=tmp_path, minutes=1) == ["hangs"]
    assert steps_of(tmp_path)["hangs"]["status"] == "stopped after 3 s"
    child = int((tmp_path / "pid").read_text())
    for _ in range(100):
        state = Path(f"/proc/{child}/stat")
        if not state.is_file() or state.read_text().split()[2] == "Z":
            break
        time.sleep(0.05)
    else:
        os.kill(child, 9)
        raise AssertionError("what a step has started goes on after it")


def test_without_time_a_step_is_named_and_what_was_found_before_stays(tmp_path, capsys, monkeypatch):
    run([step("first", WRITES, "{folder}")], device="cpu", folder=tmp_path, minutes=1)
    assert run([step("second", WRITES, "{folder}")], device="cpu", folder=tmp_path, minutes=0.1) == ["second"]
    assert steps_of(tmp_path).keys() == {"first"}
    assert "--steps second" in capsys.readouterr().out


def test_the_command_ends_with_an_error_if_a_step_has_none_of_its_tests_run(tmp_path, monkeypatch):
    monkeypatch.setitem(gpu.PARTS, "decides", [Step("none", ["-c", "pass"], 9, lambda folder: {"passed": 0})])
    monkeypatch.setattr("sys.argv", ["gpu", "--device", "cpu", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as end:
        gpu.main()
    assert end.value.code == 1 and steps_of(tmp_path).keys() == {"none"}


TESTS = """
import os, time, pytest

def test_right():
    pass

def test_wrong():
    assert 1 + 1 == 3, "no such thing"

def test_left_out():
    pytest.skip("no GPU")

def test_long():
    time.sleep(600)
"""


@pytest.mark.slow
def test_what_tests_found_before_time_was_up_is_known(tmp_path, monkeypatch):
    (tmp_path / "test_some.py").write_text(TESTS)
    monkeypatch.setattr(gpu, "SLOWER", 1)
    options = ["-m", "pytest", "-p", "no:cacheprovider", "-p", "benchmarks.noting", "--rootdir", str(tmp_path)]
    some = Step("some", [*options, "-c", os.devnull, str(tmp_path)], 20, of_tests)
    assert run([some], device="cpu", folder=tmp_path / "out", minutes=1) == ["some"]
    record = steps_of(tmp_path / "out")["some"]
    assert record["status"] == "stopped after 20 s"
    assert record["found"]["passed"] == 1 and record["found"]["failed"].keys() == {"test_wrong"}
    assert "no such thing" in record["found"]["failed"]["test_wrong"]
    assert record["found"]["skipped"] == {"test_left_out": "Skipped: no GPU"}


def test_steps_of_a_group_run_at_the_same_time_on_a_gpu(tmp_path, monkeypatch):
    """Each waits for what the other writes."""
    waits = (
        "import pathlib, sys, time\nown, other = map(pathlib.Path, sys.argv[2:])\nown.touch()\n"
        "while not other.exists():\n    time.sleep(0.05)\n" + WRITES
    )
    monkeypatch.setattr(gpu, "RESULTS", tmp_path / "results")
    files = [str(tmp_path / name) for name in "ab"]
    steps = [
        Step(name, ["-c", waits, "{folder}", *order], 30, of_program, group="both")
        for name, order in (("one", files), ("two", files[::-1]))
    ]
    assert run(steps, device="cuda", folder=tmp_path, minutes=1) == []


def test_results_of_a_comparison_on_a_gpu_go_where_the_tables_are_written_from(tmp_path, monkeypatch):
    result = {"unit": "target tokens", "absent": {}, "arms": {}}
    writes = f"import pathlib, sys; pathlib.Path(sys.argv[1], 'x.h100.json').write_text({json.dumps(result)!r})"
    monkeypatch.setattr(gpu, "RESULTS", tmp_path / "results")
    step = Step("x", ["-c", writes, "{folder}"], 30, of_comparison)
    assert run([step], device="cpu", folder=tmp_path / "cpu", minutes=1) == [] and not gpu.RESULTS.exists()
    assert run([step], device="cuda", folder=tmp_path / "cuda", minutes=1) == []
    for place in (tmp_path / "cpu" / "results", tmp_path / "cuda" / "results", gpu.RESULTS):
        assert json.loads((place / "x.h100.json").read_text()) == result


def test_each_call_is_a_part_and_the_recipes_are_all_shared_out():
    shares = [step.given["DRAGOMAN_RECIPES_SHARE"] for step in gpu.PARTS["recipes"]]
    assert shares == [f"{number}/16" for number in range(16)] and gpu.PARTS["decides"][0].name == "machine"


def test_every_step_has_a_program_and_its_own_name(tmp_path):
    assert len({one.name for one in STEPS}) == len(STEPS)
    for one in STEPS:
        for device in ("cpu", "cuda"):
            words = one.filled(device, tmp_path)
            assert "{" not in "".join(words)
            files = [word for word in words if word.startswith("tests/")]
            assert all((gpu.ROOT / file).is_file() for file in files)


def test_rates_of_a_comparison_by_hand(tmp_path):
    peak = {"peak": "", "repetitions": [{"work": 10e12, "seconds": 2.0, "peak_memory": 1}], "ready": {}}
    ours = {"peak": "peak", "repetitions": [{"work": 80, "seconds": 4.0, "peak_memory": 2e9}], "ready": {"flops": 8e12}}
    result = {"unit": "target tokens", "absent": {}, "arms": {"ours": ours, "peak": peak}}
    (tmp_path / "one.json").write_text(json.dumps(result))
    found = of_comparison(tmp_path)["arms"]
    assert found["peak"] == {"tflops": 5.0}
    assert found["ours"] == {"units_per_second": 20.0, "share_of_peak": "40%", "seconds": 4.0, "memory_gb": 2.0}


def test_what_nvidia_smi_says_is_read_and_what_it_does_not_know_left_out():
    assert busy("10, 1000\n90, 3000\n[N/A], 3\n5") == {"mean_percent": 50.0, "most_percent": 90.0, "memory_gb": 3.15}
    assert busy("") == {}


def test_packages_that_are_missing_are_named(monkeypatch):
    monkeypatch.setattr("benchmarks.graphics.PACKAGES", ("json", "no_such_package"))
    assert missing() == {"no_such_package": "ModuleNotFoundError: No module named 'no_such_package'"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["text", "speech"])
def test_training_that_is_fed_is_measured(tmp_path, kind):
    command = [sys.executable, "-m", "benchmarks.fed", kind, "--device", "cpu", "--toy", "--updates", "3"]
    command += ["--workers", "0", "--json", str(tmp_path / "found.json")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=gpu.ROOT)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert 0 <= found["share_of_time_waiting_for_data"] < 1 and found["units_per_second"] > 0
    assert 0 < found["share_of_peak"] < 1.5 and found["share_of_time_the_host_waited"] > 0


def test_processes_of_tests_find_packages_where_the_tests_do():
    """On a machine whose packages stand in a folder, PYTHONPATH names it."""
    program = "import tests.conftest; print(tests.conftest.IMPORT_PATH)"
    given = os.environ | {"PYTHONPATH": os.pathsep.join([str(gpu.ROOT), "/somewhere"])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=given)
    assert done.stdout.strip().split(os.pathsep) == [str(gpu.ROOT), str(gpu.ROOT), "/somewhere"]
    starting = [path for path in (gpu.ROOT / "tests").rglob("*.py") if '"PYTHONPATH": str(' in path.read_text()]
    assert [path for path in starting if path != Path(__file__)] == []


def test_what_no_card_has_run_is_tried_and_a_try_that_raises_loses_no_others(monkeypatch, capsys):
    def broken(device: str) -> float:
        raise RuntimeError("no kernel image")

    tries = {"first": (lambda _: 0.5, 1e-3), "second": (broken, 1.0), "third": (first_tries.product_added, 1e-9)}
    monkeypatch.setattr(first_tries, "TRIES", tries)
    found = first_tries.tried("cpu")
    assert [one["right"] for one in found.values()] == [False, False, True]
    assert found["second"]["raised"] == "RuntimeError: no kernel image"
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["WRONG", "first"], ["WRONG", "second"], ["right", "third"]]
    assert gpu.summary({"tries": found}) == "3 tried; wrong: first, second"


def test_a_difference_by_hand():
    assert first_tries.off(torch.tensor([1.0, 3.0]), torch.tensor([1.5, -2.0])) == 2.5
