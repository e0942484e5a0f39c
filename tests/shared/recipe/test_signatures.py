"""A recipe's values and calls against annotations and signatures: what is said about each that does not fit."""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, Protocol, TypeVar

import pytest

from dragoman.shared.annotations import hints, parameters
from dragoman.shared.errors import UsageError
from dragoman.shared.recipe.reach import Reach
from dragoman.shared.recipe.signatures import check_tree, locate, mismatch
from dragoman.shared.recipe.tree import Node, parse_value
from dragoman.shared.training.schedules import Schedule
from dragoman.shared.training.tracking import Tracker
from dragoman.st.distillation import Distilled
from tests.small import refusal


@pytest.mark.parametrize(
    ("value", "hint", "said"),
    [
        ("bleu", list[str], "put it in brackets, [bleu]"),
        (3, list[int], "put it in brackets, [3]"),
        ("a.arrow", tuple[Path, ...], "put it in brackets, [a.arrow]"),
        ("x", list, "put it in brackets, [x]"),
        ("x", list[Any], "put it in brackets, [x]"),
        ("x", list[str | None], "put it in brackets, [x]"),
        ("x", list[str] | None, "put it in brackets, [x]"),
        ("x", list[Tracker], "name objects in brackets, [!new:...]"),
        ("x", list[Schedule | Tracker], "name objects in brackets, [!new:...]"),
    ],
)
def test_a_value_in_the_place_of_a_list(value, hint, said):
    assert mismatch(Node(value, place="here", key="key"), hint).endswith(f": {said}")
    proposal = said.rpartition(", ")[2]
    if "!new" not in proposal:
        assert mismatch(parse_value(proposal, "key"), hint) == ""


@pytest.fixture(autouse=True)
def _trusted():
    with Reach(trusts=True).applied():
        yield


class Drawn(Protocol):
    size: int

    def draw(self) -> int: ...


class Pen:
    def draw(self) -> int:
        return 1


HERE = "shared.recipe.tree"


def call(tag, value=None):
    return Node({} if value is None else value, tag=tag, place="here", key="key")


@pytest.mark.parametrize(
    ("value", "hint", "said"),
    [
        (1, Any, ""),
        (1, object, ""),
        (1, None, ""),
        (1, inspect.Parameter.empty, ""),
        (1, TypeVar("T"), ""),
        (1, "Later", ""),
        ("a", NewType("Name", str), ""),
        (1, NewType("Name", str), '1 is not a str: put it in quotes, "1"'),
        (1, Annotated[str, "a note"], '1 is not a str: put it in quotes, "1"'),
        ("pre", Literal["pre", "post"], ""),
        ("mid", Literal["pre", "post"], "'mid' is not one of 'pre', 'post'"),
        (True, Literal[1, 2], "True is not one of 1, 2"),
        (None, type(None), ""),
        (1, type(None), "1 is not null"),
        (None, int | None, ""),
        ("x", int | None, "'x' is not an int"),
        ("x", int | float | None, "'x' is not an int or a float or null"),
        (3, int, ""),
        (3, float, ""),
        (3.5, float, ""),
        (3.5, int, "3.5 is not an int"),
        (3.0, int, "3.0 is not an int: write 3"),
        (float("inf"), int, "inf is not an int"),
        (float("inf"), float, "inf is not a finite number"),
        (float("nan"), float, "nan is not a finite number"),
        (2**63 - 1, int, ""),
        (-(2**64), int, "-18446744073709551616 is a number of more than 64 bits"),
        (2**64, float, "18446744073709551616 is a number of more than 64 bits"),
        ("3", int, "'3' is not an int: write 3.0 without quotes"),
        ("1e-3", float, "'1e-3' is not a float: write 0.001 without quotes"),
        ("inf", float, "'inf' is not a float"),
        (True, bool, ""),
        (True, int, "True is not an int"),
        (True, float, "True is not a float"),
        (True, str, "True is not a str"),
        (1, bool, "1 is not a bool"),
        ("a", str, ""),
        (1.5, str, '1.5 is not a str: put it in quotes, "1.5"'),
        ("a/b", Path, ""),
        ("a/b", os.PathLike, ""),
        (1, Path, "1 is not a Path"),
        (1, os.PathLike, "1 is not a PathLike"),
        ("a", Pen, "'a' is not a Pen"),
        ("a", Drawn, ""),
        ("a", Callable[[int], int], "'a' is not Callable[[int], int]"),
        ("a", dict[str, int], "'a' is not dict[str, int]"),
        ("a", Mapping[str, int], "'a' is not Mapping[str, int]"),
        ("x" * 80, int, f"'{'x' * 56}... is not an int"),
    ],
)  # fmt: skip
def test_plain_values_and_annotations(value, hint, said):
    assert mismatch(Node(value, place="here", key="key"), hint) == said


