"""The layer against torch's own with the same weights, and what stacks of it promise."""

import math

import pytest
import torch
from torch import Tensor, nn

from dragoman.shared.errors import UsageError
from dragoman.shared.machine import memory
from dragoman.shared.nn import transformer
from dragoman.shared.nn.attention import Prompts
from dragoman.shared.nn.conformer import ConformerLayer
from dragoman.shared.nn.layer import EncoderLayer, Layer
from dragoman.shared.nn.positions import RelativePositions
from dragoman.shared.nn.transformer import CausalEncoder, Decoder, Encoder, fresh, plain_layer
from dragoman.shared.padded import Padded
from tests.small import refuses, torch_layer


def shake(module: nn.Module) -> nn.Module:
    """Give every parameter a value of its own: a bias of 0 or a norm of 1 hides mistakes."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return module


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_layers_that_do_not_fit_into_memory_are_refused(monkeypatch, device: str) -> None:
    """Each takes its parameters, 4 bytes a number, and 20,000 bytes of Python's; planned ones have no parameters."""
    with torch.device(device):
        layer = Layer(width=8, heads=2, feedforward=16)
    size = 20_000 + (4 * sum(p.numel() for p in layer.parameters()) if device == "cpu" else 0)
    monkeypatch.setattr(memory, "available_memory", lambda device: 3 * size + size - 1)
    Encoder(layer=layer, layers=3)
    refuses(UsageError, r"layers 4: needs about .* of memory on cpu", Encoder, layer=layer, layers=4)


@pytest.mark.parametrize("pre_norm", [True, False])
@pytest.mark.parametrize(("activation", "epsilon"), [("relu", 1e-5), ("gelu", 0.25)])
def test_a_layer_equals_torchs_encoder_layer(pre_norm: bool, activation: str, epsilon: float) -> None:
    torch.manual_seed(0)
    sizes = {"width": 12, "heads": 3, "feedforward": 20, "activation": activation}
    ours = shake(Layer(**sizes, pre_norm=pre_norm, norm_epsilon=epsilon))
    theirs = torch_layer(ours, activation=activation, layer_norm_eps=epsilon).double().eval()
    ours = ours.double().eval()
    x, mask = torch.randn(2, 7, 12, dtype=torch.float64), torch.arange(7) < torch.tensor([[7], [4]])
    expected = theirs(x, src_key_padding_mask=~mask)
    torch.testing.assert_close(ours(x, mask=mask)[mask], expected[mask])


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("swish", lambda x: x / (1 + (-x).exp())),
        ("gelu", lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))),
        ("gelu_tanh", lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    ],
)
def test_activations_are_their_formulas(name, formula) -> None:
    x = torch.linspace(-4, 4, 33)
    torch.testing.assert_close(Layer(width=4, heads=1, feedforward=8, activation=name).activation(x), formula(x))


@pytest.mark.parametrize("stack", [Encoder, Decoder])
def test_the_last_norm_can_be_there_or_not_whatever_the_layers_do(stack) -> None:
    for pre_norm in (True, False):
        for asked, there in ((None, pre_norm), (True, True), (False, False)):
            layer = Layer(width=8, heads=2, feedforward=16, pre_norm=pre_norm, norm_epsilon=0.25)
            norm = stack(layer=layer, layers=2, final_norm=asked).norm
            assert isinstance(norm, nn.LayerNorm) is there
            assert not there or norm.eps == 0.25


@pytest.mark.parametrize("pre_norm", [True, False])
def test_a_layer_equals_torchs_decoder_layer(pre_norm: bool) -> None:
    torch.manual_seed(0)
    ours = shake(Layer(width=12, heads=3, feedforward=20, memories=["source"], pre_norm=pre_norm))
    theirs = torch_layer(ours, "source", "relu").double().eval()
    ours = ours.double().eval()
    x = torch.randn(2, 7, 12, dtype=torch.float64)
    memory = Padded(torch.randn(2, 5, 12, dtype=torch.float64), torch.tensor([5, 2]))
    expected = theirs(
        x, memory.values, tgt_mask=nn.Transformer.generate_square_subsequent_mask(7, dtype=torch.float64),
        memory_key_padding_mask=torch.zeros(2, 5, dtype=torch.float64).masked_fill(~memory.mask, float("-inf")),
    )  # fmt: skip
    torch.testing.assert_close(ours(x, memories={"source": memory}, causal=True), expected)


