"""Calls to CTranslate2, compared with hand values without the library (test_ctranslate2.py compares its outputs)."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from torch import nn

from dragoman import GreedySearch, Rules, System, UsageError
from dragoman.exchange.ctranslate2 import CTranslate2System, _fill_stack, _shape, specify, vocabulary
from dragoman.shared.batches.loader import collate
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.transformer import Encoder
from tests.small import GOLDEN


class Endless:
    """An engine that writes one symbol as often as it may, and keeps how often that was."""

    def __init__(self, symbol: str) -> None:
        self.symbol = symbol
        self.limits: list[int] = []

    def translate_batch(self, sources: list[list[str]], *, max_decoding_length: int, **_: Any) -> list[Any]:
        self.limits.append(max_decoding_length)
        return [SimpleNamespace(hypotheses=[[self.symbol] * max_decoding_length], scores=[0.0]) for _ in sources]


def opened(positions: int) -> CTranslate2System:
    """Return the golden translator on such an engine; a model has so many positions for an output."""
    system = CTranslate2System(**(System.from_description(GOLDEN).arguments | {"model": nn.Identity()}))
    system._symbols = system._source_symbols = vocabulary(system.output.tokenizer)
    system._ids = {symbol: number for number, symbol in enumerate(system._symbols)}
    system._longest = positions
    system._engine = Endless(system._symbols[system.output.tokenizer.encode("eins")[0]])
    return system


@pytest.mark.parametrize(
    ("positions", "start_symbols", "tokens"),
    [
        (1000, 1, lambda length: 2 * length + 3),  # twice the source, and three
        (10, 1, lambda length: 9),  # one position holds the start
        (10, 3, lambda length: 7),  # and here three do
    ],
)
def test_outputs_are_as_long_as_the_rules_and_the_positions_allow(positions, start_symbols, tokens):
    system = opened(positions)
    row = {"id": "1", "source_text": "one two", "source_language": "en", "target_language": "de"}
    batch = collate([row], system.inputs, np.random.default_rng(0))
    length = int(batch["source"].lengths[0])
    assert 2 * length + 3 > 10
    rules = Rules(maximum_length_ratio=2.0, maximum_length_extra=3, start_symbols=start_symbols)
    [[found]] = system.translate_batch(batch, GreedySearch(rules=rules))
    assert system._engine.limits == [tokens(length) + 1]  # and the end symbol
    assert len(found.tokens) == tokens(length) + 1 and found.tokens[-1] == system.output.tokenizer.eos


@pytest.mark.parametrize("scaled", [True, False])
def test_embeddings_are_scaled_there_if_they_are_here(scaled):
    specification = MagicMock()
    specification.layer = [MagicMock()]
    stack = Encoder(layer=Layer(width=12, heads=2, feedforward=16), layers=1)
    _fill_stack(specification, stack, TextEmbedding(vocabulary=9, width=12, padding=1, scaled=scaled), 5)
    assert specification.scale_embeddings is scaled


@pytest.fixture
def stand_in(monkeypatch):
    """Return what stands for the library's specifications where it is not installed."""
    specs = MagicMock()
    specs.common_spec.Activation = SimpleNamespace(RELU="its ReLU", GELU="its GELU")
    for name, module in {"": MagicMock(specs=specs), ".specs": specs, ".specs.common_spec": specs.common_spec}.items():
        monkeypatch.setitem(sys.modules, f"ctranslate2{name}", module)
    return specs.transformer_spec


def test_a_plain_text_translator_is_specified_and_no_other_system(stand_in):
    system = System.load(GOLDEN)
    stacks = {"Encoder": system.model.encoder, "Decoder": system.model.decoder}
    for side, stack in stacks.items():
        getattr(stand_in, f"Transformer{side}Spec").return_value.layer = [MagicMock() for _ in stack.layers]
    config = specify(system, 8).config
    assert (config.bos_token, config.eos_token, config.unk_token) == ("<s>", "</s>", "<unk>")
    assert config.decoder_start_token is None and config.add_source_bos is config.add_source_eos is False
    spoken = System(**system.arguments | {"inputs": {"speech": system.inputs["source"]}})
    with pytest.raises(UsageError, match=r"reads \['speech'\]\): only plain text translators"):
        specify(spoken, 8)


def test_without_the_library_nothing_is_exported(dragoman, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)  # as if it were not installed
    code, output, messages = dragoman("export", GOLDEN, "--out", tmp_path / "exported")
    assert (code, output) == (2, "") and not (tmp_path / "exported").exists()
    assert messages == "dragoman: error: CTranslate2 is not installed: pip install 'dragoman[export]'\n"


@pytest.mark.parametrize("pre_norm", [True, False])
@pytest.mark.parametrize("norm", [True, False])
def test_the_shape_of_a_stack_is_told(pre_norm, norm, stand_in):
    layer = Layer(width=12, heads=2, feedforward=16, pre_norm=pre_norm, activation="gelu")
    shape = _shape(Encoder(layer=layer, layers=3), TextEmbedding(vocabulary=9, width=12, padding=1, norm=norm))
    assert shape == {
        "num_layers": 3,
        "num_heads": 2,
        "pre_norm": pre_norm,
        "no_final_norm": not pre_norm,  # stacks of such layers normalise what leaves the last
        "activation": "its GELU",
        "layernorm_embedding": norm,
    }


def test_every_symbol_has_a_name_of_its_own():
    pieces = ["a", "a", "a#1", "b"]
    names = vocabulary(SimpleNamespace(size=4, symbol=pieces.__getitem__))
    assert names == ["a", "a#1", "a#1#2", "b"]
