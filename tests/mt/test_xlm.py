"""XLM: translation language modelling against torch's own layers and a loop; a translator that begins with it."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dragoman import Recipe, UsageError
from dragoman.shared.batch import Batch
from dragoman.shared.nn.embeddings import TypeVector
from dragoman.shared.nn.heads import MaskedTokenHead, TiedProjection
from dragoman.shared.nn.joined import JoinedEncoder
from dragoman.shared.objectives import CrossEntropy, FieldObjective, MaskedTokens
from dragoman.shared.run.running import run_recipe
from dragoman.shared.systems.saved_model import SavedModel
from tests import small as parts
from tests.recipes.test_recipes import small

WIDTH, VOCABULARY = 16, 20
TEXTS = {"source": [4, 6, 2], "target": [7, 3, 5]}


def embedding(shared_with=None):
    return parts.embedding(VOCABULARY, WIDTH, 32, type_vector=TypeVector(width=WIDTH), shared_with=shared_with)


@pytest.fixture
def model():
    torch.manual_seed(1)
    source = embedding()
    texts = {"source": source, "target": embedding(source)}
    heads = {
        name: MaskedTokenHead(width=WIDTH, field=name, projection=TiedProjection(embedding=text, bias=True))
        for name, text in texts.items()
    }
    encoder = parts.encoder(2, activation="gelu", pre_norm=False)
    return JoinedEncoder(embeddings=texts, encoder=encoder, heads=heads).eval()


def batch(*names):
    torch.manual_seed(2)
    fields = {}
    for name, lengths in TEXTS.items():
        fields[name] = parts.drawn(lengths, VOCABULARY)
        fields[f"{name}.places"] = parts.padded([[1, 3], [0, 2], [1]])
        fields[f"{name}.labels"] = parts.drawn((2, 2, 1), VOCABULARY)
    return Batch({name: value for name, value in fields.items() if name.split(".")[0] in names}, stream="pairs")


def by_torch(model):
    """Return torch's own encoder with the model's weights."""
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 32, dropout=0.0, activation="gelu", batch_first=True)
    theirs = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    for own, other in zip(model.encoder.layers, theirs.layers, strict=True):
        renamed = {
            "self_attn.in_proj_weight": own.self_attention.queries_keys_values.weight,
            "self_attn.in_proj_bias": own.self_attention.queries_keys_values.bias,
            "self_attn.out_proj.weight": own.self_attention.output.weight,
            "self_attn.out_proj.bias": own.self_attention.output.bias,
            "linear1.weight": own.inner.weight,
            "linear1.bias": own.inner.bias,
            "linear2.weight": own.outer.weight,
            "linear2.bias": own.outer.bias,
            "norm1.weight": own.self_attention_norm.weight,
            "norm1.bias": own.self_attention_norm.bias,
            "norm2.weight": own.feedforward_norm.weight,
            "norm2.bias": own.feedforward_norm.bias,
        }
        other.load_state_dict(renamed)
    return theirs


def joined(model, rows, number):
    """Return a row's input by hand: token, position from 0 in each text, language."""
    parts = []
    for name in TEXTS:
        ids = rows[name].rows()[number]
        text = model.embeddings[name]
        parts.append(text.weight[ids] * WIDTH**0.5 + text.positions.weight[: len(ids)] + text.type_vector.vector)
    return torch.cat(parts)[None]


def test_a_sentence_and_its_translation_are_one_input(model):
    rows, theirs = batch(*TEXTS), by_torch(model)
    found = model.encode(rows).memories
    for number in range(3):
        states = theirs(joined(model, rows, number))[0]
        expected = dict(zip(TEXTS, states.split([TEXTS[name][number] for name in TEXTS]), strict=True))
        for name, states in expected.items():
            torch.testing.assert_close(found[name].rows()[number], states, atol=1e-5, rtol=1e-4)


def test_the_loss_is_that_of_masked_tokens_alone(model):
    system = nn.Module()
    system.model = model
    parts = [MaskedTokens(head=name, field=name, memory=name, prefix=f"{name}.") for name in TEXTS]
    objective = FieldObjective(system=system, parts=parts)
    rows, theirs = batch(*TEXTS), by_torch(model)
    terms = objective(rows).parts
    for name in TEXTS:
        total = 0.0
        for number in range(3):
            states = theirs(joined(model, rows, number))[0]
            own = states.split([TEXTS[one][number] for one in TEXTS])[[*TEXTS].index(name)]
            head = model.heads[name]
            logits = head.transform(own) @ model.embeddings[name].weight.T + head.projection.bias
            labels, places = rows[f"{name}.labels"].rows()[number], rows[f"{name}.places"].rows()[number]
            total += F.cross_entropy(logits[places], labels, reduction="sum")
        assert int(terms[f"{name}.masked"].count) == 5
        torch.testing.assert_close(terms[f"{name}.masked"].sum, total, atol=1e-4, rtol=1e-4)


def test_a_text_alone_leaves_the_other_language_as_it_is(model):
    system = nn.Module()
    system.model = model
    parts = [MaskedTokens(head=name, field=name, memory=name, prefix=f"{name}.") for name in TEXTS]
    objective = FieldObjective(system=system, parts=parts)
    loss = objective(batch("target"))
    assert {name.split(".")[0] for name in loss.parts} == {"target"}
    loss.parts["target.masked"].sum.backward()
    assert model.embeddings["source"].type_vector.vector.grad is None
    assert model.embeddings["target"].type_vector.vector.grad.abs().sum() > 0
    with pytest.raises(UsageError, match="stream 'pairs' has no field that a part of the objective is about"):
        objective(batch())
    with pytest.raises(UsageError, match="part CrossEntropy does not say which field it is about"):
        FieldObjective(system=system, parts=[CrossEntropy()])


@pytest.mark.recipes
def test_encoder_and_decoder_begin_as_the_masked_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    overrides = {"debug": True, "noprogressbar": True, "workers": 0, "device": "cpu", "learning_rate": 1e-12}
    recipe = Recipe.load("almanac/mt_from_xlm", small(Recipe.load("almanac/mt_from_xlm", {})) | overrides)
    output = run_recipe(recipe, command="a test").output
    [xlm] = tmp_path.glob("results/**/xlm/1-debug/average/model")
    below = SavedModel.load(xlm).state_dict()
    found = SavedModel.load(output / "average" / "model").state_dict()
    for side in ("encoder", "decoder"):
        name = "layers.0.self_attention.queries_keys_values.weight"
        torch.testing.assert_close(found[f"model.{side}.{name}"], below[f"model.encoder.{name}"], atol=1e-6, rtol=0)
    names = {"model.embeddings.source": "source", "model.target_embedding": "target"}
    for here, there in names.items():
        vector = below[f"model.embeddings.{there}.type_vector.vector"]
        torch.testing.assert_close(found[f"{here}.type_vector.vector"], vector, atol=1e-6, rtol=0)
