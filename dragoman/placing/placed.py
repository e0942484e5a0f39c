"""Models that are larger than a device: layers on several devices, in the host's memory, or in the model's folder.

Where a layer stands elsewhere, one copy of it at a time comes to the device that computes, for as long as it computes
there. What is no layer (embeddings, projections, heads) always stands there. Importing this needs accelerate.
"""

from __future__ import annotations

import threading
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from accelerate.hooks import AlignDevicesHook
from accelerate.utils import PrefixedDataset, find_device, send_to_device, set_module_tensor_to_device
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.memory import in_units, refuse_over
from dragoman.shared.nn.linear import Stored, store_for_search
from dragoman.shared.nn.transformer import Stack
from dragoman.shared.nn.weights import Undrawn, WeightsFile
from dragoman.shared.systems.model_folder import CONFIG, WEIGHTS, model_folder
from dragoman.shared.systems.saved_model import SavedModel

#: Where a layer stands that no device has room for: it is read from the folder each time.
FOLDER = "folder"
#: By which a layer is called: a decoder's layers project memories before they are called themselves.
CALLED = ("forward", "remember")
#: Arguments of the library transformers that belong to no device: what they hold stands where it was made.
CACHES = ["past_key_values"]
AnyModel = TypeVar("AnyModel", bound=SavedModel)


def load_placed(
    cls: type[AnyModel], folder: Path, budgets: Mapping[str, int], home: str, dtype: torch.dtype | None = None
) -> AnyModel:
    """Load a model folder for searches, its layers where there is room for them.

    Nothing is read that stays in the folder, and of the rest one tensor at a time.

    Args:
        cls: a System, or what else a folder may hold.
        folder: of the model.
        budgets: bytes of weights that each device may hold (:func:`plan`).
        home: the device that computes; layers that stand on another card compute there.
        dtype: that of the autocast under which the search will run, None without.

    Raises:
        DataError: as :meth:`SavedModel.load`.
        UsageError: if the device that computes has no room for what must stand there.
    """
    folder = model_folder(folder)
    header = cls.planned(folder)[1]
    with without_values(), Undrawn():
        system = cls.from_description(folder).eval()
    for name, value in system.state_dict(keep_vars=True).items():
        if value.is_meta and value.is_floating_point():
            value.data = torch.empty_like(value, dtype=header[name].dtype)
    store_for_search(system, dtype)
    layers = layers_of(system)
    places = plan(
        {name: size_of_all([layer]) for name, layer in layers.items()}, rest_of(system, layers), budgets, home
    )
    for device in budgets:
        taken = [layers[name] for name, place in places.items() if place == device]
        needed = size_of_all(taken) + (rest_of(system, layers) if device == home else 0)
        refuse_over(needed, f"{folder / CONFIG}: what memory gives {device} of the model", device, error=DataError)
    index = {name: place for layer, place in places.items() for name in names_below(system, layers[layer])}
    host: dict[str, Tensor] = {}
    file = WeightsFile(folder / WEIGHTS)
    _fill(system, file, index, host, home)
    for name, part in system.named_modules():
        if isinstance(part, Stored) and not any(name.startswith(f"{layer}.") for layer in layers):
            part.store_for_search(dtype)  # what it has made of its matrix before, it made without values
    weights = ChainMap(host, cast(dict[str, Tensor], file))
    for name, layer in layers.items():
        if places[name] != home:
            stays = places[name] not in ("cpu", FOLDER)
            _Place(layer, places[name] if stays else home, None if stays else PrefixedDataset(weights, f"{name}."))
    system.home = torch.device(home)
    return system


