"""The tree of a recipe, read and written as YAML.

The nodes know where they were written, so that whatever is wrong with one can be said with file, line and key.
"""

from __future__ import annotations

import difflib
import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

import ruamel.yaml
from ruamel.yaml.comments import CommentedMap, CommentedSeq, TaggedScalar
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString
from ruamel.yaml.tag import Tag

from dragoman.shared.errors import UsageError, shortened
from dragoman.shared.machine.nesting import yaml_problem
from dragoman.shared.moved import as_present
from dragoman.shared.recipe.arithmetic import BITS
from dragoman.shared.recipe.comments import comment

COMMAND_LINE = "command line"
#: The places of values that an arm gives begin with this.
OF_ARM = "--arm "
TAGS = ("!ref", "!copy", "!tuple", "!PLACEHOLDER")
#: A phase that runs another recipe.
INNER = "!new:dragoman.runs.RunRecipe"
CALLS = ("!new:", "!name:", "!apply:", "!module:")
INSTEAD = {"!include:": "base: FILE at the top of the recipe", "!applyref:": "!apply:"}
_SCALARS = {f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float")}
_PLAIN = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "timestamp", "value", "map", "seq")} | _SCALARS
_TUPLE = re.compile(r"\(.*\)")
_PLAIN_ITEMS = "a tuple holds plain values only: use a list"


@dataclass(eq=False)
class Node:
    """A value of a recipe and where it was written.

    Attributes:
        value: a dictionary or list of nodes, or a plain value; for ``!ref`` and ``!copy`` the text of the reference.
        tag: "" for plain values, else as written: "!new:shared.nn.encoder.Encoder", "!ref", ...
        place: "recipes/almanac/st.yaml:12", "--arm none (recipes/almanac/st.yaml:30)" or "command line".
        key: "model.encoder.layers".
        own: whether it stands in the recipe itself or on the command line, and not in its base.
        source: for a node whose references have been followed, the node as it was written.
        off: for a null, the phase that it switches off, if that runs another recipe.
        comment: what the file says about it, on one line.
        bare: a key of the command line stands without a value, which is then True.
    """

    value: Any
    tag: str = ""
    place: str = ""
    key: str = ""
    own: bool = True
    source: Node | None = field(default=None, repr=False)
    off: Node | None = field(default=None, repr=False)
    comment: str = field(default="", repr=False)
    bare: bool = field(default=False, repr=False)

    @property
    def where(self) -> str:
        """Return place and key, as errors begin."""
        return f"{self.place}: {'--' if self.place == COMMAND_LINE else ''}{self.key}"

    @property
    def given(self) -> bool:
        """True if the command line gives the value, or the arm that it names."""
        return self.place == COMMAND_LINE or self.place.startswith(OF_ARM)

    @property
    def path(self) -> str:
        """Return what a ``!new:``, ``!name:``, ``!apply:`` or ``!module:`` names, "" for other nodes."""
        return self.tag.partition(":")[2]

    def refuse(self, problem: str, cause: BaseException | None = None) -> NoReturn:
        """Raise a UsageError about this node."""
        raise UsageError(f"{self.where}: {problem}") from cause

    def refuse_value(self, problem: str, cause: BaseException) -> NoReturn:
        """Raise a UsageError about an object that refuses its arguments; those that it names are said as keys.

        The constructor knows the names of its own arguments only, and a person gives keys: its "total" is "updates".
        """
        keys = {}
        for name, child in self.items():
            is_argument = child.key.rpartition(".")[2] == str(name)
            if child.key and not is_argument and re.search(rf"(?<![\w.]){re.escape(str(name))}(?![\w.])", problem):
                keys[child.key] = f"{name} is the key {child.key}"
        self.refuse(f"{self.tag}: {problem}" + (f" ({', '.join(keys.values())})" if keys else ""), cause)

    def items(self) -> Iterator[tuple[Any, Node]]:
        """Yield the names (or indices) and nodes inside."""
        if isinstance(self.value, dict):
            yield from self.value.items()
        elif isinstance(self.value, list):
            yield from enumerate(self.value)

    def copied(self) -> Node:
        """Return a copy of the tree; what stands in it twice is one node there, too."""
        return _copied(self, {})

    def walk(self) -> Iterator[Node]:
        """Yield this node and all inside, each once."""
        seen: set[int] = set()
        todo = [self]
        while todo:
            node = todo.pop()
            if id(node) not in seen:
                seen.add(id(node))
                yield node
                todo.extend(child for _, child in node.items())


