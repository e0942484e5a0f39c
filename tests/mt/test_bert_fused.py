"""BERT-fused layers against torch's attention, drop-net by counting, and a reader that neither learns nor drops out."""

import pytest
import torch
from torch.nn import functional as F

from dragoman import BeamSearch, DataError, UsageError
from dragoman.mt.bert_fused import BERT, FusedEncoderLayer, FusedLayer, FusedTranslator
from dragoman.shared.batch import Batch
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.objectives import CrossEntropy
from dragoman.shared.padded import Padded
from tests import small
from tests.small import refuses

WIDTH, KNOWN, VOCABULARY, HEADS = 16, 12, 30, 2
SIZES = {"width": WIDTH, "heads": HEADS, "feedforward": 32}


def fed(layer, x):
    """Return x after the feed-forward net, with torch's functions alone."""
    norm = layer.feedforward_norm
    normed = F.layer_norm(x, (WIDTH,), norm.weight, norm.bias)
    inner = F.relu(F.linear(normed if layer.pre_norm else x, layer.inner.weight, layer.inner.bias))
    x = x + F.linear(inner, layer.outer.weight, layer.outer.bias)
    return x if layer.pre_norm else F.layer_norm(x, (WIDTH,), norm.weight, norm.bias)


def inputs(*lengths):
    torch.manual_seed(3)
    return [Padded(torch.randn(2, max(own), width), torch.tensor(own)) for own, width in lengths]


