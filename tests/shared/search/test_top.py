"""The best continuations against topk of all sums."""

import pytest
import torch

from dragoman.shared.search.top import BLOCK, best_continuations


def plain(scores: torch.Tensor, beams: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return tuple((scores + beams[..., None]).flatten(1).topk(count, dim=1))


@pytest.mark.parametrize("vocabulary", [3, BLOCK, 5 * BLOCK, 40 * BLOCK, 40 * BLOCK + 1, 50 * BLOCK - 1])
@pytest.mark.parametrize(("width", "count"), [(1, 1), (1, 2), (3, 6)])
def test_it_is_what_topk_finds(vocabulary: int, width: int, count: int) -> None:
    generator = torch.Generator().manual_seed(vocabulary)
    rows = [torch.randperm(width * vocabulary, generator=generator).view(width, vocabulary) for _ in range(6)]
    scores = torch.stack(rows).float()
    scores[1] = scores[1].sort(descending=True).values  # the best of a beam in one block
    scores[2] = scores[2].sort().values  # or behind the last whole one
    scores[3, :, : vocabulary - 1] = float("-inf")
    beams = -0.25 * torch.arange(6 * width).view(6, width)
    beams[4:, 1:] = float("-inf")  # as before the first step
    (found, places), (expected, there) = best_continuations(scores, beams, count), plain(scores, beams, count)
    assert torch.equal(found, expected)
    finite = expected > float("-inf")
    assert finite.any(1).all() and torch.equal(places[finite], there[finite])
    assert all(len(set(row.tolist())) == count for row in places)


def test_what_is_not_a_number_is_the_greatest() -> None:
    scores = torch.randn(2, 2, 30 * BLOCK)
    scores[1, 1, 7 * BLOCK + 5] = float("nan")
    beams = torch.tensor([[0.0, -1.0], [0.0, -50.0]])
    best, places = best_continuations(scores, beams, 4)
    assert best[1, 0].isnan() and int(places[1, 0]) == 37 * BLOCK + 5
    assert torch.equal(best[0], plain(scores, beams, 4)[0][0])


def test_equal_scores_are_found_as_often_as_they_stand_there() -> None:
    scores = torch.zeros(1, 1, 20 * BLOCK)
    scores[0, 0, 3 * BLOCK : 3 * BLOCK + 10] = 1.0
    best, places = best_continuations(scores, torch.zeros(1, 1), 12)
    assert best[0].tolist() == [1.0] * 10 + [0.0] * 2
    assert len(set(places[0].tolist())) == 12 and set(range(3 * BLOCK, 3 * BLOCK + 10)) < set(places[0].tolist())
