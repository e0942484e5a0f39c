"""VECO: a masked language model that is a decoder, too, when attention to another text is plugged into its layers.

Luo et al. 2021, ACL, "VECO: Variable and Flexible Cross-lingual Pre-training for Language Understanding and
Generation", arXiv 2010.16046; equations are numbered as in its first version. Two texts have masked tokens: a sentence
and its translation, or adjacent segments of one text. Let x^ and y^ be what is left of them, x_m and y_m the masked
tokens, X and Y the states of the last layer. One stack of layers restores the tokens in three ways:

    inner   - log P(x_m | x^) - log P(y_m | y^)                  attention to the other text is left out (eq. 5)
    cross   - log P(x_m | Y, x^_<=t) - log P(y_m | X, y^_<=t)    it is plugged in, and no token sees a later one (eq. 7)
    joint   - log P(x_m, y_m | x^ y^)                            of translations: both texts are one input (XLM's TLM)

The loss is their sum (eq. 8). A token is restored where it stood, also in "cross", whose gradient does not flow into X
and Y. What is plugged out is an encoder, what is plugged in a decoder: a translator takes all its parameters from the
one stack (recipes/base/from_veco.yaml).

Differs from the paper: texts are cut in the middle, where the paper takes adjacent segments; their order is not
flipped, because the loss is the same in either order. On Almanac the stack begins at random, as the paper's small one
does, and encoder and decoder have equally many layers.

Not established, and chosen here: updates, learning rates and batch of pre-training; the length of segments; positions
begin anew with the second text where both are one input, as in XLM; texts and pairs alternate from update to update;
dropout and label smoothing of fine-tuning.

Not implemented: tasks of understanding, except for retrieval.

Legend: B sentences, S and T lengths of the texts, D width.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Unpack, cast

import numpy as np
from torch import Tensor, nn

from dragoman.shared.batch import Batch, naming_longest
from dragoman.shared.batches.fields import Rows, TextField
from dragoman.shared.batches.manifest import Row
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.attention import MemoryAttention
from dragoman.shared.nn.joined import encode_joined
from dragoman.shared.nn.layer import EncoderLayer, Layer
from dragoman.shared.nn.transformer import Encoder, EncoderParts
from dragoman.shared.nn.translator import MEMORY, EncoderModel
from dragoman.shared.objectives.masked import AtPlaces, at_places
from dragoman.shared.objectives.objective import Term
from dragoman.shared.objectives.parts import Encode, check_head
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import NonNegativeFloat

#: The batch fields of the two texts, x and y.
TEXTS = ("source", "target")


class PluggableEncoder(Encoder):
    """An encoder whose layers can attend to another text as well: then it sees its own as a decoder does.

    Args:
        layer: the first layer, with attention to the memory "source".
        parts: see :class:`Encoder`.

    Raises:
        ValueError: if the layer has no such attention, or it is to states of another width.
    """

    def __init__(self, *, layer: EncoderLayer, **parts: Unpack[EncoderParts]) -> None:
        if not isinstance(layer, Layer) or layer.memories != [MEMORY]:
            raise ValueError(f"each layer needs attention to {MEMORY!r} alone, but has it to {layer.memories}")
        width = cast(MemoryAttention, layer.memory_attention[MEMORY]).keys_values.in_features
        if width != layer.width:
            raise ValueError(f"attention is to states of width {width}, but the layers make those of {layer.width}")
        super().__init__(layer=layer, **parts)

    def plugged(self, x: Padded, memory: Padded) -> Padded:
        """Return the states (B, T, D) of x (B, T, D), each of which sees those before it and memory (B, S, D)."""
        memories = self.check({MEMORY: memory})
        states = x.values
        for layer in self.layers:
            states = self.through(layer, states, memories=memories, causal=True)
        return Padded(self.norm(states), x.lengths)


class VariableModel(EncoderModel):
    """A masked language model of two texts, which it reads alone, one after the other, or one beside the other.

    No vector tells the texts or their languages apart: both have one embedding.

    Args:
        embeddings: of both texts, under the name "source".
        encoder: of (B, S, D).
        heads: by name, such as a MaskedTokenHead.

    Raises:
        ValueError: if there are other embeddings, or nothing can be plugged into the encoder.
    """

    encoder: PluggableEncoder

    def __init__(
        self, *, embeddings: dict[str, nn.Module], encoder: PluggableEncoder, heads: dict[str, nn.Module] | None = None
    ) -> None:
        if [*embeddings] != [MEMORY]:
            raise ValueError(f"both texts have the embedding {MEMORY!r}, so there must be no others: {[*embeddings]}")
        if not isinstance(encoder, PluggableEncoder):
            raise ValueError(f"nothing can be plugged into the layers of {type(encoder).__name__}")
        super().__init__(embeddings=embeddings, encoder=encoder, heads=heads)

    def embed(self, batch: Batch, field: str | None = None) -> Padded:
        """Embed a text of a batch, by default "source": (B, S, D).

        Raises:
            DataError: if a row is longer than the model has positions, naming it.
            UsageError: if the batch lacks the text.
        """
        field = field or MEMORY
        with naming_longest(batch, field):
            return self.embeddings[MEMORY](batch[field])

    def encode(self, batch: Batch, field: str | None = None) -> Encoding:
        """Encode a text alone; or those that the batch has together, each with positions from its own beginning.

        Returns:
            Of a text alone, the memory "source" (B, S, D), and the tapped layers as extras; otherwise a memory for each
            text, by its name: (B, S, D), the states of its tokens.

        Raises:
            UsageError: if the batch lacks the text, or has neither.
        """
        if field is not None:
            return super().encode(batch, field)
        names = [name for name in TEXTS if name in batch]
        if not names:
            raise UsageError(f"stream {batch.stream!r} has none of the texts {' and '.join(TEXTS)}")
        return Encoding(encode_joined(self.encoder, {name: self.embed(batch, name) for name in names}))

    def default_field(self, batch: Batch) -> None:
        """Return None: by default both texts are encoded together."""

    def cross(self, batch: Batch, field: str, memory: Padded) -> Padded:
        """Return the states (B, T, D) of a text, each of which sees what is before it, and memory (B, S, D)."""
        return self.encoder.plugged(self.embed(batch, field), memory)


class RestoredTokens(AtPlaces):
    """Cross entropy of the masked tokens of both texts, per masked token; subclasses say from which states.

    Reads the batch fields ``source`` and ``target``, with ``.places`` and ``.labels`` of each (MaskedText). Terms: the
    class's ``NAME`` (nats), and reported only: ``<NAME>_accuracy``.

    Args:
        weight: factor of the term in the loss; 0: it is only reported.
        head: name of a ``MaskedTokenHead`` in ``model.heads``.
    """

    NAME: ClassVar[str]

    def __init__(self, *, weight: NonNegativeFloat = 1.0, head: str = "masked") -> None:
        super().__init__(name=self.NAME, fields=TEXTS, label_smoothing=0.0, weight=weight)
        self.head = head

    def check(self, model: Any) -> None:
        """Raise UsageError if the model is of another kind, or lacks the head."""
        if not isinstance(model, VariableModel):
            raise UsageError(f"{type(self).__name__} needs a VariableModel, but the model is {type(model).__name__}")
        check_head(model, self.head)

    def evaluate(self, model: Any, batch: Batch, encode: Encode) -> dict[str, Term]:
        """Gather the states of masked tokens, and compare what the head says with what stood there."""
        head = model.heads[self.head]
        hidden = {
            text: head.transform(at_places(states.values, batch[f"{text}.places"]))
            for text, states in self.states(model, batch, encode).items()
        }
        return self.compared(head.projection, batch, hidden)

    @abstractmethod
    def states(self, model: VariableModel, batch: Batch, encode: Encode) -> dict[str, Padded]:
        """Return the states of each text, (B, S, D) and (B, T, D)."""


class InnerMasked(RestoredTokens):
    """IS-MLM (equation 5): each text is read alone."""

    NAME = "inner"

    def states(self, model: VariableModel, batch: Batch, encode: Encode) -> dict[str, Padded]:
        """Encode each text."""
        return {text: encode(text).memories[MEMORY] for text in TEXTS}


class CrossMasked(RestoredTokens):
    """CS-MLM (equation 7): each text is read from its beginning, beside the states of the other one.

    Args:
        weight: see :class:`RestoredTokens`; with 0, what is left is XLM's loss.
        head: see :class:`RestoredTokens`.
        detach: let no gradient flow into the states of the other text, as published.
    """

    NAME = "cross"

    def __init__(self, *, weight: float = 1.0, head: str = "masked", detach: bool = True) -> None:
        super().__init__(weight=weight, head=head)
        self.detach = detach

    def states(self, model: VariableModel, batch: Batch, encode: Encode) -> dict[str, Padded]:
        """Read each text beside the states that "inner" has of the other one."""
        read = {}
        for text, other in (TEXTS, TEXTS[::-1]):
            memory = encode(other).memories[MEMORY]
            read[text] = model.cross(batch, text, memory.map(Tensor.detach) if self.detach else memory)
        return read


class JointMasked(RestoredTokens):
    """TLM (Conneau and Lample 2019, section 3.4): both texts are one input; for translations."""

    NAME = "joint"

    def states(self, model: VariableModel, batch: Batch, encode: Encode) -> dict[str, Padded]:
        """Encode both texts together."""
        return encode(None).memories


class AdjacentSegment(TextField):
    """One of two adjacent segments of a text: its first or its second half, with the symbols of a whole text.

    Of an odd number of pieces, the first half has one more. The paper flips the order of segments at random; this loss
    is the same in either order.

    Args:
        field: the whole text.
        second: return the second half.
    """

    def __init__(self, *, field: TextField, second: bool) -> None:
        super().__init__(**field.arguments)
        self.second = second

    def pieces(self, row: Row, text: str | None = None) -> list[int]:
        """Return the ids of the half's pieces, without symbols."""
        pieces = super().pieces(row, text)
        middle = (len(pieces) + 1) // 2
        return pieces[middle:] if self.second else pieces[:middle]

    def length(self, row: Row) -> int:
        """Return the number of ids of the half, L."""
        return self.overhead + len(self.pieces(row))

    def lengths(self, rows: Rows, folder: Path | None = None) -> np.ndarray:
        """Return the numbers of ids of halves, -1 where there is no text."""
        whole = super().lengths(rows, folder)
        pieces = whole - self.overhead + (0 if self.second else 1)
        return np.where(whole < 0, -1, self.overhead + pieces // 2)
