"""`make offline`: what a machine lacks is found, and libraries that it cannot use are left out."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from benchmarks import offline
from benchmarks.offline import Target, gather, read_list, without_other_kernels
from tests.small import refuses


def wheel(folder: Path, name: str, version: str, *requires: str, files: tuple[str, ...] = ()) -> Path:
    """Write a wheel as pip would find it."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    information = f"{name}-{version}.dist-info"
    contents = {file: "kernel" for file in files}
    head = (f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {r}" for r in requires))
    contents[f"{information}/METADATA"] = "".join(f"{line}\n" for line in head)
    record = f"{information}/RECORD"
    contents[record] = "".join(f"{file},,\n" for file in (*contents, record))
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in contents.items():
            archive.writestr(file, content)
    return path


@pytest.fixture
def index(tmp_path, monkeypatch):
    """An index of made-up packages; what is fetched from it is noted."""
    published = {
        "reader": wheel(tmp_path, "reader", "2.0", "parser>=1", "wide; extra == 'all'", "old; python_version < '3.12'"),
        "parser": wheel(tmp_path, "parser", "1.5", "arrays>=2"),
        "arrays": wheel(tmp_path, "arrays", "2.2"),
        "wide": wheel(tmp_path, "wide", "1.0", "reader"),
    }
    fetched: list[str] = []

    def fetch(requirement: Requirement, target: Target, out: Path) -> Path:
        fetched.append(requirement.name)
        return published[requirement.name]

    monkeypatch.setattr(offline, "fetch", fetch)
    return fetched


def asked(*lines: str) -> list[Requirement]:
    return [Requirement(line) for line in lines]


def test_what_the_machine_lacks_is_fetched_and_what_that_requires(index, tmp_path):
    found = gather(asked("reader>=1", "torch>=2.11"), Target(read_list("torch==2.11.0\narrays==2.1\n")), tmp_path)
    assert index == ["reader", "parser"] and sorted(found.wheels) == ["parser", "reader"]
    assert found.there == ["torch>=2.11", "arrays>=2"] and not found.replaced


def test_a_version_that_does_not_do_is_replaced_and_extras_are_followed(index, tmp_path):
    found = gather(asked("reader[all]"), Target(read_list("arrays==1.9\nreader\nparser\n")), tmp_path)
    assert index == ["reader", "wide"] and found.replaced == ["reader (version unknown), replaced by 2.0"]
    index.clear()
    found = gather(asked("parser"), Target(read_list("arrays==1.9")), tmp_path)
    assert index == ["parser", "arrays"] and found.replaced == ["arrays 1.9, replaced by 2.2"]


def test_versions_that_contradict_each_other_are_refused(index, tmp_path):
    with pytest.raises(SystemExit, match=r"arrays 2\.2 was gathered, and something else requires arrays<2"):
        gather(asked("arrays", "arrays<2"), Target({}), tmp_path)


def test_the_list_is_read():
    text = "# comment\nNumPy==2.1.0\ntorch==2.11.0+cu130\nruamel.yaml\n-e git+there#egg=x\nlocal @ file:///wheel\n"
    versions = {"numpy": Version("2.1.0"), "torch": Version("2.11.0+cu130")}
    assert read_list(text) == versions | {"ruamel-yaml": None, "local": None}
    assert Target(read_list(text)).satisfies(Requirement("torch>=2.11"))
    for wrong in ("Package Version", "numpy==new", "numpy>=2"):
        refuses(SystemExit, "line 1 of the list is neither", read_list, wrong)


def test_libraries_for_other_accelerators_are_left_out_and_the_wheel_stays_whole(tmp_path):
    files = ("some/lib_cuda128.so", "some/lib_cuda130.so", "some/lib_rocm70.so", "some/lib_cpu.so", "some/a.py")
    path = wheel(tmp_path, "some", "1.0", files=files)
    without_other_kernels(path, "13.0")
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        listed = {line.split(",")[0] for line in archive.read("some-1.0.dist-info/RECORD").decode().splitlines()}
    assert names == listed
    packed = {"some/lib_cuda130.so", "some/lib_cpu.so", "some/a.py"}
    assert {name for name in names if "dist-info" not in name} == packed
    refuses(SystemExit, r"holds no library for CUDA 11\.8", without_other_kernels, path, "11.8")


def test_wheels_of_the_machine_alone_are_accepted():
    assert offline.fits("any", "x86_64") and offline.fits("manylinux_2_17_x86_64", "x86_64")
    assert not offline.fits("linux_x86_64", "x86_64") and not offline.fits("manylinux_2_17_x86_64", "aarch64")
    options = Target({}, glibc="2.28").options()
    assert "manylinux_2_28_x86_64" in options and "manylinux_2_29_x86_64" not in options
