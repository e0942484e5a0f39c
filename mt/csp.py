"""CSP: code-switching pre-training; the encoder reads a fragment in another language, the decoder writes it as it was.

Yang et al. 2020, EMNLP, "CSP: Code-Switching Pre-training for Neural Machine Translation", section 3. It is MASS
(mt/mass.py), but for what the encoder reads in the place of the fragment x_u:v: translations of its words,

    L = - sum_x sum_{t=u..v} log P(x_t | x_{u-1}, ..., x_{t-1}; x with u:v switched),

of which the decoder sees all states. The loss is FragmentCrossEntropy.

Of a word's first three translations one is drawn by its probability, which induced lexicons have (mt/induction.py), or
evenly. Words that a lexicon lacks are never replaced; phase ``coverage`` tells how many they are.

Differs from the paper: words are those between spaces, not entries of the vocabulary; the end symbol may belong to a
fragment; pieces are SentencePiece's.

Not established, and chosen here: how similarities become probabilities (a softmax over the three, temperature 0.1);
updates, warm-up and the size of a batch.

Legend: L tokens of the text, S tokens that the encoder reads, K tokens of a fragment.
"""

from __future__ import annotations

import math
from itertools import accumulate, chain

import numpy as np
import torch
from torch import Tensor

from dragoman.mt.lexicon import Lexicon
from dragoman.mt.mass import check_symbols
from dragoman.mt.noise import Word, words_of
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.growing_text import GrowingText
from dragoman.shared.batches.manifest import Row
from dragoman.shared.batches.masked_text import drawable
from dragoman.shared.batches.rewriting import Edit, edited
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.ranges import PositiveInt, Share
from dragoman.shared.text.word_spans import has_capital_of_sentence, words


class SwitchedFragment(GrowingText):
    """A text with a fragment in another language; the batch also gets ``<name>.places``, ``.labels`` and ``.seen``.

    The fragment has whole words. Places (K) are those of its tokens in the text as it is, labels (K) the tokens, and
    ``seen`` (S) are all places of what the encoder reads. A fragment that ends the text has the end symbol, too.

    Args:
        field: the text as it is; one symbol stands before it, and one behind it.
        lexicon: with translations of the text's language.
        share: length of the fragment, as a share of the words, rounded; at least one word.
        switched: share of the fragment's words that are translated; those that the lexicon lacks stay.
        replaced: share of them that become one piece drawn from the vocabulary, which may continue the word before; the
            rest stays.
        top: how many of a word's translations, from the first, are drawn from: by the probabilities that the lexicon
            has for them, otherwise evenly.
        growth: at most how many times as many pieces the encoder reads; drawn words stay where it would be more.

    Raises:
        UsageError: if two shares add up to more than 1, or the text has other symbols around it.
    """

    def __init__(
        self,
        *,
        field: TextField,
        lexicon: Lexicon,
        share: Share = 0.5,
        switched: Share = 0.8,
        replaced: Share = 0.1,
        top: PositiveInt = 3,
        growth: float = 1.5,
    ) -> None:
        if switched + replaced > 1:
            raise UsageError(f"switched and replaced must add up to at most 1, not {switched} and {replaced}")
        check_symbols(field)
        super().__init__(field=field, growth=growth)
        self.lexicon = lexicon
        self.share = share
        self.switched = switched
        self.replaced = replaced
        self.top = top
        self._pieces = drawable(field.tokenizer)

    def __call__(self, row: Row, rng: np.random.Generator) -> dict[str, Tensor]:
        """Return what the encoder reads (S,), the places (K,) and labels (K,) of the fragment, and all places (S,).

        Raises:
            DataError: if the row has no text or no language, or the lexicon has no words of it.
        """
        language = row.get(self.field.language_column)
        if not language:
            raise DataError(f"row {row.get('id')!r} does not name the language of its text")
        if not self.lexicon.entries(language):
            raise DataError(f"row {row.get('id')!r}: the lexicon has no words of its language, {language!r}")
        prefix, pieces, suffix = self.field.parts(row)
        text = words_of(self.field.tokenizer).split(pieces, language)
        count = min(len(text), max(1, round(self.share * len(text))))
        start = int(rng.integers(len(text) - count + 1))
        before, fragment, after = text[:start], text[start : start + count], text[start + count :]
        begins = {0, *accumulate(map(len, words_of(self.field.tokenizer).sentences(text)))}  # sentences, in words
        capitals = [number in begins for number in range(start, start + count)]
        room = math.ceil(self.growth * len(pieces)) - len(pieces)
        read = self._switched(fragment, language, rng, capitals=capitals, room=room)
        tokens = [*prefix, *chain.from_iterable([*before, *read, *after]), *suffix]
        labels = [*chain.from_iterable(fragment), *([] if after else suffix)]
        first = len(prefix) + sum(map(len, before))
        return {
            "": torch.tensor(tokens),
            "places": torch.arange(first, first + len(labels)),
            "labels": torch.tensor(labels),
            "seen": torch.arange(len(tokens)),
        }

    def _switched(
        self, fragment: list[Word], language: str, rng: np.random.Generator, *, capitals: list[bool], room: int
    ) -> list[Word]:
        """Return what the encoder reads of a fragment, at most ``room`` pieces more than there are.

        ``capitals`` tells which of its words begin a sentence.
        Where there would be more, words stay as they are in an order that is drawn: words at the end, where verbs are
        in some languages, are given up no more often than others.
        """
        result = []
        for word, begins in zip(fragment, capitals, strict=True):
            kind, new = rng.random(), word
            if kind < self.switched:
                new = self._translated(word, language, rng, begins=begins)
            elif kind < self.switched + self.replaced:
                new = [int(self._pieces[rng.integers(len(self._pieces))])]
            result.append(new)
        more = [len(new) - len(word) for new, word in zip(result, fragment, strict=True)]
        surplus = sum(more) - room
        if surplus > 0:  # nothing is drawn where there is room, so that texts with room are as they were
            for number in rng.permutation(len(fragment)).tolist():
                if surplus > 0 and more[number] > 0:
                    result[number] = fragment[number]
                    surplus -= more[number]
        return result

    def _translated(self, word: Word, language: str, rng: np.random.Generator, *, begins: bool) -> Word:
        """Return the pieces of a word with what the lexicon knows in it translated; punctuation stays.

        ``begins``: whether it begins a sentence.
        """
        text = self.field.tokenizer.decode(word)
        edits: list[Edit] = []
        for start, end in words(text, language, self.lexicon.entries(language), self.lexicon.longest(language)):
            old = text[start:end]
            candidates = self.lexicon.candidates(old, language)[: self.top]
            if candidates:
                probabilities = self.lexicon.probabilities(old, language, candidates)
                chosen = candidates[_draw(len(candidates), probabilities, rng)]
                capital = begins and has_capital_of_sentence(text, start)
                edits.append((start, end, self.lexicon.written(chosen, capital=capital)))
        return self.field.encoded(edited(text, edits), language) if edits else word

    def load(self) -> None:
        """Read the lexicon."""
        self.lexicon.load()


def _draw(count: int, probabilities: list[float] | None, rng: np.random.Generator) -> int:
    """Return a number below ``count``, drawn evenly or in proportion to given probabilities."""
    if probabilities is None:
        return int(rng.integers(count))
    return int(rng.choice(count, p=np.array(probabilities) / sum(probabilities)))
