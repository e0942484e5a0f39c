"""Sizes that no machine has are refused before memory is taken, with what is needed and what there is."""

import re
import shutil
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from dragoman.shared.training import sizes
from dragoman.shared.training.optimizer import Adam
from dragoman.shared.training.sizes import training_bytes
from dragoman.shared.training.tuning import Selected
from tests import small
from tests.shared.training.test_bad_runs import RECIPE, dragoman

__all__ = ["dragoman"]


def wide_system(source, target, width):
    tokenizer, options = source.tokenizer, {"positions": None, "dropout": 0.1, "width": width}
    sizes = {"width": width, "dropout": 0.1}
    parts = {"encoder": small.encoder(**sizes, feedforward=4 * width), "decoder": small.decoder(**sizes, feedforward=8)}
    model = small.translator(tokenizer, embedded=options, **parts)
    return small.system(tokenizer, model, inputs={"source": source}, output=target)


@pytest.fixture
def recipe(tmp_path, world):
    shutil.copy(world.manifest, tmp_path / "train.arrow")
    shutil.copy(world.manifest.parent / "t.model", tmp_path / "t.model")
    text = RECIPE.format(folder=tmp_path, module=__name__)
    text = text.replace("small_system {", "wide_system {width: !ref <width>, ")
    text = text.replace("updates: 4\n", "updates: 1\nwidth: 8\n")
    text = text.replace(
        "    updates: !ref", "    grad_accumulation_factor: !ref <grad_accumulation_factor>\n    updates: !ref"
    )
    (tmp_path / "recipe.yaml").write_text(text)
    return tmp_path / "recipe.yaml"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        # 12 width**2 parameters of the encoder and 8 of the decoder, 4 times (gradients, moments) 4 bytes
        ("width", 10**7, r"recipe\.yaml: phase 'fit' with --width 10000000: needs about 28\.4 PB of memory on cpu"),
        ("width", 10**12, "phase 'fit' with --width 1000000000000: .*(counted|needs about)"),
        ("grad_accumulation_factor", 10**9, r"grad_accumulation_factor 1000000000: the batches .* about [4-9]\.\d TB"),
        ("workers", 1_000_000, r"--workers 1000000: needs about 7\.6 TB of memory on cpu, but only .* is available"),
    ],
)
def test_a_size_that_no_machine_has_is_refused_before_memory_is_taken(recipe, tmp_path, dragoman, key, value, message):
    code, line = dragoman("run", recipe, f"--{key}", value)
    assert code == 2, line
    assert re.search(message, line), line
    assert not (tmp_path / "out" / "fit").exists()


def test_an_ordinary_size_is_trained(recipe, tmp_path, dragoman):
    assert dragoman("run", recipe, "--grad_accumulation_factor", 2, "--workers", 1)[0] == 0
    assert (tmp_path / "out" / "fit" / "checkpoints" / "00000001").is_dir()


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        (Adam(), 4 * (16 + 16 + 2 * 16)),  # of 16 parameters: themselves, gradients, two moments; 4 bytes each
        (Adam(multipliers={"first.*": 0.0}), 4 * (16 + 16 + 2 * 8)),  # no moments where nothing moves
        (Adam(tuning=Selected(parameters="second.*")), 4 * (16 + 8 + 2 * 8)),  # nor gradients where nothing learns
    ],
)
def test_bytes_of_a_training_by_hand(optimizer, expected):
    with torch.device("meta"):
        model = nn.ModuleDict({"first": nn.Linear(3, 2), "second": nn.Linear(3, 2)})
    assert training_bytes(model, optimizer) == expected


def test_the_copy_that_is_written_is_counted_by_hand(monkeypatch):
    """Of 16 parameters, 8 of which learn: themselves and two moments, 4 bytes each; of two processes, each half."""
    asked = []
    monkeypatch.setattr(sizes, "refuse_over", lambda *given: asked.append(given))
    model = nn.ModuleDict({"first": nn.Linear(3, 2).requires_grad_(False), "second": nn.Linear(3, 2)})
    for parts, here in ((1, 8), (2, 1), (8, 4)):  # processes of which a machine has some
        monkeypatch.setenv("LOCAL_WORLD_SIZE", str(here))
        sizes.check_copy(model, Adam(), parts)
    said = "checkpoints: the copy of parameters and moments that is written"
    assert asked == [(4 * (16 + 2 * 8), said), *[(2 * (16 + 2 * 8), said)] * 2]


@pytest.mark.parametrize(("parts", "whose"), [(1, ""), (2, " of each of 2 processes")])
def test_batches_of_an_update_are_counted_with_their_processes(monkeypatch, parts, whose):
    asked = []
    monkeypatch.setattr(sizes, "refuse_over", lambda *given: asked.append(given))
    loader = SimpleNamespace(parts=parts, mean_bytes=lambda: 100)
    sizes.check_accumulation(3, loader, "cuda:0")
    said = f"grad_accumulation_factor 3: the batches of an update{whose}"
    assert asked == [(300 * parts, said, place) for place in ("cpu", "cuda:0")]
    sizes.check_accumulation(3, loader, "cpu")
    assert len(asked) == 3
