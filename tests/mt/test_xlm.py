"""XLM: translation language modelling against torch's own layers and a loop; a translator that begins with it."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dragoman import Recipe, UsageError
from dragoman.runs.running import run_recipe
from dragoman.shared.batch import Batch
from dragoman.shared.nn.embeddings import TypeVector
from dragoman.shared.nn.heads import MaskedTokenHead, TiedProjection
from dragoman.shared.nn.joined import JoinedEncoder
from dragoman.shared.objectives import CrossEntropy, FieldObjective, MaskedTokens
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
    above = {name: TiedProjection(embedding=text, bias=True) for name, text in texts.items()}
    heads = {name: MaskedTokenHead(width=WIDTH, field=name, projection=one) for name, one in above.items()}
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
    return nn.Sequential(*map(parts.torch_layer, model.encoder.layers))


def joined(model, rows, number):
    """Return a row's input by hand: token, position from 0 in each text, language."""
    made = []
    for name, text in model.embeddings.items():
        ids = rows[name].rows()[number]
        made.append(text.weight[ids] * WIDTH**0.5 + text.positions.weight[: len(ids)] + text.type_vector.vector)
    return torch.cat(made)[None]


def test_a_sentence_and_its_translation_are_one_input(model):
    rows, theirs = batch(*TEXTS), by_torch(model)
    found = model.encode(rows).memories
    for number in range(3):
        states = theirs(joined(model, rows, number))[0]
        expected = dict(zip(TEXTS, states.split([TEXTS[name][number] for name in TEXTS]), strict=True))
        for name, states in expected.items():
            torch.testing.assert_close(found[name].rows()[number], states, atol=1e-5, rtol=1e-4)


def objective(model):
    masked = [MaskedTokens(head=name, field=name, memory=name, prefix=f"{name}.") for name in TEXTS]
    return parts.objective(model, *masked, cls=FieldObjective)


def test_the_loss_is_that_of_masked_tokens_alone(model):
    rows, theirs = batch(*TEXTS), by_torch(model)
    terms = objective(model)(rows).parts
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
    own = objective(model)
    loss = own(batch("target"))
    assert {name.split(".")[0] for name in loss.parts} == {"target"}
    loss.parts["target.masked"].sum.backward()
    assert model.embeddings["source"].type_vector.vector.grad is None
    assert model.embeddings["target"].type_vector.vector.grad.abs().sum() > 0
    parts.refuses(UsageError, "stream 'pairs' has no field that a part of the objective is about", own, batch())
    with pytest.raises(UsageError, match="part CrossEntropy does not say which field it is about"):
        parts.objective(model, CrossEntropy(), cls=FieldObjective)


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
