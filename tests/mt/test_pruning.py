"""Masks of directions: what is kept, counted and chosen by numpy; what directions share, by hand."""

import logging

import numpy as np
import pytest
import torch

from dragoman import DataError, System, UsageError
from dragoman.mt.lass import MaskedTranslator
from dragoman.mt.pruning import ExchangeMasks, Prune, PruneAtRandom, Sharing, kept, layers_of, of_others, similarity
from dragoman.shared.nn.translator import Translator
from tests.mt.test_lass import PAIRS, WIDTH, around, masked, parts, tokenizer
from tests.small import refuses, run

__all__ = ["tokenizer"]  # a fixture
#: Rows of a matrix that are one to the method: a third of queries, keys and values, a half of keys and values.
DIVIDED = {"queries_keys_values": 3, "keys_values": 2}


@pytest.fixture
def tuned(tokenizer, tmp_path):
    """A folder with an ordinary translator for each direction."""
    for number, (source, target) in enumerate(PAIRS):
        torch.manual_seed(10 + number)
        system = around(tokenizer, Translator(**parts(tokenizer)), System)
        with torch.no_grad():
            for name, parameter in system.named_parameters():
                if name.endswith("queries_keys_values.weight"):  # queries small, values large: no common threshold
                    parameter.mul_(torch.tensor([0.1, 1.0, 10.0]).repeat_interleave(WIDTH)[:, None])
        system.save(tmp_path / "tune" / f"{source}-{target}" / "model")
    return tmp_path / "tune"


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_the_smallest_magnitudes_of_each_matrix_are_pruned(tokenizer, tuned, share):
    system = masked(tokenizer)
    weights = {name: tensor.clone() for name, tensor in system.state_dict().items() if name != "model.masks"}
    report = Prune(tuned=str(tuned), share=share).apply(system)
    assert report == system.origin and len(report) == 4
    assert report[1] == f"masks of en-de: {share:g} of each matrix pruned, by the magnitudes of {tuned}/en-de/model"
    for pair in system.model.pairs:
        tensors = System.load(tuned / pair / "model").state_dict()
        for name, mask in system.model.masks_of(pair).items():
            matrix = np.abs(tensors[f"model.{name}.weight"].numpy())
            blocks = DIVIDED.get(name.rpartition(".")[2], 1)
            for own, found in zip(np.split(matrix, blocks), np.split(mask.numpy(), blocks), strict=True):
                assert found.sum() == own.size - round(share * own.size)
                if share:
                    assert own[found].min() >= own[~found].max()
    for name, tensor in weights.items():  # what is pruned is the mask, not the weights
        assert torch.equal(system.state_dict()[name], tensor)


def test_equal_magnitudes_are_pruned_to_the_exact_number():
    found = kept(torch.tensor([[1.0, 1.0, 1.0], [1.0, 2.0, 0.5]]), 0.5).tolist()
    assert found == [[False, False, True], [True, True, False]]
    assert kept(torch.zeros(7), 0.3).sum() == 5


def test_random_masks_keep_as_many_and_others(tokenizer, tuned):
    one, other, again = (masked(tokenizer, drawn=False) for _ in range(3))
    Prune(tuned=str(tuned), share=0.3).apply(one)
    report = PruneAtRandom(seed=5, share=0.3).apply(other)
    PruneAtRandom(seed=5, share=0.3).apply(again)
    assert report[0] == "masks of de-en: 0.3 of each matrix pruned, at random (seed 5)"
    assert torch.equal(other.model.masks, again.model.masks)
    for name, mask in one.model.masks_of("de-en").items():
        random, of_other = other.model.masks_of("de-en")[name], other.model.masks_of("en-de")[name]
        assert random.sum() == mask.sum()
        assert 0.55 < (random & mask).sum() / mask.sum() < 0.85  # 0.7 by chance
        assert 0.55 < (random & of_other).sum() / mask.sum() < 0.85
    PruneAtRandom(seed=6, share=0.3).apply(again)
    assert not torch.equal(other.model.masks, again.model.masks)


def test_known_masks_are_taken_as_they_are(tokenizer, tuned, tmp_path):
    known = masked(tokenizer)
    known.save(tmp_path / "known")
    more = MaskedTranslator(**parts(tokenizer), pairs=[["fr", "de"], *PAIRS[::-1]])
    system = around(tokenizer, more, System)
    (tuned / "en-fr").rename(tuned / "fr-de")  # others are not looked for
    report = Prune(tuned=str(tuned), share=0.5, known=str(tmp_path / "known")).apply(system)
    pairs = ("fr-en", "en-fr", "en-de", "de-en")
    assert report[1:] == [f"masks of {pair}: those of {tmp_path / 'known'}" for pair in pairs]
    for pair in known.model.pairs:
        found, expected = more.masks_of(pair), known.model.masks_of(pair)
        assert all(torch.equal(found[name], expected[name]) for name in expected)
    fresh = more.masks_of("fr-de")
    assert sum(int(mask.sum()) for mask in fresh.values()) * 2 == sum(mask.numel() for mask in fresh.values())


