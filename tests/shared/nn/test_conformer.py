"""Conformer layers against loops over frames, and what they promise of rows and places."""

import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dragoman.shared.nn.conformer import ConformerLayer, ConvolutionModule, RelativeAttention
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.padded import Padded
from tests.small import refusal, refuses

WIDTH, HEADS, LENGTHS = 12, 3, (7, 4, 1)


@pytest.fixture(autouse=True)
def in_float64():
    torch.manual_seed(5)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def random_layer(**changes) -> ConformerLayer:
    layer = ConformerLayer(**{"width": WIDTH, "heads": HEADS, "feedforward": 20, "kernel": 5} | changes)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.3)
    return layer.eval()


def rows() -> Padded:
    return Padded(torch.randn(len(LENGTHS), max(LENGTHS), WIDTH), torch.tensor(LENGTHS))


def distance(number: int) -> torch.Tensor:
    """Return r of section 3.3: sines, then cosines."""
    angles = [number / 10000 ** (2 * k / WIDTH) for k in range(WIDTH // 2)]
    return torch.tensor([*map(math.sin, angles), *map(math.cos, angles)])


def attended(attention: RelativeAttention, x: torch.Tensor) -> torch.Tensor:
    """Attend from each frame of one row (L, D) to each other, by the equation."""
    length, size = len(x), WIDTH // HEADS
    queries, keys, values = attention.queries_keys_values(x).view(length, 3, HEADS, size).unbind(1)
    found = torch.zeros(length, HEADS, size)
    for head in range(HEADS):
        u, v = attention.content_bias[head, 0], attention.distance_bias[head, 0]
        for i in range(length):
            scores = []
            for j in range(length):
                key = attention.distance_keys(distance(i - j))[head * size : (head + 1) * size]
                q = queries[i, head]
                scores.append(((q + u) @ keys[j, head] + (q + v) @ key) / math.sqrt(size))
            found[i, head] = torch.stack(scores).softmax(0) @ values[:, head]
    return attention.output(found.flatten(1))


def test_attention_scores_content_and_distance():
    attention, x = random_layer().self_attention, rows()
    found = attention(x.values, mask=x.mask)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(found[row, :length], attended(attention, x.values[row, :length]))


def test_a_convolution_finds_zeros_behind_a_row_and_before_it():
    module, x = random_layer().convolution, rows()
    found = module(x.values, x.mask)
    weights = module.depthwise.weight[:, 0]  # (D, K)
    for row, length in enumerate(LENGTHS):
        frames = F.layer_norm(x.values[row, :length], (WIDTH,), module.norm.weight, module.norm.bias)
        left, right = (frames @ module.gated.weight.T).chunk(2, dim=-1)
        gated = left / (1 + (-right).exp())
        for place in range(length):
            total = torch.zeros(WIDTH)
            for k in range(5):
                if 0 <= place + k - 2 < length:
                    total += weights[:, k] * gated[place + k - 2]
            normed = (total - total.mean()) / (total.var(unbiased=False) + 1e-5).sqrt()
            normed = normed * module.depthwise_norm.weight + module.depthwise_norm.bias
            expected = module.output.weight @ (normed / (1 + (-normed).exp()))
            torch.testing.assert_close(found[row, place], expected)


def test_feed_forward_nets_count_half():
    """Without attention and convolution, the layer is the equation's first and last terms."""
    layer, x = random_layer(), rows().values
    for silent in (layer.self_attention.output, layer.convolution.output):
        for parameter in silent.parameters():
            nn.init.zeros_(parameter)

    def net(module, x):
        h = F.layer_norm(x, (WIDTH,), module.norm.weight, module.norm.bias) @ module.inner.weight.T + module.inner.bias
        return (h * torch.sigmoid(h)) @ module.outer.weight.T + module.outer.bias

    y = x + 0.5 * net(layer.first, x)
    y = y + 0.5 * net(layer.second, y)
    torch.testing.assert_close(layer(x), F.layer_norm(y, (WIDTH,), layer.norm.weight, layer.norm.bias))


def test_a_row_is_encoded_alike_alone_and_in_a_batch():
    encoder, x = Encoder(layer=random_layer(), layers=2, taps=[1]), rows()
    encoder.eval()
    together, tapped = encoder(x)
    for row, length in enumerate(LENGTHS):
        alone, tap = encoder(Padded(x.values[row : row + 1, :length], torch.tensor([length])))
        torch.testing.assert_close(alone.values[0], together.values[row, :length])
        torch.testing.assert_close(tap[1].values[0], tapped[1].values[row, :length])


def test_what_leaves_a_stack_is_normalised_once():
    encoder = Encoder(layer=ConformerLayer(width=WIDTH, heads=HEADS, feedforward=20), layers=2)
    assert isinstance(encoder.norm, nn.Identity)
    states = encoder.eval()(rows())[0].values
    torch.testing.assert_close(states.mean(-1), torch.zeros(states.shape[:-1]))


def test_dropout_has_its_places():
    """At each of them alone, training differs from evaluation."""
    x = rows()
    for name in ("dropout", "attention_dropout", "activation_dropout"):
        layer = random_layer(**({"dropout": 0.0} | {name: 0.5}))
        assert not layer.train()(x.values, mask=x.mask).equal(layer.eval()(x.values, mask=x.mask)), name
    layer = random_layer(dropout=0.0)
    torch.testing.assert_close(layer.train()(x.values, mask=x.mask), layer.eval()(x.values, mask=x.mask))


def test_what_it_cannot_do_is_refused():
    refuses(ValueError, "kernel must be odd, not 4", ConvolutionModule, width=4, kernel=4, norm_epsilon=1e-5)
    refuses(ValueError, "feedforward must be at least 1, not 0", ConformerLayer, width=4, heads=2, feedforward=0)
    layer, x = random_layer(), rows()
    said = "a ConformerLayer sees what comes later: it is for encoders only"
    refuses(ValueError, said, Decoder, layer=layer, layers=1)
    refuses(ValueError, "not to memories or prompts", layer, x.values, memories={"source": x})
    refuses(ValueError, "not to memories or prompts", layer, x.values, prompts=(x.values, x.values))


@pytest.mark.parametrize("distances", [(2, 1), (0, 0), (9, 9)])
def test_attention_by_clipped_distances(distances):
    behind, ahead = distances
    attention, x = random_layer(distances=distances).self_attention, rows()
    assert attention.distance_keys.shape == (behind + 1 + ahead, WIDTH // HEADS)
    found = attention(x.values, mask=x.mask)
    for row, length in enumerate(LENGTHS):
        size, own = WIDTH // HEADS, x.values[row, :length]
        queries, keys, values = attention.queries_keys_values(own).view(length, 3, HEADS, size).unbind(1)
        expected = torch.zeros(length, HEADS, size)
        for head in range(HEADS):
            for i in range(length):
                places = [max(-behind, min(j - i, ahead)) + behind for j in range(length)]
                of_keys = keys[:, head] + attention.distance_keys[places]
                expected[i, head] = (of_keys @ queries[i, head] / math.sqrt(size)).softmax(0) @ values[:, head]
        torch.testing.assert_close(found[row, :length], attention.output(expected.flatten(1)))
    everywhere = attention(x.values[:1])
    torch.testing.assert_close(everywhere, found[:1])  # the first row is the longest


def test_vectors_of_distances_begin_random():
    made = partial(ConformerLayer, width=WIDTH, heads=HEADS, feedforward=20)
    attention = made(distances=(3, 2)).self_attention
    assert attention.distance_keys.abs().max() <= math.sqrt(6 / (6 + 4)) and attention.distance_keys.std() > 0.2
    said = "distances must be two, behind and ahead, not (1, 2, 3)"
    assert refusal(ValueError, made, distances=(1, 2, 3)) == said
    layer = random_layer(dropout=0.0, attention_dropout=0.5, distances=(1, 1))
    x = rows()
    assert not layer.train()(x.values, mask=x.mask).equal(layer.eval()(x.values, mask=x.mask))
