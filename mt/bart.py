"""BART and mBART: a translator's encoder and decoder learn together to restore noised text, of one or many languages.

Lewis et al. 2020, "BART: Denoising Sequence-to-Sequence Pre-training", section 2; Liu et al. 2020, "Multilingual
Denoising Pre-training for Neural Machine Translation", section 2.2. The loss is the cross entropy of the whole text,

    L = - sum_languages sum_X log P(X | g(X)),

and g, below, permutes the sentences of a text and then replaces spans of its words by one mask each. The decoder begins
with the language's symbol, and reads the text as in translation: all of the model can go on as a translator.
"""

from __future__ import annotations

import math

import numpy as np

from shared.corpus.noise import Word, words_of
from shared.errors import UsageError
from shared.text.tokenizer import Tokenizer


class SentencePermutation:
    """The sentences of a text in another order, drawn evenly.

    Args:
        tokenizer: of the words, which tells where a sentence ends.

    """

    def __init__(self, *, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def __call__(self, words: list[Word], rng: np.random.Generator) -> list[Word]:
        """Return the words, the sentences in an order that is drawn."""
        sentences = words_of(self._tokenizer).sentences(words)
        if len(sentences) < 2:
            return words
        return [word for number in rng.permutation(len(sentences)).tolist() for word in sentences[number]]


class TextInfilling:
    """Spans of words become one mask each, so that the model has to find out how many words are missing.

    Lengths of spans are drawn from a Poisson distribution until they cover the share of the words that is wanted; the
    last one is cut to fit. They do not overlap, and every way to place them is equally likely. A span of no words puts
    a mask between two words.

    Args:
        tokenizer: of the words, with a mask.
        share: of the words that are masked, rounded up: 0.3 (BART), 0.35 (mBART).
        mean_length: of spans, in words, before the last is cut: 3 (BART), 3.5 (mBART).

    Raises:
        DataError: if the tokenizer has no mask.
        UsageError: if the share is not in [0, 1], or the length below 0.1.

    """

    def __init__(self, *, tokenizer: Tokenizer, share: float = 0.35, mean_length: float = 3.5) -> None:
        if not 0 <= share <= 1:
            raise UsageError(f"share must be between 0 and 1, not {share}")
        if not 0.1 <= mean_length < math.inf:
            raise UsageError(f"mean_length must be at least 0.1, not {mean_length}")
        self._mask = [tokenizer.mask]
        self.share, self.mean_length = share, mean_length

    def __call__(self, words: list[Word], rng: np.random.Generator) -> list[Word]:
        """Return the words with masks among them."""
        wanted = math.ceil(self.share * len(words) - 1e-9)  # 0.07 * 100 is a little more than 7
        if not wanted:
            return words
        spans = self._spans(wanted, rng)
        # In a row of kept words and masks, a span is one place: spans at different places cannot overlap.
        places = rng.choice(len(words) - wanted + len(spans), len(spans), replace=False, shuffle=False)
        result, position = [], 0
        for place, span in zip(np.sort(places).tolist(), spans, strict=True):
            kept = place - len(result)
            result += [*words[position : position + kept], self._mask]
            position += kept + span
        return result + words[position:]

    def _spans(self, wanted: int, rng: np.random.Generator) -> list[int]:
        """Draw the lengths of spans, which add up to the words that are wanted, in a random order."""
        lengths = rng.poisson(self.mean_length, wanted)
        while lengths.sum() < wanted:
            lengths = np.concatenate([lengths, rng.poisson(self.mean_length, wanted)])
        covered = np.cumsum(lengths)
        last = int(np.searchsorted(covered, wanted))
        spans = lengths[: last + 1].tolist()
        spans[-1] -= int(covered[last]) - wanted
        # In very short texts, masks of no words could make it longer than it was: those are left out.
        surplus = len(spans) - wanted
        for _ in range(surplus):
            spans.remove(0)
        return rng.permutation(spans).tolist()  # or the one that was cut would always be the last
