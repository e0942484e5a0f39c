"""Ranges in annotations: who looks at them, and what is said of a number outside."""

import contextlib
import importlib
import inspect
import math
import pkgutil
from abc import ABCMeta
from typing import Annotated, Literal

import pytest
from torch import nn

from dragoman.shared.annotations import Checked, _is_limited, hints
from dragoman.shared.described import Described
from dragoman.shared.errors import UsageError
from dragoman.shared.ranges import NonNegativeFloat, PositiveFloat, PositiveInt, Range, Share, ShareBelowOne
from dragoman.shared.recipe import signatures
from dragoman.shared.recipe.tree import parse_value
from tests.small import refusal, refuses


@pytest.mark.parametrize(
    ("limits", "inside", "outside", "said"),
    [
        ({"least": 1}, (1, 1.0, 10**9), (0, 0.999, -1), "at least 1"),
        ({"above": 0}, (1e-9, 5), (0, 0.0, -1), "above 0"),
        ({"most": 5}, (5, -7), (6, 5.1), "at most 5"),
        ({"least": 0, "most": 1}, (0, 0.5, 1), (-1e-9, 1.001), "between 0 and 1"),
        ({"least": 0, "below": 1}, (0, 0.999), (1, 1.0, -1), "at least 0 and below 1"),
        ({"above": 0, "most": 1}, (0.001, 1), (0, 1.1), "above 0 and at most 1"),
        ({"most": 2**31 - 1}, (0,), (2**31,), "at most 2,147,483,647"),
    ],
)
def test_a_range(limits, inside, outside, said):
    limit = Range(**limits)
    assert str(limit) == said
    assert all(value in limit for value in inside)
    assert not any(value in limit for value in (*outside, math.nan, math.inf, -math.inf, "x", None))


class Net(Described, nn.Module):
    def __init__(
        self,
        *,
        width: PositiveInt,
        dropout: ShareBelowOne | None = 0.1,
        sizes: list[PositiveInt] | None = None,
        factors: dict[str, NonNegativeFloat] | None = None,
        either: PositiveFloat | str = "all",
        kind: Literal["a", "b"] = "a",
    ) -> None:
        super().__init__()


class Wider(Net):
    def __init__(self, *, width: int, seed: int = 0) -> None:
        super().__init__(width=width)


class Plain(Checked):
    def __init__(self, share: Share, other: Annotated[int, Range(least=2)] = 2) -> None:
        self.share = share


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"width": 1, "dropout": 0, "sizes": [1, 2], "factors": {"a": 0}, "either": 0.5, "kind": "b"}, ""),
        ({"width": 1, "dropout": None, "sizes": (3,), "either": "x"}, ""),
        ({"width": 0}, "width must be at least 1, not 0"),
        ({"width": True}, "width: True is not an int"),
        ({"width": 1, "dropout": 1}, "dropout must be at least 0 and below 1, not 1"),
        ({"width": 1, "dropout": math.nan}, "dropout must be a finite number at least 0 and below 1, not nan"),
        ({"width": 1, "dropout": "x"}, "dropout: 'x' is not a float"),
        ({"width": 1, "sizes": [3, 0]}, "sizes: item 1: must be at least 1, not 0"),
        ({"width": 1, "factors": {"a": -1}}, "factors: a: must be at least 0, not -1"),
        ({"width": 1, "either": 0}, "either must be above 0, not 0"),
        ({"width": 1, "kind": "c"}, "kind: 'c' is not one of 'a', 'b'"),
    ],
)  # fmt: skip
def test_a_constructor_refuses_what_is_outside(arguments, said):
    if not said:
        Net(**arguments)
        return
    assert refusal(UsageError, Net, **arguments) == f"Net: {said}"


def test_the_class_that_was_called_is_named():
    refuses(UsageError, "^Wider: width must be at least 1, not -2$", Wider, width=-2)
    refuses(UsageError, "^Plain: share must be between 0 and 1, not 3$", Plain, 3)
    refuses(UsageError, "^Plain: other must be at least 2, not 1$", Plain, 1, other=1)
    assert Plain(0.5, 2).share == 0.5
    assert [*inspect.signature(Plain).parameters] == ["share", "other"]


@pytest.mark.parametrize(
    ("text", "hint", "said"),
    [
        ("3", PositiveInt, ""),
        ("0", PositiveInt, "must be at least 1, not 0"),
        ("0", PositiveInt | None, "must be at least 1, not 0"),
        ("x", PositiveInt, "'x' is not an int"),
        ("x", PositiveInt | None, "'x' is not an int"),
        ("[1, 0]", list[PositiveInt], "item 1: must be at least 1, not 0"),
        ("1", list[PositiveInt], "1 is not list[int]: put it in brackets, [1]"),
        ("1.5", dict[str, Share], "1.5 is not dict[str, float]"),
        ("!apply:builtins.len [[]]", PositiveInt, ""),  # known when it is called
    ],
)
def test_a_recipe_is_compared_with_ranges(text, hint, said):
    assert signatures.mismatch(parse_value(text, "key"), hint) == said


#: Numbers that have a range in every constructor.
LIMITED = {
    *"""beam behind ahead candidates channel_probability channel_span chunk compared concentration entries epsilon
exponent final final_dropout final_scale flat gradient_scale groups ignore_prefix initial initial_scale iterations
label_smoothing limit masked maximum_length maximum_length_extra maximum_length_ratio maximum_rate maximum_ratio
minimum_length n_best null peak probability replaced samples shard_rows span strip_prefix strip_suffix temperature
tension top_k top_p total types warmup""".split()
}


def test_every_class_with_ranges_looks_at_them():
    seen, bare = 0, []
    for package in map(importlib.import_module, ("dragoman.shared", "dragoman.mt", "dragoman.st")):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with contextlib.suppress(ModuleNotFoundError):  # of an extra
                for name, kind in vars(importlib.import_module(module.name)).items():
                    own = vars(kind).get("__init__") if type(kind) in (type, ABCMeta) else None
                    if own and kind.__module__ == module.name:
                        numbers = {key for key, hint in hints(own).items() if hint in (int, float)}
                        numbers &= LIMITED & {*inspect.getfullargspec(inspect.unwrap(own)).kwonlyargs}  # not handed on
                        bare += [f"{name}.{key}" for key in numbers if issubclass(kind, Checked)]
                        if any(map(_is_limited, hints(own).values())):
                            seen += 1
                            assert inspect.unwrap(own) is not own, f"{name} must be Checked"
    assert seen > 90 and bare == []
