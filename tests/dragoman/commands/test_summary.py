"""``dragoman show MODEL``: what a model folder holds, and commands that use it."""

import json
import re
import shlex

import pytest
from safetensors.torch import load_file

from dragoman.runs.task import task_of
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.systems.encoder_system import EncoderSystem
from dragoman.shared.systems.saved_model import SavedModel
from dragoman.shared.systems.system import System
from dragoman.st.cascade import Cascade
from tests.shared.systems.test_several_texts import other_tokenizer, several, tokenizer
from tests.test_nouns import WORDS

__all__ = ["other_tokenizer", "tokenizer"]


@pytest.fixture
def folder(request, tmp_path, monkeypatch):
    """A model with two inputs and two outputs, as ``model`` in the current folder, beside a text."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "news.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    several(request.getfixturevalue("tokenizer"), request.getfixturevalue("other_tokenizer")).save("model")
    return tmp_path / "model"


def table(text):
    """Return the cells of a summary below its first sentence, by title."""
    found, title = {}, ""
    for line in text.splitlines()[2:]:
        title = line[:12].strip() or title
        found.setdefault(title, []).append(line[12:])
    return found


def test_a_model_folder_is_described(dragoman, folder):
    note = {"averaging": "best 2", "updates": [900, 800], "recipe": "text/mt", "seed": 3, "keys": {"width": 4}}
    (folder / "averaged.json").write_text(json.dumps(note))
    code, output, _ = dragoman("show", "model")
    assert code == 0
    assert output.startswith("Translates English text to German.\n\n")
    found = table(output)
    assert found["reads"] == ["source: text, en", "second: text, en; by --reads second"]
    assert found["writes"] == ["translation: text, de", "transcript: text, en; by --writes transcript"]
    sizes = [field.tokenizer.size for field in System.load(folder).inputs.values()]
    assert [int(cell.split()[0]) for cell in found["symbols"]] == sizes and sizes[0] != sizes[1]
    stored = sum(tensor.numel() for tensor in load_file(folder / "model.safetensors").values())
    total, *parts = (int(re.search(r"[0-9,]+(?= \()", cell)[0].replace(",", "")) for cell in found["parameters"])
    assert total == stored == sum(parts)
    assert re.search(r"^ +decoder: [0-9,]+ \(Decoder, 1 layer\)$", output, re.MULTILINE)
    assert found["trained by"] == [
        "dragoman run text/mt --seed 3 --width 4 --data_folder DATA_FOLDER --source_language SOURCE_LANGUAGE "
        "--target_language TARGET_LANGUAGE",
        "the best 2 checkpoints, averaged: updates 900, 800",
    ]


def test_its_commands_do_its_tasks(dragoman, folder):
    commands = table(dragoman("show", "model")[1])["use"]
    assert {shlex.split(command)[0] for command in commands} == {"dragoman"}
    written = [dragoman(*shlex.split(command)[1:], "--maximum-length-extra", "3")[1] for command in commands]
    assert ["--reads second" in command for command in commands] == [False, True, False]
    assert ["--writes transcript" in command for command in commands] == [False, False, True]
    assert len({*written}) == 3 and all(output.count("\n") == len(WORDS) for output in written)


def test_a_cascade_is_described(dragoman, folder, tmp_path):
    system = System.load(folder)
    Cascade(recogniser=system.for_task(writes="transcript"), translator=system).eval().save(tmp_path / "cascade")
    found = table(dragoman("show", tmp_path / "cascade")[1])
    assert found["writes"] == ["transcript: text, en", "translation: text, de"]


@pytest.mark.parametrize(
    ("reads", "languages", "sentence", "pipeline", "tags"),
    [
        (["speech"], [], "speech", "feature-extraction", ["speech"]),
        (["source"], ["en", "de"], "English, German text", "fill-mask", []),
        (["source", "target"], [], "text", "fill-mask", []),
        (["speech", "source"], ["en"], "speech and English text", "feature-extraction", ["speech"]),
    ],
)
def test_an_encoder_is_described_by_what_it_reads(
    dragoman, folder, speech_model, tmp_path, reads, languages, sentence, pipeline, tags
):
    text, speech = System.load(folder), System.load(speech_model)
    inputs = {"source": text.inputs["source"], "target": text.inputs["second"], "speech": SpeechField()}
    embeddings = {side: text.model.embeddings[name] for side, name in (("source", "source"), ("target", "second"))}
    embeddings["speech"] = speech.model.embeddings["speech"]
    encoder = speech.model.encoder if "speech" in reads else text.model.encoder
    model = EncoderModel(embeddings={name: embeddings[name] for name in reads}, encoder=encoder)
    given = {name: inputs[name] for name in reads}
    EncoderSystem(model=model, inputs=given, source_languages=languages).save(tmp_path / "encoder")
    code, output, _ = dragoman("show", tmp_path / "encoder")
    assert code == 0 and output.startswith(f"An encoder of {sentence}, to begin training with.")
    assert len(table(output)["reads"]) == len(reads) and "writes" not in table(output)
    task = task_of(SavedModel.load(tmp_path / "encoder"))
    assert (task.pipeline, task.tags) == (pipeline, tags)


def test_what_is_no_model_folder_is_refused_by_name(dragoman, folder):
    assert "keys are for recipes" in dragoman("show", "model", "--width", "3")[2]
    (folder / "averaged.json").write_text('{"updates": "many"}')
    code, _, messages = dragoman("show", "model")
    assert code == 1 and "averaged.json" in messages and "'updates' is \"many\", not a list" in messages
    (folder / "averaged.json").unlink()
    (folder / "config.json").unlink()
    code, _, messages = dragoman("show", "model")
    assert code == 1 and "not a model folder" in messages
