"""The translator: stepping equals decoding at once; padding, beams and dropped sentences change nothing.

Legend: B sentences, K beams, T target, D width, V vocabulary.
"""

import json

import pytest
import torch
from torch import nn

from dragoman import BeamSearch, Rules, UsageError
from dragoman.shared.batch import Batch
from dragoman.shared.described import Described, build, describe
from dragoman.shared.generator import Encoding, Generator
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.heads import CtcHead, OutputProjection, TiedProjection
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.positions import LearnedPositions, SinusoidalPositions
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.nn.translator import EncoderModel, LanguageModel, Translator, check_widths
from dragoman.shared.padded import Padded
from tests import small
from tests.small import refusal, refuses

WIDTH, VOCABULARY, PADDING = 16, 30, 1


def translator(*, pre_norm=True, tied=True, heads=None, taps=None) -> Translator:
    torch.manual_seed(3)
    sizes = {"heads": 4, "feedforward": 24, "pre_norm": pre_norm, "dropout": 0.1}
    target = embedding(positions=LearnedPositions(width=WIDTH, length=40))
    model = small.translator(
        VOCABULARY,
        embeddings={"source": embedding(positions=SinusoidalPositions(width=WIDTH))},
        encoder=small.encoder(2, taps or [], **sizes),
        target_embedding=target,
        decoder=small.decoder(2, **sizes),
        projection=TiedProjection(embedding=target) if tied else OutputProjection(width=WIDTH, vocabulary=VOCABULARY),
        heads=heads or {},
    )
    return model.eval()


def tokens(*lengths: int) -> Padded:
    generator = torch.Generator().manual_seed(sum(lengths))
    return small.drawn(lengths, VOCABULARY, 2, generator=generator, padding=PADDING)


def batch(*lengths: int) -> Batch:
    return Batch({"source": tokens(*lengths)})


def test_a_search_ends_where_the_positions_do() -> None:
    model, start = translator(), Padded(torch.tensor([[2]]), torch.tensor([1]))
    search = BeamSearch(beam=2, rules=Rules(minimum_length=39))
    found = search.search(model, batch(9), prefix=start, end=3, padding=PADDING)
    assert len(found[0][0].tokens) == model.longest_output == 40  # one for each consumed: the start, not the end
    model.target_embedding.positions = None
    assert model.longest_output is None


def test_an_encoder_model_is_the_encoder_of_a_translator_and_generates_nothing() -> None:
    whole = translator(taps=[1])
    half = EncoderModel(embeddings=dict(whole.embeddings), encoder=whole.encoder).eval()
    one, other = whole.encode(batch(7, 4)), half.encode(batch(7, 4))
    assert torch.equal(one.memories["source"].values, other.memories["source"].values)
    assert torch.equal(whole.tap(one, 1).values, half.tap(other, 1).values)
    assert set(half.state_dict()) == {n for n in whole.state_dict() if n.startswith(("embeddings.", "encoder."))}
    assert isinstance(whole, Generator) and not isinstance(half, Generator)


@pytest.mark.parametrize("pre_norm", [True, False])
@pytest.mark.parametrize("primed", [0, 1, 3])
def test_steps_give_what_decoding_at_once_gives(pre_norm: bool, primed: int) -> None:
    model, target = translator(pre_norm=pre_norm), tokens(20, 20, 20).values
    encoding = model.encode(batch(7, 4, 1))
    expected = model.project(model.decode(Padded(target, torch.full((3,), 20)), encoding))
    prefix = Padded(target[:, :primed], torch.full((3,), primed)) if primed else None
    state = model.start(encoding, prefix)
    for i in range(primed, 20):  # more than Past.STEP, so that the caches grow
        logits, state = model.step(target[:, i], state)
        torch.testing.assert_close(logits, expected[:, i], atol=2e-5, rtol=1e-4)


