"""VECO: its three losses against torch's own encoder and decoder, the translator made of it, and segments of texts."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dragoman import DataError, Manifest, Recipe, UsageError
from dragoman.mt.veco import AdjacentSegment, CrossMasked, InnerMasked, JointMasked, PluggableEncoder, VariableModel
from dragoman.runs.running import run_recipe
from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.masked_text import MaskedText
from dragoman.shared.nn.conformer import ConformerLayer
from dragoman.shared.nn.heads import MaskedTokenHead, TiedProjection
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.objectives import TaskObjective
from dragoman.shared.systems.encoder_system import EncoderSystem
from dragoman.shared.systems.saved_model import SavedModel
from dragoman.shared.training.initialise import Initialise
from tests import small as small_parts
from tests.recipes.test_recipes import small
from tests.small import disturbed, refuses, torch_layer

WIDTH, HEADS, FEEDFORWARD, LAYERS, LONGEST, VOCABULARY = 16, 2, 24, 3, 20, 30
LENGTHS = {"source": [4, 6, 2], "target": [7, 3, 5]}
PLACES = {"source": [[1, 3], [0, 2], [1]], "target": [[1, 3, 6], [0, 2], [1]]}
MASKED = 11


def layer(**options):
    return small_parts.layer(WIDTH, feedforward=FEEDFORWARD, activation="gelu", **options)


def embedding(vocabulary=VOCABULARY, padding=0, shared_with=None):
    options = {"norm": True, "scaled": False, "shared_with": shared_with}
    return small_parts.embedding(vocabulary, WIDTH, LONGEST, padding=padding, **options)


def variable(pre_norm, vocabulary=VOCABULARY, padding=0):
    torch.manual_seed(1)
    texts = embedding(vocabulary, padding)
    head = MaskedTokenHead(width=WIDTH, projection=TiedProjection(embedding=texts, bias=True))
    encoder = PluggableEncoder(layer=layer(pre_norm=pre_norm, memories=["source"]), layers=LAYERS, taps=[2])
    model = VariableModel(embeddings={"source": texts}, encoder=encoder, heads={"masked": head})
    torch.manual_seed(7)
    return disturbed(model)


@pytest.fixture(params=[False, True], ids=["post_norm", "pre_norm"])
def model(request):
    return variable(request.param)


def batch(stream="pairs"):
    torch.manual_seed(2)
    fields = {}
    for name, lengths in LENGTHS.items():
        fields[name] = small_parts.drawn(lengths, VOCABULARY)
        fields[f"{name}.places"] = small_parts.padded(PLACES[name])
        fields[f"{name}.labels"] = small_parts.drawn(map(len, PLACES[name]), VOCABULARY)
    return Batch(fields, stream=stream)


def objective(model, **options):
    inner, cross = InnerMasked(), CrossMasked(**options)
    tasks = {"pairs": [inner, cross, JointMasked(weight=0.5)], "segments": [inner, cross]}
    return small_parts.objective(model, cls=TaskObjective, tasks=tasks)


class ByTorch:
    """Torch's own encoder and decoder with a model's parameters, each in a copy of its own."""

    def __init__(self, model, layers=range(LAYERS)):
        self.model = model
        own = model.encoder.layers
        norms = [nn.LayerNorm(WIDTH) if own[0].pre_norm else None for _ in range(2)]
        for norm in filter(None, norms):
            norm.load_state_dict(model.encoder.norm.state_dict())
        self.encoder = nn.TransformerEncoder(torch_layer(own[0]), LAYERS, norms[0], enable_nested_tensor=False)
        self.encoder.layers = nn.ModuleList(map(torch_layer, own))
        self.decoder = nn.TransformerDecoder(torch_layer(own[0], "source"), len(layers), norms[1])
        self.decoder.layers = nn.ModuleList(torch_layer(own[number], "source") for number in layers)

    def embed(self, tokens):
        """Return a text by hand: token, position from 0, norm."""
        text = self.model.embeddings["source"]
        x = text.weight[tokens] + text.positions.weight[: len(tokens)]
        return F.layer_norm(x, (WIDTH,), text.norm.weight, text.norm.bias)[None]

    def alone(self, tokens):
        return self.encoder(self.embed(tokens))[0]

    def beside(self, tokens, memory):
        causal = nn.Transformer.generate_square_subsequent_mask(len(tokens))
        return self.decoder(self.embed(tokens), memory[None], tgt_mask=causal)[0]

    def together(self, one, other):
        states = self.encoder(torch.cat([self.embed(one), self.embed(other)], 1))[0]
        return states.split([len(one), len(other)])

    def loss(self, states, rows, name, number):
        head = self.model.heads["masked"]
        hidden = head.norm(F.gelu(head.dense(states)))
        logits = hidden @ self.model.embeddings["source"].weight.T + head.projection.bias
        places, labels = rows[f"{name}.places"].rows()[number], rows[f"{name}.labels"].rows()[number]
        correct = (logits[places].argmax(-1) == labels).sum()
        return torch.stack([F.cross_entropy(logits[places], labels, reduction="sum"), correct])

    def losses(self, rows, detach=True):
        """Return the three losses as the paper writes them, row by row, and how many tokens are right in each way."""
        total = dict.fromkeys(("inner", "cross", "joint"), 0.0)
        for number in range(len(rows)):
            x, y = (rows[name].rows()[number] for name in LENGTHS)
            states = {"source": self.alone(x), "target": self.alone(y)}
            memory = {name: value.detach() if detach else value for name, value in states.items()}
            joint = dict(zip(LENGTHS, self.together(x, y), strict=True))
            crossed = {"source": self.beside(x, memory["target"]), "target": self.beside(y, memory["source"])}
            for way, found in (("inner", states), ("cross", crossed), ("joint", joint)):
                for name in LENGTHS:
                    total[way] = total[way] + self.loss(found[name], rows, name, number)
        return total


def test_masked_tokens_are_restored_in_three_ways(model):
    terms = objective(model)(batch()).parts
    expected = ByTorch(model).losses(batch())
    assert terms.keys() == {name for way in expected for name in (way, f"{way}_accuracy")}
    assert {name: term.weight for name, term in terms.items() if term.weight} == {"inner": 1, "cross": 1, "joint": 0.5}
    for way, (loss, correct) in expected.items():
        torch.testing.assert_close(terms[way].sum, loss, atol=1e-4, rtol=1e-5)
        assert (int(terms[way].count), int(terms[f"{way}_accuracy"].sum)) == (MASKED, int(correct))


def test_segments_of_a_text_are_never_one_input(model):
    both, segments = objective(model)(batch()).parts, objective(model)(batch("segments")).parts
    assert segments.keys() == {"inner", "inner_accuracy", "cross", "cross_accuracy"}
    for name, term in segments.items():
        torch.testing.assert_close(term.sum, both[name].sum)
    # RestoredTokens foretells those of its subclasses.
    objective(model)(batch()).check(objective(model).counts(batch()))
    objective(model)(batch("segments")).check(objective(model).counts(batch("segments")))


@pytest.mark.parametrize("detach", [True, False])
def test_no_gradient_flows_into_the_states_that_are_attended(model, detach):
    """The copy of the layers that makes the states has none; the other one has all."""
    theirs = ByTorch(model)
    theirs.losses(batch(), detach)["cross"][0].backward()
    model.zero_grad()
    objective(model, detach=detach)(batch()).parts["cross"].sum.backward()
    for number, own in enumerate(model.encoder.layers):
        decoder = theirs.decoder.layers[number].linear1.weight.grad
        encoder = theirs.encoder.layers[number].linear1.weight.grad
        assert (encoder is None) == detach and decoder.abs().sum() > 0
        expected = decoder if encoder is None else decoder + encoder
        torch.testing.assert_close(own.inner.weight.grad, expected, atol=1e-4, rtol=1e-3)
        assert own.memory_attention["source"].queries.weight.grad.abs().sum() > 0


def test_with_weight_0_the_loss_is_that_of_xlm(model):
    loss = objective(model, weight=0.0)(batch())
    expected = ByTorch(model).losses(batch())
    torch.testing.assert_close(loss.total(), (expected["inner"][0] + 0.5 * expected["joint"][0]) / MASKED)
    loss.total().backward()
    assert all(one.memory_attention["source"].queries.weight.grad is None for one in model.encoder.layers)


def test_plugged_out_it_is_the_encoder_without_attention_to_memories(model):
    plain = Encoder(layer=layer(pre_norm=model.encoder.layers[0].pre_norm), layers=LAYERS)
    known = model.encoder.state_dict()
    plain.load_state_dict({name: known[name] for name in plain.state_dict()})
    embedded = model.embed(batch(), "target")
    found = model.encode(batch(), "target")
    assert torch.equal(found.memories["source"].values, plain(embedded)[0].values)
    tapped = Encoder(layer=layer(pre_norm=True), layers=LAYERS, taps=[2])
    tapped.layers, tapped.norm = plain.layers, plain.norm
    assert torch.equal(model.tap(found, 2).values, tapped(embedded)[1][2].values)
    alone = model.encode(Batch({"target": batch()["target"]}))
    torch.testing.assert_close(alone.memories["target"].values, found.memories["source"].values)


@pytest.fixture(scope="module")
def tokenizer():
    return small_parts.tokenizer(["abcdef", "fedcba"])


@pytest.mark.parametrize("pre_norm", [False, True])
def test_the_translator_is_made_of_the_stack_alone(tokenizer, tmp_path, pre_norm):
    """Its parameters are all replaced; what it decodes is what torch's decoder makes of the last layers."""
    below = variable(pre_norm, tokenizer.size, tokenizer.pad)
    source = TextField(column="source_text", tokenizer=tokenizer, prefix=["<s>"])
    EncoderSystem(model=below, inputs={"source": source}, source_languages=["de", "en"]).save(tmp_path / "below")
    torch.manual_seed(9)
    own = embedding(tokenizer.size, tokenizer.pad)
    target = embedding(tokenizer.size, tokenizer.pad, own)
    stacks = {
        "encoder": Encoder(layer=layer(pre_norm=pre_norm), layers=LAYERS),
        "decoder": Decoder(layer=layer(pre_norm=pre_norm, memories=["source"]), layers=2),
    }
    embeddings = {"embeddings": {"source": own}, "target_embedding": target}
    translator = small_parts.translator(tokenizer, **embeddings, **stacks).eval()
    options = {"inputs": {"source": source}, "output": TextField(tokenizer=tokenizer, prefix=["<s>"])}
    options |= {"source_languages": ["de"], "target_languages": ["en"]}
    system = small_parts.system(tokenizer, translator, **options)
    before = {name: tensor.clone() for name, tensor in system.state_dict().items()}
    parts = {"model.embeddings.source": "model.embeddings.source", "model.encoder": "model.encoder"}
    Initialise(folder=str(tmp_path / "below"), parts=parts).apply(system)
    parts = {"model.decoder": "model.encoder", "model.target_embedding": "model.embeddings.source"}
    Initialise(folder=str(tmp_path / "below"), parts=parts, layers=[-2, -1]).apply(system)
    assert not [name for name, tensor in system.state_dict().items() if torch.equal(tensor, before[name])]
    rows, theirs = batch(), ByTorch(below, [1, 2])
    encoding = translator.encode(rows)
    found = translator.decode(rows["target"], encoding)
    for number in range(len(rows)):
        memory = theirs.alone(rows["source"].rows()[number])
        expected = theirs.beside(rows["target"].rows()[number], memory)
        torch.testing.assert_close(encoding.memories["source"].rows()[number], memory, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(found[number, : len(expected)], expected, atol=1e-5, rtol=1e-4)


def test_segments_are_the_halves_of_a_text(tokenizer, tmp_path):
    whole = TextField(column="source_text", tokenizer=tokenizer, prefix=["<s>"])
    halves = [AdjacentSegment(field=whole, second=second) for second in (False, True)]
    texts = ["abcdefa", "fedc", "a", "", None]
    rows = [small_parts.row(number, text or "") | {"source_text": text} for number, text in enumerate(texts)]
    s, end = tokenizer.bos, tokenizer.eos
    for row in rows[:-1]:
        pieces = tokenizer.encode(row["source_text"])
        first = pieces[: len(pieces) - len(pieces) // 2]
        assert [half(row, None).tolist() for half in halves] == [[s, *first, end], [s, *pieces[len(first) :], end]]
    for half in halves:
        lengths = [half.length(row) for row in rows[:-1]]
        assert lengths == [len(half(row, None)) for row in rows[:-1]]
        manifest = Manifest.write(tmp_path / "en" / f"{half.second}.arrow", rows)
        assert half.lengths(manifest).tolist() == half.lengths(rows).tolist() == [*lengths, -1]
        refuses(DataError, "row '4' has no source_text", half, rows[-1], None)
    masked = MaskedText(field=halves[1], share=1.0, masked=1.0, replaced=0.0)(rows[0], np.random.default_rng(1))
    assert masked["labels"].tolist() == halves[1](rows[0], None).tolist()[1:-1]
    assert masked[""].tolist() == [s, *[tokenizer.mask] * len(masked["labels"]), end]


def test_what_does_not_fit_is_refused(model):
    stack = {"layers": 1}
    for one, message in (
        (layer(), r"needs attention to 'source' alone, but has it to \[\]"),
        (layer(memories=["source", "bert"]), r"alone, but has it to \['source', 'bert'\]"),
        (ConformerLayer(width=WIDTH, heads=HEADS, feedforward=FEEDFORWARD), r"alone, but has it to \[\]"),
        (layer(memories={"source": 12}), "states of width 12, but the layers make those of 16"),
    ):
        refuses(ValueError, message, PluggableEncoder, layer=one, **stack)
    source = {"source": embedding()}
    for texts, encoder, message in (
        (source | {"target": embedding()}, model.encoder, r"there must be no others: \['source', 'target'\]"),
        (source, Encoder(layer=layer(), **stack), "nothing can be plugged into the layers of Encoder"),
    ):
        refuses(ValueError, message, VariableModel, embeddings=texts, encoder=encoder)
    speech = Batch({"speech": batch()["source"]}, stream="pairs")
    refuses(UsageError, "stream 'pairs' has none of the texts source and target", model.encode, speech)
    for weight in (-1.0, float("inf"), float("nan")):
        refuses(UsageError, f"weight must be (a finite number )?at least 0, not {weight}", JointMasked, weight=weight)
    other = EncoderModel(embeddings=source, encoder=Encoder(layer=layer(), **stack))
    refuses(UsageError, "CrossMasked needs a VariableModel, but the model is EncoderModel", CrossMasked().check, other)
    refuses(UsageError, "the model has no head 'other', only masked", lambda: InnerMasked(head="other").check(model))
    long = Batch({"target": small_parts.padded([[1] * 3, [1] * (LONGEST + 1)])}, ids=["0", "1"])
    refuses(DataError, "row '1': its 'target' is too long for the model", model.encode, long, "target")


@pytest.mark.recipes
def test_encoder_and_decoder_begin_as_the_stack(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    overrides = {"debug": True, "noprogressbar": True, "workers": 0, "device": "cpu", "learning_rate": 1e-12}
    overrides |= {"optimizer.weight_decay": 0.0, "phases.veco.encoder_layers": 3, "encoder_layers": 3}
    overrides |= {"decoder_layers": 2, "kept_layers": [-2, -1]}
    recipe = Recipe.load("almanac/mt_from_veco", small(Recipe.load("almanac/mt_from_veco", {})) | overrides)
    output = run_recipe(recipe, command="a test").output
    [veco] = tmp_path.glob("results/**/veco/1-debug/average/model")
    below = SavedModel.load(veco).state_dict()
    found = SavedModel.load(output / "average" / "model").state_dict()
    for name, tensor in found.items():
        there = name.replace("model.decoder.layers.", "model.encoder.layers.+").replace("decoder", "encoder")
        for number in range(2):
            there = there.replace(f"+{number}", str(number + 1))
        torch.testing.assert_close(tensor, below[there], atol=1e-6, rtol=0)
