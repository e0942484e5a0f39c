"""BART as the decoder of a translator: a new encoder of a foreign language writes what BART's encoder reads.

Lewis et al. 2020, "BART: Denoising Sequence-to-Sequence Pre-training", section 3.4 and figure 3b. The source encoder
replaces the embedding of BART's encoder, has a vocabulary of its own, and begins with random parameters; all of BART,
encoder and decoder, then denoises what it gives:

    P(y | x) = BART(y | h),  h = norm(Encoder(embed(x)) + p),

with the positions p and the norm of BART's own embedding. It learns in two steps, both times from the cross entropy of
BART's output. In the first most of BART is frozen: only the source encoder, BART's positions, and the projection of
what enters the self-attention of its encoder's first layer learn (``FirstStep``). In the second everything learns, for
few updates. Since the decoder was trained on one language, the translator writes that one.

Differs from the paper: the rows that are back-translated, which the paper always adds, are a key (``made_rows``).

Not established, and chosen here: the source encoder has pieces and positions of its own, and layers like those of
BART's encoder; BART's norm of embeddings is applied to the sum of its states and BART's positions; the positions that
learn in the first step are those of encoder and decoder, and the bias of the projection learns with it; learning rates,
warm-up, updates, batch and dropout of both steps.

Legend: B sentences, S source tokens, D width.
"""

from __future__ import annotations

from typing import Any, cast

from torch import nn

from dragoman.shared.batches.fields import TextField
from dragoman.shared.described import Described
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.nn.dropout import dropout as drop
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.heads import TiedProjection
from dragoman.shared.nn.layer import Layer, layer_norm
from dragoman.shared.nn.positions import SinusoidalPositions
from dragoman.shared.nn.transformer import Encoder, fresh
from dragoman.shared.nn.translator import Translator
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import ShareBelowOne
from dragoman.shared.systems.system import System
from dragoman.shared.training.tuning import Selected

#: The field that the source encoder reads.
FIELD = "source"
#: What learns in the first step, as a regular expression for names of parameters.
FIRST_STEP = (
    r"system\.model\.(embeddings\.source\.(embedding|encoder)\..*|(embeddings\.source|target_embedding)\.positions\..*"
    r"|encoder\.layers\.0\.self_attention\.queries_keys_values\..*)"
)


class ForeignEncoder(Described, nn.Module):
    """An embedding of foreign tokens for another model's encoder: an encoder of its own, and that model's positions.

    Args:
        embedding: of the foreign tokens, with positions of their own.
        encoder: of what is embedded.
        positions: those that the other model adds to its token vectors; None if it adds none.
        norm: normalise the sum, as the other model's embedding does.
        norm_epsilon: added to the variance by which that divides.
        dropout: of what the other model reads.

    Raises:
        ValueError: if widths differ.
    """

    def __init__(
        self,
        *,
        embedding: TextEmbedding,
        encoder: Encoder,
        positions: nn.Module | None = None,
        norm: bool = False,
        norm_epsilon: float = 1e-5,
        dropout: ShareBelowOne = 0.1,
    ) -> None:
        super().__init__()
        self.width = encoder.width
        for name, width in (("embedding", embedding.width), ("positions", getattr(positions, "width", self.width))):
            if width != self.width:
                raise ValueError(f"the width of the {name} is {width}, that of the source encoder {self.width}")
        self.embedding = embedding
        self.encoder = encoder
        self.positions = positions
        self.norm = layer_norm(self.width, norm_epsilon) if norm else nn.Identity()
        self.dropout = dropout

    def symbol_tensors(self) -> list[str]:
        """See shared/nn/symbols.py."""
        return [f"embedding.{name}" for name in self.embedding.symbol_tensors()]

    def forward(self, tokens: Padded) -> Padded:
        """Encode tokens (B, S) int64: (B, S, D)."""
        states, _ = self.encoder(self.embedding(tokens))
        x = states.values
        if self.positions is not None:
            x = x + self.positions(x.shape[1], like=x)
        return Padded(drop(self.norm(x), self.dropout, self.training), tokens.lengths, full=tokens.full)


class FirstStep(Selected):
    """Let only the source encoder learn, with BART's positions and the first projection of its encoder.

    BART's positions are those of encoder and decoder, if they are trained at all.
    """

    def __init__(self) -> None:
        super().__init__(parameters=FIRST_STEP)


