"""Files of subtitles that are translated: sentences run over blocks, whose times and tags stay (SRT, WebVTT, ASS).

pysubs2 reads and writes the formats, sentencex finds the sentences.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any

from dragoman.commands.input_files import read_text
from dragoman.commands.marked_text import Work
from dragoman.commands.paragraphs import sentence_parts
from dragoman.shared.errors import DataError, plural, shortened
from dragoman.shared.machine.extras import require
from dragoman.shared.text.languages import spaced
from dragoman.shared.text.subtitles import SIGN, SubtitleRules, balanced_lines
from dragoman.shared.text.units import display_words, fitting

#: Formats as pysubs2 calls them, by the endings of files.
FORMATS = {".srt": "srt", ".vtt": "vtt", ".ass": "ass", ".ssa": "ssa"}
#: Milliseconds without a block, after which a new sentence begins.
PAUSE = 2000
#: What a word that ends in a sign saves, in shares of a block, where a sentence is divided.
BEHIND_SIGN = 0.3
_TAG = re.compile(r"<[^<>]*>|\{[^{}]*\}")
_FRAMED = re.compile(rf"((?:{_TAG.pattern}|\s)*)(.*?)((?:{_TAG.pattern}|\s)*)", re.DOTALL)
_DASH = re.compile(r"[-\u2013\u2014]\s*")
_TIMES = re.compile(r"^\s*(\d+:)?\d+:\d+[.,]\d+\s*-->\s*(\d+:)?\d+:\d+[.,]\d+")
#: What of WebVTT pysubs2 takes for text; what its cues refer to is kept, and comes before them.
_BESIDE, _REFERRED = re.compile(r"\s*(NOTE|STYLE|REGION)\b"), re.compile(r"\s*(STYLE|REGION)\b")
#: Of a cue, which pysubs2 takes for text of the one before it.
_NAME = re.compile(r"^\s*[^\n]*\n(?=[^\n]*-->)")
_WRITTEN = re.compile(r"^[\d:.]+ --> [\d:.]+$", re.MULTILINE)
_LINE = r"\N"


@dataclass
class Unit:
    """A block, or a line of one that begins with a dash: somebody else speaks.

    Attributes:
        block: its number.
        dash: what the line begins with; "" if the block is no dialogue.
        text: without tags, in one line.
        begins: whether no sentence goes on from the unit before.
        words: of the translation, as they come.
    """

    block: int
    dash: str
    text: str
    begins: bool
    words: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Sentence:
    """A sentence, and how many of its characters stand in which units."""

    text: str
    parts: list[tuple[Unit, int]]


class SubtitleFile:
    """A file of subtitles whose text can be translated.

    Args:
        path: of the file, in UTF-8.
        language: of its text.

    Attributes:
        sentences: in order.
        lost: how many tags stand inside a text, and are not kept.

    Raises:
        DataError: naming file and line, if it cannot be read, or has blocks without times.
        UsageError: without the libraries.
    """

    def __init__(self, path: Path, language: str) -> None:
        for library in ("pysubs2", "sentencex"):
            require(library, "subtitles", "a translation of subtitles")
        self.path = path
        self.kind = FORMATS[path.suffix.lower()]
        self._above = ""  # of WebVTT: styles and regions
        self._file = self._read()
        self._frames: dict[int, tuple[str, str]] = {}
        self.lost = 0
        self._units = list(self._divided())
        self.sentences = [one for run in self._runs() for one in _sentences(run, language)]

    def work(self, language: str) -> Work:
        """Translate its sentences into a language; return the file."""
        translations = yield [sentence.text for sentence in self.sentences]
        return self.written(translations, language)

    @property
    def remarks(self) -> list[str]:
        """Remarks that a user needs beside the translation."""
        tags = f"{plural(self.lost, 'tag')} inside of texts left out; those around whole texts are kept"
        return [tags] if self.lost else []

    def written(self, translations: Sequence[str], language: str, rules: SubtitleRules | None = None) -> str:
        """Return the file with translations in the places of its sentences.

        A translation is divided among the blocks of its sentence as the sentence is, behind a sign if there is one
        near. A block for which no word is left goes, and the one before it is shown as long, if no pause is between.

        Args:
            translations: of each sentence.
            language: of them.
            rules: how long a line may be.
        """
        limit = (rules or SubtitleRules()).line_length
        for sentence, translation in zip(self.sentences, translations, strict=True):
            words = display_words(translation, spaced=spaced(language))
            groups = divided(words, [share for _, share in sentence.parts])
            for (unit, _), group in zip(sentence.parts, groups, strict=True):
                unit.words += [f"{word.rstrip()} " if spaced(language) else word for word in group]
        kept: list[Any] = []
        for number, of_block in groupby(self._units, key=lambda unit: unit.block):
            event, units = self._file[number], [*of_block]
            lines = [(unit.dash, unit.words) for unit in units if unit.words]
            if lines:
                before, behind = self._frames[number]
                text = [dash + line for dash, words in lines for line in _wrapped(words, limit, dash)]
                event.text = before + _LINE.join(text) + behind
                kept.append(event)
            elif kept and any(unit.text for unit in units) and event.start - kept[-1].end <= PAUSE:
                kept[-1].end = event.end
        others = [event for number, event in enumerate(self._file) if number not in self._frames]
        self._file.events = sorted(kept + others, key=lambda event: event.start)
        more = {"keep_ssa_tags": True} if self.kind == "srt" else {}
        made = str(self._file.to_string(self.kind, **more))
        if self.kind != "vtt":
            return made
        settings = iter([event.effect for event in self._file])
        made = _WRITTEN.sub(lambda times: f"{times[0]} {next(settings, '')}".rstrip(), made)
        return made.replace("WEBVTT\n\n", f"WEBVTT\n\n{self._above}", 1)

    def _read(self) -> Any:
        import pysubs2

        text = read_text(self.path)
        lines = text.splitlines()
        if self.kind in ("srt", "vtt"):
            for number, line in enumerate(lines, start=1):
                if "-->" in line and not _TIMES.match(line):
                    raise DataError(f"{self.path}: line {number}: {shortened(line)!r} are no times")
        settings: list[str] = []
        if self.kind == "vtt":
            blocks = re.split(r"\n\s*\n", "\n".join(lines))
            text = "\n\n".join(_NAME.sub("", block) for block in blocks if not _BESIDE.match(block))
            settings = [line[times.end() :].strip() for line in text.splitlines() if (times := _TIMES.match(line))]
            self._above = "".join(f"{block.strip()}\n\n" for block in blocks if _REFERRED.match(block))
        more = {"keep_html_tags": True, "keep_unknown_html_tags": True} if self.kind == "srt" else {}
        try:
            found = pysubs2.SSAFile.from_string(text, format_=self.kind, **more)
        except (pysubs2.exceptions.Pysubs2Error, ValueError, IndexError) as error:
            raise DataError(f"{self.path}: cannot be read as {self.kind}: {error}") from error
        if not len(found):
            raise DataError(f"{self.path}: holds no subtitles")
        if self.kind == "vtt":
            if len(settings) != len(found):
                raise DataError(f"{self.path}: of {len(settings)} lines with times, {len(found)} can be read")
            for event, of_cue in zip(found, settings, strict=True):
                event.effect = of_cue  # a field of other formats, which is not written to this one
        found.sort()
        return found

    def _divided(self) -> Any:
        """Yield the units of the blocks in their order."""
        shown_until = -PAUSE
        for number, event in enumerate(self._file):
            if event.is_comment or event.is_drawing:
                continue
            framed = _FRAMED.fullmatch(event.text)
            assert framed is not None  # its parts may be empty
            before, body, behind = framed.groups()
            self._frames[number] = before.strip(), behind.strip()
            self.lost += len(_TAG.findall(body))
            lines = [line.strip() for line in re.split(r"\\[Nn]|\n", _TAG.sub("", body))]
            spoken = len(lines) > 1 and all(_DASH.match(line) for line in lines if line)
            begins = event.start - shown_until > PAUSE
            for line in lines if spoken else [" ".join(filter(None, lines))]:
                dash = match[0] if spoken and (match := _DASH.match(line)) else ""
                yield Unit(number, dash, line[len(dash) :], begins or bool(dash))
                begins = bool(dash)
            shown_until = max(shown_until, event.end)

    def _runs(self) -> list[list[Unit]]:
        """Return the units in which sentences may go on from one to the next."""
        runs: list[list[Unit]] = []
        for unit in self._units:
            if not unit.text:
                continue
            if unit.begins or not runs or runs[-1][-1].dash:
                runs.append([])
            runs[-1].append(unit)
        return runs


def _sentences(run: Sequence[Unit], language: str) -> list[Sentence]:
    """Return the sentences of units that follow each other."""
    between = " " if spaced(language) else ""
    text = between.join(unit.text for unit in run)
    ends = [*accumulate(len(unit.text) + len(between) for unit in run)]
    found, start = [], 0
    for part in sentence_parts(text, language):
        end = start + len(part)
        if part.strip():
            shares = [
                (unit, min(end, until - len(between)) - max(start, until - len(between) - len(unit.text)))
                for unit, until in zip(run, ends, strict=True)
            ]
            found.append(Sentence(part.strip(), [(unit, share) for unit, share in shares if share > 0]))
        start = end
    return found


def divided(words: Sequence[str], shares: Sequence[int]) -> list[list[str]]:
    """Divide words into as many groups as there are shares, of sizes in their proportion; the last may be empty."""
    sizes = [*accumulate((len(word) for word in words), initial=0)]
    total, parts = sum(shares), min(len(shares), len(words))
    groups, begin = [], 0
    for part, wanted in enumerate(accumulate(shares[: parts - 1] if parts else []), start=1):
        place = sizes[-1] * wanted / total
        near = BEHIND_SIGN * sizes[-1] / len(shares)
        ends = range(begin + 1, len(words) - (parts - part) + 1)
        end = min(ends, key=lambda end: abs(sizes[end] - place) - near * bool(SIGN.search(words[end - 1])))
        groups.append([*words[begin:end]])
        begin = end
    return [*groups, [*words[begin:]], *([] for _ in shares[parts:])][: len(shares)]


def _wrapped(words: Sequence[str], limit: int, dash: str) -> list[str]:
    """Return a translation in lines; that of somebody who speaks stays in one, behind the dash."""
    whole = [*words[:-1], words[-1].rstrip()]
    return (
        ["".join(whole)] if dash else balanced_lines([part for word in whole for part in fitting(word, limit)], limit)
    )