def test_dropouts_are_where_they_should_be() -> None:
    """With activations or sub-layers dropped almost surely, what is left is the bias or the input."""
    torch.manual_seed(0)
    x = torch.randn(1, 4, 8)
    layer = shake(Layer(width=8, heads=2, feedforward=16, dropout=0.999999))
    torch.testing.assert_close(layer(x), x)
    layer = shake(Layer(width=8, heads=2, feedforward=16, dropout=0.0, activation_dropout=0.999999))
    h = layer.self_attention(layer.self_attention_norm(x))
    torch.testing.assert_close(layer(x), x + h + layer.outer.bias)


def test_memories_under_one_norm_are_added() -> None:
    torch.manual_seed(0)
    layer = shake(Layer(width=8, heads=2, feedforward=16, memories={"source": 8, "words": 5})).eval()
    memories = {
        "source": Padded(torch.randn(2, 3, 8), torch.tensor([3, 1])),
        "words": Padded(torch.randn(2, 4, 5), torch.tensor([2, 4])),
    }
    x = torch.randn(2, 6, 8)

    def manually(names: list[str]) -> Tensor:
        y = x + layer.self_attention(layer.self_attention_norm(x), causal=True)
        h = layer.memory_attention_norm(y)
        for name in names:
            attention = layer.memory_attention[name]
            y = y + attention(h, attention.remember(memories[name]))
        return y + layer.outer(layer.inner(layer.feedforward_norm(y)).relu())

    torch.testing.assert_close(layer(x, memories=memories, causal=True), manually(["source", "words"]))
    only = {"words": memories["words"]}
    torch.testing.assert_close(layer(x, memories=only, causal=True), manually(["words"]))
    torch.testing.assert_close(layer(x, causal=True), manually([]))  # attention to memories off, for this call
    refuses(KeyError, "not to 'picture'", layer, x, memories={"picture": memories["words"]})


class Average(Layer):
    """A made-up layer that combines its memories in another way."""

    def combine(self, attended: dict[str, Tensor]) -> Tensor:
        return torch.stack(list(attended.values())).mean(0)


def test_a_layer_of_a_derived_class_is_what_a_stack_is_made_of() -> None:
    decoder = Decoder(layer=Average(width=8, heads=2, feedforward=16, memories=["a", "b"]), layers=3)
    assert [type(layer) for layer in decoder.layers] == [Average] * 3
    assert decoder.memories == ["a", "b"]


@pytest.mark.parametrize("pre_norm", [True, False])
def test_an_encoder_is_its_layers_and_a_norm(pre_norm: bool) -> None:
    torch.manual_seed(0)
    layer = Layer(width=8, heads=2, feedforward=16, pre_norm=pre_norm)
    encoder = shake(Encoder(layer=layer, layers=3, taps=[0, 1, 3])).eval()
    x = Padded(torch.randn(2, 5, 8), torch.tensor([5, 3]))
    encoded, tapped = encoder(x)
    first = encoder.layers[0](x.values, mask=x.mask)
    expected = encoder.layers[2](encoder.layers[1](first, mask=x.mask), mask=x.mask)
    if pre_norm:
        expected = nn.functional.layer_norm(expected, (8,), encoder.norm.weight, encoder.norm.bias)
    torch.testing.assert_close(encoded.values, expected)
    assert sorted(tapped) == [0, 1, 3]
    torch.testing.assert_close(tapped[0].values, x.values)
    torch.testing.assert_close(tapped[1].values, first)
    torch.testing.assert_close(tapped[3].values, expected)


def test_prompts_reach_their_layers() -> None:
    torch.manual_seed(0)
    encoder = shake(Encoder(layer=Layer(width=8, heads=2, feedforward=16), layers=2)).eval()
    x = Padded(torch.randn(2, 5, 8), torch.tensor([5, 3]))
    prompts = [Prompts(torch.randn(1, 3, 8), torch.randn(1, 3, 8)) for _ in range(2)]
    states = x.values
    for layer, prompt in zip(encoder.layers, prompts, strict=True):
        states = layer(states, mask=x.mask, prompts=prompt)
    torch.testing.assert_close(encoder(x, prompts=prompts)[0].values, encoder.norm(states))