@pytest.mark.parametrize(
    ("text", "hint", "said"),
    [
        ("[1, 2]", list[int], ""),
        ("[1, x]", list[int], "item 1: 'x' is not an int"),
        ("[]", list[int], ""),
        ("[1, x]", list, ""),
        ("[1, 2]", Sequence[int], ""),
        ("[1, x]", Any, ""),
        ("[1, x]", tuple[int, str], ""),
        ("[1, x]", tuple[int, int], "item 1: 'x' is not an int"),
        ("[1, x]", tuple[int, ...], "item 1: 'x' is not an int"),
        ("[1, 2, 3]", tuple[int, int], "a list of 3 is not tuple[int, int]"),
        ("(1, 2, 3)", tuple[int, int], "a tuple of 3 is not tuple[int, int]"),
        ("[1]", int, "a list of 1 is not an int"),
        ("[1]", Drawn, ""),
        ("[1]", Callable[[], int], "a list of 1 is not Callable[[], int]"),
        ("[1]", dict[str, int], "a list of 1 is not dict[str, int]"),
        ("{a: 1}", dict[str, int], ""),
        ("{a: 1, b: x}", dict[str, int], "b: 'x' is not an int"),
        ("{a: 1, b: x}", dict, ""),
        ("{a: 1, b: x}", Mapping[str, str], 'a: 1 is not a str: put it in quotes, "1"'),
        ("{a: 1}", list[int], "a mapping is not list[int]: name its class with !new:"),
        ("{a: 1}", Pen, "a mapping is not a Pen: name its class with !new:"),
        ("{a: 1}", Drawn, ""),
        ("{a: [x]}", dict[str, list[int]], "a: item 0: 'x' is not an int"),
    ],
)
def test_lists_and_mappings(text, hint, said):
    assert mismatch(parse_value(text, "key"), hint) == said


@pytest.mark.parametrize(
    ("tag", "hint", "said"),
    [
        ("!new:shared.recipe.tree.Node", Node, ""),
        ("!new:shared.recipe.tree.Node", Pen, "!new:shared.recipe.tree.Node is not a Pen"),
        ("!new:shared.recipe.tree.Node", Drawn, "!new:shared.recipe.tree.Node is not a Drawn"),
        ("!new:shared.recipe.tree.Node", Node | None, ""),
        ("!new:shared.recipe.tree.Node", Literal["a"], "!new:shared.recipe.tree.Node is not one of 'a'"),
        ("!new:shared.recipe.tree.read", Pen, ""),  # refused elsewhere
        ("!apply:shared.recipe.tree.read", int, ""),
        ("!module:shared.recipe.tree", int, ""),
        ("!name:shared.recipe.tree.Node", type, ""),
        ("!name:shared.recipe.tree.read", Callable[[], int], ""),
        ("!name:shared.recipe.tree.read", int, "!name:shared.recipe.tree.read is not an int"),
        ("!name:shared.recipe.tree.read", list[int], "!name:shared.recipe.tree.read is not list[int]"),
        ("!name:shared.recipe.tree.COMMAND_LINE", str, ""),
        ("!name:shared.recipe.tree.COMMAND_LINE", int, "!name:shared.recipe.tree.COMMAND_LINE is not an int"),
        ("!name:shared.recipe.tree.COMMAND_LINE", Drawn, ""),
    ],
)
def test_calls_and_annotations(tag, hint, said):
    assert mismatch(call(tag), hint) == said


