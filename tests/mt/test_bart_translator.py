"""The source encoder before BART: what it computes, what learns in each step, what is kept of the model above it."""

import re

import pytest
import torch
from torch import nn

from dragoman import System, UsageError
from dragoman.mt.bart_translator import FirstStep, ForeignEncoder, put_before
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.nn.embeddings import TypeVector
from dragoman.shared.nn.heads import CtcHead, OutputProjection, TiedProjection
from dragoman.shared.nn.positions import SinusoidalPositions
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.nn.translator import MEMORY, Translator
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective
from dragoman.shared.training.optimizer import Adam
from tests import small
from tests.recipes.test_recipes import Vocabulary
from tests.small import refuses

WIDTH, LONGEST = 16, 40


@pytest.fixture(scope="module")
def tokenizers():
    """Of BART's English, and of a foreign language in other letters."""
    return (small.tokenizer(["abcdefg hi"] * 3, ["en"]), small.tokenizer(["rstuvwxyz"] * 3, ["ro"], size=290))


def embedding(tokenizer, *, width=WIDTH, norm=True, length=LONGEST, **given):
    return small.embedding(tokenizer, width, length, norm=norm, **given)


def layer(width=WIDTH, **given):
    return small.layer(width, **{"feedforward": 24, "activation": "gelu", "pre_norm": False} | given)


def bart(tokenizer, *, shared=True, layers=2, bias=True, heads=None, inputs=(), source=None, tied=True, **sizes):
    """A system that restores text in one language; biases and norms are no longer what they begin as."""
    inner = {name: value for name, value in sizes.items() if name in ("width", "feedforward", "heads_of_attention")}
    inner["heads"] = inner.pop("heads_of_attention", 2)
    outer = {name: value for name, value in sizes.items() if name in ("width", "length")}
    read = source or embedding(tokenizer, **outer)
    target = embedding(tokenizer, shared_with=read if shared else None, **outer)
    projection = TiedProjection(embedding=target, bias=bias)
    if not tied:
        projection = OutputProjection(width=target.width, vocabulary=tokenizer.size)
    model = Translator(
        embeddings={"source": read, **{name: embedding(tokenizer) for name in inputs}},
        encoder=Encoder(layer=layer(**inner), layers=layers),
        target_embedding=target,
        decoder=Decoder(layer=layer(memories=[MEMORY], **inner), layers=layers),
        projection=projection,
        heads=heads,
    )
    if not any(parameter.is_meta for parameter in model.parameters()):
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "norm" in name or name.endswith("bias"):
                    parameter.add_(torch.randn_like(parameter) / 4)
    fields = {"source": small.text(tokenizer)} | {name: SpeechField() for name in inputs}
    return small.system(tokenizer, model, inputs=fields, reads=["source"], target_languages=["en"])


def translator(tokenizers, seed=1, **given):
    torch.manual_seed(seed)
    english, foreign = tokenizers
    given = {"layers": 2, "dropout": 0.0, "source": small.text(foreign)} | given
    above = bart(english)
    return above, put_before(text=above, source_languages=["ro"], **given)


ROWS = [[5, 6, 7, 8, 2], [9, 10, 2]]


def batch(rows=ROWS):
    return small.batch(source=rows, target=[[4, 11, 12, 13, 2], [4, 14, 15, 2]])


def by_hand(system, row):
    """Return the source encoder's output for one row without padding, from its parameters and torch's own layers."""
    states = dict(system.state_dict())
    get = lambda name: states[f"model.embeddings.source.{name}"]  # noqa: E731 - short names for one function
    half = WIDTH // 2
    x = get("embedding.tokens.weight")[torch.tensor(row)] * WIDTH**0.5
    ratio = 10000 ** (-1 / (half - 1))
    angles = torch.tensor([[(place + 2) * ratio**k for k in range(half)] for place in range(len(row))])
    x = x + torch.cat([angles.sin(), angles.cos()], dim=1)
    for number in range(2):
        x = small.torch_layer(system.model.embeddings["source"].encoder.layers[number])(x[None])[0]
    x = x + get("positions.weight")[: len(row)]
    x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    return x * get("norm.weight") + get("norm.bias")


def test_the_source_encoder_against_torchs_layers(tokenizers):
    _, system = translator(tokenizers)
    found = system.model.embed(batch())
    assert found.lengths.tolist() == [5, 3]
    for row, values, length in zip(ROWS, found.values, found.lengths, strict=True):
        torch.testing.assert_close(values[:length], by_hand(system, row), atol=1e-5, rtol=1e-5)


def still(width=WIDTH):
    """An encoder whose layer changes nothing: neither branch adds anything."""
    encoder = Encoder(layer=layer(pre_norm=True, width=width), layers=1, final_norm=False)
    for one in (encoder.layers[0].self_attention.output, encoder.layers[0].outer):
        nn.init.zeros_(one.weight)
        nn.init.zeros_(one.bias)
    return encoder.eval()


