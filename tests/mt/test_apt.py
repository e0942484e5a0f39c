"""A translator with a pre-trained model fused into it; readers that neither learn nor drop out."""

import numpy as np
import pytest
import torch

from dragoman import DataError
from dragoman.mt.apt import AdaptedReader, AptTranslator
from dragoman.mt.apt_layers import FusingDecoder, FusionLayer, LayerFusion
from dragoman.shared.nn.heads import MaskedTokenHead, TiedProjection
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.positions import LearnedPositions
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.nn.translator import EncoderModel, LanguageModel, Translator
from dragoman.shared.objectives import CrossEntropy
from dragoman.shared.padded import Padded
from tests import small
from tests.mt.test_apt_layers import net
from tests.small import refuses

WIDTH, KNOWN, DEPTH, VOCABULARY = 16, 12, 3, 30
SIZES = {"width": WIDTH, "heads": 2, "feedforward": 32}
ROWS = {"source": [4, 6, 2], "target": [5, 3, 4]}


def embedding(width=KNOWN, size=VOCABULARY, positions=True):
    return small.embedding(size, width, positions, dropout=0.1)


def layer(width=KNOWN, **options):
    return small.layer(width, feedforward=24, dropout=0.3, **options)


def masked_model(stack=None, heads=None, **options):
    encoder = stack or Encoder(layer=layer(), layers=DEPTH)
    return EncoderModel(embeddings={"source": embedding(**options)}, encoder=encoder, heads=heads)


def language_model(**options):
    read = embedding(**options)
    decoder = Decoder(layer=layer(), layers=DEPTH)
    return LanguageModel(target_embedding=read, decoder=decoder, projection=TiedProjection(embedding=read))


READERS = {"masked": masked_model, "language": language_model}
#: Which model reads the source, and which the target.
SIDES = [("masked", None), ("language", None), (None, "language"), ("masked", "language")]


def translator(source="masked", target=None, fusion=None, **changes):
    torch.manual_seed(1)
    parts, options = {"target_embedding": embedding(WIDTH), "embeddings": {"source": embedding(WIDTH)}}, fusion or {}
    if source:
        parts["source_reader"] = AdaptedReader(model=READERS[source](), width=WIDTH, inner=20)
        fusing = FusionLayer(**SIZES, fusion=LayerFusion(width=WIDTH, **options))
        parts["encoder"] = Encoder(layer=fusing, layers=2)
    if target:
        parts["target_reader"] = AdaptedReader(model=READERS[target](), width=WIDTH)
        fusing = FusionLayer(**SIZES, memories=["source"], fusion=LayerFusion(width=WIDTH, **options))
        parts["decoder"] = FusingDecoder(layer=fusing, layers=2)
    return small.translator(VOCABULARY, cls=AptTranslator, layers=2, sizes={"dropout": 0.1}, **parts | changes)


def batch(rows=ROWS):
    return small.drawn_batch(rows, VOCABULARY, 3)


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("chosen", [None, [2], [1, 3]])
def test_a_reader_gives_adapted_states_of_each_layer(kind, chosen):
    torch.manual_seed(3)
    reader = AdaptedReader(model=READERS[kind](), width=WIDTH, inner=7, layers=chosen).train()
    for number, one in enumerate(reader.stack.layers):
        for parameter in one.parameters():
            parameter.data.mul_(1 + number)  # layers that differ
    tokens = batch()["source"]
    found = reader(tokens)
    numbers = chosen or [1, 2, 3]
    assert found.values.shape == (3, 6, len(numbers), WIDTH)
    for row, ids in enumerate(tokens.rows()):  # each alone, layer by layer, without our stack
        states = reader.embedding(Padded(ids[None], torch.tensor([len(ids)]))).values
        for number, one in enumerate(reader.stack.layers, 1):
            states = one(states, causal=kind == "language")
            if number in numbers:
                given = reader.stack.norm(states) if number == DEPTH else states
                adapter = reader.adapters[numbers.index(number)]
                expected = np.stack([net(adapter, x) for x in given[0].detach().double().numpy()])
                got = found.values[row, : len(ids), numbers.index(number)].detach().numpy()
                np.testing.assert_allclose(got, expected, atol=1e-4)


@pytest.mark.parametrize(("source", "target"), SIDES)
def test_readers_neither_learn_nor_drop_out(source, target):
    model = translator(source, target)
    readers = [one.model for one in (model.source_reader, model.target_reader) if one is not None]
    same = small.unmoved(small.objective(model, CrossEntropy()), batch(), *readers)
    assert not any(parameter.requires_grad for one in readers for parameter in one.parameters())
    names = {*model.state_dict()}
    assert same == {name for name in names if "reader.model." in name}
    assert any("reader.adapters" in name for name in names) and any("fusion.scores" in name for name in names)


@pytest.mark.parametrize(("source", "target"), SIDES)
def test_a_sentence_alone_is_as_in_a_batch(source, target):
    small.check_rows(translator(source, target).eval(), batch())


@pytest.mark.parametrize(("source", "target"), SIDES)
def test_step_by_step_as_at_once_with_beams(source, target):
    small.check_beams(translator(source, target).eval(), batch(), "source")


