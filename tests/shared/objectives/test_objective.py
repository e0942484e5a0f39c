"""A loss and the counts that normalise it."""

import pytest
import torch

from shared.errors import UsageError
from shared.objectives.objective import Loss, Term


def term(total, count, weight=1.0):
    return Term(torch.tensor(total), torch.tensor(count), weight)


def test_global_counts_replace_those_of_the_batch():
    loss = Loss({"words": term(6.0, 3.0), "frames": term(8.0, 2.0, 0.5)})
    assert loss.total().item() == 6 / 3 + 0.5 * 8 / 2
    counts = {"words": torch.tensor(12.0), "frames": torch.tensor(4.0), "of another batch": torch.tensor(1.0)}
    assert loss.total(counts).item() == 6 / 12 + 0.5 * 8 / 4


@pytest.mark.parametrize("counts", [{}, {"words": torch.tensor(12.0)}], ids=["none", "another"])
def test_a_part_without_a_global_count_is_an_error_that_names_it(counts):
    loss = Loss({"words": term(6.0, 3.0), "frames": term(8.0, 2.0)})
    with pytest.raises(UsageError, match=f"part '{'frames' if counts else 'words'}' of the loss is missing in .*count"):
        loss.total(counts)


def test_a_part_that_is_only_reported_needs_no_global_count():
    assert Loss({"words": term(6.0, 3.0), "seen": term(1.0, 1.0, 0.0)}).total({"words": torch.tensor(3.0)}).item() == 2
