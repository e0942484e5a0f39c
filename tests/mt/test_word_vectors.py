"""Token vectors that begin with those of words: which rows are set, and with what."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from dragoman.mt.vector_tables import WordVectors
from dragoman.mt.word_vectors import FromVectors
from dragoman.shared.errors import DataError, UsageError
from tests import small
from tests.shared.training.conftest import World

PART = "model.target_embedding"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture
def words(world, monkeypatch):
    """The world with pieces that are whole words."""
    texts = ["the cat sees the dog", "the dog sees a bird", "a bird and the cat"] * 20
    monkeypatch.setattr(world, "tokenizer", small.tokenizer(texts, kind="bpe"))
    return world


def tables(world, folder, width: int = 32):
    """Write vectors of some pieces: by their own name, and by that of the word that they are."""
    system = world.system(seed=1)
    tokenizer = world.tokenizer
    pieces = {tokenizer.symbol(id): id for id in range(tokenizer.size - len(tokenizer.symbols))}
    rows = [pieces["\u2581the"], pieces["\u2581dog"], pieces["he"]]
    torch.manual_seed(2)
    first = WordVectors(["the", "dog"], torch.randn(2, width))  # of words: not for the piece "dog" inside of one
    second = WordVectors(["\u2581the", "he"], torch.randn(2, width))  # of pieces
    for name, table in (("one", first), ("two", second)):
        table.write(folder / f"{name}.vec")
    return system, rows, torch.cat([first.values, second.values[1:]])


def test_vectors_go_to_the_device_of_the_model(words, tmp_path):
    """A GPU that computes nothing refuses what stands on two devices."""
    tables(words, tmp_path, width=16)
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device("cuda"):
        system = words.system(seed=1)
        assert next(system.parameters()).device.type == "cuda"
        files = [tmp_path / "one.vec"]
        [line] = FromVectors(part=PART, vectors=files, least=0.0).apply(system)
    assert line.startswith(f"{PART}: 2 of 43 pieces")


def test_rows_whose_symbols_have_vectors_take_them_and_no_others(words, tmp_path):
    system, rows, values = tables(words, tmp_path, words.system(seed=1).model.target_embedding.width)
    before = {name: tensor.clone() for name, tensor in system.state_dict().items()}
    [line] = FromVectors(part=PART, vectors=[tmp_path / "one.vec", tmp_path / "two.vec"], least=0.0).apply(system)
    weight = f"{PART}.tokens.weight"
    changed = {name for name, tensor in system.state_dict().items() if not torch.equal(tensor, before[name])}
    now = system.state_dict()[weight]
    assert weight in changed and all(torch.equal(system.state_dict()[name], now) for name in changed)
    assert (now != before[weight]).any(1).nonzero()[:, 0].tolist() == sorted(rows)
    scale = (before[weight][rows].square().mean() / values.square().mean()).sqrt()
    torch.testing.assert_close(now[rows], values * scale, rtol=1e-4, atol=1e-6)
    assert line.startswith(f"{PART}: 3 of 43 pieces") and system.origin == [line]


def test_refusals(words, tmp_path):
    system, _, _ = tables(words, tmp_path, words.system(seed=1).model.target_embedding.width)
    one = tmp_path / "one.vec"
    WordVectors(["a"], torch.randn(1, 3)).write(tmp_path / "narrow.vec")
    for error, part, file, message in (
        (DataError, PART, one, r"vectors for 2 of \d+ pieces, a share below 0.5"),
        (UsageError, "model.encoder", one, "no token vectors 'model.encoder'; the system has .*target_embedding"),
        (DataError, PART, tmp_path / "narrow.vec", "vectors of 3 numbers, where model.target_embedding has"),
    ):
        small.refuses(error, message, FromVectors(part=part, vectors=[file]).apply, system)
    small.refuses(UsageError, "vectors must name at least one table", FromVectors, part=PART, vectors=[])
