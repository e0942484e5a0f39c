"""Folders of unbabel-comet that are not whole, or of another kind, are refused in one line; scoring by command."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from dragoman.commands.score import Learned, score_files
from dragoman.exchange.comet import read_comet
from dragoman.exchange.comet_models import CometModel
from dragoman.exchange.learned import LearnedMetric
from dragoman.reporting.significance import compare
from dragoman.shared.errors import DataError, UsageError
from tests.small import Bomb, refuses

FIXTURES = Path(__file__).parents[2] / "parity" / "comet"
CHECKPOINT = Path("checkpoints") / "model.ckpt"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that may be changed, with its encoder's files beside it."""
    shutil.copytree(FIXTURES / "encoder", tmp_path / "encoder")
    shutil.copytree(FIXTURES / "mix_sparsemax", tmp_path / "metric")
    return tmp_path / "metric"


def change(folder: Path, **values: Any) -> None:
    """Change settings in both places."""
    path = folder / "hparams.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | values))
    checkpoint = torch.load(folder / CHECKPOINT, weights_only=True)
    checkpoint["hyper_parameters"] |= values
    torch.save(checkpoint, folder / CHECKPOINT)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"class_identifier": "ranking_metric"}, "class_identifier 'ranking_metric' has no counterpart here, only"),
        ({"encoder_model": "BERT"}, "encoder_model 'BERT' has no counterpart here, only XLM-RoBERTa"),
        ({"pretrained_model": "big"}, r"has no config.json: .* hf download big config.json tokenizer.json"),
        ({"pool": "default"}, "pool 'default' has no counterpart here, only avg, cls, max"),
        ({"activations": "Mish"}, "activations 'Mish' has no counterpart"),
        ({"layer": 4}, "layer 4 is neither 'mix' nor a number from 0 to 3"),
        ({"hidden_sizes": [0]}, r"hidden_sizes \[0\] are no widths"),
        ({"hidden_sizes": [14, 7]}, r"is \(13, 72\) instead of \(14, 72\)"),
        ({"hidden_sizes": [13]}, "is unexpected"),
    ],
)
def test_other_settings_are_refused(folder: Path, values: dict[str, Any], message: str) -> None:
    change(folder, **values)
    with pytest.raises(DataError, match=message) as raised:
        read_comet(folder)
    assert "--allow" not in str(raised.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"word_level_training": True}, r"models that mark words as errors \(XCOMET\) are not read"),
        ({"input_segments": ["src", "mt"]}, "are not 'mt' with 'src', 'ref' or both behind it"),
        ({"sent_layer": 4}, "layer 4 is neither 'mix' nor a number from 0 to 3"),
    ],
)
def test_other_joined_models_are_refused(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    shutil.copytree(FIXTURES / "encoder", tmp_path / "encoder")
    shutil.copytree(FIXTURES / "joined_with_source", tmp_path / "metric")
    change(tmp_path / "metric", **values)
    refuses(DataError, message, read_comet, tmp_path / "metric")


@pytest.mark.parametrize(
    ("layers", "message"), [(2, "encoder of 3 layers, but .* describes 2"), (4, "of 3 layers, but .* describes 4")]
)
def test_an_encoder_of_other_layers_is_refused(folder: Path, layers: int, message: str) -> None:
    path = folder.parent / "encoder" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"num_hidden_layers": layers}))
    refuses(DataError, message, read_comet, folder)


def test_a_mixture_of_other_layers_is_refused(folder: Path) -> None:
    checkpoint = torch.load(folder / CHECKPOINT, weights_only=True)
    del checkpoint["state_dict"]["layerwise_attention.scalar_parameters.3"]
    torch.save(checkpoint, folder / CHECKPOINT)
    refuses(DataError, "mixes 3 layers, but the encoder has 4 with its embedding", read_comet, folder)


def test_missing_files_are_named(folder: Path) -> None:
    (folder / CHECKPOINT).unlink()
    refuses(DataError, r"model.ckpt: cannot be read", read_comet, folder)
    with pytest.raises(DataError, match=r"hparams.yaml: no such file: a folder of unbabel-comet holds hparams.yaml"):
        read_comet(folder.parent)
    torch.save({"model": {}}, folder / CHECKPOINT)
    refuses(DataError, "has no hyper_parameters, so it is no checkpoint of unbabel-comet", read_comet, folder)


def test_a_checkpoint_runs_nothing(folder: Path) -> None:
    torch.save({"state_dict": {}, "hyper_parameters": Bomb(folder / "trace")}, folder / CHECKPOINT)
    refuses(DataError, r"refused, because it asks for (_?io|builtins)\.open", read_comet, folder)
    assert not (folder / "trace").exists()


def texts(key: str) -> list[str]:
    return [" ".join(row[key].split()) for row in json.loads((FIXTURES / "segments.json").read_text(encoding="utf-8"))]


def metric(model: CometModel) -> LearnedMetric:
    return LearnedMetric(model, texts("src"), [texts("ref")])


def test_scores_of_segments_are_compared() -> None:
    scorer = metric(read_comet(FIXTURES / "mix_sparsemax"))
    one, other = scorer.count(texts("mt")), scorer.count(texts("ref"))
    found = compare(one, other, samples=200, trials=200)
    assert found.value == pytest.approx(100 * one.values[:, 0].mean())
    assert found.difference == pytest.approx(100 * (one.values[:, 0] - other.values[:, 0]).mean())
    assert found.higher_is_better and found.low < found.difference < found.high
    assert "model:mix_sparsemax|" in found.signature
    with pytest.raises(DataError, match="cannot compare comet"):
        compare(one, metric(read_comet(FIXTURES / "mix_patched")).count(texts("mt")))


def test_what_a_model_cannot_read_is_refused() -> None:
    model = read_comet(FIXTURES / "mix_sparsemax")
    refuses(UsageError, "reads one set of references, not 2", LearnedMetric, model, ["a"], [["b"], ["c"]])
    refuses(DataError, "2 hypotheses, but 1 sources", lambda: LearnedMetric(model, ["a"], [["b"]]).count(["c", "d"]))


def test_files_are_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    paths = {key: tmp_path / key for key in ("src", "mt", "ref")}
    for key, path in paths.items():
        path.write_text("\n".join(texts(key)) + "\n", encoding="utf-8")
    learned = Learned(FIXTURES / "mix_sparsemax", paths["src"], "cpu")
    score_files(paths["mt"], [paths["ref"]], "de", ["chrf"], paths["ref"], learned=learned)
    printed = capsys.readouterr().out
    expected = 100 * float(metric(read_comet(FIXTURES / "mix_sparsemax")).count(texts("mt")).values[:, 0].mean())
    assert f"{paths['mt']}\tcomet\t{expected:.2f}\t23 lines\tcomet|model:mix_sparsemax|" in printed
    assert printed.count("comet") >= 3 and "2 texts were cut to the 30 tokens" in caplog.text
    paths["src"].write_text("one\n")
    with pytest.raises(DataError, match="src: 1 lines, but the references have 23"):
        score_files(paths["mt"], [paths["ref"]], "de", [], learned=learned)
    refuses(UsageError, "there is no metric", score_files, paths["mt"], [paths["ref"]], "de", [])