def test_what_is_refused(tokenizer, tuned, tmp_path):
    for share in (-0.1, 1.0, float("nan")):
        message = f"Prune: share must be (a finite number )?at least 0 and below 1, not {share}"
        refuses(UsageError, message, Prune, tuned="there", share=share)
    plain = around(tokenizer, Translator(**parts(tokenizer)), System)
    refuses(UsageError, "a Translator has no masks", Prune(tuned=str(tuned), share=0.5).apply, plain)
    plain.save(tmp_path / "plain")
    known = Prune(tuned=str(tuned), share=0.5, known=str(tmp_path / "plain"))
    refuses(UsageError, "a Translator has no masks", known.apply, masked(tokenizer))
    refuses(DataError, "not a model folder", Prune(tuned=str(tmp_path), share=0.5).apply, masked(tokenizer))
    larger = parts(tokenizer)
    larger["encoder"].layers[1].inner = type(larger["encoder"].layers[1].inner)(WIDTH, 32)
    system = around(tokenizer, MaskedTranslator(**larger, pairs=PAIRS), System)
    message = r"de-en/model: encoder\.layers\.1\.inner\.weight is \(24, 16\), not"
    refuses(DataError, message, Prune(tuned=str(tuned), share=0.5).apply, system)


def test_directions_use_the_masks_of_others(tokenizer, tmp_path):
    system = masked(tokenizer)
    system.save(tmp_path / "model")
    wrong = {"de-en": "fr-en", "fr-en": "de-en"}
    model = str(tmp_path / "model")
    run(ExchangeMasks(model=model, masks=wrong), tmp_path, "exchange")
    found = System.load(tmp_path / "exchange" / "model")
    for pair in system.model.pairs:
        own, expected = found.model.masks_of(pair), system.model.masks_of(wrong.get(pair, pair))
        assert all(torch.equal(own[name], mask) for name, mask in expected.items())
    assert found.origin == ["masks of de-en: those of fr-en", "masks of fr-en: those of de-en"]
    refuses(UsageError, "masks must name at least one direction", ExchangeMasks, model=model, masks={})
    unknown = ExchangeMasks(model=model, masks={"de-fr": "de-en"})
    refuses(UsageError, "no masks of de-fr, only of de-en, en-de, en-fr, fr-en", run, unknown, tmp_path, "exchange")


def test_each_direction_gets_the_masks_of_one_that_shares_a_language():
    around_english = [("en", "de"), ("en", "fr"), ("en", "pt-BR"), ("de", "en"), ("fr", "en"), ("pt-BR", "en")]
    assert of_others(around_english) == {
        "en-de": "en-fr",
        "en-fr": "en-pt-BR",
        "en-pt-BR": "en-de",
        "de-en": "fr-en",
        "fr-en": "pt-BR-en",
        "pt-BR-en": "de-en",
    }
    uneven = {"en-de": "fr-de", "en-fr": "en-de", "fr-de": "en-de"}
    assert of_others([("en", "de"), ("en", "fr"), ("fr", "de")]) == uneven
    assert of_others([("en", "de"), ("fr", "ru")]) == {}


def test_what_directions_share_by_hand():
    one = [torch.tensor([True, True, False, True]), torch.tensor([[True], [False]])]
    other = [torch.tensor([True, False, True, True]), torch.tensor([[False], [False]])]
    assert similarity(one, other) == 2 / 4
    assert similarity(other, one) == 2 / 3
    names = ["encoder.layers.0.inner", "encoder.layers.0.outer", "decoder.layers.10.inner", "decoder.first"]
    assert layers_of(names) == {"all": names, "encoder.layers.0": names[:2], "decoder.layers.10": names[2:3]}


def test_the_table_of_what_directions_share(tokenizer, tmp_path, caplog):
    system = masked(tokenizer)
    for pair in system.model.pairs[2:]:  # alike
        system.model.set_masks(pair, system.model.masks_of("en-de"))
    system.save(tmp_path / "model")
    with caplog.at_level(logging.INFO, "dragoman"):
        run(Sharing(model=str(tmp_path / "model")), tmp_path, "sharing")
    header, *rows = [line.split("\t") for line in (tmp_path / "sharing/sharing.tsv").read_text().splitlines()]
    assert header == ["layer", "direction", "other", "similarity"]
    assert len(rows) == 5 * 12  # layers and all, ordered pairs of four directions
    table = {tuple(row[:3]): float(row[3]) for row in rows}
    assert table["encoder.layers.1", "en-de", "fr-en"] == 1.0
    one, other = system.model.masks_of("de-en"), system.model.masks_of("en-de")
    names = [name for name in one if name.startswith("decoder.layers.0.")]
    common = sum((one[name].numpy() & other[name].numpy()).sum() for name in names)
    expected = common / sum(one[name].numpy().sum() for name in names)
    assert table["decoder.layers.0", "de-en", "en-de"] == pytest.approx(expected, abs=1e-4)
    assert "all: of what a direction keeps, another keeps " in caplog.text
