"""What ``print(model)`` says: task, languages, parameters, vocabulary."""

from pathlib import Path

import pytest
import torch
from torch import nn

import dragoman
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.systems.encoder_system import EncoderSystem
from dragoman.shared.systems.reading_model import brief, named
from dragoman.shared.systems.system import System

GOLDEN = Path("tests/golden/model")


@pytest.fixture
def golden():
    return System.load(GOLDEN)


def test_a_translator_is_told_in_four_lines(golden):
    size = sum(parameter.numel() for parameter in golden.parameters())
    lines = ["text to translation", "en to de", f"{size:,} (float32, cpu)", "298 (SentencePieceTokenizer)"]
    titles = ["task", "languages", "parameters", "vocabulary"]
    assert str(golden).splitlines() == [f"{title:12}{line}" for title, line in zip(titles, lines, strict=True)]
    assert repr(dragoman.load(GOLDEN, device="cpu")) == str(golden)
    golden.bfloat16()
    golden.model.target_embedding.float()
    assert f"{size:,} (bfloat16, float32, cpu)" in str(golden)


@pytest.mark.parametrize(
    ("changed", "task", "languages"),
    [
        ({"inputs": {"speech": SpeechField()}}, "speech to translation", "en to de"),
        ({"inputs": {}}, "language model", "de"),
        ({"target_languages": [*"abcdefgh"]}, "text to translation", None),
    ],
)
def test_the_task_is_what_is_read_and_written(golden, changed, task, languages):
    if "target_languages" in changed:
        changed = {"target_languages": ["de", "en", "es", "fr", "it", "ja", "ru", "tr", "zh"]}
        languages = "en to 9 languages"
    lines = brief(System(**golden.arguments | changed)).splitlines()
    assert lines[:2] == [f"{'task':12}{task}", f"{'languages':12}{languages}"]


def test_a_recogniser_and_an_encoder(golden):
    heard = TextField(column="source_text", tokenizer=golden.output.tokenizer)
    both = {"inputs": {"speech": SpeechField(), **golden.inputs}, "output": heard, "output_name": "transcript"}
    told = brief(System(**golden.arguments | both | {"target_languages": ["en"]})).splitlines()
    assert told[0].endswith("speech and text to transcript") and told[1].split() == ["languages", "en"]
    encoder = EncoderSystem(model=nn.Linear(2, 3), inputs={"speech": SpeechField()}, source_languages=["en", "fr"])
    told = brief(encoder).splitlines()
    assert [line[12:] for line in told] == ["encoder of speech", "en, fr", "9 (float32, cpu)", "none"]
    empty = EncoderSystem(model=nn.Identity(), inputs={"speech": SpeechField()}, source_languages=["en"])
    assert brief(empty).splitlines()[2] == f"{'parameters':12}0"
    assert torch.is_tensor(encoder.model.weight)


def test_many_languages_are_counted():
    assert named(["de", "en"]) == "de, en" and named([*"abcdefgh"]) == "a, b, c, d, e, f, g, h"
    assert named([*"abcdefghi"]) == "9 languages"
