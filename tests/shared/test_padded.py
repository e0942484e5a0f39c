"""Padded: masks, joining and splitting against lists."""

import pytest
import torch

from dragoman.shared.padded import Padded
from tests.small import refuses


def padded(*rows):
    return Padded.from_sequences([torch.tensor(row) for row in rows], padding=-1)


def test_mask_and_rows_follow_lengths():
    p = padded([1, 2, 3], [4], [5, 6])
    assert p.values.tolist() == [[1, 2, 3], [4, -1, -1], [5, 6, -1]]
    assert p.mask.tolist() == [[True] * 3, [True, False, False], [True, True, False]]
    assert [row.tolist() for row in p.rows()] == [[1, 2, 3], [4], [5, 6]]


def test_concatenate_joins_rows_and_split_undoes_it():
    generator = torch.Generator().manual_seed(0)
    lengths = [[3, 0, 5], [1, 4, 0], [2, 2, 2]]
    parts = []
    for column in zip(*lengths, strict=True):
        parts.append(Padded.from_sequences([torch.randn(n, 2, generator=generator) for n in column]))
    joined, segments = Padded.concatenate(parts)
    for row in range(3):
        expected = torch.cat([part.rows()[row] for part in parts])
        assert torch.equal(joined.rows()[row], expected)
    back = joined.split(segments, [part.lengths for part in parts])
    for part, again in zip(parts, back, strict=True):
        for one, other in zip(part.rows(), again.rows(), strict=True):
            assert torch.equal(one, other)


def test_select_repeats_rows():
    p = padded([1, 2], [3]).select(torch.tensor([1, 1, 0]))
    assert p.values.tolist() == [[3, -1], [3, -1], [1, 2]]
    assert p.lengths.tolist() == [1, 1, 2]


@pytest.mark.parametrize("least", [0, 1, 3])
def test_keep_is_a_loop_over_rows(least):
    generator = torch.Generator().manual_seed(3)
    lengths = [5, 0, 1, 7, 4]
    x = Padded.from_sequences([torch.randn(n, 2, generator=generator) for n in lengths], padding=9.0)
    mask = torch.rand(5, 7, generator=generator) < 0.4
    mask[4] = False
    expected = []
    for row, marked in zip(x.rows(), mask, strict=True):
        chosen = [place for place in range(len(row)) if marked[place]]
        spare = [place for place in range(len(row)) if not marked[place]]
        chosen = sorted(chosen + spare[: max(0, least - len(chosen))])
        expected.append(row[chosen])
    kept = x.keep(mask, least=least)
    assert kept.values.shape[1] == max(len(row) for row in expected)
    for row, right in zip(kept.rows(), expected, strict=True):
        assert torch.equal(row, right)
    assert not kept.values[~kept.mask].any()
    assert x.map(lambda values: values[..., 0]).keep(mask).values.shape == x.keep(mask).values.shape[:2]


def test_gradients_reach_what_was_kept_alone():
    values = torch.arange(8.0).reshape(2, 4).requires_grad_()
    x = Padded(values, torch.tensor([4, 2]))
    kept = x.keep(torch.tensor([[False, True, False, True], [True, False, True, True]]))
    assert kept.values.tolist() == [[1.0, 3.0], [4.0, 0.0]]
    (kept.values * torch.tensor([[1.0, 2.0], [3.0, 50.0]])).sum().backward()
    assert values.grad.tolist() == [[0.0, 1.0, 0.0, 2.0], [3.0, 0.0, 0.0, 0.0]]


def test_keep_works_without_rows_and_without_marks():
    nothing = Padded(torch.zeros(2, 3, 5), torch.tensor([3, 1])).keep(torch.zeros(2, 3, dtype=torch.bool))
    assert nothing.values.shape == (2, 0, 5)
    assert nothing.lengths.tolist() == [0, 0]
    assert (
        len(Padded(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)).keep(torch.ones(0, 3, dtype=torch.bool))) == 0
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_means_are_of_what_is_real(dtype):
    values = torch.tensor([[1, 2, 900], [900, 900, 900], [3, 5, 7]], dtype=dtype)
    found = Padded(values, torch.tensor([2, 0, 3])).mean()
    assert found.tolist() == [1.5, 0.0, 5.0]
    assert found.dtype == torch.float32
    wide = Padded(values[..., None].expand(-1, -1, 2), torch.tensor([2, 0, 3])).mean()
    assert wide.tolist() == [[1.5, 1.5], [0.0, 0.0], [5.0, 5.0]]
    assert Padded(values.double(), torch.tensor([2, 0, 3])).mean().dtype == torch.float64


def test_nothing_of_padding_reaches_a_mean_or_what_is_kept():
    values = torch.tensor([[1.0, float("nan")], [2.0, 4.0]], requires_grad=True)
    x = Padded(values, torch.tensor([1, 2]))
    assert x.mean().tolist() == [1.0, 3.0]
    x.mean().sum().backward()
    assert values.grad.tolist() == [[1.0, 0.0], [0.5, 0.5]]
    assert x.keep(torch.ones(2, 2, dtype=torch.bool)).values.tolist() == [[1.0, 0.0], [2.0, 4.0]]


def test_the_mask_is_made_once_and_is_no_part_of_what_is_shown():
    p = padded([1, 2], [3])
    before = repr(p)
    assert p.mask is p.mask
    assert repr(p) == before and "mask" not in before
    with pytest.raises(TypeError):
        Padded(torch.zeros(1, 2), torch.tensor([1]), torch.ones(1, 2))


def test_padded_sequences_move_together(monkeypatch):
    p = padded([1, 2], [3])
    assert p.device == torch.device("cpu") and len(p) == 2
    there = p.to("meta")
    assert there.device == there.values.device == there.lengths.device == torch.device("meta")
    asked = []
    monkeypatch.setattr(torch.Tensor, "to", lambda self, device, **rest: asked.append((device, rest)) or self)
    p.to("cpu"), p.to("cpu", non_blocking=True)
    assert asked == [("cpu", {"non_blocking": wait}) for wait in (False, False, True, True)]
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self + 10)
    pinned = p.pin_memory()
    assert pinned.values.tolist() == [[11, 12], [13, 9]] and pinned.lengths.tolist() == [12, 11]


def test_refused_lengths_are_shown():
    said = r"^lengths of shape \(1, 2\) do not fit values of shape \(2, 3\)$"
    refuses(ValueError, said, Padded, torch.zeros(2, 3), torch.tensor([[1, 2]]))
    for lengths in (torch.tensor([1]), torch.tensor([[1]])):
        refuses(ValueError, "do not fit", Padded, torch.zeros(2 // lengths.dim(), 3), lengths)
    said = "^lengths must be int64, not torch.int32$"
    refuses(TypeError, said, Padded, torch.zeros(1, 3), torch.tensor([1], dtype=torch.int32))
    assert Padded.from_sequences([torch.tensor([1]), torch.tensor([2, 3])]).values.tolist() == [[1, 0], [2, 3]]


def test_rows_without_padding_are_known_to_be_full_and_stay_so():
    full = padded([1, 2], [3, 4])
    same = [full.to("cpu"), full.select(torch.tensor([1])), full.map(torch.neg), full.never_empty()]
    assert full.full and all(one.full for one in same)
    assert not padded([1, 2], [3]).full and not padded([], []).full
    assert not Padded(full.values, full.lengths).full  # nobody asks the device
    assert not full.needs_no_mask  # a CPU's kernels give other bits without one
