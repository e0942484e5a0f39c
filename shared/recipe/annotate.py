"""A recipe as a user reads it: beside each line the file and line that it comes from, and the comment there."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from dragoman.shared.recipe.tree import Node, read_text, to_yaml

#: Places begin at most this far to the right; longer lines push theirs further.
_COLUMN = 60


def annotated(root: Node, source: str) -> str:
    """Write a tree as YAML that is a recipe again, with place and comment of each line behind a ``#``."""
    text = to_yaml(root, width=sys.maxsize)
    lines = text.splitlines()
    notes: dict[int, tuple[str, list[str]]] = {}
    for number, node in _by_line(read_text(text, ""), root):
        _, comments = notes.get(number, ("", []))
        if node.comment and node.comment not in comments:
            comments.append(node.comment)
        notes[number] = (node.place or source, comments)
    column = min(_COLUMN, max((len(lines[number]) for number in notes), default=0)) + 2
    width = max((len(place) for place, _ in notes.values()), default=0)
    for number, (place, comments) in notes.items():
        note = f"# {place:{width}}  {' '.join(comments)}".rstrip()
        lines[number] = f"{lines[number]:{column - 2}}  {note}"
    return "".join(line + "\n" for line in lines)


def _by_line(written: Node, node: Node) -> Iterator[tuple[int, Node]]:
    """Yield the nodes of a tree with the number of the line where they begin in the same tree as written, from 0."""
    if node.tag == "!tuple":
        return
    children = dict(node.items())
    for name, child in written.items():
        yield int(child.place.rpartition(":")[2]) - 1, children[name]
        yield from _by_line(child, children[name])


def without_bases(node: Node) -> Node | None:
    """Return what of a tree the recipe itself and the command line say; None if nothing."""
    if not isinstance(node.value, dict):
        return node if any(inside.own for inside in node.walk()) else None  # lists are replaced as a whole
    children = {name: without_bases(child) for name, child in node.value.items()}
    kept = {name: child for name, child in children.items() if child is not None}
    if not kept and not node.own:
        return None
    return Node(kept, node.tag, node.place, node.key, node.own, comment=node.comment)
