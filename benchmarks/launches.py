"""Counts what an update or a step of a search asks of a GPU: kernel launches, bytes, operations; needs no GPU.

    python -m benchmarks.launches gpu_text_big gpu_speech_medium search [--json FOLDER]

The code runs on a CUDA device that is not there (benchmarks/fake_cuda.py), and each operator is counted
(benchmarks/operators.py): forward and backward pass, clipping and optimiser of an update of the benchmarks in
benchmarks/gpu_training.py, in bf16, the mean of their batches; or one step of a beam search by a Transformer base.
Layers and losses are counted as they are written, as the plain path; ``gpu_text_big_compiled`` and
``gpu_speech_medium_compiled`` count those that inductor's scheduler would make of both (benchmarks/fused.py).

Times follow from what was measured (the constants below): the host's from the launches, the device's from operations
and bytes, whichever takes longer in each operator. The device's is the least that is possible: kernels that reach
neither the peak nor the bandwidth take longer.
"""

from __future__ import annotations

import argparse
import collections
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.func import functional_call

from benchmarks import gpu_training, speech_ours, text_ours
from benchmarks.cost import END, PADDING, Point, translator
from benchmarks.fake_cuda import FakeCuda
from benchmarks.fused import Kernels, kernels
from benchmarks.operators import cost
from benchmarks.ours import Holder
from benchmarks.tables import table
from benchmarks.training import BETAS, CLIP, EPSILON, SMOOTHING
from dragoman.shared.batch import Batch
from dragoman.shared.machine.settings import prepare_process
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.linear import store_for_search
from dragoman.shared.objectives import cross_entropy
from dragoman.shared.objectives.parts import EncoderDecoderObjective
from dragoman.shared.padded import Padded
from dragoman.shared.search import BeamSearch, Rules
from dragoman.shared.training import update
from dragoman.shared.training.history import Meter
from dragoman.shared.training.optimizer import Adam
from dragoman.shared.training.update import Learner

#: Measured 26 Nov 2026, one H100, torch 2.11.0+cu130: an update of speech, 2,050 launches, took 73 ms of the host.
HOST_SECONDS = 0.073 / 2050
#: Measured likewise: operations a second of a large product in bf16.
PEAK = 681e12
#: Of NVIDIA's data sheet of the H100 SXM: bytes a second of its memory, and operations a second in fp32 without TF32.
BANDWIDTH, PEAK_FP32 = 3.35e12, 67e12

#: Of the search that is looked at.
STEP = Point(length=16, beam=5, batch=8, vocabulary=32000)

#: Rows of logits for which the kernels of the compiled loss are looked at.
LOSS_ROWS = 1024
#: Groups that are not part of layers, though they grow with them; what is not counted; and the kernels of a layer.
OUTSIDE, UNSEEN = {"optimiser", "clipping", "loss", "loss, products", "casts together"}, "unseen"
KINDS = ("fused", "own")

RESULTS = Path(__file__).parent / "results" / "launches"


@dataclass
class Counted:
    """The sums of some operators.

    Attributes:
        launches: kernels, and copies between host and device.
        bytes: read and written.
        flop: floating point operations of products.
        seconds: the least that the device needs.

    """

    launches: float = 0
    bytes: float = 0
    flop: float = 0
    seconds: float = 0

    def plus(self, other: Counted, factor: float = 1.0) -> Counted:
        """Return the sums with those of others, multiplied."""
        return Counted(*(a + factor * b for a, b in zip(self.values(), other.values(), strict=True)))

    def values(self) -> tuple[float, ...]:
        """Return all four."""
        return self.launches, self.bytes, self.flop, self.seconds


