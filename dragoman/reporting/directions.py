"""Tests of several directions: which of them belong together, and their scores as a table of sources by targets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import mean

from dragoman.shared.text import languages


def direction_of(split: str) -> tuple[str, str, str] | None:
    """Return source, target and name of a test set: ("de", "en", "test") of "de-en/test"; None for others."""
    pair, slash, name = split.partition("/")
    parts = pair.split("-")
    for n in range(1, len(parts)):
        source, target = "-".join(parts[:n]), "-".join(parts[n:])
        if slash and source in languages.LANGUAGES and target in languages.LANGUAGES:
            return source, target, name
    return None


def by_name(splits: Iterable[str]) -> dict[str, list[str]]:
    """Return the test sets of several directions that have one name: {"test": ["de-en/test", "fr-en/test"]}."""
    groups: dict[str, list[str]] = {}
    for split in splits:
        direction = direction_of(split)
        if direction:
            groups.setdefault(direction[2], []).append(split)
    return {name: members for name, members in groups.items() if len(members) > 1}


def table(scores: Mapping[str, float]) -> list[list[str]]:
    """Return scores by test set (``{"de-en/test": 31.2}``) as sources by targets, with headings and means."""
    cells = {parts[:2]: value for split, value in scores.items() if (parts := direction_of(split))}
    sources = list(dict.fromkeys(source for source, _ in cells))
    written = list(dict.fromkeys(target for _, target in cells))
    targets = [code for code in sources if code in written] + [code for code in written if code not in sources]
    lines = [["", *targets, "mean"]]
    for source in sources:
        row = [cells.get((source, target)) for target in targets]
        lines.append([source, *map(_shown, row), _mean(row)])
    columns = [[cells.get((source, target)) for source in sources] for target in targets]
    lines.append(["mean", *map(_mean, columns), _mean(list(cells.values()))])
    return lines


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _mean(values: Iterable[float | None]) -> str:
    numbers = [value for value in values if value is not None]
    return _shown(mean(numbers) if numbers else None)
