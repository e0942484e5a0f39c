"""LSTM layers and their decoder, against loops over cells; padding, beams and dropped sentences change nothing.

Legend: B sentences, K beams, L length, E width of what is read, D width.
"""

import json
import math

import pytest
import torch
from torch import nn

from dragoman.shared.batch import Batch
from dragoman.shared.described import build, describe
from dragoman.shared.generator import Generator, Scorer
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.heads import OutputProjection, TiedProjection
from dragoman.shared.nn.recurrent import LstmEncoder, RecurrentDecoder, lstm
from dragoman.shared.nn.recurrent_translator import RecurrentLanguageModel, RecurrentTranslator
from dragoman.shared.padded import Padded
from dragoman.shared.search import BeamSearch, GreedySearch
from tests import small
from tests.small import refuses

READ, WIDTH, VOCABULARY, PADDING = 6, 8, 20, 1


def numbers(*lengths, width=READ, seed=0) -> Padded:
    generator = torch.Generator().manual_seed(seed)
    padded = Padded.from_sequences([torch.randn(length, width, generator=generator) for length in lengths])
    return padded.map(lambda values: values.masked_fill(~padded.mask[..., None], 9.0))  # nobody may read it


def tokens(*lengths) -> Padded:
    generator = torch.Generator().manual_seed(sum(lengths))
    return small.drawn(lengths, VOCABULARY, 2, generator=generator, padding=PADDING)


def embedding(width=READ) -> TextEmbedding:
    return TextEmbedding(vocabulary=VOCABULARY, width=width, padding=PADDING)


def translator(memories=("source", "tap.1"), **more) -> RecurrentTranslator:
    torch.manual_seed(5)
    return RecurrentTranslator(
        embeddings={"source": embedding()},
        encoder=LstmEncoder(inputs=READ, width=WIDTH, layers=2, first_cells=11, taps=[1]),
        target_embedding=embedding(),
        decoder=RecurrentDecoder(
            inputs=READ, width=WIDTH, layers=2, first_cells=11, memories=list(memories), residual=True, **more
        ),
        projection=OutputProjection(width=WIDTH, vocabulary=VOCABULARY, bias=True),
    ).eval()


def language_model() -> RecurrentLanguageModel:
    torch.manual_seed(6)
    table = embedding(WIDTH)
    return RecurrentLanguageModel(
        target_embedding=table,
        decoder=RecurrentDecoder(inputs=WIDTH, width=WIDTH, layers=1),
        projection=TiedProjection(embedding=table),
    ).eval()


def by_hand(layer: nn.LSTM, x: torch.Tensor, end: str = "") -> torch.Tensor:
    """The equations of Hochreiter and Schmidhuber 1997 with forget gates, for one sequence (L, E)."""
    wx, wh, bx, bh = (getattr(layer, f"{name}_l0{end}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    h, c, states = torch.zeros(wh.shape[1]), torch.zeros(layer.hidden_size), []
    for row in x.flip(0) if end else x:
        i, f, g, o = (wx @ row + bx + wh @ h + bh).chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        if layer.proj_size:
            h = getattr(layer, f"weight_hr_l0{end}") @ h
        states.append(h)
    states = torch.stack(states)
    return states.flip(0) if end else states


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("first_cells", [None, 11])
def test_an_encoder_is_a_loop_over_cells(bidirectional, first_cells):
    torch.manual_seed(1)
    encoder = LstmEncoder(
        inputs=READ, width=WIDTH, layers=2, first_cells=first_cells, bidirectional=bidirectional, taps=[0, 1, 2]
    ).eval()
    assert [layer.hidden_size for layer in encoder.lstms] == [first_cells or encoder.lstms[1].hidden_size] * 1 + [
        WIDTH // (2 if bidirectional else 1)
    ]
    x = numbers(3, 5, 1)
    encoded, tapped = encoder(x)
    assert encoded.values.shape == (3, 5, WIDTH)
    assert encoded.lengths.tolist() == [3, 5, 1]
    assert tapped[0] is x
    assert torch.equal(tapped[2].values, encoded.values)
    for number, row in enumerate(x.rows()):
        states = row
        for layer in encoder.lstms:
            ends = ["", "_reverse"] if bidirectional else [""]
            states = torch.cat([by_hand(layer, states, end) for end in ends], -1)
            if layer is encoder.lstms[0]:
                torch.testing.assert_close(tapped[1].rows()[number], states)
        torch.testing.assert_close(encoded.rows()[number], states)


def test_an_empty_row_does_not_stop_the_others():
    encoder = LstmEncoder(inputs=READ, width=WIDTH, layers=1, bidirectional=True).eval()
    x = numbers(4, 2)
    with_empty = Padded(torch.cat([x.values, x.values[:1]]), torch.tensor([4, 2, 0]))
    torch.testing.assert_close(encoder(with_empty)[0].values[:2], encoder(x)[0].values)


def test_forget_gates_begin_open():
    layer = lstm(READ, WIDTH, 11)
    total = layer.bias_ih_l0 + layer.bias_hh_l0
    assert total.reshape(4, 11).sum(1).tolist() == [0, 11, 0, 0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"layers": 0}, "layers must be between 1 and 1,000, not 0"),
        ({"first_cells": 7}, "no LSTM of 7 cells makes states of width 8"),
        ({"width": 9, "bidirectional": True}, "no LSTM of 4 cells makes states of width 9"),
        ({"taps": [2]}, "of 1 layers cannot be tapped after layer 2"),
    ],
)
def test_sizes_that_cannot_be_are_refused(changes, said):
    sizes = {"inputs": READ, "width": WIDTH, "layers": 1}
    refuses(ValueError, said, LstmEncoder, **sizes | changes)
    attending = {"memories": {"source": numbers(2)}}
    refuses(ValueError, "attends to nothing, not to source", LstmEncoder(**sizes), numbers(2), **attending)


