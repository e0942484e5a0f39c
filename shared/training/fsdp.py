"""Parameters, gradients and moments that are divided among processes (Rajbhandari et al. 2020, "ZeRO", stage 3).

torch does it (``fully_shard``): each layer is a unit, and all else together is one, tied embeddings among it. A unit's
parameters are gathered before it computes and let go afterwards; its gradient is summed where each share of it lives.
What does not learn stays whole in every process, and so do single numbers. Shares are those of the rows of a parameter,
as even as can be.

With "hybrid", the processes of each machine divide all among them: only gradients travel between machines.

The optimiser sees its own shares as plain tensors, and steps on them as it would on whole ones. A checkpoint holds
parameters and moments as each process has written its share: a run goes on divided or not, whichever way it began.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.export import register_dataclass

from dragoman.shared.errors import UsageError
from dragoman.shared.machine.device import Machine
from dragoman.shared.machine.processes import gather
from dragoman.shared.nn.layer import EncoderLayer
from dragoman.shared.objectives.objective import Loss, Term

# torch looks for tensors in what an objective returns: their gradients are the first of a backward pass.
register_dataclass(Term)
register_dataclass(Loss)


class Shards:
    """An objective whose parameters are divided among the processes.

    Args:
        objective: on the CPU, or already where it computes; divided in place, unit by unit, each of which is moved
            there whole before this process keeps its rows. Its modules keep their names.
        optimizer: of its parameters, without moments; given the shares of this process in place.
        machine: several processes.

    Raises:
        UsageError: if processes would not compute the same layers, the moments cannot be divided, or machines do not
            have equally many processes.
    """

    def __init__(self, objective: nn.Module, optimizer: torch.optim.Optimizer, machine: Machine) -> None:
        check_sharding(objective, optimizer, machine)
        self._machine = machine
        on_gpu = machine.device.startswith("cuda")
        self.share = share_of(machine)
        sizes = (copies := machine.world // self.share[1]), self.share[1]
        mesh = init_device_mesh("cuda" if on_gpu else "cpu", sizes, mesh_dim_names=("copies", "shares"))
        self._group = mesh["shares"].get_group()
        self._checked: set[str] = set()
        self.objective = objective
        names = {id(one): name for name, one in objective.named_parameters()}
        learning = [name for name, one in objective.named_parameters() if one.requires_grad and one.ndim]
        chosen = [[names[id(one)] for one in group["params"]] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["params"] = []  # which would hold each whole parameter until all are divided
        self._numbers = [one for one in objective.parameters() if one.requires_grad and not one.ndim]
        undivided = {one for one in objective.parameters() if not one.requires_grad or not one.ndim}
        options: dict[str, Any] = {
            "mesh": mesh if copies > 1 else mesh["shares"],
            "ignored_params": undivided,
            "mp_policy": MixedPrecisionPolicy(
                param_dtype=machine.autocast_dtype if on_gpu else None,
                reduce_dtype=torch.float32,
                cast_forward_inputs=False,
            ),
        }
        for module in objective.modules():
            if isinstance(module, EncoderLayer) and any(one.requires_grad for one in module.parameters()):
                fully_shard(module, **options)
        self._root = fully_shard(objective, **options)
        self._root._get_fsdp_state()._lazy_init()  # or an objective that prepares batches would be held whole before
        for one in undivided:
            one.data = one.data.to(machine.device)
        found = dict(objective.named_parameters())
        parameters = [cast(DTensor, found[name]) for name in learning]
        local = [cast(DTensor, one.detach()).to_local() for one in parameters]  # in the same memory
        self._pairs = [(one, nn.Parameter(share)) for one, share in zip(parameters, local, strict=True)]
        shares = found | {name: share for name, (_, share) in zip(learning, self._pairs, strict=True)}
        for group, own in zip(optimizer.param_groups, chosen, strict=True):
            group["params"] = [shares[name] for name in own]

    def check(self, total: Tensor, stream: str) -> None:
        """Refuse an objective of which processes need different parts: they would wait for each other's gradients.

        Only the first batch of each stream is looked at: all processes have the same stream at a time.

        Args:
            total: the loss, before its backward pass.
            stream: of the batch.

        Raises:
            UsageError: naming the stream.
        """
        if stream not in self._checked:
            self._checked.add(stream)
            if len({tuple(shapes) for shapes in gather(_needed(total), self._machine)}) > 1:
                raise UsageError(f"sharding: processes need different parameters for a batch of stream {stream!r}")

    def take_gradients(self) -> None:
        """Give the optimiser's shares their gradients."""
        for parameter, share in self._pairs:
            share.grad = None if parameter.grad is None else cast(DTensor, parameter.grad).to_local()
            parameter.grad = None
        for number in self._numbers:
            if number.grad is not None:
                dist.all_reduce(number.grad, dist.ReduceOp.SUM)
                number.grad /= self._machine.world

    def norm(self, of_share: Tensor) -> Tensor:
        """Return the norm of what all processes have, a scalar, given that of this one's."""
        squares = of_share.float() ** 2
        if self.share[0]:  # single numbers count once
            squares = squares - sum(one.grad**2 for one in self._numbers if one.grad is not None)
        dist.all_reduce(squares, group=self._group)
        return squares.sqrt()

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Hold all parameters in every process, for work in which processes do not keep step, such as a search."""
        units = [module for module in self.objective.modules() if isinstance(module, FSDPModule)]
        self._root.set_reshard_after_forward(False)
        for unit in units:
            unit.unshard()
        try:
            yield
        finally:
            for unit in units:
                unit.set_reshard_after_forward(unit is not self._root, recurse=False)
                unit.reshard()
                # What was computed meanwhile, in each process as much as it had to, would be gathered in advance by the
                # next backward pass: by some processes and not by others, which wait for ever.
                if (group := unit._get_fsdp_state()._fsdp_param_group) is not None:
                    group._post_forward_indices.clear()
                    group.comm_ctx.post_forward_order.clear()

    def rows(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return this process's rows of those tensors of the objective that are divided."""
        divided = {name: one.detach() for name, one in state.items() if isinstance(one, DTensor)}
        return {name: cast(DTensor, one).to_local() for name, one in divided.items()}


