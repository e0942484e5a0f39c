"""Segments against loops."""

import torch

from dragoman.st.curriculum import cut, inside, segment_means, touched

SEGMENTS = torch.tensor([[[0, 3], [3, 4], [5, 5]], [[1, 6], [0, 9], [7, 8]]])


def test_what_a_stretch_touches_is_rounded_outwards():
    samples = torch.tensor([[0, 640], [1, 641], [639, 640], [640, 641], [1279, 1281]])
    assert touched(samples, 640).tolist() == [[0, 1], [0, 2], [0, 1], [1, 2], [1, 3]]


def test_what_is_behind_the_end_of_a_row_becomes_its_last_element():
    segments = torch.tensor([[[0, 3], [2, 4], [3, 5], [6, 9]], [[1, 6], [0, 1], [0, 9], [5, 5]]])
    assert cut(segments, torch.tensor([3, 6])).tolist() == [
        [[0, 3], [2, 3], [2, 3], [2, 3]],
        [[1, 6], [0, 1], [0, 6], [5, 6]],
    ]


def test_means_against_a_loop():
    torch.manual_seed(1)
    states = torch.randn(2, 6, 4, dtype=torch.float64, requires_grad=True)
    found = segment_means(states, SEGMENTS)
    for row in range(2):
        for word, (first, end) in enumerate(SEGMENTS[row].tolist()):
            part = states[row, first:end]  # as far as there are states
            expected = part.mean(0) if len(part) else torch.zeros(4, dtype=torch.float64)
            torch.testing.assert_close(found[row, word], expected)
    found[0, 0].sum().backward()
    assert (states.grad.abs().sum(-1) > 0).nonzero().tolist() == [[0, 0], [0, 1], [0, 2]]


def test_what_a_segment_has():
    found = inside(SEGMENTS, 6)
    assert [[place for place in range(6) if row[place]] for row in found.flatten(0, 1).tolist()] == [
        [0, 1, 2],
        [3],
        [],
        [1, 2, 3, 4, 5],
        [0, 1, 2, 3, 4, 5],
        [],
    ]