def plan(layers: Mapping[str, int], rest: int, budgets: Mapping[str, int], home: str) -> dict[str, str]:
    """Return the device of each layer, by name; FOLDER where none has room.

    The device that computes keeps room for the largest layer that comes and goes. The last layers are placed first: a
    decoder's are called for each token, an encoder's once.

    Args:
        layers: bytes by name, in the model's order.
        rest: bytes of what is no layer.
        budgets: bytes by device; other cards than ``home`` in their order, the host's memory ("cpu") at last.
        home: the device that computes.

    Raises:
        UsageError: if it is none of them, or has no room for ``rest`` and a layer.
    """
    if home not in budgets:
        raise UsageError(f"memory: names {', '.join(budgets)}, and not {home}, on which the model computes")
    others = [device for device in budgets if device not in (home, "cpu")]
    order = [home, *others, *(["cpu"] if "cpu" in budgets and home != "cpu" else [])]
    places = _filled(layers, order, dict(budgets) | {home: budgets[home] - rest})
    coming = max(layers.values(), default=0) if {*places.values()} & {"cpu", FOLDER} - {home} else 0
    if rest + coming > budgets[home]:
        raise UsageError(
            f"memory: {home} has {in_units(budgets[home])}, and needs {in_units(rest + coming)} in any case: "
            f"{in_units(rest)} for what is no layer, {in_units(coming)} for a layer that comes and goes"
        )
    return places if not coming else _filled(layers, order, dict(budgets) | {home: budgets[home] - rest - coming})


def _filled(layers: Mapping[str, int], order: list[str], left: dict[str, int]) -> dict[str, str]:
    places: dict[str, str] = {}
    for name in reversed([*layers]):
        place = next((device for device in order if left[device] >= layers[name]), FOLDER)
        places[name] = place
        if place != FOLDER:
            left[place] -= layers[name]
    return {name: places[name] for name in layers}


def layers_of(model: nn.Module) -> dict[str, nn.Module]:
    """Return the layers of a model by name: of its stacks, and what the library transformers says is not divided.

    A layer that shares a parameter with anything else, or has parts that are read in other ways than by calls of the
    layer (``read_outside``), counts as none.
    """
    found: dict[str, nn.Module] = {}
    undivided: set[str] = set()
    for name, part in model.named_modules():
        undivided |= {*(getattr(part, "_no_split_modules", None) or ())}
        if isinstance(part, Stack):
            found |= {f"{name}.layers.{number}": layer for number, layer in enumerate(part.layers)}
        elif type(part).__name__ in undivided:
            found[name] = part
    outer = {name: part for name, part in found.items() if not any(name.startswith(f"{other}.") for other in found)}
    owners: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        owner = next((layer for layer in outer if name.startswith(f"{layer}.")), "")
        owners.setdefault(id(parameter), []).append(owner)
    shared = {owner for several in owners.values() if len(several) > 1 for owner in several}
    read = {name for name, layer in outer.items() for part in layer.modules() if getattr(part, "read_outside", False)}
    return {name: part for name, part in outer.items() if name not in shared | read}


def size_of_all(parts: list[nn.Module]) -> int:
    """Return the bytes of the parameters of modules, and of their buffers."""
    tensors = {id(x): x for part in parts for x in (*part.parameters(), *part.buffers())}
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


def rest_of(model: nn.Module, layers: Mapping[str, nn.Module]) -> int:
    """Return the bytes of what is no layer."""
    return size_of_all([model]) - size_of_all([*layers.values()])


def names_below(model: nn.Module, layer: nn.Module) -> list[str]:
    """Return the names, in a model, of the parameters of one of its layers."""
    own = {id(parameter) for parameter in layer.parameters()}
    return [name for name, parameter in model.named_parameters() if id(parameter) in own]


@contextmanager
def without_values() -> Iterator[None]:
    """Give modules that are built parameters on the meta device, without values; buffers get theirs."""
    replaced: dict[int, tuple[nn.Parameter, nn.Parameter]] = {}

    def empty(module: nn.Module, name: str, parameter: Any) -> nn.Parameter | None:
        if parameter is None or parameter.is_meta:
            return None
        if id(parameter) not in replaced:  # one that is registered twice is shared
            replaced[id(parameter)] = parameter, nn.Parameter(parameter.to("meta"), parameter.requires_grad)
        return replaced[id(parameter)][1]

    hook = register_module_parameter_registration_hook(cast(Any, empty))  # torch's own hint lacks what it may return
    try:
        yield
    finally:
        hook.remove()


