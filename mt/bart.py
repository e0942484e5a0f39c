"""BART and mBART: a translator's encoder and decoder learn together to restore noised text, of one or many languages.

Lewis et al. 2020, "BART: Denoising Sequence-to-Sequence Pre-training", section 2; Liu et al. 2020, "Multilingual
Denoising Pre-training for Neural Machine Translation", section 2.2. The loss is the cross entropy of the whole text,

    L = - sum_languages sum_X log P(X | g(X)),

and g, below, permutes the sentences of a text and then replaces spans of its words by one mask each. The decoder begins
with the language's symbol, and reads the text as in translation: all of the model can go on as a translator.
"""

from __future__ import annotations

import numpy as np

from shared.corpus.noise import SpanDraw, Word, words_of
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

    Spans are drawn by ``SpanDraw``: lengths from a Poisson distribution, all ways to place them equally likely. A span
    of no words puts a mask between two words.

    Args:
        tokenizer: of the words, with a mask.
        share: of the words that are masked, rounded up: 0.3 (BART), 0.35 (mBART).
        mean_length: of spans, in words, before the last is cut: 3 (BART), 3.5 (mBART).

    Raises:
        DataError: if the tokenizer has no mask.
        UsageError: if the share is not in [0, 1], or the length below 0.1.

    """

    def __init__(self, *, tokenizer: Tokenizer, share: float = 0.35, mean_length: float = 3.5) -> None:
        self._mask = [tokenizer.mask]
        self._spans = SpanDraw(share=share, mean_length=mean_length)

    def __call__(self, words: list[Word], rng: np.random.Generator) -> list[Word]:
        """Return the words with masks among them."""
        result, position = [], 0
        for begin, end in self._spans(len(words), rng):
            result += [*words[position:begin], self._mask]
            position = end
        return result + words[position:]
