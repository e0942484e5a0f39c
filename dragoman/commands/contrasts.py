"""Challenge sets of contrastive translations: does a model prefer the right one?

Sennrich 2017, EACL, "How Grammatical is Character-level Neural Machine Translation?"; Müller et al. 2018, WMT, "A
Large-Scale Test Set for the Evaluation of Context-Aware Pronoun Translation in Neural Machine Translation".

A row has a source, a reference, and translations with one mistake each, which are scored, not written. Two ways to
count are published, and both are here: of pairs of a reference and a wrong translation, by the phenomenon of the
mistake (LingEval97), and of rows whose reference has a higher score than every wrong translation, by the phenomenon of
the row (ContraPro). Equal scores are wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.scores import Score
from dragoman.shared.text.lines import Unusable, read_lines, read_table
from dragoman.shared.text.surrogates import find_surrogate

#: The columns of a table; one wrong translation a line, those of one row with the same id.
COLUMNS = ("id", "source", "reference", "contrastive", "phenomenon")
#: The names of a row's source and reference in JSON: LingEval97's and ContraPro's.
SOURCES, REFERENCES = ("source", "src segment"), ("reference", "ref segment")


@dataclass(frozen=True)
class Contrast:
    """A row.

    Attributes:
        id: its name.
        source: what is translated.
        reference: the right translation.
        wrong: the wrong ones, and the phenomenon of each.
        phenomenon: of the row.
    """

    id: str
    source: str
    reference: str
    wrong: tuple[tuple[str, str], ...]
    phenomenon: str

    @property
    def texts(self) -> list[str]:
        """The translations, the reference first."""
        return [self.reference, *(text for text, _ in self.wrong)]


def read_contrasts(path: Path) -> list[Contrast]:
    """Read a challenge set: JSON as LingEval97 and ContraPro have it, or else a table (TSV) with ``COLUMNS``.

    The phenomenon of a ContraPro row is that of its pronouns ("it:sie"), as its script counts; of a row of LingEval97
    or of a table, the phenomena of its mistakes.

    Raises:
        DataError: naming file, row and value, if a row has no reference or no wrong translation, a text is blank, a
            wrong translation equals the reference, a text is not valid Unicode, or ids are there twice; or if there are
            no rows.
    """
    contrasts = [*(_of_json(path) if path.suffix == ".json" else _of_table(path))]
    if not contrasts:
        raise DataError(f"{path}: there are no rows")
    seen: set[str] = set()
    for one in contrasts:
        if one.id in seen:
            raise DataError(f"{path}: row {one.id!r}: the id is there twice")
        seen.add(one.id)
        for name, text in (("source", one.source), ("reference", one.reference)):
            if not text.strip():
                raise DataError(f"{path}: row {one.id!r} has no {name}")
        if not one.wrong:
            raise DataError(f"{path}: row {one.id!r} has no contrastive translation")
        for text in (one.source, *one.texts):
            if find_surrogate(text):
                raise DataError(f"{path}: row {one.id!r}: {text!a} is not valid Unicode")
        for text, _ in one.wrong:
            if not text.strip() or text == one.reference:
                raise DataError(f"{path}: row {one.id!r}: {text!r} is no contrast to the reference {one.reference!r}")
    return contrasts


def _of_json(path: Path) -> Iterable[Contrast]:
    try:
        rows = json.loads("\n".join(read_lines(path)))
    except (json.JSONDecodeError, RecursionError) as error:
        raise DataError(f"{path}: no JSON: {error}") from error
    if not isinstance(rows, list):
        raise DataError(f"{path}: must hold a list of rows, not {type(rows).__name__}")
    for number, row in enumerate(rows, 1):
        place = f"{path}: row {number}"
        source, reference = _text(row, SOURCES, place), _text(row, REFERENCES, place)
        errors = row.get("errors", [])
        if not isinstance(errors, list):
            raise DataError(f"{place}: errors must be a list, not {errors!r}")
        pronouns = [str(row[name]).lower() for name in ("src pronoun", "ref pronoun") if name in row]
        wrong = tuple((_text(one, ("contrastive",), place), str(one.get("type", "all"))) for one in errors)
        yield Contrast(str(number), source, reference, wrong, ":".join(pronouns) or _phenomena(wrong))


def _text(row: Any, names: Sequence[str], place: str) -> str:
    """Return a text of a JSON object, by the first of the names that it has."""
    text = next((row[name] for name in names if name in row), None) if isinstance(row, Mapping) else None
    if not isinstance(text, str):
        raise DataError(f"{place} has no text {' or '.join(map(repr, names))}, but {text!r}")
    return text


def _of_table(path: Path) -> Iterable[Contrast]:
    kept: dict[str, tuple[int, str, str, list[tuple[str, str]]]] = {}
    last = None
    for line, cells in read_table(path, COLUMNS):
        if isinstance(cells, Unusable):
            raise DataError(str(cells))
        id, source, reference, contrastive, phenomenon = (cells[name] for name in COLUMNS)
        if id in kept and id != last:
            raise DataError(f"{path}, line {line}: id {id!r} was there in line {kept[id][0]}, with others between")
        first, *texts, wrong = kept.setdefault(id, (line, source, reference, []))
        if texts != [source, reference]:
            raise DataError(f"{path}, line {line}: id {id!r} has another source or reference than in line {first}")
        if contrastive in [text for text, _ in wrong]:
            raise DataError(f"{path}, line {line}: id {id!r} has {contrastive!r} twice")
        wrong.append((contrastive, phenomenon))
        last = id
    for id, (_, source, reference, wrong) in kept.items():
        yield Contrast(id, source, reference, tuple(wrong), _phenomena(wrong))


def _phenomena(wrong: Iterable[tuple[str, str]]) -> str:
    return "+".join(sorted({phenomenon for _, phenomenon in wrong}))


def preferences(contrasts: Sequence[Contrast], scores: Sequence[float]) -> list[Score]:
    """Return the percentages of right decisions: of pairs and of rows, of all and by phenomenon.

    Args:
        contrasts: the rows.
        scores: of each row's texts, row after row; higher is better.

    Raises:
        ValueError: if there are not as many scores as texts.
    """
    pairs: dict[str, list[bool]] = {"all": []}
    rows: dict[str, list[bool]] = {"all": []}
    left = iter(scores)
    if len(scores) != sum(len(one.texts) for one in contrasts):
        raise ValueError(f"{len(scores)} scores are not those of {sum(len(one.texts) for one in contrasts)} texts")
    for one in contrasts:
        reference = next(left)
        right = [reference > next(left) for _ in one.wrong]
        for (_, phenomenon), decision in zip(one.wrong, right, strict=True):
            pairs["all"].append(decision)
            pairs.setdefault(phenomenon, []).append(decision)
        rows["all"].append(all(right))
        rows.setdefault(one.phenomenon, []).append(all(right))
    return [
        Score("preferred", 100 * sum(decisions) / len(decisions), f"preferred|{unit}:{name}", len(decisions))
        for unit, groups in (("pairs", pairs), ("rows", rows))
        for name, decisions in groups.items()
        if name == "all" or len(groups) > 2
    ]
