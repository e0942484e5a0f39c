"""Spans against a loop over rows that draws as fairseq's compute_mask_indices does."""

import numpy as np
import pytest
import torch

from dragoman.shared.nn.spans import SpanMasking, others, spans
from dragoman.shared.padded import Padded


def by_loop(rng: np.random.Generator, size: int, probability: float, span: int, least: int) -> np.ndarray:
    count = max(least, int(probability * size / span + rng.random()))
    shortest = size - count - 1 if size - span <= count else span
    places = (rng.choice(size - shortest, count, replace=False)[:, None] + np.arange(span)).ravel()
    mask = np.zeros(size, dtype=bool)
    mask[places[places < size]] = True
    return mask


@pytest.mark.parametrize(
    ("size", "probability", "span", "least"), [(100, 0.65, 10, 2), (37, 0.3, 5, 0), (11, 0.65, 10, 2), (9, 0.5, 10, 2)]
)
def test_positions_and_numbers_are_distributed_as_in_the_loop(size, probability, span, least) -> None:
    rng, draws = np.random.default_rng(0), 2000
    expected = np.stack([by_loop(rng, size, probability, span, least) for _ in range(draws)])
    torch.manual_seed(0)
    sizes = torch.tensor([size, size // 2] * draws)
    drawn = spans(sizes, size + 3, probability=probability, span=span, least=least).numpy()[::2]
    assert not drawn[:, size:].any()
    drawn = drawn[:, :size]
    # five deviations of a share that is measured twice
    np.testing.assert_allclose(drawn.mean(0), expected.mean(0), atol=5 * np.sqrt(2 * 0.25 / draws))
    totals = [np.bincount(masks.sum(1), minlength=size + 1) / draws for masks in (drawn, expected)]
    np.testing.assert_allclose(totals[0], totals[1], atol=5 * np.sqrt(2 * 0.25 / draws))


@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_rows_of_few_frames(size: int) -> None:
    drawn = spans(torch.full((50,), size), 3, probability=0.65, span=10, least=2)
    assert drawn.shape == (50, 3)
    assert not drawn[:, size:].any()


def test_masked_frames_are_the_vector_and_masked_channels_zero() -> None:
    masking = SpanMasking(width=30, probability=0.5, span=4, channel_probability=0.3, channel_span=5)
    x = Padded(torch.randn(10, 50, 30) + 10, torch.tensor([50, 23] * 5))
    torch.manual_seed(3)
    frames, channels = masking.draw(x)
    torch.manual_seed(3)
    masked = masking(x)
    for values, before, hidden, gone in zip(masked.values, x.values, frames, channels, strict=True):
        for frame, channel in ((frame, channel) for frame in range(50) for channel in (0, 11, 29)):
            wanted = 0.0 if gone[channel] else (masking.vector if hidden[frame] else before[frame])[channel]
            assert values[frame, channel] == wanted
    assert 0.2 < frames[::2].float().mean() < 0.5
    assert 0.1 < channels.float().mean() < 0.35
    assert not frames[1::2, 23:].any()
    masked.values.sum().backward()
    assert masking.vector.grad is not None
    assert masking.eval()(x) is x


def test_given_frames_are_hidden_in_evaluation_too() -> None:
    masking = SpanMasking(width=3, channel_probability=0.9).eval()
    x = Padded(torch.randn(2, 4, 3), torch.tensor([4, 2]))
    frames = torch.tensor([[True, False, False, True], [False, True, False, False]])
    hidden = masking.hide(x, frames)
    assert torch.equal(hidden.values[frames], masking.vector.expand(3, 3))
    assert torch.equal(hidden.values[~frames], x.values[~frames])


def test_frames_drawn_from_lengths_alone_are_those_of_draw() -> None:
    masking = SpanMasking(width=30)
    x = Padded(torch.randn(3, 50, 30), torch.tensor([50, 23, 31]))
    torch.manual_seed(5)
    frames, _ = masking.draw(x)
    torch.manual_seed(5)
    assert torch.equal(masking.draw_frames(x.lengths, 50), frames)


def test_others_are_all_elements_of_the_row_but_one_equally_often() -> None:
    torch.manual_seed(1)
    drawn = others(torch.tensor([5, 2, 4]), 3000)
    assert drawn.shape == (3, 5, 3000) and drawn.dtype == torch.int64
    for row, size in enumerate((5, 2, 4)):
        for place in range(size):
            counts = torch.bincount(drawn[row, place], minlength=size)
            assert len(counts) == size and counts[place] == 0
            assert min(count for number, count in enumerate(counts.tolist()) if number != place) > 2400 / (size - 1)


def test_settings_at_their_ends_and_by_default() -> None:
    plain = SpanMasking(width=300)
    assert (plain.probability, plain.span, plain.least, plain.channel_probability) == (0.65, 10, 2, 0.0)
    assert plain.channel_span == 10 and plain.vector.min() >= 0 and 0.9 < plain.vector.max() <= 1
    frames, channels = plain.draw(Padded(torch.zeros(2, 50, 300), torch.tensor([50, 30])))
    assert frames.any() and channels.shape == (2, 300) and not channels.any()
    frames, channels = SpanMasking(width=6, probability=0.0).draw(Padded(torch.zeros(2, 5, 6), torch.tensor([5, 3])))
    assert frames.shape == (2, 5) and not frames.any()
    half = SpanMasking(width=6).hide(
        Padded(torch.zeros(1, 2, 6).bfloat16(), torch.tensor([2])), torch.ones(1, 2).bool()
    )
    assert half.values.dtype == torch.bfloat16