@pytest.mark.parametrize("residual", [False, True])
def test_a_decoder_is_a_loop_over_tokens_and_memory_states(residual):
    torch.manual_seed(2)
    given = {"memories": ["source", "tap.1"], "residual": residual}
    decoder = RecurrentDecoder(inputs=READ, width=WIDTH, layers=2, **given).eval()
    x = numbers(4, 2)
    top, first = numbers(3, 5, width=WIDTH, seed=1), numbers(3, 5, width=WIDTH, seed=2)
    decoded = decoder(x, {"source": top, "tap.1": first})
    for row, keys, others, out in zip(x.rows(), top.rows(), first.rows(), decoded.rows(), strict=True):
        lowest = by_hand(decoder.lstms[0], row)
        highest = by_hand(decoder.lstms[1], lowest)
        for low, high, found in zip(lowest, highest, out, strict=True):
            weights = [math.exp((high @ key).item()) for key in keys]
            shares = [weight / sum(weights) for weight in weights]
            context = sum(share * key for share, key in zip(shares, keys, strict=True))
            other = sum(share * key for share, key in zip(shares, others, strict=True))
            wanted = (decoder.output.weight @ torch.cat([context, other, high])).tanh()
            torch.testing.assert_close(found, wanted + low if residual else wanted, atol=1e-5, rtol=1e-4)


def test_a_decoder_of_one_layer_without_memories_is_that_layer():
    decoder = RecurrentDecoder(inputs=READ, width=WIDTH, layers=1).eval()
    x = numbers(4)
    torch.testing.assert_close(decoder(x).values[0], by_hand(decoder.lstms[0], x.values[0]))
    torch.testing.assert_close(decoder.first_layer(x.values)[0], by_hand(decoder.lstms[0], x.values[0]))


def test_dropout_is_between_layers_and_above_them():
    torch.manual_seed(3)
    x = numbers(4, 4)
    decoder = RecurrentDecoder(inputs=READ, width=WIDTH, layers=1, dropout=0.5)
    dropped = decoder(x).values == 0
    assert 0.2 < dropped.float().mean() < 0.8
    assert (decoder.first_layer(x.values) == 0).any()
    two = RecurrentDecoder(inputs=READ, width=WIDTH, layers=2, dropout=0.5)
    kept = two(x).values
    assert not torch.allclose(kept[kept != 0], 2 * two.eval()(x).values[kept != 0])  # more than the last was dropped
    encoder = LstmEncoder(inputs=READ, width=WIDTH, layers=2, dropout=0.5, taps=[1])
    above, tapped = encoder(x)
    assert not (tapped[1].values == 0).any()
    assert not torch.equal(above.values, encoder(x)[0].values)
    assert torch.equal(tapped[1].values, encoder(x)[1][1].values)


def test_a_sentence_without_memory_states_has_finite_scores():
    decoder = RecurrentDecoder(inputs=READ, width=WIDTH, layers=1, memories=["source"]).eval()
    memory = numbers(3, 2, width=WIDTH)
    empty = Padded(memory.values, torch.tensor([3, 0]))
    assert decoder(numbers(2, 2), {"source": empty}).values.isfinite().all()


