"""A machine is apart from the run's folder: what computes, how precisely, and among how many processes."""

import pytest
import torch

from shared.errors import UsageError
from shared.machine.device import Machine, precision_of


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


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"precision": "fp8"}, "precision must be one of auto, fp32, bf16, fp16, not 'fp8'"),
        ({"device": "gpu"}, "device must"),
    ],
)
def test_what_there_is_not_is_refused(option, message):
    with pytest.raises(UsageError, match=message):
        Machine(**{"device": "cpu"} | option)
