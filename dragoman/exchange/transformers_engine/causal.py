"""A decoder-only language model of the library transformers, as search sees it.

Legend: B sentences, K outputs of each, R = B x K rows, S prompt, P prefix, T tokens, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dragoman.exchange.transformers_engine.library_folder import library_model, without_tied
from dragoman.shared.batch import Batch
from dragoman.shared.described import Described
from dragoman.shared.generator import Encoding, check_fork, kept_sentences
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
        self.cache.batch_select_indices(index)
        return replace(self, mask=self.mask.index_select(0, index))


class CausalModel(Described, nn.Module):
    """A decoder-only language model: what it "encodes" is a prompt, which outputs continue.

    The probability of any of several end symbols is that of the first.

    Args:
        config: the library's ``config.json``.
        ends: ids of the symbols that end an output, the tokenizer's ``</s>`` first.

    Raises:
        DataError: if the library knows no such language model.
        UsageError: if the library is not installed, or the configuration asks for code or quantised weights.
    """

    #: The library's class that finds a model's.
    found_by: ClassVar[str] = "AutoModelForCausalLM"
    lm: Any

    def __init__(self, *, config: dict[str, Any], ends: list[int]) -> None:
        super().__init__()
        self.lm = library_model(config, self.found_by, "language model")
        self.ends = list(ends)
        self.register_state_dict_post_hook(without_tied)

    def encode(self, batch: Batch) -> Encoding:
        """Return the prompts (B, S) themselves: they are read when a search starts."""
        return Encoding({MEMORY: batch[MEMORY]})

    def start(self, encoding: Encoding, prefix: Padded | None) -> CausalState:
        """Read the prompts, and a prefix (B, P) behind them."""
        read = [encoding.memories[MEMORY], *([] if prefix is None else [prefix])]
        rows = [torch.cat(parts) for parts in zip(*(part.rows() for part in read), strict=True)]
        longest = max(map(len, rows))
        tokens = torch.stack([nn.functional.pad(row, (longest - len(row), 0)) for row in rows])
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
        """Return the scores (B, T, V) of the token after each token of prefix (B, T)."""
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
        given = {"input_ids": tokens, "attention_mask": mask.long(), "position_ids": places} | beside
        read = self.lm(**given, past_key_values=cache, use_cache=True)
        logits = read.logits
        if len(self.ends) > 1:
            first, others = self.ends[0], self.ends[1:]
            logits[..., first] = logits[..., self.ends].logsumexp(dim=-1)
            logits[..., others] = float("-inf")
        return logits, read.past_key_values


def cache_bytes(model: Any, length: int) -> int:
    """Return about how many bytes of keys and values an output of ``length`` tokens has in a model of the library."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(2 * config.num_hidden_layers * heads * width * length * model.dtype.itemsize)
