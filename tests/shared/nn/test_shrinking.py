"""CTC shrinking against a loop over rows, and its gradient."""

import pytest
import torch

from dragoman.shared.nn.heads import CtcHead
from dragoman.shared.nn.shrinking import ShrinkingEncoder, ctc_shrink
from dragoman.shared.nn.waveform import WaveformEncoder
from dragoman.shared.padded import Padded
from tests import small

BLANK = 3


def places(path):
    """Return what a row keeps, one label at a time."""
    kept = [i for i, label in enumerate(path) if label != BLANK and (i == 0 or path[i - 1] != label)]
    return kept or ([0] if path else [])


PATHS = {
    "runs": [[0, 0, 1, 1, 1, 2, 0]],
    "a blank breaks a run": [[0, 3, 0, 0, 3, 3, 0]],
    "all blank": [[3, 3, 3], [3, 1, 3]],
    "padding and nothing": [[1, 1, 2, 2, 0], [3, 0], [], [2]],
}


@pytest.mark.parametrize("paths", PATHS.values(), ids=PATHS)
def test_a_state_of_each_run_is_kept_as_a_loop_finds_it(paths):
    generator = torch.Generator().manual_seed(1)
    lengths = torch.tensor([len(path) for path in paths])
    longest = int(lengths.max()) + 2
    values = torch.randn(len(paths), longest, 4, generator=generator, requires_grad=True)
    logits = torch.rand(len(paths), longest, 5, generator=generator)
    for row, path in enumerate(paths):
        for place, label in enumerate(path):
            logits[row, place, label] += 2.0
    kept = ctc_shrink(Padded(values, lengths), logits, BLANK)
    expected = [places(path) for path in paths]
    assert kept.lengths.tolist() == [len(one) for one in expected]
    assert kept.values.shape[1] == max(map(len, expected))
    weights = torch.randn(kept.values.shape, generator=generator)
    (kept.values * weights).sum().backward()
    wanted = torch.zeros_like(values)
    for row, one in enumerate(expected):
        for new, place in enumerate(one):
            assert torch.equal(kept.values[row, new], values[row, place])
            wanted[row, place] = weights[row, new]
    assert torch.equal(values.grad, wanted)  # that of the gather; none for what was left out


def test_an_encoder_keeps_the_states_that_its_head_chooses():
    torch.manual_seed(4)
    embedding, encoder = small.speech_embedding(), small.encoder(2, taps=[2])
    head = CtcHead(tap=2, width=16, vocabulary=5, blank=BLANK)
    speech = Padded(torch.randn(2, 9000), torch.tensor([9000, 5000]))
    states = WaveformEncoder(embedding=embedding, encoder=encoder)(speech)
    kept = ShrinkingEncoder(embedding=embedding, encoder=encoder, head=head)(speech)
    for row, found in zip(states.rows(), kept.rows(), strict=True):
        chosen = places((row @ head.projection.weight.T + head.projection.bias).argmax(-1).tolist())
        assert 0 < len(chosen) < len(row) and torch.equal(found, row[chosen])
    assert not any(parameter.requires_grad for parameter in head.parameters())
    other = CtcHead(tap=1, width=16, vocabulary=5, blank=BLANK)
    with pytest.raises(ValueError, match="the head reads the states of 1, but the encoder's taps are"):
        ShrinkingEncoder(embedding=embedding, encoder=encoder, head=other)