@dataclass
class Counter:
    """Adds up operators by their groups; clipping, the optimiser and the loss over the vocabulary are such, too."""

    groups: dict[str, Counted] = field(default_factory=dict)
    region: str = ""

    def see(self, func: Any, args: Any, kwargs: Any, found: Any) -> None:
        """Count an operator (see :class:`benchmarks.fake_cuda.FakeCuda`)."""
        one = cost(func, args, kwargs, found)
        if not one.launches or self.region == UNSEEN:
            return
        seconds = max(one.flop / (PEAK if one.low else PEAK_FP32), one.bytes / BANDWIDTH)
        group = f"{self.region}, products" if self.region == "loss" and one.group == "products" else self.region
        group = group or one.group
        self.add(group, Counted(one.launches, one.bytes, one.flop, seconds))

    def add(self, group: str, counted: Counted) -> None:
        """Add to a group."""
        self.groups[group] = self.groups.get(group, Counted()).plus(counted)

    def total(self) -> Counted:
        """Return the sums of all groups."""
        whole = Counted()
        for one in self.groups.values():
            whole = whole.plus(one)
        return whole

    def less(self, other: Counter, factor: float = 1.0) -> Counter:
        """Return what is counted here and not there, multiplied."""
        kinds = [*self.groups, *(name for name in other.groups if name not in self.groups)]
        differences = {
            name: Counted().plus(self.groups.get(name, Counted()).plus(other.groups.get(name, Counted()), -1), factor)
            for name in kinds
        }
        return Counter({name: one for name, one in differences.items() if any(one.values())})

    def within(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function during which everything belongs to a group."""

        def called(*args: Any, **kwargs: Any) -> Any:
            before, self.region = self.region, name
            try:
                return function(*args, **kwargs)
            finally:
                self.region = before

        return called

    @contextmanager
    def regions(self) -> Iterator[None]:
        """Let the parts of an update be groups of their own."""
        places: list[tuple[Any, str, str]] = [
            (update, "clip_gradient", "clipping"),
            (update, "step_if_finite", "optimiser"),
            (cross_entropy._ProjectedLoss, "forward", "loss"),
            (cross_entropy._ProjectedLoss, "backward", "loss"),
        ]
        with ExitStack() as stack:
            for owner, name, group in places:
                wrapped = self.within(group, getattr(owner, name))
                stack.enter_context(patch.object(owner, name, staticmethod(wrapped)))
            yield


# -- what is counted -------------------------------------------------------------------------------------------------


def place(precision: str = "bf16") -> Workspace:
    """Return the machine; nothing is compiled."""
    return Workspace(Path(), device="cuda", precision=precision, compile=False)


def update_of(
    model: Callable[[], nn.Module], batches: list[Batch], loss: Kernels | None = None
) -> tuple[Counter, set[str]]:
    """Count an update on each batch, and return the mean of all, and the operators for which the host waits.

    The first update, which makes the moments, is not counted.

    Args:
        model: builds the model.
        batches: on which updates are done.
        loss: the kernels of the compiled loss of LOSS_ROWS rows; None: it is not compiled.

    """
    counter = Counter()

    def lose(logits: Tensor, *given: Any) -> tuple[Tensor, Tensor, Tensor]:
        assert loss is not None
        found = counter.within(UNSEEN, cross_entropy._lose_at_once)(logits, *given)
        launches, size = loss.fused[0], loss.fused[1] * len(logits) / LOSS_ROWS
        counter.add("loss", Counted(launches, size, 0, size / BANDWIDTH))
        return found

    with FakeCuda(values=False, observer=lambda *given: counter.see(*given)) as gpu:
        prepare_process("cuda")
        with torch.device("meta"):
            held = Holder(model())
        objective = EncoderDecoderObjective(system=held, parts=[cross_entropy.CrossEntropy(label_smoothing=SMOOTHING)])
        objective.to("cuda")
        learner = Learner(objective, objective, Adam(betas=list(BETAS), eps=EPSILON).build(objective), CLIP)
        learner.at(1, 1e-5)
        there = place()
        there.compile = loss is not None
        with patch.object(cross_entropy, "_compiled", lambda _: lose):
            learner.update(batches[:1], Meter(), there)
            counter = Counter()
            with counter.regions():
                for batch in batches:
                    learner.update([batch], Meter(), there)
        waits = set(gpu.waits)
    return counter.less(Counter(), 1 / len(batches)), waits


def text_update(layers: int = gpu_training.BIG.layers, loss: Kernels | None = None) -> tuple[Counter, set[str]]:
    """Count an update of gpu_text_big."""
    work = replace(gpu_training.BIG, precision="bf16", layers=layers)
    return update_of(lambda: text_ours.translator(work, 0.1), text_ours.batches(work), loss)


def speech_update(
    encoder: int = gpu_training.SPEECH.encoder_layers,
    decoder: int = gpu_training.SPEECH.decoder_layers,
    loss: Kernels | None = None,
) -> tuple[Counter, set[str]]:
    """Count an update of gpu_speech_medium, on 400 seconds of sound."""
    work = replace(gpu_training.SPEECH, precision="bf16", encoder_layers=encoder, decoder_layers=decoder)
    batches = [
        speech_ours.batch_of(torch.empty(rows, int(seconds * 16000), device="meta"), tokens)
        for (rows, seconds), tokens in zip(work.batches, work.labels(), strict=True)
    ]
    return update_of(lambda: speech_ours.translator(work, 0.1), batches, loss)


def text_compiled() -> tuple[Counter, set[str]]:
    """Count an update of gpu_text_big whose layers and loss are compiled, layers for sentences of 40 tokens."""
    work, loss = gpu_training.BIG, loss_kernels(gpu_training.BIG.vocabulary)
    whole, waits = text_update(loss=loss)
    more, _ = text_update(work.layers + 1, loss)
    rows = work.tokens // 36
    layers = [layer_kernels(work, rows, 40), layer_kernels(work, rows, 40, memory=40)]
    return with_compiled(whole, [(more, work.layers, layers)]), waits


def speech_compiled() -> tuple[Counter, set[str]]:
    """Count an update of gpu_speech_medium whose layers and loss are compiled, layers for 40 recordings of 10 s."""
    work, loss = gpu_training.SPEECH, loss_kernels(gpu_training.SPEECH.vocabulary)
    whole, waits = speech_update(loss=loss)
    deeper, _ = speech_update(encoder=work.encoder_layers + 1, loss=loss)
    more, _ = speech_update(decoder=work.decoder_layers + 1, loss=loss)
    encoder, decoder = layer_kernels(work, 40, 250), layer_kernels(work, 40, 41, memory=250)
    kinds = [(deeper, work.encoder_layers, [encoder]), (more, work.decoder_layers, [decoder])]
    return with_compiled(whole, kinds), waits


def with_compiled(whole: Counter, kinds: list[tuple[Counter, int, list[Kernels]]]) -> Counter:
    """Return an update in which layers are the kernels that a compiler makes of them.

    Args:
        whole: the update as its layers are written.
        kinds: the same with one layer more, how many layers there are, and what is made of one.

    """
    written = whole
    for more, number, layers in kinds:
        one = more.less(written)
        one.groups = {name: counted for name, counted in one.groups.items() if name not in OUTSIDE}
        whole = whole.less(one.less(Counter(), number))
        flop = number * one.total().flop
        fused, own = (
            [sum(values) for values in zip(*(getattr(x, kind) for x in layers), strict=True)] for kind in KINDS
        )
        whole.add("layers, fused", Counted(number * fused[0], number * fused[1], 0, number * fused[1] / BANDWIDTH))
        seconds = max(number * own[1] / BANDWIDTH, flop / PEAK)
        whole.add("layers, products and attention", Counted(number * own[0], number * own[1], flop, seconds))
    return Counter({name: one for name, one in whole.groups.items() if one.launches > 0.5})


def layer_kernels(work: Any, rows: int, length: int, memory: int = 0) -> Kernels:
    """Return the kernels of a layer of an encoder, or of a decoder that reads a memory of that length."""
    memories = ["source"] if memory else None
    with torch.device("meta"):
        layer = Layer(width=work.width, heads=work.heads, feedforward=work.feedforward, memories=memories, dropout=0.1)
    names = [name for name, _ in layer.named_parameters()]
    cast = [(tuple(x.shape), torch.float32 if "norm" in name else torch.bfloat16, True)
            for name, x in layer.named_parameters()]  # fmt: skip

    def encoder(x: Tensor, mask: Tensor, *parameters: Tensor) -> Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return functional_call(layer, dict(zip(names, parameters, strict=True)), (x,), {"mask": mask})

    def decoder(x: Tensor, lengths: Tensor, states: Tensor, *parameters: Tensor) -> Tensor:
        given = {"causal": True, "memories": {"source": Padded(states, lengths)}}
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return functional_call(layer, dict(zip(names, parameters, strict=True)), (x,), given)

    x = ((rows, length, work.width), torch.float32, True)
    if not memory:
        return kernels(encoder, x, ((rows, length), torch.bool, False), *cast)
    states = ((rows, memory, work.width), torch.float32, True)
    return kernels(decoder, x, ((rows,), torch.int64, False), states, *cast)


def loss_kernels(vocabulary: int) -> Kernels:
    """Return the kernels of the compiled loss of LOSS_ROWS rows."""
    logits, labels = ((LOSS_ROWS, vocabulary), torch.bfloat16, False), ((LOSS_ROWS,), torch.int64, False)
    return kernels(lambda x, y: cross_entropy._lose_at_once(x, y, None, SMOOTHING, True), logits, labels)


def search_step(point: Point = STEP, *, steps: int = 2, precision: str = "bf16") -> tuple[Counter, set[str]]:
    """Count a step of a beam search: what one more token costs.

    Its tensors hold numbers of the CPU, because a search reads what it has found.
    """
    counters, waits = [Counter(), Counter()], list[collections.Counter[str]]()
    counter = counters[0]
    model = translator(point.vocabulary)
    source = Padded(torch.full((point.batch, point.length), 7), torch.full((point.batch,), point.length))
    start = Padded(torch.full((point.batch, 1), END), torch.ones(point.batch, dtype=torch.int64))
    with FakeCuda(values=True, observer=lambda *given: counter.see(*given)) as gpu, torch.inference_mode():
        prepare_process("cuda")
        model.to("cuda")
        store_for_search(model, place(precision).autocast_dtype)  # as load_combined does
        for counter, number in zip(counters, (steps, steps + 1), strict=True):
            rules = Rules(minimum_length=number, maximum_length=number)
            batch = Batch({"source": source}).to("cuda")
            counter.groups.clear()
            gpu.waits.clear()
            with place(precision).autocast():
                search = BeamSearch(beam=point.beam, rules=rules)
                search.search(model, batch, prefix=start.to("cuda"), end=END, padding=PADDING)
            waits.append(collections.Counter(gpu.waits))
    return counters[1].less(counters[0]), set(waits[1] - waits[0])


KNOWN: dict[str, Callable[[], tuple[Counter, set[str]]]] = {
    "gpu_text_big": text_update,
    "gpu_speech_medium": speech_update,
    "gpu_text_big_compiled": text_compiled,
    "gpu_speech_medium_compiled": speech_compiled,
    "search": search_step,
}
TITLES = {
    "gpu_text_big": "An update of a Transformer big, about 16,000 target tokens, bf16",
    "gpu_speech_medium": "An update of a speech translator (12+6, 512/2048), 400 seconds of sound, bf16",
    "gpu_text_big_compiled": "An update of a Transformer big, about 16,000 target tokens, bf16",
    "gpu_speech_medium_compiled": "An update of a speech translator (12+6, 512/2048), 400 seconds of sound, bf16",
    "search": "A step of beam search (Transformer base, 8 sentences, beam 5, 32,000 symbols), bf16",
}

#: For what the host may wait: a step of a search copies what it has chosen to the CPU, once.
WAITS: dict[str, set[str]] = {"search": {"aten._to_copy.default"}}


# -- what is written -------------------------------------------------------------------------------------------------


def result(name: str, counter: Counter, waits: set[str]) -> dict[str, Any]:
    """Return what is found as plain data."""

    def plain(one: Counted) -> dict[str, float]:
        return {
            "launches": round(one.launches, 1),
            "megabytes": round(one.bytes / 1e6, 2),
            "gflop": round(one.flop / 1e9, 2),
            "device_ms": round(one.seconds * 1e3, 3),
        }

    total = counter.total()
    order = sorted(counter.groups.items(), key=lambda item: -item[1].seconds)
    return {
        "name": name,
        "title": TITLES[name],
        "torch": torch.__version__,
        "counted": "layers and loss as inductor fuses them"
        if name.endswith("_compiled")
        else "the plain path, without torch.compile",
        "waits": sorted(waits),
        "total": plain(total) | {"host_ms": round(total.launches * HOST_SECONDS * 1e3, 1)},
        "groups": {group: plain(one) for group, one in order},
    }


def written(found: dict[str, Any]) -> str:
    """Write a result as a table."""
    rows = [["", "launches", "MB", "GFLOP", "ms of the device, at least"]]
    for group, one in [*found["groups"].items(), ("total", found["total"])]:
        numbers = [f"{one['launches']:,.0f}", f"{one['megabytes']:,.1f}", f"{one['gflop']:,.1f}"]
        rows.append([group, *numbers, f"{one['device_ms']:.2f}"])
    waits = ", ".join(found["waits"]) or "nothing"
    host = f"{found['total']['host_ms']:.0f} ms of the host; it waits for {waits}."
    return "\n".join([f"{found['title']}: {found['counted']}", "", *table(rows), "", host, ""])


def main() -> None:
    """Count, print, and write JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="+", choices=KNOWN, metavar="NAME", help=", ".join(KNOWN))
    parser.add_argument("--json", type=Path, metavar="FOLDER", help="write NAME.json into it")
    arguments = parser.parse_args()
    for name in arguments.names:
        found = result(name, *KNOWN[name]())
        print(written(found))
        if arguments.json:
            arguments.json.mkdir(parents=True, exist_ok=True)
            (arguments.json / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
