"""Which kernel attends on a GPU: by length, mask and card; in what is compiled, too; and masks that nobody needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from functorch.compile import make_boxed_func
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters
from torch.nn.attention import SDPBackend

from benchmarks.fake_cuda import FakeCuda
from dragoman.shared.nn import kernels
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.padded import Padded
from dragoman.shared.training.compiling import compile_layers

H100 = (9, 0)
MATH = SDPBackend.MATH


@pytest.fixture(autouse=True)
def nothing_met(monkeypatch):
    monkeypatch.setattr(kernels, "_met", type(kernels._met)())


@pytest.mark.parametrize(
    ("queries", "keys", "mask", "first"),
    [
        (20, 20, True, kernels.EFFICIENT),
        (20, 20, False, kernels.EFFICIENT),
        (79, 400, True, kernels.EFFICIENT),
        (80, 80, True, kernels.CUDNN),
        (80, 80, False, kernels.FLASH),
        (1000, 1000, True, kernels.CUDNN),
    ],
)
def test_the_quickest_kernel_of_the_measurements_comes_first(queries, keys, mask, first):
    """The fastest of the measured three, at the lengths that were measured."""
    heads = [torch.empty(2, 4, length, 64, device="meta") for length in (queries, keys)]
    seen = torch.ones(2, 1, 1, keys, dtype=torch.bool, device="meta") if mask else None
    assert kernels.order(*heads, seen) is None
    with kernels.asked(kernels.CARDS[H100]):
        found = kernels.order(*heads, seen)
    assert found is not None and found[0] == first and found[-1] == MATH


def layer(memories: list[str] | None = None) -> Layer:
    return Layer(width=64, heads=1, feedforward=64, memories=memories, dropout=0.0)


def encoder(**given: bool) -> Encoder:
    return Encoder(layer=layer(), layers=2, **given)


def decoder() -> Decoder:
    return Decoder(layer=layer(["source"]), layers=1)


def states(rows: int, length: int, *, full: bool = False) -> Padded:
    return Padded(torch.empty(rows, length, 64), torch.full((rows,), length), full=full)


def attended(build: Callable[[], nn.Module], *given: Padded, learning: bool = True) -> str:
    """Return by which kernels a model attends on a GPU in bf16, forward and then backward: f, e or c for cuDNN."""
    found = ""

    def note(func: torch._ops.OpOverload, *_: object) -> None:
        nonlocal found
        kernel = re.match(r"aten._scaled_dot_product_(f|e|c)\w+_attention(_backward)?\.default", str(func))
        found += "" if kernel is None else kernel[1].upper() if kernel[2] else kernel[1]

    with FakeCuda(values=False, observer=note) as gpu:
        torch.backends.cuda.enable_cudnn_sdp(False)
        model = build().to("cuda").train(learning)
        x, *memories = [one.to("cuda") for one in given]
        x = x.map(lambda values: values.requires_grad_(learning))
        with torch.autocast("cuda", dtype=torch.bfloat16), torch.set_grad_enabled(learning):
            result = model(x, {"source": memories[0]}) if memories else model(x)[0]
        if learning:
            result.values.sum().backward()
        assert not gpu.waits
    return found


def test_learning_layers_ask_cudnn_for_shapes_that_recur(monkeypatch):
    monkeypatch.setattr(kernels, "PAYS", 4)
    assert [attended(encoder, states(3, 100)) for _ in range(3)] == ["eeEE", "eeEE", "ccCC"]
    assert attended(encoder, states(2, 100)) == "eeEE"  # another shape
    assert attended(encoder, states(3, 100), learning=False) == "ee"  # a search
    assert attended(encoder, states(3, 20)) == "eeEE"


def test_what_is_computed_again_takes_the_same_kernel(monkeypatch):
    """The first layer meets the shape for the first time; the backward pass computes layers again, from the last."""
    monkeypatch.setattr(kernels, "PAYS", 1)
    assert attended(lambda: encoder(recompute=True), states(3, 100)) == "ec" + "cC" + "eE"


def test_long_causal_attention_is_flash_and_memories_are_as_long_as_the_shorter_side(monkeypatch):
    monkeypatch.setattr(kernels, "PAYS", 0)
    assert attended(decoder, states(3, 100), states(3, 250)) == "fcCF"
    assert attended(decoder, states(3, 41), states(3, 250)) == "eeEE"


def test_a_batch_without_padding_passes_no_mask(monkeypatch):
    monkeypatch.setattr(kernels, "PAYS", 0)
    assert attended(encoder, states(3, 100, full=True)) == "ffFF"
    assert attended(decoder, states(3, 100), states(3, 100, full=True)) == "ffFF"


def test_a_card_that_was_not_measured_is_left_to_torch(monkeypatch):
    monkeypatch.setattr(kernels, "CARDS", {})
    assert attended(decoder, states(3, 20), states(3, 250)) == "feEF"


def test_without_a_mask_attention_is_what_it_is_with_one_that_hides_nothing():
    """On a device that is not the CPU; there, masks stay."""
    torch.manual_seed(0)
    first, second = encoder(), decoder()
    x, y = torch.randn(3, 7, 64), Padded(torch.randn(3, 5, 64), torch.tensor([5, 4, 5]))
    full = Padded.from_sequences([*x])
    assert full.full and not full.needs_no_mask
    expected = second(y, {"source": first(Padded(x, torch.full((3,), 7)))[0]}).values
    with FakeCuda(values=True):
        there = full.to("cuda")
        assert there.needs_no_mask
        encoded = first.to("cuda")(there)[0]
        assert encoded.needs_no_mask
        found = second.to("cuda")(y.to("cuda"), {"source": encoded}).values.cpu()
    torch.testing.assert_close(found, expected)


# -- what is compiled ------------------------------------------------------------------------------------------------


@pytest.fixture
def fresh_compiler():
    torch._dynamo.reset()
    counters.clear()
    before = torch._dynamo.config.recompile_limit
    yield
    torch._dynamo.config.recompile_limit = before
    torch._dynamo.reset()


@pytest.mark.slow
def test_compiled_layers_choose_by_length_and_card_in_one_version_each(fresh_compiler, monkeypatch):
    """By kernels of the CPU: flash for short attention, products for long attention."""
    flash = "_scaled_dot_product_flash_attention_for_cpu"
    versions: list[bool] = []

    def note(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., Any]:
        versions.append(any(flash in str(node.target) for node in graph.graph.nodes))
        return make_boxed_func(graph)

    card = kernels.Card(long=8, short=(kernels.FLASH, MATH), masked=(MATH,), unmasked=(MATH,))
    compiled, plain = encoder(), encoder()
    compile_layers(compiled, backend=aot_autograd(fw_compiler=note))
    plain.load_state_dict(compiled.state_dict())

    def update(rows: int, length: int) -> None:
        x = Padded(torch.randn(rows, length, 64), torch.arange(rows) % length + 1)
        found, expected = compiled(x)[0].values, plain(x)[0].values
        torch.testing.assert_close(found, expected)
        found.sum().backward()

    update(4, 5)  # nothing is asked
    before = len(versions)
    counted = []
    monkeypatch.setattr(kernels, "card_of", lambda _: card)
    for rows, length in [(4, 5), (5, 7), (6, 3), (4, 8), (5, 100), (3, 9), (4, 7), (7, 30)]:
        update(rows, length)
        counted.append(len(versions))
    short, long = counted[0] - before, counted[3] - counted[2]
    assert short == before and 0 < long  # another card is another version
    assert counted == [counted[0]] * 3 + [counted[3]] * 5
    assert all(versions[before : counted[0]]) and not any(versions[counted[2] : counted[3]])