@pytest.mark.parametrize("shared", [True, False])
def test_all_of_the_model_above_is_kept_but_its_embedding(tokenizers, shared):
    english, foreign = tokenizers
    torch.manual_seed(1)
    above = bart(english, shared=shared)
    source = small.text(foreign)
    kept = {name: value.clone() for name, value in above.state_dict().items()}
    system = put_before(text=above, source=source, layers=3, source_languages=["ro"], dropout=0.0)
    found = system.state_dict()
    vectors = kept.pop("model.embeddings.source.tokens.weight")
    if shared:
        kept["model.target_embedding.tokens.weight"] = vectors
    assert all(torch.equal(found[name], value) for name, value in kept.items())
    new = {name.removeprefix("model.embeddings.source.").partition(".")[0] for name in found if name not in kept}
    assert new == {"embedding", "encoder"}
    assert found["model.embeddings.source.embedding.tokens.weight"].shape == (foreign.size, WIDTH)
    assert len(system.model.embeddings["source"].encoder.layers) == 3
    states = torch.randn(2, WIDTH)
    torch.testing.assert_close(system.model.project(states), above.model.project(states))
    assert system.model.projection.weight is system.model.target_embedding.weight  # they learn together
    above.eval(), system.eval()
    prefix, memory = small.padded([[4, 5], [4, 6]]), above.model.encode(batch())
    assert torch.equal(system.model.decode(prefix, memory), above.model.decode(prefix, memory))
    first, second, _ = (one.self_attention.output.weight for one in system.model.embeddings["source"].encoder.layers)
    assert not torch.equal(first, second)  # each layer begins with numbers of its own
    assert not torch.equal(first, above.model.encoder.layers[0].self_attention.output.weight)


def test_a_folder_brings_it_back(tokenizers, tmp_path):
    _, system = translator(tokenizers)
    system.eval().save(tmp_path / "model")
    again = System.load(tmp_path / "model")
    assert again.state_dict().keys() == system.state_dict().keys()
    assert torch.equal(again.model.embed(batch()).values, system.model.embed(batch()).values)
    english, foreign = tokenizers
    assert again.inputs["source"].tokenizer.fingerprint == foreign.fingerprint
    assert again.output.tokenizer.fingerprint == english.fingerprint
    rows = {name: tokenizer.fingerprint for name, tokenizer in again.tokenizers_of_rows().items()}
    assert rows == {
        "model.embeddings.source.embedding.tokens.weight": foreign.fingerprint,
        "model.target_embedding.tokens.weight": english.fingerprint,
        "model.projection.bias": english.fingerprint,
    }
    assert isinstance(again.translate(["rst"])[0], str)
    assert any("new encoder of 2 layers" in line for line in again.origin)


#: What the paper lets learn in the first step, written out for a model of two layers.
OF_LAYER = ["inner", "outer", "self_attention.queries_keys_values", "self_attention.output"]
OF_LAYER += ["self_attention_norm", "feedforward_norm"]
FIRST = [f"embeddings.source.encoder.layers.{number}.{part}" for number in (0, 1) for part in OF_LAYER]
FIRST = {f"{name}.{kind}" for name in FIRST for kind in ("weight", "bias")} | {
    "embeddings.source.embedding.tokens.weight",
    "embeddings.source.positions.weight",
    "target_embedding.positions.weight",
    "encoder.layers.0.self_attention.queries_keys_values.weight",
    "encoder.layers.0.self_attention.queries_keys_values.bias",
}


@pytest.mark.parametrize("tuning", [FirstStep(), None])
def test_what_learns_in_each_step(tokenizers, tuning):
    """In the first step all else keeps its bits, weight decay or not; in the second all has changed."""
    _, system = translator(tokenizers)
    objective = EncoderDecoderObjective(system=system, parts=[CrossEntropy(label_smoothing=0.0)])
    names = {*system.model.state_dict()}
    moved = names - small.unmoved(objective, batch(), recipe=Adam(weight_decay=0.1, tuning=tuning))
    assert moved == (FIRST if tuning else names)


def test_the_first_step_needs_a_source_encoder(tokenizers):
    plain = EncoderDecoderObjective(system=bart(tokenizers[0]), parts=[CrossEntropy()])
    FirstStep().apply(plain)
    learning = {name.removeprefix("system.model.") for name, one in plain.named_parameters() if one.requires_grad}
    assert not any("source.e" in name for name in learning)
    assert learning < FIRST


