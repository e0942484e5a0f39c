"""The cost of one operator of torch on a GPU: kernels that it launches, bytes that they move, operations that they do.

Kernels are those of torch's own CUDA code for the operator. Most operators are one kernel; the table below has those
that are more. Bytes are what must be read and written if no cache holds anything from one kernel to the next: elements
that a tensor repeats (``expand``) count once, rows of a table that nobody looks up do not count. Operations are those
that torch.utils.flop_counter knows: products, convolutions and attention.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

aten = torch.ops.aten

#: Kernels over many tensors take this many chunks a launch, of this many elements, and by the number of lists that go
#: together this many tensors (torch's MultiTensorApply.cuh).
CHUNK, CHUNKS, TENSORS = 65536, 320, {1: 110, 2: 64, 3: 48, 4: 36, 5: 30}
#: Up to this many tokens, the gradient of an embedding is one kernel; with more, they are sorted first.
FEW_TOKENS, SORTED = 3072, 8
#: Tensors that one kernel joins.
JOINED = 128

#: Operators that only describe memory.
FREE = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view", "_reshape_alias",
    "detach", "alias", "lift_fresh", "lift", "resize_", "set_", "sym_size", "sym_stride", "device", "is_pinned",
    "_pin_memory", "record_stream",
}  # fmt: skip
#: Operators that do not read what they write over.
OVERWRITING = {
    "copy_",
    "_foreach_copy_",
    "fill_",
    "zero_",
    "normal_",
    "uniform_",
    "random_",
    "bernoulli_",
    "exponential_",
}
#: Kernels of operators that are more than one, forward and backward passes of attention among them.
SEVERAL = {
    "_scaled_dot_product_flash_attention_backward": 3,
    "_scaled_dot_product_efficient_attention_backward": 2,
    "_scaled_dot_product_cudnn_attention_backward": 3,
    "native_layer_norm_backward": 2,
    "_fused_rms_norm_backward": 2,
    "native_batch_norm_backward": 2,
    "native_group_norm": 2,
    "native_group_norm_backward": 3,
    "topk": 2,
    "sort": 4,
    "nonzero": 3,
    "masked_select": 4,
    "masked_scatter_": 2,
    "_unique2": 6,
    "unique_consecutive": 6,
    "index_put_": 1,
    "_ctc_loss": 2,
    "_ctc_loss_backward": 3,
    "multinomial": 3,
    "_fft_r2c": 1,
}

GROUPS = {
    "products": {"mm", "addmm", "bmm", "baddbmm", "addmv", "mv", "dot", "addbmm", "_scaled_mm"},
    "convolutions": {"convolution", "convolution_backward", "cudnn_convolution"},
    "copies": {"clone", "cat", "stack", "constant_pad_nd", "repeat", "roll", "flip", "copy_", "_to_copy"},
    "normalisation": {
        "native_layer_norm", "native_layer_norm_backward", "_fused_rms_norm", "_fused_rms_norm_backward",
        "native_group_norm", "native_group_norm_backward", "native_batch_norm", "native_batch_norm_backward",
    },
    "dropout": {"native_dropout", "native_dropout_backward", "bernoulli_", "bernoulli"},
    "sums": {"sum", "mean", "amax", "amin", "max", "min", "logsumexp", "any", "all", "linalg_vector_norm", "argmax"},
    "softmax": {"_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data", "_safe_softmax"},
    "look-ups": {
        "embedding", "embedding_dense_backward", "index_select", "gather", "scatter_add_", "scatter", "scatter_",
        "index_add_", "index", "index_put_", "index_put", "_index_put_impl_", "index_copy_", "scatter_add",
    },
    "fills": {
        "zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "fill_",
        "zero_", "arange", "scalar_tensor", "eye", "linspace",
    },
    "ordering": {"topk", "sort", "cumsum", "nonzero", "masked_select", "_unique2", "unique_consecutive"},
}  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """The cost of an operator.

    Attributes:
        group: what kind of operator it is.
        launches: kernels, and copies between host and device.
        bytes: read and written.
        flop: floating point operations of products.
        low: whether these multiply numbers of 16 bits.

    """

    group: str
    launches: int = 0
    bytes: int = 0
    flop: int = 0
    low: bool = False


def cost(func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], found: Any) -> Cost:
    """Return the cost of an operator, of what it was given and what it returned: any tensors of these shapes."""
    name = func._schema.name.partition("::")[2]
    group = group_of(name, args, found)
    outputs = [x for x in tree_leaves(found) if isinstance(x, Tensor)]
    given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
    if name in FREE or func.is_view or not any(x.numel() for x in outputs + given):
        return Cost(group)
    flop = flop_registry.get(func._overloadpacket)
    multiplied = args[:3] if name == "addmm" else args  # a type may stand behind
    low = any(x.dtype in (torch.bfloat16, torch.float16) for x in given)
    return Cost(
        group,
        launches(name, args, kwargs, outputs),
        moved(name, func, args, kwargs, outputs),
        0 if flop is None else int(flop(*multiplied, **kwargs, out_val=found)),
        low,
    )


def group_of(name: str, args: Sequence[Any], found: Any) -> str:
    """Return the group of an operator."""
    if "attention" in name:
        return "attention"
    if name in ("_to_copy", "copy_"):
        result = args[0] if name == "copy_" else found
        origin = args[1] if name == "copy_" else args[0]
        return "casts" if result.dtype != origin.dtype else "copies"
    if name == "_foreach_copy_":
        return "casts together" if args[0][0].dtype != args[1][0].dtype else "copies"
    if name.startswith("_foreach"):
        return "many tensors at once"
    if name.startswith("_fused_adam"):
        return "optimiser"
    return next((group for group, names in GROUPS.items() if name in names), "element by element")


def launches(name: str, args: Sequence[Any], kwargs: dict[str, Any], outputs: list[Tensor]) -> int:
    """Return the number of kernels."""
    if name == "convolution":
        return 1 + (args[2] is not None)  # the bias is added to the result
    if name == "convolution_backward":
        return sum(args[10])
    if name == "embedding_dense_backward":
        return 1 if args[1].numel() <= FEW_TOKENS else SORTED
    if name in ("index_put_", "index_put", "_index_put_impl_") and (args[3] if len(args) > 3 else False):
        return SORTED
    if name == "cat":
        return ceil(len(args[0]) / JOINED)
    if name == "_foreach_norm":
        return over_many(args[0], 1) + 2  # results are set to zero before, and added up behind
    if name.startswith("_foreach") or name.startswith("_fused_adam"):
        lists = [x for x in args if isinstance(x, list | tuple) and x and isinstance(x[0], Tensor) and x[0].dim()]
        fused = name.startswith("_fused_adam")
        return over_many(args[0], 4 if fused else len(lists) or 1)
    if name == "scaled_dot_product_attention":  # in a search: a mask is made what is added to scores, in full rows
        mask = args[3] if len(args) > 3 else kwargs.get("attn_mask")
        return 1 if mask is None else 1 + 2 * (mask.dtype == torch.bool) + (mask.shape[-1] % 16 > 0)
    return SEVERAL.get(name, 1)


def over_many(tensors: Sequence[Tensor], lists: int) -> int:
    """Return the launches of a kernel that goes over many tensors, as torch packs them."""
    done = there = chunks = 0
    for tensor in tensors:
        there += 1
        left = max(1, ceil(tensor.numel() / CHUNK)) if tensor.numel() else 0
        while left:
            taken = min(left, CHUNKS - chunks)
            left, chunks = left - taken, chunks + taken
            if chunks == CHUNKS or (not left and there == TENSORS[min(5, lists)]):
                done, chunks, there = done + 1, 0, int(left > 0)
    return done + (chunks > 0)


def moved(name: str, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], outputs: list[Tensor]) -> int:
    """Return the bytes that are read and written."""
    if name in ("embedding", "index_select", "gather", "index"):
        whole = tree_leaves((args[1:], kwargs))
        return sum(map(size, outputs)) * 2 + sum(size(x) for x in whole if isinstance(x, Tensor))
    if name in ("scatter_add_", "index_add_", "scatter_", "index_copy_", "index_put_", "_index_put_impl_"):
        source = [x for x in tree_leaves(args[1:]) if isinstance(x, Tensor)]
        values = max(source, key=size, default=None)
        return sum(map(size, source)) + (2 * size(values) if values is not None else 0)
    if name.startswith("new_") or name.endswith("_like"):  # what they are given is a shape
        return sum(map(size, outputs))
    total = 0
    seen: set[int] = set()
    for tensor, read, written in accesses(name, func, args, kwargs):
        if id(tensor) not in seen:
            seen.add(id(tensor))
            total += size(tensor) * (read + written)
    return total + sum(size(x) for x in outputs if id(x) not in seen)


def accesses(
    name: str, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> Iterator[tuple[Tensor, bool, bool]]:
    """Yield the tensors that an operator is given, with whether each is read, and whether it is written."""
    for number, argument in enumerate(func._schema.arguments):
        value = args[number] if number < len(args) else kwargs.get(argument.name)
        written = argument.alias_info is not None and argument.alias_info.is_write
        read = not written or not (argument.is_out or name in OVERWRITING)
        if name.startswith("_fused_adam") and argument.name == "grads":
            written = kwargs.get("grad_scale") is not None  # what was divided is left behind
        for tensor in tree_leaves(value):
            if isinstance(tensor, Tensor):
                yield tensor, read, written


def size(tensor: Tensor) -> int:
    """Return the bytes of a tensor's elements, repeated ones once."""
    elements = tensor.element_size()
    for length, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements *= length if stride else min(length, 1)
    return elements
