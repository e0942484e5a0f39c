"""The notebooks run from their first cell to their last, without a network, and print what they promise."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import IMPORT_PATH

FOLDER = Path(__file__).parent.parent / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def cells(path):
    """Return the cells of a notebook that hold code."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def printed(name, folder):
    """Run the cells of a notebook in one namespace, in an empty folder; return what they print."""
    code = "\n\n".join("".join(cell["source"]) for cell in cells(FOLDER / f"{name}.ipynb"))
    (folder / "notebook.py").write_text(code, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": IMPORT_PATH, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "notebook.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_output(path):
    assert [cell["execution_count"] for cell in cells(path)] == [None] * len(cells(path))
    assert not [output for cell in cells(path) for output in cell["outputs"]]
    assert not [cell for cell in cells(path) if re.search(r"^\s*[!%]", "".join(cell["source"]), re.MULTILINE)]


@pytest.mark.slow
def test_the_first_translator_translates(tmp_path):
    output = printed("first_translator", tmp_path)
    assert "Der Fluss ist heute leise." in output
    assert float(re.search(r"^bleu ([\d.]+)", output, re.MULTILINE)[1]) > 70


@pytest.mark.slow
def test_a_loss_of_ones_own_learns_as_well(tmp_path):
    scores = re.findall(r"^(cross entropy|focal) +BLEU +([\d.]+)", printed("own_method", tmp_path), re.MULTILINE)
    assert [name for name, _ in scores] == ["cross entropy", "focal"]
    assert min(float(bleu) for _, bleu in scores) > 80


@pytest.mark.slow
def test_a_talk_becomes_subtitles(tmp_path):
    pytest.importorskip("espeakng_loader")
    output = printed("speech_to_subtitles", tmp_path)
    assert float(re.search(r"^bleu ([\d.]+)", output, re.MULTILINE)[1]) > 60
    blocks = re.findall(r"^\d\n[\d:,]{12} --> [\d:,]{12}\nAm .*\.$", output, re.MULTILINE)
    assert len(blocks) == 4
