"""Plain training needs no extra; what needs one names it, before any work where nothing can be done without."""

import logging
import os
import subprocess
import sys

import pytest
import torch

from dragoman.shared.errors import UsageError
from dragoman.shared.machine import extras
from dragoman.shared.padded import Padded
from dragoman.shared.training.history import History
from dragoman.st.waveform_augmentation import WaveformAugmentation
from tests.conftest import IMPORT_PATH
from tests.small import refuses

#: A process without these libraries, which runs dragoman.
WITHOUT = """
import importlib.util, sys

hidden, found = {"matplotlib", "tensorboard", "speechbrain"}, importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in hidden else found(name, *rest)
sys.modules |= dict.fromkeys(hidden)  # an import of None fails
from dragoman.cli.main import main
main()
"""


@pytest.fixture
def nothing(monkeypatch):
    """Let no library be installed."""
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    extras.present.cache_clear()
    yield
    extras.present.cache_clear()


def test_a_missing_library_is_named_once_with_its_extra(nothing, caplog):
    with caplog.at_level(logging.WARNING, "dragoman"):
        assert not any(extras.present("matplotlib", "plots", "no picture") for _ in range(3))
    assert caplog.messages == ["no picture: install matplotlib (pip install 'dragoman[plots]')"]
    with pytest.raises(UsageError, match=r"this needs the library peft: pip install 'dragoman\[adapters\]'"):
        extras.require("peft", "adapters", "this")


def test_a_history_is_kept_without_pictures(nothing, training_curve, tmp_path):
    history = History(tmp_path)
    row = {"update": 1, "loss": 2.0, "parts": {"ctc": 2.0}, "lr": 0.1}
    history.add(row)
    history.plot()
    history.close()
    assert history.rows() == [row] and [path.name for path in tmp_path.iterdir()] == ["history.jsonl"]


def test_augmentation_is_refused_where_it_would_distort_and_nowhere_else(nothing):
    speech = Padded(torch.ones(1, 400), torch.tensor([400]))
    augment = WaveformAugmentation(chunk_share=1.0)
    assert augment.eval()(speech) is speech
    assert torch.equal(WaveformAugmentation()(speech).values, speech.values)
    refuses(UsageError, r"waveform_augmentation needs .* 'dragoman\[speechbrain\]'", augment.train(), speech)


def run(folder, *words):
    command = [sys.executable, "-P", "-c", WITHOUT, "run", *words, "--source_language", "en", "--target_language", "de"]
    environment = os.environ | {"PYTHONPATH": IMPORT_PATH, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_a_recipe_with_augmentation_is_refused_before_its_first_phase(tmp_path):
    augmentation = "!new:st.waveform_augmentation.WaveformAugmentation {noise_share: 0.5}"
    (tmp_path / "train.tsv").write_text("audio\tsource_text\ttarget_text\na.wav\tone\teins\n")
    done = run(tmp_path, "own/st", "--data_folder", ".", "--split", "0.1", "--waveform_augmentation", augmentation)
    assert done.returncode == 2 and "pip install 'dragoman[speechbrain]'" in done.stderr, done.stderr
    assert not (tmp_path / "manifests").exists()


@pytest.mark.slow
def test_a_translator_is_trained_without_any_extra(tmp_path):
    for split in ("train", "dev", "test"):
        rows = "".join(f"one two {split} {n}\teins zwei {split} {n}\n" for n in range(8))
        (tmp_path / f"{split}.tsv").write_text("source_text\ttarget_text\n" + rows)
    done = run(tmp_path, "own/mt_small", "--data_folder", ".", "--debug", "--rules.maximum_length_extra", "9")
    assert done.returncode == 0, done.stderr
    for extra in ("plots", "tensorboard"):
        assert done.stderr.count(f"(pip install 'dragoman[{extra}]')") == 1
    assert next(tmp_path.rglob("history.jsonl")).stat().st_size and not list(tmp_path.rglob("training.png"))
