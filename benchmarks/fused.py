"""The kernels that torch.compile makes of a function on a GPU: what inductor's scheduler fuses, without a GPU.

The forward and backward pass are traced together on fake tensors, divided as inductor divides them, lowered, and given
to its scheduler, for tensors of fixed sizes. No code is made of it. Products and attention stay torch's own kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch import Tensor
from torch._dynamo.device_interface import CudaInterface
from torch._functorch.aot_autograd import aot_function
from torch._inductor.debug import DebugContext
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes.post_grad import post_grad_passes
from torch._inductor.fx_passes.replace_random import replace_random_passes
from torch._inductor.graph import GraphLowering
from torch._inductor.ir import MultiOutput
from torch._inductor.scheduler import ExternKernelSchedulerNode, NopKernelSchedulerNode, Scheduler
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode, init_gpu_context
from torch.nn import functional as F

from benchmarks.fake_backward import backward_in_python
from benchmarks.fake_cuda import DEVICE, attention, believed
from benchmarks.operators import SEVERAL

#: What inductor asks of an H100.
H100 = SimpleNamespace(
    name="H100", major=9, minor=0, multi_processor_count=132, total_memory=80 * 2**30, warp_size=32,
    regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, max_threads_per_block=1024,
    shared_memory_per_block=49152, shared_memory_per_block_optin=232448, shared_memory_per_multiprocessor=233472,
    L2_cache_size=50 * 2**20, gcnArchName="",
)  # fmt: skip


class _Tensors(FakeTensorMode):
    """Fake tensors that begin no CUDA context, whatever torch believes."""

    avoid_device_init = True


class Kernels:
    """The kernels of a forward and a backward pass.

    Attributes:
        fused: launches of kernels that the compiler makes, and the bytes that they read and write.
        own: launches of torch's own kernels, and their bytes.

    """

    def __init__(self) -> None:
        self.fused = [0, 0]
        self.own = [0, 0]

    def add(self, scheduler: Scheduler) -> None:
        """Add what a scheduler has found."""
        for node in scheduler.nodes:
            if isinstance(node, NopKernelSchedulerNode):
                continue
            if not isinstance(node, ExternKernelSchedulerNode):
                there, launches = self.fused, 1
            elif isinstance(node.node, MultiOutput):
                continue  # one of the results of another
            else:
                names = str(getattr(node.node, "python_kernel_name", "")).split(".")
                there, launches = self.own, next((SEVERAL[name] for name in names if name in SEVERAL), 1)
            there[0] += launches
            there[1] += node.get_read_write_buffers_sizes()


def kernels(function: Callable[..., Any], *given: Any) -> Kernels:
    """Return the kernels of a function and, if an input learns, of its backward pass.

    Args:
        function: of tensors; what it returns is one tensor, or a tuple of which the first is differentiated.
        given: shape, type and whether it learns, of each tensor.

    """
    found = Kernels()
    for device in (torch.device("cuda"), DEVICE):
        init_gpu_context(device)  # remembers that it has been asked, while there is no GPU
    with ExitStack() as stack:
        for context in (
            believed(),
            patch.object(F, "scaled_dot_product_attention", attention),
            backward_in_python(lambda tensor: tensor.device.type == "cuda"),
            patch.object(torch.cuda, "get_device_properties", lambda *_: H100),
            patch.object(CudaInterface.Worker, "get_device_properties", staticmethod(lambda *_: H100)),
            patch("torch._inductor.runtime.hints.DeviceProperties.create", lambda *_: H100),
            patch("torch._inductor.scheduler.has_triton", lambda: True),  # what is known of this machine stays
            mode := _Tensors(),
        ):
            stack.enter_context(context)

        def lowered(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
            with V.set_fake_mode(mode), V.set_debug_handler(DebugContext()):
                post_grad_passes(graph, is_inference=False)
                lowering = GraphLowering(graph, example_inputs=inputs)
                with V.set_graph_handler(lowering):
                    lowering.run(*inputs)
                    found.add(Scheduler(lowering.operations))
            return make_boxed_func(graph.forward)

        def divided(graph: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
            with V.set_fake_mode(mode):
                replace_random_passes(graph)
            return min_cut_rematerialization_partition(graph, inputs, compiler="inductor", **options)

        tensors = [_made(*one) for one in given]
        compiled = aot_function(
            function,
            fw_compiler=lowered,
            bw_compiler=lowered,
            partition_fn=divided,
            decompositions=select_decomp_table(),
        )
        result = compiled(*tensors)
        first = result[0] if isinstance(result, list | tuple) else result
        if first.requires_grad:
            first.backward(torch.empty_like(first))
    return found


def _made(shape: tuple[int, ...], dtype: torch.dtype, learns: bool) -> Tensor:
    return torch.empty(shape, dtype=dtype, device=DEVICE, requires_grad=learns)
