"""`make gpu`: steps that fail, hang or have no time left end alone, and what was found is on the disk after each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import gpu
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
    assert "no such thing" in capsys.readouterr().out and "== wrong" in (tmp_path / "log.txt").read_text()


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
    suite = '<testsuite><testcase name="a"><skipped message="no GPU"/></testcase></testsuite>'
    (tmp_path / "junit.xml").write_text(f"<testsuites>{suite}</testsuites>")
    assert of_tests(tmp_path) == {"passed": 0, "failed": [], "skipped": {"a": "no GPU"}}
    suite = '<testsuite><testcase name="a"/><testcase name="b"><failure>x</failure></testcase></testsuite>'
    (tmp_path / "junit.xml").write_text(suite)
    assert of_tests(tmp_path) == {"passed": 1, "failed": ["b"], "skipped": {}}
    monkeypatch.setattr(gpu, "STEPS", [Step("none", ["-c", "pass"], 9, lambda folder: {"passed": 0})])
    monkeypatch.setattr("sys.argv", ["gpu", "--device", "cpu", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as end:
        gpu.main()
    assert end.value.code == 1


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
