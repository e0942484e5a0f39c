"""Available memory against what made-up systems say, and the refusal's figures."""

import subprocess

import pytest
import torch

from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine import memory
from dragoman.shared.machine.memory import available_memory, check_workers, in_units, refuse_over
from tests.small import refuses

GB = 1024**3


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A system with 8 GB of available memory; write into it to make it another one."""
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "cgroup")
    write(tmp_path / "proc" / "meminfo", f"MemTotal: {16 * 2**20} kB\nMemAvailable: {8 * 2**20} kB\n")
    return tmp_path


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(str(text))


def test_without_control_groups_it_is_what_the_system_has_left(system):
    assert available_memory() == 8 * GB


@pytest.mark.parametrize("group", ["", "job/step", "job"], ids=["container", "own", "above"])
def test_a_control_group_of_version_2_leaves_less(system, group):
    write(system / "proc/self/cgroup", "0::/job/step\n")
    folder = system / "cgroup" / group
    write(folder / "memory.max", 4 * GB)
    write(folder / "memory.current", 3 * GB)
    write(folder / "memory.stat", f"anon {GB}\ninactive_file {2 * GB}\n")
    assert available_memory("cpu") == 3 * GB


def test_a_control_group_of_version_1_leaves_less(system):
    write(system / "proc/self/cgroup", "5:cpu:/x\n4:memory:/x\n0::/\n")
    folder = system / "cgroup/memory/x"
    write(folder / "memory.limit_in_bytes", 2 * GB)
    write(folder / "memory.usage_in_bytes", GB)
    write(folder / "memory.stat", "cache 5\ntotal_inactive_file 7\n")
    assert available_memory() == GB + 7


def test_groups_without_limit_or_with_a_great_one_leave_all(system):
    write(system / "proc/self/cgroup", "4:memory:/x\n0::/y\n")
    write(system / "cgroup/y/memory.max", "max")
    write(system / "cgroup/y/memory.current", GB)
    write(system / "cgroup/memory/x/memory.limit_in_bytes", 2**63 - 4096)
    write(system / "cgroup/memory/x/memory.usage_in_bytes", GB)
    assert available_memory() == 8 * GB


def test_a_group_beyond_its_limit_leaves_nothing(system):
    write(system / "proc/self/cgroup", "0::/\n")
    write(system / "cgroup/memory.max", GB)
    write(system / "cgroup/memory.current", 2 * GB)
    assert available_memory() == 0


def test_a_system_that_does_not_tell_counts_with_all_of_its_memory(system):
    (system / "proc/meminfo").unlink()
    pages, size = (int(subprocess.check_output(["getconf", name])) for name in ("_PHYS_PAGES", "PAGESIZE"))
    assert available_memory() == pages * size


def test_what_a_gpu_has_free_includes_what_the_process_holds_unused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 5 * GB)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 3 * GB)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (7 * GB, 80 * GB))
    assert available_memory("cuda:1") == 9 * GB


def test_a_refusal_names_both_figures(system):
    said = r"^--beam 9: needs about 8\.5 GB of memory on cpu, but only 8\.0 GB is avail"
    refuses(UsageError, said, refuse_over, 17 * GB // 2, "--beam 9")
    refuses(DataError, "more than 100 million EB", lambda: refuse_over(10**400, "layers", error=DataError))
    refuse_over(8 * GB, "--beam 8")


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0.0 B"), (1023, "1,023.0 B"), (1024, "1.0 KB"), (1536 * 1024, "1.5 MB"), (2**70, "1,024.0 EB")],
)
def test_sizes_in_units(size, text):
    assert in_units(size) == text


def test_a_limit_of_address_space_leaves_less(system, monkeypatch):
    write(system / "proc/self/statm", "1000 7 7")
    limits = {memory.resource.RLIMIT_AS: (5 * GB, 6 * GB)}
    monkeypatch.setattr(memory.resource, "getrlimit", limits.__getitem__)
    assert available_memory() == 5 * GB - 1000 * memory.resource.getpagesize()
    limits[memory.resource.RLIMIT_AS] = (memory.resource.RLIM_INFINITY, memory.resource.RLIM_INFINITY)
    assert available_memory() == 8 * GB
    limits[memory.resource.RLIMIT_AS] = (5 * GB, 6 * GB)
    (system / "proc/self/statm").unlink()
    assert available_memory() == 8 * GB


def test_other_devices(system, monkeypatch):
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 9 * GB)
    monkeypatch.setattr(torch.mps, "driver_allocated_memory", lambda: 2 * GB)
    assert available_memory("mps") == 7 * GB
    assert available_memory(torch.device("meta")) == 8 * GB


def test_processes_that_read_data_are_refused_by_their_memory(system):
    check_workers(0)
    check_workers(1024)
    said = "^--workers 1025: needs about 8.0 GB of memory on cpu, but only 8.0 GB is available$"
    refuses(UsageError, said, check_workers, 1025)
    refuses(UsageError, "^workers must not be negative, not -1$", check_workers, -1)


def test_groups_that_count_something_else_leave_all(system):
    write(system / "proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory,pids:/y:z\n")
    for name in ("x", "y:z"):
        write(system / f"cgroup/memory/{name}/memory.limit_in_bytes", 3 * GB if name == "x" else 2 * GB)
        write(system / f"cgroup/memory/{name}/memory.usage_in_bytes", GB)
    assert available_memory() == GB
    (system / "cgroup/memory/y:z/memory.limit_in_bytes").write_text("unlimited")
    assert available_memory() == 8 * GB
    (system / "cgroup/memory/x/memory.limit_in_bytes").unlink()
    write(system / "cgroup/memory/memory.limit_in_bytes", 4 * GB)  # of the root
    write(system / "cgroup/memory/memory.usage_in_bytes", GB)
    assert available_memory() == 3 * GB
