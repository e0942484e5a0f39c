"""The parts of w2v-BERT 2.0 that a Conformer lacks: clipped distances, causal convolutions, stacked frames."""

import torch

from dragoman.shared.nn.conformer import ConformerLayer
from dragoman.shared.nn.fbank import UtteranceNorm
from dragoman.shared.nn.subsampler import StackedFrames
from dragoman.shared.padded import Padded


def layer(**given) -> ConformerLayer:
    torch.manual_seed(1)
    return ConformerLayer(width=8, heads=2, feedforward=12, kernel=4, dropout=0.0, distances=[3, 0], **given).eval()


def test_a_causal_convolution_sees_no_later_frame_and_a_row_not_its_batch() -> None:
    module = layer(causal=True)
    x = torch.randn(2, 9, 8)
    later = x.clone()
    later[:, 6:] = torch.randn(2, 3, 8)
    convolution = module.convolution
    torch.testing.assert_close(convolution(x)[:, :6], convolution(later)[:, :6])
    assert not torch.allclose(convolution(x)[:, 6], convolution(later)[:, 6])
    first = x.clone()
    first[:, 2] = torch.randn(2, 8)  # which four frames see, itself and three later ones
    moved = (convolution(x) - convolution(first)).abs().amax((0, 2)) > 1e-6
    assert moved.tolist() == [False, False, True, True, True, True, False, False, False]
    mask = torch.tensor([[True] * 9, [True] * 5 + [False] * 4])
    torch.testing.assert_close(module(x, mask=mask)[1:, :5], module(x[1:, :5]))


def test_frames_are_stacked_and_the_rest_is_left_out() -> None:
    stacked = StackedFrames(inputs=3, width=4, stride=2)
    features = torch.randn(3, 5, 3)
    lengths = torch.tensor([5, 4, 1])
    found = stacked(Padded(features, lengths))
    assert found.lengths.tolist() == stacked.lengths(lengths).tolist() == [2, 2, 1]
    for row, count in enumerate((2, 2)):
        for place in range(count):
            pair = torch.cat([features[row, 2 * place], features[row, 2 * place + 1]])
            expected = stacked.projection((pair - pair.mean()) / (pair.var(unbiased=False) + 1e-5).sqrt())
            torch.testing.assert_close(found.values[row, place], expected, atol=1e-5, rtol=1e-5)
    alone = stacked(Padded(features[2:, :1], lengths[2:]))
    assert alone.lengths.tolist() == [1]
    torch.testing.assert_close(alone.values[0, 0], found.values[2, 0])


def test_variances_may_be_unbiased() -> None:
    features = Padded(torch.randn(2, 6, 3), torch.tensor([6, 4]))
    found = UtteranceNorm(correction=1, epsilon=0.5)(features)
    for row, length in enumerate((6, 4)):
        x = features.values[row, :length]
        expected = (x - x.mean(0)) / (x.var(0) + 0.5).sqrt()
        torch.testing.assert_close(found.values[row, :length], expected)
    assert not UtteranceNorm(correction=1)(Padded(torch.randn(1, 1, 3), torch.tensor([1]))).values.any()
