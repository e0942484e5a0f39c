"""Backward passes in Python, for tensors on a device that is not there.

torch's engine starts a thread for each device and asks the device for its streams. Here the same nodes are called one
after the other: those that were made last come first, each as soon as all gradients that it needs are there. What the
engine does between nodes is done too: gradients that meet are added, sums that were broadcast are reduced, hooks are
called, and those of parameters are kept without a copy if they are laid out as these.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx
from torch.autograd.graph import GradientEdge

_ENGINE = torch.autograd.graph._engine_run_backward
_APPLY = Function.apply
_MATERIALIZE = FunctionCtx.set_materialize_grads
_HOOK = Tensor.register_hook
_passes = itertools.count(2**40)  # numbers that torch's engine does not come to


@contextmanager
def backward_in_python(wanted: Callable[[Tensor], bool]) -> Iterator[None]:
    """Let backward passes that begin at wanted tensors be done here; others are torch's."""

    def run(outputs: Sequence[Tensor | GradientEdge], *args: Any, **kwargs: Any) -> Any:
        if isinstance(outputs[0], Tensor) and wanted(outputs[0]):
            return _run(outputs, *args, **kwargs)
        return _ENGINE(outputs, *args, **kwargs)

    with (
        patch.object(torch.autograd.graph, "_engine_run_backward", run),
        patch.object(torch.autograd, "_engine_run_backward", run),
        patch.object(Function, "apply", classmethod(_apply)),
        patch.object(Tensor, "register_hook", _register),
        patch.object(FunctionCtx, "set_materialize_grads", _materialize),
    ):
        yield


def _apply(cls: type[Function], *args: Any, **kwargs: Any) -> Any:
    """Apply a function written in Python, and note which of its arguments are tensors: they alone have gradients."""
    found = _APPLY.__func__(cls, *args, **kwargs)  # type: ignore[attr-defined]
    for output in found if isinstance(found, tuple) else (found,):
        if isinstance(output, Tensor) and output.grad_fn is not None:
            output.grad_fn.metadata["tensors"] = [isinstance(x, Tensor) for x in args]
    return found


def _materialize(ctx: Any, value: bool) -> None:
    """Note whether a function wants zeros for gradients that are not there, which torch does not tell."""
    ctx.metadata["zeros"] = value
    _MATERIALIZE(ctx, value)


def _register(tensor: Tensor, hook: Callable[[Tensor], Tensor | None]) -> Any:
    """Register a hook where nodes are called from here too; parameters keep theirs themselves."""
    if tensor.grad_fn is not None:
        tensor.grad_fn.metadata.setdefault("hooks", []).append((tensor.output_nr, hook))
    return _HOOK(tensor, hook)


def _run(
    outputs: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    keep_graph: bool,
    create_graph: bool,
    inputs: Sequence[Tensor] | None = None,
    allow_unreachable: bool = True,
    accumulate_grad: bool = True,
) -> tuple[Tensor | None, ...]:
    """Do a backward pass; the arguments are those of torch's engine."""
    begun = next(_passes)
    wanted = {_edge(x): number for number, x in enumerate(inputs or ())}
    caught: list[Tensor | None] = [None] * len(wanted)
    roots = [_edge(output) for output in outputs]
    missing, before = _consumers([node for node, _ in roots], {node for node, _ in wanted})
    buffers: dict[Any, list[Tensor | None]] = {}
    ready: list[tuple[int, int, Any]] = []
    order = itertools.count()

    def push(node: Any) -> None:
        number = -(2**63) if _is_leaf(node) else -node._sequence_nr()
        heapq.heappush(ready, (number, next(order), node))

    with patch.object(torch._C, "_current_graph_task_id", lambda: begun), torch.set_grad_enabled(create_graph):
        for (node, place), gradient in zip(roots, gradients, strict=True):
            _add(buffers, node, place, gradient)
        for node in dict.fromkeys(node for node, _ in roots):
            if not missing[node]:
                push(node)
        while ready:
            *_, node = heapq.heappop(ready)
            received = _hooked(node, buffers.pop(node))
            for place, gradient in enumerate(received):
                if (node, place) in wanted:
                    caught[wanted[node, place]] = gradient
            if _is_leaf(node):
                if accumulate_grad and received[0] is not None and (not inputs or (node, 0) in wanted):
                    _keep(node.variable, received[0])
                continue
            if inputs and node not in before:
                continue
            for (following, place), gradient in zip(node.next_functions, _called(node, received), strict=True):
                if following is None:
                    continue
                _add(buffers, following, place, gradient)
                missing[following] -= 1
                if not missing[following]:
                    push(following)
    return tuple(caught)


