"""The first line of a run's log; its last one is compared where runs are (test_running.py)."""

from types import SimpleNamespace

import pytest
import torch

from shared.run import announcing


@pytest.mark.parametrize(
    ("device", "precision", "bfloat16", "hinted"),
    [
        ("cuda:0", "fp32", False, True),
        ("cuda:0", "fp16", False, False),
        ("cuda:0", "fp32", True, False),
        ("cpu", "fp32", False, False),
    ],
)
def test_a_gpu_without_bfloat16_is_told_what_is_faster(device, precision, bfloat16, hinted, monkeypatch):
    monkeypatch.setattr(announcing, "hardware", lambda device: "1 x GPU")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: bfloat16)
    line = announcing.beginning(SimpleNamespace(device=device, precision=precision, world=1))
    assert line.startswith(f"device {device} (1 x GPU), precision {precision}")
    assert ("--precision fp16 may be faster" in line) == hinted
