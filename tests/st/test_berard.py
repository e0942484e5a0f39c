"""The LSTM translator of speech, against loops over its equations; a row's batch changes nothing.

Legend: B sentences, K beams, T frames, S encoder states, L tokens, C channels.
"""

import json
import math

import pytest
import torch
from torch.nn import functional as F

from dragoman.shared.batch import Batch
from dragoman.shared.described import build, describe
from dragoman.shared.generator import Generator, Scorer
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.heads import OutputProjection
from dragoman.shared.nn.recurrent import LstmEncoder
from dragoman.shared.nn.recurrent_translator import RecurrentTranslator
from dragoman.shared.nn.speech import SpeechEmbedding
from dragoman.shared.padded import Padded
from dragoman.st.berard import ChainedDecoder, ImageSubsampler
from tests.shared.nn.test_recurrent import check_beams
from tests.small import refuses

READ, WIDTH, ATTENTION, OUTPUTS, VOCABULARY, PADDING = 6, 8, 5, 7, 20, 1


def numbers(*lengths, width, seed=0) -> Padded:
    generator = torch.Generator().manual_seed(seed)
    padded = Padded.from_sequences([torch.randn(length, width, generator=generator) for length in lengths])
    return padded.map(lambda values: values.masked_fill(~padded.mask[..., None], 9.0))  # nobody may read it


def decoder(layers=3, **more) -> ChainedDecoder:
    torch.manual_seed(1)
    made = ChainedDecoder(inputs=READ, width=WIDTH, layers=layers, attention=ATTENTION, outputs=OUTPUTS, **more)
    return made.eval()


class Frames(torch.nn.Module):
    """A front end whose waveforms are features already."""

    bins, hop = 9, 1

    def forward(self, speech):
        return speech

    def lengths(self, samples):
        return samples


def translator() -> RecurrentTranslator:
    torch.manual_seed(2)
    subsampler = ImageSubsampler(inputs=9, layers=[12, 10], channels=4)
    speech = SpeechEmbedding(frontend=Frames(), subsampler=subsampler, scaled=False)
    return RecurrentTranslator(
        embeddings={"speech": speech},
        encoder=LstmEncoder(inputs=subsampler.width, width=WIDTH, layers=2, bidirectional=True),
        target_embedding=TextEmbedding(vocabulary=VOCABULARY, width=READ, padding=PADDING),
        decoder=decoder(),
        projection=OutputProjection(width=OUTPUTS, vocabulary=VOCABULARY, bias=True),
    ).eval()


def tokens(*lengths) -> Padded:
    generator = torch.Generator().manual_seed(sum(lengths))
    rows = [torch.randint(2, VOCABULARY, (length,), generator=generator) for length in lengths]
    return Padded.from_sequences(rows, padding=PADDING)


# -- the subsampler ------------------------------------------------------------------------------------------------


def test_a_subsampler_is_two_maps_and_two_convolutions():
    torch.manual_seed(3)
    subsampler = ImageSubsampler(inputs=9, layers=[12, 10], channels=4).eval()
    [first, second], [one, other] = subsampler.maps, subsampler.convolutions
    features = numbers(11, 6, width=9)
    found = subsampler(features)
    assert found.values.shape == (2, 3, subsampler.width)
    assert found.lengths.tolist() == [3, 2]
    for row, states in zip(features.rows(), found.rows(), strict=True):
        x = (second.weight @ (first.weight @ row.T + first.bias[:, None]).tanh() + second.bias[:, None]).tanh()
        image = F.conv2d(x.T[None, None], one.weight, one.bias, stride=2, padding=1)
        image = F.conv2d(image, other.weight, other.bias, stride=2, padding=1)[0]  # (C, S, frequencies)
        torch.testing.assert_close(states, torch.stack([torch.cat([*frame]) for frame in image.unbind(1)]))