def test_a_protocol_asks_for_its_methods():
    class Described(Drawn, Protocol):
        def refuse(self) -> None: ...

        def _own(self) -> None: ...

    class Refusing(Protocol):
        place: str

        def refuse(self) -> None: ...

        def _own(self) -> None: ...

    assert mismatch(call("!new:shared.recipe.tree.Node"), Refusing) == ""
    assert mismatch(call("!new:shared.recipe.tree.Node"), Described) != ""  # draw, which a base asks for


@pytest.mark.parametrize(
    ("tag", "value", "said"),
    [
        ("!module:shared.recipe.tree", None, None),
        ("!module:shared.recipe.tree.Node", None, f"{HERE}.Node is not a module"),
        ("!module:shared.recipe.tree", "{a: 1}", f"{HERE} takes no arguments"),
        ("!new:shared.recipe.tree.read", None,
         f"{HERE}.read is not a class: use !name: for the thing itself, !apply: to call a function"),
        ("!new:collections.abc.Sized", None,
         "collections.abc.Sized is abstract (it lacks __len__): name one of its subclasses"),
        ("!apply:shared.recipe.tree.Node", "{value: 1}", f"{HERE}.Node is not a function: use !new: for classes"),
        ("!name:shared.recipe.tree.COMMAND_LINE", None, None),
        ("!name:shared.recipe.tree.COMMAND_LINE", "{a: 1}", f"{HERE}.COMMAND_LINE takes no arguments"),
        ("!new:shared.recipe.tree.Node", "{value: 1}", None),
        ("!new:shared.recipe.tree.Node", "{value: 1, tagg: a}",
         f"{HERE}.Node has no argument 'tagg' (did you mean 'tag'?)"),
        ("!new:shared.recipe.tree.Node", "{tag: a}", f"{HERE}.Node needs the argument 'value'"),
        ("!new:shared.recipe.tree.Node", None, f"{HERE}.Node needs the argument 'value'"),
        ("!new:shared.recipe.tree.Node", "{value: 1, own: 3}", f"3 is not a bool ({HERE}.Node)"),
        ("!new:shared.recipe.tree.Node", "{value: 1, source: null}", None),
        ("!new:shared.recipe.tree.Node", "[1, a]", None),
        ("!new:shared.recipe.tree.Node", "[1, 2]", f"2 is not a str: put it in quotes, \"2\" ({HERE}.Node)"),
        ("!apply:shared.recipe.tree.parse_value", "[a, b]", None),
        ("!apply:shared.recipe.tree.parse_value", "[a, b, c]",
         f"{HERE}.parse_value takes 2 positional arguments, not 3"),
        ("!apply:shared.recipe.tree.parse_value", "[a]", f"{HERE}.parse_value needs the argument 'key'"),
        ("!name:shared.recipe.tree.parse_value", "[a]", None),  # the rest comes with the call
        ("!apply:shared.recipe.tree.nearest", "[a, [b], 3]", f"{HERE}.nearest takes 2 positional arguments, not 3"),
        ("!apply:shared.recipe.tree.nearest", "{name: a, candidates: [b], few: 3}", None),
        ("!new:torch.nn.Sequential", "[1, 2, 3]", None),  # takes any number
        ("!new:torch.nn.Sequential", "{a: 1}", "torch.nn.Sequential has no argument 'a'"),
        ("!new:builtins.dict", "{a: 1}", None),
    ],
)  # fmt: skip
def test_a_call_is_compared_with_its_signature(tag, value, said):
    node = call(tag, None if value is None else parse_value(value, "key").value)
    if said is None:
        check_tree(node)
    else:
        assert refusal(UsageError, check_tree, node).partition("key")[2].partition(": ")[2] == said