@pytest.mark.parametrize("lengths", [[5, 5], [5, 2]])
def test_layers_are_captured_whole_for_compilation(lengths: list[int]) -> None:
    """No graph break, no waiting for the device, in the layers of an encoder and of a decoder."""
    encoder = Encoder(layer=Layer(width=8, heads=2, feedforward=16, dropout=0.0), layers=1)
    decoder = Decoder(layer=Layer(width=8, heads=2, feedforward=16, dropout=0.0, memories=["source"]), layers=1)
    x, y = (Padded(torch.randn(2, 5, 8), torch.tensor(lengths)) for _ in range(2))
    expected = decoder(y, {"source": encoder(x)[0]})
    for stack in (encoder, decoder):
        for layer in stack.layers:
            layer.compile(backend="eager", fullgraph=True)
    torch.testing.assert_close(decoder(y, {"source": encoder(x)[0]}).values, expected.values)


SIZES = {"width": 8, "heads": 2, "feedforward": 16}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"feedforward": 0}, "feedforward must be at least 1, not 0"),
        ({"activation": "tanh"}, "not 'tanh'"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, not 1.0"),
        ({"heads": 3}, "8 cannot be divided among 3"),
    ],
)
def test_what_a_layer_refuses(arguments: dict, message: str) -> None:
    refuses(ValueError, message, Layer, **SIZES | arguments)


def test_what_a_stack_refuses() -> None:
    refuses(ValueError, "layers must be between 1 and 1,000, not 0", Decoder, layer=Layer(**SIZES), layers=0)
    refuses(ValueError, "cannot be tapped after layer 3", Encoder, layer=Layer(**SIZES), layers=2, taps=[3])


def test_relative_positions_fit_heads_and_direction() -> None:
    def made(stack, heads: int, causal: bool):
        relative = RelativePositions(heads=heads, causal=causal, buckets=8, longest=9)
        return stack(layer=Layer(**SIZES), layers=2, relative=relative)

    for stack, heads, causal, said in (
        (Encoder, 4, False, "^relative positions of 4 heads do not fit Layers of 2$"),
        (Encoder, 2, True, "^Encoder sees what comes later: its relative positions must not be causal$"),
        (Decoder, 2, False, "^Decoder sees what is before only: its relative positions must be causal$"),
    ):
        refuses(ValueError, said, made, stack, heads, causal)
    assert plain_layer(made(Decoder, 2, True)) is None
    decoder = shake(made(Decoder, 2, True)).eval()
    x = Padded(torch.randn(1, 5, 8), torch.tensor([5]))
    whole, caches = decoder(x).values, decoder.caches({})
    steps = [decoder(Padded(x.values[:, i : i + 1], torch.tensor([1])), caches=caches).values for i in range(5)]
    torch.testing.assert_close(torch.cat(steps, 1), whole)
    without = Decoder(layer=Layer(width=8, heads=2, feedforward=16), layers=2).eval()
    without.load_state_dict({name: value for name, value in decoder.state_dict().items() if "relative" not in name})
    assert not torch.allclose(without(x).values, whole)


