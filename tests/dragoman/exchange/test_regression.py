"""Mixtures of layers, pooling and the regression: against hand values, a grid, and loops."""

import itertools

import numpy as np
import pytest
import torch

from dragoman.exchange.regression import LayerMix, SegmentRegressor, first, largest, sparsemax
from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.padded import Padded
from tests import small
from tests.small import refuses


def padded(seed: int, lengths: tuple[int, ...] = (3, 1, 2), width: int = 4) -> Padded:
    generator = torch.Generator().manual_seed(seed)
    return small.padded([torch.randn(length, width, generator=generator) for length in lengths], padding=9)


@pytest.mark.parametrize("scores", [(0.3, 0.1, -0.2), (2.0, 0.1, 0.4), (0.5, 0.5, -1.0)])
def test_sparsemax_is_the_nearest_point_of_the_simplex(scores):
    steps = np.arange(0, 101) / 100
    points = [(a, b, 1 - a - b) for a, b in itertools.product(steps, steps) if a + b <= 1 + 1e-9]
    nearest = min(points, key=lambda point: np.sum((np.array(point) - scores) ** 2))
    np.testing.assert_allclose(sparsemax(torch.tensor(scores)), nearest, atol=0.011)


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
    encoder = small.encoder(1, taps, width=4, feedforward=6)
    model = EncoderModel(embeddings={"source": small.embedding(9, 4, None, padding=1)}, encoder=encoder)
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
    refuses(UsageError, "reference", model, hypothesis, source, None if with_reference else reference)


def test_a_vector_is_that_of_the_only_layer_or_of_the_mixture():
    tokens = Padded.from_sequences([torch.tensor([2, 5, 6]), torch.tensor([4])], padding=1)
    for taps in ((1,), (0, 1)):
        model = regressor(mix=LayerMix(layers=2, normalised=False) if len(taps) == 2 else None, taps=taps)
        encoding = model.model.encode(Batch({"source": tokens}), "source")
        states = [model.model.tap(encoding, tap).values for tap in taps]
        mixed = states[0] if len(taps) == 1 else (states[0] + states[1]) / 2
        expected = torch.stack([mixed[0].mean(dim=0), mixed[1, 0]])
        torch.testing.assert_close(model.vectors(tokens), expected)


def test_the_vector_of_a_text_does_not_depend_on_its_batch():
    model = regressor(mix=LayerMix(layers=2, normalised=True), taps=(0, 1))
    texts = [torch.tensor([2, 5, 6, 3, 7]), torch.tensor([4, 3])]
    with torch.no_grad():
        together = model.vectors(Padded.from_sequences(texts, padding=1))
        for text, vector in zip(texts, together, strict=True):
            torch.testing.assert_close(model.vectors(Padded.from_sequences([text], padding=1))[0], vector)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (regressor, {"pooling": "median"}, "pooling must be one of mean, first, largest, not 'median'"),
        (regressor, {"activation": "relu"}, "activation must be one of tanh, sigmoid, not 'relu'"),
        (regressor, {"final_activation": "relu"}, "^final_activation must be one of tanh, sigmoid, not 'relu'$"),
        (LayerMix, {"layers": 0}, "^LayerMix: layers must be at least 1, not 0$"),
        (LayerMix, {"layers": 2, "transformation": "entmax"}, "transformation: 'entmax' is not one of 'softmax', 'sp"),
    ],
)
def test_wrong_parts_are_refused(make, options, message):
    refuses(UsageError, message, make, **options)


def test_what_reads_layers_is_made_for_their_number():
    said = "^the encoder has {} taps, and what reads them is made for another number$"
    for taps, mix in (((0, 1), None), ((1,), LayerMix(layers=2)), ((0, 1), LayerMix(layers=3))):
        refuses(UsageError, said.format(len(taps)), regressor, taps=taps, mix=mix)
    assert LayerMix(layers=1).scores.tolist() == [0.0] and LayerMix(layers=1).gamma.tolist() == [1.0]


def test_activations_and_widths_of_the_net():
    kinds = [type(part).__name__ for part in regressor(activation="sigmoid", final_activation="tanh").estimator]
    assert kinds == ["Linear", "Sigmoid", "Linear", "Tanh"]
    plain = regressor()
    assert [type(part).__name__ for part in plain.estimator] == ["Linear", "Tanh", "Linear"]
    assert (plain.pooling, plain.with_reference) == ("mean", True)
    assert plain.estimator[0].weight.shape == (5, 24) and plain.estimator[2].weight.shape == (1, 5)
    wide = SegmentRegressor(model=plain.model, mix=None, with_reference=False)
    assert [part.weight.shape for part in wide.estimator if hasattr(part, "weight")] == [
        (3072, 16), (1024, 3072), (1, 1024),
    ]  # fmt: skip
    one = torch.randn(2, 4)
    refuses(UsageError, "^this model reads no reference$", wide, one, one, one)
    refuses(UsageError, "^this model reads a reference$", plain, one, one)


def test_a_mixture_may_be_sparse():
    layers = [padded(seed) for seed in range(3)]
    mix = LayerMix(layers=3, transformation="sparsemax")
    with torch.no_grad():
        mix.scores.copy_(torch.tensor([0.7, -0.4, 0.5]))
    expected = 0.6 * layers[0].values + 0.4 * layers[2].values
    torch.testing.assert_close(mix(layers).values, expected)
