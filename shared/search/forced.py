"""The score of outputs that are given: what search would have made of them, had it found them.

Legend: B sentences, T target, S start symbols, V vocabulary.
"""

from __future__ import annotations

import torch

from dragoman.shared.batch import Batch, naming_longest
from dragoman.shared.generator import Scorer
from dragoman.shared.padded import Padded

POSITIONS = 2048  # projected onto the vocabulary at a time: 256 MiB for each copy of 32,768 scores in float32


@torch.no_grad()
def forced_scores(
    model: Scorer, batch: Batch, outputs: Padded, *, start_symbols: int = 1, field: str = "target"
) -> Padded:
    """Score given outputs token by token.

    The sum of a row's scores, divided by their number to the power of the length penalty, is what beam search gives to
    the same output.

    Args:
        model: in eval mode.
        batch: of B sentences.
        outputs: (B, T_i) tokens: the start symbols, what is scored, the end symbol.
        start_symbols: how many symbols begin every search and do not count, S (see ``Rules``).
        field: what errors call the outputs.

    Returns:
        (B, T_i - S) log-probabilities of the tokens after the start symbols.

    Raises:
        DataError: if an output is longer than the model has positions, naming the row.
    """
    encoding = model.encode(batch)
    rows = max(1, POSITIONS // max(1, outputs.values.shape[1] - 1))
    of_tokens = []
    with naming_longest(batch.with_fields(**{field: outputs}), field):
        for some in torch.arange(len(batch), device=outputs.device).split(rows):
            part = outputs.select(some)
            prefix = Padded(part.values[:, :-1], part.lengths - 1)
            scores = model.log_probabilities(prefix, encoding.select(some))
            of_tokens.append(scores.gather(-1, part.values[:, 1:, None])[..., 0])
    scored = Padded(torch.cat(of_tokens)[:, start_symbols - 1 :], outputs.lengths - start_symbols)
    return scored.map(lambda values: values.masked_fill(scored.mask.logical_not(), 0.0))