def _copied(node: Node, done: dict[int, Node]) -> Node:
    if id(node) not in done:
        value = node.value
        if isinstance(value, dict):
            value = {name: _copied(child, done) for name, child in value.items()}
        elif isinstance(value, list):
            value = [_copied(child, done) for child in value]
        done[id(node)] = Node(value, node.tag, node.place, node.key, node.own, node.source, node.off, node.comment)
    return done[id(node)]


def nearest(name: object, candidates: Iterable[object], *, few: int = 8) -> str:
    """Ask whether the nearest known name was meant; if none is near, list them if they are few, else say nothing."""
    names = sorted({str(k) for k in candidates})
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.6)
    if close:
        return f" (did you mean {close[0]!r}?)"
    return f" (there is {', '.join(names)})" if 0 < len(names) <= few else ""


# -- reading --------------------------------------------------------------------------------------------------------


def read(path: Path, shown: str, *, own: bool = True) -> Node:
    """Read one file.

    Args:
        path: the file.
        shown: how messages name it.
        own: see :class:`Node`.

    Raises:
        UsageError: naming file, line and key, for a file that cannot be read or is not a mapping of keys.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{shown}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    return read_text(text, shown, own=own)


def read_text(text: str, shown: str, *, own: bool = True) -> Node:
    """Read the text of a recipe; see :func:`read`."""
    return _converted(text, shown, own).copied()


@lru_cache(maxsize=1024)
def _converted(text: str, shown: str, own: bool) -> Node:
    """Return the tree of a text, which nobody changes: recipes that run others read the same bases again and again."""
    root = _Reader(text, shown, own).read("")
    if not isinstance(root.value, dict) or root.tag:
        raise UsageError(f"{shown}: a recipe is a mapping of keys to values")
    return root


def parse_value(text: str, key: str) -> Node:
    """Read the value of an override: YAML, or just text where it is not YAML (``a: b``, ``#3``)."""
    plain = Node(text, place=COMMAND_LINE, key=key)
    if not text.strip():
        return plain
    try:
        node = _Reader(text, COMMAND_LINE, own=True).read(key)
    except UsageError:
        if text.lstrip()[0] in "[{!\"'":
            raise
        return plain
    quoted = text.lstrip()[0] in "\"'"
    if isinstance(node.value, str) and not node.tag and not quoted:
        return plain  # YAML would cut "a #3" short
    if isinstance(node.value, dict | list) and not node.tag and text.lstrip()[0] not in "[{":
        return plain  # "a: b" and "- a"
    return node


class _Reader:
    def __init__(self, text: str, shown: str, own: bool, *, in_tuple: bool = False) -> None:
        self.text = text
        self.shown = shown
        self.own = own
        self.in_tuple = in_tuple
        self.lines = text.splitlines()
        self.yaml = ruamel.yaml.YAML(typ="safe", pure=True)
        self.done: dict[int, Node] = {}
        self.open: set[int] = set()

    def read(self, key: str) -> Node:
        problem = yaml_problem(self.text)
        if problem:
            self.refuse(key, *problem)
        try:
            root = self.yaml.compose(self.text)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            self.refuse(key, mark.line + 1 if mark else None, f"not YAML: {error.problem or error.context}", error)
        except YAMLError as error:
            self.refuse(key, None, f"not YAML: {' '.join(str(error).split())}", error)
        if root is None:
            self.refuse(key, None, "is empty")
        return self.convert(root, key)

    def refuse(self, key: str, line: int | None, problem: str, cause: BaseException | None = None) -> NoReturn:
        if self.shown == COMMAND_LINE:
            place = f"{COMMAND_LINE}: --{key}"
        else:
            place = self.shown if line is None else f"{self.shown}:{line}"
        raise UsageError(f"{place}: {problem}") from cause

    def place(self, yaml_node: Any) -> str:
        return self.shown if self.shown == COMMAND_LINE else f"{self.shown}:{yaml_node.start_mark.line + 1}"

    def convert(self, yaml_node: Any, key: str, at: Any = None) -> Node:
        if id(yaml_node) in self.done:  # a YAML alias
            return self.done[id(yaml_node)]
        node = Node(None, self.tag(yaml_node), self.place(at or yaml_node), key, self.own)
        node.comment = comment(self.lines, yaml_node, at)
        if id(yaml_node) in self.open:
            node.refuse("contains itself")
        self.open.add(id(yaml_node))
        if isinstance(yaml_node, ruamel.yaml.MappingNode):
            node.value = {}
            for name_node, value_node in yaml_node.value:
                name = name_node.value
                inside = f"{key}.{name}" if key else str(name)
                here = Node(None, place=self.place(name_node), key=inside)
                if name_node.tag != "tag:yaml.org,2002:str":
                    here.refuse(f'the name {name!r} is not text: put it in quotes, "{name}"')
                if name in node.value:
                    here.refuse(f"is defined twice (first: {node.value[name].place})")
                node.value[name] = self.convert(value_node, inside, name_node)
        elif isinstance(yaml_node, ruamel.yaml.SequenceNode):
            node.value = [self.convert(item, f"{key}.{i}") for i, item in enumerate(yaml_node.value)]
        else:
            node.value = self.scalar(yaml_node, node)
        if node.tag in TAGS and not isinstance(node.value, list if node.tag == "!tuple" else str):
            node.refuse(f"{node.tag} cannot tag a {type(node.value).__name__}")
        self.open.discard(id(yaml_node))
        self.done[id(yaml_node)] = node
        return node

    def tag(self, yaml_node: Any) -> str:
        tag = str(yaml_node.tag or "")
        if tag in _PLAIN or tag in TAGS or any(tag.startswith(call) and tag != call for call in CALLS):
            return as_present(tag) if tag.startswith("!") else ""
        for unsupported, instead in INSTEAD.items():
            if tag.startswith(unsupported):
                raise UsageError(f"{self.place(yaml_node)}: {tag}: not supported: use {instead}")
        raise UsageError(f"{self.place(yaml_node)}: unknown tag {tag}{nearest(tag.split(':')[0] + ':', CALLS + TAGS)}")

    def scalar(self, yaml_node: Any, node: Node) -> Any:
        text: str = yaml_node.value
        if node.tag == "!PLACEHOLDER":  # its comment says what is wanted
            line = self.text.splitlines()[yaml_node.start_mark.line]
            return line.partition("#")[2].strip()
        if node.tag.startswith(CALLS):
            if text:
                node.refuse(f"{node.tag} is followed by {text!r}, not by a mapping of arguments")
            return {}
        if node.tag == "" and yaml_node.style is None and _TUPLE.fullmatch(text):
            node.tag = "!tuple"
        if node.tag == "!tuple":
            if self.in_tuple:
                node.refuse(_PLAIN_ITEMS)
            if not _TUPLE.fullmatch(text):
                node.refuse(f"!tuple is followed by {text!r}, not by (1, 2)")
            items: list[Node] = _Reader(f"[{text[1:-1]}]", self.shown, self.own, in_tuple=True).read(node.key).value
            return items
        if str(yaml_node.tag) not in _SCALARS:
            return text
        try:
            value = self.yaml.constructor.construct_object(yaml_node)
        except ValueError as error:  # more digits than Python converts
            node.refuse(f"{shortened(text)!r} cannot be read as {str(yaml_node.tag).rpartition(':')[2]}", error)
        if isinstance(value, int) and value.bit_length() > BITS:
            node.refuse(f"{shortened(text)!r} has more than {BITS} bits")
        return value


# -- writing --------------------------------------------------------------------------------------------------------


def to_yaml(root: Node, *, width: int = 120) -> str:
    """Write a tree as YAML; a node that stands in several places is written once, with an anchor."""
    stream = io.StringIO()
    yaml = ruamel.yaml.YAML()
    yaml.width = width
    yaml.dump(_commented(root, {}), stream)
    text: str = stream.getvalue()
    return text


def _commented(node: Node, done: dict[int, Any]) -> Any:
    if id(node) in done:
        return done[id(node)]
    result: Any
    if node.tag == "!tuple":
        result = TaggedScalar(value=f"({', '.join(_tuple_item(item) for item in node.value)})", style=None)
    elif isinstance(node.value, dict):
        result = CommentedMap((name, _commented(child, done)) for name, child in node.value.items())
    elif isinstance(node.value, list):
        result = CommentedSeq(_commented(child, done) for child in node.value)
    elif node.tag:
        result = TaggedScalar(value="" if node.tag == "!PLACEHOLDER" else node.value, style=None)
    elif isinstance(node.value, str) and (_TUPLE.fullmatch(node.value) or "\n" in node.value):
        result = DoubleQuotedScalarString(node.value)
    else:
        return node.value
    if node.tag:
        result.yaml_set_ctag(Tag(suffix=node.tag))
    done[id(node)] = result
    return result


def _tuple_item(item: Node) -> str:
    if item.tag or isinstance(item.value, dict | list):
        item.refuse(_PLAIN_ITEMS)
    text = json.dumps(item.value, ensure_ascii=False)
    return re.sub(r"^(-?\d+)e", r"\1.0e", text)  # HyperPyYAML reads tuples as YAML 1.1, where 1e-10 is text


def leaves(node: Node, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the dotted keys of a tree and their values as text; of an object, first its path."""
    for inside, text, _ in leaf_nodes(node, key):
        yield inside, text


def leaf_nodes(node: Node, key: str = "") -> Iterator[tuple[str, str, Node]]:
    """Yield what :func:`leaves` does, with the nodes themselves."""
    children = [(f"{key}.{name}" if key else str(name), child) for name, child in node.items()]
    if children and node.tag != "!tuple":
        if node.tag:
            yield key, node.tag, node
        for inside, child in children:
            yield from leaf_nodes(child, inside)
    else:
        value = json.dumps(plain(Node(node.value)), ensure_ascii=False)
        written = node.value if isinstance(node.value, str) else value
        yield key, f"{node.tag} {written}".strip() if node.tag else value, node


def keys_inside(node: Node, key: str = "") -> Iterator[tuple[str, str, Node]]:
    """Yield the dotted keys of all mappings in a tree, the last part of each, and its node."""
    for name, child in node.items():
        inside = f"{key}.{name}" if key else str(name)
        if isinstance(node.value, dict):
            yield inside, str(name), child
        yield from keys_inside(child, inside)


def plain(node: Node) -> Any:
    """Turn a tree into plain data; an object becomes ``{"!new:path": {arguments}}``."""
    value: Any = node.value
    if isinstance(value, dict):
        value = {name: plain(child) for name, child in value.items()}
    elif isinstance(value, list):
        value = [plain(child) for child in value]
    return {node.tag: value} if node.tag and node.tag != "!tuple" else value


def arguments_in(plain: Any) -> dict[str, Any]:
    """Return the arguments of an object in plain data, ``{"!new:path": {arguments}}``; empty if it is none."""
    if isinstance(plain, dict) and len(plain) == 1:
        (tag, arguments), *_ = plain.items()
        if tag.startswith("!") and isinstance(arguments, dict):
            return arguments
    return {}
