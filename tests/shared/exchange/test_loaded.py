"""Load reports: their text, and the loads that they refuse."""

import pytest
import torch
from torch import nn

from shared.errors import DataError
from shared.exchange.loaded import load_renamed


def loaded(tensors):
    torch.manual_seed(0)
    module = nn.ModuleDict({"a": nn.Linear(2, 4), "b": nn.Linear(2, 3), "c": nn.Linear(1, 1, bias=False)})
    names = {
        "a.weight": ["q", "k"], "a.bias": ["bias"], "b.weight": ["b.w"], "b.bias": ["b.b"], "c.weight": ["c"],
    }  # fmt: skip
    return module, load_renamed(module, tensors, names, "them.pt")


def test_everything_is_loaded_missing_unexpected_or_reshaped():
    q, k = torch.randn(2, 2), torch.randn(2, 2)
    module, report = loaded(
        {"q": q, "k": k, "bias": torch.ones(4).half(), "b.w": torch.ones(4, 2), "c": torch.ones(1, 1), "spare": q}
    )
    assert torch.equal(module["a"].weight, torch.cat([q, k]))
    assert module["a"].bias.dtype == torch.float32 and module["a"].bias.eq(1).all()
    assert report.loaded == ["a.weight", "a.bias", "c.weight"]
    assert report.missing == ["b.bias"]
    assert report.unexpected == ["spare"]
    assert report.reshaped == {"b.weight": "(4, 2) instead of (3, 2)"}
    assert list(report.lines()) == [
        "them.pt: 3 tensors loaded, 1 missing, 1 unexpected, 1 reshaped",
        "missing     b.bias",
        "unexpected  spare",
        "reshaped    b.weight: (4, 2) instead of (3, 2)",
    ]
    with pytest.raises(DataError, match=r"them\.pt: b\.bias is missing; spare is unexpected; b\.weight is \(4, 2\)"):
        report.check()
    with pytest.raises(DataError, match=r"them\.pt: spare is unexpected; --allow"):
        report.check(["b."])
    report.check(["b.", "spare"])


def test_half_of_what_a_tensor_is_made_of_is_not_enough():
    module, report = loaded({"q": torch.randn(2, 2)})
    assert "a.weight" in report.missing
