"""mRASP: a multilingual translator learns from sources in which some words are replaced by words of other languages.

Lin et al. 2020, "Pre-training Multilingual Neural Machine Translation by Leveraging Alignment Information", section 2.
With x^i the sentence in language i and C the random aligned substitution of its words, the loss over the pairs of
languages is that of translation,

    L = sum_(i, j) E [- log P(x^i | C(x^j))],

so that words of the same meaning come to lie near each other, whatever their language. Only sources are changed. The
translator begins with the language's symbol on either side, and is fine-tuned on a pair of languages, which may be new.
"""

from __future__ import annotations

import numpy as np

from shared.corpus.lexicon import Lexicon, like
from shared.corpus.manifest import Row
from shared.corpus.rewriting import Edit
from shared.errors import DataError, UsageError, check_share
from shared.text.word_spans import words


class AlignedSubstitution:
    """Words of a text are replaced by their translations: random aligned substitution (section 2.3).

    Every word that the lexicon has is replaced with the probability ``share``, by any of its translations, all of which
    are equally likely. The case is kept, and so is everything that is not a word. In a language whose words the
    lexicon does not have, nothing is changed: with the lexicons of the paper, only English sources are.

    Args:
        lexicon: the paper's holds the 1,000 most frequent words of each pair of languages (``top: 1000``).
        targets: languages of the translations; None: all.
        share: of the words that the lexicon has: 0.3.
        growth: at most how many times as many pieces the text may have afterwards; where the translations are longer
            than that, some words stay, drawn evenly.

    Raises:
        UsageError: for a share outside [0, 1], or a target that the lexicon lacks.

    """

    def __init__(
        self, *, lexicon: Lexicon, targets: list[str] | None = None, share: float = 0.3, growth: float = 1.5
    ) -> None:
        check_share("share", share)
        reached = {target for _, target in lexicon.pairs}
        lost = sorted(set(targets or []) - reached)
        if lost:
            raise UsageError(f"the lexicon translates into {', '.join(sorted(reached))}, not into {', '.join(lost)}")
        self.lexicon = lexicon
        self.targets = None if targets is None or reached <= {*targets} else frozenset(targets)
        self.share = share
        self.growth = growth

    def load(self) -> None:
        """Read the lexicon."""
        self.lexicon.load()

    def __call__(self, text: str, rng: np.random.Generator, *, language: str | None, row: Row) -> list[Edit]:
        """Return the words that are replaced, in a random order.

        Raises:
            DataError: if the row does not say what language the text is in.

        """
        if not language:
            raise DataError(f"row {row.get('id')!r} does not say its language, and words are replaced by language")
        known = self.lexicon.known(language)
        if not known:
            return []
        spans = words(text, language, known, self.lexicon.longest(language))
        # Numbers in [0, 1) that say whether a word is replaced, by which translation, and when that is given up.
        drawn = rng.random((3, len(spans)))
        edits = []
        for place in np.flatnonzero(drawn[0] < self.share).tolist():
            start, end = spans[place]
            word = text[start:end]
            found = self.lexicon.candidates(word, language, self.targets)
            if found:
                which, when = drawn[1:, place].tolist()
                edits.append((when, start, end, like(word, found[int(which * len(found))])))
        return [(start, end, word) for _, start, end, word in sorted(edits)]
