"""Adapters against a loop over rows, in mixed batches, in training and search; what learns; refusals."""

import pytest
import torch

from dragoman import UsageError
from dragoman.mt.adapters import AdaptedLayer, AdaptedTranslator, Adapters
from dragoman.shared.batch import Batch
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.nn.translator import MEMORY
from dragoman.shared.objectives import CrossEntropy
from dragoman.shared.padded import Padded
from dragoman.shared.search.beam import BeamSearch
from dragoman.shared.search.rules import Rules
from dragoman.shared.training.tuning import Selected
from tests import small
from tests.small import refuses

WIDTH, INNER, VOCABULARY = 16, 5, 23
PAIRS = [["en", "de"], ["de", "en"], ["en", "fr"]]
LENGTHS = {"source": [4, 6, 3, 2], "target": [5, 3, 4, 6]}
LANGUAGES = {"source": ["de", "en", "en", "de"], "target": ["en", "fr", "de", "en"]}
NUMBERS = [1, 2, 0, 1]


def adapters(**changes):
    return Adapters(**{"pairs": PAIRS, "width": WIDTH, "inner": INNER} | changes)


def layer(memories=None, **changes):
    parts = {"width": WIDTH, "heads": 2, "feedforward": 2 * WIDTH, "dropout": 0.0, "adapters": adapters()}
    return AdaptedLayer(memories=memories, **parts | changes)


def translator(trained=True):
    """Return a translator with adapters; untrained ones add nothing."""
    torch.manual_seed(1)
    parts = {"encoder": Encoder(layer=layer(), layers=2), "decoder": Decoder(layer=layer([MEMORY]), layers=2)}
    model = small.translator(VOCABULARY, cls=AdaptedTranslator, **parts)
    if trained:
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if ".adapters." in name:
                    parameter.add_(torch.randn(parameter.shape))
    return model.eval()


def batch():
    rows = small.drawn_batch(LENGTHS, VOCABULARY, 3)
    return Batch(rows.fields, languages=LANGUAGES, ids=["a", "b", "c", "d"])


def alone(rows, number):
    one = small.alone(rows, number)
    languages = {side: [codes[number]] for side, codes in LANGUAGES.items()}
    return Batch(one.fields, languages=languages, ids=[rows.ids[number]])


def plain(model):
    """Return the same translator without adapters."""
    made = small.translator(VOCABULARY, layers=2, sizes={"width": WIDTH})
    made.load_state_dict({name: value for name, value in model.state_dict().items() if ".adapters." not in name})
    return made.eval()


def test_a_row_has_the_adapter_of_its_direction():
    torch.manual_seed(2)
    made = adapters()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    z = torch.randn(4, 3, WIDTH)
    made.rows = torch.tensor(NUMBERS)
    expected = torch.empty_like(z)
    for row, p in enumerate(NUMBERS):
        for place, state in enumerate(z[row]):
            centred = state - state.mean()
            normalised = centred / (centred.square().mean() + 1e-5).sqrt() * made.norm_weight[p] + made.norm_bias[p]
            h = [max(0.0, (normalised @ made.down[p][:, f] + made.down_bias[p][f]).item()) for f in range(INNER)]
            expected[row, place] = state + torch.tensor(h) @ made.up[p] + made.up_bias[p]
    torch.testing.assert_close(made(z), expected, atol=1e-4, rtol=1e-5)


def test_adapters_change_nothing_as_they_begin():
    model, rows = translator(trained=False), batch()
    encodings = [one.encode(rows) for one in (model, plain(model))]
    torch.testing.assert_close(
        encodings[0].memories[MEMORY].values, encodings[1].memories[MEMORY].values, rtol=0, atol=0
    )
    states = [one.decode(rows["target"], own) for one, own in zip((model, plain(model)), encodings, strict=True)]
    torch.testing.assert_close(*states, rtol=0, atol=0)


def test_rows_of_a_mixed_batch_are_as_alone_and_each_layer_is_adapted():
    model, rows = translator(), batch()
    whole = model.decode(rows["target"], model.encode(rows))
    for number in range(len(rows)):
        one = alone(rows, number)
        encoding = model.encode(one)
        states = model.decode(one["target"], encoding)[0]
        torch.testing.assert_close(whole[number, : len(states)], states, atol=1e-4, rtol=1e-4)
        x = model.embeddings["source"](one["source"]).values
        for own, adapted in zip(plain(model).encoder.layers, model.encoder.layers, strict=True):
            adapted.adapters.rows = torch.tensor([NUMBERS[number]])
            x = adapted.adapters(own(x))
        torch.testing.assert_close(encoding.memories[MEMORY].values, model.encoder.norm(x), atol=1e-4, rtol=1e-4)


def test_beams_keep_the_direction_of_their_sentence():
    """Sentences end at different steps, so that rows are left out; a score is that of all tokens at once."""
    model, rows = translator(), batch()
    prefix = Padded(rows["target"].values[:, :1], torch.ones(len(rows), dtype=torch.int64))
    search = BeamSearch(beam=3, rules=Rules(maximum_length_ratio=1.0, maximum_length_extra=1))
    found = search.search(model, rows, prefix=prefix, end=2, padding=0)
    assert len({len(hypotheses[0].tokens) for hypotheses in found}) > 1
    for number, hypotheses in enumerate(found):
        tokens = torch.tensor([int(prefix.values[number, 0]), *hypotheses[0].tokens])
        scores = model.log_probabilities(small.padded([tokens[:-1]]), model.encode(alone(rows, number)))[0]
        mean = scores.gather(1, tokens[1:, None]).mean().item()
        assert hypotheses[0].score == pytest.approx(mean, abs=1e-3)


def test_only_the_adapters_of_a_batchs_directions_learn():
    model, rows = translator(trained=False), alone(batch(), 1)  # en-fr
    objective = small.objective(model, CrossEntropy(label_smoothing=0.0))
    Selected(parameters=r".*\.adapters\..*").apply(objective)
    objective.train()
    objective(rows).total().backward()
    for name, parameter in objective.named_parameters():
        if ".adapters." not in name:
            assert parameter.grad is None, name
            continue
        assert not parameter.grad[:2].any(), name
        assert parameter.grad[2].any() == name.endswith(("up", "up_bias")), name  # the others wait for these


def test_refusals():
    model, rows = translator(), batch()
    other = Batch(rows.fields, languages={"source": ["fr"] * 4, "target": ["de"] * 4})
    refuses(UsageError, "no adapters for fr-de, only for en-de, de-en, en-fr", model.encode, other)
    refuses(UsageError, "have no direction", model.encode, Batch(rows.fields))
    refuses(ValueError, "pairs must be directions, each once", adapters, pairs=[["en", "de"], ["en", "de"]])
    refuses(ValueError, "pairs must be directions, each once", adapters, pairs=[])
    refuses(ValueError, "the adapters have the width 8, but the layer 16", layer, adapters=adapters(width=8))
    plain_decoder = {"encoder": translator().encoder, "decoder": small.decoder()}
    refuses(ValueError, "a Layer has no adapters", small.translator, VOCABULARY, cls=AdaptedTranslator, **plain_decoder)
