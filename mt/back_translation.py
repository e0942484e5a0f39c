r"""Back-translation: a translator also learns from monolingual target text, whose sources another translator wrote.

Sennrich et al. 2016, "Improving Neural Machine Translation Models with Monolingual Data", section 3.2. A reverse
translator, trained on the pairs (x, y), writes a source x' for each sentence y of monolingual text; the translator that
is wanted learns from both,

    L = - sum_pairs log P(y | x) - sum_texts log P(y | x').

The target side is always what a person wrote. What helps beside that concerns x' alone: it is drawn from the reverse
model's distribution instead of searched for, or noised as here (Edunov et al. 2018, section 3), or it begins with a
symbol that says that it was made (Caswell et al. 2019). The rest is recipe: ``Generate`` writes x', and a stream reads
its manifest ``turned``.

The noise is Edunov et al.'s: words are dropped, words become blanks, words change places, one after another. Dropping
and moving are those of Lample et al. 2018, "Unsupervised Machine Translation Using Monolingual Corpora Only", section
2.3.

Differs from the papers: true pairs and texts are mixed by batches, ``made_weight`` of them, and not by repeating rows.
"""

from __future__ import annotations

import numpy as np

from dragoman.mt.noise import Word
from dragoman.shared.annotations import Checked
from dragoman.shared.ranges import NonNegativeInt, Share
from dragoman.shared.text.tokenizer import Tokenizer


class DropWords(Checked):
    """Each word is left out with the same probability; of a text that would be empty, one word stays.

    Args:
        share: the probability, 0.1.
    """

    def __init__(self, *, share: Share = 0.1) -> None:
        self.share = share

    def __call__(self, words: list[Word], rng: np.random.Generator) -> list[Word]:
        """Return the words that stay, in their order."""
        kept = rng.random(len(words)) >= self.share
        if len(words) and not kept.any():
            kept[rng.integers(len(words))] = True
        return [word for word, stays in zip(words, kept.tolist(), strict=True) if stays]


class BlankWords(Checked):
    """Each word becomes a mask, of one piece, with the same probability.

    Args:
        tokenizer: of the words, with a mask.
        share: the probability, 0.1.

    Raises:
        DataError: if the tokenizer has no mask.
    """

    def __init__(self, *, tokenizer: Tokenizer, share: Share = 0.1) -> None:
        self._blank = [tokenizer.mask]
        self.share = share

    def __call__(self, words: list[Word], rng: np.random.Generator) -> list[Word]:
        """Return as many words, blanks among them."""
        blank = (rng.random(len(words)) < self.share).tolist()
        return [self._blank if is_blank else word for word, is_blank in zip(words, blank, strict=True)]


class MoveWords(Checked):
    """Words change places, none by more than a distance.

    Word i gets the key i + u, u drawn evenly from [0, distance + 1), and the words are sorted by their keys. Two words
    can exchange their order if and only if they are at most ``distance`` apart. fairseq's script for unsupervised
    translation draws from [0, distance) instead: there, 3 moves words by two places at most.

    Args:
        distance: in words, 3 as published; 0 moves none.
    """

    def __init__(self, *, distance: NonNegativeInt = 3) -> None:
        self.distance = distance

    def __call__(self, words: list[Word], rng: np.random.Generator) -> list[Word]:
        """Return the words in an order that is drawn."""
        if not self.distance:
            return words
        keys = np.arange(len(words)) + rng.uniform(0, self.distance + 1, len(words))
        return [words[place] for place in keys.argsort(kind="stable").tolist()]
