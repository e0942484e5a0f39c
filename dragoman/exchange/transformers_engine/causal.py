"""A decoder-only language model of the library transformers, as search sees it.

Legend: B sentences, K outputs of each, R = B x K rows, S prompt, P prefix, T tokens, V vocabulary, D width.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dragoman.exchange.transformers_engine.library_folder import library_model, with_tied, without_tied
from dragoman.shared.batch import Batch, naming_longest
from dragoman.shared.described import Described
from dragoman.shared.errors import TooLongError, UsageError
from dragoman.shared.generator import Encoding, check_fork, kept_sentences
from dragoman.shared.nn.state import evaluating
from dragoman.shared.nn.translator import MEMORY
from dragoman.shared.padded import Padded


@dataclass
class CausalState:
    """Keys and values of what R rows have read so far.

    Attributes:
        cache: the library's, of all layers.
        mask: (R, S + T) which positions hold a token: prompts are padded on the left.
        beams: K.
    """

    cache: Any
    mask: Tensor
    beams: int = 1

    def fork(self, beams: int) -> CausalState:
        """See :class:`dragoman.shared.generator.State`."""
        check_fork(self.beams, beams)
        if beams > 1:
            self.cache.batch_repeat_interleave(beams)
        return CausalState(self.cache, self.mask.repeat_interleave(beams, dim=0), beams)

    def reorder(self, index: Tensor) -> CausalState:
        """See :class:`dragoman.shared.generator.State`."""
        kept_sentences(index, self.beams, len(self.mask) // self.beams)
        select_rows(self.cache, index)
        return replace(self, mask=self.mask.index_select(0, index))


def select_rows(cache: Any, index: Tensor) -> None:
    """Keep rows of the library's cache, whose layers may stand on several devices."""
    for layer in cache.layers:
        layer.batch_select_indices(index.to(getattr(layer, "device", index.device)))


