"""Translation of text without autoregression: encoder states, each split in k, over which CTC reads the target.

Libovický and Helcl 2018, EMNLP, "End-to-End Non-Autoregressive Neural Machine Translation with Connectionist Temporal
Classification", arXiv 1811.04719, section 3. CTC writes at most as many tokens as it has states, and a translation may
be longer than its source. A state h_c (D) becomes k states: s_ck+b is the b-th part of W h_c + w, whose width is k D.
All outputs are read off at once, blanks and repetitions taken out. The three architectures of the paper are:

- encoder-decoder: further layers read the split states, and attend to the encoder's as well: ``writer``;
- the same, with positions added to the split states: ``positions``;
- deep encoder: all layers are the encoder's, and the last states are split: no writer.

Differs from the paper: it distils nothing, and trains on references (arm ``gold``).

Legend: B sentences, S source tokens, k splits, D width.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from dragoman.shared.generator import Encoding
from dragoman.shared.nn.linear import Linear
from dragoman.shared.nn.positions import SinusoidalPositions
from dragoman.shared.nn.transformer import Encoder
from dragoman.shared.nn.translator import MEMORY, EncoderModel
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import PositiveInt

#: The name of the split states, for heads.
SPLIT = "split"


class SplittingModel(EncoderModel):
    """An encoder with heads that may read its split states, the tap "split".

    Args:
        embeddings: by batch field, as of an EncoderModel.
        encoder: from (B, S, D) to states (B, S, D).
        splits: k.
        positions: added to the split states; None: none.
        writer: layers that read the split states, and attend to the memory "source"; None: no further layers.
        heads: by name, such as a CtcHead.

    Raises:
        ValueError: if the writer has another width, or attends to anything else.
    """

    def __init__(
        self,
        *,
        embeddings: dict[str, nn.Module],
        encoder: Encoder,
        splits: PositiveInt = 3,
        positions: SinusoidalPositions | None = None,
        writer: Encoder | None = None,
        heads: dict[str, nn.Module] | None = None,
    ) -> None:
        super().__init__(embeddings=embeddings, encoder=encoder, heads=heads)
        if writer is not None and (writer.width, writer.memories) != (encoder.width, [MEMORY]):
            raise ValueError(
                f"the writer must have the encoder's width {encoder.width} and attend to {MEMORY!r}, but has "
                f"{writer.width} and attends to {writer.memories}"
            )
        self.splits = splits
        self.splitting = Linear(encoder.width, splits * encoder.width)
        self.positions = positions
        self.writer = writer

    @property
    def taps(self) -> list[int | str]:
        """The states that heads can read: the encoder's tapped layers by number, and "split"."""
        return [*super().taps, SPLIT]

    def encode_embedded(self, embedded: Padded, memories: Mapping[str, Padded] | None = None) -> Encoding:
        """Encode what has been embedded (B, S, D).

        Returns:
            The memory "source" (B, S, D); the taps as extras, of which "tap.split" is (B, k S, D).
        """
        encoding = super().encode_embedded(embedded, memories)
        states = encoding.memories[MEMORY]
        values = self.splitting(states.values).unflatten(-1, (self.splits, -1)).flatten(1, 2)
        if self.positions is not None:
            values = values + self.positions(values.shape[1], 0, like=values)
        split = Padded(values, self.splits * states.lengths, full=states.full)
        if self.writer is not None:
            split, _ = self.writer(split, memories={MEMORY: states})
        return Encoding(encoding.memories, encoding.extras | {f"tap.{SPLIT}": split})
