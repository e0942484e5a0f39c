r"""Translation memories in TMX 1.4, the format in which translators exchange them.

A file, or a folder with files at any depth; one that is called dev, valid or test, or lies in a folder of that name, is
that split, and all others together are train::

    {root}/memory.tmx    {root}/more/memory.tmx.gz    {root}/test.tmx

    <tmx version="1.4"><body>
      <tu><tuv xml:lang="en-US"><seg>Save <bpt i="1">&lt;b></bpt>all<ept i="1">&lt;/b></ept></seg></tuv>
          <tuv xml:lang="de"><seg>Alles speichern</seg></tuv></tu>
    </body></tmx>

A language without a region is read from any (en from en-US); where a unit has it several times, its own code comes
before those with a region, and the first before others. Codes of the layout (``bpt``, ``ept``, ``ph``, ``it``, ``ut``)
are left out with all that is in them, ``sub`` too; of ``hi`` the text stays. Units without one of the languages are
counted. Files are read unit by unit, in memory that does not grow. A file that declares entities is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.mt.corpora.memories import Memories, plain, read_units
from dragoman.shared.preparing.reader import SourceRow
from dragoman.shared.text import languages
from dragoman.shared.text.lines import Unusable

#: Elements that hold codes; ``sub`` stands in these alone.
CODE = ("bpt", "ept", "ph", "it", "ut", "sub")
XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


class Tmx(Memories):
    """Reads one direction of translation memories."""

    name = "tmx"
    endings = (".tmx",)

    def _pairs(self, path: Path, passed: Counter[str], there: set[str]) -> Iterator[SourceRow | Unusable]:
        codes = (self.source_language, self.target_language)
        for number, unit in enumerate(read_units(path, "tmx", "tu"), 1):
            segments: dict[str, Any] = {}
            for variant in unit.iterchildren("{*}tuv"):
                code = variant.get(XML_LANGUAGE) or variant.get("lang")  # so up to TMX 1.1
                if not code:
                    yield Unusable("a <tuv> without xml:lang", path, variant.sourceline)
                    break
                segments.setdefault(languages.called(code) or code, variant.find("{*}seg"))
            else:
                there.update(segments)
                texts = [self._text(path, code, segments) for code in codes]
                lacking = [code for code, text in zip(codes, texts, strict=True) if not text]
                if lacking:
                    passed[f"units without text in {' and '.join(lacking)}"] += 1
                else:
                    yield self._row(path, number, texts, unit.sourceline)

    def _text(self, path: Path, code: str, segments: dict[str, Any]) -> str:
        """Return the text in a language; "" if there is none."""
        others = {self.source_language, self.target_language} - {code}
        tag = languages.among(code, [tag for tag in segments if tag not in others])
        return "" if tag is None or segments[tag] is None else plain(path, segments[tag], CODE)
