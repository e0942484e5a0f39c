"""The contrastive loss against a loop in numpy, torch's cross entropy, and hand values."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from shared.objectives.contrastive import contrastive


def vectors(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def loop(anchors, candidates, positives, allowed, temperature):
    """The definition, an anchor at a time."""
    total = 0.0
    for number, anchor in enumerate(anchors):
        if not allowed[number][positives[number]]:
            continue
        scores = {}
        for other, candidate in enumerate(candidates):
            if allowed[number][other]:
                lengths = np.sqrt((anchor**2).sum()) * np.sqrt((candidate**2).sum())
                scores[other] = math.exp((anchor * candidate).sum() / lengths / temperature)
        total -= math.log(scores[positives[number]] / sum(scores.values()))
    return total


def test_two_orthogonal_pairs_give_the_hand_value():
    anchors = torch.tensor([[2.0, 0.0], [0.0, 0.5]])
    found = contrastive(anchors, anchors, temperature=0.5)
    assert found.loss.item() == pytest.approx(2 * math.log(1 + math.exp(-2)), rel=1e-6)
    assert (found.correct.item(), found.count.item()) == (2, 2)
    turned = contrastive(anchors, anchors.flip(0), temperature=0.5)
    assert turned.loss.item() == pytest.approx(2 * math.log(1 + math.exp(2)), rel=1e-6)
    assert turned.correct.item() == 0


def test_the_sum_is_that_of_a_loop_over_allowed_candidates():
    anchors, candidates = vectors(5, 8, seed=1), vectors(7, 8, seed=2)
    positives = torch.tensor([6, 0, 3, 3, 2])
    allowed = torch.rand(5, 7, generator=torch.Generator().manual_seed(3)) < 0.6
    allowed[torch.arange(4), positives[:4]] = True
    allowed[4, 2] = False  # counts for nothing
    found = contrastive(anchors, candidates, temperature=0.2, positives=positives, allowed=allowed)
    wanted = loop(anchors.numpy(), candidates.numpy(), positives.tolist(), allowed.tolist(), 0.2)
    assert found.loss.item() == pytest.approx(wanted, rel=1e-5)
    assert found.count.item() == 4


def test_the_softmax_runs_over_the_candidates_of_each_anchor():
    anchors, candidates = vectors(6, 4, seed=1), vectors(6, 4, seed=2)
    cosines = F.cosine_similarity(anchors[:, None], candidates[None], dim=-1) / 0.1
    found = contrastive(anchors, candidates, temperature=0.1).loss
    torch.testing.assert_close(found, F.cross_entropy(cosines, torch.arange(6), reduction="sum"))
    other = F.cross_entropy(cosines.T, torch.arange(6), reduction="sum")
    assert abs(found - other) > 0.1
    torch.testing.assert_close(contrastive(candidates, anchors, temperature=0.1).loss, other)


def test_slots_are_compared_with_slots_of_the_same_sentence():
    anchors, candidates = vectors(3, 4, 8, seed=1), vectors(3, 4, 8, seed=2)
    whole = contrastive(anchors, candidates, temperature=0.3)
    parts = [contrastive(a, c, temperature=0.3) for a, c in zip(anchors, candidates, strict=True)]
    torch.testing.assert_close(whole.loss, sum(part.loss for part in parts))
    sentence = torch.arange(3).repeat_interleave(4)
    flat = contrastive(
        anchors.flatten(0, 1),
        candidates.flatten(0, 1),
        temperature=0.3,
        allowed=sentence[:, None] == sentence,
    )
    torch.testing.assert_close(flat.loss, whole.loss)
    assert flat.count == whole.count == 12


def test_candidates_may_be_drawn_for_each_anchor():
    anchors, candidates = vectors(5, 1, 8, seed=1), vectors(5, 4, 8, seed=2)
    found = contrastive(anchors, candidates, temperature=0.1, positives=torch.zeros(5, 1, dtype=torch.int64))
    cosines = F.cosine_similarity(anchors, candidates, dim=-1) / 0.1
    torch.testing.assert_close(found.loss, F.cross_entropy(cosines, torch.zeros(5).long(), reduction="sum"))


def test_padding_is_no_candidate_and_gets_no_gradient():
    anchors, candidates = vectors(4, 8, seed=1), vectors(4, 8, seed=2)
    real = torch.tensor([True, True, True, False])
    anchors, candidates = anchors.requires_grad_(), candidates.requires_grad_()
    found = contrastive(anchors, candidates, temperature=0.1, allowed=real & real[:, None])
    found.loss.backward()
    torch.testing.assert_close(found.loss, contrastive(anchors[:3], candidates[:3], temperature=0.1).loss)
    assert anchors.grad[3].abs().max() == candidates.grad[3].abs().max() == 0
    assert anchors.grad.isfinite().all()


def test_the_gradient_is_right():
    anchors = vectors(3, 4, seed=1).requires_grad_()
    candidates = vectors(3, 4, seed=2).requires_grad_()
    contrastive(anchors, candidates, temperature=0.5).loss.backward()
    step = torch.zeros(3, 4)
    step[1, 2] = 1e-2
    up, down = (contrastive(anchors.detach() + s * step, candidates.detach(), temperature=0.5).loss for s in (1, -1))
    assert anchors.grad[1, 2].item() == pytest.approx((up - down).item() / 2e-2, abs=1e-3)


@pytest.mark.parametrize(
    ("shapes", "temperature", "message"),
    [
        (((2, 4), (2, 4)), 0.0, "temperature must be positive, not 0.0"),
        (((2, 4), (3, 4)), 0.1, "one candidate for each anchor, not 3 for 2"),
        (((2, 3, 4), (1, 3, 4)), 0.1, "do not fit"),
    ],
)
def test_what_does_not_fit_is_refused(shapes, temperature, message):
    with pytest.raises(ValueError, match=message):
        contrastive(*(torch.zeros(shape) for shape in shapes), temperature=temperature)