def put_before(
    *,
    text: System,
    source: TextField,
    layers: int = 6,
    dropout: float = 0.1,
    source_languages: list[str],
    target_languages: list[str] | None = None,
) -> System:
    """Put a new source encoder before a pre-trained system of text; its layers are built like those of that system.

    Args:
        text: a system that reads and writes text, such as an imported BART, whose output is that of the new system.
        source: what the source encoder reads, with a tokenizer of its own.
        layers: of the source encoder; 6 in the paper.
        dropout: in the source encoder, and of what it gives.
        source_languages: codes of what will be read.
        target_languages: codes of what will be written; by default those of the system.

    Raises:
        UsageError: if ``text`` is something else, or cannot write a language.
    """
    above, old = text.model, None
    if type(above) is Translator and not len(above.heads) and [*above.embeddings] == [FIELD]:
        old = above.embeddings[FIELD]
    if not isinstance(old, TextEmbedding) or old.type_vector is not None or text.output_name != "translation":
        raise UsageError(f"text: {type(above).__name__} is no text translator without heads and further inputs")
    for code in target_languages or text.target_languages:
        try:
            text.output.prefix_ids(code)
        except DataError as error:
            raise UsageError(f"target_languages: {code!r} is no language of the system: {error}") from error
    above = cast(Translator, above)
    target, projection = _with_own_vectors(above, old)
    model = Translator(
        embeddings={FIELD: _replacing(old, above.encoder, source=source, layers=layers, dropout=dropout)},
        encoder=above.encoder,
        target_embedding=target,
        decoder=above.decoder,
        projection=projection,
    )
    system = System(
        model=model,
        inputs={FIELD: source},
        output=text.output,
        source_languages=source_languages,
        target_languages=target_languages or text.target_languages,
    )
    system.origin = [*text.origin, f"model.embeddings.{FIELD}: a new encoder of {layers} layers with random parameters"]
    return system


def _replacing(old: TextEmbedding, above: Encoder, *, source: TextField, layers: int, dropout: float) -> ForeignEncoder:
    """Return the new encoder with the positions and the norm of the embedding that it replaces."""
    layer = cast(Layer, above.layers[0])
    norm = isinstance(old.norm, nn.LayerNorm)
    new = ForeignEncoder(
        embedding=TextEmbedding(
            vocabulary=source.tokenizer.size,
            width=old.width,
            padding=source.tokenizer.pad,
            positions=SinusoidalPositions(width=old.width),
            dropout=dropout,
        ),
        encoder=Encoder(layer=_fresh_layer(layer, dropout), layers=layers),
        positions=old.positions,
        norm=norm,
        norm_epsilon=old.norm.eps if isinstance(old.norm, nn.LayerNorm) else 1e-5,
        dropout=dropout,
    )
    new.norm.load_state_dict(old.norm.state_dict())
    return new


def _fresh_layer(layer: Layer, dropout: float) -> Layer:
    """Return a layer built as another one, with parameters and dropout of its own."""
    return type(layer)(**{name: fresh(value) for name, value in layer.arguments.items()} | {"dropout": dropout})


def _with_own_vectors(above: Translator, old: TextEmbedding) -> tuple[TextEmbedding, nn.Module]:
    """Return target embedding and projection of a translator whose source embedding ``old`` leaves it.

    If the token vectors belong to that one, the target embedding gets them.

    Raises:
        UsageError: if the projection alone uses the vectors of ``old``.
    """
    target, projection = above.target_embedding, above.projection
    arguments: dict[str, Any] = getattr(projection, "arguments", {})
    tied_to = arguments["embedding"] if isinstance(projection, TiedProjection) else None
    if target.arguments.get("shared_with") is not old:
        if tied_to is old:
            raise UsageError("text: its output is tied to the vectors of its source, which the source encoder replaces")
        return target, projection
    embedding = TextEmbedding(**target.arguments | {"shared_with": None})
    embedding.load_state_dict(target.state_dict() | {"tokens.weight": old.weight})
    if tied_to is None:
        return embedding, projection
    tied = TiedProjection(**arguments | {"embedding": embedding})
    tied.load_state_dict(projection.state_dict())
    return embedding, tied