def test_bart_large_has_the_papers_sizes():
    """By formula: 12 + 12 layers of width 1024, 50,265 tokens, 1,024 positions behind two unused rows."""
    width, inner, vocabulary, pieces = 1024, 4096, 50265, 32000
    tokenizer = Vocabulary(pieces=vocabulary - 8, tags=["en"])
    foreign = Vocabulary(pieces=pieces, tags=["ro"])
    assert tokenizer.size == vocabulary
    with torch.device("meta"):
        sizes = {"width": width, "feedforward": inner, "heads_of_attention": 16, "length": 1026}
        above = bart(tokenizer, layers=12, bias=False, **sizes)
        system = put_before(text=above, source=small.text(foreign), source_languages=["ro"])
    attention, norm = 4 * (width * width + width), 2 * width
    layer = attention + norm + (2 * width * inner + inner + width) + norm
    ends = 2 * (1026 * width + norm)
    large = vocabulary * width + ends + 12 * layer + 12 * (layer + attention + norm)
    assert large == 406_291_456  # those of BartModel in transformers, with bart-large's settings
    assert sum(parameter.numel() for parameter in above.parameters()) == large
    source = foreign.size * width + 6 * layer
    assert sum(parameter.numel() for parameter in system.parameters()) == large + source
    assert source / 1e6 == pytest.approx(108.4, abs=0.05) and (large + source) / 1e6 == pytest.approx(514.6, abs=0.05)
    objective = EncoderDecoderObjective(system=system, parts=[CrossEntropy()])
    FirstStep().apply(objective)
    learning = sum(parameter.numel() for parameter in objective.parameters() if parameter.requires_grad)
    assert learning == source + 2 * 1026 * width + 3 * (width * width + width)
    assert learning / 1e6 == pytest.approx(113.6, abs=0.05)


def test_dropout_is_that_of_the_new_encoder(tokenizers):
    above, system = translator(tokenizers, dropout=0.25)
    new = system.model.embeddings["source"]
    assert new.dropout == new.embedding.dropout == new.encoder.layers[1].dropout == 0.25
    assert above.model.encoder.layers[0].dropout == 0.0
    ones = ForeignEncoder(embedding=embedding(tokenizers[0], norm=False), encoder=still(), norm=False, dropout=0.25)
    with torch.no_grad():
        ones.embedding.tokens.weight.fill_(1 / WIDTH**0.5)
        ones.embedding.positions.weight.zero_()
    values = ones.train()(small.padded([[5] * 39] * 40)).values
    torch.testing.assert_close(values.unique(), torch.tensor([0.0, 1 / 0.75]))
    assert float((values == 0).float().mean()) == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"embedding": 8}, "the width of the embedding is 8, that of the source encoder 16"),
        ({"positions": 8}, "the width of the positions is 8, that of the source encoder 16"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, not 1.0"),
    ],
)
def test_parts_that_do_not_fit_are_refused(tokenizers, wrong, message):
    given = {
        "embedding": embedding(tokenizers[1], width=wrong.get("embedding", WIDTH)),
        "encoder": still(),
        "positions": SinusoidalPositions(width=wrong.get("positions", WIDTH)),
        "dropout": wrong.get("dropout", 0.1),
    }
    small.refuses(ValueError, re.escape(message), ForeignEncoder, **given)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("heads", "Translator is no text translator without heads and further inputs"),
        ("speech", "no text translator without heads and further inputs"),
        ("typed", "no text translator without heads and further inputs"),
        ("tied to source", "its output is tied to the vectors of its source"),
    ],
)
def test_a_model_that_cannot_be_read_through_is_refused(tokenizers, made, message):
    english, foreign = tokenizers
    if made == "heads":
        above = bart(english)
        above.model.heads["ctc"] = CtcHead(tap=2, width=WIDTH, vocabulary=english.size, blank=0)
    elif made == "typed":
        above = bart(english, source=embedding(english, type_vector=TypeVector(width=WIDTH)))
    elif made == "tied to source":
        above = bart(english, shared=False)
        above.model.projection = TiedProjection(embedding=above.model.embeddings["source"])
    else:
        above = bart(english, inputs=[made])
    refuses(UsageError, re.escape(message), put_before, text=above, source=small.text(foreign), source_languages=["ro"])


def test_a_language_that_the_model_cannot_write_is_refused(tokenizers):
    english, foreign = tokenizers
    source = small.text(foreign)
    given = {"text": bart(english), "source": source, "source_languages": ["ro"], "target_languages": ["de"]}
    refuses(UsageError, "target_languages: 'de' is no language of the system", put_before, **given)


def test_an_output_matrix_of_its_own_is_kept(tokenizers):
    above = bart(tokenizers[0], tied=False)
    system = put_before(text=above, source=small.text(tokenizers[1]), source_languages=["ro"])
    assert system.model.projection is above.model.projection
    assert torch.equal(system.model.target_embedding.weight, above.model.embeddings["source"].weight)
