"""Models of the library transformers without it: where each family's positions begin, from its formulas by hand.

That whole models compute what transformers computes is tested in tests/parity/test_huggingface.py.
"""

import json
import math

import pytest
import torch

from dragoman.exchange.huggingface.hf_model import EncoderDecoder, MaskedEncoder, counterparts_of
from dragoman.exchange.huggingface.hf_reading import Config
from dragoman.shared.errors import DataError
from tests.small import refusal

WIDTH, LENGTH, PAD = 8, 5, 3
TRANSLATOR = {
    "d_model": WIDTH, "vocab_size": 11, "max_position_embeddings": LENGTH, "pad_token_id": PAD,
    "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "activation_function": "relu",
}  # fmt: skip
ENCODER = {
    "hidden_size": WIDTH, "vocab_size": 11, "max_position_embeddings": 9, "pad_token_id": PAD, "type_vocab_size": 1,
    "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "hidden_act": "gelu",
}  # fmt: skip


def config_of(tmp_path, settings):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(settings))
    return Config(file)


def positions(tmp_path, build, settings, length):
    """Return the module of a model's positions, and the vectors that it gives the first ones."""
    module = build(config_of(tmp_path, settings), {}).build().embeddings["source"].positions
    return module, module(length, like=torch.zeros(1))


def sinusoids(number, exponents):
    angles = [number / 10000**exponent for exponent in exponents]
    return [*map(math.sin, angles), *map(math.cos, angles)]


@pytest.mark.parametrize("kind", ["bart", "mbart"])
def test_the_first_two_rows_of_barts_positions_are_unused(tmp_path, kind):
    """BartLearnedPositionalEmbedding: a table of max_position_embeddings + 2 rows; token i has row i + 2."""
    module, found = positions(tmp_path, EncoderDecoder, TRANSLATOR | {"model_type": kind}, LENGTH)
    assert module.weight.shape == (LENGTH + 2, WIDTH) and torch.equal(found, module.weight[2:])


