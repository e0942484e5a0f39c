"""When to write: policies for speech that is translated while it is heard (see listening.py)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Annotated

from dragoman.shared.described import Described
from dragoman.shared.ranges import PositiveInt, Range
from dragoman.simultaneous.listening import Guess


class LocalAgreement(Described):
    """Certain is what the hypotheses after the last chunks agree on: LA-n.

    Liu et al. 2020 (see listening.py); with n = 2 the policy of Polák et al. 2022 (IWSLT).

    Args:
        agree: n, how many hypotheses.
    """

    def __init__(self, *, agree: Annotated[int, Range(least=2)] = 2) -> None:
        self.agree = agree

    def certain(self, guess: Guess) -> int:
        """Return the length of the prefix that n hypotheses have in common."""
        others = guess.earlier[-(self.agree - 1) :]
        if len(others) < self.agree - 1:
            return 0
        return min(_common(guess.tokens, other) for other in others)


class Hold(Described):
    """Certain is all but the last n tokens: hold-n (Liu et al. 2020).

    Args:
        tokens: n.
    """

    def __init__(self, *, tokens: PositiveInt = 6) -> None:
        self.tokens = tokens

    def certain(self, guess: Guess) -> int:
        """Return the number of tokens without the last n."""
        return len(guess.tokens) - self.tokens


class AlignAtt(Described):
    """Certain is what attends to sound that lies back: up to the first token that looks at the last frames.

    Papi, Turchi and Negri 2023, "AlignAtt: Using Attention-based Audio-Translation Alignments as a Guide for
    Simultaneous Speech Translation" (Interspeech). A token is aligned to the encoder state that it attends to most when
    it is generated, by the mean over heads.

    Args:
        frames: f, how many encoder states are the last ones.
        layer: the decoder layer whose attention is looked at, 1 for the first; by default the one at two thirds of the
            depth, which is the fourth of six as in the paper.
    """

    def __init__(self, *, frames: PositiveInt = 4, layer: int | None = None) -> None:
        self.frames = frames
        self.layer = layer

    def certain(self, guess: Guess) -> int:
        """Return the number of tokens before the first new one that is aligned to one of the last f states."""
        if len(guess.tokens) == guess.written:
            return guess.written
        attention = guess.attention(self.layer)
        aligned = attention[guess.written :].argmax(1).tolist()
        lying_back = takewhile(lambda place: place < attention.shape[1] - self.frames, aligned)
        return guess.written + len(list(lying_back))


class WaitK(Described):
    """Certain is one word, or one token, a chunk, after k chunks.

    Ma et al. 2019, "STACL" (ACL), over chunks of a fixed length, as in Ma et al. 2020, "SimulMT to SimulST" (AACL).
    With a model that was not trained for it, it is test-time wait-k; st/wait_k.py trains one. The words of a language
    without spaces are its characters.

    Args:
        k: how many chunks are heard before the first word.
        tokens: count tokens, as in training, in place of words. A word is written when all of its tokens may be.
    """

    def __init__(self, *, k: PositiveInt = 3, tokens: bool = False) -> None:
        self.k = k
        self.tokens = tokens

    def certain(self, guess: Guess) -> int:
        """Return the number of tokens that may be written by now."""
        allowed = max(0, guess.chunks - self.k + 1)
        return allowed if self.tokens else max(guess.ends[:allowed], default=0)


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many tokens two outputs have in common, from the first."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
