"""Products in eight bits against float64 within the bound of the rounding; systems that are stored so."""

import json

import pytest
import torch

from dragoman import System, UsageError, load
from dragoman.runs.running import run_recipe
from dragoman.shared.machine import device
from dragoman.shared.machine.device import Machine, precision_of
from dragoman.shared.nn import int8
from dragoman.shared.nn.heads import OutputProjection, TiedProjection
from dragoman.shared.nn.linear import Linear, store_for_search
from dragoman.shared.nn.subsampler import StackedFrames
from dragoman.shared.padded import Padded
from dragoman.shared.recipe.recipe import Recipe
from dragoman.shared.systems.combining import load_combined
from tests import small

pytestmark = pytest.mark.skipif(not int8.has_int8(), reason="torch has no oneDNN")


def drawn(*shape, seed=0, scale=1.0):
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale
    return values * torch.linspace(0.1, 3, shape[0])[(...,) + (None,) * (len(shape) - 1)] if shape[0] else values


def bound(x, weight):
    """Each factor is off by half a step of its row; and a little for sums in float32."""
    x, weight = x.double().abs(), weight.double().abs()
    of_x, of_weight = x.amax(-1, keepdim=True) / 254, weight.amax(-1) / (2 * int8.largest_of_matrices())
    terms = of_x * weight.sum(-1) + x.sum(-1, keepdim=True) * of_weight + x.shape[-1] * of_x * of_weight
    return terms + 1e-5 * (x @ weight.T + 1)


