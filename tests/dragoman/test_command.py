"""The package's face: the command, and packages of others that are in the way of ours."""

import subprocess
import sys
from importlib.metadata import version

import pytest


def python(*arguments, cwd=None, **environment):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=cwd, timeout=120)


@pytest.mark.parametrize("module", ["dragoman", "shared.cli"])
def test_the_command_tells_its_version(module):
    result = python("-m", module, "--version")
    assert (result.returncode, result.stdout) == (0, f"dragoman {version('dragoman')}\n")


def test_shells_can_complete_the_command():
    assert "--install-completion" in python("-m", "dragoman", "--help").stdout


def test_importing_is_light_and_names_are_found():
    code = "import sys, dragoman; assert not {'torch', 'numpy', 'shared.errors'} & set(sys.modules); "
    code += "assert set(dir(dragoman)) == set(dragoman.__all__) and all(hasattr(dragoman, n) for n in dragoman.__all__)"
    assert python("-c", code).returncode == 0
    result = python("-c", "import dragoman; dragoman.lod")
    assert "module 'dragoman' has no attribute 'lod'" in result.stderr


@pytest.mark.parametrize("name", ["shared", "mt", "st", "recipes"])
def test_a_package_of_others_that_is_in_the_way_is_named(name, tmp_path):
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text('"""Somebody else\'s."""\n')
    result = python("-m", "dragoman", "recipes", cwd=tmp_path)  # the current folder comes first on the path
    assert result.returncode == 2 and len(result.stderr.splitlines()) == 1
    assert f"the package '{name}' at {tmp_path / name}" in result.stderr and "in the way" in result.stderr
    result = python("-c", "import dragoman; dragoman.load", cwd=tmp_path)
    assert "ImportError" in result.stderr and str(tmp_path / name) in result.stderr


def test_who_installed_the_package_is_named(tmp_path, monkeypatch):
    from dragoman import packages

    monkeypatch.setattr(packages, "packages_distributions", lambda: {"shared": ["dragoman", "their-shared"]})
    assert "installed by their-shared," in packages._culprit("shared", tmp_path / "shared" / "__init__.py")
