"""Load reports: their text, and the loads that they refuse."""

import pytest
import torch
from torch import nn

from dragoman.exchange.loaded import LoadReport, load_renamed
from dragoman.shared.errors import DataError
from tests.small import refusal, refuses


def loaded(tensors):
    torch.manual_seed(0)
    module = nn.ModuleDict({"a": nn.Linear(2, 4), "b": nn.Linear(2, 3), "c": nn.Linear(1, 1, bias=False)})
    names = {
        "a.weight": ["q", "k"], "a.bias": ["bias"], "b.weight": ["b.w"], "b.bias": ["b.b"], "c.weight": ["c"],
    }  # fmt: skip
    return module, load_renamed(module, tensors, names, "them.pt")


def test_everything_is_loaded_missing_unexpected_or_reshaped():
    q, k = torch.randn(2, 2), torch.randn(2, 2)
    parts = {"bias": torch.ones(4).half(), "b.w": torch.ones(4, 2), "c": torch.ones(1, 1)}
    module, report = loaded({"q": q, "k": k, **parts, "spare": q})
    assert torch.equal(module["a"].weight, torch.cat([q, k]))
    assert module["a"].bias.dtype == torch.float32 and module["a"].bias.eq(1).all()
    assert report.loaded == ["a.weight", "a.bias", "c.weight"]
    assert report.missing == ["b.bias"]
    assert report.unexpected == ["spare"]
    assert report.reshaped == {"b.weight": "(4, 2) instead of (3, 2)"}
    assert report.counts == "3 tensors loaded, 1 missing, 1 unexpected, 1 reshaped"
    refuses(DataError, r"them\.pt: b\.bias is missing; spare is unexpected; b\.weight is \(4, 2\)", report.check)
    refuses(DataError, r"them\.pt: spare is unexpected; --allow", report.check, ["b."])
    report.check(["b.", "spare"])


def test_a_report_is_told_in_full():
    shapes = {"r": "(1,) instead of (2,)"}
    report = LoadReport("a.pt", missing=["m"], unexpected=["u"], reshaped=shapes, elsewhere=["e"])
    lines = ["missing     m", "unexpected  u", "reshaped    r: (1,) instead of (2,)", "elsewhere   e"]
    assert [*report.lines()] == ["a.pt: 0 tensors loaded, 1 missing, 1 unexpected, 1 reshaped", *lines]
    assert LoadReport("a.pt").counts == "0 tensors loaded, 0 missing, 0 unexpected, 0 reshaped"
    LoadReport("a.pt", elsewhere=["e"]).check()


@pytest.mark.parametrize(("number", "more"), [(5, ""), (6, " and 1 more"), (8, " and 3 more")])
def test_a_refusal_names_the_first_five(number, more):
    report = LoadReport("a.pt", missing=[f"m{i}" for i in range(number)])
    said = f"a.pt: {'; '.join(f'm{i} is missing' for i in range(5))}{more}."
    assert refusal(DataError, report.check, ["m9"], remedy=".") == said


def test_what_may_be_missing_is_named_by_its_beginning():
    report = LoadReport("a.pt", missing=["head.weight"], unexpected=["head"], reshaped={"body.head": "(1,)"})
    refuses(DataError, r"^a\.pt: body\.head is \(1,\); --allow NAME goes on without$", report.check, ["head"])
    report.check(["head", "body.head"])


def test_values_that_are_no_numbers_are_refused():
    tensors = {"q": torch.randn(2, 2), "k": torch.randn(2, 2), "bias": torch.tensor([1.0, 2.0, float("nan"), 3.0])}
    refuses(DataError, r"^them\.pt: bias holds values that are not finite numbers$", loaded, tensors)
    with pytest.raises(DataError, match=r"^them\.pt: q or k holds values that are not finite numbers$"):
        loaded(tensors | {"k": torch.full((2, 2), float("inf"))})
    module, report = loaded({"q": torch.randn(2, 2), "bias": torch.ones(4)})
    assert report.unexpected == [] and report.loaded == ["a.bias"]  # half of it was meant
    assert "a.weight" in report.missing
