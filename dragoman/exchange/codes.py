"""Other projects' symbols for languages: ``de_DE`` and ``en_XX``, ``__de__``, ``deu_Latn``, ``>>deu<<``, ``<2de>``."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.text.languages import LANGUAGES, OTHERS, hint, listed

_WRITTEN = re.compile(
    r"(?:\[|__|>>|<2|<\||<lang:|LANG_TOK_)?"
    r"([a-z]{2,3}|[A-Z]{2,3})(?:[_-]([A-Za-z]{4}))?(?:[_-]([A-Za-z]{2}|[0-9]{3}))?"
    r"(?:\]|__|<<|\|>|>)?"
)
#: Regions that a language is not meant to be of where none is named.
_ELSEWHERE = {"en-GB", "es-MX", "fr-CA", "pt-BR", "zh-HK", "zh-TW"}
#: Names of scripts that are a part, or another name, of ours.
_SCRIPTS = {"Hang": "Kore", "Hani": "Hans"}
_SPELLED = {code: place for place, code in enumerate(OTHERS)}


def tags_by_code(tags: Iterable[str]) -> dict[str, str]:
    """Return somebody's symbols of languages by our code, each for one language at most, in whatever order they come.

    Of several symbols of a language, the plain one is taken (``>>fr<<``), then that of its usual script
    (``cmn_Hans``), of its own region (``fr_FR``), of any other. A region or script of our own table has its own code:
    ``zh_TW`` is never ``zh``.
    """
    given = [*dict.fromkeys(tags)]
    meanings = sorted((rank, tag, code) for tag in given for code, rank in _meanings(tag))
    by_code: dict[str, str] = {}
    # Languages first: what is left has a code with a region or script at best.
    for whole in (True, False):
        for _, tag, code in meanings:
            if ("-" not in code) is whole and code not in by_code and tag not in by_code.values():
                by_code[code] = tag
    return dict(sorted(by_code.items(), key=lambda item: given.index(item[1])))


def language_of(symbol: str) -> str | None:
    """Return our code for a foreign symbol or code of a language, or None if it is not that of a known language."""
    return next(iter(tags_by_code([symbol])), None)


def warn_of_unnamed(tags: Collection[str], named: Iterable[str], source: str | Path) -> None:
    """Name the symbols of languages that nobody can ask for, since no code is theirs."""
    left = sorted({*tags} - {*named})
    if left:
        logging.getLogger("dragoman").warning(
            "%s: %d of %d language tags have no code here: %s", source, len(left), len({*tags}), ", ".join(left)
        )


def _meanings(symbol: str) -> list[tuple[str, tuple[int, int]]]:
    """Return the codes that a symbol can stand for, with the rank among those of the same code; smaller is better."""
    match = _WRITTEN.fullmatch(symbol)
    if not match:
        return []
    written, script, region = match[1].lower(), (match[2] or "").title(), (match[3] or "").upper()
    code = OTHERS.get(written, written)
    if code not in LANGUAGES:
        return []
    spelled = _SPELLED.get(written, -1)  # our own code before others
    if "-" in code:  # pob
        return [] if script or region else [(code, (1, spelled))]
    usual = not script or _SCRIPTS.get(script, script) == LANGUAGES[code].script
    meanings = []
    if script and f"{code}-{script}" in LANGUAGES:
        meanings.append((f"{code}-{script}", (2 if region else 0, spelled)))
    if region and (regional := LANGUAGES.get(f"{code}-{region}")) and (not script or script == regional.script):
        meanings.append((regional.code, (1 if script else 0, spelled)))
    if usual and f"{code}-{region}" not in _ELSEWHERE:
        home = region == code.upper() or f"{code}-{region}" in LANGUAGES
        rank = 0 if not (script or region) else 1 if region in ("", "XX") else 2 if home else 3
        meanings.append((code, (rank, spelled)))
    return meanings


def languages_of_side(
    side: str, given: list[str] | None, *, tagged: Sequence[str], said: str | None, code: str | None, path: str | Path
) -> list[str]:
    """Return the languages that a model reads or writes.

    Args:
        side: "source" or "target".
        given: what the user says that they are.
        tagged: our codes of those that the model has symbols for; none if it has none for languages.
        said: what the model calls the language of this side, if it does.
        code: our code of that.
        path: what was read.

    Raises:
        UsageError: for a language that the model has no symbol for.
        DataError: if nobody says.
    """
    if given:
        unknown = [code for code in given if tagged and code not in tagged]
        if unknown:
            meant = hint(unknown[0], tagged)
            raise UsageError(
                f"the model has no symbol for {', '.join(unknown)}, only for {listed(list(tagged))}{meant}"
            )
        return given
    if tagged:
        return list(tagged)
    if code is None:
        what = f"calls its {side} language {said!r}" if said else f"does not say its {side} language"
        raise DataError(f"{path}: {what}: name it with --{side}-languages")
    return [code]
