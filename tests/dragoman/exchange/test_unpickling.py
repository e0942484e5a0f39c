"""Checkpoints of others are read without running anything that they hold."""

import argparse
import os
import pickle
from collections import OrderedDict, defaultdict
from pathlib import Path

import pytest
import torch

from dragoman.exchange.unpickling import StandIn, globals_of, plain, read_checkpoint
from dragoman.shared.errors import DataError
from tests.small import refuses


class Runs:
    """Pickled, it is a call: what an attacker writes into a checkpoint."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


class Imposter(argparse.Namespace):
    """Says that it is settings."""


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("call", [(os.system, "touch {}"), (eval, "open({!r}, 'w')"), (Path.touch, None)])
@pytest.mark.parametrize("place", ["model", "args", "extra_state"])
def test_a_checkpoint_that_calls_something_is_refused_and_nothing_happens(tmp_path, zipped, call, place):
    mark = tmp_path / "executed"
    function, template = call
    argument = mark if template is None else template.format(str(mark))
    content = {"model": {"w": torch.ones(2)}, "args": argparse.Namespace(arch="transformer"), "extra_state": {}}
    content[place] = Runs(function, argument)
    path = tmp_path / "checkpoint.pt"
    torch.save(content, path, _use_new_zipfile_serialization=zipped)
    refuses(DataError, r"checkpoint\.pt: refused, because it asks for \w+\.\w+", read_checkpoint, path)
    assert not mark.exists()
    torch.load(path, weights_only=False)  # it was a real one
    assert mark.exists()


def test_names_put_together_on_the_stack_are_refused(tmp_path):
    path = tmp_path / "checkpoint.pt"
    torch.save({"a": Runs(os.getcwd)}, path, pickle_protocol=4)
    assert "?" in globals_of(path)
    refuses(DataError, "refused", read_checkpoint, path)


@pytest.mark.parametrize("zipped", [True, False])
def test_settings_and_tensors_come_out_as_plain_data(tmp_path, zipped):
    weight = torch.randn(3, 2)
    meters = OrderedDict(loss=defaultdict(int, {"sum": 3}))
    content = {
        "args": argparse.Namespace(arch="transformer", betas=(0.9, 0.98), inner=argparse.Namespace(x=[1, None])),
        "model": OrderedDict(weight=weight, shared=weight, half=weight.half()),
        "extra_state": {"meters": meters, "place": Path("data-bin")},
    }
    path = tmp_path / "checkpoint.pt"
    torch.save(content, path, _use_new_zipfile_serialization=zipped)
    found = read_checkpoint(path)
    assert found["args"] == {"arch": "transformer", "betas": [0.9, 0.98], "inner": {"x": [1, None]}}
    assert torch.equal(found["model"]["weight"], weight) and found["model"]["half"].dtype == torch.float16
    assert found["extra_state"]["meters"] == {"loss": {"sum": 3}}


def test_settings_of_omegaconf_are_their_contents():
    """Its containers keep their entries in "_content", its nodes their value in "_val", beside much else."""
    node, container, plainly, built, empty = (StandIn() for _ in range(5))
    node.state = {"_metadata": None, "_val": 0.1}
    container.state = {"_parent": None, "_content": {"dropout": node, "layers": [node]}}
    plainly.state = {"a": node}
    built.given = ("data-bin", 3)
    expected = [{"dropout": 0.1, "layers": [0.1]}, {"a": 0.1}, "data-bin", None]
    assert plain([container, plainly, built, empty]) == expected


def test_the_allow_list_ends_with_the_reading(tmp_path):
    path = tmp_path / "checkpoint.pt"
    torch.save({"args": argparse.Namespace(arch="x")}, path)
    read_checkpoint(path)
    with pytest.raises(pickle.UnpicklingError):
        torch.load(path, weights_only=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "not a checkpoint"), (b"hello", "not a checkpoint"), (b"PK\x03\x04cut", "not a"), (None, "cannot be read")],
)
def test_what_is_not_a_checkpoint_is_named(tmp_path, content, message):
    path = tmp_path / "checkpoint.pt"
    if content is not None:
        path.write_bytes(content)
    refuses(DataError, rf"checkpoint\.pt: {message}", read_checkpoint, path)


def test_a_list_is_no_checkpoint_and_half_a_file_neither(tmp_path):
    path = tmp_path / "checkpoint.pt"
    torch.save([1, 2], path)
    refuses(DataError, "holds a list", read_checkpoint, path)
    torch.save({"w": torch.randn(500)}, path, _use_new_zipfile_serialization=False)
    path.write_bytes(path.read_bytes()[:1200])
    refuses(DataError, r"checkpoint\.pt: not a", read_checkpoint, path)
