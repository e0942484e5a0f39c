"""Memory that a process keeps, counted by the system's page faults."""

import platform
import subprocess
import sys

import pytest

STEPS = """
import resource
import torch
from shared.training.memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        torch.zeros(2**24).add_(1)  # 64 MiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
usual = min(faults() for _ in range(5))
assert keep_freed_memory()
faults()
print(usual, min(faults() for _ in range(5)))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives memory back in this way")
def test_what_is_freed_is_used_again():
    printed = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=True).stdout
    usual, kept = map(int, printed.split())
    assert kept < usual / 10
