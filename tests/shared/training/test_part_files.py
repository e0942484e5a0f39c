"""Tensors that several processes have written: any number of processes reads its own rows of them."""

import pytest
import torch

from dragoman.shared.errors import DataError
from dragoman.shared.training.checkpoints import Checkpoints, list_checkpoints, load_objective
from dragoman.shared.training.part_files import (
    MOMENTS,
    PARAMETERS,
    Joined,
    moments_apart,
    read_moments,
    read_parts,
    save_part,
)
from dragoman.shared.training.position import Position
from tests.small import refuses

SHAPES = [(7, 3), (1,), (5,), (8, 2, 2), (2, 4)]


def parts_of(tensor, count):
    """Return what torch's chunk makes of the rows, and nothing for who comes too late."""
    chunks = [*tensor.chunk(count)]
    return chunks + [tensor[:0]] * (count - len(chunks))


def state_of(tensors):
    return {number: {"step": torch.tensor(3.0), "exp_avg": one, "exp_avg_sq": one + 1} for number, one in tensors}


@pytest.fixture
def whole():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in SHAPES]


@pytest.mark.parametrize(("written", "read"), [(2, 1), (1, 2), (2, 4), (4, 3), (9, 2), (3, 9)])
def test_each_reads_its_rows_whoever_has_written_them(whole, tmp_path, written, read):
    for rank in range(written):
        own = state_of(enumerate(parts_of(one, written)[rank] for one in whole))
        moments, rest = moments_apart(own)
        save_part(tmp_path, MOMENTS, moments, (rank, written))
        assert rest == {n: {"step": 3.0} for n in range(len(whole))}
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == [f"moments-0000{n}-of-0000{written}.safetensors" for n in range(written)]
    for rank in range(read):
        found = {number: {"step": torch.tensor(3.0)} for number in range(len(whole))}
        read_moments(files, found, (rank, read))
        cut = state_of(enumerate(whole))
        read_moments([], cut, (rank, read))
        for number, tensor in enumerate(whole):
            wanted = parts_of(tensor, read)[rank]
            for state in (found, cut):
                assert state[number].keys() == {"step", "exp_avg", "exp_avg_sq"} and state[number]["step"] == 3
                assert torch.equal(state[number]["exp_avg"], wanted)
                assert torch.equal(state[number]["exp_avg_sq"], wanted + 1)


@pytest.mark.parametrize("written", [2, 4, 9])
def test_a_tensor_is_put_together_when_it_is_asked_for(whole, tmp_path, written):
    files = [
        save_part(tmp_path, PARAMETERS, {str(n): parts_of(one, written)[rank] for n, one in enumerate(whole)}, part)[0]
        for rank in range(written)
        for part in [(rank, written)]
    ]
    joined = Joined(read_parts(files) | {"whole": [torch.ones(2)]})
    assert len(joined) == len(whole) + 1 and [*joined] == [*map(str, range(len(whole))), "whole"]
    assert all(torch.equal(joined[str(n)], one) for n, one in enumerate(whole))
    assert joined["whole"] is joined["whole"] and joined["0"] is not joined["0"]


class Model(torch.nn.Module):
    """Two tied parameters, one of their own rows, a number and a buffer."""

    def __init__(self, whole):
        super().__init__()
        self.system = torch.nn.ParameterDict({str(n): torch.zeros_like(one) for n, one in enumerate(whole)})
        self.number = torch.nn.Parameter(torch.zeros(()))
        self.register_buffer("seen", torch.zeros(2))


def test_a_checkpoint_takes_them_in_and_names_one_that_is_damaged(whole, tmp_path, monkeypatch):
    parts, states = {}, []
    for rank in (1, 0):
        moments, state = moments_apart(state_of(enumerate(parts_of(one, 2)[rank] for one in whole)))
        states.append(state)
        rows = {f"system.{n}": parts_of(one, 2)[rank] for n, one in enumerate(whole)}
        for kind, own in ((MOMENTS, moments), (PARAMETERS, rows)):
            file, digest = save_part(tmp_path / "parts", kind, own, (rank, 2))
            parts[file] = digest
    (tmp_path / "parts" / "objective-00002-of-00003.safetensors").touch()  # what is left of another checkpoint
    training = {"optimizer": {"state": states[-1]}, "position": vars(Position(update=8)), "ranks": [{}, {}]}
    state = {"number": torch.tensor(2.0), "seen": torch.ones(2)}
    Checkpoints().save(tmp_path / "run", state, training, {"update": 8, "score": None}, parts)
    [checkpoint] = list_checkpoints(tmp_path / "run")
    wanted = ["meta.json", "moments-00000-of-00002.safetensors", "moments-00001-of-00002.safetensors"]
    wanted += ["objective-00000-of-00002.safetensors", "objective-00001-of-00002.safetensors"]
    assert sorted(p.name for p in checkpoint.folder.iterdir()) == [*wanted, "objective.safetensors", "training.pt"]
    model = Model(whole)
    asked, put = [], Joined.__getitem__
    monkeypatch.setattr(Joined, "__getitem__", lambda joined, name: asked.append(name) or put(joined, name))
    load_objective(model, checkpoint)
    assert sorted(asked) == [f"system.{n}" for n in range(len(whole))]  # each read once
    assert all(torch.equal(model.system[str(n)], one) for n, one in enumerate(whole))
    assert model.number == 2 and torch.equal(model.seen, torch.ones(2))
    system = checkpoint.system_tensors()
    assert system.keys() == {str(n) for n in range(len(whole))} and torch.equal(system["3"], whole[3])
    refuses(
        DataError, r"system\.0 is \(7, 3\) instead of \(8, 3\)", load_objective, Model([torch.ones(8, 3)]), checkpoint
    )
    for part, count in ((0, 1), (1, 2), (2, 3)):
        found = checkpoint.training((part, count))["optimizer"]["state"]
        assert all(torch.equal(found[n]["exp_avg"], parts_of(one, count)[part]) for n, one in enumerate(whole))
    place = checkpoint.folder / "moments-00001-of-00002.safetensors"
    content = place.read_bytes()
    place.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    said = f"{place}: not a readable file of moments .*it is not as it was written.*; delete {checkpoint.folder}"
    refuses(DataError, said, checkpoint.training)
    refuses(DataError, said, checkpoint.training, (1, 4))
    place.unlink()
    refuses(DataError, f"{place}: not a readable file of moments .*No such file", checkpoint.training)
    refuses(DataError, f"not a readable .*No such file.*{place.name}", checkpoint.training, (0, 2))
    place = checkpoint.folder / "objective-00001-of-00002.safetensors"
    content = place.read_bytes()
    place.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    refuses(DataError, f"{place}: not a readable weights file .*it is not as it was written", checkpoint.tensors)
    place.unlink()
    refuses(DataError, f"{place}: not a readable weights file .*No such file", checkpoint.tensors)


def test_a_part_that_cannot_be_written_is_named(whole, tmp_path):
    (tmp_path / "file").touch()
    message = "file/moments-00000-of-00001.*could not be written"
    refuses(DataError, message, save_part, tmp_path / "file", MOMENTS, {"0.exp_avg": whole[0]}, (0, 1))
