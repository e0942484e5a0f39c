"""Paragraphs that are translated by sentences, and put together again with the spaces that stood between them.

sentencex (https://github.com/wikimedia/sentencex) finds the sentences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Hypothesis
from dragoman.shared.machine.extras import require
from dragoman.shared.systems.inputs import chosen_languages
from dragoman.shared.systems.system import System
from dragoman.shared.text.languages import spaced
from dragoman.shared.text.units import joined

#: White space in front of a full stop that is no ASCII ends sentencex 1.0 by a panic, half a surrogate by an error.
_UNUSUAL = re.compile(r"[^\S \n]|[\ud800-\udfff]")


def sentence_parts(text: str, language: str) -> list[str]:
    """Return the sentences of a text, with the spaces behind them; joined, they are the text.

    Args:
        text: of any length.
        language: code of its language; one that sentencex does not know is divided as English.

    Raises:
        UsageError: without sentencex.
    """
    require("sentencex", "subtitles", "a division into sentences")
    from sentencex import segment

    parts, start = [], 0
    for part in segment(language.partition("-")[0], _UNUSUAL.sub(" ", text)):
        parts.append(text[start : start + len(part)])
        start += len(part)
    return parts


def gap_between(before: str, behind: str, gap: str, language: str) -> str:
    """Return what stands between two translated sentences.

    Args:
        before: the translation of the first one.
        behind: that of the second one.
        gap: between their sources; see :func:`source_gap`.
        language: code of the translations.

    Returns:
        The gap; "" for Chinese and Japanese, but between words of other scripts.
    """
    return gap if len(joined([before, behind], language)) > len(before) + len(behind) else ""


def source_gap(gap: str, language: str) -> str:
    """Return the white space between two sentences; a space where the language is written without any."""
    return gap if gap or spaced(language) else " "


@dataclass(frozen=True)
class Paragraph:
    """A text of several sentences.

    Attributes:
        sentences: without white space at their ends; none of an empty text.
        gaps: what stands in front of each sentence, see :func:`source_gap`; "" in front of the first.
    """

    sentences: list[str]
    gaps: list[str]

    @classmethod
    def divided(cls, text: str, language: str) -> Paragraph:
        """Return a text in sentences; white space around it is left out, as it is by a translation."""
        sentences: list[str] = []
        gaps: list[str] = []
        gap = ""
        for part in sentence_parts(text, language):
            if sentence := part.strip():
                gap += part[: len(part) - len(part.lstrip())]
                gaps.append(source_gap(gap, language) if sentences else "")
                sentences.append(sentence)
                gap = part[len(part.rstrip()) :]
            else:
                gap += part
        return cls(sentences, gaps)

    def joined(self, translations: Sequence[str], language: str) -> str:
        """Return the translations of all sentences as one text; empty ones are left out with their gap."""
        if len(translations) == 1:
            return translations[0]
        whole = ""
        for gap, text in zip(self.gaps, map(str.strip, translations), strict=True):
            if text:
                whole += (gap_between(whole, text, gap, language) if whole else "") + text
        return whole


def paragraphs_translated(
    system: System,
    texts: Sequence[Any],
    translate: Callable[[list[str]], list[list[Hypothesis]]],
    languages: tuple[str | None, str | None],
) -> list[list[Hypothesis]]:
    """Translate paragraphs by sentences, all of them in the same batches.

    Args:
        system: reads text.
        texts: paragraphs.
        translate: returns its hypotheses of texts; called once, with the sentences of all paragraphs. An empty
            paragraph is passed on as it is.
        languages: of the texts and of the output; None for the system's only one.

    Returns:
        One hypothesis of each paragraph: the best of its sentences together, with the mean of their scores, cut if one
        of them is. A paragraph of one sentence has all of its hypotheses.

    Raises:
        UsageError: if a language has to be named, or sentencex is missing.
    """
    known = system.source_languages, system.output_languages
    codes = chosen_languages(*languages, codes=known, side=system.output.side)
    paragraphs = [Paragraph.divided(text, codes[0]) for text in texts]
    found = iter(translate([part for one in paragraphs for part in one.sentences or [""]]))
    of_side = dict(zip(("source", "target"), codes, strict=True))
    outputs = []
    for paragraph in paragraphs:
        hypotheses = [next(found) for _ in paragraph.sentences or [""]]
        if len(hypotheses) == 1:
            outputs.append(hypotheses[0])
            continue
        best = [first for first, *_ in hypotheses]
        named = {
            name: paragraph.joined([one.texts[name] for one in best], of_side[field.side])
            for name, field in system.texts.items()
        }
        score = sum(one.score for one in best) / len(best)
        tokens = [token for one in best for token in one.tokens]
        outputs.append([Hypothesis(tokens, score, named, cut=any(one.cut for one in best))])
    return outputs


def refuse_split(*, speech: bool, several: bool, marked: bool) -> None:
    """Refuse what ``--split`` does not go with, by UsageError.

    Args:
        speech: the model reads sound.
        several: several hypotheses are asked for.
        marked: an input is a file with a form, which is translated by sentences anyway.
    """
    if speech:
        raise UsageError("--split does not apply: this model reads speech, which is divided at its pauses")
    if several:
        raise UsageError("--split: a paragraph has one hypothesis: without --n-best and --samples")
    if marked:
        raise UsageError(
            "--split does not apply to files of subtitles, JSON and Markdown: they are translated by sentences anyway"
        )