@pytest.mark.parametrize("frames", [1, 2, 3, 4, 5, 8, 9])
def test_lengths_are_what_the_convolutions_leave(frames):
    subsampler = ImageSubsampler(inputs=9, layers=[10], channels=4)
    found = subsampler(numbers(frames, width=9))
    assert found.lengths.tolist() == [found.values.shape[1]] == subsampler.lengths(torch.tensor([frames])).tolist()
    assert subsampler.stride == 4


def test_the_published_subsampler_has_512_numbers_for_four_frames():
    assert ImageSubsampler().width == 512


# -- the decoder ---------------------------------------------------------------------------------------------------


def cell_by_hand(cell, x, h, c):
    i, f, g, o = (cell.weight_ih @ x + cell.bias_ih + cell.weight_hh @ h + cell.bias_hh).chunk(4)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_decoder_is_a_chain_of_cells_with_attention_after_the_first(layers):
    model = decoder(layers)
    x, memory = numbers(4, 2, width=READ), numbers(3, 5, width=WIDTH, seed=1)
    decoded = model(x, {"source": memory})
    for row, states, out in zip(x.rows(), memory.rows(), decoded.rows(), strict=True):
        h, c = sum(states) / len(states), torch.zeros(WIDTH)
        for token, found in zip(row, out, strict=True):
            h, c = cell_by_hand(model.layers[0], token, h, c)
            scores = []
            for state in states:
                hidden = model.of_memory.weight @ state + model.of_memory.bias + model.of_state.weight @ h
                scores.append(math.exp((model.score.weight[0] @ hidden.tanh()).item()))
            context = sum(score / sum(scores) * state for score, state in zip(scores, states, strict=True))
            for cell in model.layers[1:]:
                h, c = cell_by_hand(cell, context, h, c)
            wanted = (model.output.weight @ torch.cat([h, context, token]) + model.output.bias).tanh()
            torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)


def test_dropout_is_of_states_of_contexts_and_of_outputs():
    model = decoder(dropout=0.5).train()
    model.output = torch.nn.Identity()  # so that what it reads can be seen
    lengths = [10] * 40
    found = model(numbers(*lengths, width=READ), {"source": numbers(*lengths, width=WIDTH, seed=1)}).values
    zeros = [(part == 0).float().mean().item() for part in found.split([WIDTH, WIDTH, READ], -1)]
    assert zeros == pytest.approx([0.75, 0.75, 0.5], abs=0.05)  # dropped twice, twice, once


def test_what_cannot_be_is_refused():
    refuses(ValueError, "layers must be between 1 and 1,000, not 0", decoder, layers=0)
    refuses(ValueError, "channels must be at least 1, not 0", ImageSubsampler, channels=0)
    refuses(ValueError, "attends to \\['source'\\], but the memories are \\[\\]", decoder(), numbers(3, width=READ))


# -- the translator ------------------------------------------------------------------------------------------------


def test_step_by_step_is_all_at_once_and_beams_follow_their_rows():
    model = translator()
    assert isinstance(model, Generator)
    assert isinstance(model, Scorer)
    check_beams(model, model.encode(Batch({"speech": numbers(20, 13, 9, width=9)})))
    assert model.state_bytes(100) == 2 * 4 * 2 * WIDTH


def test_a_batch_is_its_sentences():
    model = translator()
    speech, prefix = numbers(20, 13, width=9), tokens(4, 2)
    together = model.log_probabilities(prefix, model.encode(Batch({"speech": speech})))
    for number, (row, ids) in enumerate(zip(speech.rows(), prefix.rows(), strict=True)):
        encoding = model.encode(Batch({"speech": Padded(row[None], torch.tensor([len(row)]))}))
        alone = model.log_probabilities(Padded(ids[None], torch.tensor([len(ids)])), encoding)
        torch.testing.assert_close(together[number, : len(ids)], alone[0])


def test_the_decoder_can_be_described_and_built_again():
    model = decoder()
    again = build(json.loads(json.dumps(describe(model)))).eval()
    again.load_state_dict(model.state_dict())
    x, memory = numbers(3, width=READ), {"source": numbers(3, width=WIDTH, seed=1)}
    assert torch.equal(again(x, memory).values, model(x, memory).values)