def test_beams_share_a_memory_and_are_reordered_and_dropped() -> None:
    """Each row, whatever beams it passed through, must give what decoding its own past alone gives."""
    model, beams = translator(), 3
    source = batch(7, 4, 5, 2)
    encoding = model.encode(source)
    generator = torch.Generator().manual_seed(0)
    sentences = [0, 1, 2, 3]
    prefix = tokens(2, 2, 2, 2)
    state = model.start(encoding, prefix).fork(beams)
    pasts = [prefix.values[s].tolist() for s in sentences for _ in range(beams)]
    for step in range(20):
        new = torch.randint(2, VOCABULARY, (len(pasts),), generator=generator)
        logits, state = model.step(new, state)
        pasts = [past + [token] for past, token in zip(pasts, new.tolist(), strict=True)]
        for row in (0, len(pasts) // 2, len(pasts) - 1):
            alone = encoding.select(torch.tensor([sentences[row // beams]]))
            past = torch.tensor([pasts[row]])
            expected = model.project(model.decode(Padded(past, torch.tensor([past.shape[1]])), alone))[0, -1]
            torch.testing.assert_close(logits[row], expected, atol=2e-5, rtol=1e-4)
        kept = {5: [0, 1, 3], 11: [1, 3]}.get(step, sentences)
        index = [
            i * beams + int(torch.randint(beams, (), generator=generator))
            for i, sentence in enumerate(sentences)
            if sentence in kept
            for _ in range(beams)
        ]
        state = state.reorder(torch.tensor(index))
        pasts, sentences = [pasts[i] for i in index], kept
    assert state.caches[0].memories["source"].keys.shape[0] == 2  # one memory a sentence, not a beam


def test_a_state_refuses_rows_that_are_not_whole_sentences() -> None:
    model = translator()
    state = model.start(model.encode(batch(3, 3)), None).fork(2)
    small.refuses(ValueError, "3 rows", state.reorder, torch.tensor([0, 1, 2]))
    small.refuses(ValueError, "6 rows", state.reorder, torch.tensor([0, 0, 1, 1, 2, 2]))
    small.refuses(ValueError, "2 beams of a sentence cannot become 3", state.fork, 3)


def test_padding_changes_nothing() -> None:
    model = translator(taps=[1, 2])
    source, target = tokens(9, 4), tokens(8, 3)
    source = Padded(source.values.masked_fill(~source.mask, 17), source.lengths)
    encoding = model.encode(Batch({"source": source}))
    states = model.decode(target, encoding)
    alone = model.encode(Batch({"source": Padded(source.values[1:, :4], source.lengths[1:])}))
    assert encoding.extras.keys() == {"tap.1", "tap.2"}
    for layer in (1, 2):
        torch.testing.assert_close(model.tap(encoding, layer).rows()[1], model.tap(alone, layer).rows()[0])
    torch.testing.assert_close(encoding.memories["source"].rows()[1], alone.memories["source"].rows()[0])
    torch.testing.assert_close(model.tap(encoding, 2).values, encoding.memories["source"].values)
    alone_states = model.decode(Padded(target.values[1:, :3], target.lengths[1:]), alone)
    torch.testing.assert_close(states[1, :3], alone_states[0], atol=1e-5, rtol=1e-4)


def test_attention_is_looked_at_in_the_layer_that_is_named() -> None:
    """A layer without keys attends to all states of a row alike, and no other layer does."""
    model, given, prefix = translator().eval(), batch(4, 2), tokens(3, 3)
    even = torch.tensor([[0.25] * 4, [0.5, 0.5, 0.0, 0.0]])[:, None, None].expand(2, 4, 3, 4)
    for number, layer in enumerate(model.decoder.layers, 1):
        attention = layer.memory_attention["source"]
        before = attention.keys_values.weight.detach().clone()
        with torch.no_grad():
            attention.keys_values.weight[: attention.width] = 0.0
        encoding = model.encode(given)
        looked = [model.attention(prefix, encoding, layer=other) for other in range(1, len(model.decoder.layers) + 1)]
        assert [torch.allclose(weights, even) for weights in looked] == [
            other == number for other in range(1, len(looked) + 1)
        ]
        with torch.no_grad():
            attention.keys_values.weight.copy_(before)
    by_default = model.attention(prefix, model.encode(given))
    assert torch.equal(by_default, model.attention(prefix, model.encode(given), layer=2))  # of 2: ceil(4 / 3)
    for layer, memory in ((0, "source"), (3, "source"), (1, "bert")):
        with pytest.raises(UsageError, match="layers 1 to 2, not|does not attend to 'bert'"):
            model.attention(prefix, model.encode(given), layer=layer, memory=memory)


def test_an_empty_row_spoils_nothing() -> None:
    model = translator()
    source = Padded(tokens(4, 4).values, torch.tensor([4, 0]))
    encoding = model.encode(Batch({"source": source}))
    states = model.decode(tokens(3, 3), encoding)
    states[..., 0].sum().backward()
    assert states.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_the_field_that_is_encoded() -> None:
    model = translator()
    mixed = Batch({"source": tokens(5), "speech": tokens(6)})
    assert model.encode(mixed).memories["source"].values.shape[1] == 5  # it cannot read speech
    model.embeddings["speech"] = TextEmbedding(vocabulary=VOCABULARY, width=WIDTH, padding=PADDING)
    assert model.encode(mixed).memories["source"].values.shape[1] == 6
    assert model.encode(mixed, "source").memories["source"].values.shape[1] == 5
    small.refuses(UsageError, "no embedding for 'transcript'", model.encode, mixed, "transcript")
    small.refuses(UsageError, "no field 'speech'", lambda: model.encode(Batch({"transcript": tokens(5)})))


def test_it_is_rebuilt_from_its_description() -> None:
    head = CtcHead(tap=1, width=WIDTH, vocabulary=VOCABULARY, blank=0)
    model = translator(heads={"ctc": head}, taps=[1])
    twin = build(json.loads(json.dumps(describe(model)))).eval()
    twin.load_state_dict(model.state_dict())
    source, target = batch(5, 3), tokens(4, 4)
    results = [m.project(m.decode(target, m.encode(source))) for m in (model, twin)]
    torch.testing.assert_close(results[0], results[1], atol=0, rtol=0)
    assert not any(name.startswith("projection") for name in model.state_dict())  # tied: the matrix has one name
    weight = next(p for name, p in twin.named_parameters() if name == "target_embedding.tokens.weight")
    assert twin.projection.weight is weight


class Words(Described, nn.Module):
    """A second encoder of a made-up system."""

    def __init__(self, *, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, width)

    def forward(self, field: Padded) -> Padded:
        return field.map(self.table)


class TwoMemories(Translator):
    """A made-up system: the decoder also attends to word vectors of another width."""

    def __init__(self, *, words: Words, **arguments) -> None:
        super().__init__(**arguments)
        self.words = words

    def encode(self, batch: Batch, field: str | None = None) -> Encoding:
        encoding = super().encode(batch, "source")
        return Encoding(encoding.memories | {"words": self.words(batch["words"])}, encoding.extras)


def test_two_memories() -> None:
    base = translator()
    torch.manual_seed(0)
    layer = Layer(width=WIDTH, heads=4, feedforward=24, memories={"source": WIDTH, "words": 6})
    model = TwoMemories(words=Words(width=6), **(base.arguments | {"decoder": Decoder(layer=layer, layers=2)})).eval()
    mixed = Batch({"source": tokens(5, 2), "words": tokens(3, 7)})
    target = tokens(4, 4)
    encoding = model.encode(mixed)
    expected = model.project(model.decode(target, encoding))
    state = model.start(encoding, None)
    for i in range(4):
        logits, state = model.step(target.values[:, i], state)
        torch.testing.assert_close(logits, expected[:, i], atol=2e-5, rtol=1e-4)
    for name in ("source", "words"):  # each memory matters
        other = Encoding(encoding.memories | {name: encoding.memories[name].map(lambda x: x + 1)})
        assert (model.project(model.decode(target, other)) - expected).abs().max() > 1e-3
    with pytest.raises(ValueError, match="attend to .'source', 'words'., but the memories are .'source'."):
        model.decode(target, Encoding({"source": encoding.memories["source"]}))


def decoder(**more) -> Decoder:
    return small.decoder(**{"memories": None, "heads": 4, "feedforward": 24} | more)


def embedding(width: int = WIDTH, positions=None) -> TextEmbedding:
    return small.embedding(VOCABULARY, width, positions, padding=PADDING, dropout=0.1)


def test_parts_that_do_not_fit_are_refused() -> None:
    complaint = refusal(ValueError, check_widths, embedding(8), decoder())
    assert complaint == "the target embedding's width 8 is not the decoder's 16"
    encoder = Encoder(layer=Layer(width=WIDTH, heads=4, feedforward=24), layers=2, taps=[1])
    refuses(ValueError, "^a model needs at least one embedding$", EncoderModel, embeddings={}, encoder=encoder)
    head = CtcHead(width=WIDTH, vocabulary=VOCABULARY, blank=0, tap=2)
    parts = {"embeddings": {"source": embedding()}, "encoder": encoder, "heads": {"ctc": head}}
    complaint = refusal(ValueError, EncoderModel, **parts)
    assert complaint == "head 'ctc' reads the states of 2, but the model's taps are [1]"
    parts = {"target_embedding": (target := embedding()), "projection": TiedProjection(embedding=target)}
    complaint = refusal(ValueError, LanguageModel, **parts, decoder=decoder(memories=["source"]))
    assert complaint == "a language model has no memories, but its decoder attends to ['source']"
    parts["target_embedding"] = embedding(8)
    refuses(ValueError, "width 8 is not the decoder's 16", LanguageModel, **parts, decoder=decoder())


def test_a_reader_is_alone_and_has_no_heads() -> None:
    encoder = Encoder(layer=Layer(width=WIDTH, heads=4, feedforward=24), layers=1, taps=[1])
    head = CtcHead(width=WIDTH, vocabulary=VOCABULARY, blank=0, tap=1)
    plain = EncoderModel(embeddings={"source": embedding()}, encoder=encoder)
    plain.check_read("source")
    small.refuses(ValueError, "^the reader must read 'speech' alone, not source$", plain.check_read, "speech")
    two = EncoderModel(embeddings={"source": embedding(), "speech": embedding()}, encoder=encoder)
    small.refuses(ValueError, "^the reader must read 'source' alone, not source and speech$", two.check_read, "source")
    heard = EncoderModel(embeddings={"source": embedding()}, encoder=encoder, heads={"ctc": head})
    small.refuses(ValueError, "^the reader has heads that nobody reads: ctc$", heard.check_read, "source")
    bare = heard.without_heads()
    bare.check_read("source")
    assert bare.encoder is encoder and bare.embeddings["source"] is heard.embeddings["source"]
    assert plain.symbol_fields() == {"embeddings.source": "source"}


def test_a_language_model_has_sentences_and_no_source() -> None:
    target = embedding()
    model = LanguageModel(target_embedding=target, decoder=decoder(), projection=TiedProjection(embedding=target))
    encoding = model.encode(batch(4, 2, 3))
    assert len(encoding) == 3 and encoding.memories == {} and [*encoding.extras] == ["sentences"]
    assert encoding.extras["sentences"].device == target.weight.device
    scores = model.eval().log_probabilities(tokens(4, 2, 3), encoding)
    assert scores.shape == (3, 4, VOCABULARY)
    torch.testing.assert_close(scores.exp().sum(-1), torch.ones(3, 4))
