"""One layer of a Transformer (Vaswani et al. 2017), for encoders and decoders alike.

Legend: B sentences, K beams, R = B x K rows, L length, P prompts, D model width, F feed-forward width.

A layer is self-attention, then attention to memories if it was built with any, then the feed-forward net. An encoder's
layer has no memories, a decoder's is called causally; nothing else tells them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, NotRequired, TypedDict, cast

import torch
from torch import Tensor, nn

from dragoman.shared.described import Described
from dragoman.shared.nn.attention import KeysValues, MemoryAttention, Past, Prompts, SelfAttention
from dragoman.shared.nn.dropout import dropout
from dragoman.shared.nn.linear import Linear
from dragoman.shared.padded import Padded
from dragoman.shared.ranges import PositiveInt, Range, ShareBelowOne

#: By the name that model folders hold; "gelu_tanh" is the tanh approximation (Hendrycks and Gimpel 2016, section 2).
#: What enters is a linear map's output, which nobody needs afterwards: "relu" writes over it.
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": partial(nn.ReLU, inplace=True),
    "gelu": nn.GELU,
    "gelu_tanh": partial(nn.GELU, approximate="tanh"),
    "swish": nn.SiLU,
}


def activation_module(name: str) -> nn.Module:
    """Build an activation function.

    Raises:
        ValueError: for an unknown name.
    """
    if name not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, not {name!r}")
    return ACTIVATIONS[name]()


#: By the name that model folders hold; "rms" divides by the root of the mean square (Zhang and Sennrich 2019).
NORMS: dict[str, Callable[..., nn.LayerNorm | nn.RMSNorm]] = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}


def layer_norm(width: int, epsilon: float, kind: str = "layer") -> nn.LayerNorm | nn.RMSNorm:
    """Build a normalisation of each element.

    Raises:
        ValueError: if the epsilon is not positive, or for an unknown kind.
    """
    if not epsilon > 0:
        raise ValueError(f"norm_epsilon must be positive, not {epsilon}")
    if kind not in NORMS:
        raise ValueError(f"norm must be one of {', '.join(NORMS)}, not {kind!r}")
    return NORMS[kind](width, eps=epsilon)


#: As many layers as the deepest Transformers that were published (Wang et al. 2022, "DeepNet").
DEEPEST = 1000
#: A number of layers; to build a million takes minutes.
Depth = Annotated[int, Range(least=1, most=DEEPEST)]


class LayerCache:
    """The state of a layer between the steps of a search: its past (R rows) and its memories (B sentences)."""

    def __init__(self) -> None:
        self.past = Past()
        self.memories: dict[str, KeysValues] = {}

    def reorder(self, index: Tensor, sentences: Tensor | None) -> None:
        """Keep rows (R',), and of the memories ``sentences`` (B',), or all if None."""
        self.past.reorder(index)
        if sentences is not None:
            self.memories = {name: memory.select(sentences) for name, memory in self.memories.items()}


class EncoderLayer(Described, nn.Module):
    """Base class of the layers that a stack can have.

    Args:
        width: D.
        feedforward: F.
        dropout: of what each sub-layer adds.
        activation_dropout: inside the feed-forward net.
        pre_norm: whether what leaves the layer is not normalised, so that what leaves the stack has to be.
        norm_epsilon: added to the variance by which a normalisation divides.
    """

    def __init__(
        self,
        *,
        width: int,
        feedforward: PositiveInt,
        dropout: ShareBelowOne,
        activation_dropout: ShareBelowOne,
        pre_norm: bool,
        norm_epsilon: float,
    ) -> None:
        super().__init__()
        self.width = width
        self.pre_norm = pre_norm
        self.norm_epsilon = norm_epsilon
        self.dropout = dropout
        self.activation_dropout = activation_dropout

    @property
    def memories(self) -> list[str]:
        """The names of the memories that the layer attends to."""
        return []

    def new_norm(self) -> nn.LayerNorm | nn.RMSNorm:
        """Build one more normalisation of the layer's kind."""
        return layer_norm(self.width, self.norm_epsilon)

    def drop(self, h: Tensor) -> Tensor:
        """Apply the dropout of what sub-layers make."""
        return dropout(h, self.dropout, self.training)


