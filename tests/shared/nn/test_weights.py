"""Weights of a file: read one at a time, and models that are filled from them without a second copy."""

import subprocess
import sys

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from dragoman import DataError, System
from dragoman.shared.nn import weights
from dragoman.shared.nn.weights import DRAWING, Undrawn, WeightsFile
from tests.small import GOLDEN, refuses, system, tokenizer, translator

#: Prints by how many bytes loading raises the most memory that the process ever had, and whether the compiler came.
LOAD = """
import ctypes, re, sys
from pathlib import Path
from dragoman import System
from dragoman.shared.systems import combining
ctypes.CDLL(None).mallopt(-3, 1 << 20)  # what is freed goes back to the system
def most():  # which ru_maxrss is not: it counts what the parent had, too
    return 1024 * int(re.search("VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
before = most()
system = System.load(sys.argv[1])
print(most() - before, "torch._dynamo" in sys.modules)
"""


@pytest.fixture
def folder(tmp_path):
    """A model of 96 MB in 24 matrices."""
    words = tokenizer(["a b c d"])
    model = translator(words, sizes={"width": 256, "heads": 4, "feedforward": 8192}, layers=3, seed=1)
    system(words, model).save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux counts")
def test_loading_takes_the_memory_of_one_model_and_no_compiler(folder):
    size = (folder / "model.safetensors").stat().st_size
    command = [sys.executable, "-c", LOAD, str(folder)]
    grown, compiler = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert compiler == "False"
    assert 0.9 * size < int(grown) < 1.5 * size  # 2 with a second copy


def test_a_loaded_model_holds_what_the_file_holds(tmp_path):
    tensors = load_file(GOLDEN / "model.safetensors")
    for dtype in (torch.float32, torch.bfloat16):
        loaded = System.load(GOLDEN)
        loaded.to(dtype).save(tmp_path / str(dtype))
        again = System.load(tmp_path / str(dtype)).state_dict()
        assert again.keys() == tensors.keys()
        for name, value in tensors.items():
            assert torch.equal(again[name], value.to(dtype)) and again[name].dtype == dtype


def test_loading_draws_nothing():
    before = torch.get_rng_state()
    System.load(GOLDEN)
    assert torch.equal(before, torch.get_rng_state())


def test_what_is_not_drawn_comes_back_as_it_is():
    before = torch.get_rng_state()
    for function in DRAWING:
        tensor = torch.full((3, 4), 7.0)
        with Undrawn():
            assert function(tensor) is tensor
        assert (tensor == 7).all()
    with Undrawn():
        layer = torch.nn.Linear(3, 4)
        torch.nn.init.zeros_(layer.bias)
        torch.nn.init.xavier_uniform_(tensor=layer.weight)
    assert (layer.bias == 0).all()
    assert torch.equal(before, torch.get_rng_state())


def test_tensors_come_one_at_a_time_the_largest_first(tmp_path):
    file = tmp_path / "some.safetensors"
    tensors = {"a": torch.arange(3.0), "b": torch.ones(2, 5, dtype=torch.float64), "c": torch.tensor(4)}
    save_file(tensors, file)
    found = dict(WeightsFile(file))
    assert [*found] == ["b", "a", "c"]
    for name, tensor in tensors.items():
        assert torch.equal(found[name], tensor) and found[name].dtype == tensor.dtype
    opened = WeightsFile(file)
    file.write_bytes(file.read_bytes()[:-3])
    refuses(DataError, "not a readable weights file", WeightsFile, file)
    refuses(DataError, "not a readable weights file .* greater than file size", opened.__getitem__, "a")


def test_a_file_is_opened_once_whatever_is_done_to_its_place(tmp_path, monkeypatch):
    file = tmp_path / "some.safetensors"
    tensors = {
        "none": torch.empty(0, 3),
        "odd": torch.tensor([True, False, True]),
        "half": torch.randn(3, 1).bfloat16(),
        "int": torch.tensor([[-1, 2**40]]),
    }
    save_file(tensors, file, metadata={"format": "pt"})
    opened = WeightsFile(file)
    monkeypatch.setattr(weights, "safe_open", None)
    file.unlink()
    for _ in range(2):
        assert {name: tensor.tolist() for name, tensor in opened.items()} == {n: t.tolist() for n, t in tensors.items()}
    assert all(opened[name].dtype == tensor.dtype for name, tensor in tensors.items()) and len(opened) == 4
    opened["int"].zero_()
    assert opened["int"].tolist() == [[-1, 2**40]], "a copy was changed"


def test_no_header_is_read_for_each_tensor(folder, monkeypatch):
    opened = []
    monkeypatch.setattr(weights, "safe_open", lambda *given, **how: opened.append(given) or safe_open(*given, **how))
    assert len(System.load(folder).state_dict()) > 50 > 3 >= len(opened)
