"""Grafted encoders and decoders against torch's layers and ordinary stacks, and fused logits against dense ones."""

import pytest
import torch
from torch.nn import functional as F

from dragoman import Recipe, System, UsageError
from dragoman.exchange.huggingface.hf_translator_export import plain_translator
from dragoman.mt.graformer import FusedProjection, GraftedDecoder, GraftedEncoder, GraftedTranslator
from dragoman.shared.batch import Batch
from dragoman.shared.nn.attention import Prompts
from dragoman.shared.nn.heads import OutputProjection, TiedProjection
from dragoman.shared.nn.linear import store_for_search
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.objectives import CrossEntropy
from dragoman.shared.objectives.cross_entropy import label_smoothed_cross_entropy
from tests import small
from tests.small import refuses

WIDTH, INNER, VOCABULARY = 16, 24, 30
BELOW, NEW = 2, 3
ROWS = {"source": [4, 6, 2], "target": [5, 3, 4]}


def layer(memories=None, width=WIDTH):
    return small.layer(width, feedforward=INNER, memories=memories, activation="gelu", dropout=0.1)


def embedding(vocabulary=VOCABULARY):
    return small.embedding(vocabulary, WIDTH, 20, scaled=False, dropout=0.1)


def stack(kind, layers=BELOW, final_norm=False, memories=None, width=WIDTH, **options):
    return kind(layer=layer(memories, width), layers=layers, final_norm=final_norm, **options)


def translator(fusion=True, vocabulary=VOCABULARY, **changes):
    torch.manual_seed(1)
    target = embedding(vocabulary)
    own = OutputProjection(width=WIDTH, vocabulary=vocabulary)
    fused = FusedProjection(own=own, language=TiedProjection(embedding=target))
    parts = {
        "embeddings": {"source": embedding(vocabulary)},
        "encoder": GraftedEncoder(below=stack(Encoder), layer=layer(), layers=NEW),
        "target_embedding": target,
        "decoder": GraftedDecoder(below=stack(Decoder), layer=layer(["source"]), layers=NEW, fusion=fusion),
        "projection": fused if fusion else own,
    }
    return small.disturbed(GraftedTranslator(**parts | changes))


def batch(rows=ROWS):
    return small.drawn_batch(rows, VOCABULARY, 3)


def normed(norm, x):
    return F.layer_norm(x, (WIDTH,), norm.weight, norm.bias)


def by_torch(model, rows):
    """Return the states of the encoder and the logits by torch's layers and the formula of the paper."""
    source, prefix = rows["source"], rows["target"]
    memory = model.embeddings["source"](source).values
    for one in (*model.encoder.below.layers, *model.encoder.layers):
        memory = small.torch_layer(one)(memory, src_key_padding_mask=~source.mask)
    memory = normed(model.encoder.norm, memory)
    later = torch.ones(prefix.values.shape[1], prefix.values.shape[1], dtype=torch.bool).triu(1)
    known = model.target_embedding(prefix).values
    for one in model.decoder.below.layers:
        known = small.torch_layer(one)(known, src_mask=later)
    states = known
    for one in model.decoder.layers:
        decoder = small.torch_layer(one, "source")
        states = decoder(states, memory, tgt_mask=later, memory_key_padding_mask=~source.mask)
    logits = normed(model.decoder.norm, states) @ model.projection.own.weight.T
    return memory, logits + normed(model.decoder.language_norm, known) @ model.target_embedding.weight.T


def test_states_and_logits_against_torch():
    model, rows = translator(), batch()
    encoding = model.encode(rows)
    memory, logits = by_torch(model, rows)
    mask = rows["source"].mask
    torch.testing.assert_close(encoding.memories["source"].values[mask], memory[mask], atol=1e-5, rtol=1e-5)
    found = model.project(model.decode(rows["target"], encoding))
    mask = rows["target"].mask
    torch.testing.assert_close(found[mask], logits[mask], atol=1e-5, rtol=1e-5)


def joined(kind, below, above, **options):
    """Return an ordinary stack with the layers of two."""
    one = stack(kind, layers=BELOW + NEW, final_norm=True, **options)
    own = [*below.layers, *above.layers]
    for layer_of_one, layer_of_own in zip(one.layers, own, strict=True):
        layer_of_one.load_state_dict(layer_of_own.state_dict())
    one.norm.load_state_dict(above.norm.state_dict())
    return one.eval()


