"""Recipes over base recipes, overrides over recipes, and what references in them refer to."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Collection, Mapping
from itertools import dropwhile
from typing import Any

from dragoman.shared.errors import shortened
from dragoman.shared.machine.nesting import DEPTH
from dragoman.shared.recipe.arithmetic import LONGEST, calculated
from dragoman.shared.recipe.elsewhere import advice, keys_called
from dragoman.shared.recipe.tree import INNER, Node, keys_inside, nearest, plain

_REFERENCE = re.compile(r"<([^<>]+)>")
#: References may repeat each other up to so many values; the largest of this project's recipes have some thousands.
MOST_VALUES = 200_000


# -- base recipes and overrides -------------------------------------------------------------------------------------


def merge(base: Node, new: Node) -> Node:
    """Lay a recipe over its base: mappings are merged, everything else is replaced.

    A mapping is merged into a mapping with the same tag, and one without a tag into any. A name that the base does
    not have is put behind the one that it follows in the recipe.
    """
    if not (isinstance(base.value, dict) and isinstance(new.value, dict) and new.tag in ("", base.tag)):
        if new.value is None and not new.tag:
            new.off = base if base.tag == INNER else base.off
        new.comment = new.comment or base.comment
        return new
    common = [name for name in new.value if name in base.value]
    if new.key == "phases" and common != [name for name in base.value if name in new.value]:
        new.refuse(f"these phases have another order in {base.place}: {', '.join(common)}")
    names = list(base.value)
    previous: str | None = None
    for name in new.value:
        if name not in base.value:
            following = common[0] if common else None
            if previous is not None:
                names.insert(names.index(previous) + 1, name)
            else:
                names.insert(names.index(following) if following else len(names), name)
        previous = name
    merged = {
        name: merge(base.value[name], new.value[name])
        if name in base.value and name in new.value
        else new.value.get(name, base.value.get(name))
        for name in names
    }
    comment = new.comment or base.comment
    return Node(merged, base.tag, base.place, base.key, own=base.own or new.own, comment=comment)


def override(root: Node, key: str, new: Node, *, of: str = "") -> bool:
    """Replace the value at a dotted key. A key inside a phase that runs another recipe is one of that recipe.

    Args:
        root: the recipe.
        key: the key.
        new: the value, which gets the key's name unless the recipe is one that another runs.
        of: the recipe's name, if another runs it.

    Returns:
        Whether the value is another one than before, as it is written; of a recipe that another runs always True.

    Raises:
        UsageError: for a key that the recipe does not have. An argument that a ``!new:`` object is not given in the
            recipe may be given here; whether its class knows it is checked with everything else.
    """
    node = root
    parts = key.split(".")
    for depth, part in enumerate(parts):
        last = depth == len(parts) - 1
        here = ".".join(parts[:depth])
        if node.tag == INNER and part != "recipe":
            _override_inside(node, parts[depth:], here, new, of=of)
            return True
        if node.tag in ("!ref", "!copy"):
            new.refuse(f"{here} is a reference, {node.tag} {node.value}: override what it refers to")
        if not isinstance(node.value, dict | list) or node.tag == "!tuple":
            new.refuse(f"{here} has no keys inside, so {part!r} names nothing in it")
        names = node.value if isinstance(node.value, dict) else [str(i) for i in range(len(node.value))]
        if part not in names and part.replace("-", "_") in names:
            part = part.replace("-", "_")
        index: Any = part if isinstance(node.value, dict) else int(part) if part in names else None
        if part not in names:
            if not (last and _takes_arguments(node)):
                place = " of ".join(filter(None, (here, of)))
                new.refuse(f"no such key{' in ' + place if place else ''}{_meant(root, key, part, names)}")
            part = part.replace("-", "_")
            index = part
        new_key = f"{here}.{part}" if here else part
        if last:
            new.key = new.key if of else new_key
            old = node.value.get(part) if isinstance(node.value, dict) else node.value[index]
            switch = old is None or isinstance(old.value, bool) or old.value == "auto"  # of compile, True is one more
            if new.bare and not switch:
                new.refuse(f"stands without a value: give it with --{new.key} VALUE")
            differs = old is None or plain(old) != plain(new)
            node.value[index] = merge(old, new) if old is not None else new
            return differs
        node = node.value[index]
    raise AssertionError(key)  # a key has at least one part


def _takes_arguments(node: Node) -> bool:
    """Tell whether arguments may be given that are not written there: whether it is an object of this recipe."""
    return node.tag.startswith(("!new:", "!name:")) and node.tag != INNER and isinstance(node.value, dict)


def _meant(root: Node, key: str, part: str, names: Collection[str]) -> str:
    """Suggest a key of this name elsewhere in the recipe, the key with this name in other toolkits, or a similar name.

    Other toolkits come first: ``maximum_tokens`` is similar to fairseq's ``max_tokens``, but is a filter. A name that
    they have for something which this recipe does not have is like nothing in it: ESPnet's ``mtlalpha`` is no mixture.
    """
    nodes = {spelling: (name, node) for spelling, name, node in keys_inside(root)}
    keys = {spelling: name for spelling, (name, _) in nodes.items()}
    wanted = key.replace("-", "_")
    if text := advice(wanted):
        return f" ({text})"
    called = keys_called(wanted, keys, [spelling for spelling, (_, node) in nodes.items() if _takes_arguments(node)])
    meant = [spelling for spelling in keys if spelling.endswith("." + wanted)] or called or []
    if called is not None and not meant:
        return ""
    if not meant and not nearest(part, names, few=0):
        close = difflib.get_close_matches(wanted.rpartition(".")[2], {*keys.values()}, n=1, cutoff=0.8)
        meant = [spelling for spelling, name in keys.items() if name in close]
    if not meant:
        return nearest(part, names)
    meant.sort(key=lambda spelling: (spelling.count("."), spelling))
    return f" (did you mean {' or '.join(map(repr, meant[:3]))}?)"


def _override_inside(phase: Node, parts: list[str], here: str, new: Node, *, of: str) -> None:
    """Replace a value of the recipe that a phase runs."""
    if parts[0] == "overrides":
        new.refuse(f"give a key of the recipe that {here} runs as --{here}.KEY")
    overrides = phase.value.setdefault("overrides", Node({}, "", new.place, f"{here}.overrides"))
    if isinstance(overrides.value, list) and not overrides.tag:
        if not overrides.value or overrides.value[-1].tag or not isinstance(overrides.value[-1].value, dict):
            overrides.value.append(Node({}, "", new.place, f"{here}.overrides"))
        overrides = overrides.value[-1]
    if not isinstance(overrides.value, dict) or overrides.tag:
        new.refuse(f"{here}.overrides is not a mapping, {overrides.tag} {overrides.value}: override what it refers to")
    key = ".".join(parts)
    # The last one wins, however it is spelt. What the inner recipe has, hyphens or underscores, it knows itself.
    for other in [spelling for spelling in overrides.value if spelling.replace("-", "_") == key.replace("-", "_")]:
        del overrides.value[other]
    overrides.value[key] = new
    new.key = new.key if of else f"{here}.{key}"


# -- references -----------------------------------------------------------------------------------------------------


class Resolver:
    """Follows references: what one reference reaches is the same node wherever it is reached from.

    Args:
        root: the whole recipe.
        lenient: let placeholders be empty text.
        moved: folders -> where they are instead; paths in them follow.
        elsewhere: says where any other path leads.

    Attributes:
        used: the top-level keys that references have reached.
        missing: the placeholders that have been reached.
    """

    def __init__(
        self,
        root: Node,
        *,
        lenient: bool = False,
        moved: Mapping[str, str] | None = None,
        elsewhere: Callable[[str], str] = str,
    ) -> None:
        self.root = root
        self.lenient = lenient
        self.moved = dict(moved or {})
        self._elsewhere = elsewhere
        self.missing: list[Node] = []
        self.used: set[str] = set()
        self._done: dict[int, Node] = {}
        self._sizes: dict[int, int] = {}  # a text counts once more for every hundred characters
        self._copied = 0
        self._open: dict[int, Node] = {}

    def resolve(self, node: Node) -> Node:
        """Return the node with all references in it followed.

        Raises:
            UsageError: for a reference to nothing or in a circle, and for a placeholder that has no value.
        """
        if id(node) in self._done:
            return self._done[id(node)]
        if id(node) in self._open:
            circle = dropwhile(lambda other: other is not node, self._open.values())
            node.refuse("refers to itself: " + " -> ".join(other.key for other in [*circle, node]))
        if len(self._open) == DEPTH:
            node.refuse(f"is nested more than {DEPTH} levels deep when references are followed")
        self._open[id(node)] = node
        try:
            result = self._resolve(node)
        finally:
            del self._open[id(node)]
        self._done[id(node)] = result
        self._check_size(node, result)
        return result

    def _check_size(self, node: Node, result: Node) -> None:
        """Refuse a value that references, which repeat each other, make larger than any recipe."""
        if id(result) not in self._sizes:
            inside = sum(self._sizes.get(id(child), 1) for _, child in result.items())
            text = len(result.value) // 100 if isinstance(result.value, str) else 0
            self._sizes[id(result)] = 1 + text + inside
        if self._sizes[id(result)] > MOST_VALUES:
            node.refuse(f"references make more than {MOST_VALUES:,} values of it")

    def _resolve(self, node: Node) -> Node:
        if node.tag == "!PLACEHOLDER":
            self.missing.append(node)
            if self.lenient:
                return Node("", "", node.place, node.key, node.own, node)
            wanted = f" ({node.value})" if node.value else ""
            node.refuse(f"has no value yet: give it with --{node.key} VALUE{wanted}")
        if node.tag in ("!ref", "!copy"):
            return self._follow(node)
        value = node.value
        if isinstance(value, dict):
            value = {name: self.resolve(child) for name, child in value.items()}
        elif isinstance(value, list):
            value = [self.resolve(child) for child in value]
        elif isinstance(value, str) and not node.tag:
            value = self._moved(value)
        return Node(value, node.tag, node.place, node.key, node.own, node)

    def _follow(self, node: Node) -> Node:
        text = node.value.strip()
        if not _REFERENCE.search(text):
            node.refuse(f"{node.tag} {text}: write the key in angle brackets, {node.tag} <key>")
        whole = _REFERENCE.fullmatch(text)
        if whole:
            target = self._find(whole[1], node)
            return self._copy(target, node) if node.tag == "!copy" else target

        def insert(match: re.Match[str]) -> str:
            target = self._find(match[1], node)
            if target.tag or isinstance(target.value, dict | list):
                node.refuse(f"{node.tag} {text}: <{match[1]}> is used inside text, but is not a plain value")
            return str(target.value)

        filled = _REFERENCE.sub(insert, text)
        if len(filled) > LONGEST:
            node.refuse(f"{node.tag} {shortened(text)}: becomes a text of more than {LONGEST:,} characters")
        try:
            value = calculated(filled)
        except ArithmeticError as error:
            node.refuse(f"{node.tag} {shortened(text)}: {shortened(filled)} cannot be calculated ({error})", error)
        if isinstance(value, str):
            value = self._moved(value)
        return Node(value, "", node.place, node.key, node.own, node)

    def _copy(self, target: Node, node: Node) -> Node:
        size = self._sizes.get(id(target), 1)
        self._copied += size
        if self._copied > MOST_VALUES:
            node.refuse(f"copies make more than {MOST_VALUES:,} values")
        result = target.copied()
        self._sizes[id(result)] = size
        return result

    def _moved(self, text: str) -> str:
        """Return a path in the place that its folder has moved to; any other text as it is."""
        for folder in sorted(self.moved, key=len, reverse=True):  # the innermost first
            if text and within(text, folder):
                rest = os.path.relpath(text, folder)
                return self.moved[folder] if rest == "." else os.path.join(self.moved[folder], rest)
        return self._elsewhere(text)

    def _find(self, reference: str, node: Node) -> Node:
        keys, _, attribute = reference.partition(".")
        reached = self.root
        for depth, part in enumerate(part.strip().removesuffix("]") for part in keys.split("[")):
            while reached.tag in ("!ref", "!copy") and (whole := _REFERENCE.fullmatch(reached.value.strip())):
                reached = self._find(whole[1], reached)
            inside = reached.value
            if not isinstance(inside, dict):
                inside = {str(name): child for name, child in reached.items()}
            if part not in inside:
                node.refuse(f"{node.tag} <{reference}>: no key {part!r}{nearest(part, inside)}")
            if depth == 0:
                self.used.add(part)
            reached = inside[part]
        if attribute and isinstance(reached.value, dict) and attribute in reached.value and not reached.tag:
            node.refuse(f"{node.tag} <{reference}>: write <{keys}[{attribute}]>")
        reached = self.resolve(reached)
        if attribute:
            name = Node(attribute, "", node.place, node.key, node.own)
            return Node([reached, name], "!apply:getattr", node.place, node.key, node.own)
        return reached


def within(text: str, place: str) -> bool:
    """Tell whether a path is a place or lies in it."""
    text, place = os.path.normpath(text), os.path.normpath(place)
    return text == place or text.startswith(place + os.sep)
