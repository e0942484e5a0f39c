"""CTC shrinking: as many states as a CTC head finds labels.

Legend: B batch, N samples, S states, S' shrunk states, D width, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.shared.nn.heads import CtcHead
from dragoman.shared.nn.transformer import Encoder
from dragoman.shared.nn.waveform import SoundEmbedding, WaveformEncoder
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


class ShrinkingEncoder(WaveformEncoder):
    """An encoder of speech that a CTC head was trained above, as a front end: its states, one for each label.

    The head chooses states and learns nothing here.

    Args:
        embedding: of waveforms.
        encoder: that was trained with it and the head.
        head: which reads one of the encoder's taps.

    Raises:
        ValueError: if the encoder has no such tap, or reads windows of one length.
    """

    def __init__(self, *, embedding: SoundEmbedding, encoder: Encoder, head: CtcHead) -> None:
        super().__init__(embedding=embedding, encoder=encoder)
        if head.tap not in encoder.taps:
            raise ValueError(f"the head reads the states of {head.tap!r}, but the encoder's taps are {encoder.taps}")
        if self._windows:
            raise ValueError("an encoder of windows of one length has states of silence, which no head was trained on")
        self.head = head.requires_grad_(False)

    def forward(self, speech: Padded) -> Padded:
        """Encode waveforms (B, N) in [-1, 1]: (B, S', D)."""
        states, tapped = self.encoder(self.embedding(speech))
        with torch.no_grad():
            logits = self.head(tapped[self.head.tap].values)
        return ctc_shrink(states, logits, self.head.blank)
