"""The most probable alignment of known labels with the positions of a CTC head (Graves et al. 2006, section 3.1).

Legend: B sentences, S positions, L labels, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from dragoman.shared.errors import DataError
from dragoman.shared.padded import Padded

#: First position of a label, and the one behind its last.
Span = tuple[int, int]


@torch.no_grad()
def ctc_alignment(log_probabilities: Padded, labels: Sequence[Sequence[int]], *, blank: int) -> list[list[Span] | None]:
    """Return the positions of each label on the most probable path that gives the labels.

    Args:
        log_probabilities: (B, S, V) with the lengths of the sentences.
        labels: of each sentence, without blanks.
        blank: the blank symbol.

    Returns:
        The spans of each sentence's labels, in order and without overlap; None where the labels, and a blank between
        each two that are equal, do not fit into the positions.

    Raises:
        DataError: if a label is the blank, or a log-probability is not a number.
    """
    spans: list[list[Span] | None] = []
    values = log_probabilities.values.float().cpu()
    for row, length, wanted in zip(values, log_probabilities.lengths.tolist(), labels, strict=True):
        if blank in wanted:
            raise DataError(f"label {list(wanted).index(blank)} of a text is the blank symbol, which cannot be aligned")
        if not row[:length].isfinite().all():
            raise DataError("the model's log-probabilities are not numbers")
        repeated = sum(one == other for one, other in zip(wanted, wanted[1:], strict=False))
        if len(wanted) + repeated > length:
            spans.append(None)
        else:
            spans.append(_spans(row[:length], list(wanted), blank) if wanted else [])
    return spans


def _spans(scores: torch.Tensor, labels: list[int], blank: int) -> list[Span]:
    from torchaudio.functional import forced_align, merge_tokens

    path, path_scores = forced_align(scores[None], torch.tensor([labels], dtype=torch.int32), blank=blank)
    return [(span.start, span.end) for span in merge_tokens(path[0], path_scores[0], blank=blank)]
