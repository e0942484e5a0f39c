"""Shares of languages of different sizes: p_l proportional to n_l^alpha (Conneau and Lample 2019, section 3.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from dragoman.shared.errors import check_number


def balanced(texts: Mapping[str, Sequence[str]], *, alpha: float, seed: int, limit: int | None = None) -> Iterator[str]:
    """Draw texts with the smaller languages oversampled, to train a shared tokenizer on.

    Language l with n_l of N texts gets the share n_l^alpha / sum_k n_k^alpha of min(N, limit) draws (Conneau and Lample
    2019, section 3.1). Texts are drawn without repetition until a language has given each of its own once more.

    Args:
        texts: texts by language; languages without texts are passed over.
        alpha: 1 leaves shares as they are, 0 makes them equal.
        seed: of the draw.
        limit: the most texts to draw, or None for as many as there are.

    Yields:
        Texts, language by language.

    Raises:
        UsageError: if alpha is not in [0, 1] or the limit is not positive.
    """
    check_number("alpha", alpha, least=0, most=1)
    if limit is not None:
        check_number("limit", limit, least=1)
    names = [name for name in texts if len(texts[name])]
    if not names:
        return
    sizes = np.array([len(texts[name]) for name in names])
    total = int(min(sizes.sum(), limit or sizes.sum()))
    shares = smoothed_counts(sizes, alpha, total)
    for number, (name, count) in enumerate(zip(names, shares.tolist(), strict=True)):
        rng = np.random.default_rng([seed, number])
        while count > 0:
            for index in rng.permutation(len(texts[name]))[:count].tolist():
                yield texts[name][index]
            count -= len(texts[name])


def smoothed_counts(sizes: np.ndarray, alpha: float, total: int) -> np.ndarray:
    """Divide ``total`` draws among parts of these sizes, in proportion to size^alpha; the remainders go to the largest.

    Args:
        sizes: (parts,) int, positive.
        alpha: exponent; 1 is proportional, 0 equal.
        total: number of draws.

    Returns:
        (parts,) int64 that add up to ``total``.
    """
    weights = np.asarray(sizes, dtype=np.float64) ** alpha
    exact = weights / weights.sum() * total
    counts = np.floor(exact + 1e-9).astype(np.int64)
    order = np.argsort(-(exact - counts), kind="stable")
    counts[order[: total - int(counts.sum())]] += 1
    return counts