def _is_leaf(node: Any) -> bool:
    return hasattr(node, "variable")


def _edge(tensor: Tensor) -> tuple[Any, int]:
    edge = torch.autograd.graph.get_gradient_edge(tensor)
    return edge.node, edge.output_nr


def _consumers(roots: list[Any], wanted: set[Any]) -> tuple[Counter[Any], set[Any]]:
    """Return how many gradients each node waits for, and the nodes whose gradients those of wanted ones are made of."""
    missing: Counter[Any] = Counter()
    behind: dict[Any, list[Any]] = {}
    seen, left = set(roots), list(roots)
    while left:
        node = left.pop()
        for following, _ in node.next_functions:
            if following is not None:
                missing[following] += 1
                behind.setdefault(following, []).append(node)
                if following not in seen:
                    seen.add(following)
                    left.append(following)
    before: set[Any] = set()
    left = [node for one in wanted for node in behind.get(one, [])]
    while left:
        node = left.pop()
        if node not in before:
            before.add(node)
            left += behind.get(node, [])
    return missing, before


def _add(buffers: dict[Any, list[Tensor | None]], node: Any, place: int, gradient: Tensor | None) -> None:
    """Add a gradient to those that a node has, in the shape and type of what it belongs to."""
    about = node._input_metadata
    buffer = buffers.setdefault(node, [None] * len(about))
    if gradient is None:
        return
    if tuple(gradient.shape) != tuple(about[place].shape):
        gradient = gradient.sum_to_size(about[place].shape)
    if gradient.dtype != about[place].dtype:
        gradient = gradient.to(about[place].dtype)
    there = buffer[place]
    buffer[place] = gradient if there is None else there + gradient


def _hooked(node: Any, gradients: list[Tensor | None]) -> list[Tensor | None]:
    """Return gradients as hooks have changed them."""
    if _is_leaf(node):
        hooks = [(0, hook) for hook in (node.variable._backward_hooks or {}).values()]
    else:
        hooks = node.metadata.get("hooks", [])
    for place, hook in hooks:
        if gradients[place] is not None:
            changed = hook(gradients[place])
            gradients[place] = gradients[place] if changed is None else changed
    return gradients


def _called(node: Any, gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
    """Return the gradients of what a node was made of."""
    tensors = node.metadata.get("tensors")
    if tensors is None:
        found = node(*gradients)
        return found if isinstance(found, tuple) else (found,)
    if node.metadata.get("zeros", True):
        about = node._input_metadata
        gradients = [
            torch.zeros(about[place].shape, dtype=about[place].dtype, device=about[place].device) if x is None else x
            for place, x in enumerate(gradients)
        ]
    found = node.apply(*gradients)
    found = found if isinstance(found, tuple) else (found,)
    return [x for x, tensor in zip(found, tensors, strict=True) if tensor]


def _keep(parameter: Tensor, gradient: Tensor) -> None:
    """Add to the gradient of a parameter, or make it that: a copy is made of what is laid out otherwise."""
    gradient = gradient.detach() if not gradient.requires_grad else gradient
    if parameter.grad is not None:
        with torch.no_grad():
            parameter.grad += gradient
        return
    if gradient.stride() != parameter.stride() and parameter.numel() > 0:
        gradient = torch.empty_like(parameter).copy_(gradient)
    parameter.grad = gradient
