"""Wait-k: what encoder and decoder see, against loops; steps against all at once; and what is refused."""

import pytest
import torch

from dragoman import BeamSearch, Rules, UsageError
from dragoman.shared.batch import Batch
from dragoman.shared.nn.conformer import ConformerLayer
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.padded import Padded
from dragoman.st.wait_k import ChunkedEncoder, WaitKDecoder
from tests import small
from tests.small import refuses

WIDTH = 8


def layer(**more):
    return small.layer(WIDTH, feedforward=12, **more)


def translator(*, encoder=None, decoder=None):
    torch.manual_seed(3)
    encoder = encoder or ChunkedEncoder(layer=layer(), layers=2, chunk=2)
    decoder = decoder or WaitKDecoder(layer=layer(memories=["source"]), layers=2, k=2, ratio=2)
    return small.translator(20, embedded={"width": WIDTH}, encoder=encoder, decoder=decoder).eval()


def tokens(*lengths: int):
    return small.drawn(lengths, 20, 2, generator=torch.Generator().manual_seed(sum(lengths)))


@pytest.mark.parametrize("left", [None, 0, 1])
def test_a_state_sees_its_chunk_and_earlier_ones(left):
    encoder = ChunkedEncoder(layer=layer(), layers=1, chunk=3, left=left)
    mask = encoder.mask(Padded(torch.zeros(2, 8, WIDTH), torch.tensor([8, 5])))
    for row, length in enumerate((8, 5)):
        for i in range(8):
            for j in range(8):
                near = left is None or i // 3 - j // 3 <= left
                wanted = (j // 3 <= i // 3 and near and j < length) or i == j
                assert mask[row, i, j] == wanted, (row, i, j)


@pytest.mark.parametrize("left", [None, 1])
def test_more_sound_does_not_change_the_states_of_whole_chunks(left):
    torch.manual_seed(1)
    encoder = ChunkedEncoder(layer=layer(), layers=3, chunk=2, left=left, taps=[2]).eval()
    x = torch.randn(1, 9, WIDTH)
    whole, taps = encoder(Padded(x, torch.tensor([9])))
    for length in (2, 4, 8):
        part, some = encoder(Padded(x[:, :length], torch.tensor([length])))
        torch.testing.assert_close(part.values, whole.values[:, :length])
        torch.testing.assert_close(some[2].values, taps[2].values[:, :length])
    cut, _ = encoder(Padded(x[:, :3], torch.tensor([3])))
    assert not torch.allclose(cut.values[:, 2], whole.values[:, 2])  # its chunk was not there


def test_padding_changes_nothing_and_is_no_trouble():
    torch.manual_seed(1)
    encoder = ChunkedEncoder(layer=layer(), layers=2, chunk=2, left=0).eval()
    x = torch.randn(2, 9, WIDTH, requires_grad=True)
    both, _ = encoder(Padded(x, torch.tensor([9, 3])))
    one, _ = encoder(Padded(x[1:, :3], torch.tensor([3])))
    torch.testing.assert_close(both.values[1:, :3], one.values)
    both.values.sum().backward()
    assert x.grad.isfinite().all()


def test_a_token_depends_on_what_has_been_heard_when_it_is_written():
    """k = 2, r = 2: the token after t others on 2 (2 + t) states."""
    model, source, prefix = translator(), tokens(9), tokens(4)
    encoding = model.encode(Batch({"source": source}))
    memory = encoding.memories["source"]
    for number in range(4):
        values = memory.values.detach().requires_grad_()
        encoding.memories["source"] = Padded(values, memory.lengths)
        model.decode(prefix, encoding)[0, number].square().cumsum(0).sum().backward()
        reached = values.grad[0].abs().sum(-1) > 0
        assert reached.tolist() == [place < 2 * (2 + number) for place in range(9)]


@pytest.mark.parametrize("primed", [0, 1, 3])
def test_steps_and_beams_give_what_decoding_at_once_gives(primed):
    model, prefix = translator(), tokens(6, 6)
    encoding = model.encode(Batch({"source": tokens(9, 4)}))
    wanted = model.project(model.decode(prefix, encoding))
    start = Padded(prefix.values[:, :primed], torch.tensor([primed, primed])) if primed else None
    state = model.start(encoding, start).fork(2)
    for number in range(primed, 6):
        logits, state = model.step(prefix.values[:, number].repeat_interleave(2), state)
        torch.testing.assert_close(logits, wanted[:, number].repeat_interleave(2, dim=0))


def test_with_all_heard_before_it_is_an_ordinary_translator():
    layers = {"encoder": {"layer": layer(), "layers": 2}, "decoder": {"layer": layer(memories=["source"]), "layers": 2}}
    waits = WaitKDecoder(**layers["decoder"], k=50, ratio=2)
    waiting = translator(encoder=ChunkedEncoder(**layers["encoder"], chunk=100), decoder=waits)
    plain = translator(encoder=Encoder(**layers["encoder"]), decoder=Decoder(**layers["decoder"]))
    plain.load_state_dict(waiting.state_dict())
    batch, search = Batch({"source": tokens(7, 4)}), BeamSearch(beam=3, rules=Rules(maximum_length_extra=9))
    given = {"prefix": Padded.from_sequences([torch.tensor([1])] * 2), "end": 19, "padding": 0}
    found, wanted = (search.search(model, batch, **given) for model in (waiting, plain))
    assert [[hypothesis.tokens for hypothesis in one] for one in found] == [
        [hypothesis.tokens for hypothesis in one] for one in wanted
    ]


def test_k_is_drawn_in_training_only():
    decoder = WaitKDecoder(layer=layer(memories=["source"]), layers=1, k=4, ratio=1, drawn=[1, 3])
    torch.manual_seed(1)
    assert {decoder.train()._waited() for _ in range(20)} == {1, 3}
    assert {decoder.eval()._waited() for _ in range(5)} == {4}


def test_what_cannot_wait_is_refused():
    conformer = ConformerLayer(width=WIDTH, heads=2, feedforward=12, kernel=3)
    message = "a ConformerLayer may see what has not been heard"
    refuses(UsageError, message, ChunkedEncoder, layer=conformer, layers=1, chunk=2)
    for wrong, said in (({"chunk": 0}, "chunk must .* not 0"), ({"chunk": 1, "left": -1}, "left must .* not -1")):
        small.refuses(UsageError, said, ChunkedEncoder, layer=layer(), layers=1, **wrong)
    for wrong in ({"k": 0}, {"k": 1, "ratio": 0}, {"k": 1, "drawn": [0, 2]}):
        refuses(UsageError, "must be at least 1", WaitKDecoder, layer=layer(memories=["source"]), layers=1, **wrong)
