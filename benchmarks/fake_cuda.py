"""A CUDA device that is not there: code for a GPU runs on a machine without one, and each operator on it is seen.

    with FakeCuda(values=True) as gpu:
        model.to("cuda")(batch.to("cuda")).backward()

A tensor of this device holds another one, in which everything happens: a real one of the CPU (``values=True``: code may
read numbers, draw masks, stop when it is done), or one without memory ("meta": models of any size, in milliseconds, as
long as no number is asked for). torch believes in the device: autocast, fused optimisers and ``is_cuda`` do what they
do on a GPU. Operators that are handed tensors of both devices are refused as CUDA would refuse them.

torch's engine for backward passes wants a real device; the pass is done by benchmarks/fake_backward.py instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, Self
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from benchmarks import fake_lstm
from benchmarks.fake_backward import backward_in_python
from dragoman.exchange.huggingface.log_mel import slaney_filters
from dragoman.shared.nn.fbank import mel_filters, povey_window

aten = torch.ops.aten
_ATTENTION = aten.scaled_dot_product_attention.default  # is one kernel
_attention = F.scaled_dot_product_attention
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
DEVICE = torch.device("cuda", 0)

#: Operators that may be handed tensors of the CPU beside those of a GPU: copies, and those whose lengths or indices
#: are read on the CPU.
MIXED = {
    aten.copy_.default,
    aten._to_copy.default,
    aten.index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
    aten._pack_padded_sequence.default,
    aten._ctc_loss.Tensor,
    aten._ctc_loss_backward.Tensor,
}
#: Operators that need no device: memory is not pinned, and a tensor of one device is none of the other's.
ANSWERED: dict[Any, Callable[..., Any]] = {
    aten._pin_memory.default: lambda x, *_, **__: x,
    aten.is_pinned.default: lambda *_, **__: False,
    aten._use_cudnn_ctc_loss.Tensor: lambda *_, **__: False,
    aten._use_cudnn_ctc_loss.default: lambda *_, **__: False,
    aten._use_miopen_ctc_loss.Tensor: lambda *_, **__: False,
    aten._use_miopen_ctc_loss.default: lambda *_, **__: False,
    aten._has_compatible_shallow_copy_type.default: lambda one, other: type(one) is type(other),
}
#: Operators that only CUDA has.
OWN: dict[Any, Callable[..., Any]] = {
    aten.addmm.dtype_out: lambda x, a, b, dtype, out: torch.add(x, a.to(dtype) @ b.to(dtype), out=out),
    aten._thnn_fused_lstm_cell.default: fake_lstm.cell,
    aten._thnn_fused_lstm_cell_backward_impl.default: fake_lstm.cell_backward,
}
#: Operators whose result depends on numbers of the device, so that the host waits for it.
WAITING = {
    aten._local_scalar_dense.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten.equal.default,
    aten._unique2.default,
    aten.unique_dim.default,
    aten.unique_consecutive.default,
    aten.repeat_interleave.Tensor,
    aten.bincount.default,
    aten._ctc_loss.Tensor,
}

#: Is told of an operator, what it was given, and what it returned; tensors are those that are held.
Observer = Callable[[OpOverload, Sequence[Any], dict[str, Any], Any], None]


class TwoDevicesError(RuntimeError):
    """An operator was handed tensors of the CPU and of the GPU."""


class UnknownValueError(RuntimeError):
    """A number of a tensor without memory was asked for."""


class OnCuda(Tensor):
    """A tensor on the device that is not there.

    Args:
        held: the tensor in which everything happens.

    """

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> OnCuda:
        """Make one of the same shape."""
        given = {"storage_offset": held.storage_offset(), "dtype": held.dtype, "layout": held.layout}
        made: OnCuda = Tensor._make_wrapper_subclass(
            cls, held.size(), strides=held.stride(), device=DEVICE, requires_grad=False, **given
        )
        made.held = held
        return made

    @property
    def data(self) -> Tensor:
        """Return the same, detached."""
        return Tensor.data.__get__(self)  # type: ignore[attr-defined]

    @data.setter
    def data(self, other: OnCuda) -> None:
        Tensor.data.__set__(self, other)  # type: ignore[attr-defined]
        self.held = other.held

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Refuse what is done after the device has gone."""
        raise RuntimeError(f"{func}: a tensor of the fake device outlived it")

    def __repr__(self, **_: Any) -> str:
        """Say what it is."""
        return f"OnCuda({tuple(self.shape)}, {self.dtype})"


