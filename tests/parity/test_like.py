"""Imported models, trained and exported with ``--like``: transformers computes the same, and they import again."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch

from dragoman import System, UsageError
from dragoman.exchange.exporting import export_ctranslate2, export_huggingface
from dragoman.exchange.extending import extend
from dragoman.exchange.huggingface.hf_like import check_back, differing, export_like
from dragoman.exchange.importing import import_model
from dragoman.shared.batch import Batch
from dragoman.shared.errors import DataError
from dragoman.shared.padded import Padded
from dragoman.shared.systems.pretrained import load
from dragoman.shared.systems.reading_model import ReadingModel
from tests.parity.compared import Compared
from tests.parity.speech_models import features_of, read, same_outputs
from tests.small import refuses

transformers = pytest.importorskip("transformers")

from tests.parity import test_extend, test_huggingface_t5  # noqa: E402
from tests.parity import test_huggingface_speech as speech  # noqa: E402
from tests.parity import test_huggingface_wav2vec2_bert as conformer  # noqa: E402
from tests.parity import test_huggingface_whisper as whisper  # noqa: E402

pytestmark = pytest.mark.parity


def trained(folder: Path, size: float = 0.05) -> Any:
    """Change all parameters of a folder, as training does, and return the system."""
    system = ReadingModel.load(folder)
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for parameter in system.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * size)
    system.save(folder)
    return system


def there_and_back(folder: Path, tmp_path: Path, **languages: list[str]) -> Any:
    """Import a folder, train, export like it, and import that; return the system that was trained."""
    import_model(folder, tmp_path / "ours", **languages)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    system = trained(tmp_path / "ours")
    export_like(tmp_path / "ours", folder, tmp_path / "exported")
    assert before == {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    for name, content in before.items():  # all but settings and weights are the same files
        if name != "config.json" and not name.endswith((".safetensors", ".bin", ".vocab")):
            assert (tmp_path / "exported" / name).read_bytes() == content
    report = import_model(tmp_path / "exported", tmp_path / "back", **languages)
    assert not (report.missing or report.unexpected or report.reshaped)
    back = ReadingModel.load(tmp_path / "back")
    for name, value in back.state_dict().items():
        if not name.endswith("keys_values.bias"):  # Whisper's keys have none: it changes no attention
            torch.testing.assert_close(value, system.state_dict()[name], atol=1e-7, rtol=1e-6)
    return system


@pytest.mark.parametrize(("name", "quantization"), [("small", "float32"), ("untied", "float32"), ("small", "int8")])
def test_whisper_as_faster_whisper_reads_it(
    name: str, quantization: str, files: list[str], tmp_path: Path, compared: Compared
) -> None:
    compared.named("CTranslate2", f"Whisper ({name}), trained here and exported, {quantization}")
    ctranslate2 = pytest.importorskip("ctranslate2")
    whisper.saved(name, tmp_path / "theirs")
    there_and_back(tmp_path / "theirs", tmp_path)
    given: dict[str, Any] = {"quantization": quantization, "compare": [], "limit": 0, "like": tmp_path / "theirs"}
    export_ctranslate2(tmp_path / "ours", tmp_path / "fast", **given)
    for file in ("tokenizer.json", "preprocessor_config.json"):
        assert (tmp_path / "fast" / file).read_bytes() == (tmp_path / "theirs" / file).read_bytes()
    fast = ctranslate2.models.Whisper(str(tmp_path / "fast"))
    theirs = transformers.WhisperForConditionalGeneration.from_pretrained(tmp_path / "exported").eval()
    ids = json.loads((tmp_path / "theirs" / "tokenizer.json").read_text(encoding="utf-8"))["added_tokens"]
    id = {token["content"]: token["id"] for token in ids}
    prompt = [id[f"<|{symbol}|>"] for symbol in ("startoftranscript", "de", "transcribe", "notimestamps")]
    for file in files:
        sound = whisper.features(tmp_path / "exported", file)
        with torch.no_grad():
            states = theirs.model.encoder(sound).last_hidden_state
        found = torch.from_numpy(np.array(fast.encode(ctranslate2.StorageView.from_array(sound.numpy()))))
        compared.close("states", found, states, tolerance=1e-4 if quantization == "float32" else 0.5)
        if quantization == "float32":
            [written] = fast.generate(
                ctranslate2.StorageView.from_array(sound.numpy()), [prompt], beam_size=1,
                max_length=24,  # of which it takes half
                suppress_blank=False, suppress_tokens=[], max_initial_timestamp_index=0,
            )  # fmt: skip
            output = list(prompt)
            for _ in range(12):
                with torch.no_grad():
                    output.append(int(theirs(sound, decoder_input_ids=torch.tensor([output])).logits[0, -1].argmax()))
            expected = [*output[len(prompt) :], theirs.config.eos_token_id]
            assert written.sequences_ids[0] == expected[: expected.index(theirs.config.eos_token_id)]


@pytest.mark.parametrize("name", ["small", "English", "positions trained", "untied"])
def test_whisper(name: str, files: list[str], tmp_path: Path, compared: Compared) -> None:
    compared.named("transformers", f"Whisper ({name}), trained here and exported")
    whisper.saved(name, tmp_path / "theirs")
    system = there_and_back(tmp_path / "theirs", tmp_path)
    read_by_them = transformers.WhisperForConditionalGeneration.from_pretrained
    old, theirs = read_by_them(tmp_path / "theirs"), read_by_them(tmp_path / "exported").eval()
    theirs.model.encoder.embed_positions.requires_grad_(True)
    features = partial(whisper.features, tmp_path / "exported")
    same_outputs(system.model, theirs, files, features, [301, 5, 7, 130, 4, 9], compared)
    assert theirs.generation_config.to_dict() == old.generation_config.to_dict()
    assert not torch.equal(theirs.model.decoder.layers[0].fc1.weight, old.model.decoder.layers[0].fc1.weight)


@pytest.mark.parametrize("name", ["small", "untied", "many"])
def test_speech2text(name: str, files: list[str], tmp_path: Path, compared: Compared) -> None:
    compared.named("transformers", f"Speech2Text ({name}), trained here and exported")
    speech.saved_speech_model(name, tmp_path / "theirs")
    system = there_and_back(tmp_path / "theirs", tmp_path, source_languages=["en"])
    theirs = transformers.Speech2TextForConditionalGeneration.from_pretrained(tmp_path / "exported").eval()
    features = partial(features_of, transformers.Speech2TextFeatureExtractor, tmp_path / "exported")
    same_outputs(system.model, theirs, files, features, [2, 5, 7, 30, 4, 9], compared)


@pytest.mark.parametrize("name", ["base_pretraining", "odd_ctc", "hubert_large_ctc", "pickled"])
def test_encoders_of_waveforms(name: str, files: list[str], tmp_path: Path, compared: Compared) -> None:
    kind = speech.WAVEFORM["base_ctc" if name == "pickled" else name][0]
    compared.named("transformers", f"{kind} ({name}), trained here and exported")
    old = {"pickled": "base_ctc"}.get(name, name)
    speech.saved_waveform_model(old, tmp_path / "theirs", pickled=name == "pickled")
    languages = {"source_languages": ["en"]} if kind.endswith("ForCTC") else {}
    system = there_and_back(tmp_path / "theirs", tmp_path, **languages)
    theirs = getattr(transformers, kind).from_pretrained(tmp_path / "exported").eval()
    reader = transformers.Wav2Vec2FeatureExtractor.from_pretrained(tmp_path / "exported")
    for waveform in read(files):
        made = reader(waveform.numpy(), sampling_rate=16000, return_tensors="pt")
        sound = Padded.from_sequences([waveform])
        found = system.model.eval().encode(Batch({"speech": sound})).memories["source"].values
        if kind.endswith("ForCTC"):
            compared.close("logits", system.model.heads["ctc"](found), theirs(made.input_values).logits)
        else:
            compared.close("states", found, theirs.wav2vec2(made.input_values).last_hidden_state)


@pytest.mark.parametrize("name", conformer.MODELS)
def test_w2v_bert(name: str, files: list[str], tmp_path: Path, compared: Compared) -> None:
    compared.named("transformers", f"{name}, trained here and exported")
    conformer.saved(name, tmp_path / "theirs")
    system = there_and_back(tmp_path / "theirs", tmp_path, **({"source_languages": ["en"]} if "CTC" in name else {}))
    theirs = getattr(transformers, conformer.MODELS[name][0]).from_pretrained(tmp_path / "exported").eval()
    extract = transformers.SeamlessM4TFeatureExtractor.from_pretrained(tmp_path / "exported")
    for waveform in read(files):
        made = extract(waveform.numpy(), sampling_rate=16000, return_tensors="pt")
        states = system.model.eval().encode(Batch({"speech": Padded.from_sequences([waveform])})).memories["source"]
        count = int(made.attention_mask.sum())
        if "CTC" in name:
            compared.close("logits", system.model.heads["ctc"](states.values)[0], theirs(**made).logits[0, :count])
        else:
            compared.close("states", states.values[0], theirs(**made).last_hidden_state[0, :count])


@pytest.mark.parametrize("name", ["T5 (1.0)", "T5 (1.1)", "mT5"])
def test_t5(name: str, lines: list[str], tmp_path: Path, compared: Compared) -> None:
    compared.named("transformers", f"{name}, trained here and exported")
    folder = tmp_path / "theirs"
    folder.mkdir()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for line in lines if line.strip()]), model_prefix=str(folder / "spiece"),
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, vocab_size=700, hard_vocab_limit=False, num_threads=1, minloglevel=2,
    )  # fmt: skip
    rows = len(sentencepiece.SentencePieceProcessor(str(folder / "spiece.model")))
    test_huggingface_t5.saved(name, folder, vocab_size=rows + 12)
    system = there_and_back(folder, tmp_path, source_languages=["en"], target_languages=["de"])
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "exported").eval()
    for line in lines[3:400:90]:
        row = {"id": "", "source_text": line, "source_language": "en", "target_language": "de"}
        ids = system.inputs["source"](row, None)[None]
        tokens = Padded(ids, torch.tensor([ids.shape[1]]))
        logits = system.model.project(system.model.decode(tokens, system.model.encode(Batch({"source": tokens}))))
        compared.close("logits", logits, theirs(input_ids=ids, decoder_input_ids=ids).logits, tolerance=5e-4)


def test_a_translator_keeps_the_class_of_its_tokenizer(lines: list[str], tmp_path: Path) -> None:
    test_extend.made("nllb", lines, tmp_path / "theirs")
    system = there_and_back(tmp_path / "theirs", tmp_path, source_languages=["de"], target_languages=["fr"])
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "exported").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "exported", src_lang="deu_Latn")
    assert type(tokenizer).__name__.startswith("Nllb")
    for line in lines[3:400:90]:
        inputs = tokenizer(line, return_tensors="pt")
        ids = system.inputs["source"](test_extend.row(line, "de"), None)
        assert inputs.input_ids[0].tolist() == ids.tolist()
        expected = theirs(**inputs, decoder_input_ids=ids[None]).logits
        torch.testing.assert_close(
            test_extend.logits(system, ids.tolist(), ids.tolist()), expected, atol=1e-4, rtol=1e-4
        )


# -- what is refused --------------------------------------------------------------------------------------------------


def test_what_is_not_like_it_is_refused(lines: list[str], tmp_path: Path) -> None:
    theirs, ours, out = tmp_path / "theirs", tmp_path / "ours", tmp_path / "out"
    whisper.saved("small", theirs)
    import_model(theirs, ours)
    larger = json.loads((theirs / "config.json").read_text()) | {"decoder_attention_heads": 2}
    other = tmp_path / "other"
    other.mkdir()
    for path in theirs.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    (other / "config.json").write_text(json.dumps(larger))
    match = r"ours: is no model like .*other: model.decoder.layer.heads is 3, not 2"
    refuses(UsageError, match, export_like, ours, other, out)
    refuses(UsageError, "theirs: is the model itself, or what it is to be like", export_like, ours, theirs, theirs)
    refuses(DataError, "holds something other than a model", export_like, ours, theirs, tmp_path)
    (other / "config.json").write_bytes((theirs / "config.json").read_bytes())
    content = json.loads((other / "tokenizer.json").read_text())
    content["model"]["merges"].reverse()
    (other / "tokenizer.json").write_text(json.dumps(content))
    refuses(UsageError, "ours: is no model like .*other: its tokenizer is another one", export_like, ours, other, out)
    call: Callable[..., None] = partial(export_ctranslate2, ours, out, quantization="float32", compare=[], limit=0)
    refuses(UsageError, "--compare and --limit are for text translators", call, like=theirs, limit=1)
    assert not out.exists()

    test_extend.made("nllb", lines, tmp_path / "nllb")
    import_model(tmp_path / "nllb", tmp_path / "text", source_languages=["de"], target_languages=["fr"])
    (tmp_path / "mic.txt").write_text("ᎣᏏᏲ ᏙᎯᏧ\n" * 5, encoding="utf-8")
    given = {"language": "mic", "like": "de", "text": tmp_path / "mic.txt", "pieces": 40}
    extend(tmp_path / "text", tmp_path / "more", **given)
    refuses(UsageError, "no symbol for mic", export_like, tmp_path / "more", tmp_path / "nllb", out)


def test_the_command_says_what_loads_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whisper.saved("small", tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "imported")
    changes = {"model.encoder.recompute": True, "model.decoder.layer.dropout": 0.3}  # as own/speech_finetune
    load(folder=str(tmp_path / "imported"), changes=changes, writes="transcript").save(tmp_path / "ours")
    given: dict[str, Any] = {"quantization": "float32", "compare": [], "limit": 0, "like": tmp_path / "theirs"}
    for _ in range(2):  # an earlier export is replaced
        export_huggingface(tmp_path / "ours", tmp_path / "out", **given)
    said = f"{tmp_path / 'out'}: WhisperForConditionalGeneration (whisper), as {tmp_path / 'theirs'}"
    assert capsys.readouterr().out.splitlines()[-1] == said
    assert isinstance(System.load(tmp_path / "ours"), System)


def test_differences_of_training_do_not_count() -> None:
    one = {"class": "A", "arguments": {"dropout": 0.1, "heads": [{"class": "B", "arguments": {"size": 3}}]}}
    other = {"class": "A", "arguments": {"dropout": 0.3, "heads": [{"class": "C", "arguments": {"size": 4}}]}}
    assert [*differing(one, other)] == [("model.heads.0", "B", "C"), ("model.heads.0.size", 3, 4)]


def test_what_does_not_come_back_is_refused() -> None:
    values = {"a": torch.ones(3), "b": torch.ones(3)}
    check_back(values, {"a": torch.ones(3), "b": torch.ones(3) * (1 + 1e-7)}, {"b"})
    refuses(DataError, "a does not come back", check_back, values, values | {"a": torch.ones(3) * (1 + 2e-7)}, {"b"})
