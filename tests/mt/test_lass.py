"""LaSS: sub-networks against translators whose weights are zeroed by hand, in training and in searches."""

import copy
import json

import numpy as np
import pytest
import torch

from dragoman import BeamSearch, Rules, System, UsageError
from dragoman.mt.lass import MaskedLinear, MaskedSystem, MaskedTranslator, direction_of
from dragoman.shared.batch import Batch
from dragoman.shared.nn.heads import TiedProjection
from dragoman.shared.nn.linear import Linear, store_for_search
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.nn.translator import Translator
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective
from tests import small
from tests.small import refuses

PAIRS = [["de", "en"], ["en", "de"], ["en", "fr"], ["fr", "en"]]
WIDTH = 16
CROSS = {"queries": 1, "keys_values": 2, "output": 1}
SEARCH = BeamSearch(beam=3, rules=Rules(maximum_length_extra=8))


@pytest.fixture(scope="module")
def tokenizer():
    return small.tokenizer(["abcdefg"] * 3, ["en", "de", "fr"])


def parts(tokenizer, **options):
    vectors = small.embedding(tokenizer, WIDTH, padding=0)
    layer = small.layer(WIDTH, feedforward=24)
    above = small.layer(WIDTH, feedforward=24, memories=["source"])
    return {
        "embeddings": {"source": vectors},
        "encoder": Encoder(layer=layer, layers=2, **options),
        "target_embedding": vectors,
        "decoder": Decoder(layer=above, layers=2, **options),
        "projection": TiedProjection(embedding=vectors),
    }


def around(tokenizer, model, kind):
    languages = ["de", "en", "fr"]
    return small.system(tokenizer, model, cls=kind, source_languages=languages, target_languages=languages)


def masked(tokenizer, pivot=None, drawn=True, **options):
    """Return a system with random masks, of which some entries of every matrix are pruned."""
    torch.manual_seed(1)
    model = MaskedTranslator(**parts(tokenizer, **options), pairs=PAIRS, pivot=pivot)
    system = around(tokenizer, model, MaskedSystem)
    for parameter in system.parameters():
        torch.nn.init.normal_(parameter, std=0.3)  # biases and norms too, so that outputs differ
    if drawn:
        for number, pair in enumerate(model.pairs):
            model.set_masks(pair, drawn_masks(model, number))
    return system.eval()


def drawn_masks(model, seed):
    random = torch.Generator().manual_seed(seed)
    return {name: torch.rand(model.get_submodule(name).weight.shape, generator=random) < 0.6 for name in model.blocks}


def zeroed(tokenizer, system, masks):
    """Return an ordinary system with the same weights, zero where a mask is."""
    model = Translator(**parts(tokenizer))
    state = {name: tensor.clone() for name, tensor in system.model.state_dict().items() if name != "masks"}
    for name, mask in masks.items():
        state[f"{name}.weight"][~mask] = 0.0
    model.load_state_dict(state)
    return around(tokenizer, model, System).eval()


def batch(tokenizer, pairs, texts=("abc", "ge", "fad", "ccb")):
    def ids(symbol, text):
        return torch.tensor([tokenizer.id(f"<{symbol}>"), *tokenizer.encode(text), tokenizer.eos])

    rows = [*zip(pairs, texts, strict=False)]
    return Batch(
        {
            "source": small.padded([ids(source, text) for (source, _), text in rows], tokenizer.pad),
            "target": small.padded([ids(target, text[::-1]) for (_, target), text in rows], tokenizer.pad),
        },
        {"source": [source for source, _ in pairs], "target": [target for _, target in pairs]},
        [str(number) for number in range(len(pairs))],
    )


def loss(system, one):
    objective = EncoderDecoderObjective(system=system, parts=[CrossEntropy(label_smoothing=0.1)])
    return objective(one).total()


def tokens(found):
    return [[hypothesis.tokens for hypothesis in best] for best in found]


# -- the sub-network of a direction ---------------------------------------------------------------------------------


