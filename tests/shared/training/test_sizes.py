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


@pytest.mark.parametrize(
    ("parts", "here", "numbers"),
    [
        (1, 8, 8 + 3 * 8),  # one process copies all: what learns with two moments
        (2, 1, 8 + 3 * 4),  # a machine that has one of two: of two rows each, one
        (8, 4, 8 + 3 * 8),  # two of eight have a row, the others none
    ],
)
def test_the_copy_that_is_written_is_counted_by_hand(monkeypatch, parts, here, numbers):
    """Of 16 parameters, 8 learn, and are divided among processes; each number has 4 bytes."""
    asked = []
    monkeypatch.setattr(sizes, "refuse_over", lambda *given: asked.append(given))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(here))
    model = nn.ModuleDict({"first": nn.Linear(3, 2).requires_grad_(False), "second": nn.Linear(3, 2)})
    sizes.check_copy(model, Adam(), parts, "cpu")
    assert asked == [(4 * numbers, "checkpoints: the copy of parameters and moments that is written")]


def test_pinned_memory_is_a_power_of_two_for_each_tensor(monkeypatch):
    """Matrices (2, 3) of 24 bytes take 32, a row of 12 takes 16, vectors of 8 take 8, and half of one 4."""
    asked = []
    monkeypatch.setattr(sizes, "refuse_over", lambda size, _: asked.append(size))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    model = nn.ModuleDict({"first": nn.Linear(3, 2).requires_grad_(False), "second": nn.Linear(3, 2)})
    for parts in (1, 2):
        sizes.check_copy(model, Adam(), parts, "cuda:0")
    assert asked == [(32 + 8) + 3 * (32 + 8), (32 + 8) + 3 * (16 + 4)]


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
