r"""Files of translators in XLIFF 1.2 and 2.0.

A file, or a folder with files at any depth; one that is called dev, valid or test, or lies in a folder of that name, is
that split, and all others together are train::

    {root}/manual.xlf    {root}/test/menus.xliff

    <xliff version="1.2"><file source-language="en" target-language="de"><body>
      <trans-unit id="1"><source>Save <g id="1">all</g></source>
                         <target state="final">Alles <g id="1">speichern</g></target></trans-unit>
    <xliff version="2.0" srcLang="en" trgLang="de"><file><unit>
      <segment state="final"><source>Save</source><target>Speichern</target></segment>

A file of the other direction is turned round. A language without a region is read from any (en from en-US). Left out
and counted are units without a translation, those that are not to be translated (``translate="no"``), and those that
are not finished: ``approved="no"``, a state ``new``, ``initial`` or ``needs-...``. Where a file does not say, its
translations are taken as finished. Codes (``x``, ``bx``, ``ex``, ``ph``, ``bpt``, ``ept``, ``it``, ``sc``, ``ec``) are
left out with all that is in them; of ``g``, ``pc`` and ``mrk`` the text stays. The file's ``original`` becomes
``document``. Files are read unit by unit, in memory that does not grow. A file that declares entities is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.mt.corpora.memories import Memories, plain, read_units
from dragoman.mt.corpora.tmx import XML_LANGUAGE
from dragoman.shared.errors import DataError
from dragoman.shared.preparing.reader import SourceRow
from dragoman.shared.text import languages
from dragoman.shared.text.lines import Unusable

#: Elements that hold codes, or stand for them: of 1.2, of 2.0.
CODE = ("x", "bx", "ex", "ph", "bpt", "ept", "it", "sub", "sc", "ec", "cp", "sm", "em")


class Xliff(Memories):
    """Reads one direction of XLIFF files."""

    name = "xliff"
    endings = (".xlf", ".xliff")

    def _pairs(self, path: Path, passed: Counter[str], there: set[str]) -> Iterator[SourceRow | Unusable]:
        for number, unit in enumerate(read_units(path, "xliff", "trans-unit", "unit"), 1):
            file = next(unit.iterancestors("{*}file"), unit)
            segments = list(unit.iterchildren("{*}segment")) if unit.tag.rpartition("}")[2] == "unit" else [unit]
            for part, segment in enumerate(segments, 1):
                source, target = segment.find("{*}source"), segment.find("{*}target")
                text = "" if target is None else plain(path, target, CODE)
                if _is_locked(unit):
                    passed["units that are not to be translated"] += 1
                elif source is None or not text:
                    passed["units without a translation"] += 1
                elif _is_unfinished(segment, target):
                    passed["units that are not finished"] += 1
                elif (turned := self._is_turned(path, file, target, there)) is None:
                    passed["units of other languages"] += 1
                else:
                    texts = [plain(path, source, CODE), text]
                    key = f"{number}.{part}" if len(segments) > 1 else number
                    document = file.get("original") or file.get("id")
                    yield self._row(path, key, texts[::-1] if turned else texts, unit.sourceline, document=document)

    def _is_turned(self, path: Path, file: Any, target: Any, there: set[str]) -> bool | None:
        """Tell whether a translation is of the other direction; None if it is of other languages.

        Raises:
            DataError: if the file does not name its languages.
        """
        root = file.getroottree().getroot()
        own = [
            file.get("source-language") or root.get("srcLang"),
            file.get("target-language") or root.get("trgLang") or target.get(XML_LANGUAGE),
        ]
        if not own[0] or not own[1]:
            side = "target" if own[0] else "source"
            raise DataError(f"{path}, line {file.sourceline}: does not say which its {side} language is")
        there.add("-".join(languages.called(code) or code for code in own))
        asked = self.source_language, self.target_language
        for codes in (own, own[::-1]):
            if all(languages.among(code, [given]) for code, given in zip(asked, codes, strict=True)):
                return codes is not own
        return None


def _is_locked(unit: Any) -> bool:
    """Tell whether a unit is not to be translated, by itself or by the nearest of what it is in that says so."""
    said = (element.get("translate") for element in (unit, *unit.iterancestors()))
    return next(filter(None, said), "yes") == "no"


def _is_unfinished(segment: Any, target: Any) -> bool:
    """Tell whether a translation is marked as preliminary: in 1.2 on unit and target, in 2.0 on the segment."""
    state = target.get("state") or segment.get("state") or ""
    return segment.get("approved") == "no" or state in ("new", "initial") or state.startswith("needs-")