@pytest.mark.parametrize("recompute", [False, True])
def test_a_direction_learns_as_a_network_without_what_its_mask_prunes(tokenizer, recompute):
    system = masked(tokenizer, recompute=recompute).train()
    masks = drawn_masks(system.model, 2)  # of en-fr
    other = zeroed(tokenizer, system, masks).train()
    one = batch(tokenizer, [("en", "fr")] * 3)
    found, expected = loss(system, one), loss(other, one)
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    assert abs(loss(masked(tokenizer, drawn=False), one).item() - found.item()) > 0.01
    found.backward()
    expected.backward()
    named = dict(system.model.named_parameters())
    for name, parameter in other.model.named_parameters():
        gradient = parameter.grad
        if name.removesuffix(".weight") in masks:
            mask = masks[name.removesuffix(".weight")]
            assert named[name].grad[~mask].abs().sum() == 0 < gradient[~mask].abs().sum()
            gradient = gradient * mask
        torch.testing.assert_close(named[name].grad, gradient, rtol=1e-5, atol=1e-7)


def test_all_linear_maps_of_encoder_and_decoder_have_masks(tokenizer):
    model = masked(tokenizer).model
    every = {"self_attention.queries_keys_values": 3, "self_attention.output": 1, "inner": 1, "outer": 1}
    cross = {f"memory_attention.source.{name}": blocks for name, blocks in CROSS.items()}
    expected = {
        f"{side}.layers.{number}.{name}": blocks
        for side, own in (("encoder", every), ("decoder", every | cross))
        for number in range(2)
        for name, blocks in own.items()
    }
    assert model.blocks == expected
    assert {name for name, part in model.named_modules() if isinstance(part, MaskedLinear)} == {*expected}


def test_names_of_parameters_are_those_of_an_ordinary_translator(tokenizer):
    """In their order, too: it is that of the optimiser's moments."""
    plain = Translator(**parts(tokenizer))
    model = MaskedTranslator(**parts(tokenizer), pairs=PAIRS)
    assert [name for name, _ in model.named_parameters()] == [name for name, _ in plain.named_parameters()]
    assert [*model.state_dict()] == ["masks", *plain.state_dict()]


def test_without_masks_set_it_is_an_ordinary_translator(tokenizer):
    system = masked(tokenizer, drawn=False)
    one = batch(tokenizer, [("fr", "en")] * 3)
    full = {name: torch.ones_like(mask) for name, mask in drawn_masks(system.model, 0).items()}
    torch.testing.assert_close(loss(system, one), loss(zeroed(tokenizer, system, full), one))


# -- masks ----------------------------------------------------------------------------------------------------------


def test_masks_are_kept_in_bits_and_in_the_folder(tokenizer, tmp_path):
    system = masked(tokenizer)
    weights = sum(mask.numel() for mask in drawn_masks(system.model, 0).values())
    assert system.model.masks.shape == (4, -(-weights // 8)) and system.model.masks.dtype == torch.uint8
    system.save(tmp_path / "model")
    loaded = MaskedSystem.load(tmp_path / "model")
    for number, (source, target) in enumerate(PAIRS):
        found = loaded.model.masks_of(f"{source}-{target}")
        expected = drawn_masks(system.model, number)
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], expected[name]) for name in expected)
    bits = np.unpackbits(loaded.model.masks[1].numpy(), bitorder="little")[:weights]  # another reader of the file
    flat = torch.cat([mask.flatten() for mask in drawn_masks(system.model, 1).values()]).numpy()
    assert (bits == flat).all()
    assert json.loads((tmp_path / "model" / "config.json").read_text())["system"]["class"] == "MaskedSystem"


def test_another_direction_has_the_masks_of_two(tokenizer):
    system = masked(tokenizer, pivot="en")
    into, out_of = drawn_masks(system.model, 0), drawn_masks(system.model, 2)  # de-en, en-fr
    expected = {name: (into if name.startswith("encoder.") else out_of)[name] for name in into}
    found = system.model.masks_of("de-fr")
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    one = batch(tokenizer, [("de", "fr")] * 3)
    torch.testing.assert_close(loss(system, one), loss(zeroed(tokenizer, system, expected), one))
    refuses(UsageError, "no masks for de-ru", system.model.masks_of, "de-ru")
    message = "no masks for de-fr, only for de-en, en-de, en-fr, fr-en"
    refuses(UsageError, message, masked(tokenizer).model.masks_of, "de-fr")


