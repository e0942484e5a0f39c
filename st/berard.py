"""The LSTM translator of speech before the Transformer, whose features may be wav2vec's.

Bérard et al. 2018, "End-to-End Automatic Speech Translation of Audiobooks", ICASSP, section 2, as fairseq has it
(s2t_berard); Wu et al. 2020, "Self-Supervised Representations Improve End-to-End Speech Translation", arXiv 2006.12124,
give it the output of a frozen wav2vec in the place of filterbanks: a ``Wav2Vec`` or another front end of a
``SpeechEmbedding``.

Features go through linear maps with tanh and through convolutions over time and frequency (:class:`ImageSubsampler`),
then through bidirectional LSTM layers (``LstmEncoder``). The decoder (:class:`ChainedDecoder`) attends with a
perceptron (Bahdanau et al. 2015). With one cell after the other, i = 1 .. N, for token t::

    s_t,i = LSTM_i(x_t,i, s_t,i-1)            s_t,0 = s_t-1,N        each cell goes on from the one before it
    a_t,j = softmax_j v . tanh(W h_j + U s_t,1 + b)                  h_j: the encoder's states
    c_t   = sum_j a_t,j h_j
    x_t,1 = the token's vector e_t, x_t,i = c_t for the other cells
    o_t   = tanh(V [s_t,N; c_t; e_t] + d)

Before the first token, s is the mean of the encoder's states, and cells are zero.

Differs from fairseq: padding counts as zero before each convolution, and not in the mean with which the decoder begins;
what leaves the encoder is not dropped out; the vectors of target tokens are dropped out once, for the cells and the
output alike, and in the recipes multiplied by the square root of their width. Otherwise states, logits, loss and
gradients are fairseq's (docs/parity.md); its checkpoints are not imported.

Not established: which wav2vec was published, and the batch and learning rate above it.

Legend: B sentences, K beams, R = B x K rows, T frames, S encoder states, L tokens, F features, E width of token
vectors, D width of states, A width of the attention's hidden layer, O width of outputs.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from dragoman.shared.described import Described
from dragoman.shared.nn.dropout import dropout
from dragoman.shared.nn.layer import Depth
from dragoman.shared.nn.linear import Linear
from dragoman.shared.nn.recurrent import COMPARED, RecurrentState, StateDecoder
from dragoman.shared.nn.subsampler import HalvingSubsampler
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import PositiveInt

#: The memory's states as attention compares them, W h + b, computed once a sentence.
MAPPED = "mapped"


class ImageSubsampler(Described, HalvingSubsampler):
    """Linear maps of each frame with tanh, then convolutions over time and frequency, each of which halves both.

    A row's result does not depend on the others of its batch: what is beyond its length counts as zero before every
    convolution.

    Args:
        inputs: F.
        layers: the width of each linear map.
        channels: of the convolutions.
        convolutions: how many.
        dropout: of what enters each tanh.
    """

    KERNEL = 3

    def __init__(
        self,
        *,
        inputs: PositiveInt = 80,
        layers: list[PositiveInt] | None = None,
        channels: PositiveInt = 16,
        convolutions: PositiveInt = 2,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        layers = [256, 128] if layers is None else list(layers)
        if not layers:
            raise ValueError("layers must have at least one width")
        self.inputs = inputs
        self.dropout = dropout
        pairs = zip([inputs, *layers], layers, strict=False)
        self.maps = nn.ModuleList(Linear(before, after) for before, after in pairs)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(channels if number else 1, channels, self.KERNEL, self.STRIDE, self.KERNEL // 2)
            for number in range(convolutions)
        )
        frequencies = layers[-1]
        for _ in range(convolutions):
            frequencies = (frequencies - 1) // self.STRIDE + 1
        self.width = channels * frequencies

    def forward(self, features: Padded) -> Padded:
        """Subsample features (B, T, F) to (B, S, width); padded places hold nothing of meaning."""
        x = features.values
        for layer in self.maps:
            x = torch.tanh(dropout(layer(x), self.dropout, self.training))
        image, lengths = x[:, None], features.lengths
        for convolution in self.convolutions:
            real = Padded(image[:, 0], lengths).mask[:, None, :, None]
            image = convolution(image * real)
            lengths = self.halved(lengths)
        return Padded(image.transpose(1, 2).flatten(2), lengths)


class ChainedDecoder(Described, StateDecoder):
    """LSTM cells of which each goes on from the state of the one before it, with attention after the first.

    It attends to the memory "source", whose states are as wide as its own, since it begins with their mean.

    Args:
        inputs: E.
        width: D.
        layers: N.
        attention: A.
        outputs: O.
        dropout: of the states, of the contexts, and of what leaves the decoder.
    """

    def __init__(
        self,
        *,
        inputs: PositiveInt,
        width: PositiveInt,
        layers: Depth,
        attention: PositiveInt,
        outputs: PositiveInt,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.inputs = inputs
        self.width = width
        self.memories = [COMPARED]
        self.dropout = dropout
        self.layers = nn.ModuleList(nn.LSTMCell(width if number else inputs, width) for number in range(layers))
        self.of_memory = Linear(width, attention)
        self.of_state = Linear(width, attention, bias=False)
        self.score = Linear(attention, 1, bias=False)
        self.output = Linear(2 * width + inputs, outputs)

    @property
    def state_size(self) -> int:
        """The numbers that the state of a row has: the last cell's."""
        return 2 * self.width

    def start(self, memories: Mapping[str, Padded], sentences: int, like: Tensor) -> RecurrentState:
        """Return the state of B sentences before the first token: the mean of the memory's states, and empty cells."""
        memory = self.checked(memories)[COMPARED]
        state = memory.mean().to(like.dtype)
        mapped = memory.map(self.of_memory)
        return RecurrentState([(state, torch.zeros_like(state))], {COMPARED: memory, MAPPED: mapped}, 1, 0)

    def read(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Read embedded tokens x (R, L, E) after those of a state; return o (R, L, O) and the state after them."""
        [(hidden, cells)] = state.layers
        states = []
        for token in x.unbind(1):
            context = read = token
            for number, cell in enumerate(self.layers):
                hidden, cells = cell(read, (hidden, cells))
                hidden = self._dropped(hidden)
                if number == 0:
                    context = read = self._dropped(self._context(hidden, state))
            states.append(torch.cat([hidden, context, token], -1))
        outputs = self._dropped(torch.tanh(self.output(torch.stack(states, 1))))
        return outputs, RecurrentState([(hidden, cells)], state.memories, state.beams, state.length + x.shape[1])

    def _context(self, hidden: Tensor, state: RecurrentState) -> Tensor:
        """Return c (R, D) for states (R, D); the beams of a sentence attend to its states side by side."""
        memory, mapped = state.memories[COMPARED], state.memories[MAPPED].values
        queries = self.of_state(hidden).unflatten(0, (-1, state.beams))  # (B, K, A)
        scores = self.score(torch.tanh(queries[:, :, None] + mapped[:, None]))[..., 0]  # (B, K, S)
        weights = scores.masked_fill(~memory.mask[:, None], float("-inf")).softmax(-1)
        return (weights @ memory.values).flatten(0, 1)

    def _dropped(self, x: Tensor) -> Tensor:
        return dropout(x, self.dropout, self.training)
