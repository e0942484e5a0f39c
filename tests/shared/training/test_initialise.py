"""Initialising from model folders: what is copied, and what must not be."""

import pytest
import torch

from shared.errors import DataError, UsageError
from shared.tokenizer import SentencePieceTokenizer, train_sentencepiece
from shared.training.initialise import Initialise


def test_only_what_is_named_is_copied(world, tmp_path):
    world.system(seed=1).save(tmp_path / "other")
    theirs, ours, before = world.system(seed=1), world.system(seed=2), world.system(seed=2)
    (line,) = Initialise(folder=str(tmp_path / "other"), parts={"model.encoder": "model.encoder"}).apply(ours)
    assert line.startswith("model.encoder: ") and "tensors from" in line
    for name, tensor in ours.state_dict().items():
        expected = theirs if name.startswith("model.encoder.") else before
        assert torch.equal(tensor, expected.state_dict()[name]), name


@pytest.mark.parametrize("part", ["model", "model.target_embedding"])
def test_vectors_of_other_symbols_are_refused(world, tmp_path, part):
    mine, other = world.tokenizer, tmp_path / "t.model"
    train_sentencepiece(["abc", "cba", "a b c"], other, kind="char", size=300)
    try:
        world.tokenizer = SentencePieceTokenizer(model=str(other), tags=["de", "en"])
        world.system().save(tmp_path / "other")
    finally:
        world.tokenizer = mine
    with pytest.raises(DataError, match="another tokenizer"):
        Initialise(folder=str(tmp_path / "other"), parts={part: part}).apply(world.system())


def test_what_is_missing_is_named(world, tmp_path):
    world.system().save(tmp_path / "other")
    with pytest.raises(DataError, match=r"model\.lost\..* is missing"):
        Initialise(folder=str(tmp_path / "other"), parts={"model.encoder": "model.lost"}).apply(world.system())
    with pytest.raises(UsageError, match=r"no parameters below 'model\.nothing'"):
        Initialise(folder=str(tmp_path / "other"), parts={"model.nothing": "x"}).apply(world.system())
