"""The lines on which token ids are compared; ``python -m tests.parity.lines FILE`` writes them as JSON for others."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from dragoman.almanac.frames import draw
from dragoman.almanac.sentences import sentence

ODD = """

 leading and trailing\x20\x20
two  spaces   three
\ttab\tand\u00a0no-break\u3000ideographic\u2028separator
emoji 😀 👩\u200d👩\u200d👧 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f ❤\ufe0f
combining e\u0301 a\u0308\u0323 \u0301alone ﬁ ﬀ ½ ² Å Å
我能吞下玻璃而不伤身体。 日本語とカタカナ 한국어 한국어 ไทย भाषा
أنا قادر على أكل الزجاج שלום עולם ‏rtl‏
control \x01\x02\x07\x1b\x7f \u200b\ufeff\u00ad end
İstanbul ıI ẞß ǅ Œuvre L'été d'aujourd'hui — “quotes” ‘single’ «guillemets» …
3,14 1.000.000 12:30 50% $5 €7,20 a/b c\\d @user #tag http://example.org/?q=1&r=2
well-known U.S. e.g. Mr. Smith's can't won't I'm -- &amp; <b>bold</b> | [x] {y}
unknown ꙮ 𒀀 𝔘𝔫𝔦 \ue000
▁ ▁▁ @@ a@@ </w> ## ##ing Ġ Ċ
aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
""".split("\n")


def a_thousand_lines() -> list[str]:
    """A thousand lines of four languages, and odd ones."""
    generator = random.Random(11)
    said = [sentence(saying, code) for code in ("en", "de", "fr", "tr") for saying in draw("train", 246, generator)]
    return [*said, *ODD]


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(a_thousand_lines()), encoding="utf-8")
