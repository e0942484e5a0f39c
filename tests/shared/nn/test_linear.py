"""Linear maps: oneDNN's products against MKL's in double precision, and when they are asked for."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from dragoman.shared.nn import cpu
from dragoman.shared.nn.cpu import BLOCK, LARGE, WORTH, OneDNN
from dragoman.shared.nn.heads import OutputProjection
from dragoman.shared.nn.linear import Linear, linear, store_for_search, stored_parameter, write_product

pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch comes without oneDNN"
)


class Called(TorchDispatchMode):
    """Notes whether oneDNN was called."""

    onednn = False

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.onednn |= "_linear_pointwise" in str(function)
        return function(*args, **(kwargs or {}))


def apply(*given: Tensor | None) -> tuple[Tensor, bool]:
    with Called() as called:
        result = linear(*given)
    return result, called.onednn


@pytest.fixture(params=OneDNN)
def quicker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> OneDNN:
    monkeypatch.setattr(cpu, "onednn", lambda: request.param)
    return request.param


def arguments(shape: tuple[int, ...], inputs: int, outputs: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, weight, bias = (
        torch.randn(size, generator=generator) for size in ((*shape, inputs), (outputs, inputs), (outputs,))
    )
    return x, weight, bias


NEVER, WIDE, MOST = {OneDNN.NONE: False}, {OneDNN.WIDE: True}, {OneDNN.MOST: True}


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize(
    ("shape", "inputs", "outputs", "asked"),
    [
        ((4,), 256, 1024, WIDE | MOST),
        ((3,), 256, 1024, WIDE),
        ((2, 3), 400, 800, WIDE | MOST),
        ((0,), 256, 1024, WIDE),
        ((2, 3), 1024, 256, MOST),
        ((1, 2, 2), 512, 512, MOST),
        ((16,), 256, WORTH // 256 // 16, MOST),
        ((16,), 256, WORTH // 256 // 16 - 1, NEVER),
        ((3,), 256, LARGE // 256 - 1, NEVER),
    ],
)
def test_equals_another_library_in_double_precision(shape, inputs, outputs, asked, biased, quicker):
    x, weight, bias = arguments(shape, inputs, outputs)
    bias = bias if biased else None
    with torch.no_grad():
        result, onednn = apply(x, weight, bias)
    assert onednn == asked.get(quicker, False)
    exact = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    torch.testing.assert_close(result.double(), exact, atol=1e-3, rtol=1e-5)


def views() -> dict[str, tuple[Tensor, Tensor, bool]]:
    """Return x, weight, and whether oneDNN has a fast kernel for them."""
    draw = torch.Generator().manual_seed(0)
    x, weight = torch.randn(64, 512, generator=draw), torch.randn(1024, 512, generator=draw)
    return {
        "sentences first": (x.view(8, 8, 512).transpose(0, 1), weight, True),
        "columns": (x.T.contiguous().T, weight.T.contiguous().T, True),
        "a part of wider rows": (torch.cat([x, x], 1)[:, :512], weight, True),
        "a part of longer columns": (torch.cat([x.T, x.T], 1)[:, :64].T, weight, True),
        "every other element": (torch.stack([x, x], -1)[..., 0], weight, False),
        "one element": (x[:1, :1].expand(64, 512), weight, False),
        "a row": (x[:1].expand(64, 512), weight, False),
        "a column": (x[:, :1].expand(64, 512), weight, False),
        "a part of a matrix": (x, torch.cat([weight, weight], 1)[:, :512], False),
        "a part of a turned matrix": (x, torch.cat([weight.T, weight.T], 1)[:, :1024].T, False),
        "every other element of a matrix": (x, torch.stack([weight, weight], -1)[..., 0], False),
        "a matrix of one row": (x, weight[:1].expand(1024, 512), False),
    }


@pytest.mark.parametrize("view", views())
def test_reads_views_in_their_order(view, quicker):
    x, weight, fast = views()[view]
    with torch.no_grad():
        result, onednn = apply(x, weight, None)
    assert onednn == (fast and quicker is not OneDNN.NONE)
    torch.testing.assert_close(result.double(), F.linear(x.double(), weight.double()), atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("shape", [(9,), (3, 5), (1, 4, 2)])
def test_learns(shape, biased, quicker):
    given = arguments(shape, 512, 1024)[: 2 + biased]
    ours = [tensor.clone().requires_grad_() for tensor in given]
    exact = [tensor.double().requires_grad_() for tensor in given]
    with Called() as called:
        result = linear(*ours)
        result.square().sum().backward()
    assert called.onednn == (quicker is OneDNN.MOST)
    F.linear(*exact).square().sum().backward()
    for found, expected in zip(ours, exact, strict=True):
        torch.testing.assert_close(found.grad.double(), expected.grad, atol=1e-2, rtol=1e-4)


@pytest.mark.parametrize("frozen", [{0}, {1}, {2}, {0, 1}, {1, 2}])
def test_what_is_frozen_gets_no_gradient(frozen, quicker):
    given = [tensor.requires_grad_(number not in frozen) for number, tensor in enumerate(arguments((4,), 512, 1024))]
    x, weight, bias = given
    factors = torch.randn(4, 1024)
    (linear(*given) * factors).sum().backward()
    expected = (factors @ weight, factors.T @ x, factors.sum(0))
    for number, (tensor, gradient) in enumerate(zip(given, expected, strict=True)):
        if number in frozen:
            assert tensor.grad is None
        else:
            torch.testing.assert_close(tensor.grad, gradient, atol=1e-3, rtol=1e-4)


def test_gradients_have_gradients(quicker):
    x, weight, bias = (tensor.requires_grad_() for tensor in arguments((4,), 512, 1024))
    first = []
    for map_ in (linear, F.linear):
        (gradient,) = torch.autograd.grad(map_(x, weight, bias).square().sum(), x, create_graph=True)
        first.append(torch.autograd.grad(gradient.square().sum(), (x, weight)))
    for found, expected in zip(*first, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=0.1 * expected.std().item())


@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_what_comes_out_may_be_written_over(shape, quicker):
    layer, x = Linear(512, 1024), torch.randn(*shape, 512, requires_grad=True)
    layer(x).relu_().sum().backward()
    positive = (F.linear(x, layer.weight, layer.bias) > 0).float()
    torch.testing.assert_close(layer.bias.grad, positive.flatten(0, -2).sum(0))
    torch.testing.assert_close(x.grad, positive @ layer.weight, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("shape", [(4,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize("biased", [True, False])
def test_what_another_device_computes_is_no_view_either(shape, biased):
    """Where a view is written over, torch copies the gradient of the whole three times."""
    layer, x = Linear(5, 7, bias=biased, device="meta"), torch.empty(*shape, 5, device="meta")
    y = layer(x)
    assert y.shape == (*shape, 7) and not y._is_view()
    assert type(y.relu_().grad_fn).__name__ == "ReluBackward0"
    y.sum().backward()
    assert layer.weight.grad.shape == (7, 5)


@pytest.mark.parametrize("add", [True, False])
@pytest.mark.parametrize(
    ("rows", "between", "columns"), [(8, 64, BLOCK // 4 + 7), (BLOCK // 4 + 7, 64, 8), (70, 300, 300), (0, 4, 8)]
)
def test_products_are_written_in_place(rows, between, columns, add, quicker):
    draw = torch.Generator().manual_seed(0)
    a, b = torch.randn(between, rows, generator=draw).T, torch.randn(columns, between, generator=draw).T
    out = torch.randn(rows, columns, generator=draw)
    expected = a.double() @ b.double() + (out.double() if add else 0)
    whole = out.data_ptr()
    with Called() as called, torch.no_grad():
        write_product(out, a, b, add=add)
    assert out.data_ptr() == whole and called.onednn in ({rows > 0} if quicker is OneDNN.MOST else {True, False})
    torch.testing.assert_close(out.double(), expected, atol=1e-3, rtol=1e-5)


def test_products_in_half_precision_are_added_to_single_precision():
    draw = torch.Generator().manual_seed(0)
    a, b = (torch.randn(shape, generator=draw).bfloat16() for shape in ((7, 64), (64, 5)))
    out = torch.full((7, 5), 3.0)
    write_product(out, a, b, add=True)
    torch.testing.assert_close(out.double(), 3 + a.double() @ b.double(), rtol=2**-7, atol=2**-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_types_are_left_alone(dtype, quicker):
    x, weight, bias = (tensor.to(dtype) for tensor in arguments((2,), 256, 1024))
    with torch.no_grad():
        result, onednn = apply(x, weight, bias)
    assert not onednn
    torch.testing.assert_close(result, F.linear(x, weight, bias))


def test_autocast_is_left_alone(quicker):
    x, weight, bias = arguments((2,), 256, 1024)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        result, _ = apply(x, weight, bias)
        torch.testing.assert_close(result, F.linear(x, weight, bias))
    assert result.dtype == torch.bfloat16


def test_what_is_compiled_is_left_to_the_compiler(quicker):
    x, weight, bias = arguments((2,), 256, 1024)
    with torch.no_grad():
        result = torch.compile(linear, backend="eager", fullgraph=True)(x, weight, bias)
    torch.testing.assert_close(result, F.linear(x, weight, bias))


def test_matrices_stored_for_search_hold_the_same(quicker):
    embedding = nn.Embedding(7, 512)
    model = nn.ModuleDict({"maps": nn.Sequential(Linear(512, 1024), Linear(1024, 8).double()), "embedding": embedding})
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    x = torch.randn(4, 512)
    expected = F.linear(x, model["maps"][0].weight, model["maps"][0].bias)
    for _ in range(2):
        store_for_search(model)
        assert model["maps"][0].weight.T.is_contiguous() == (quicker is OneDNN.MOST)
        assert model["maps"][1].weight.is_contiguous() and embedding.weight.is_contiguous()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    with torch.no_grad():
        torch.testing.assert_close(model["maps"][0](x), expected)


@pytest.mark.parametrize("shape", [(512,), (0, 512), (1, 512), (3, 5, 512)])
@pytest.mark.parametrize("kind", ["linear", "projection"])
def test_matrices_stored_for_autocast_multiply_alike(kind, shape):
    torch.manual_seed(0)
    module = Linear(512, 1024) if kind == "linear" else OutputProjection(width=512, vocabulary=1024, bias=True)
    with torch.no_grad():
        module.bias.normal_()
    x = torch.randn(shape)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        expected = F.linear(x, module.weight, module.bias)
        for _ in range(2):
            store_for_search(module, torch.bfloat16)
            assert module.weight.dtype == torch.bfloat16 and module.weight.shape == (1024, 512)
            assert module.weight.is_mkldnn == torch.ops.mkldnn._is_mkldnn_bf16_supported()
            torch.testing.assert_close(module(x), expected)


@pytest.mark.parametrize(
    ("learns", "dtype", "after"), [(True, None, True), (False, None, False), (True, torch.bfloat16, False)]
)
def test_a_stored_parameter_learns_if_it_did_and_keeps_its_type(learns, dtype, after):
    weight = torch.nn.Parameter(torch.randn(4, 3), requires_grad=learns)
    assert stored_parameter(weight, dtype).requires_grad is after