def test_layers_are_left_out_and_recomputed_in_training_only(monkeypatch) -> None:
    torch.manual_seed(0)
    x = Padded(torch.randn(2, 5, 8), torch.tensor([5, 3]))
    encoder = Encoder(layer=Layer(width=8, heads=2, feedforward=16, dropout=0.0), layers=2, layer_drop=0.999999)
    torch.testing.assert_close(encoder(x)[0].values, encoder.norm(x.values))
    plain = Encoder(layer=Layer(width=8, heads=2, feedforward=16, dropout=0.0), layers=2, recompute=True)
    plain.load_state_dict(encoder.state_dict())
    expected = encoder.eval()(x)[0].values
    calls, real = [], transformer.checkpoint

    def checkpoint(*given, **how):
        calls.append(how["use_reentrant"])
        return real(*given, **how)

    monkeypatch.setattr(transformer, "checkpoint", checkpoint)
    torch.testing.assert_close(plain(x)[0].values, expected)
    assert calls == [False, False]
    with torch.no_grad():
        plain(x)
    assert len(calls) == 2
    some, ran = Encoder(layer=Layer(width=8, heads=2, feedforward=16), layers=8, layer_drop=0.25), []
    for number, layer in enumerate(some.layers):
        layer.register_forward_hook(lambda *_, number=number: ran.append(number))
    for _ in range(100):
        some(x)
    assert all(60 < ran.count(number) < 90 for number in range(8))  # three and a half deviations around 75
    dropping = Encoder(layer=Layer(width=8, heads=2, feedforward=16, dropout=0.0), layers=2, final_dropout=0.999999)
    assert dropping(x)[0].values.count_nonzero() < 3 and dropping.eval()(x)[0].values.all()


def test_memories_have_a_place_in_every_row_and_all_are_there() -> None:
    decoder = Decoder(layer=Layer(width=8, heads=2, feedforward=16, memories=["a", "b"]), layers=1).eval()
    memory = Padded(torch.randn(2, 3, 8), torch.tensor([3, 0]))
    checked = decoder.check({"a": memory, "b": memory})
    assert checked["a"].lengths.tolist() == [3, 1] and decoder.check({}) == {}
    said = r"^the layers attend to \['a', 'b'\], but the memories are \['a'\]$"
    refuses(ValueError, said, decoder.check, {"a": memory})
    x = Padded(torch.randn(2, 4, 8), torch.tensor([4, 4]))
    assert decoder(x, {"a": memory, "b": memory}).values.isfinite().all()
    assert (decoder.width, decoder.depth, decoder.state_width, decoder.memories) == (8, 1, 8, ["a", "b"])


def test_plain_layers_are_those_of_encoders_and_decoders_themselves() -> None:
    layer = Layer(width=8, heads=2, feedforward=16)
    encoder = Encoder(layer=layer, layers=1)
    assert plain_layer(encoder) is layer and plain_layer(nn.Linear(1, 1)) is None
    assert plain_layer(Decoder(layer=Average(width=8, heads=2, feedforward=16), layers=1)) is None
    assert plain_layer(type("Own", (Encoder,), {})(layer=Layer(width=8, heads=2, feedforward=16), layers=1)) is None


def test_parts_of_a_layer_are_built_again_with_parameters_of_their_own() -> None:
    layer = Layer(width=8, heads=2, feedforward=16, memories=["a"])
    again = fresh({"one": [layer, 3], "two": "text"})
    assert again["two"] == "text" and again["one"][1] == 3
    assert again["one"][0] is not layer and again["one"][0].arguments == layer.arguments
    assert not {*layer.parameters()} & {*again["one"][0].parameters()}


class Open(EncoderLayer):
    """A layer that sees what comes later."""

    pre_norm = False

    def __init__(self) -> None:
        nn.Module.__init__(self)


def test_a_decoder_is_made_of_layers_that_see_what_is_before() -> None:
    said = "^a Open sees what comes later: it is for encoders only$"
    decoder = Decoder(layer=Layer(width=8, heads=2, feedforward=16), layers=1)
    refuses(ValueError, said, decoder.check_layer, object.__new__(Open))


def test_a_causal_encoder_is_torchs_with_a_causal_mask():
    ours = shake(Layer(width=8, heads=2, feedforward=16, activation="relu"))
    stack = CausalEncoder(layer=ours, layers=1, final_norm=False).double().eval()
    theirs = torch_layer(ours, activation="relu").double().eval()
    x = Padded(torch.randn(2, 5, 8, dtype=torch.double), torch.tensor([5, 3]))
    found, _ = stack(x)
    wanted = theirs(x.values, src_mask=torch.full((5, 5), -math.inf).triu(1).double())
    torch.testing.assert_close(found.values[x.mask], wanted[x.mask])
    conformer = ConformerLayer(width=8, heads=2, feedforward=16, kernel=3)
    assert plain_layer(stack) is None  # nobody takes it for an encoder that sees all
    refuses(ValueError, "may see what comes later", CausalEncoder, layer=conformer, layers=1)
