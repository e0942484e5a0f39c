"""A loss and the counts that normalise it."""

import pytest
import torch

from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.objectives.objective import Loss, Objective, Term
from tests.small import refuses


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


def test_the_counts_of_a_loss_and_those_that_were_told_are_compared():
    loss = Loss({"words": term(6.0, 3.0), "frames": term(8.0, 2.0)})
    told = {"words": torch.tensor(3.0), "frames": torch.tensor(2.0)}
    loss.check(told)
    for counts, said in (
        (told | {"words": torch.tensor(4.0)}, r"part 'words' .* says 4\.0, the loss was summed over 3\.0"),
        ({"words": told["words"]}, r"part 'frames' .* says None, the loss was summed over 2\.0"),
        (told | {"other": torch.tensor(1.0)}, r"part 'other' .* says 1\.0, the loss was summed over None"),
    ):
        refuses(UsageError, said, loss.check, counts)


def test_a_part_that_is_only_reported_needs_no_global_count():
    assert Loss({"words": term(6.0, 3.0), "seen": term(1.0, 1.0, 0.0)}).total({"words": torch.tensor(3.0)}).item() == 2


def test_a_total_is_of_parts_with_weights_and_of_one_count_at_least():
    assert Loss({"words": term(6.0, 0.0)}).total().item() == 6.0
    assert Loss({"words": term(6.0, 3.0)}).total({"words": torch.tensor(0.5)}).item() == 6.0
    unweighted = Loss({"b": term(6.0, 3.0, 0.0), "a": term(6.0, 3.0, 0.0)})
    refuses(ValueError, r"^no part of the loss has a weight other than 0: \['a', 'b'\]$", unweighted.total)
    loss, one = Loss({"words": term(6.0, 3.0)}), torch.tensor(1.0)
    refuses(UsageError, r"objective's counts\(\), which returned nothing: it could not", loss.total, {})
    refuses(UsageError, r"which returned a, b: it could not", loss.total, {"b": one, "a": one})


def test_what_an_objective_does_unless_it_says_more():
    objective, batch = Objective(), Batch({})
    assert objective.prepare(batch) is batch and objective.alarms({}) == []
    assert objective.at(1) is objective.check_streams(["a"]) is None

    class Own(Objective):
        pass

    for name in ("counts", "forward"):
        refuses(TypeError, rf"^Own does not define {name}\(batch\)$", getattr(Own(), name), batch)
