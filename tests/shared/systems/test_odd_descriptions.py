"""Model folders whose config.json is not what anybody wrote: every value replaced by every type, huge sizes, paths."""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import save_file

from dragoman import BeamSearch, DataError, Rules, System, UsageError
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.machine import memory
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.fbank import Fbank, UtteranceNorm
from dragoman.shared.nn.heads import TiedProjection
from dragoman.shared.nn.positions import SinusoidalPositions
from dragoman.shared.nn.speech import SpeechEmbedding
from dragoman.shared.nn.subsampler import Conv1dSubsampler
from dragoman.shared.nn.transformer import Decoder, Encoder, Layer
from dragoman.shared.nn.translator import Translator
from tests import small
from tests.small import refuses

GOLDEN = Path(__file__).parents[2] / "golden" / "model"
VALUES: tuple[Any, ...] = (None, True, 5, -3, 0, 10**9, 10**30, 0.5, 1e308, "x", "", [], [1], {}, {"a": 1})
#: How many of the replacements the fast test makes; the slow one makes all.
FEW = 12


def speech_folder(folder: Path) -> Path:
    """Save a speech translator with the golden model's tokenizer, all of whose arguments are said."""
    tokenizer = System.from_description(GOLDEN).output.tokenizer
    positions = {"width": 8, "offset": 2, "endpoint": True}
    speech = SpeechEmbedding(
        frontend=Fbank(bins=8, window=0.025, hop=0.01, rate=16000),
        normalisation=UtteranceNorm(means=True, variances=True),
        subsampler=Conv1dSubsampler(inputs=8, channels=4, width=8, kernels=[5, 5]),
        positions=SinusoidalPositions(**positions),
        dropout=0.1,
        scaled=True,
    )
    target = TextEmbedding(
        vocabulary=tokenizer.size,
        width=8,
        padding=tokenizer.pad,
        positions=SinusoidalPositions(**positions),
        dropout=0.1,
        scaled=True,
        norm=True,
        norm_epsilon=1e-5,
    )
    layer = {"width": 8, "heads": 2, "feedforward": 8, "dropout": 0.1, "attention_dropout": 0.0}
    layer |= {"activation_dropout": 0.0, "activation": "relu", "pre_norm": True, "norm_epsilon": 1e-5}
    stack = {"layers": 1, "final_norm": True, "layer_drop": 0.0, "recompute": False}
    model = Translator(
        embeddings={"speech": speech},
        encoder=Encoder(layer=Layer(memories=None, **layer), taps=[1], **stack),
        target_embedding=target,
        decoder=Decoder(layer=Layer(memories=["source"], **layer), **stack),
        projection=TiedProjection(embedding=target, bias=True),
    )
    output = TextField(column="target_text", tokenizer=tokenizer, language_column="target_language")
    small.system(tokenizer, model, inputs={"speech": SpeechField(speeds=[1.0])}, output=output).save(folder)
    return folder


def places(node: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every value in plain data."""
    yield way
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, value in items:
        yield from places(value, (*way, name))


def replaced(data: Any, way: tuple[Any, ...], value: Any) -> Any:
    """Return plain data with another value at a place."""
    if not way:
        return value
    data = copy.deepcopy(data)
    node = data
    for name in way[:-1]:
        node = node[name]
    node[way[-1]] = value
    return data


def use(folder: Path, item: str) -> bool:
    """Load a folder and translate with it; return whether it is refused.

    Any refusal has to be one line, of a folder one that names it.
    """
    try:
        system = System.load(folder)
    except DataError as error:
        assert "\n" not in str(error) and str(folder) in str(error)
        return True
    search = BeamSearch(beam=2, rules=Rules(maximum_length_extra=3))
    codes = {"source_language": system.source_languages[0], "target_language": system.target_languages[0]}
    try:
        system.translate([item], search=search, **codes)
    except (DataError, UsageError) as error:
        assert "\n" not in str(error)
        return True
    return False


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("kind", ["text", "speech"])
@pytest.mark.parametrize("count", [FEW, pytest.param(None, marks=pytest.mark.slow)])
def test_no_value_of_any_type_ends_in_a_traceback(kind: str, count: int | None, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    item = "one two"
    if kind == "text":
        shutil.copytree(GOLDEN, folder)
    else:
        speech_folder(folder)
        item = str(tmp_path / "a.wav")
        soundfile.write(item, np.sin(np.arange(4000) / 9).astype(np.float32), 16000)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= {"origin": ["all parameters from somewhere"]}
    cases = [(way, value) for way in places(config) for value in VALUES]
    refused = []
    for way, value in cases if count is None else random.Random(1).sample(cases, count):
        (folder / "config.json").write_text(json.dumps(replaced(config, way, value)), encoding="utf-8")
        refused.append(use(folder, item))
    assert True in refused
    assert count is not None or False in refused  # a sample may hold no value that is right


def changed(folder: Path, *way: Any, value: Any) -> Path:
    """Copy the golden model with another value in its description."""
    shutil.copytree(GOLDEN, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(replaced(config, way, value)), encoding="utf-8")
    return folder


MODEL = ("system", "arguments", "model", "arguments")


def test_layers_without_end_are_not_built(tmp_path: Path) -> None:
    folder = changed(tmp_path / "model", *MODEL, "encoder", "arguments", "layers", value=1000)
    said = r"config\.json: describes more than \d+ tensors, and its weights are \d+"
    refuses(DataError, said, System.load, folder)


def test_sizes_are_compared_with_the_weights_before_they_take_memory(tmp_path: Path) -> None:
    way = (*MODEL, "decoder", "arguments", "layer", "arguments", "feedforward")
    shape = r"decoder\.layers\.0\.inner\.weight is \(\d+, 24\) instead of \(4000000000, 24\)"
    folder = changed(tmp_path / "model", *way, value=4 * 10**9)
    refuses(DataError, rf"model\.safetensors: does not fit the model: .*{shape}", System.load, folder)


def test_a_model_beyond_the_memory_is_refused_with_both_figures(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda device="cpu": 1024)
    refuses(
        DataError, r"config\.json: .* needs about .* of memory on cpu, but only 1\.0 KB is avail", System.load, GOLDEN
    )


def test_types_that_no_model_computes_with_are_refused(tmp_path: Path) -> None:
    folder = shutil.copytree(GOLDEN, tmp_path / "model")
    name = next(iter(System.load(folder).state_dict()))
    save_file({name: torch.zeros(2, dtype=torch.float8_e5m2)}, folder / "model.safetensors")
    refuses(DataError, rf"model\.safetensors: {name} is of type F8_E5M2, and models hold F64", System.load, folder)
