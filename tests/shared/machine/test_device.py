"""A machine is apart from the run's folder: what computes, how precisely, and among how many processes."""

import pytest
import torch

from dragoman.shared.errors import UsageError
from dragoman.shared.machine import device
from dragoman.shared.machine.device import Machine, precision_of
from tests.small import refuses


def test_a_machine_needs_no_folder(monkeypatch):
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    machine = Machine(device="cpu")
    assert (machine.precision, machine.rank, machine.world, machine.main) == ("fp32", 2, 3, False)
    assert machine.autocast_dtype is None


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)]
)
def test_autocast_multiplies_in_the_precision(precision, dtype):
    machine = Machine(device="cpu", precision=precision)
    with machine.autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype
    assert precision_of(machine.autocast_dtype) == precision


def test_processes_of_a_run_have_a_gpu_each(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert device._device("cuda", several=True) == device._device("cuda:1", several=False) == "cuda:1"
    said = "device 'cuda:1': several processes cannot share a GPU; say cuda"
    refuses(UsageError, said, device._device, "cuda:1", several=True)
    refuses(UsageError, "there is no GPU 2; torch sees 2", device._device, "cuda:2", several=False)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"precision": "fp8"}, "precision must be one of auto, fp32, bf16, fp16, int8, not 'fp8'"),
        ({"device": "gpu"}, "device must"),
        ({"compile": "yes"}, "compile must be auto, True or False, not 'yes'"),
        ({"workers": -1}, "^workers must not be negative, not -1$"),
        ({"memory_share": 0.0}, "^memory_share must be above 0 and at most 1, not 0.0$"),
        ({"memory_share": 1.5}, "not 1.5$"),
    ],
)
def test_what_there_is_not_is_refused(option, message):
    refuses(UsageError, message, Machine, **{"device": "cpu"} | option)


def test_defaults_and_the_processes_of_torchrun(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    machine = Machine(device="cpu")
    assert (machine.rank, machine.world, machine.workers, machine.main) == (0, 1, 1, True)
    assert machine.compile is False and not machine.deterministic
    assert Machine(device="cpu", compile=True).compile is True and precision_of(None) == "fp32"
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert Machine().device == "cpu"
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    assert device._device("cuda", several=True) == device._device("cuda:0", several=False) == "cuda:0"
    refuses(UsageError, "^device 'cuda:1': there is no GPU 1; torch sees 1$", device._device, "cuda:1", several=False)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert device._device("auto", several=True) == "cuda:0"


@pytest.mark.parametrize(("has", "precision"), [(True, "bf16"), (False, "fp32")])
def test_gpus_compute_in_bfloat16_where_they_have_it(monkeypatch, has, precision):
    asked = []
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda **how: asked.append(how) or has)
    assert Machine(device="cuda:0").precision == precision and asked == [{"including_emulation": False}]
    assert Machine(device="cuda:0", precision="fp16").autocast_dtype == torch.float16
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    refuses(UsageError, "^device 'mps' is not available on this machine$", device._device, "mps", several=False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: True)
    assert (Machine(device="mps").device, Machine(device="mps").precision) == ("mps", "fp32")
    monkeypatch.setattr("torch.autocast", lambda kind, dtype: (kind, dtype))
    assert Machine(device="cuda:0").autocast() == ("cuda", torch.bfloat16) or not has


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda:", "cpu:0", "mps:0", "auto:1", ""])
def test_names_of_no_device_are_refused(name):
    said = f"^device must be auto, cpu, cuda, cuda:N or mps, not {name!r}$"
    refuses(UsageError, said, device._device, name, several=False)


@pytest.mark.parametrize(
    ("given", "found", "compiled"), [("auto", True, True), ("auto", False, False), (False, True, False)]
)
def test_layers_are_compiled_on_gpus_where_there_is_a_compiler(monkeypatch, caplog, given, found, compiled):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda including_emulation: True)
    monkeypatch.setattr(device, "find_spec", lambda name: object())
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/gcc" if found else None)
    assert Machine(device="cuda", compile=given).compile is compiled
    assert ("a C compiler cannot be found" in caplog.text) is (given == "auto" and not found)
