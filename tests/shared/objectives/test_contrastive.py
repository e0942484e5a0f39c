"""The contrastive loss against a loop in numpy, torch's cross entropy, and hand values."""

import math

import pytest
import torch
from torch.nn import functional as F

from dragoman.shared.objectives.contrastive import contrastive
from tests.small import refuses


def vectors(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_two_orthogonal_pairs_give_the_hand_value():
    anchors = torch.tensor([[2.0, 0.0], [0.0, 0.5]])
    found = contrastive(anchors, anchors, temperature=0.5)
    assert found.loss.item() == pytest.approx(2 * math.log(1 + math.exp(-2)), rel=1e-6)
    assert (found.correct.item(), found.count.item()) == (2, 2)
    turned = contrastive(anchors, anchors.flip(0), temperature=0.5)
    assert turned.loss.item() == pytest.approx(2 * math.log(1 + math.exp(2)), rel=1e-6)
    assert turned.correct.item() == 0


def test_the_softmax_runs_over_the_candidates_of_each_anchor():
    anchors, candidates = vectors(6, 4, seed=1), vectors(6, 4, seed=2)
    cosines = F.cosine_similarity(anchors[:, None], candidates[None], dim=-1) / 0.1
    found = contrastive(anchors, candidates, temperature=0.1)
    torch.testing.assert_close(found.loss, F.cross_entropy(cosines, torch.arange(6), reduction="sum"))
    other = F.cross_entropy(cosines.T, torch.arange(6), reduction="sum")
    assert abs(found.loss - other) > 0.1 and found.count.item() == 6
    torch.testing.assert_close(contrastive(candidates, anchors, temperature=0.1).loss, other)


def test_slots_are_compared_with_slots_of_the_same_sentence():
    anchors, candidates = vectors(3, 4, 8, seed=1), vectors(3, 4, 8, seed=2)
    whole = contrastive(anchors, candidates, temperature=0.3)
    parts = [contrastive(a, c, temperature=0.3) for a, c in zip(anchors, candidates, strict=True)]
    torch.testing.assert_close(whole.loss, sum(part.loss for part in parts))
    assert whole.correct == sum(part.correct for part in parts) and whole.count == 12


@pytest.mark.parametrize(
    ("shapes", "temperature", "message"),
    [
        (((2, 4), (2, 4)), 0.0, "temperature must be positive, not 0.0"),
        (((2, 4), (3, 4)), 0.1, r"anchors \(2, 4\) and candidates \(3, 4\) do not fit"),
        (((2, 3, 4), (1, 3, 4)), 0.1, "do not fit"),
    ],
)
def test_what_does_not_fit_is_refused(shapes, temperature, message):
    refuses(ValueError, message, contrastive, *(torch.zeros(shape) for shape in shapes), temperature=temperature)