def prompts():
    torch.manual_seed(7)
    return [Prompts(torch.randn(1, 2, WIDTH), torch.randn(1, 2, WIDTH)) for _ in range(BELOW + NEW)]


def test_an_encoder_is_one_stack_with_prompts_and_taps():
    torch.manual_seed(1)
    grafted = GraftedEncoder(below=stack(Encoder), layer=layer(), layers=NEW, taps=[0, 2, NEW])
    small.disturbed(grafted)
    ordinary = joined(Encoder, grafted.below, grafted, taps=[BELOW, BELOW + 2, BELOW + NEW])
    x = embedding()(batch()["source"])
    for given in (None, prompts()):
        (found, found_taps), (expected, taps) = (one(x, prompts=given) for one in (grafted, ordinary))
        torch.testing.assert_close(found.values, expected.values)
        assert [number + BELOW for number in found_taps] == [*taps]
        for one, other in zip(found_taps.values(), taps.values(), strict=True):
            torch.testing.assert_close(one.values, other.values)


def test_a_decoder_without_memories_is_one_stack_with_prompts():
    torch.manual_seed(1)
    grafted = small.disturbed(GraftedDecoder(below=stack(Decoder), layer=layer(), layers=NEW, fusion=False))
    ordinary = joined(Decoder, grafted.below, grafted)
    x = embedding()(batch()["target"])
    for given in (None, prompts()):
        torch.testing.assert_close(grafted(x, prompts=given).values, ordinary(x, prompts=given).values)


@pytest.mark.parametrize("fusion", [True, False])
def test_step_by_step_as_at_once_with_beams(fusion):
    small.check_beams(translator(fusion), batch(), "source")


def test_a_sentence_alone_is_as_in_a_batch():
    small.check_rows(translator(), batch())


def test_a_chunked_loss_of_fused_logits():
    torch.manual_seed(1)
    target = embedding()
    own = OutputProjection(width=WIDTH, vocabulary=VOCABULARY)
    fused = FusedProjection(own=own, language=TiedProjection(embedding=target))
    target.requires_grad_(False)
    states = torch.randn(7, 2 * WIDTH, requires_grad=True)
    labels = torch.randint(0, VOCABULARY, (7,))
    label_smoothed_cross_entropy(states, fused, labels, chunk=3 * VOCABULARY).loss.backward()
    found = [states.grad.clone(), own.weight.grad.clone()]
    states.grad = own.weight.grad = None
    logits = states[:, :WIDTH] @ own.weight.T + states[:, WIDTH:] @ target.weight.T
    F.cross_entropy(logits, labels, reduction="sum").backward()
    for one, other in zip(found, (states.grad, own.weight.grad), strict=True):
        torch.testing.assert_close(one, other)
    assert target.weight.grad is None
    torch.testing.assert_close(fused(states), logits)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_logits_of_a_model_that_is_stored_for_search(dtype):
    model = translator()
    states = torch.randn(4, 2 * WIDTH, generator=torch.Generator().manual_seed(2))
    before = model.project(states)
    store_for_search(model, dtype)
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype is not None):
        found = model.project(states)
    tolerance = 1e-5 if dtype is None else 0.1
    torch.testing.assert_close(found.float(), before, atol=tolerance, rtol=tolerance)


def test_a_search_knows_the_states_of_all_layers():
    values = 2 * 2 * 16 * WIDTH * (BELOW + NEW)  # keys and values in both buffers of 16 positions
    assert translator().state_bytes(3) == 4 * values


def test_symbols_are_known():
    """Vocabularies are trimmed, and vectors taken from other folders, by them (shared/nn/symbols.py)."""
    model = translator()
    known = {"embeddings.source": "source", "target_embedding": "output", "projection": "output"}
    assert model.symbol_fields() == known
    assert model.projection.symbol_tensors() == ["own.weight"]
    assert [name for name, _ in model.projection.named_parameters()] == ["own.weight"]


