"""Padded: masks, joining and splitting against lists."""

import pytest
import torch

from shared.padded import Padded


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


def test_lengths_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="do not fit"):
        Padded(torch.zeros(2, 3), torch.tensor([1]))
    with pytest.raises(TypeError, match="int64"):
        Padded(torch.zeros(1, 3), torch.tensor([1.0]))
