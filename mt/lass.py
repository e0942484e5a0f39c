"""LaSS: a multilingual translator with a sub-network for each direction.

Lin et al. 2021, ACL, "Learning Language Specific Sub-network for Multilingual Machine Translation", arXiv 2105.09259.
A translator of all directions, theta_0, is fine-tuned for each direction p by itself, theta_p. In each matrix of the
encoder and the decoder, the share a of theta_p's smallest magnitudes is pruned, which gives a mask M_p. Then all
directions train on together, from theta_0 again: a batch is of one direction and uses theta * M_p, so that only what
the mask keeps has a gradient. Translation uses the same mask.

- A direction never trained, X to Y, has the encoder's masks of X to English and the decoder's of English to Y.
- A direction that is added later gets a mask of its own from theta_0 fine-tuned for it; trained on alone, it changes
  what its mask keeps, beside what has no masks: token vectors, biases, norms, and the output's matrix.

A model folder has a bit for each weight and direction. One direction is an ordinary system, which can be exported:
``dragoman.load("model").alone("en", "de").save("en-de")``.

Differs from the released code: the output's matrix, which is one with the token vectors, has no masks (an option of the
code says so, without effect); exactly the share is pruned where magnitudes are equal; pieces are SentencePiece's. As
there, queries, keys and values are pruned apart, and Adam's moments also move a weight in batches whose mask prunes it.

Not established, and chosen here: a new direction's masks are taken from theta_0; besides the weights that they keep,
token vectors, biases and norms learn, as in the code.

Legend: B sentences, P directions, W weights that have masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Unpack, cast

import torch
from torch import Tensor, nn

from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding, Hypothesis
from dragoman.shared.nn.attention import MultiHeadAttention
from dragoman.shared.nn.linear import Linear, linear, stored_for_search
from dragoman.shared.nn.translator import Translator, TranslatorParts
from dragoman.shared.search.search import AnySearch
from dragoman.shared.systems.saved_model import SavedModel
from dragoman.shared.systems.system import System

#: The parts of a translator whose matrices have masks.
MASKED = ("encoder", "decoder")


class MaskedLinear(Linear):
    """A linear map that multiplies by what a mask keeps of its matrix.

    Args:
        plain: the map whose parameters it takes over.
    """

    #: See dragoman/placing/placed.py.
    read_outside = True

    def __init__(self, plain: Linear) -> None:
        super().__init__(plain.in_features, plain.out_features, plain.bias is not None, device="meta")
        self.weight, self.bias = plain.weight, plain.bias
        self.masked: Tensor | None = None
        self._search: tuple[torch.dtype | None] | None = None

    def wear(self, mask: Tensor) -> None:
        """Use a mask (out, in) bool from now on, with the weights as they are now."""
        masked = self.weight * mask
        self.masked = masked if self._search is None else stored_for_search(masked, *self._search)

    def forward(self, x: Tensor) -> Tensor:
        """Map x (..., in) to (..., out)."""
        return linear(x, self.weight if self.masked is None else self.masked, self.bias)

    def store_for_search(self, dtype: torch.dtype | None) -> None:
        """Store what masks keep, not the matrix itself: in the order of a search, no mask fits it any more."""
        self._search = (dtype,)

    def plain(self) -> Linear:
        """Return an ordinary map by what the mask that is worn keeps."""
        plain = Linear(self.in_features, self.out_features, self.bias is not None, device="meta")
        plain.weight = nn.Parameter(self.weight.detach() if self.masked is None else self.masked.detach())
        plain.bias = self.bias
        return plain


class MaskedTranslator(Translator):
    """A Translator that uses, for each batch, the sub-network of its direction; rows of a batch have one direction.

    Until ``Prune`` (mt/pruning.py) sets them, masks keep all, as in a Translator. ``masks`` is (P, W / 8) uint8,
    a bit for each weight; the encoder's bits come first.

    Args:
        pairs: the directions, (source, target), each with masks of its own.
        pivot: a language: other directions, X to Y, have the encoder's masks of X to it, and the decoder's of it to Y.
        parts: see Translator; the linear maps of encoder and decoder have masks, the projection has none.

    Raises:
        ValueError: without directions, or if one is there twice.
    """

    masks: Tensor

    def __init__(self, *, pairs: list[list[str]], pivot: str | None = None, **parts: Unpack[TranslatorParts]) -> None:
        super().__init__(**parts)
        self.pairs = [f"{source}-{target}" for source, target in pairs]
        if not pairs or len({*self.pairs}) < len(pairs):
            raise ValueError(f"pairs must be directions, each once, not {pairs}")
        self.pivot = pivot
        self.blocks: dict[str, int] = {}
        for name in MASKED:
            self.blocks |= _replace_maps(name, self.get_submodule(name))
        self._sizes = {name: self.get_parameter(f"{name}.weight").numel() for name in self.blocks}
        self._of_encoder = sum(size for name, size in self._sizes.items() if name.startswith("encoder."))
        width = -(-sum(self._sizes.values()) // 8)
        self.register_buffer("masks", torch.full((len(pairs), width), 255, dtype=torch.uint8))

    def encode(self, batch: Batch, field: str | None = None) -> Encoding:
        """Encode one field of a batch; its direction's masks are used from now on, for decoding as well.

        Raises:
            UsageError: if the rows have several directions or languages are missing, or there are no masks for them.
        """
        self.wear(direction_of(batch))
        return super().encode(batch, field)

    def wear(self, pair: str) -> None:
        """Use the masks of a direction, "de-en", from now on, with the weights as they are now."""
        for name, mask in self.masks_of(pair).items():
            cast(MaskedLinear, self.get_submodule(name)).wear(mask)

    def masks_of(self, pair: str) -> dict[str, Tensor]:
        """Return the masks (out, in) bool of a direction, by the name of the linear map.

        Raises:
            UsageError: if there are none, nor those of two directions by way of the pivot.
        """
        if pair in self.pairs:
            bits = self._bits(pair)
        else:
            source, _, target = pair.partition("-")
            halves = [f"{source}-{self.pivot}", f"{self.pivot}-{target}"]
            if not {*halves} <= {*self.pairs}:
                raise UsageError(f"the model has no masks for {pair}, only for {', '.join(self.pairs)}")
            bits = torch.cat([self._bits(halves[0])[: self._of_encoder], self._bits(halves[1])[self._of_encoder :]])
        parts = bits.split([*self._sizes.values()])
        return {
            name: part.view_as(self.get_parameter(f"{name}.weight"))
            for name, part in zip(self._sizes, parts, strict=True)
        }

    def set_masks(self, pair: str, masks: dict[str, Tensor]) -> None:
        """Set the masks (out, in) bool of one of ``pairs``, by the name of the linear map."""
        bits = torch.cat([masks[name].flatten() for name in self._sizes]).to(self.masks)
        bits = nn.functional.pad(bits, (0, 8 * self.masks.shape[1] - len(bits)))
        self.masks[self.pairs.index(pair)] = (bits.view(-1, 8) << self._places()).sum(1).to(torch.uint8)

    def _bits(self, pair: str) -> Tensor:
        """Return (W,) bool."""
        row = self.masks[self.pairs.index(pair)]
        bits = (row[:, None] >> self._places()) & 1
        return bits.flatten()[: sum(self._sizes.values())].bool()

    def _places(self) -> Tensor:
        return torch.arange(8, dtype=torch.uint8, device=self.masks.device)


def _replace_maps(name: str, module: nn.Module) -> dict[str, int]:
    """Let all linear maps below a module have masks; return in how many blocks of rows each is pruned, by its name."""
    blocks = {}
    for below, child in [*module.named_children()]:
        path = f"{name}.{below}"
        if isinstance(child, nn.Linear):
            if not isinstance(child, Linear):
                raise ValueError(f"{path} is a {type(child).__name__}, which can have no mask")
            setattr(module, below, MaskedLinear(child))
            # One product makes queries, keys and values, which are matrices of their own to the method.
            blocks[path] = child.out_features // module.width if isinstance(module, MultiHeadAttention) else 1
        else:
            blocks |= _replace_maps(path, child)
    return blocks


def directions_of(batch: Batch) -> list[str]:
    """Return the direction of each row, "de-en".

    Raises:
        UsageError: if a row's language is not known on one of the sides.
    """
    sides = [batch.languages.get(side) for side in ("source", "target")]
    if None in sides:
        raise UsageError("rows without a source or a target language have no direction, which parameters belong to")
    return [f"{source}-{target}" for source, target in zip(*cast(list[list[str]], sides), strict=True)]


def direction_of(batch: Batch) -> str:
    """Return the direction of all rows.

    Raises:
        UsageError: if they have several, or none.
    """
    pairs = sorted({*directions_of(batch)})
    if len(pairs) != 1:
        raise UsageError(
            f"a batch with rows of {' and '.join(pairs) or 'no direction'} has no masks: group those of the stream by "
            "direction (group_by: [source_language, target_language])"
        )
    return pairs[0]


class MaskedSystem(System):
    """A System whose model has masks: it translates rows of several directions, those of each together."""

    def translate_batch(
        self, batch: Batch, search: AnySearch, *, forced: Sequence[Sequence[int]] | None = None
    ) -> list[list[Hypothesis]]:
        """Translate a batch; see :meth:`System.translate_batch`."""
        rows: dict[str, list[int]] = {}
        for number, pair in enumerate(directions_of(batch)):
            rows.setdefault(pair, []).append(number)
        if len(rows) < 2:
            return super().translate_batch(batch, search, forced=forced)
        hypotheses: dict[int, list[Hypothesis]] = {}
        for numbers in rows.values():
            given = None if forced is None else [forced[number] for number in numbers]
            parts = super().translate_batch(batch.select(numbers), search, forced=given)
            hypotheses |= dict(zip(numbers, parts, strict=True))
        return [hypotheses[number] for number in range(len(batch))]

    def alone(self, source: str, target: str) -> System:
        """Return an ordinary system of one direction, which others may read: its pruned weights are 0."""
        model = masked_model(self)
        with torch.no_grad():
            model.wear(f"{source}-{target}")
        parts = {name: _with_plain_maps(deepcopy(model.get_submodule(name))) for name in MASKED}
        arguments = {name: value for name, value in model.arguments.items() if name not in ("pairs", "pivot")}
        changed = {"source_languages": [source], "target_languages": [target]}
        plain = System(**self.arguments | changed | {"model": Translator(**arguments | parts)})
        plain.origin = [*self.origin, f"the sub-network of {source}-{target}"]
        return plain.train(self.training)


def _with_plain_maps(module: nn.Module) -> nn.Module:
    for parent in [*module.modules()]:
        for name, child in [*parent.named_children()]:
            if isinstance(child, MaskedLinear):
                setattr(parent, name, child.plain())
    return module


def masked_model(system: SavedModel) -> MaskedTranslator:
    """Return the model of a system that has masks, or raise a UsageError."""
    model = getattr(system, "model", None)
    if not isinstance(model, MaskedTranslator):
        raise UsageError(f"a {type(model).__name__} has no masks: the method needs a MaskedTranslator")
    return model