def test_logits_of_what_a_trimmed_vocabulary_keeps_do_not_change(tmp_path):
    golden = System.load(small.GOLDEN)
    model = translator(vocabulary=golden.output.tokenizer.size)
    whole, trimmed = small.trimmed(System(**(golden.arguments | {"model": model})), tmp_path)
    assert whole.model.projection.language.weight is whole.model.target_embedding.weight
    logits = []
    for system in (whole, trimmed):
        tokens = small.padded([system.output.tokenizer.encode("eins")])
        encoding = system.model.encode(Batch({"source": tokens}))
        logits.append(system.model.project(system.model.decode(tokens, encoding)))
    torch.testing.assert_close(logits[1], logits[0][..., trimmed.output.tokenizer.kept])


def test_all_of_it_learns_unless_it_is_frozen():
    model, rows = translator(), batch()
    small.objective(model, CrossEntropy())(rows).parts["cross_entropy"].sum.backward()
    assert [name for name, parameter in model.named_parameters() if not parameter.grad.abs().sum()] == []


def test_what_does_not_fit_is_refused():
    def encoder(below):
        return GraftedEncoder(below=below, layer=layer(), layers=1)

    normed = stack(Encoder, final_norm=True)
    small.refuses(ValueError, "must not normalise what leaves them: give them final_norm: False", encoder, normed)
    refuses(ValueError, "the layers below have the width 8, but those above them 16", encoder, stack(Encoder, width=8))
    refuses(ValueError, r"nobody reads what the layers below are tapped for: \[1\]", encoder, stack(Encoder, taps=[1]))
    with pytest.raises(ValueError, match=r"the layers below must attend to no memory, not to \['source'\]"):
        GraftedDecoder(below=stack(Decoder, memories=["source"]), layer=layer(["source"]), layers=1)
    own, biased, other = (
        OutputProjection(width=WIDTH, vocabulary=vocabulary, bias=bias)
        for vocabulary, bias in ((VOCABULARY, False), (VOCABULARY, True), (7, False))
    )
    message = "the projection reads states of width 16, but the decoder's have 32"
    refuses(ValueError, message, translator, projection=own)
    tied, moved = (TiedProjection(embedding=embedding(), bias=bias) for bias in (False, True))
    for one, two, message in (
        (other, tied, "logits over vocabularies of 7 and 30 cannot be added"),
        (biased, tied, "the projections of a grafted decoder must have no bias"),
        (own, moved, "the projections of a grafted decoder must have no bias"),
    ):
        small.refuses(ValueError, message, FusedProjection, own=one, language=two)


def test_transformers_has_no_place_for_it():
    system = System(**(System.load(small.GOLDEN).arguments | {"model": translator()}))
    small.refuses(UsageError, "System of a GraftedTranslator", plain_translator, system)


def test_what_learns_on_top_of_two_frozen_language_models():
    """The names of all parameters that the recipe trains, spelled out."""
    vocabulary = "!new:tests.recipes.test_recipes.Vocabulary {pieces: 10, tags: [en, de]}"
    changes = {"encoder_layers": 1, "decoder_layers": 1, "new_layers": 2, "tokenizer": vocabulary}
    with torch.device("meta"):
        fit = Recipe.load("almanac/graft", changes).plan["fit"].build()
    fit.optimizer.tuning.apply(fit.objective)
    named = [*fit.objective.named_parameters()]
    found = {name.removeprefix("system.model.") for name, parameter in named if parameter.requires_grad}
    learned = ["feedforward_norm", "inner", "outer", "self_attention.output", "self_attention.queries_keys_values"]
    attending = [f"memory_attention.source.{name}" for name in ("queries", "keys_values", "output")]
    of_decoder = [*learned, *attending, "memory_attention_norm"]
    modules = [f"encoder.layers.{number}.{name}" for number in range(2) for name in learned]
    modules += [f"decoder.layers.{number}.{name}" for number in range(2) for name in of_decoder]
    modules += [f"{side}.layers.1.self_attention_norm" for side in ("encoder", "decoder")]
    modules += ["encoder.norm", "decoder.norm", "decoder.language_norm"]
    expected = {f"{name}.{kind}" for name in modules for kind in ("weight", "bias")}
    assert found == expected | {"projection.own.weight"}