@pytest.mark.parametrize("pre_norm", [True, False])
def test_an_encoder_layer_against_torch(pre_norm):
    torch.manual_seed(1)
    layer = FusedEncoderLayer(**SIZES, memories={BERT: KNOWN}, pre_norm=pre_norm).eval()
    x, known = inputs(([5, 3], WIDTH), ([4, 6], KNOWN))
    own, other = (small.torch_attention(one) for one in (layer.self_attention, layer.memory_attention[BERT]))
    norm = layer.self_attention_norm

    def normed(value):
        return F.layer_norm(value, (WIDTH,), norm.weight, norm.bias)

    h = normed(x.values) if pre_norm else x.values
    one = own(h, h, h, key_padding_mask=~x.mask)[0]
    expected = x.values + (one + other(h, known.values, known.values, key_padding_mask=~known.mask)[0]) / 2
    expected = fed(layer, expected if pre_norm else normed(expected))
    found = layer(x.values, mask=x.mask, memories={BERT: known})
    torch.testing.assert_close(found[x.mask], expected[x.mask], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pre_norm", [True, False])
def test_a_decoder_layer_against_torch(pre_norm):
    torch.manual_seed(1)
    memories = {"source": WIDTH, BERT: KNOWN}
    layer = FusedLayer(**SIZES, memories=memories, pre_norm=pre_norm).eval()
    x, source, known = inputs(([5, 3], WIDTH), ([2, 4], WIDTH), ([4, 6], KNOWN))
    own = small.torch_attention(layer.self_attention)
    others = {name: small.torch_attention(layer.memory_attention[name]) for name in memories}
    later = torch.ones(5, 5, dtype=torch.bool).triu(1)

    def sublayer(value, norm, made):
        def normed(value):
            return F.layer_norm(value, (WIDTH,), norm.weight, norm.bias)

        return value + made(normed(value)) if pre_norm else normed(value + made(value))

    def attended(h):
        pairs = zip(others.values(), (source, known), strict=True)
        return sum(to(h, m.values, m.values, key_padding_mask=~m.mask)[0] for to, m in pairs) / 2

    expected = sublayer(x.values, layer.self_attention_norm, lambda h: own(h, h, h, attn_mask=later)[0])
    expected = fed(layer, sublayer(expected, layer.memory_attention_norm, attended))
    found = layer(x.values, memories={"source": source, BERT: known}, causal=True)
    torch.testing.assert_close(found[x.mask], expected[x.mask], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("drawn", "expected"), [(0.1, 2.0), (0.4, 5.0), (0.6, 5.0), (0.8, 3.5), (0.9, 3.5)])
def test_drop_net_by_hand(monkeypatch, drawn, expected):
    """0.8 is divided among the two branches alone; the rest is their mean."""
    layer = FusedEncoderLayer(**SIZES, memories={BERT: KNOWN}, drop_net=0.8, dropout=0.0)
    fixed = torch.tensor(drawn, dtype=torch.float64)
    monkeypatch.setattr("dragoman.mt.bert_fused.torch.rand", lambda *_, device: fixed)
    own, known = torch.full((2, 3, WIDTH), 2.0), torch.full((2, 3, WIDTH), 5.0)
    assert layer.fused(own, known).unique().tolist() == [expected]
    assert layer.eval().fused(own, known).unique().tolist() == [3.5]


def test_each_branch_is_dropped_out_by_itself():
    torch.manual_seed(1)
    layer = FusedEncoderLayer(**SIZES, memories={BERT: KNOWN}, drop_net=0.0, dropout=0.5)
    ones = torch.ones(50, 50, WIDTH)
    found = layer.fused(ones, ones)
    shares = {value: float((found == value).float().mean()) for value in (0.0, 1.0, 2.0)}
    assert shares == pytest.approx({0.0: 0.25, 1.0: 0.5, 2.0: 0.25}, abs=0.02)


def embedding(width=WIDTH, size=VOCABULARY, positions=None):
    return small.embedding(size, width, positions, dropout=0.1)


def reader(name="source", positions=None):
    read = embedding(KNOWN, 40, positions)
    return EncoderModel(embeddings={name: read}, encoder=small.encoder(2, width=KNOWN, dropout=0.3))


def translator(drop_net=1.0, **changes):
    torch.manual_seed(1)
    sizes = SIZES | {"drop_net": drop_net}
    parts = {
        "target_embedding": embedding(),
        "embeddings": {"source": embedding()},
        "encoder": Encoder(layer=FusedEncoderLayer(**sizes, memories={BERT: KNOWN}), layers=2),
        "decoder": Decoder(layer=FusedLayer(**sizes, memories={"source": WIDTH, BERT: KNOWN}), layers=2),
        "reader": reader(),
    }
    return small.translator(VOCABULARY, cls=FusedTranslator, **parts | changes)


def batch(rows):
    return small.drawn_batch(rows, 30, 3)


ROWS = {"source": [4, 6, 2], BERT: [7, 3, 5], "target": [5, 3, 4]}


def test_the_reader_neither_learns_nor_drops_out():
    model = translator(drop_net=0.0)
    same = small.unmoved(small.objective(model, CrossEntropy()), batch(ROWS), model.reader)
    assert {name for name in model.state_dict() if name.startswith("reader.")} == same


def test_the_reader_learns_and_drops_out_if_it_is_told_to():
    model, rows = translator(drop_net=0.0, reader_learns=True), batch(ROWS)
    assert not small.unmoved(small.objective(model, CrossEntropy()), rows)
    for mode in (True, False):
        one, two = (model.train(mode).encode(rows).memories[BERT].values for _ in range(2))
        assert torch.equal(one, two) is not mode


def test_a_sentence_alone_is_as_in_a_batch():
    small.check_rows(translator().eval(), batch(ROWS))


def test_step_by_step_as_at_once_with_beams():
    small.check_beams(translator().eval(), batch(ROWS), "source", BERT)


def plain(stack, memories=None):
    return stack(layer=Layer(**SIZES, memories=memories), layers=2)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_one_side_may_be_plain(side):
    """Table 6 of the paper: without the attention of the encoder, or without that of the decoder."""
    parts = {"encoder": plain(Encoder)} if side == "decoder" else {"decoder": plain(Decoder, ["source"])}
    model, rows = translator(**parts).eval(), batch(ROWS)
    other = Batch(rows.fields | {BERT: batch({BERT: [3, 4, 5]})[BERT]})
    one, two = model.encode(rows), model.encode(other)
    assert {*one.memories} == ({"source", BERT} if side == "decoder" else {"source"})
    assert torch.equal(one.memories["source"].values, two.memories["source"].values) == (side == "decoder")
    read = [model.decode(rows["target"], encoding) for encoding in (one, two)]
    assert not torch.equal(*read)
    prefix = Padded(rows["target"].values[:, :1], torch.ones(3, dtype=torch.int64))
    assert BeamSearch(beam=2).search(model, rows, prefix=prefix, end=2, padding=0)


def test_symbols_of_the_reader_are_known():
    """Vocabularies are trimmed, and vectors taken from other folders, by them (shared/nn/symbols.py)."""
    known = {"embeddings.source": "source", "target_embedding": "output", "projection": "output"}
    assert translator().symbol_fields() == known | {"reader.embeddings.source": BERT}


def test_a_text_that_is_too_long_for_the_reader_is_named():
    short = translator(reader=reader(positions=6))
    refuses(DataError, r"row 0: its 'bert' is too long for the model: 7 elements", short.encode, batch(ROWS))


def test_what_does_not_fit_is_refused():
    message = "drop_net must be between 0 and 1, not 1.5"
    refuses(UsageError, message, FusedEncoderLayer, **SIZES, memories={BERT: KNOWN}, drop_net=1.5)
    refuses(UsageError, "memories must be bert, not source", FusedEncoderLayer, **SIZES, memories={"source": KNOWN})
    refuses(UsageError, "memories must be source and bert, not bert", FusedLayer, **SIZES, memories={BERT: KNOWN})
    refuses(ValueError, "the reader must read 'source' alone, not target", lambda: translator(reader=reader("target")))
    neither = {"encoder": plain(Encoder), "decoder": plain(Decoder, ["source"])}
    wide = {"encoder": Encoder(layer=FusedEncoderLayer(**SIZES, memories={BERT: 20}), layers=1)}
    wider = {"decoder": Decoder(layer=FusedLayer(**SIZES, memories={"source": WIDTH, BERT: 20}), layers=1)}
    for wrong, message in (
        (neither, r"one side or both to 'bert', not the encoder to \[\] and the decoder to"),
        ({"decoder": plain(Decoder)}, r"the decoder must attend to 'source', .* the decoder to \[\]"),
        (wide, "the layers read states of width 20, but the reader's have 12"),
        (wider, "the layers read states of width 20, but the reader's have 12"),
    ):
        refuses(ValueError, message, translator, **wrong)
    refuses(KeyError, BERT, FusedEncoderLayer(**SIZES, memories={BERT: KNOWN}), torch.zeros(1, 1, WIDTH))