# -- translating ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stored", [None, "float32", "bfloat16", "int8"])
def test_searches_use_the_masks_of_the_direction(tokenizer, stored):
    system = masked(tokenizer)
    one = batch(tokenizer, [("en", "fr")] * 3)
    others = [zeroed(tokenizer, system, drawn_masks(system.model, number)) for number in (2, 1)]
    dtype = getattr(torch, stored) if stored in ("bfloat16", "int8") else None
    if stored:
        for each in (system, *others):
            store_for_search(each, dtype)
            each.autocast_dtype = dtype
    results = []
    for each in (system, *others):
        with torch.inference_mode(), each.autocast():
            results.append(tokens(each.translate_batch(one, SEARCH)))
    assert results[0] == results[1] != results[2]
    used = system.model.decoder.layers[0].inner.masked  # cast once, not in each step
    assert used.dtype == (dtype or torch.float32)


@pytest.mark.parametrize(("last", "directions"), [("fr", "de-en and en-fr and fr-en"), ("de", "de-en and en-fr")])
def test_rows_of_several_directions_are_translated_apart(tokenizer, last, directions):
    system = masked(tokenizer)
    pairs = [("en", "fr"), ("de", "en"), ("en", "fr"), (last, "en")]
    texts = ("abc", "ge", "fad", "ccb")
    mixed = batch(tokenizer, pairs, texts)
    forced = [[5], [6], [7], [8]]
    with torch.inference_mode():
        found = system.translate_batch(mixed, SEARCH, forced=forced)
        for number, (pair, text) in enumerate(zip(pairs, texts, strict=True)):
            other = zeroed(tokenizer, system, drawn_masks(system.model, PAIRS.index([*pair])))
            alone = other.translate_batch(batch(tokenizer, [pair], [text]), SEARCH, forced=[forced[number]])
            assert tokens([found[number]]) == tokens(alone)
    refuses(UsageError, f"rows of {directions} has no masks: group those", system.model.encode, mixed)
    one_side = Batch(mixed.fields, {"source": ["en"] * 4})
    refuses(UsageError, "rows without a source or a target language", system.model.encode, one_side)
    refuses(UsageError, "rows of no direction", lambda: direction_of(Batch({}, {"source": [], "target": []})))


def test_masks_follow_the_weights_and_the_direction(tokenizer):
    """Each encoding masks the weights as they are: a search follows updates, and the direction."""
    system = masked(tokenizer)
    for pair in (("en", "fr"), ("de", "en"), ("en", "fr")):
        with torch.no_grad():
            for parameter in system.parameters():
                parameter.mul_(1.1)
        one = batch(tokenizer, [pair] * 2)
        other = zeroed(tokenizer, system, drawn_masks(system.model, PAIRS.index([*pair])))
        with torch.inference_mode():
            torch.testing.assert_close(loss(system, one), loss(other, one))


def test_one_direction_alone_is_an_ordinary_system(tokenizer, tmp_path):
    system = masked(tokenizer, pivot="en")
    state = copy.deepcopy(system.state_dict())
    for source, target in (("en", "fr"), ("de", "fr")):
        plain = system.alone(source, target)
        assert type(plain) is System and type(plain.model) is Translator and not plain.training
        assert {type(part) for part in plain.modules() if isinstance(part, torch.nn.Linear)} == {Linear}
        plain.save(tmp_path / target / source)
        loaded = System.load(tmp_path / target / source)
        assert (loaded.source_languages, loaded.target_languages) == ([source], [target])
        assert loaded.origin == [f"the sub-network of {source}-{target}"]
        masks = system.model.masks_of(f"{source}-{target}")
        for name, tensor in zeroed(tokenizer, system, masks).state_dict().items():
            assert torch.equal(loaded.state_dict()[name], tensor)
    assert all(torch.equal(tensor, state[name]) for name, tensor in system.state_dict().items())
    assert isinstance(system.model.encoder.layers[0].inner, MaskedLinear)


# -- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pairs", [[], [["de", "en"], ["de", "en"]]])
def test_directions_that_are_refused(tokenizer, pairs):
    refuses(ValueError, "pairs must be directions, each once", MaskedTranslator, **parts(tokenizer), pairs=pairs)


def test_a_map_that_would_escape_its_mask_is_refused(tokenizer):
    other = parts(tokenizer)
    other["decoder"].layers[1].inner = torch.nn.Linear(WIDTH, 24)
    with pytest.raises(ValueError, match=r"decoder\.layers\.1\.inner is a Linear, which can have no mask"):
        MaskedTranslator(**other, pairs=PAIRS)
