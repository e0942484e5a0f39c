"""Settings that no network can have."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from dragoman.exchange.fairseq.fairseq_model import Settings
from dragoman.exchange.fairseq.fairseq_wav2vec2 import WaveformSettings
from dragoman.exchange.foreign_settings import FAIRSEQ, check_settings, read_yaml
from dragoman.exchange.huggingface.hf_reading import Config
from dragoman.shared.errors import DataError
from tests.small import refuses

NONE_OF_ANY_KIND: tuple[Any, ...] = (10**30, -1, 2.5, math.nan, math.inf, "x", [], [None], {}, {"a": 1})
RIGHT: dict[str, Any] = {
    "d_model": 512, "vocab_size": 250_027, "num_conv_pos_embedding_groups": 16, "pad_token_id": 0, "dropout": 0.0,
    "attention_dropout": 0.1, "mask_time_prob": 1, "layer_norm_eps": 1e-12, "chunk_length": 30,
    "conv_stride": [5, 2, 2], "scale_embedding": False, "model_type": "bart", "mask_time_min_masks": 0,
}  # fmt: skip
OTHERS: dict[str, tuple[Any, ...]] = {
    "d_model": (0, True), "vocab_size": (0, 10**12), "num_conv_pos_embedding_groups": (0,), "dropout": (1, 1.0),
    "attention_dropout": (True,), "mask_time_prob": (1.01, -0.5), "layer_norm_eps": (0, 0.0), "chunk_length": (0,),
    "conv_stride": ([0], [2, 0], [10**12] * 7, [1] * 101, 5, [1.5], [True]), "scale_embedding": (0, 1),
    "model_type": (None, 5),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_a_setting_is_named_with_its_value(name: str) -> None:
    check_settings({name: RIGHT[name], "of nobody": {}}, "a.json")
    check_settings({name: None}, "a.json")
    wrong = [value for value in NONE_OF_ANY_KIND if (name, value) not in (("model_type", "x"), ("chunk_length", 2.5))]
    for value in (*wrong, *OTHERS.get(name, ())):
        if value is not None:
            with pytest.raises(DataError, match=rf"^a\.json: {name}\S* must be") as raised:
                check_settings({name: value}, "a.json")
            assert "\n" not in str(raised.value) and len(str(raised.value)) < 200


def test_widths_that_heads_do_not_divide() -> None:
    check_settings({"d_model": 12, "encoder_attention_heads": 3}, "a")
    with pytest.raises(DataError, match="^a: d_model 12 cannot be divided by decoder_attention_heads 5$"):
        check_settings({"d_model": 12, "decoder_attention_heads": 5}, "a")
    with pytest.raises(DataError, match="hidden_size 24 cannot be divided by num_conv_pos_embedding_groups 16"):
        check_settings({"hidden_size": 24, "num_conv_pos_embedding_groups": 16}, "a")


def test_every_settings_file_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"encoder_layers": -2}))
    refuses(DataError, re.escape(f"{tmp_path}/config.json: encoder_layers must be"), Config, tmp_path / "config.json")
    for content in ({"args": {"encoder_attention_heads": 0}}, {"cfg": {"model": {"encoder_attention_heads": 0}}}):
        for read in (Settings, WaveformSettings):
            refuses(DataError, "^m.pt: encoder_attention_heads must be", read, content, "m.pt")
    refuses(DataError, "^m.pt: dropout must be", Settings, {"args": {"dropout": "a"}}, "m.pt")
    assert "encoder_layers" not in FAIRSEQ, "its sizes are those of its tensors"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "cannot be read as YAML"),
        ("- a", "does not hold settings"),
        ("a: 2001-99-99", "cannot be read as YAML"),
        ("a: !!python/object/apply:os.system [exit]", "cannot be read as YAML"),
        ("\n".join([f"a0: &a0 {[0] * 100}", *(f"a{n}: &a{n} {[f'*a{n - 1}'] * 100}" for n in range(1, 9))])
         .replace("'", ""), "line 4: aliases repeat more than"),
        ("[" * 500, "nested more than"),
        ("a: \udcff", "cannot be read as YAML"),
    ],
)  # fmt: skip
def test_yaml_is_data(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(DataError, match=message) as raised:
        read_yaml(path, "it is needed")
    assert str(raised.value).startswith(str(path)) and "\n" not in str(raised.value)
    refuses(DataError, "b.yaml: no such file: it is needed", read_yaml, tmp_path / "b.yaml", "it is needed")