def _needed(total: Tensor) -> list[str]:
    """Return the shapes of the parameters that a loss depends on."""
    seen, waiting, found = set[Any](), [total.grad_fn], []
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        found += [str(tuple(node.variable.shape))] if hasattr(node, "variable") else []
        waiting += [one for one, _ in node.next_functions]
    return sorted(found)


def share_of(machine: Machine) -> tuple[int, int]:
    """Return which share of the parameters a process has, and how many shares there are.

    Raises:
        UsageError: for "hybrid", if machines do not have equally many processes, or one each.
    """
    count = machine.world
    if machine.sharding == "hybrid":
        local = sorted(set(gather(int(os.environ.get("LOCAL_WORLD_SIZE", count)), machine)))
        if len(local) > 1 or local[0] == 1 or count % local[0]:
            said = " and ".join(map(str, local))
            raise UsageError(f"sharding: hybrid needs equally many processes on each machine, 2 or more, not {said}")
        count = local[0]
    return machine.rank % count, count


def check_sharding(objective: nn.Module, optimizer: torch.optim.Optimizer, machine: Machine) -> None:
    """Refuse what cannot be divided.

    Raises:
        UsageError: for layers that are left out by chance, which each process would draw for itself; for 8-bit moments,
            whose scales belong to blocks of whole tensors; for fp16, whose scale each process would choose for itself.
    """
    if any(getattr(module, "layer_drop", 0) for module in objective.modules()):
        raise UsageError("sharding: all processes have to compute the same layers: layer_drop must be 0")
    if not isinstance(optimizer, torch.optim.AdamW):
        raise UsageError(f"sharding: the moments of {type(optimizer).__name__} cannot be divided: take Adam")
    if machine.precision == "fp16":
        raise UsageError("sharding: is for bf16 and fp32, not for fp16")
