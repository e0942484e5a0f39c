"""Stacks of LSTM layers (Hochreiter and Schmidhuber 1997): an encoder, and a decoder that attends to memories.

Legend: B sentences, K beams, R = B x K rows, L length, S memory states, E width of what is read, D width, C cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict, Unpack, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from dragoman.shared.annotations import Checked
from dragoman.shared.described import Described
from dragoman.shared.generator import check_fork, kept_sentences
from dragoman.shared.nn.dropout import dropout
from dragoman.shared.nn.layer import Depth
from dragoman.shared.nn.linear import Linear
from dragoman.shared.nn.transformer import checked_taps
from dragoman.shared.padded import Padded

#: The memory whose states attention compares with a decoder's.
COMPARED = "source"


def lstm(inputs: int, width: int, cells: int, *, bidirectional: bool = False) -> nn.LSTM:
    """Return one layer from (B, L, E) to (B, L, D), with C cells in each direction.

    If there are more cells than D, or D / 2 in each of two directions, states are projected (Sak et al. 2014). Forget
    gates begin open, with a bias of 1 (Jozefowicz et al. 2015, "An Empirical Exploration of Recurrent Network
    Architectures").

    Raises:
        ValueError: if a size is below 1, there are fewer cells than states, or two directions cannot share D.
    """
    states, rest = divmod(width, 2 if bidirectional else 1)
    if min(inputs, states) < 1 or rest or cells < states:
        raise ValueError(f"no LSTM of {cells} cells makes states of width {width} from inputs of width {inputs}")
    projected = states if cells > states else 0
    layer = nn.LSTM(inputs, cells, batch_first=True, proj_size=projected, bidirectional=bidirectional)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if name.startswith("bias"):  # there are two, which are added up
                parameter.zero_()
                parameter[cells : 2 * cells] = 0.5
    return layer


class LstmStack(Checked, nn.Module):
    """LSTM layers on top of each other.

    Args:
        inputs: E.
        width: D; of two directions, each has half of it.
        layers: how many.
        first_cells: C of the first layer in each direction, if it has more cells than states.
        bidirectional: read from the right as well.
        dropout: of what enters each layer but the first, and of what a softmax reads (Zaremba et al. 2014).
    """

    def __init__(
        self,
        *,
        inputs: int,
        width: int,
        layers: Depth,
        first_cells: int | None = None,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        states = width // 2 if bidirectional else width
        cells = [first_cells or states, *[states] * (layers - 1)]
        reads = [inputs, *[width] * (layers - 1)]
        pairs = zip(reads, cells, strict=True)
        self.layers = nn.ModuleList([lstm(read, width, count, bidirectional=bidirectional) for read, count in pairs])
        self.inputs = inputs
        self.width = width
        self.dropout = dropout

    def first_layer(self, x: Tensor) -> Tensor:
        """Return what the first layer alone makes of embedded tokens x (B, L, E): (B, L, D), as a softmax reads it."""
        return self.dropped(self.lstms[0](x)[0])

    def dropped(self, states: Tensor) -> Tensor:
        """Apply dropout, in training."""
        return dropout(states, self.dropout, self.training)

    @property
    def lstms(self) -> list[nn.LSTM]:
        """The layers."""
        return cast(list[nn.LSTM], list(self.layers))


class LstmParts(TypedDict):
    """The arguments of :class:`LstmStack` for one direction."""

    inputs: int
    width: int
    layers: int
    first_cells: NotRequired[int | None]
    dropout: NotRequired[float]


class LstmEncoder(Described, LstmStack):
    """LSTM layers that read a whole sequence.

    Args:
        bidirectional: read from the right as well.
        taps: the layers whose states others want as well: 1 for the first layer's, 0 for what is read.
        parts: see :class:`LstmStack`.
    """

    def __init__(
        self, *, bidirectional: bool = False, taps: list[int] | None = None, **parts: Unpack[LstmParts]
    ) -> None:
        super().__init__(bidirectional=bidirectional, **parts)
        self.bidirectional = bidirectional
        self.taps = checked_taps(taps, len(self.layers))

    def forward(self, x: Padded, *, memories: Mapping[str, Padded] | None = None) -> tuple[Padded, dict[int, Padded]]:
        """Encode x (B, L, E); return the states (B, L, D) and those of the tapped layers.

        Raises:
            ValueError: if there are memories, to which no layer attends.
        """
        if memories:
            raise ValueError(f"an LSTM encoder attends to nothing, not to {' and '.join(memories)}")
        states, tapped = x, {0: x}
        for number, layer in enumerate(self.layers, start=1):
            states = self._read(layer, states if number == 1 else states.map(self.dropped))
            tapped[number] = states
        return states, {tap: tapped[tap] for tap in self.taps}

    def _read(self, layer: nn.Module, x: Padded) -> Padded:
        """Apply a layer; one that reads from the right begins where a row ends, not where its padding does."""
        if not self.bidirectional:
            return x.map(lambda values: layer(values)[0])
        lengths = x.lengths.clamp(min=1).cpu()
        packed = pack_padded_sequence(x.values, lengths, batch_first=True, enforce_sorted=False)
        values, _ = pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=x.values.shape[1])
        return Padded(values, x.lengths)


class RecurrentState:
    """The state of a recurrent decoder after the tokens it has read, for the K beams of each of B sentences.

    Attributes:
        layers: of each layer its states (R, D) and its cells (R, C).
        memories: of the B sentences.
        beams: K.
        length: how many tokens have been read.
    """

    def __init__(
        self, layers: Sequence[tuple[Tensor, Tensor]], memories: Mapping[str, Padded], beams: int, length: int
    ) -> None:
        self.layers = list(layers)
        self.memories = dict(memories)
        self.beams = beams
        self.length = length

    def fork(self, beams: int) -> RecurrentState:
        """Let each sentence have K beams, equal to the one that it has; several are a ValueError."""
        check_fork(self.beams, beams)
        layers = [
            (state.repeat_interleave(beams, 0), cells.repeat_interleave(beams, 0)) for state, cells in self.layers
        ]
        return RecurrentState(layers, self.memories, beams, self.length)

    def reorder(self, index: Tensor) -> RecurrentState:
        """Keep rows ``index`` (B' x K,) int64; sentences may be left out, and keep their order.

        Raises:
            ValueError: if the number of rows is not a multiple of K, or exceeds B x K.
        """
        kept = kept_sentences(index, self.beams, len(self.layers[0][0]) // self.beams)
        layers = [(state.index_select(0, index), cells.index_select(0, index)) for state, cells in self.layers]
        memories = self.memories
        if kept is not None:
            memories = {name: memory.select(kept) for name, memory in memories.items()}
        return RecurrentState(layers, memories, self.beams, self.length)


class StateDecoder(nn.Module):
    """A decoder whose state has one size, however many tokens it has read.

    Attributes:
        inputs: E.
        width: D, of the memory "source" as well.
        memories: the names of those that it attends to.
    """

    inputs: int
    width: int
    memories: list[str]

    @property
    def state_size(self) -> int:
        """The numbers that the state of a row has."""
        raise TypeError(f"{type(self).__name__} does not define state_size")

    def start(self, memories: Mapping[str, Padded], sentences: int, like: Tensor) -> RecurrentState:
        """Return the state of B sentences before the first token.

        Args:
            memories: all that the decoder was built with.
            sentences: B.
            like: a tensor whose device and type the state has.

        Raises:
            ValueError: if these are not the memories that the decoder was built for.
        """
        raise TypeError(f"{type(self).__name__} does not define start(memories, sentences, like)")

    def read(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Read embedded tokens x (R, L, E) after those of a state; return outputs (R, L, ...) and the state after."""
        raise TypeError(f"{type(self).__name__} does not define read(x, state)")

    def forward(self, x: Padded, memories: Mapping[str, Padded] | None = None) -> Padded:
        """Decode x (B, L, E), embedded: (B, L, ...), what the projection reads."""
        state = self.start(memories or {}, len(x), x.values)
        return x.map(lambda values: self.read(values, state)[0])

    def checked(self, memories: Mapping[str, Padded]) -> dict[str, Padded]:
        """Return memories fit to be attended: a row without states has one, so that a softmax has something to sum.

        Raises:
            ValueError: if these are not the memories that the decoder was built for.
        """
        if {*memories} != {*self.memories}:
            raise ValueError(f"the decoder attends to {self.memories}, but the memories are {list(memories)}")
        return {name: Padded(memory.values, memory.lengths.clamp(min=1)) for name, memory in memories.items()}


class RecurrentDecoder(Described, LstmStack, StateDecoder):
    """LSTM layers that read what has been written, with attention above them (Luong et al. 2015, section 3.1).

    With h_t,n the state of layer n of N after token t, and m_s the states of the memory "source"::

        a_t,s = softmax_s h_t,N . m_s
        c_t   = sum_s a_t,s m_s                     of further memories likewise, with the same weights
        o_t   = tanh(W [c_t; ...; h_t,N])           + h_t,1 with ``residual``

    The layers do not read the context: the first is that of a language model. Without memories, o_t is h_t,N.

    Args:
        memories: what is attended to, "source" and others of as many states; None for a language model.
        residual: add the first layer's states to what leaves the decoder.
        parts: see :class:`LstmStack`; memories have the width D, too, and what leaves the decoder the dropout.

    Raises:
        ValueError: if "source" is not among the memories, or with ``residual`` there is nothing above the first layer.
    """

    def __init__(
        self, *, memories: list[str] | None = None, residual: bool = False, **parts: Unpack[LstmParts]
    ) -> None:
        super().__init__(**parts)
        self.memories = list(memories or [])
        if self.memories and COMPARED not in self.memories:
            raise ValueError(f"attention compares states with the memory {COMPARED!r}, which is not in {self.memories}")
        if residual and len(self.layers) == 1 and not self.memories:
            raise ValueError("there is nothing above the only layer to which its states could be added")
        self.residual = residual
        read = self.width * (1 + len(self.memories))
        self.output = Linear(read, self.width, bias=False) if self.memories else None

    @property
    def state_size(self) -> int:
        """The numbers that the state of a row has, states and cells of all layers."""
        return sum(self.width + layer.hidden_size for layer in self.lstms)

    def start(self, memories: Mapping[str, Padded], sentences: int, like: Tensor) -> RecurrentState:
        """Return the state of B sentences before the first token: zeros; see :class:`StateDecoder`."""
        checked = self.checked(memories)
        cells = [layer.hidden_size for layer in self.lstms]
        layers = [(like.new_zeros(sentences, self.width), like.new_zeros(sentences, count)) for count in cells]
        return RecurrentState(layers, checked, 1, 0)

    def read(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Read embedded tokens x (R, L, E) after those of a state; return o (R, L, D) and the state after them."""
        states, first, after = x, x, []
        for number, (layer, (before, cells)) in enumerate(zip(self.lstms, state.layers, strict=True)):
            read = self.dropped(states) if number else states
            states, (last, cells) = layer(read, (before[None], cells[None]))
            first = states if number == 0 else first
            after.append((last[0], cells[0]))
        if self.output is not None:
            states = torch.tanh(self.output(torch.cat([*self._contexts(states, state), states], -1)))
        if self.residual:
            states = states + first
        return self.dropped(states), RecurrentState(after, state.memories, state.beams, state.length + x.shape[1])

    def _contexts(self, states: Tensor, state: RecurrentState) -> list[Tensor]:
        """Return the context (R, L, D) of each memory for states (R, L, D); beams are queries of one sentence."""
        queries = states.unflatten(0, (-1, state.beams)).flatten(1, 2)  # (B, K x L, D)
        compared = state.memories[COMPARED]
        scores = queries @ compared.values.transpose(1, 2)
        weights = scores.masked_fill(~compared.mask[:, None], float("-inf")).softmax(-1)
        contexts = (weights @ state.memories[name].values for name in self.memories)
        return [context.unflatten(1, (state.beams, -1)).flatten(0, 1) for context in contexts]