def test_a_search_may_begin_with_several_tokens_and_lose_sentences():
    model, rows = translator(None, "language").eval(), batch()
    encoding, tokens = model.encode(rows), rows["target"].values[:, :3]
    state = model.start(encoding, Padded(tokens[:, :2], torch.full((3,), 2)))
    state = state.fork(2).reorder(torch.tensor([1, 0, 5, 4]))  # the second sentence has left
    logits, _ = model.step(tokens[[0, 0, 2, 2], 2], state)
    expected = model.project(model.decode(Padded(tokens, torch.full((3,), 3)), encoding))[[0, 0, 2, 2], 2]
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("source", "target"), SIDES)
def test_a_closed_gate_leaves_the_plain_translator(source, target):
    model, rows = translator(source, target).eval(), batch()
    written = embedding(WIDTH)
    plain = Translator(
        embeddings={"source": embedding(WIDTH)},
        encoder=Encoder(layer=Layer(**SIZES), layers=2),
        target_embedding=written,
        decoder=Decoder(layer=Layer(**SIZES, memories=["source"]), layers=2),
        projection=TiedProjection(embedding=written),
    ).eval()
    plain.load_state_dict({n: x for n, x in model.state_dict().items() if "reader" not in n and "fusion" not in n})
    expected = plain.decode(rows["target"], plain.encode(rows))
    assert not torch.allclose(model.decode(rows["target"], model.encode(rows)), expected)
    for name, parameter in model.named_parameters():
        if name.endswith("fusion.gate.2.bias"):
            parameter.data.fill_(-1e9)
    assert torch.equal(model.decode(rows["target"], model.encode(rows)), expected)


def test_layers_that_are_computed_again_learn_the_same():
    gradients = []
    for recompute in (False, True):
        model = translator().train()
        model.encoder.recompute = recompute
        torch.manual_seed(4)
        model.decode(batch()["target"], model.encode(batch())).square().sum().backward()
        gradients.append([x.grad for x in model.parameters() if x.requires_grad and x.grad is not None])
    assert len(gradients[0]) > 20
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_symbols_of_readers_are_known():
    """Vocabularies are trimmed, and vectors taken from other folders, by them (shared/nn/symbols.py)."""
    own = {"embeddings.source": "source", "target_embedding": "output", "projection": "output"}
    read = {f"target_reader.model.{name}": "output" for name in ("target_embedding", "projection")}
    read |= {"source_reader.model.embeddings.source": "source"}
    assert translator("masked", "language").symbol_fields() == own | read
    known = {"source_reader.model.target_embedding": "source", "source_reader.model.projection": "source"}
    assert translator("language").symbol_fields() == own | known


def test_limits_of_readers_count():
    positions = LearnedPositions(width=KNOWN, length=5)
    short = AdaptedReader(model=masked_model(positions=positions), width=WIDTH)
    with pytest.raises(DataError, match=r"row 1: its 'source' is too long for the model: 6 elements"):
        translator(source_reader=short).encode(batch())
    model = translator("masked", "language")
    assert model.longest_output is None
    bounded = AdaptedReader(model=language_model(positions=positions), width=WIDTH)
    assert translator("masked", "language", target_reader=bounded).longest_output == 5
    keys_and_values = [(WIDTH, 2), (KNOWN, DEPTH)]  # of the decoder and of the language model
    assert model.state_bytes(16) == sum(2 * 2 * 16 * width * depth * 4 for width, depth in keys_and_values)
    assert translator().state_bytes(16) == 2 * 2 * 16 * WIDTH * 2 * 4


def test_what_does_not_fit_is_refused():
    head = MaskedTokenHead(width=KNOWN, projection=TiedProjection(embedding=embedding(), bias=True))
    headed = masked_model(heads={"masked": head})
    refuses(ValueError, "the reader has heads that nobody reads: masked", AdaptedReader, model=headed, width=WIDTH)
    for chosen in ([], [0], [4]):
        message = "layers must be from 1 to 3, at least one, not"
        refuses(ValueError, message, AdaptedReader, model=masked_model(), width=WIDTH, layers=chosen)
    attends = masked_model(Encoder(layer=layer(memories=["other"]), layers=1))
    refuses(ValueError, "attend to nothing but their own text", AdaptedReader, model=attends, width=WIDTH)
    refuses(ValueError, "inner must be at least 1, not -1", LayerFusion, width=WIDTH, inner=-1)
    fusing = FusionLayer(**SIZES, memories=["source"], fusion=LayerFusion(width=WIDTH))
    narrow = AdaptedReader(model=masked_model(), width=8)
    masked, few, writes = (
        AdaptedReader(model=model, width=WIDTH) for model in (masked_model(), masked_model(size=20), language_model())
    )
    unfused = {"target_reader": writes, "decoder": Decoder(layer=fusing, layers=1)}
    for wrong, message in (
        ({"source_reader": None}, "source: the layers fuse, but there is no reader"),
        ({"encoder": Encoder(layer=Layer(**SIZES), layers=1)}, "source: no layer fuses the reader"),
        ({"source_reader": narrow}, "the reader's width is 8, the translator's"),
        ({"source_reader": few}, "source: the reader's vocabulary is 20, the translator's 30"),
        ({"target_reader": masked}, "an encoder sees what is not written yet"),
        (unfused, "the decoder must be a FusingDecoder to read with, not a Decoder"),
        ({"embeddings": {"source": embedding(WIDTH), "other": embedding(WIDTH)}}, "must read 'source' alone"),
    ):
        refuses(ValueError, message, translator, **wrong)
    with pytest.raises(KeyError):
        fusing(torch.zeros(1, 1, WIDTH))
