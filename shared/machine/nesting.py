"""Refuses YAML and JSON that their parsers, which call themselves for each level, cannot follow.

Deep nesting exhausts Python's stack, or that of a parser in C, which ends the process. Aliases of YAML that repeat each
other let a small file stand for more values than any memory holds.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

#: The deepest nesting that is read. A recipe or a model's description has some 15 levels.
DEPTH = 100
#: The most values that the aliases of a file may repeat.
REPEATED = 2_000_000

_TOO_DEEP = f"nested more than {DEPTH} levels deep"

# libyaml, where it is there: it makes the events of a file without calling itself.
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def yaml_problem(text: str) -> tuple[int, str] | None:
    """Return line, from 1, and problem of a text that no parser of YAML could follow; to be called before one is."""
    values = repeated = 0
    begun: list[tuple[str | None, int]] = []
    sizes: dict[str, int] = {}
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            line = event.start_mark.line + 1
            if isinstance(event, yaml.CollectionStartEvent):
                begun.append((event.anchor, values))
                if len(begun) > DEPTH:
                    return line, _TOO_DEEP
            elif isinstance(event, yaml.AliasEvent):
                size = sizes.get(event.anchor, 0)
                values += size
                repeated += size
                if repeated > REPEATED:
                    return line, f"aliases repeat more than {REPEATED:,} values"
            elif isinstance(event, yaml.ScalarEvent):
                values += 1
                if event.anchor:
                    sizes[event.anchor] = 1
            elif isinstance(event, yaml.CollectionEndEvent):
                anchor, before = begun.pop()
                values += 1
                if anchor:
                    sizes[anchor] = values - before
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        if "nesting depth" in str(error) and mark is not None:  # libyaml's own limit, in PyYAML from 6.0.4 on
            return mark.line + 1, _TOO_DEEP
    except (yaml.YAMLError, UnicodeEncodeError):
        pass
    return None


def from_json(text: str | bytes) -> Any:
    """Read JSON.

    Raises:
        ValueError: if it is not JSON (``json.JSONDecodeError``), or nested too deep.
    """
    try:
        plain = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    level = [plain]
    for _ in range(DEPTH):
        level = [inside for value in level for inside in _inside(value) if isinstance(inside, dict | list)]
        if not level:
            return plain
    raise ValueError(_TOO_DEEP)


def _inside(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