@pytest.mark.parametrize("shape", [(96,), (0, 96), (1, 96), (3, 5, 96), (2000, 96)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_product_is_within_the_rounding_of_both_factors(shape, bias):
    module = Linear(96, 40, bias=bias)
    with torch.no_grad():
        module.weight.copy_(drawn(40, 96, seed=1, scale=0.05))
        module.weight[7] = 0
        weight, added = module.weight.double().clone(), module.bias.double() if bias else 0
        x = drawn(*shape)
        x[..., :1] *= 9  # an outlier, as activations have
        for _ in range(2):
            store_for_search(module, torch.int8)
            found = module(x)
        assert module.weight.dtype == torch.int8 and not module.weight.requires_grad
    expected = x.double() @ weight.T + added
    assert found.shape == expected.shape and found.dtype == torch.float32
    assert ((found - expected).abs() <= bound(x, weight)).all()
    assert shape == (0, 96) or ((found - expected).abs() > 1e-5 * (1 + expected.abs())).any()  # it is rounded


def test_sums_are_exact_and_rows_are_alone():
    x, weight = drawn(37, 300), drawn(50, 300, seed=2)
    matrix = int8.matrix(weight)
    together = int8.product(x, matrix, None)
    for number, row in enumerate(x):
        assert torch.equal(int8.product(row[None], matrix, None)[0], together[number])
        step = row.abs().max() / 127
        whole = torch.round(row / step).long()
        assert whole.abs().max() == 127
        steps = weight.abs().amax(1) / int8.largest_of_matrices()
        sums = (torch.round(weight / steps[:, None]).long() * whole).sum(1)
        torch.testing.assert_close(together[number], sums * step * steps, atol=0, rtol=1e-6)
    assert int8.product(x.double(), matrix, None).dtype == torch.float64


def test_the_largest_factors_do_not_overflow():
    """Of 255 by 127, as a processor without VNNI takes the first, two do not fit into 16 bits."""
    for sign in (1, -1):
        found = int8.product(torch.ones(3, 64), int8.matrix(torch.full((5, 64), float(sign))), None)
        torch.testing.assert_close(found, torch.full((3, 5), 64.0 * sign))


def test_nothing_stays_nothing_and_what_is_no_number_is_seen():
    matrix, bias = int8.matrix(drawn(5, 8)), torch.arange(5.0)
    x = torch.zeros(3, 8)
    assert torch.equal(int8.product(x, matrix, bias), bias.expand(3, -1))
    x[1, 2] = float("nan")
    found = int8.product(x, matrix, bias)
    assert found[1].isnan().all() and torch.equal(found[0], bias) and torch.equal(found[2], bias)


def test_vectors_are_looked_up_in_eight_bits_and_the_projection_has_the_same():
    embedding = small.embedding(30, 16, positions=None, scaled=False)
    other = small.embedding(30, 16, positions=None, shared_with=embedding)
    projection = TiedProjection(embedding=embedding)
    weight = embedding.weight.detach().clone()
    tokens = torch.tensor([[3, 0, 29]])
    store_for_search(torch.nn.ModuleList([embedding, other, projection]), torch.int8)
    found = embedding.embed(tokens)
    steps = weight.abs().amax(1, keepdim=True) / int8.largest_of_matrices()
    torch.testing.assert_close(found, (torch.round(weight / steps.clamp(min=1e-30)) * steps)[tokens], atol=0, rtol=1e-6)
    assert torch.equal(other.embed(tokens), 4 * found) and not found[0, 1].any()
    assert embedding.like.dtype == torch.float32 and embedding.like.shape == (0,)
    x = drawn(4, 16)
    assert ((projection(x) - x.double() @ weight.double().T).abs() <= bound(x, weight)).all()
    assert projection.state_dict() == {}


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_in_eight_bits_scores_nearly_the_same(tied):
    changes = {} if tied else {"projection": OutputProjection(width=64, vocabulary=50)}
    model = small.translator(50, seed=2, layers=2, sizes={"width": 64, "heads": 4}, **changes).eval()
    batch = small.drawn_batch({"source": [9, 4], "target": [7, 7]}, 50)
    state = model.state_bytes(20)
    with torch.no_grad():
        expected = model.log_probabilities(batch["target"], model.encode(batch))
        store_for_search(model, torch.int8)
        found = model.log_probabilities(batch["target"], model.encode(batch))
    assert (found.exp() - expected.exp()).abs().max() < 0.03 and not torch.equal(found, expected)
    assert model.state_bytes(20) == state
    assert {tensor.dtype for name, tensor in model.named_parameters() if tensor.dim() == 2} == {torch.int8}


def test_features_are_not_rounded():
    module = StackedFrames(inputs=4, width=8)
    features = Padded(torch.rand(1, 6, 4), torch.tensor([6]))
    expected = module(features).values
    store_for_search(module, torch.int8)
    torch.testing.assert_close(module(features).values, expected, atol=0.03, rtol=0)


def test_a_model_folder_translates_alike_and_stays_as_it_is(tmp_path):
    texts = [
        one["source"] for one in json.loads((small.GOLDEN.parent / "translations.json").read_text())["translations"]
    ]
    plain = load(small.GOLDEN, device="cpu", precision="fp32").translate(texts)
    stored = load(small.GOLDEN, device="cpu", precision="int8")
    found = stored.translate(texts)
    assert sum(one == other for one, other in zip(found, plain, strict=True)) >= 0.9 * len(texts)
    assert precision_of(stored.autocast_dtype) == "int8"
    small.refuses(UsageError, "loaded for autocast, int8 or by memory", stored.save, tmp_path / "saved")
    assert System.load(small.GOLDEN).translate(texts) == plain


def test_what_cannot_be_done_is_refused(monkeypatch, tmp_path):
    recipe = Recipe.load("own/mt", ["--precision", "int8", "--device", "cpu", "--output_folder", str(tmp_path / "out")])
    monkeypatch.setattr(Recipe, "check", lambda self: None)  # not of interest here
    small.refuses(UsageError, "precision int8 is for searches with a trained model", run_recipe, recipe)
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(device, "_device", lambda name, several: "cuda:0")
    monkeypatch.setattr(device, "_can_compile", lambda: False)
    small.refuses(UsageError, "precision int8 is for a CPU, not for cuda:0: --device cpu", Machine, precision="int8")
    monkeypatch.setattr("dragoman.shared.systems.combining.has_int8", lambda: False)
    small.refuses(UsageError, "no oneDNN", load_combined, small.GOLDEN, autocast_dtype=torch.int8)
