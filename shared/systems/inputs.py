"""Users' inputs to a system, sentences and sound files, as rows like those of a manifest; and the outputs."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from dragoman.shared.errors import DataError, UsageError, shortened
from dragoman.shared.generator import Hypothesis
from dragoman.shared.machine.files import check_regular
from dragoman.shared.preparing.findings import LONGEST_TEXT
from dragoman.shared.sound.media import MEDIA_SUFFIXES
from dragoman.shared.sound.segmentation import Segmenter
from dragoman.shared.systems.sound_arrays import SoundArray
from dragoman.shared.text import languages, units

#: A sentence, or sound: the name of a file, or an array.
Input: TypeAlias = str | Path | SoundArray

#: How names of files end that libsndfile reads, or FFmpeg.
AUDIO_SUFFIXES = {
    *(".wav .wave .flac .ogg .oga .opus .mp3 .aif .aiff .aifc .au .snd .caf .w64 .rf64 .sph .nist .voc".split()),
    *MEDIA_SUFFIXES,
}


def joined(parts: list[Hypothesis], codes: dict[str, str], sides: dict[str, str]) -> Hypothesis:
    """Put the hypotheses of a file's segments together as their language has sentences follow one another.

    Args:
        parts: the best hypothesis of each segment, in order.
        codes: the languages of the input, "source_language" and "target_language".
        sides: "source" or "target", by the name of a text.

    Returns:
        All tokens and texts, with the mean of the scores; cut if one of them is.
    """
    texts = {
        name: units.joined((part.texts[name] for part in parts), codes[f"{sides[name]}_language"])
        for name in parts[0].texts
    }
    tokens = [token for part in parts for token in part.tokens]
    score = sum(part.score for part in parts) / len(parts)
    return Hypothesis(tokens, score, texts, cut=any(part.cut for part in parts))


def chosen_language(side: str, given: str | None, codes: Sequence[str]) -> str:
    """Return the language of a side ("source", "target"): the given one, or the only one that is known.

    Raises:
        UsageError: if it is unknown, or has to be named.
    """
    if given is None:
        if len(codes) > 1:
            raise UsageError(f"the system knows several {side} languages ({languages.listed(codes)}): name one")
        return codes[0]
    if given not in codes:
        hint = languages.hint(given, codes)
        raise UsageError(
            f"{side} language {given!r} is unknown to this system, which knows {languages.listed(codes)}{hint}"
        )
    return given


def chosen_languages(
    source: str | None, target: str | None, *, codes: tuple[Sequence[str], Sequence[str]], side: str
) -> tuple[str, str]:
    """Return the languages of an input and its output, which is on ``side``: "source" is a transcript's, or "target".

    Raises:
        UsageError: as :func:`chosen_language`.
    """
    source = chosen_language("source", source, codes[0])
    return source, chosen_language("target", source if target is None and side == "source" else target, codes[1])


def rows_of_inputs(
    inputs: Sequence[str | Path], read: Callable[[str | Path], list[dict[str, Any]]], unreadable: list[DataError] | None
) -> tuple[list[dict[str, Any]], list[range]]:
    """Return the rows of all inputs, and the numbers of each one's; with a list ``unreadable``, errors go there.

    Raises:
        DataError: for an input that cannot be read, without that list.
    """
    rows: list[dict[str, Any]] = []
    owned: list[range] = []
    for item in inputs:
        try:
            item_rows = read(item)
        except DataError as error:
            if unreadable is None:
                raise
            unreadable.append(error)
            item_rows = []
        owned.append(range(len(rows), len(rows) + len(item_rows)))
        rows += item_rows
    return rows, owned


def _called(item: object) -> str:
    shown = repr(str(item)) if isinstance(item, Path) else repr(item)
    return f"the {type(item).__name__} {shortened(' '.join(shown.split()), 200)}"


def warn_of_cut(inputs: Mapping[int, Input]) -> None:
    """Warn, in one line, of inputs whose outputs have all the tokens that the search allows: their ends are missing.

    They are given by their numbers, by which arrays are named.
    """
    if inputs:
        names = [_called(one) if isinstance(one, str | Path) else f"inputs[{n}]" for n, one in inputs.items()]
        logging.getLogger("dragoman").warning(
            "%s: %s cut off at the maximum length: give a search with Rules(maximum_length_extra=...)",
            ", ".join([*names[:3], *["..."] * (len(inputs) > 3)]),
            "the output is" if len(inputs) == 1 else f"{len(inputs):,} outputs are",
        )


def text_row(item: str | Path) -> dict[str, Any]:
    """Return the row of a sentence.

    Raises:
        DataError: if it is too long for one.
        UsageError: if it is no sentence.
    """
    if not isinstance(item, str):
        raise UsageError(f"this system reads text: give sentences, not {_called(item)}")
    if item.lower().endswith(tuple(AUDIO_SUFFIXES)) and os.path.isfile(item):
        raise UsageError(f"this system reads text, and {item!r} is a sound file")
    if len(item) > LONGEST_TEXT:
        raise DataError(
            f"{shortened(item)!r}: {len(item):,} characters, more than {LONGEST_TEXT:,}: text without line ends?"
        )
    return {"id": shortened(item), "audio": None, "source_text": item}


def sound_rows(item: str | Path, segmenter: Segmenter, maximum: float) -> list[dict[str, Any]]:
    """Return the rows of a sound file: one, or one for each of its segments, of at most ``maximum`` seconds.

    Raises:
        DataError: if it cannot be read.
        UsageError: if it is no file's name, or the maximum is out of its range.
    """
    if not isinstance(item, str | Path):
        raise UsageError(f"this system reads speech: give sound files or arrays, not {_called(item)}")
    if not os.path.isfile(item):
        check_regular(item, "sound file")
        raise DataError(f"{shortened(str(item), 200)}: no such sound file (this system reads speech)")
    parts = segmenter(item, maximum=maximum)
    row = {"audio": str(item), "source_text": None}
    names = [str(item)] if len(parts) == 1 else [f"{item}:{start:.2f}" for start, _ in parts]
    segments = zip(names, parts, strict=True)
    return [row | {"id": name, "start": start, "duration": duration} for name, (start, duration) in segments]
