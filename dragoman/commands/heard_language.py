"""``--from auto`` for speech: the language of each segment, by the model itself or by one that was trained for it.

The model itself tells it by the symbols with which its outputs begin, as Whisper does (Radford et al. 2022, section
2.3; ``detect_language`` of its code): after the symbols that stand before that of the language, the probabilities of
the languages' symbols are compared, of those that have a code here. Another model: identifying.py.

Legend: B segments, P prefix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import torch

from dragoman.commands.detecting import AUTO, LEAST, Detection, likeliest
from dragoman.commands.endings import warn
from dragoman.commands.identifying import Identifier
from dragoman.shared.batch import Batch
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.generator import Hypothesis, next_scores
from dragoman.shared.padded import Padded
from dragoman.shared.search.search import AnySearch, Search
from dragoman.shared.systems.system import System
from dragoman.shared.text.languages import LANGUAGES, listed


class HeardLanguages:
    """A search that finds out the language of each segment first, and writes it into the row.

    Args:
        search: of the outputs.
        detection: what the user asked for.
        system: that will translate.

    Raises:
        UsageError: if its outputs do not begin with the language that is heard, and there is no other model to ask.
    """

    def __init__(self, *, search: AnySearch, detection: Detection, system: System) -> None:
        self._search, self._detection = search, detection
        if detection.identifier is not None:
            return
        output = system.output
        own = ["{source_language}", *(["{language}"] if output.side == "source" else [])]
        places = [n for n, symbol in enumerate(output.prefix) if any(name in symbol for name in own)]
        if list(system.reads) != ["speech"] or system.generator is None or not isinstance(search, Search):
            raise UsageError(f"source language {AUTO}: this model and search cannot tell the language of speech")
        if not places or not places[0]:
            raise UsageError(
                f"source language {AUTO}: outputs of this model do not begin with the language that is heard"
            )
        self._place = places[0]
        symbol, [name] = output.prefix[self._place], [name for name in own if name in output.prefix[self._place]]
        named = {code: symbol.replace(name, code) for code in LANGUAGES}
        present = {*output.tokenizer.symbols}
        #: Ids of the symbols of all languages that the model has, whichever it may be asked for, by code.
        self.symbols = {code: output.tokenizer.id(one) for code, one in named.items() if one in present}

    def probabilities(self, system: System, batch: Batch) -> list[dict[str, float]]:
        """Return the probability of each language, for each of B segments."""
        if self._detection.identifier is not None:
            return self._detection.identifier.of_sounds(batch)
        assert system.generator is not None
        codes = batch.languages
        prefix = system.prefix(codes[system.output.side], sources=codes["source"]).values[:, : self._place]  # (B, P)
        before = Padded(prefix[:, :-1], torch.full_like(prefix[:, 0], self._place - 1)) if self._place > 1 else None
        state = system.generator.start(system.generator.encode(batch), before)
        scores, _ = next_scores(system.generator, prefix[:, -1], state)
        shares = scores[:, [*self.symbols.values()]].softmax(-1)
        return [dict(zip(self.symbols, row, strict=True)) for row in shares.tolist()]

    def translated(self, system: System, batch: Batch, rows: Sequence[Mapping[str, Any]]) -> list[list[Hypothesis]]:
        """Return the hypotheses of segments, each in the language that was found.

        Raises:
            DataError: naming the first segment whose language is unknown, without a fallback.
        """
        for row, shares in zip(rows, self.probabilities(system, batch), strict=True):
            cast(dict[str, Any], row)["source_language"] = self._chosen(row, shares)  # as its outputs are put together
        languages = batch.languages | {"source": [row["source_language"] for row in rows]}
        return system.translate_batch(replace(batch, languages=languages), self._search)

    def _chosen(self, row: Mapping[str, Any], shares: dict[str, float]) -> str:
        known, fallback = self._detection.known, self._detection.fallback
        code, share = likeliest(shares)
        if share >= LEAST and code in known:
            return code
        name = f"{row['audio']} at {row.get('start') or 0:.2f} s"
        why = f"{code} is likely by {share:.2f}"
        if fallback is None:
            raise DataError(
                f"{name}: the language is unknown ({why}; at least {LEAST} is asked for, and one of {listed(known)}): "
                f"name the source language, or {AUTO}:CODE for such segments"
            )
        warn(f"{name}: an unknown language ({why}), taken for {fallback}")
        return fallback


def heard(
    search: AnySearch, system: System, languages: tuple[str | None, str | None], identifier: Identifier | None = None
) -> tuple[AnySearch, tuple[str | None, str | None]]:
    """Return a search and languages for ``System.parts``; for "auto" a search that finds out the language of speech."""
    detection = Detection.asked(languages[0], system.source_languages, identifier)
    if detection is None:
        return search, languages
    held = HeardLanguages(search=search, detection=detection, system=system)
    return held, (detection.known[0], languages[1] or (detection.known[0] if system.output.side == "source" else None))
