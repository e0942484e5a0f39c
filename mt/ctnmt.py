"""CTNMT: three ways for a translator to use a masked language model without forgetting it.

Yang et al. 2020, AAAI, "Towards Making the Most of BERT in Neural Machine Translation", arXiv 1908.05672, sections 2.2
to 2.4:

- asymptotic distillation: the encoder's states stay near those of the language model, which is not needed afterwards,
  L = a L_NMT + (1 - a) L_KD, L_KD = |h_LM - h_NMT|^2 (equations 4 and 5);
- a dynamic switch: what the encoder reads is, dimension by dimension, a mixture of the language model's states and of
  token vectors, g = sigmoid(W h_LM + U h_NMT + b), h = g * h_LM + (1 - g) * h_NMT;
- rate-scheduled updating: parameters of the language model learn at the rate of the others times rho, which rises from
  0 to 1, falls to 0 and stays there. ``Adam(multipliers=...)`` does that with a schedule: recipes/base/ctnmt.yaml.

All of it reads the language model's pieces.

Differs from NeurST, the authors' library: the schedule multiplies the learning rate, as in the paper, where NeurST
multiplies the gradient, which Adam divides away again. The teacher is a fixed copy.

Not established: whether the D squares of L_KD, which the paper calls a mean squared error but writes as a squared norm
of one token's states, are summed or averaged, a factor of 768 with BERT: here they are summed and tokens averaged, as
in NeurST; where the switch stands: below the encoder, as there; the number of updates. The weight (0.01) and the rate's
numbers of updates are those of NeurST's example.

Legend: B sentences, S tokens, D width.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from dragoman.shared.batch import Batch
from dragoman.shared.described import Described
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.linear import Linear
from dragoman.shared.nn.translator import MEMORY, EncoderModel
from dragoman.shared.objectives.objective import Term
from dragoman.shared.objectives.parts import Part
from dragoman.shared.objectives.teacher import Teacher
from dragoman.shared.padded import Padded

#: The field of the reader that is given the tokens.
FIELD = "source"


class DynamicSwitch(Described, nn.Module):
    """An embedding that mixes token vectors with the states of an encoder of the same tokens.

    Args:
        embedding: of tokens, with positions.
        reader: a language model without heads that reads the same tokens as "source", and is as wide.

    Raises:
        ValueError: if the reader has another width, vocabulary or field, or heads.
    """

    def __init__(self, *, embedding: TextEmbedding, reader: EncoderModel) -> None:
        super().__init__()
        reader.check_read(FIELD)
        for name, value, other in (
            ("width", embedding.width, reader.encoder.width),
            ("vocabulary", embedding.vocabulary, reader.embeddings[FIELD].vocabulary),
        ):
            if value != other:
                raise ValueError(f"the reader's {name} is {other}, that of the token vectors {value}")
        self.embedding = embedding
        self.reader = reader
        self.width = embedding.width
        self.of_states = Linear(self.width, self.width, bias=False)
        self.of_tokens = Linear(self.width, self.width)

    @property
    def weight(self) -> Tensor:
        """The token vectors (V, D)."""
        return self.embedding.weight

    def symbol_tensors(self) -> list[str]:
        """See shared/nn/symbols.py."""
        read = cast(TextEmbedding, self.reader.embeddings[FIELD]).symbol_tensors()
        names = self.embedding.symbol_tensors()
        return [f"embedding.{name}" for name in names] + [f"reader.embeddings.{FIELD}.{name}" for name in read]

    def forward(self, tokens: Padded) -> Padded:
        """Embed tokens (B, S) int64: (B, S, D)."""
        reader_states = self.reader.encode_embedded(self.reader.embeddings[FIELD](tokens)).memories[MEMORY].values
        embedded = self.embedding(tokens).values
        gate = torch.sigmoid(self.of_states(reader_states) + self.of_tokens(embedded))
        return Padded(gate * reader_states + (1 - gate) * embedded, tokens.lengths)


class AsymptoticDistillation(Part):
    """Squared distance of the encoder's states from those of a frozen language model, per token of the source.

    Term: "distillation", the sum over all dimensions, which the paper leaves open; NeurST does the same.

    Args:
        teacher: the language model, which reads the field with the same pieces.
        weight: 1 - a, where cross entropy has the weight a; 0.01 in NeurST's example.
        field: the batch field that both read.
    """

    def __init__(self, *, teacher: Teacher, weight: float = 0.01, field: str = FIELD) -> None:
        super().__init__(source=field)
        self.teacher = teacher
        self.weight = weight
        self.field = field

    def counts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the number of tokens."""
        return {"distillation": batch[self.field].lengths.sum()}

    def terms(self, model: Any, batch: Batch, encoding: Encoding) -> dict[str, Term]:
        """Compare the states token by token.

        Raises:
            UsageError: if they differ in number or width.
        """
        states, wanted = encoding.memories[MEMORY], self.teacher.states(batch)
        if states.values.shape != wanted.values.shape:
            raise UsageError(
                f"the encoder's states have the shape {tuple(states.values.shape)}, those of the teacher "
                f"{self.teacher.folder} {tuple(wanted.values.shape)}: they must be equally many and equally wide"
            )
        distances = (states.values - wanted.values).float().square().sum(-1)
        total = distances.masked_fill(~states.mask, 0).sum()
        return {"distillation": Term(total, self.counts(batch)["distillation"], self.weight)}
