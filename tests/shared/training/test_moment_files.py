"""Moments that several processes have written: any number of processes reads its own rows of them."""

import pytest
import torch

from dragoman.shared.errors import DataError
from dragoman.shared.training.checkpoints import Checkpoints, list_checkpoints
from dragoman.shared.training.moment_files import read_moments, save_moments
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
        rest = save_moments(tmp_path, own, (rank, written))
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


def test_a_checkpoint_takes_them_in_and_names_one_that_is_damaged(whole, tmp_path):
    parts, states = tmp_path / ".moments.0.tmp", []
    for rank in (1, 0):
        own = state_of(enumerate(parts_of(one, 2)[rank] for one in whole))
        states.append(save_moments(parts, own, (rank, 2)))
    training = {"optimizer": {"state": states[-1]}, "position": vars(Position(update=8)), "ranks": [{}, {}]}
    Checkpoints().save(tmp_path, {"a": torch.zeros(1)}, training, {"update": 8, "score": None}, parts)
    [checkpoint] = list_checkpoints(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["00000008"]
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


def test_a_part_that_cannot_be_written_is_named(whole, tmp_path):
    (tmp_path / "file").touch()
    state, message = state_of(enumerate(whole)), "file/moments-00000-of-00001.*could not be written"
    refuses(DataError, message, save_moments, tmp_path / "file", state, (0, 1))