class FakeCuda(ExitStack):
    """The device while it is there.

    Args:
        values: whether its tensors hold numbers.
        observer: is told of each operator on the device.

    """

    def __init__(self, *, values: bool, observer: Observer | None = None) -> None:
        super().__init__()
        self.operators = _Operators(values, observer)

    @property
    def waits(self) -> list[str]:
        """The operators for which the host had to wait, in their order."""
        return self.operators.waits

    def __enter__(self) -> Self:
        """Make torch believe in the device."""
        self.enter_context(believed())
        self.enter_context(backward_in_python(lambda tensor: isinstance(tensor, OnCuda)))
        chosen = by_products if self.operators.values else attention
        self.enter_context(patch.object(F, "scaled_dot_product_attention", chosen))
        self.enter_context(self.operators)
        for kept in (povey_window, mel_filters, slaney_filters):  # by the name of the device, which others have
            kept.cache_clear()
            self.callback(kept.cache_clear)
        return super().__enter__()


class _Operators(TorchDispatchMode):
    """Does all operators, those on the device with the tensors that its tensors hold."""

    def __init__(self, values: bool, observer: Observer | None) -> None:
        super().__init__()
        self.values = values
        self.observer = observer
        self.waits: list[str] = []

    @property
    def place(self) -> str:
        """Where the tensors that are held are."""
        return "cpu" if self.values else "meta"

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Do one operator."""
        kwargs = kwargs or {}
        flat, spec = tree_flatten((args, kwargs))
        tensors = [x for x in flat if isinstance(x, Tensor)]
        here = [x for x in tensors if isinstance(x, OnCuda)]
        wanted = kwargs.get("device")
        to_cuda = wanted is not None and torch.device(wanted).type == "cuda"
        if func in ANSWERED:
            return ANSWERED[func](*args, **kwargs)
        if not here and not to_cuda:
            return func(*args, **kwargs)
        if func is not _ATTENTION and func.has_kernel_for_dispatch_key(_COMPOSITE):  # without gradients, nobody has yet
            with _autocast_again(), self:
                return func._op_dk(_COMPOSITE, *args, **kwargs)
        self._check(func, args, tensors)
        to_host = here and (wanted is not None and not to_cuda)
        if func is aten.copy_.default and not isinstance(args[0], OnCuda):
            to_host = True
        if to_host or func in WAITING or (func in MIXED and _by_mask(args)):
            self.waits.append(str(func))
            if not self.values:
                raise UnknownValueError(f"{func} needs numbers of tensors that have none")
        held = [x.held if isinstance(x, OnCuda) else x for x in flat]
        args, kwargs = tree_unflatten(held, spec)
        kwargs.pop("pin_memory", None)  # for which torch asks the driver
        if to_cuda:
            kwargs = kwargs | {"device": torch.device(self.place)}
        if not self.values:
            args, kwargs = tree_map(_without_memory, (args, kwargs))
        found = OWN.get(func, func)(*args, **kwargs)
        if self.observer is not None:
            self.observer(func, args, kwargs, found)
        if to_host:
            return args[0] if func is aten.copy_.default else found
        owners = {id(x.held): x for x in here}
        if func is aten._pack_padded_sequence.default:
            return OnCuda(found[0]), found[1]  # the number of rows at each step, for the host
        # In inference mode, a view is of the kind of what it shows.
        kind = here[0].is_inference() if func.is_view and here else torch.is_inference_mode_enabled()
        with torch.inference_mode(kind):
            return tree_map(lambda x: _owned(x, owners) if isinstance(x, Tensor) else x, found)

    def _check(self, func: Any, args: Sequence[Any], tensors: list[Tensor]) -> None:
        """Refuse tensors of two devices; numbers in tensors without dimensions may be anywhere."""
        elsewhere = [x for x in tensors if not isinstance(x, OnCuda) and x.device.type == "cpu"]
        if func in MIXED:  # indices may be on the CPU, what is indexed may not
            elsewhere = elsewhere[:1] if func in _INDEXING and not isinstance(args[0], OnCuda) else []
        else:
            elsewhere = [x for x in elsewhere if x.dim()]
        if elsewhere and any(isinstance(x, OnCuda) for x in tensors):
            shapes = ", ".join(f"{tuple(x.shape)} {'cuda' if isinstance(x, OnCuda) else 'cpu'}" for x in tensors)
            raise TwoDevicesError(f"{func} is handed tensors of two devices: {shapes}")


def _autocast_again() -> Any:
    """Return the context in which autocast, which is above what is seen here, casts for what is called from here."""
    keys = torch._C._dispatch_tls_local_exclude_set()
    for key in (torch._C.DispatchKey.AutocastCUDA, torch._C.DispatchKey.AutocastCPU):
        keys = keys.remove(key)
    return torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), keys)


_INDEXING = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default}


def _owned(held: Tensor, owners: dict[int, OnCuda]) -> OnCuda:
    """Return what holds a tensor: that which was given, or a new one."""
    return owners[id(held)] if id(held) in owners else OnCuda(held)


def _by_mask(args: Sequence[Any]) -> bool:
    """Tell whether a tensor is indexed by a mask, whose elements have to be counted."""
    indices = args[1] if len(args) > 1 and isinstance(args[1], list | tuple) else []
    return any(isinstance(x, Tensor) and x.dtype in (torch.bool, torch.uint8) for x in indices)


def _without_memory(x: Any) -> Any:
    return x.to("meta") if isinstance(x, Tensor) and x.device.type != "meta" else x


def by_products(*args: Any, **kwargs: Any) -> Tensor:
    """Attend by products, which have numbers."""
    with sdpa_kernel(SDPBackend.MATH):
        return _attention(*args, **kwargs)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    **_: Any,
) -> Tensor:
    """Attend by the kernel that torch would choose on an H100: torch itself asks the device that is not there.

    That is flash without a mask, the memory-efficient kernel with one, each as torch prepares it.

    cuDNN's kernel comes first where it is allowed (``torch.backends.cuda.enable_cudnn_sdp``), as on Hopper.
    """
    if torch.is_autocast_enabled("cuda"):
        low = torch.get_autocast_dtype("cuda")
        query, key, value = (x.to(low) for x in (query, key, value))
        if attn_mask is not None and attn_mask.dtype != torch.bool:
            attn_mask = attn_mask.to(low)
    half = query.dtype in (torch.bfloat16, torch.float16)
    given = {"scale": scale}
    with torch.autocast("cuda", enabled=False):
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            attn_mask = torch.where(attn_mask, torch.zeros((), dtype=query.dtype, device=query.device), -torch.inf)
        if half and torch.backends.cuda.cudnn_sdp_enabled():
            bias = None if attn_mask is None else attn_mask.expand(*query.shape[:3], key.shape[2])
            return aten._scaled_dot_product_cudnn_attention(
                query, key, value, bias, torch.is_grad_enabled(), dropout_p, is_causal, **given
            )[0]
        if half and attn_mask is None and torch.backends.cuda.flash_sdp_enabled():
            size = query.shape[-1]
            if size % 8:
                query, key, value = (F.pad(x, (0, -size % 8)) for x in (query, key, value))
                given["scale"] = size**-0.5 if scale is None else scale
            found = aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, **given)[0]
            return found[..., :size]
        bias = attn_mask
        if bias is not None:
            length = key.shape[2]
            if length % 16:  # rows of 16 numbers are what the kernel reads
                bias = F.pad(bias, (0, -length % 16))[..., :length]
            bias = bias.expand(*query.shape[:3], length)
        found = aten._scaled_dot_product_efficient_attention(
            query, key, value, bias, torch.is_grad_enabled(), dropout_p, is_causal, **given
        )[0]
    return found


def moving(moved: dict[int, tuple[Tensor, Tensor]]) -> Callable[..., nn.Module]:
    """Return what moves a module between devices, where torch would replace its parameters: tied ones stay one.

    A parameter becomes another in place; one to which there are weak references, as to an LSTM's, cannot, and is
    replaced: ``moved`` holds those, with what has replaced them.
    """

    def apply(module: nn.Module, function: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        for child in module.children() if recurse else ():
            child._apply(function)
        for name, parameter in module._parameters.items():
            if parameter is None:
                continue
            if id(parameter) in moved:
                module._parameters[name] = moved[id(parameter)][1]  # type: ignore[assignment]
                continue
            with torch.no_grad():
                result = function(parameter)
                gradient = None if parameter.grad is None else function(parameter.grad)
            if isinstance(result, OnCuda) is isinstance(parameter, OnCuda):
                parameter.data = result
            else:
                fresh = nn.Parameter(result, parameter.requires_grad)
                try:
                    torch.utils.swap_tensors(parameter, fresh)
                except RuntimeError:
                    moved[id(parameter)] = parameter, fresh
                    module._parameters[name] = parameter = fresh
            parameter.grad = gradient
        for name, buffer in module._buffers.items():
            module._buffers[name] = None if buffer is None else function(buffer)
        return module

    return apply


@contextmanager
def believed() -> Iterator[None]:
    """Let torch and its callers believe that there is a GPU."""
    real = torch.cuda.is_available()
    torch._C._ensureCUDADeviceGuardSet()  # nothing, where there is a GPU
    before = torch._C._only_lift_cpu_tensors()
    kept = torch.get_rng_state
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda *_: None,
        "is_bf16_supported": lambda including_emulation=True: True,
        "get_device_name": lambda *_: "a GPU that is not there",
        "get_device_capability": lambda *_: (9, 0),
        "get_device_properties": lambda *_: SimpleNamespace(total_memory=2**36),
        "is_current_stream_capturing": lambda: False,
        "synchronize": lambda *_: None,
        "get_rng_state": lambda *_: kept(),
        "set_rng_state": lambda *_: None,
        "get_rng_state_all": lambda: [kept()],
        "manual_seed_all": lambda *_: None,
        "mem_get_info": lambda *_: (2**36, 2**36),
        "memory_reserved": lambda *_: 0,
        "memory_allocated": lambda *_: 0,
        "max_memory_reserved": lambda *_: 0,
        "reset_peak_memory_stats": lambda *_: None,
        "empty_cache": lambda: None,
        "_lazy_init": lambda: None,
    }
    with ExitStack() as stack:
        if not real:
            for name, answer in answers.items():
                stack.enter_context(patch.object(torch.cuda, name, answer))
        for module in (torch.nn.utils.clip_grad, torch.utils._foreach_utils):
            stack.enter_context(patch.object(module, "_has_foreach_support", lambda *_: True))
        listed = Tensor.tolist
        told = lambda x: listed(x.cpu() if isinstance(x, OnCuda) else x)  # noqa: E731
        stack.enter_context(patch.object(Tensor, "tolist", told))
        stack.enter_context(torch.backends.cudnn.flags(enabled=False))  # its recurrent layers want addresses
        stack.enter_context(patch.object(nn.Module, "_apply", moving({})))
        torch._C._set_only_lift_cpu_tensors(True)
        try:
            yield
        finally:
            torch._C._set_only_lift_cpu_tensors(before)
