"""BART and mBART: a translator's encoder and decoder learn together to restore noised text, of one or many languages.

Lewis et al. 2020, "BART: Denoising Sequence-to-Sequence Pre-training", section 2; Liu et al. 2020, "Multilingual
Denoising Pre-training for Neural Machine Translation", section 2.2. The loss is the cross entropy of the whole text,

    L = - sum_languages sum_X log P(X | g(X)),

and g permutes the sentences of a text and then replaces spans of its words by one mask each. The decoder begins
with the language's symbol, and reads the text as in translation: all of the model can go on as a translator.

BART compares five noises, all of which are here: token masking, token deletion, text infilling, sentence permutation
and document rotation. Each takes a text's words and returns words, so that a recipe may apply any of them one after
another. Tokens are the pieces of the words: the noise of tokens leaves the other pieces of a word together.

Differs from mBART's paper: texts are sentences or paragraphs joined to some 400 tokens, without </s> between sentences,
where the paper fills 512 tokens. Differs from BART's: a symbol names the language, where BART has <s>; pieces are
SentencePiece's, not those of GPT-2; matrices begin as in all recipes here, not with a deviation of 0.02.

Not established, and chosen here: the shares of tokens that masking and deletion take (0.3, drawn evenly, as many in
each text); the peak of the learning rate in pre-training (mBART: 0.0003) and its warm-up. A rotated text may begin
inside of a word.

Documents are mt/documents.py, tables of transfer between source languages mt/evaluating_each.py.
"""

from __future__ import annotations

import numpy as np

from dragoman.mt.noise import SpanDraw, Word, share_of, words_of
from dragoman.shared.annotations import Checked
from dragoman.shared.ranges import Share
from dragoman.shared.text.tokenizer import Tokenizer


class TokenMasking(Checked):
    """Tokens become masks, one each, so that the model sees where something is missing.

    Args:
        tokenizer: of the words, with a mask.
        share: of the tokens that are masked, rounded up; the paper does not give it.

    Raises:
        DataError: if the tokenizer has no mask.
    """

    def __init__(self, *, tokenizer: Tokenizer, share: Share = 0.3) -> None:
        self._mask = tokenizer.mask
        self.share = share

    def __call__(self, words: list[Word], rng: np.random.Generator) -> list[Word]:
        """Return words of as many tokens, masks among them."""
        chosen = _drawn(share_of(_tokens(words), self.share), words, rng)
        numbers = iter(range(_tokens(words)))
        return [[self._mask if next(numbers) in chosen else token for token in word] for word in words]


class TokenDeletion(Checked):
    """Tokens are left out, so that the model has to find out where something is missing. One token always stays.

    Args:
        share: of the tokens that are left out, rounded up; the paper does not give it.
    """

    def __init__(self, *, share: Share = 0.3) -> None:
        self.share = share

    def __call__(self, words: list[Word], rng: np.random.Generator) -> list[Word]:
        """Return what is left of the words, in their order."""
        count = _tokens(words)
        chosen = _drawn(min(share_of(count, self.share), count - 1), words, rng)
        numbers = iter(range(count))
        left = [[token for token in word if next(numbers) not in chosen] for word in words]
        return [word for word in left if word]


class DocumentRotation(Checked):
    """A text begins with one of its tokens, drawn evenly; what was before that token comes behind the last one.

    A word whose inner token is drawn is divided: its end comes first, its beginning last.

    Args:
        probability: that a text is rotated.
    """

    def __init__(self, *, probability: Share = 1.0) -> None:
        self.probability = probability

    def __call__(self, words: list[Word], rng: np.random.Generator) -> list[Word]:
        """Return the words, rotated."""
        if not words or rng.random() >= self.probability:
            return words
        ends = np.cumsum([len(word) for word in words])
        begin = int(rng.integers(int(ends[-1])))
        number = int(np.searchsorted(ends, begin, side="right"))
        word = words[number]
        inside = begin - (int(ends[number]) - len(word))
        parts = [word[inside:], *words[number + 1 :], *words[:number], word[:inside]]
        return [part for part in parts if part]


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


class TextInfilling(Checked):
    """Spans of words become one mask each, so that the model has to find out how many words are missing.

    Spans are drawn by ``SpanDraw``: lengths from a Poisson distribution, all ways to place them equally likely. A span
    of no words puts a mask between two words.

    Args:
        tokenizer: of the words, with a mask.
        share: of the words that are masked, rounded up: 0.3 (BART), 0.35 (mBART).
        mean_length: of spans, in words, before the last is cut: 3 (BART), 3.5 (mBART).

    Raises:
        DataError: if the tokenizer has no mask.
    """

    def __init__(self, *, tokenizer: Tokenizer, share: Share = 0.35, mean_length: float = 3.5) -> None:
        self._mask = [tokenizer.mask]
        self._spans = SpanDraw(share=share, mean_length=mean_length)

    def __call__(self, words: list[Word], rng: np.random.Generator) -> list[Word]:
        """Return the words with masks among them."""
        result, position = [], 0
        for begin, end in self._spans(len(words), rng):
            result += [*words[position:begin], self._mask]
            position = end
        return result + words[position:]


def _tokens(words: list[Word]) -> int:
    return sum(map(len, words))


def _drawn(wanted: int, words: list[Word], rng: np.random.Generator) -> set[int]:
    """Return the numbers of tokens that are drawn, each set of them with the same probability."""
    if wanted < 1:
        return set()
    return {*rng.choice(_tokens(words), wanted, replace=False, shuffle=False).tolist()}
