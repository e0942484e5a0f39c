"""Encoder states are thinned out to those at which a CTC head says something new.

Legend: B batch, S states, S' kept states, D width, V vocabulary.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from dragoman.shared.padded import Padded


def ctc_shrink(states: Padded, logits: Tensor, blank: int) -> Padded:
    """Keep the first state of each run of one label on the best path, blanks apart (Dong et al. 2021, section 3).

    A run that a blank breaks is two. Gradients flow to the kept states; the choice itself has none. All is computed
    where the states are; a row of blanks keeps its first state, so that there is something to attend to.

    Args:
        states: (B, S, D).
        logits: (B, S, V) of the head, of the same positions.
        blank: the blank symbol.

    Returns:
        (B, S', D), with S' from 1 to S where there are states.
    """
    labels = logits.argmax(-1)  # (B, S)
    previous = F.pad(labels, (1, 0), value=-1)[:, :-1]
    return states.keep((labels != blank) & (labels != previous), least=1)
