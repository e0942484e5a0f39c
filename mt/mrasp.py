"""mRASP: a multilingual translator learns from sources in which some words are replaced by words of other languages.

Lin et al. 2020, "Pre-training Multilingual Neural Machine Translation by Leveraging Alignment Information", section 2.
With x^i the sentence in language i and C the random aligned substitution of its words, the loss over the pairs of
languages is that of translation,

    L = sum_(i, j) E [- log P(x^i | C(x^j))],

so that words of the same meaning come to lie near each other, whatever their language. Only sources are changed. The
translator begins with the language's symbol on either side, and is fine-tuned on a pair of languages, which may be new.

The pairs as they are make half of the batches, as in figure 1 and in the released script.

Differs from the paper: its figure 1 replaces words on both sides; section 2.3 replaces words of the source, as here.

Differs from the released script: it changes its texts once, where words are drawn anew here in each epoch, and leaves
out a copy in which nothing was replaced, where here it is read as the pair itself; it replaces
15 % of the words, not the paper's 30 %, and counts 2,000 lines of a lexicon, not 1,000 words. Pieces are
SentencePiece's, as many as the paper's vocabulary has after its cut.

Not established, and chosen here: the peak of the learning rate (5e-4, of the released configuration, which has another
schedule and a dropout of 0.2, where it is 0.1 here), the size of a batch, learning rates and warm-up of fine-tuning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from dragoman.mt.lexicon import Lexicon
from dragoman.shared.annotations import Checked
from dragoman.shared.batches.manifest import Row
from dragoman.shared.batches.rewriting import Edit
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.ranges import Share
from dragoman.shared.text.word_spans import has_capital_of_sentence, words

T = TypeVar("T")


class AlignedSubstitution(Checked):
    """Words of a text are replaced by their translations: random aligned substitution (section 2.3).

    Every word that the lexicon has is replaced with the probability ``share``. A language is drawn first, then one of
    the word's translations into it: all languages are equally likely, however many forms their words have. What is no
    word is kept. In a language whose words the lexicon does not have, nothing is changed: with the lexicons of the
    paper, only English sources are.

    Args:
        lexicon: the paper's holds the 1,000 most frequent words of each pair of languages (``top: 1000``).
        targets: languages of the translations; None: all.
        share: of the words that the lexicon has: 0.3.
        mixed: draw a language for each word, from those that it has translations into, as mRASP2's code does; by
            default one is drawn for the text, as in the script of mRASP's authors, and words without a translation into
            it stay.
        growth: at most how many times as many pieces the text may have afterwards; where the translations are longer
            than that, some words stay, drawn evenly.

    Raises:
        UsageError: for a target that the lexicon lacks.
    """

    def __init__(
        self,
        *,
        lexicon: Lexicon,
        targets: list[str] | None = None,
        share: Share = 0.3,
        mixed: bool = False,
        growth: float = 1.5,
    ) -> None:
        reached = {target for _, target in lexicon.pairs}
        lost = sorted(set(targets or []) - reached)
        if lost:
            raise UsageError(f"the lexicon translates into {', '.join(sorted(reached))}, not into {', '.join(lost)}")
        self.lexicon = lexicon
        self.targets = None if targets is None or reached <= {*targets} else frozenset(targets)
        self._targets_of: dict[str, list[str]] = {}
        self.share = share
        self.mixed = mixed
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
        lexicon_words = self.lexicon.entries(language)
        if not lexicon_words:
            return []
        spans = words(text, language, lexicon_words, self.lexicon.longest(language))
        # Numbers in [0, 1) that say whether a word is replaced, into which language, by which of its translations, and
        # when that is given up.
        drawn = rng.random((4, len(spans)))
        targets = self._targets(language)
        if targets and not self.mixed:
            targets = [_chosen(targets, rng.random())]
        edits = []
        for place in np.flatnonzero(drawn[0] < self.share).tolist():
            start, end = spans[place]
            candidates = self.lexicon.candidates(text[start:end], language, targets)
            if candidates:
                where, which, when = drawn[1:, place].tolist()
                code = _chosen(sorted({code for code, _ in candidates}), where)
                chosen = _chosen([one for one in candidates if one[0] == code], which)
                new = self.lexicon.written(chosen, capital=has_capital_of_sentence(text, start))
                edits.append((when, start, end, new))
        return [(start, end, word) for _, start, end, word in sorted(edits)]

    def _targets(self, language: str) -> list[str]:
        """Return the languages that a text's words may be replaced by, in order."""
        if language not in self._targets_of:
            reached = {target for source, target in self.lexicon.pairs if source == language}
            self._targets_of[language] = sorted(reached if self.targets is None else reached & self.targets)
        return self._targets_of[language]


def _chosen(things: Sequence[T], share: float) -> T:
    """Return the one of ``things`` that a number in [0, 1) stands for; all have equal parts of it."""
    return things[int(share * len(things))]
