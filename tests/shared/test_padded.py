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


def test_lengths_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="do not fit"):
        Padded(torch.zeros(2, 3), torch.tensor([1]))
    with pytest.raises(TypeError, match="int64"):
        Padded(torch.zeros(1, 3), torch.tensor([1.0]))
