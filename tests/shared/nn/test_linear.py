"""Linear maps: oneDNN's product against MKL's in double precision, and when it is asked for."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from shared.nn import linear as module
from shared.nn.linear import LARGE, Linear, linear

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


@pytest.fixture(params=[True, False])
def quicker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(module, "prefers_onednn", lambda: request.param)
    return request.param


def arguments(shape: tuple[int, ...], inputs: int, outputs: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, weight, bias = (
        torch.randn(size, generator=generator) for size in ((*shape, inputs), (outputs, inputs), (outputs,))
    )
    return x, weight, bias


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize(
    ("shape", "inputs", "outputs", "asked"),
    [
        ((3,), 256, 1024, True),
        ((2, 3), 400, 800, True),
        ((0,), 256, 1024, True),
        ((2, 3), 1024, 256, False),
        ((1, 2, 2), 512, 512, False),
        ((3,), 256, LARGE // 256 - 1, False),
    ],
)
def test_equals_another_library_in_double_precision(shape, inputs, outputs, asked, biased, quicker):
    x, weight, bias = arguments(shape, inputs, outputs)
    bias = bias if biased else None
    with torch.no_grad():
        result, onednn = apply(x, weight, bias)
    assert onednn == (asked and quicker)
    exact = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    torch.testing.assert_close(result.double(), exact, atol=1e-3, rtol=1e-5)


def test_reads_views_in_their_order(quicker):
    x, weight, bias = arguments((3, 2), 512, 1024)
    with torch.no_grad():
        result, onednn = apply(x.transpose(0, 1)[..., ::2], weight[:, ::2], bias)
    assert onednn == quicker
    torch.testing.assert_close(result, F.linear(x.transpose(0, 1)[..., ::2], weight[:, ::2], bias))


def test_learns(quicker):
    layer = Linear(256, 1024)
    x = torch.randn(2, 256, requires_grad=True)
    with Called() as called:
        layer(x).square().sum().backward()
    assert not called.onednn
    values = 2 * (x @ layer.weight.T + layer.bias)
    torch.testing.assert_close(layer.weight.grad, values.T @ x)
    torch.testing.assert_close(layer.bias.grad, values.sum(0))
    torch.testing.assert_close(x.grad, values @ layer.weight)


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
