"""The package of one's own in docs/adding_a_method.md works as it is printed there."""

import json
import math
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "adding_a_method.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"<!-- (\S+) -->\n```\w*\n(.*?)```", PAGE, re.DOTALL))
RUN, TRANSLATE = (shlex.split(line) for line in BLOCKS.pop("commands").splitlines())
SMALL = """
    --updates 2 --validate_every 1 --average 'best 1' --warmup 1 --width 16 --heads 2 --feedforward 32 --pieces 300
    --encoder_layers 1 --decoder_layers 1 --validation.limit 2 --beam 2 --rules.maximum_length_extra 5
    --workers 0 --device cpu --noprogressbar True
"""
NUMBERS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf", "six": "sechs"}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Write the files of the page and a tiny corpus; return the folder."""
    folder = tmp_path_factory.mktemp("outside") / "my_methods"
    for name, text in BLOCKS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "my_methods" / "__init__.py").touch()
    pairs = [(f"{one} & {two}", f"{NUMBERS[one]} und {NUMBERS[two]}") for one in NUMBERS for two in NUMBERS]
    (folder / "my_data").mkdir()
    for split, part in (("train", pairs[6:]), ("dev", pairs[:3]), ("test", pairs[3:6])):
        rows = ["id\tsource_text\ttarget_text", *("\t".join([f"{split}{n}", *pair]) for n, pair in enumerate(part))]
        (folder / "my_data" / f"{split}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "input.txt").write_text("one & six\ntwo\n", encoding="utf-8")
    return folder


def start(words, folder, *paths):
    """Run words in a process of its own, which finds this project and the given folders; return what it printed."""
    path = os.pathsep.join(map(str, [ROOT, *paths]))
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def command(words, folder, *paths):
    """Run a line that begins with "dragoman"."""
    assert words[0] == "dragoman"
    return start(["-P", "-m", "dragoman", *words[1:]], folder, *paths)  # -P: no module of the folder, as the command


@pytest.fixture(scope="module")
def trained(package):
    """Run the recipe for two updates."""
    code, _, errors = command([*RUN, *shlex.split(SMALL)], package)
    assert code == 0, errors
    return package / "results" / "own" / "en-de" / "confident" / "1"


def test_the_page_has_all_files_of_the_package():
    shown = re.search(r"^my_methods/\n((?: {4}\S.*\n)+)", PAGE, re.MULTILINE)
    assert shown is not None
    listed = {line.split()[0] for line in shown[1].splitlines()}
    assert listed == {*BLOCKS, "my_methods/__init__.py"}


@pytest.mark.recipes
def test_the_loss_takes_part_in_training(trained):
    records = map(json.loads, (trained / "fit" / "history.jsonl").read_text(encoding="utf-8").splitlines())
    (update,) = [record for record in records if "parts" in record]
    parts = update["parts"]
    assert -math.log(400) < parts["confidence"] < 0
    assert update["loss"] == pytest.approx(parts["cross_entropy"] + 0.1 * parts["confidence"])


@pytest.mark.recipes
def test_a_recipe_of_ones_own_is_trained_scored_and_translates(package, trained):
    assert (trained / "evaluate").is_dir()
    code, output, errors = command(TRANSLATE, package)
    assert code == 0, errors
    assert len(output.splitlines()) == 2


@pytest.mark.recipes
def test_a_model_folder_imports_nothing_by_itself(package, trained):
    without = [word for word in TRANSLATE if word not in ("--package", "my_methods")]
    code, _, errors = command(without, package)
    assert code == 1
    assert "Replace" in errors and "--package" in errors


@pytest.mark.recipes
def test_an_installed_package_needs_no_option(package, trained, tmp_path):
    ((group, points),) = re.findall(r'entry-points\."(\S+)"\]\n(.*)', BLOCKS["pyproject.toml"], re.DOTALL)
    information = tmp_path / "my_methods-0.1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: my-methods\nVersion: 0.1\n", encoding="utf-8")
    (information / "entry_points.txt").write_text(f"[{group}]\n{points.replace(chr(34), '')}", encoding="utf-8")
    (tmp_path / "my_methods").symlink_to(package / "my_methods")
    without = [word for word in TRANSLATE if word not in ("--package", "my_methods")]
    code, output, errors = command(without, package, tmp_path)
    assert code == 0, errors
    assert len(output.splitlines()) == 2


def test_the_test_of_the_page_passes(package):
    code, output, errors = start(["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"], package, package)
    assert code == 0, output + errors
    assert "1 passed" in output
