"""SpecAugment, the subsampler and the whole speech front end."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dragoman.shared.nn.fbank import Fbank, UtteranceNorm
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.positions import SinusoidalPositions
from dragoman.shared.nn.specaugment import SpecAugment
from dragoman.shared.nn.speech import SpeechEmbedding
from dragoman.shared.nn.subsampler import Conv1dSubsampler, ConvolutionalStem
from dragoman.shared.nn.transformer import Encoder
from dragoman.shared.nn.waveform import WaveformEncoder
from dragoman.shared.padded import Padded
from tests.small import refuses


def runs(hidden: torch.Tensor) -> list[tuple[int, int]]:
    """Return (start, width) of each run of True."""
    padded = np.concatenate([[0], hidden.int().numpy(), [0]])
    edges = np.flatnonzero(np.diff(padded))
    return [(int(a), int(b - a)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def test_specaugment_hides_stretches_inside_each_rows_length() -> None:
    torch.manual_seed(0)
    lengths = torch.tensor([50, 20, 8, 1] * 200)
    ones = Padded(torch.ones(800, 50, 30), lengths)
    augmented = SpecAugment(frequency_masks=1, frequency_width=10, time_masks=1, time_width=12, time_share=0.5)(ones)
    widths: dict[int, set[int]] = {50: set(), 20: set(), 8: set(), 1: set()}
    starts, bands = set(), set()
    for values, length in zip(augmented.values, lengths.tolist(), strict=True):
        visible_bins = values.amax(0) > 0
        band = runs(~visible_bins)
        assert len(band) <= 1
        bands.add(band[0][1] if band else 0)
        stretch = runs(values[:, visible_bins].amax(1) == 0)
        assert len(stretch) <= 1
        if stretch:
            start, width = stretch[0]
            assert start + width <= length
            widths[length].add(width)
            if length == 8:
                starts.add(start)
        else:
            widths[length].add(0)
    # Widths are uniform from 0 to the smaller of 12 and half the row, starts wherever they fit.
    assert widths == {50: set(range(13)), 20: set(range(11)), 8: set(range(5)), 1: {0}}
    assert starts == set(range(8))
    assert bands == set(range(11))


@pytest.mark.parametrize("arguments", [{"time_masks": -1}, {"time_share": 1.5}])
def test_specaugment_refuses(arguments) -> None:
    refuses(ValueError, str(next(iter(arguments.values()))), SpecAugment, **arguments)


def test_a_stem_is_two_convolutions_of_the_rows_alone() -> None:
    torch.manual_seed(0)
    stem = ConvolutionalStem(inputs=3, width=2)
    rows = [torch.randn(length, 3) for length in (9, 1, 6)]
    found = stem(Padded.from_sequences(rows, padding=5.0))
    assert stem.stride == 2 and stem.lengths(torch.tensor([9, 1, 6])).tolist() == found.lengths.tolist() == [5, 1, 3]
    for row, ours in zip(rows, found.rows(), strict=True):
        x = row.T[None]
        for one, stride in ((stem.first, 1), (stem.second, 2)):
            x = F.gelu(F.conv1d(x, one.weight, one.bias, stride=stride, padding=1))
        torch.testing.assert_close(ours, x[0].T, atol=1e-5, rtol=1e-5)


def test_subsampler_is_convolutions_and_gated_units() -> None:
    torch.manual_seed(0)
    subsampler = Conv1dSubsampler(inputs=3, channels=4, width=2, kernels=[5, 3]).double()
    x = torch.randn(11, 3, dtype=torch.float64)
    expected = x.T[None]
    for one, kernel in zip(subsampler.convolutions, (5, 3), strict=True):
        expected = F.glu(F.conv1d(expected, one.weight, one.bias, stride=2, padding=kernel // 2), dim=1)
    found = subsampler(Padded(x[None], torch.tensor([11])))
    torch.testing.assert_close(found.values[0], expected[0].T)
    assert found.lengths.tolist() == subsampler.lengths(torch.tensor([11])).tolist() == [3]


def test_subsampler_rows_do_not_depend_on_padding_in_values_or_gradients() -> None:
    torch.manual_seed(0)
    subsampler = Conv1dSubsampler(inputs=4, channels=8, width=6)
    for length in (1, 2, 3, 4, 5, 6, 7, 13):
        row = torch.randn(length, 4)
        padded = torch.full((2, 29, 4), 5.0)
        padded[0, :length] = row
        results, gradients = [], []
        for batch in (Padded(row[None], torch.tensor([length])), Padded(padded, torch.tensor([length, 29]))):
            values = batch.values.clone().requires_grad_()
            result = subsampler(Padded(values, batch.lengths)).rows()[0]
            (result**2).sum().backward()
            results.append(result)
            gradients.append(values.grad[0])
        torch.testing.assert_close(results[0], results[1])
        torch.testing.assert_close(gradients[0], gradients[1][:length])
        assert gradients[1][length:].abs().sum() == 0


def front_end(**changes) -> SpeechEmbedding:
    arguments = {
        "frontend": Fbank(),
        "normalisation": UtteranceNorm(),
        "augmentation": SpecAugment(),
        "subsampler": Conv1dSubsampler(channels=16, width=8),
        "positions": SinusoidalPositions(width=8),
    }
    torch.manual_seed(0)
    return SpeechEmbedding(**arguments | changes)


def test_speech_rows_do_not_depend_on_their_batch() -> None:
    embedding = front_end().eval()
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randn(length, generator=generator) * 0.1 for length in (12000, 5321, 300)]
    together = embedding(Padded.from_sequences(rows, padding=0.9))
    assert together.lengths.tolist() == [19, 8, 1]
    for row, ours in zip(rows, together.rows(), strict=True):
        torch.testing.assert_close(embedding(Padded.from_sequences([row])).values[0], ours, atol=1e-4, rtol=1e-4)


def test_a_model_in_bfloat16_reads_features_in_single_precision() -> None:
    embedding = front_end().eval()
    speech = Padded.from_sequences([torch.randn(12000) * 0.1, torch.randn(5000) * 0.1])
    with torch.no_grad():
        expected = embedding(speech)
        features = embedding.features(speech)
        result = embedding.to(torch.bfloat16)(speech)
        assert torch.equal(embedding.features(speech).values, features.values)
    assert result.values.dtype == torch.bfloat16
    torch.testing.assert_close(result.values.float()[0], expected.values[0], atol=0.1, rtol=0.05)


def test_widths_and_bins_of_a_front_end_fit_together() -> None:
    subsampler = Conv1dSubsampler(inputs=16, channels=8, width=8)
    parts = {"frontend": Fbank(bins=16), "normalisation": UtteranceNorm(), "subsampler": subsampler}
    SpeechEmbedding(**parts, positions=SinusoidalPositions(width=8))
    said = "positions of width 12 cannot be added to a subsampler's vectors of width 8"
    refuses(ValueError, said, SpeechEmbedding, **parts, positions=SinusoidalPositions(width=12))
    parts |= {"frontend": Fbank(bins=20), "positions": SinusoidalPositions(width=8)}
    refuses(ValueError, "a subsampler of 16 inputs cannot read features of 20 bins", SpeechEmbedding, **parts)


def test_speech_embedding_is_scaled_features_plus_positions_and_trains_the_subsampler() -> None:
    embedding = front_end().eval()
    speech = Padded.from_sequences([torch.randn(9000) * 0.1])
    subsampled = embedding.subsampler(embedding.features(speech)).values
    positions = torch.zeros(subsampled.shape[1], 8)
    for t in range(len(positions)):
        for i in range(4):
            angle = (t + 2) * 10000 ** (-i / 3)
            positions[t, i], positions[t, i + 4] = np.sin(angle), np.cos(angle)
    result = embedding(speech)
    torch.testing.assert_close(result.values[0], subsampled[0] * 8**0.5 + positions, atol=1e-5, rtol=1e-5)
    result.values.sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in embedding.parameters())


def test_speech_embedding_knows_its_lengths_and_lies_below_an_encoder() -> None:
    embedding = front_end().eval()
    speech = Padded.from_sequences([torch.randn(length) for length in (9000, 401, 5000)])
    assert torch.equal(embedding.lengths(speech.lengths), embedding(speech).lengths)
    encoder = Encoder(layer=Layer(width=8, heads=2, feedforward=8, dropout=0.0), layers=1).eval()
    below = WaveformEncoder(embedding=embedding, encoder=encoder).eval()
    torch.testing.assert_close(below(speech).values, encoder(embedding(speech))[0].values)
    assert below.width == 8 and below.hop == 640  # one state for each vector of the embedding
    above = SpeechEmbedding(frontend=below, subsampler=Conv1dSubsampler(inputs=8, channels=8, width=4, kernels=[3]))
    assert (above.hop, above.stride) == (640, 1280)
    assert above.lengths(torch.tensor([9000 + 1280])) == above.lengths(torch.tensor([9000])) + 1


def test_hidden_frames_are_heard_as_the_mean_of_their_row() -> None:
    front = front_end().eval()
    torch.manual_seed(1)
    speech = Padded.from_sequences([torch.randn(4000), torch.randn(3000)])
    hidden = torch.zeros(2, 23, dtype=torch.bool)
    hidden[0, 3:9] = hidden[1, 0] = True
    features = front.features(speech)
    values = features.values.clone()
    for row, frames in ((0, range(3, 9)), (1, [0])):
        for frame in frames:
            values[row, frame] = features.rows()[row].mean(0)
    expected = front.embed(Padded(values, features.lengths))
    torch.testing.assert_close(front(speech, hidden).values, expected.values)
    assert not torch.allclose(front(speech).values, expected.values)


def test_augmentation_happens_in_training_only() -> None:
    embedding = front_end(augmentation=SpecAugment(frequency_width=80), dropout=0.0)
    speech = Padded.from_sequences([torch.randn(9000) * 0.1])
    torch.manual_seed(1)
    assert isinstance(embedding.augmentation, nn.Module)
    training = embedding(speech).values
    assert not torch.equal(training, embedding.eval()(speech).values)