FUSED = "mt.bert_fused.FusedLayer"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"pre_norm": "true"}, None),
        ({"heads": "x"}, f"'x' is not an int ({FUSED})"),
        ({"drop_net": "1.5"}, f"must be between 0 and 1, not 1.5 ({FUSED})"),
        ({"heads": None}, f"{FUSED} needs the argument 'heads'"),
        ({"headz": "2"}, f"{FUSED} has no argument 'headz' (did you mean 'heads'?)"),
        ({"variant": "null"}, f"{FUSED} has no argument 'variant'"),
    ],
)
def test_what_a_constructor_hands_on_is_compared_too(changes, said):
    """FusedLayer takes ``**parts: Unpack[LayerParts]``, some of whose keys may lack (PEP 692)."""
    given = {"width": "8", "heads": "2", "feedforward": "8", "memories": "{source: 8, bert: 4}"} | changes
    node = call(f"!new:{FUSED}", {key: parse_value(text, "key") for key, text in given.items() if text is not None})
    if said is None:
        check_tree(node)
    else:
        assert refusal(UsageError, check_tree, node).partition("key")[2].partition(": ")[2] == said


def test_all_that_may_lack_may_lack():
    """The keys of CrossEntropyParts, a TypedDict with ``total=False``."""
    accepted = parameters(Distilled.__init__)
    assert {name for name, one in accepted.items() if one.default is one.empty} == {"self", "teacher"}
    assert hints(Distilled.__init__)["source"] == str | None


def test_what_has_been_checked_is_not_checked_again():
    wrong = call("!new:shared.recipe.tree.Node")
    seen = {id(wrong)}
    check_tree(wrong, seen)
    outer = Node([wrong, call("!module:shared.recipe.tree")], place="here", key="all")
    check_tree(outer, seen)
    assert seen == {id(outer), *map(id, outer.value)}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("a-b", "'a-b' is not the path of a class, function or module"),
        ("shard.nn", "shard.nn: there is no module 'shard', installed or beside the recipe (did you mean 'shared'?)"),
        ("zzz.nn", "zzz.nn: there is no module 'zzz', installed or beside the recipe"),
        ("shared.recipe.tre.Node",
         "shared.recipe.tre.Node: there is no 'tre' in shared.recipe (did you mean 'tree'?)"),
        ("shared.recipe.tree.Nod", "shared.recipe.tree.Nod: there is no 'Nod' in shared.recipe.tree "
         "(did you mean 'Node'?)"),
        ("shared.recipe.tree.qqq", "shared.recipe.tree.qqq: there is no 'qqq' in shared.recipe.tree"),
        ("shared.recipe.tree.Node.walc", "shared.recipe.tree.Node.walc: there is no 'walc' in "
         "shared.recipe.tree.Node (did you mean 'walk'?)"),
    ],
)  # fmt: skip
def test_a_path_that_leads_nowhere(path, said):
    assert refusal(UsageError, lambda: locate(call(f"!name:{path}"))) == f"here: key: {said}"


def test_a_path_is_followed():
    assert locate(call("!name:shared.recipe.tree.Node.walk")) is Node.walk
    assert locate(call("!name:len")) is len
    assert locate(call("!module:shared.recipe")).__name__ == "dragoman.shared.recipe"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import not_there_at_all", "broken cannot be imported: No module named 'not_there_at_all' (is it an extra "
         "of the installation?)"),
        ("raise OSError('a\\nb')", "broken cannot be imported: OSError: a b"),
    ],
)  # fmt: skip
def test_a_module_that_cannot_be_imported(text, said, tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert refusal(UsageError, lambda: check_tree(call("!module:broken"))) == f"here: key: {said}"
