"""The package's face: the command, its version, and other people's packages beside it."""

import subprocess
import sys
from importlib.metadata import version

import pytest

import dragoman


def python(*arguments, cwd=None, **environment):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=cwd, timeout=120)


@pytest.mark.parametrize("module", ["dragoman", "dragoman.cli.main"])
def test_the_command_tells_its_version(module):
    result = python("-m", module, "--version")
    assert (result.returncode, result.stdout) == (0, f"dragoman {version('dragoman')}\n")


def test_shells_can_complete_the_command():
    assert "--install-completion" in python("-m", "dragoman", "--help").stdout


def test_importing_is_light_and_names_are_found():
    code = "import sys, dragoman; dragoman.__version__; "
    code += "assert not {'torch', 'numpy', 'dragoman.shared.errors'} & set(sys.modules); "
    code += "assert set(dir(dragoman)) == set(dragoman.__all__) and all(hasattr(dragoman, n) for n in dragoman.__all__)"
    assert python("-c", code).returncode == 0
    assert "module 'dragoman' has no attribute 'lod'" in python("-c", "import dragoman; dragoman.lod").stderr


def test_help_is_two_screens_and_names_all_there_is():
    code = "import dragoman, inspect; help(dragoman); print(len(inspect.getmembers(dragoman)))"
    *lines, members = python("-c", code).stdout.splitlines()
    assert 30 < len(lines) <= 80
    listed = {line.split()[0] for line in lines if line.startswith(" " * 8) and "  " in line.strip()}
    assert {*dragoman.__all__} - {"__version__"} <= listed
    assert int(members) == len(dragoman.__all__)


def test_packages_of_others_with_common_names_are_not_in_the_way(tmp_path):
    for name in ("shared", "mt", "st", "recipes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text('raise SystemExit("somebody else\'s")\n')
    result = python("-m", "dragoman", "recipes", "own/mt", cwd=tmp_path)  # the current folder comes first on the path
    assert result.returncode == 0 and "own/mt " in result.stdout
    result = python("-m", "dragoman", "check", "own/mt", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
