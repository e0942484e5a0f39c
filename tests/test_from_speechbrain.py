"""The guide for those who come from SpeechBrain: its Brain trains the objective of a recipe."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dragoman
from tests.conftest import IMPORT_PATH

ROOT = Path(__file__).parent.parent
SMALL = {"width": 32, "heads": 2, "feedforward": 64, "encoder_layers": 1, "decoder_layers": 1, "pieces": 300}
SMALL |= {"dropout": 0.0, "device": "cpu", "workers": 0, "noprogressbar": True}


@pytest.mark.slow
def test_a_brain_trains_the_objective_of_a_recipe(tmp_path):
    """In a process of its own: speechbrain's lazy modules fail in whatever inspects all modules after them."""
    text = (ROOT / "docs" / "from_speechbrain.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    keys = {"data_folder": str(tmp_path), "source_language": "en", "target_language": "de", **SMALL}
    code, replaced = re.subn(r"^keys = .*$", lambda _: f"keys = {keys!r}", code, flags=re.MULTILINE)
    assert replaced == 1
    known = json.loads((ROOT / "tests/golden/translations.json").read_text(encoding="utf-8"))["translations"]
    pairs = [(one["source"], one["hypotheses"][0]["text"]) for one in known if one["source"].strip()]
    rows = [f"{number}\t{source}\t{target}" for number, (source, target) in enumerate(pairs[:6]) if target]
    for split in ("train", "dev", "test"):
        table = "\n".join(["id\tsource_text\ttarget_text", *rows]) + "\n"
        (tmp_path / f"{split}.tsv").write_text(table, encoding="utf-8")
    (tmp_path / "train.py").write_text("import torch\n\ntorch.manual_seed(1)\n" + code, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": IMPORT_PATH, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "train.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    losses = [float(loss) for loss in re.findall(r"^epoch \d+: loss (.*)$", done.stdout, re.MULTILINE)]
    assert len(losses) == 20 and losses[-1] < 0.8 * losses[0], losses
    translation = dragoman.load(tmp_path / "model", device="cpu").translate(["Good morning."])
    assert done.stdout.splitlines()[-1] == str(translation)


def test_the_guides_augmentation_reaches_the_model(tmp_path):
    text = (ROOT / "docs" / "from_speechbrain.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(base: .*?)```", text, re.DOTALL)
    path = tmp_path / "noisy.yaml"
    path.write_text("# Noisy\n" + block.replace("recipes/own", str(ROOT / "recipes/own")), encoding="utf-8")
    keys = {"data_folder": "there", "source_language": "en", "target_language": "de"}
    recipe = dragoman.Recipe.load(path, keys)
    recipe.check()
    (fit,) = recipe.plan["fit"].plain.values()
    assert "WaveformAugmentation" in str(fit) and "'snr': [0.0, 15.0]" in str(fit)
