"""The names of fairseq's tensors: old ones brought up to date, and those of ours that they become."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

#: Beginnings of names here and there; ``{}`` stands for projections that are kept apart there and together here.
PARTS = (
    ("self_attention.queries_keys_values", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
    ("self_attention.output", ("self_attn.out_proj",)),
    ("self_attention_norm", ("self_attn_layer_norm",)),
    ("memory_attention.source.queries", ("encoder_attn.q_proj",)),
    ("memory_attention.source.keys_values", ("encoder_attn.k_proj", "encoder_attn.v_proj")),
    ("memory_attention.source.output", ("encoder_attn.out_proj",)),
    ("memory_attention_norm", ("encoder_attn_layer_norm",)),
    ("inner", ("fc1",)),
    ("outer", ("fc2",)),
    ("feedforward_norm", ("final_layer_norm",)),
)
WHOLE = (
    ("embeddings.source.tokens", "encoder.embed_tokens"),
    ("embeddings.source.positions", "encoder.embed_positions"),
    ("embeddings.source.norm", "encoder.layernorm_embedding"),
    ("encoder.norm", "encoder.layer_norm"),
    ("target_embedding.tokens", "decoder.embed_tokens"),
    ("target_embedding.positions", "decoder.embed_positions"),
    ("target_embedding.norm", "decoder.layernorm_embedding"),
    ("decoder.norm", "decoder.layer_norm"),
    ("projection", "decoder.output_projection"),
    ("heads.masked_tokens.dense", "encoder.lm_head.dense"),
    ("heads.masked_tokens.norm", "encoder.lm_head.layer_norm"),
    ("heads.masked_tokens.projection", "encoder.lm_head"),
)
#: What carries no weight: version counters, buffers, and copies for a fast path that fairseq 0.12 keeps beside its own.
NOTHING = re.compile(
    r"((en|de)coder\.)?version|.*\._float_tensor|encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)"
)


def counterparts(name: str) -> tuple[str, ...]:
    """Return the names there of the tensors that one of a model here is made of, one below the other."""
    layer = re.fullmatch(r"((?:en|de)coder\.layers\.\d+)\.(.+)\.(weight|bias)", name)
    if layer:
        place, part, kind = layer.groups()
        return tuple(f"{place}.{theirs}.{kind}" for theirs in dict(PARTS)[part])
    for ours, theirs in WHOLE:
        if name.startswith(ours + "."):
            return (theirs + name[len(ours) :],)
    return ()


def upgraded(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Bring the names of a state dict up to date with fairseq 0.12, and leave out what carries no weight.

    Older ones have queries, keys and values in one matrix, number their norms, call encoders of masked language models
    decoders, and output matrices ``embed_out``.
    """
    masked = any(".sentence_encoder." in name for name in tensors)
    result: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if masked:
            name = re.sub(r"^decoder\.", "encoder.", name)
            name = name.replace("encoder.sentence_encoder.", "encoder.").replace(
                ".emb_layer_norm.", ".layernorm_embedding."
            )
        if NOTHING.fullmatch(name) or not isinstance(tensor, Tensor):
            continue
        name = re.sub(r"^decoder\.embed_out$", "decoder.output_projection.weight", name)
        numbered = re.fullmatch(r"(.+\.)layer_norms\.(\d)(\..+)", name)
        if numbered:
            name = f"{numbered[1]}{_norm(name, int(numbered[2]))}{numbered[3]}"
        fused = re.fullmatch(r"(.+_attn\.)in_proj_(weight|bias)", name)
        if fused:
            for part, value in zip("qkv", torch.chunk(tensor, 3), strict=True):
                result[f"{fused[1]}{part}_proj.{fused[2]}"] = value
        else:
            result[name] = tensor
    return result


def _norm(name: str, number: int) -> str:
    """Return the name of a layer's norm that had only a number."""
    encoder = ("self_attn_layer_norm", "final_layer_norm")
    decoder = ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm")
    return (decoder if name.startswith("decoder.") else encoder)[number]


def layers_of(tensors: Mapping[str, Tensor], side: str) -> int:
    """Count the layers of "encoder" or "decoder"."""
    matches = (re.match(rf"{side}\.layers\.(\d+)\.", name) for name in tensors)
    return 1 + max((int(match[1]) for match in matches if match), default=-1)