class Variant(Described):
    """The differences of a layer from those of Vaswani et al. 2017; by default, none.

    Args:
        norm: the kind of normalisation, "layer" or "rms".
        bias: add trained vectors in linear maps.
        gated: multiply the inner activations of the feed-forward net by a second linear map (Shazeer 2020).
        head_width: of every attention; None for the layer's width divided by the heads.
        scaled: divide the scores of attention by the root of that.
    """

    def __init__(
        self,
        *,
        norm: str = "layer",
        bias: bool = True,
        gated: bool = False,
        head_width: int | None = None,
        scaled: bool = True,
    ) -> None:
        self.norm = norm
        self.bias = bias
        self.gated = gated
        self.head_width = head_width
        self.scaled = scaled

    @property
    def plain(self) -> bool:
        """True if there are none."""
        return self.norm == "layer" and self.bias and not self.gated and self.head_width is None and self.scaled


class LayerParts(TypedDict):
    """The arguments that layers of other kinds hand on to :class:`Layer`."""

    width: int
    heads: int
    feedforward: int
    dropout: NotRequired[float]
    attention_dropout: NotRequired[float]
    activation: NotRequired[str]
    pre_norm: NotRequired[bool]
    norm_epsilon: NotRequired[float]


class Layer(EncoderLayer):
    """One layer.

    How it combines several memories is a method to override (:meth:`combine`).

    Args:
        width: D.
        heads: of every attention.
        feedforward: F.
        memories: the memories to attend to: their names, or names with widths where those differ from ``width``.
        dropout: of what each sub-layer adds.
        attention_dropout: of attention weights.
        activation_dropout: inside the feed-forward net.
        activation: "relu", "gelu", "gelu_tanh" or "swish".
        pre_norm: normalise what enters a sub-layer (Xiong et al. 2020) instead of what leaves it.
        norm_epsilon: added to the variance by which a normalisation divides.
        variant: how it differs from the layers of Vaswani et al.; None for not at all.
    """

    def __init__(
        self,
        *,
        width: int,
        heads: int,
        feedforward: int,
        memories: list[str] | dict[str, int] | None = None,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        activation: str = "relu",
        pre_norm: bool = True,
        norm_epsilon: float = 1e-5,
        variant: Variant | None = None,
    ) -> None:
        super().__init__(
            width=width,
            feedforward=feedforward,
            dropout=dropout,
            activation_dropout=activation_dropout,
            pre_norm=pre_norm,
            norm_epsilon=norm_epsilon,
        )
        self.variant = variant or Variant()
        bias = self.variant.bias
        widths = memories if isinstance(memories, dict) else dict.fromkeys(memories or [], width)
        attention: dict[str, Any] = {
            "width": width, "heads": heads, "dropout": attention_dropout,
            "head_width": self.variant.head_width, "bias": bias, "scaled": self.variant.scaled,
        }  # fmt: skip
        self.self_attention = SelfAttention(**attention)
        self.self_attention_norm = self.new_norm()
        self.memory_attention = nn.ModuleDict(
            {name: MemoryAttention(memory_width=size, **attention) for name, size in widths.items()}
        )
        if widths:
            self.memory_attention_norm = self.new_norm()
        # torch's own initialisation of linear maps, as in fairseq 0.12.
        self.inner = Linear(width, feedforward, bias=bias)
        self.gate = Linear(width, feedforward, bias=bias) if self.variant.gated else None
        self.outer = Linear(feedforward, width, bias=bias)
        self.activation = activation_module(activation)
        self.feedforward_norm = self.new_norm()

    @property
    def memories(self) -> list[str]:
        """The names of the memories that the layer attends to."""
        return list(self.memory_attention)

    def new_norm(self) -> nn.LayerNorm | nn.RMSNorm:
        """Build one more normalisation of the layer's kind."""
        return layer_norm(self.width, self.norm_epsilon, self.variant.norm)

    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        memories: Mapping[str, Padded] | None = None,
        prompts: Prompts | None = None,
        causal: bool = False,
        cache: LayerCache | None = None,
        seen: Mapping[str, Tensor] | None = None,
        relative: Tensor | None = None,
    ) -> Tensor:
        """Apply the layer.

        Args:
            x: (R, L, D).
            mask: (R, L) or (R, L, L) bool, see :class:`SelfAttention`; None: all is real. Not needed if ``causal``.
            memories: of B sentences, each row with at least one element. A memory that the layer was built with and
                that is not given here is not attended; without any, there is no attention to memories.
            prompts: more keys and values for the self-attention, seen by every element.
            causal: an element sees no later one.
            cache: kept from step to step: ``x`` continues what it holds, and memories it has are not needed again.
            seen: by memory, (B or 1, L, S) bool, which of its states each element may attend to; all, if not given.
            relative: (H, L, S), added to the scores of the self-attention; see :class:`SelfAttention`.

        Returns:
            (R, L, D).

        Raises:
            KeyError: if a memory is given that the layer was not built with.
        """
        h = self.self_attention(
            self.before(x, self.self_attention_norm),
            mask=mask,
            causal=causal,
            prompts=prompts,
            past=cache.past if cache else None,
            relative=relative,
        )
        x = self.after(x, h, self.self_attention_norm)
        remembered = self.remember(memories or {}, cache)
        if remembered:
            h = self.before(x, self.memory_attention_norm)
            shown = seen or {}
            attended = {
                name: self.memory_attention[name](h, memory, shown.get(name)) for name, memory in remembered.items()
            }
            x = self.after_memories(x, attended)
        return self.feed(x)

    def feed(self, x: Tensor) -> Tensor:
        """Apply the feed-forward net to x (R, L, D), and add what it makes."""
        x_in = self.before(x, self.feedforward_norm)
        h = self.activation(self.inner(x_in))
        if self.gate is not None:
            h = h * self.gate(x_in)
        h = self.outer(dropout(h, self.activation_dropout, self.training))
        return self.after(x, h, self.feedforward_norm)

    def before(self, x: Tensor, norm: nn.Module) -> Tensor:
        """Return what enters a sub-layer."""
        return norm(x) if self.pre_norm else x

    def after(self, x: Tensor, h: Tensor, norm: nn.Module) -> Tensor:
        """Add what a sub-layer has made, ``h``, to what entered it."""
        return self.finish(x + self.drop(h), norm)

    def finish(self, x: Tensor, norm: nn.Module) -> Tensor:
        """Return what leaves a sub-layer, of what entered it and what it has made, added up."""
        return x if self.pre_norm else norm(x)

    def after_memories(self, x: Tensor, attended: dict[str, Tensor]) -> Tensor:
        """Add what attending to each memory has given, all (R, L, D)."""
        return self.after(x, self.combine(attended), self.memory_attention_norm)

    def combine(self, attended: dict[str, Tensor]) -> Tensor:
        """Combine the results of attending to each memory, all (R, L, D): their sum."""
        return torch.stack(list(attended.values())).sum(0) if len(attended) > 1 else next(iter(attended.values()))

    def remember(self, memories: Mapping[str, Padded], cache: LayerCache | None = None) -> dict[str, KeysValues]:
        """Project memories that the cache does not hold yet, and put them there."""
        kept = cache.memories if cache else {}
        for name, memory in memories.items():
            if name not in self.memory_attention:
                raise KeyError(f"this layer attends to {list(self.memory_attention)}, not to {name!r}")
            if name not in kept:
                kept[name] = cast(MemoryAttention, self.memory_attention[name]).remember(memory)
        return kept
