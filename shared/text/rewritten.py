"""Texts that a tokenizer cannot write back as they are: of what it rewrites, no model that uses it can be right.

A text and its normal form C are the same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from os.path import commonprefix

from dragoman.shared.text.piece_file import composed
from dragoman.shared.text.tokenizer import Tokenizer

#: More texts than these are sampled, evenly and from the first on.
LOOKED_AT = 100_000
SHOWN = 3
#: Characters of an example, from a few before the first that differs.
WIDTH, BEFORE = 40, 12


def rewritten(texts: Sequence[str], tokenizer: Tokenizer, limit: int = LOOKED_AT) -> str | None:
    """Say how many texts come back from a tokenizer as other texts, and what becomes of three; None if all come back.

    Args:
        texts: after their normalizers; blank ones are not counted.
        tokenizer: the tokenizer.
        limit: at most so many texts are looked at.

    Raises:
        DataError: for text that cannot be tokenised.
    """
    chosen = [composed(text) for text in texts[:: -(-len(texts) // limit) or 1] if not text.isspace()]
    pairs = [(text, back) for text in chosen if text != (back := composed(tokenizer.decode(tokenizer.encode(text))))]
    if not pairs:
        return None
    pairs.sort(key=_in_white_space)  # last
    spaces = sum(map(_in_white_space, pairs))
    sampled = f" (looked at evenly, of {len(texts):,})" if len(texts) > limit else ""
    alone = f", {spaces:,} of them in white space alone" if spaces else ""
    shown = "; ".join(_difference(*pair) for pair in pairs[:SHOWN])
    share = f"{len(pairs):,} of {len(chosen):,} texts{sampled}, {len(pairs) / len(chosen):.2%}"
    return f"{share}, cannot be written back as they are{alone}: {shown}"


def _in_white_space(pair: tuple[str, str]) -> bool:
    return "".join(pair[0].split()) == "".join(pair[1].split())


def _difference(text: str, back: str) -> str:
    """Return both texts from shortly before the first character that differs; signs that cannot be seen are spelled."""
    start = 0 if len(text) <= WIDTH else max(len(commonprefix([text, back])) - BEFORE, 0)
    one, other = (_excerpt(whole, start) for whole in (text, back))
    return f"{one} becomes {other}"


def _excerpt(text: str, start: int) -> str:
    shown = text[start : start + WIDTH]
    return repr("..." * (start > 0) + shown + "..." * (start + WIDTH < len(text)))