class CausalModel(Described, nn.Module):
    """A decoder-only language model: what it "encodes" is a prompt, which outputs continue.

    The probability of any of several end symbols is that of the first, which alone is what training teaches.

    Args:
        config: the library's ``config.json``.
        ends: ids of the symbols that end an output, the tokenizer's ``</s>`` first.
        recompute: keep only what enters each layer, and compute the rest again in the backward pass.

    Raises:
        DataError: if the library knows no such language model.
        UsageError: if the library is not installed, or the configuration asks for code or quantised weights.
    """

    #: The library's class that finds a model's.
    found_by: ClassVar[str] = "AutoModelForCausalLM"
    lm: Any

    def __init__(self, *, config: dict[str, Any], ends: list[int], recompute: bool = False) -> None:
        super().__init__()
        self.lm = library_model(config, self.found_by, "language model")
        self.ends = list(ends)
        if recompute:
            # Older releases of the library know the second name alone, which version 6 will not.
            enable = getattr(self.lm, "activation_checkpointing_enable", self.lm.gradient_checkpointing_enable)
            enable({"use_reentrant": False})
        self._projects: bool | None = None
        self.register_state_dict_post_hook(without_tied)
        self.register_load_state_dict_pre_hook(with_tied)

    def encode(self, batch: Batch, field: str | None = None) -> Encoding:
        """Return the prompts (B, S) themselves: they are read when a search starts.

        Raises:
            DataError: if one is longer than the model has positions, naming it.
        """
        with naming_longest(batch, MEMORY):
            self._check_prompts(batch[MEMORY].lengths)
        return Encoding({MEMORY: batch[MEMORY]})

    def longest_outputs(self, encoding: Encoding) -> Tensor | None:
        """Return how many positions are left behind each prompt, (B,) on the CPU, if the model says how many it has."""
        return None if self._positions is None else self._positions - encoding.memories[MEMORY].lengths.cpu()

    @property
    def width(self) -> int:
        """The width of the vectors that it reads, D."""
        return int(self.lm.get_input_embeddings().embedding_dim)

    @property
    def projection(self) -> nn.Module:
        """The linear map from states (..., D) to logits (..., V), whose weights losses read.

        Raises:
            UsageError: if it has an adapter, or the model changes the logits afterwards (Granite divides them).
        """
        projection = self.lm.get_output_embeddings()
        if not isinstance(projection, nn.Linear):
            raise UsageError(f"targets: the map to the vocabulary (a {type(projection).__name__}) has no adapter here")
        if self._projects is None:
            token = torch.tensor([[self.ends[0]]], device=projection.weight.device)
            with torch.no_grad(), evaluating(self.lm):
                states = self.lm.base_model(input_ids=token, use_cache=False).last_hidden_state
                self._projects = torch.equal(projection(states), self.lm(input_ids=token, use_cache=False).logits)
        if not self._projects:
            raise UsageError(f"a {self.lm.config.model_type} changes its logits, and cannot be trained here")
        return projection

    def decode(self, prefix: Padded, encoding: Encoding) -> Tensor:
        """Return the states (B, T, D) at the tokens of prefix (B, T) behind the prompts, read at once, for losses.

        Raises:
            TooLongError: if prompt and prefix are longer than the model has positions.
        """
        prompts = encoding.memories[MEMORY]
        read = Padded.from_sequences(self._joined(encoding, prefix)).to(prefix.device)
        self._check_positions(read.values.shape[1])
        # What is behind a row's end is seen by nothing in the row: causal attention needs no mask.
        given = {self._called(read.values): read.values} | self.beside(encoding, read.values)
        states = self.lm.base_model(**given, use_cache=False).last_hidden_state
        places = prompts.lengths[:, None] + torch.arange(prefix.values.shape[1], device=prefix.device)
        places = places.clamp(max=states.shape[1] - 1)
        return states.gather(1, places[..., None].expand(-1, -1, states.shape[-1]))

    def start(self, encoding: Encoding, prefix: Padded | None) -> CausalState:
        """Read the prompts, and a prefix (B, P) behind them."""
        rows = self._joined(encoding, prefix)
        longest = max(map(len, rows))
        around = (0, 0) * (rows[0].dim() - 1)
        tokens = torch.stack([nn.functional.pad(row, (*around, longest - len(row), 0)) for row in rows])
        lengths = torch.tensor([*map(len, rows)], device=tokens.device)
        mask = torch.arange(longest, device=tokens.device) >= longest - lengths[:, None]
        return CausalState(self._read(tokens, mask, None, **self.beside(encoding, tokens))[1], mask)

    def beside(self, encoding: Encoding, prompts: Tensor) -> dict[str, Tensor | None]:
        """Return what the library is given of B sentences beside their prompts (B, S), or in the place of these."""
        return {}

    def step(self, tokens: Tensor, state: CausalState) -> tuple[Tensor, CausalState]:
        """Read a token a row (R,); return logits (R, V) and the state."""
        mask = torch.cat([state.mask, state.mask.new_ones(len(tokens), 1)], dim=1)
        logits, cache = self._read(tokens[:, None], mask, state.cache)
        return logits[:, -1], CausalState(cache, mask, state.beams)

    def log_probabilities(self, prefix: Padded, encoding: Encoding) -> Tensor:
        """Return the scores (B, T, V) of the token after each token of prefix (B, T).

        Raises:
            TooLongError: if prompt and prefix are longer than the model has positions.
        """
        self._check_positions(int((encoding.memories[MEMORY].lengths + prefix.lengths).max()))
        state = self.start(encoding, None)
        mask = torch.cat([state.mask, prefix.mask], dim=1)
        return torch.log_softmax(self._read(prefix.values, mask, state.cache)[0].float(), dim=-1)

    def state_bytes(self, length: int) -> int:
        """Return about how many bytes of keys and values an output of ``length`` tokens has."""
        return cache_bytes(self.lm, length)

    def read_bytes(self, batch: Batch, outputs: int) -> int:
        """Return about how many bytes of keys and values prompts have, which each output of a sentence has for itself.

        They are padded to the longest.
        """
        return len(batch) * outputs * cache_bytes(self.lm, self.longest_prompt(batch))

    def longest_prompt(self, batch: Batch) -> int:
        """Return S, how many tokens the longest prompt of a batch has."""
        return batch[MEMORY].values.shape[1]

    def _read(self, tokens: Tensor, mask: Tensor, cache: Any, **beside: Tensor | None) -> tuple[Tensor, Any]:
        """Return logits of the last T tokens of rows, and keys and values of all of them.

        Args:
            tokens: (R, T) what has not been read.
            mask: (R, S + T) which positions hold a token.
            cache: of those before; None: nothing.
            **beside: what else the library is given.
        """
        places = (mask.cumsum(dim=1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        given = {self._called(tokens): tokens, "attention_mask": mask.long(), "position_ids": places} | beside
        read = self.lm(**given, past_key_values=cache, use_cache=True)
        logits = read.logits
        if len(self.ends) > 1:
            first, others = self.ends[0], self.ends[1:]
            logits[..., first] = logits[..., self.ends].logsumexp(dim=-1)
            logits[..., others] = float("-inf")
        return logits, read.past_key_values

    def _joined(self, encoding: Encoding, prefix: Padded | None) -> list[Tensor]:
        """Return prompts with what stands behind them, (S + P,) each."""
        read = [encoding.memories[MEMORY], *([] if prefix is None else [self.like_prompts(prefix)])]
        return [torch.cat(parts) for parts in zip(*(part.rows() for part in read), strict=True)]

    def like_prompts(self, prefix: Padded) -> Padded:
        """Return tokens (B, P) in the form of the prompts, which here are tokens."""
        return prefix

    @staticmethod
    def _called(read: Tensor) -> str:
        """Return what the library calls tokens (B, T), or vectors (B, T, D) in their place."""
        return "inputs_embeds" if read.is_floating_point() else "input_ids"

    @property
    def _positions(self) -> int | None:
        return getattr(self.lm.config.get_text_config(), "max_position_embeddings", None)

    def _check_prompts(self, lengths: Tensor) -> None:
        """Refuse prompts without their last token, (B,) lengths, behind which not one token finds room."""
        self._check_positions(int(lengths.max()) + 2)

    def _check_positions(self, length: int) -> None:
        if self._positions is not None and length > self._positions:
            raise TooLongError(f"{length} tokens of prompt and output, and the model has {self._positions} positions")


def cache_bytes(model: Any, length: int) -> int:
    """Return about how many bytes of keys and values an output of ``length`` tokens has in a model of the library."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(2 * config.num_hidden_layers * heads * width * length * model.dtype.itemsize)
