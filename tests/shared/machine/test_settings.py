"""Memory that a process keeps, counted by the system's page faults."""

import platform
import subprocess
import sys
import warnings
from unittest.mock import patch

import pytest
import torch

from dragoman.shared.errors import DataError
from dragoman.shared.machine.settings import enough_memory, prepare_process

STEPS = """
import resource
import torch
from dragoman.shared.machine.settings import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(2):
        torch.zeros(2**24).add_(1)  # 64 MiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
usual = min(faults() for _ in range(3))
assert keep_freed_memory()
faults()
print(usual, min(faults() for _ in range(3)))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives memory back in this way")
def test_what_is_freed_is_used_again():
    printed = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=True).stdout
    usual, kept = map(int, printed.split())
    assert kept < usual / 10


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuFFT error: CUFFT_ALLOC_FAILED"),
        MemoryError(),
    ],
)
def test_too_little_memory_is_one_error_whoever_says_it(error):
    with pytest.raises(DataError, match="too large"):
        with enough_memory("too large"):
            raise error


def test_a_real_allocation_that_fails_is_one_too_and_other_errors_stay():
    with pytest.raises(DataError, match="too large"):
        with enough_memory("too large"):
            torch.empty(2**50, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="shape"):
        with enough_memory("too large"):
            torch.ones(3).view(2)


IMPORTED = """
import importlib, os, pkgutil, signal, sys
import torch

def state():
    settings = [torch.backends.cuda.cudnn_sdp_enabled(), torch.get_num_threads(), torch.get_default_dtype()]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TORCH")}
    return [*settings, environment, signal.getsignal(signal.SIGTERM), list(sys.path), torch.random.initial_seed()]

forked = []
os.register_at_fork = lambda **given: forked.extend(function.__module__ for function in given.values())
before = state()
for module in pkgutil.walk_packages(importlib.import_module("dragoman").__path__, "dragoman."):
    if module.name != "dragoman.__main__":
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:  # of an extra: nothing of it is imported, then
            assert error.name in {"accelerate", "bitsandbytes", "peft"}, error
rooms = ("dragoman.shared.", "dragoman.st.", "dragoman.mt.")
assert len([name for name in sys.modules if name.startswith(rooms)]) > 200
ours = [name for name in forked if name.startswith("dragoman")]
assert state() == before and not ours, (state(), before, ours)
"""


def test_importing_changes_no_state_of_the_process():
    imported = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True)
    assert imported.returncode == 0, imported.stderr


def test_kernels_that_plan_for_each_shape_are_not_asked_on_a_gpu(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", asked.append)
    prepare_process("cpu")
    assert asked == []
    prepare_process("cuda:1")
    assert asked == [False]


def test_torchs_advice_about_tf32_is_not_passed_on():
    """torch's text, as inductor gives it to whoever compiles in fp32."""
    from torch._inductor.compile_fx import _warn_tf32_disabled  # which takes two seconds

    prepare_process("cuda:1")
    torch.backends.cuda.enable_cudnn_sdp(True)
    with (
        patch.multiple(torch.cuda, is_available=lambda: True, get_device_capability=lambda: (9, 0)),
        warnings.catch_warnings(record=True) as told,
    ):
        _warn_tf32_disabled.__wrapped__()
    assert not told
