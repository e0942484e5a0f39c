"""ALM: a masked language model reads sentences in which phrases of two languages alternate.

Yang et al. 2020, AAAI, "Alternating Language Modeling for Cross-Lingual Pre-Training". Of a sentence pair (X, Y), a
sentence U is made: X, some phrases of which are replaced by their counterparts in Y (major source language), or Y with
phrases of X (major target language). Some of U's tokens are hidden, and predicted from the others of both languages,

    L = - sum_U sum_{t in M(U)} log P(u_t | U without M(U)),

by the encoder and the loss of XLM (``MaskedTokens``). Phrases are found by ``AlignWords`` and ``ExtractPhrases``.

Differs from the paper: IBM model 1 with links near the diagonal instead of GIZA++ (links of another aligner are read
from a file); a phrase becomes the most probable of its counterparts in the same sentence pair, where the phrase table
may have others; signs at the ends of a phrase stay where they are. Heads, masks and texts are those of XLM here
(recipes/base/xlm.yaml).

Not established, and chosen here: layers, updates, the size of batches, and how often texts alone are read; phrases are
drawn in a random order, as many as there is room for, anew in each epoch, where the paper writes 20 sentences for each;
a phrase has the positions and the language vector of the sentence that it is put into. Vocabulary and learning rate
(recipes/base/alm_sizes.yaml) are those that summaries of the paper give.

Not implemented: XNLI.
"""

from __future__ import annotations

import numpy as np

from dragoman.mt.phrases import PHRASES
from dragoman.shared.annotations import Checked
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.manifest import Row
from dragoman.shared.batches.rewriting import Edit
from dragoman.shared.errors import DataError
from dragoman.shared.ranges import Share
from dragoman.shared.text import languages
from dragoman.shared.text.word_spans import Span, bare_span, linked_words


class AlternatedPhrases(Checked):
    """Phrases of a text are replaced by their counterparts in its translation; drawn anew each time.

    Phrases are taken in a random order, if there is room for them, and neither they nor their counterparts overlap with
    those taken before. The signs at the ends of a phrase stay where they are: "Haus." becomes "house." for "house".

    Args:
        other: the field of the translation; the text itself is that of the row's other side.
        share: the replaced words are fewer than this share of the text's words.
        plain: share of the texts that stay as they are.
        growth: at most how many times as many pieces the text may have afterwards; where it would have more, the
            phrases that were taken last stay as they are.
    """

    def __init__(self, *, other: TextField, share: Share = 0.3, plain: Share = 0.2, growth: float = 1.25) -> None:
        self.other = other
        self.share = share
        self.plain = plain
        self.growth = growth
        self._column = PHRASES["source" if other.side == "target" else "target"]

    def load(self) -> None:
        """Read nothing: phrases are in the rows."""

    def __call__(self, text: str, rng: np.random.Generator, *, language: str | None, row: Row) -> list[Edit]:
        """Return the phrases that are replaced, in the order in which they were drawn.

        Raises:
            DataError: if the row has no phrases, no language of one of its texts, or phrases that do not fit the texts.
        """
        other_language = row.get(self.other.language_column)
        if not language or not other_language:
            raise DataError(f"row {row.get('id')!r} does not name the languages of both sides")
        phrases = row.get(self._column)
        if phrases is None:
            raise DataError(f"row {row.get('id')!r} has no {self._column}: ExtractPhrases adds them")
        if rng.random() < self.plain:
            return []
        other = self.other.text(row)
        places, other_places = linked_words(text, language), linked_words(other, other_language)
        edits = []
        for start, end, other_start, other_end in self._drawn(phrases, len(places), len(other_places), row, rng):
            first, last = bare_span(text, (places[start][0], places[end - 1][1]))
            new = other[slice(*bare_span(other, (other_places[other_start][0], other_places[other_end - 1][1])))]
            if languages.spaced(other_language) and not languages.spaced(language):
                new = _between_spaces(text, (first, last), new)
            edits.append((first, last, new))
        return edits

    def _drawn(self, phrases: list[list[int]], m: int, n: int, row: Row, rng: np.random.Generator) -> list[list[int]]:
        """Draw phrases of a text of m words whose translation has n."""
        wrong = next((phrase for phrase in phrases if phrase[1] > m or phrase[3] > n), None)
        if wrong:
            raise DataError(
                f"row {row.get('id')!r}: words {wrong[0]} to {wrong[1]} have the counterpart {wrong[2]} to {wrong[3]}, "
                f"but the texts have {m} and {n} words: ExtractPhrases needs the normalizers of both fields"
            )
        room = self.share * m - 1e-9  # 0.07 * 100 is a little more than 7
        taken = 0
        free, other_free = np.ones(m, dtype=bool), np.ones(n, dtype=bool)
        drawn = []
        for place in rng.permutation(len(phrases)).tolist():
            start, end, other_start, other_end = phrases[place]
            fits = free[start:end].all() and other_free[other_start:other_end].all()
            if fits and taken + end - start < room:
                taken += end - start
                free[start:end] = False
                other_free[other_start:other_end] = False
                drawn.append(phrases[place])
        return drawn


def _between_spaces(text: str, span: Span, new: str) -> str:
    """Return a phrase with a space on either side where the text, which has none between words, goes on."""
    before = " " if text[: span[0]][-1:].strip() else ""
    behind = " " if text[span[1] :][:1].strip() else ""
    return f"{before}{new}{behind}"
