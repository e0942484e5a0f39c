"""Toy workers under the harness of benchmarks/: turns, checks, ratios and the table."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.side_by_side import Arm, Benchmark, run
from benchmarks.tables import floor, markdown, ratio, write

WORKER = """
import sys, time
from benchmarks.worker import serve

def setup():
    print("what libraries print goes elsewhere")
    turns = open(sys.argv[3], "a")
    def repeat():
        print(sys.argv[1], file=turns, flush=True)
        time.sleep(float(sys.argv[2]))
        return {"work": 10}
    return {"versions": {"toy": "1"}, "checks": {"loss": float(sys.argv[4])}, "flops": 5.0}, repeat

serve(setup)
"""


@pytest.fixture
def toys(tmp_path: Path) -> Benchmark:
    (tmp_path / "toy.py").write_text(WORKER)

    def arm(name: str, seconds: float, loss: float = 1.5, **given: object) -> Arm:
        return Arm(name, [str(tmp_path / "toy.py"), name, str(seconds), str(tmp_path / "turns"), str(loss)], **given)

    peak = {"peak": "products"}
    arms = [arm("ours", 0.01, ours=True, **peak), arm("theirs", 0.04, loss=1.50001, **peak), arm("products", 0.005)]
    return Benchmark("toys", "Sleeping.", "sheep", arms, absent={"others": "not installed"})


def test_arms_take_turns_and_are_compared(toys: Benchmark, tmp_path: Path):
    result = run(toys, rounds=3, threads=1, told=lambda line: None)
    turns = "ours theirs products theirs products ours products ours theirs"
    assert (tmp_path / "turns").read_text().split() == turns.split()
    for arm in result["arms"].values():
        assert len(arm["repetitions"]) == 3
        assert all(0 <= repetition["idle_cpu_seconds"] < 0.5 for repetition in arm["repetitions"])
        assert all(repetition["peak_memory"] > 1e6 for repetition in arm["repetitions"])
    text = markdown(result)
    assert "| times faster than | theirs |" in text and "not run: others (not installed)" in text
    assert "| products |" not in text and "- products: " in text


def test_other_work_stops_the_run(toys: Benchmark):
    loose, strict = toys.arms[1], replace(toys.arms[1], tolerance=1e-6)
    assert loose.tolerance > strict.tolerance
    with pytest.raises(ValueError, match="loss of theirs is 1.50001, that of ours is 1.5: not the same work"):
        run(replace(toys, arms=[toys.arms[0], strict]), rounds=1, threads=1, told=lambda line: None)


def test_a_worker_that_dies_is_named(toys: Benchmark):
    dying = Arm("dying", ["-c", "raise SystemExit(3)"], python=sys.executable)
    with pytest.raises(RuntimeError, match="arm 'dying' ended with exit code 3"):
        run(replace(toys, arms=[dying]), rounds=1, threads=1, told=lambda line: None)


def test_ratio_of_medians_by_hand():
    mid, low, high = ratio([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    assert (mid, low, high) == (2.0, 2 / 1, 2.0)  # the same rounds are drawn for both, so that noise goes out
    mid, low, high = ratio([2.0, 4.0, 6.0], [2.0, 2.0, 2.0])
    assert (mid, low, high) == (2.0, 1.0, 3.0)


def test_floor_by_hand():
    products = {"repetitions": [{"work": 100, "seconds": 2.0}], "ready": {}, "peak": ""}
    ours = {"repetitions": [], "ready": {"flops": 25}, "peak": "products"}
    assert floor(ours, {"products": products}) == 0.5
    assert floor(products, {"products": products}) is None


@pytest.mark.parametrize(
    ("processor", "vectors", "gpu", "name"),
    [
        ("AMD EPYC", ["avx2", "avx512f", "avx512_bf16"], None, "toys.amd_avx512_bf16.json"),
        ("Intel(R) Xeon(R) Processor @ 2.80GHz", ["avx2", "avx512f"], None, "toys.intel_avx512f.json"),
        ("arm", [], None, "toys.arm.json"),
        ("AMD EPYC", ["avx2"], "NVIDIA H200", "toys.nvidia_h200.json"),
    ],
)
def test_results_of_each_processor_have_a_file(processor, vectors, gpu, name, tmp_path):
    arms = {"products": {"ready": {}}, "ours": {"ready": {"gpu": gpu}}}
    result = {"name": "toys", "machine": {"processor": processor, "vectors": vectors}, "arms": arms}
    assert write(result, tmp_path).name == name
