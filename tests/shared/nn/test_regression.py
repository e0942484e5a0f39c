"""Mixtures of layers, pooling and the regression: against hand values, a grid, and loops."""

import itertools

import numpy as np
import pytest
import torch

from shared.errors import UsageError
from shared.nn.embeddings import TextEmbedding
from shared.nn.layer import Layer
from shared.nn.regression import LayerMix, SegmentRegressor, first, largest, sparsemax
from shared.nn.transformer import Encoder
from shared.nn.translator import EncoderModel
from shared.padded import Padded


def padded(seed: int, lengths: tuple[int, ...] = (3, 1, 2), width: int = 4) -> Padded:
    generator = torch.Generator().manual_seed(seed)
    return Padded.from_sequences([torch.randn(length, width, generator=generator) for length in lengths], padding=9)


@pytest.mark.parametrize("scores", [(0.3, 0.1, -0.2), (2.0, 0.1, 0.4), (0.5, 0.5, -1.0)])
def test_sparsemax_is_the_nearest_point_of_the_simplex(scores):
    steps = np.arange(0, 101) / 100
    points = [(a, b, 1 - a - b) for a, b in itertools.product(steps, steps) if a + b <= 1 + 1e-9]
    nearest = min(points, key=lambda point: np.sum((np.array(point) - scores) ** 2))
    np.testing.assert_allclose(sparsemax(torch.tensor(scores)), nearest, atol=0.011)


def test_sparsemax_of_hand():
    # Without the third: 0.7 + 0.5 - 1 = 0.2, half of which is taken from both.
    torch.testing.assert_close(sparsemax(torch.tensor([0.7, -0.4, 0.5])), torch.tensor([0.6, 0.0, 0.4]))


@pytest.mark.parametrize("normalised", [False, True])
def test_a_mixture_is_the_weighted_sum_of_layers(normalised):
    layers = [padded(seed) for seed in range(3)]
    mix = LayerMix(layers=3, normalised=normalised)
    with torch.no_grad():
        mix.scores.copy_(torch.tensor([0.4, -0.3, 1.0]))
        mix.gamma.fill_(1.7)
    mixed = mix(layers)
    exponentials = np.exp([0.4, -0.3, 1.0])
    for row, length in enumerate((3, 1, 2)):
        total = np.zeros((length, 4))
        for layer, exponential in zip(layers, exponentials, strict=True):
            states = layer.values[row, :length].numpy()
            if normalised:
                states = (states - states.mean()) / states.std()
            total += exponential / exponentials.sum() * states
        np.testing.assert_allclose(mixed.values[row, :length].detach(), 1.7 * total, rtol=1e-4, atol=1e-5)


def test_pooling_never_reads_padding():
    states = padded(5)
    np.testing.assert_array_equal(largest(states), [row.numpy().max(0) for row in states.rows()])
    np.testing.assert_array_equal(first(states), [row.numpy()[0] for row in states.rows()])


def regressor(*, mix: LayerMix | None = None, taps: tuple[int, ...] = (1,), **options) -> SegmentRegressor:
    torch.manual_seed(4)
    encoder = Encoder(layer=Layer(width=4, heads=2, feedforward=6), layers=1, taps=list(taps))
    model = EncoderModel(embeddings={"source": TextEmbedding(vocabulary=9, width=4, padding=1)}, encoder=encoder)
    return SegmentRegressor(model=model, mix=mix, hidden=[5], **options).eval()


@pytest.mark.parametrize("with_reference", [True, False])
def test_the_net_reads_products_and_distances(with_reference):
    model = regressor(with_reference=with_reference)
    hypothesis, source, reference = (torch.randn(2, 4, generator=torch.Generator().manual_seed(n)) for n in range(3))
    h, s, r = (part.numpy() for part in (hypothesis, source, reference))
    read = [h, r, h * r, abs(h - r), h * s, abs(h - s)] if with_reference else [h, s, h * s, abs(h - s)]
    inner, outer = model.estimator[0], model.estimator[2]
    hidden = np.tanh(np.concatenate(read, 1) @ inner.weight.detach().numpy().T + inner.bias.detach().numpy())
    expected = (hidden @ outer.weight.detach().numpy().T + outer.bias.detach().numpy())[:, 0]
    found = model(hypothesis, source, reference if with_reference else None)
    np.testing.assert_allclose(found.detach(), expected, rtol=1e-5)
    with pytest.raises(UsageError, match="reference"):
        model(hypothesis, source, None if with_reference else reference)


def test_the_vector_of_a_text_does_not_depend_on_its_batch():
    model = regressor(mix=LayerMix(layers=2, normalised=True), taps=(0, 1))
    texts = [torch.tensor([2, 5, 6, 3, 7]), torch.tensor([4, 3])]
    with torch.no_grad():
        together = model.vectors(Padded.from_sequences(texts, padding=1))
        for text, vector in zip(texts, together, strict=True):
            torch.testing.assert_close(model.vectors(Padded.from_sequences([text], padding=1))[0], vector)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "median"}, "pooling must be one of mean, first, largest, not 'median'"),
        ({"activation": "relu"}, "activation must be one of tanh, sigmoid, not 'relu'"),
        ({"taps": (0, 1)}, "the encoder has 2 taps"),
    ],
)
def test_wrong_parts_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        regressor(**options)


def test_an_unknown_transformation_is_refused():
    with pytest.raises(UsageError, match="must be one of softmax, sparsemax, not 'entmax'"):
        LayerMix(layers=2, transformation="entmax")