def test_decoders_that_make_no_sense_are_refused():
    sizes = {"inputs": READ, "width": WIDTH, "layers": 1}
    refuses(ValueError, r"'source', which is not in \['bert'\]", RecurrentDecoder, **sizes, memories=["bert"])
    refuses(ValueError, "nothing above the only layer", RecurrentDecoder, **sizes, residual=True)
    decoder = RecurrentDecoder(**sizes, memories=["source"])
    refuses(ValueError, r"attends to \['source'\], but the memories are \[\]", decoder, numbers(2))


@pytest.mark.parametrize("model", [translator, language_model])
def test_step_by_step_is_all_at_once(model):
    model = model()
    assert isinstance(model, Generator)
    assert isinstance(model, Scorer)
    encoding = model.encode(Batch({"source": tokens(5, 3)}))
    assert len(encoding) == 2 and bool(encoding.memories) == isinstance(model, RecurrentTranslator)
    prefix = tokens(6, 6)
    wanted = model.log_probabilities(prefix, encoding)
    state = model.start(encoding, Padded(prefix.values[:, :2], torch.tensor([2, 2])))
    for place in range(2, 6):
        logits, state = model.step(prefix.values[:, place], state)
        torch.testing.assert_close(logits.log_softmax(-1), wanted[:, place])
    assert state.length == 6


def check_beams(model, encoding):
    """Let beams of three sentences be written, some left out; each is scored as if it were alone. Return the state."""
    begun = torch.tensor([[13], [14], [15]])
    state = model.start(encoding, Padded(begun, torch.tensor([1, 1, 1]))).fork(2)
    first = torch.tensor([3, 4, 5, 6, 7, 8])
    _, state = model.step(first, state)
    kept = torch.tensor([1, 1, 4, 5])  # the second sentence is done; the first goes on with its second beam alone
    second = torch.tensor([9, 10, 11, 12])
    logits, _ = model.step(second, state.reorder(kept))
    for row, (old, sentence) in enumerate(zip(kept.tolist(), [0, 0, 2, 2], strict=True)):
        ids = [begun[sentence, 0].item(), first[old].item(), second[row].item()]
        prefix = Padded(torch.tensor([ids]), torch.tensor([3]))
        alone = model.log_probabilities(prefix, encoding.select(torch.tensor([sentence])))
        torch.testing.assert_close(logits[row].log_softmax(-1), alone[0, -1])
    return state


def test_beams_follow_their_rows_and_sentences_their_memories():
    model = translator()
    state = check_beams(model, model.encode(Batch({"source": tokens(5, 3, 4)})))
    refuses(ValueError, "2 beams of a sentence cannot become 3", state.fork, 3)
    refuses(ValueError, "3 rows cannot be 2 beams of at most 3 sentences", state.reorder, torch.tensor([0, 1, 2]))


def test_searches_can_use_it():
    model, start = translator(), Padded(torch.tensor([[2], [2]]), torch.tensor([1, 1]))
    batch = Batch({"source": tokens(5, 3)})
    one = BeamSearch(beam=1).search(model, batch, prefix=start, end=3, padding=PADDING)
    other = GreedySearch().search(model, batch, prefix=start, end=3, padding=PADDING)
    assert [found[0].tokens for found in one] == [found[0].tokens for found in other]
    assert model.state_bytes(5) == model.state_bytes(50) == 2 * 4 * (8 + 11 + 8 + 8)


def test_it_can_be_described_and_built_again():
    model = translator()
    again = build(json.loads(json.dumps(describe(model))))
    again.load_state_dict(model.state_dict())
    encoding = model.encode(Batch({"source": tokens(3)}))
    assert {*encoding.memories} == {"source", "tap.1"}
    prefix = tokens(4)
    assert torch.equal(again.eval().decode(prefix, encoding), model.decode(prefix, encoding))


def test_parts_that_do_not_fit_are_refused():
    said = r"attends to \['source', 'tap.2'\], but the encoder gives \['source', 'tap.1'\]"
    refuses(ValueError, said, translator, memories=["source", "tap.2"])
    parts = translator().arguments
    wider = LstmEncoder(inputs=READ, width=10, layers=1, taps=[1])
    for changes, said in (
        ({"target_embedding": embedding(WIDTH)}, "reads width 6, but the target embedding has 8"),
        ({"encoder": wider}, "width 8 cannot be compared with an encoder's of 10"),
    ):
        refuses(ValueError, said, RecurrentTranslator, **parts | changes)
    own = {name: parts[name] for name in ("target_embedding", "decoder", "projection")}
    refuses(ValueError, r"its decoder attends to \['source', 'tap.1'\]", RecurrentLanguageModel, **own)