@pytest.mark.parametrize(("kind", "first", "ratios"), [("m2m_100", PAD + 1, WIDTH // 2 - 1), ("marian", 0, WIDTH // 2)])
def test_sinusoids_are_counted_from_behind_the_number_of_padding_or_from_zero(tmp_path, kind, first, ratios):
    """M2M100SinusoidalPositionalEmbedding: token i has number padding_idx + 1 + i, and D/2 - 1 equal ratios.

    MarianSinusoidalPositionalEmbedding: token i has number i, and D/2 ratios.
    """
    _, found = positions(tmp_path, EncoderDecoder, TRANSLATOR | {"model_type": kind}, LENGTH)
    expected = [sinusoids(first + i, [j / ratios for j in range(WIDTH // 2)]) for i in range(LENGTH)]
    assert torch.allclose(found, torch.tensor(expected), atol=1e-6)


@pytest.mark.parametrize("given", [{}, {"scale_embedding": False}, {"scale_embedding": True}])
def test_vectors_are_scaled_if_the_settings_say_so(tmp_path, given):
    """MBartConfig: scale_embedding is False by default."""
    config = config_of(tmp_path, TRANSLATOR | {"model_type": "mbart"} | given)
    found = EncoderDecoder(config, {}).build().embeddings["source"]
    assert found.scale == (math.sqrt(WIDTH) if given.get("scale_embedding") else 1)


def test_a_tensor_has_counterparts_of_the_same_values():
    assert counterparts_of("projection.weight") == ("lm_head.weight",)
    assert counterparts_of("projection.bias") == ("final_logits_bias",)
    assert counterparts_of("decoder.layers.1.inner.weight") == ("model.decoder.layers.1.fc1.weight",)
    maps = counterparts_of("encoder.layers.0.self_attention.queries_keys_values.bias")
    assert maps == tuple(f"model.encoder.layers.0.self_attn.{one}_proj.bias" for one in "qkv")


@pytest.mark.parametrize(("kind", "first"), [("bert", 0), ("roberta", PAD + 1), ("xlm-roberta", PAD + 1)])
def test_encoders_leave_the_rows_up_to_padding_unused_or_none(tmp_path, kind, first):
    """RobertaEmbeddings: token i has row padding_idx + 1 + i of max_position_embeddings rows; BertEmbeddings: row i."""
    module, found = positions(tmp_path, MaskedEncoder, ENCODER | {"model_type": kind}, 9 - first)
    assert module.weight.shape == (9, WIDTH) and torch.equal(found, module.weight[first:])


def test_marians_positions_of_an_odd_width_are_refused(tmp_path):
    settings = {"model_type": "marian", "d_model": 9, "encoder_attention_heads": 3, "decoder_attention_heads": 3}
    said = refusal(DataError, positions, tmp_path, EncoderDecoder, TRANSLATOR | settings, LENGTH)
    assert said == f"{tmp_path / 'config.json'}: positions of an odd width (d_model 9) are not known here"


def there(model, names):
    """Return the tensors of a model as somebody's file has them: each of ours divided among its counterparts."""
    torch.manual_seed(3)
    found = {}
    for name, own in model.state_dict().items():
        theirs = names(name)
        parts = torch.randn_like(own).chunk(len(theirs))
        found |= dict(zip(theirs, parts, strict=True))
    return found


def filled(model, names, tensors):
    """Tell whether a model has the values of a file's tensors."""
    values = {name: [tensors.get(part) for part in names(name)] for name in model.state_dict()}
    known = {name: torch.cat(parts) for name, parts in values.items() if all(part is not None for part in parts)}
    return all(torch.equal(model.state_dict()[name], value) for name, value in known.items())


def vectors_of(side):
    return f"model.{side}.embed_tokens.weight"


def counterparts(name):
    sides = {"embeddings.source.tokens.weight": "encoder", "target_embedding.tokens.weight": "decoder"}
    return (vectors_of(sides[name]),) if name in sides else counterparts_of(name)


@pytest.mark.parametrize("bare", [False, True])
def test_a_translator_of_three_tables_has_the_values_of_its_file(tmp_path, bare):
    config = config_of(tmp_path, TRANSLATOR | {"model_type": "mbart", "tie_word_embeddings": False})
    like = EncoderDecoder(config, {"final_logits_bias": torch.ones(1, 11), vectors_of("encoder"): torch.zeros(1)})
    assert not like.tied
    tensors = there(like.build(), counterparts) | {"final_logits_bias": torch.arange(11.0)[None]}
    given = {name.removeprefix("model.") if bare else name: tensor for name, tensor in tensors.items()}
    read = EncoderDecoder(config, given | {"model.shared.weight": torch.ones(2)} if not bare else given)
    model = read.build()
    report = read.load(model, "them")
    report.check()
    assert filled(model, counterparts, tensors | {"final_logits_bias": torch.arange(11.0)})
    assert report.elsewhere == ([] if bare else ["model.shared.weight"])
    assert not torch.equal(model.embeddings["source"].weight, model.target_embedding.weight)


def test_copies_of_a_shared_table_are_one_and_have_to_be_equal(tmp_path):
    config = config_of(tmp_path, TRANSLATOR | {"model_type": "m2m_100", "scale_embedding": True})
    read = EncoderDecoder(config, {})
    assert read.shared and read.tied
    own = there(read.build(), lambda name: ("model.shared.weight",) if "tokens" in name else counterparts_of(name))
    assert "lm_head.weight" not in own and "final_logits_bias" not in own
    table = own["model.shared.weight"]
    more = {vectors_of("encoder"): table, vectors_of("decoder"): table.clone(), "lm_head.weight": table.clone()}
    more |= {"final_logits_bias": torch.zeros(1, 11), "model.encoder.embed_positions.weights": torch.zeros(2)}
    for given in (own, own | more):
        read = EncoderDecoder(config, given)
        model = read.build()
        report = read.load(model, "them")
        report.check()
        assert report.elsewhere == [] and torch.equal(model.embeddings["source"].weight, table)
        assert model.embeddings["source"].weight is model.target_embedding.weight
    other = EncoderDecoder(config, own | more | {"lm_head.weight": table + 1})
    assert other.load(other.build(), "them").unexpected == ["lm_head.weight"]


def test_the_output_of_fsmt_has_another_name(tmp_path):
    settings = TRANSLATOR | {"model_type": "fsmt", "tie_word_embeddings": False, "decoder_vocab_size": 7}
    config, name = config_of(tmp_path, settings), "model.decoder.output_projection.weight"
    tables = {vectors_of("encoder"): torch.zeros(11, WIDTH), vectors_of("decoder"): torch.ones(7, WIDTH)}
    read = EncoderDecoder(config, tables | {name: torch.ones(7, WIDTH)})
    assert name not in read.tensors and read.tied and not read.shared  # its values are those of the decoder's table
    assert read.build().target_embedding.vocabulary == 7
    assert not EncoderDecoder(config, tables | {name: torch.zeros(7, WIDTH)}).tied
    settings.pop("decoder_vocab_size")
    assert EncoderDecoder(config_of(tmp_path, settings), tables).build().target_embedding.vocabulary == 11


#: Of the layers before what they do, and of the embeddings.
NORMS = {"bart": (False, True), "mbart": (True, True), "m2m_100": (True, False), "marian": (False, False)}


@pytest.mark.parametrize(("kind", "norms"), [*NORMS.items(), ("fsmt", (False, False))])
def test_families_normalise_in_their_places(tmp_path, kind, norms):
    settings = {"dropout": 0.1, "attention_dropout": 0.2, "activation_dropout": 0.3, "encoder_layers": 2}
    settings |= {"encoder_attention_heads": 4, "decoder_ffn_dim": 24, "activation_function": "swish"}
    model = EncoderDecoder(config_of(tmp_path, TRANSLATOR | {"model_type": kind} | settings), {}).build()
    pre_norm, embedding_norm = norms
    for stack, depth, heads, inner in ((model.encoder, 2, 4, 16), (model.decoder, 1, 2, 24)):
        layer = stack.layers[0]
        assert len(stack.layers) == depth and layer.self_attention.heads == heads and layer.inner.out_features == inner
        assert layer.pre_norm is pre_norm and isinstance(stack.norm, torch.nn.LayerNorm) is pre_norm
        given = layer.arguments
        assert [given[name] for name in ("dropout", "attention_dropout", "activation_dropout")] == [0.1, 0.2, 0.3]
        assert given["activation"] == "swish"
    own = model.embeddings["source"].arguments
    assert (own["norm"], own["dropout"], own["padding"], own["scaled"]) == (embedding_norm, 0.1, PAD, False)
    assert model.encoder.layers[0].memories == [] and model.decoder.layers[0].memories == ["source"]


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta"])
def test_an_encoder_has_the_values_of_its_file(tmp_path, kind):
    config = config_of(tmp_path, ENCODER | {"model_type": kind, "hidden_act": "relu", "type_vocab_size": 2})
    family = "bert" if kind == "bert" else "roberta"
    head = "cls.predictions" if kind == "bert" else "lm_head"
    dense, output, bias = f"{head}{'.transform' if kind == 'bert' else ''}.dense", f"{head}.decoder", f"{head}.bias"
    like = MaskedEncoder(config, {f"{dense}.weight": torch.zeros(1)})
    tensors = there(like.build(), like.counterparts)
    assert {f"{family}.embeddings.word_embeddings.weight", f"{dense}.weight", bias} < {*tensors}
    assert f"{family}.encoder.layer.0.attention.self.query.bias" in tensors
    table = tensors[f"{family}.embeddings.word_embeddings.weight"]
    more = {f"{output}.weight": table.clone(), f"{output}.bias": tensors[bias].clone()}
    more |= {f"{family}.pooler.dense.weight": table, f"{family}.embeddings.position_ids": torch.arange(3)}
    read = MaskedEncoder(config, tensors | more)
    model = read.build(taps=[1])
    report = read.load(model, "them")
    report.check()
    assert report.elsewhere == [f"{family}.pooler.dense.weight"]
    assert filled(model, like.counterparts, tensors) and model.encoder.taps == [1]
    assert model.heads["masked_tokens"].arguments["activation"] == ("relu" if kind == "bert" else "gelu")
    wrong = MaskedEncoder(config, tensors | {f"{output}.weight": table + 1})
    assert wrong.load(wrong.build(), "them").unexpected == [f"{output}.weight"]


def test_an_encoder_alone_may_have_names_without_what_is_around_it(tmp_path):
    config = config_of(tmp_path, ENCODER | {"model_type": "bert", "layer_norm_eps": 0.25})
    like = MaskedEncoder(config, {})
    assert not like.head and not like.build().heads
    tensors = there(like.build(), like.counterparts)
    older = {}
    for name, tensor in tensors.items():
        for new, old in (("bert.", ""), ("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")):
            name = name.replace(new, old)
        older[name] = tensor
    read = MaskedEncoder(config, older, padding=5)
    model = read.build()
    read.load(model, "them").check()
    assert filled(model, like.counterparts, tensors) and model.embeddings["source"].padding == 5
    assert model.embeddings["source"].norm.eps == model.encoder.layers[0].feedforward_norm.eps == 0.25
    plain = MaskedEncoder(config_of(tmp_path, ENCODER | {"model_type": "bert"}), {}).build()
    assert plain.embeddings["source"].norm.eps == 1e-12 and plain.embeddings["source"].padding == PAD


@pytest.mark.parametrize(("name", "value"), [("position_embedding_type", "relative_key"), ("is_decoder", True)])
def test_attention_of_another_kind_is_refused(tmp_path, name, value):
    said = refusal(DataError, MaskedEncoder, config_of(tmp_path, ENCODER | {"model_type": "bert", name: value}), {})
    assert said == f"{tmp_path / 'config.json'}: {name} {value!r} has no counterpart here"