def _fill(
    system: SavedModel, weights: WeightsFile, index: Mapping[str, str], host: dict[str, Tensor], home: str
) -> None:
    """Read what does not stay in the folder to its device, or into ``host`` by name.

    Args:
        system: without values.
        weights: its file.
        index: devices of the parameters of layers by name; all others belong to ``home``.
        host: what stands in the host's memory and computes elsewhere.
        home: the device that computes.
    """
    values = system.state_dict(keep_vars=True)
    owners: dict[int, list[tuple[dict[str, Any], str]]] = {}
    for part in system.modules():
        tables: list[dict[str, Any]] = [part._parameters, part._buffers]
        for table in tables:
            for attribute, value in table.items():
                owners.setdefault(id(value), []).append((table, attribute))
    for name in weights:
        value, place = values[name], index.get(name, home)
        if place == FOLDER:
            continue
        if place == "cpu" and home != "cpu":
            host[name] = weights[name].to(value.dtype, copy=True)  # or the file would stay open for it
            continue
        there = weights[name].to(place, value.dtype, copy=True)
        made = nn.Parameter(there, value.requires_grad) if isinstance(value, nn.Parameter) else there
        for table, attribute in owners[id(value)]:
            table[attribute] = made
    for part in system.modules():  # what no file holds
        for attribute, buffer in part._buffers.items():
            if buffer is not None and not buffer.is_meta:
                part._buffers[attribute] = buffer.to(home)


class _Place(AlignDevicesHook):
    """The place of a layer: weights come when it is called, or what it is called with goes to where they are.

    accelerate puts such hooks around ``forward`` alone, where weights are put away in the midst of a call from within
    another and stay after an error, and empties the cache of a card for every tensor; so the calls are changed here.

    Args:
        layer: whose calls are changed.
        device: on which it computes.
        weights: its parameters by name, if they come and go; else they stand on the device.
    """

    def __init__(self, layer: nn.Module, device: str, weights: Mapping[str, Tensor] | None) -> None:
        super().__init__(
            execution_device=torch.device(device),
            offload=weights is not None,
            io_same_device=True,
            weights_map=weights,
            skip_keys=CACHES,
        )
        self.names = [name for name, _ in layer.named_parameters()]
        self.inside = False
        self.lock = threading.RLock()  # threads that share a model would put away each other's weights
        for name, _ in [*layer.named_buffers()] if weights is None else ():
            set_module_tensor_to_device(layer, name, device, clear_cache=False)
        for name in CALLED:
            if hasattr(layer, name):
                setattr(layer, name, partial(self.called, layer, getattr(layer, name)))

    def called(self, layer: nn.Module, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a method of the layer where its weights are."""
        with self.lock:
            if self.inside:
                return method(*args, **kwargs)
            self.inside = True
            try:
                args, kwargs = self.pre_forward(layer, *args, **kwargs)
                return self.post_forward(layer, method(*args, **kwargs))
            finally:
                self.inside = False
                self._show(layer, "meta")

    def pre_forward(self, module: nn.Module, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Fetch the weights, and return arguments on their device."""
        self.input_device = find_device([args, kwargs])
        self._show(module, self.execution_device)
        device = self.execution_device
        return send_to_device(args, device), send_to_device(kwargs, device, skip_keys=CACHES)

    def post_forward(self, module: nn.Module, output: Any) -> Any:
        """Return what the layer made on the device of what it was called with."""
        return output if self.input_device is None else send_to_device(output, self.input_device, skip_keys=CACHES)

    def _show(self, layer: nn.Module, device: Any) -> None:
        for name in self.names if self.offload else ():
            value = None if device == "meta" else self.weights_map[name]
            set_module_tensor_to_device(layer, name, device, value=value, clear_cache=False)
