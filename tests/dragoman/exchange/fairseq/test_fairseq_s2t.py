"""The import of fairseq's speech models: what it asks for, what it refuses, and the command.

That models compute what fairseq computes is tested in tests/parity/test_fairseq_speech.py.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from dragoman import DataError, System
from dragoman.exchange.fairseq.fairseq_import import import_fairseq
from dragoman.exchange.fairseq.fairseq_wav2vec2 import WaveformSettings
from dragoman.exchange.importing import import_model
from dragoman.exchange.unpickling import read_checkpoint
from dragoman.shared.batch import Batch
from dragoman.shared.nn.fbank import GlobalNorm
from dragoman.shared.nn.specaugment import SpecAugment
from dragoman.shared.nn.speech import SpeechEmbedding
from dragoman.shared.nn.subsampler import Conv1dSubsampler
from dragoman.shared.nn.transformer import fresh
from dragoman.shared.nn.translator import Translator
from dragoman.shared.nn.waveform import WaveformEncoder
from dragoman.shared.padded import Padded
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.training.initialise import Initialise
from tests.small import refuses

FIXTURES = Path(__file__).parents[3] / "parity" / "fairseq_speech"


def copy(folder: Path, case: str, change=lambda content: None) -> Path:
    """Copy a fixture, after a change to what its checkpoint holds."""
    shutil.copytree(FIXTURES / case, folder)
    content = read_checkpoint(FIXTURES / case / "checkpoint.pt")
    content["model"] = {name: tensor.clone() for name, tensor in content["model"].items()}
    change(content)
    torch.save(content, folder / "checkpoint.pt")
    return folder


def model_settings(content: dict) -> dict:
    return content["args"] or content["cfg"]["model"]


# -- encoders of waveforms -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "setting", "value", "message"),
    [
        ("waveform_base", "layer_type", "conformer", "layer_type = 'conformer' has no counterpart"),
        ("waveform_large", "pos_conv_depth", 5, "pos_conv_depth = 5 has no counterpart"),
        ("waveform_large", "mask_selection", "poisson", "mask_selection = 'poisson' has no counterpart"),
        ("waveform_base", "activation_fn", "selu", "activation_fn = 'selu' has no counterpart"),
        ("waveform_base", "conv_feature_layers", "open('x')", "is not a list of convolutions"),
        ("waveform_base", "conv_feature_layers", "[(14, 10, 5)]", "conv_layers.1.0.weight is unexpected"),
        ("waveform_base", "encoder_attention_heads", 4, "settings do not fit together .the width 18"),
        ("waveform_base", "encoder_layers", 2, None),
    ],
)
def test_settings_without_a_counterpart_are_named(tmp_path, case, setting, value, message):
    folder = copy(tmp_path / "data", case, lambda content: model_settings(content).update({setting: value}))
    if message is None:
        import_fairseq(folder)[1].check()
        return
    refuses(DataError, rf"checkpoint\.pt: .*({message})", lambda: import_fairseq(folder)[1].check())


@pytest.mark.parametrize(
    "content",
    [
        {"args": {"sample_rate": 8000}},
        {"cfg": {"task": {"sample_rate": 8000}, "model": {}}},
        {"cfg": {"task": {"sample_rate": 8000}, "model": {"w2v_args": {"model": {}}}}},
    ],
)
def test_a_model_of_another_sampling_rate_is_refused(content):
    with pytest.raises(DataError, match="them.pt: sample_rate = 8000 has no counterpart here, only 16000"):
        WaveformSettings(content, "them.pt")
    told = {"cfg": {"task": {"sample_rate": 16000}, "model": {}}}
    silent = {"cfg": {"task": None, "model": {}}}
    assert not WaveformSettings(told, "us.pt").fine_tuned and not WaveformSettings(silent, "us.pt").fine_tuned


def test_convolutions_are_read_and_not_evaluated():
    def read(text):
        return WaveformSettings({"args": {"conv_feature_layers": text}}, "them.pt").convolutions()

    default = "[(512, 10, 5)] + [(512, 3, 2)] * 4 + [(512,2,2)] + [(512,2,2)]"
    assert read(default) == [[512, 10, 5], *[[512, 3, 2]] * 4, *[[512, 2, 2]] * 2]
    for text in ("__import__('os').getcwd()", "[(1, 2", "[1, 2]", "[(1, 2, x)]"):
        refuses(DataError, "is not a list of convolutions", read, text)
    assert len(read("[(1, 1, 1)] * 999999999999")) == 100


def test_a_checkpoint_that_does_not_fit_is_refused_with_the_names(tmp_path):
    def without(content):
        del content["model"]["encoder.layers.1.fc1.bias"]
        content["model"]["extra.weight"] = torch.zeros(2)

    folder = copy(tmp_path / "data", "waveform_base", without)
    with pytest.raises(DataError, match="encoder.layers.1.inner.bias is missing; extra.weight is unexpected"):
        import_model(folder, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_weights_that_are_not_numbers_are_refused(tmp_path):
    def without_numbers(content):
        content["model"]["layer_norm.bias"].fill_(torch.nan)

    folder = copy(tmp_path / "data", "waveform_base", without_numbers)
    refuses(DataError, r"checkpoint\.pt: layer_norm\.bias holds values that are not finite", import_fairseq, folder)


def test_a_fine_tuned_encoder_needs_its_letters_and_its_language(tmp_path):
    folder = copy(tmp_path / "data", "waveform_ctc")
    refuses(DataError, "--source-languages", import_fairseq, folder)
    with (folder / "dict.ltr.txt").open("a") as file:
        file.write("Z 1\n")
    with pytest.raises(DataError, match="13 symbols with the 4 first ones, but the head 12 rows"):
        import_fairseq(folder, source_languages=["en"])
    (folder / "dict.ltr.txt").rename(tmp_path / "elsewhere.txt")
    with pytest.raises(DataError, match=r"dict\.ltr\.txt: no such dictionary; --dictionary"):
        import_fairseq(folder, source_languages=["en"])
    with pytest.raises(DataError, match="13 symbols"):
        import_fairseq(folder, source_languages=["en"], dictionary=tmp_path / "elsewhere.txt")


def test_a_checkpoint_says_how_its_model_was_trained():
    embedding = import_fairseq(FIXTURES / "waveform_ctc", source_languages=["en"])[0].model.embeddings["speech"]
    assert embedding.convolutions.gradient_scale == 0
    assert embedding.masking.probability == 0.3
    system, _ = import_fairseq(FIXTURES / "waveform_large")
    assert system.model.embeddings["speech"].normalisation.epsilon == 1e-5
    assert system.model.embeddings["speech"].masking.probability == 0.65
    assert import_fairseq(FIXTURES / "waveform_base")[0].model.embeddings["speech"].normalisation is None


# -- filterbanks to text ---------------------------------------------------------------------------------------------


def configured(folder: Path, **changes) -> Path:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | changes))
    return folder


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_channels": 2}, "config.yaml: input_channels: 2 has no counterpart"),
        ({"sample_rate": 8000}, "config.yaml: sample_rate: 8000 has no counterpart"),
        ({"use_audio_input": True}, "config.yaml: use_audio_input: True has no counterpart"),
        ({"transforms": {"*": ["delta_deltas"]}}, "config.yaml: the transforms delta_deltas have no counterpart"),
        ({"transforms": {"*": ["global_cmvn"]}}, "gcmvn.npz: no statistics"),
        ({"bpe_tokenizer": {"bpe": "bytes"}}, "config.yaml: bpe_tokenizer 'bytes' has no counterpart"),
        ({"bpe_tokenizer": {"bpe": "sentencepiece", "sentencepiece_model": "x/no.model"}}, "no.model: no such"),
        ({"pre_tokenizer": {"tokenizer": "moses"}}, "config.yaml: pre_tokenizer .*moses.* has no counterpart"),
        ({"vocab_filename": "lost.txt"}, "lost.txt: no such vocabulary"),
        ({"input_feat_per_channel": 40}, "input_feat_per_channel: 40, but the checkpoint's features are 80"),
    ],
)
def test_settings_of_features_and_texts_without_a_counterpart_are_named(tmp_path, changes, message):
    folder = configured(copy(tmp_path / "data", "s2t_utterance"), **changes)
    refuses(DataError, message, lambda: import_fairseq(folder, source_languages=["en"])[1].check())


def test_files_beside_the_checkpoint_are_needed(tmp_path):
    folder = copy(tmp_path / "data", "s2t_utterance")
    refuses(DataError, "--source-languages", import_fairseq, folder)
    with (folder / "dict.txt").open("a") as file:
        file.write("more 1\n")
    refuses(DataError, "another model's", import_fairseq, folder, source_languages=["en"])
    (folder / "config.yaml").write_text("a: [")
    refuses(DataError, "config.yaml: cannot be read as YAML", import_fairseq, folder, source_languages=["en"])
    (folder / "config.yaml").unlink()
    refuses(DataError, "config.yaml: no such file", import_fairseq, folder, source_languages=["en"])


def test_other_architectures_are_refused_by_name(tmp_path):
    folder = copy(tmp_path / "data", "s2t_utterance", lambda content: content["args"].update(arch="s2t_conformer"))
    refuses(DataError, "'s2t_conformer'", import_fairseq, folder, source_languages=["en"])


def test_a_recogniser_writes_what_it_hears_and_a_translator_what_it_is_told():
    system, _ = import_fairseq(FIXTURES / "s2t_utterance", source_languages=["en"])
    assert (system.output_name, system.output.column, system.target_languages) == ("transcript", "source_text", ["en"])
    system, _ = import_fairseq(FIXTURES / "s2t_utterance", source_languages=["en"], target_languages=["de"])
    assert (system.output_name, system.output.column, system.target_languages) == ("translation", "target_text", ["de"])
    assert isinstance(system.model.embeddings["speech"].augmentation, SpecAugment)
    system, _ = import_fairseq(FIXTURES / "s2t_tagged", source_languages=["en"])
    assert system.target_languages == ["de", "fr"]
    with pytest.raises(DataError, match="no symbol for es, only for de, fr"):
        import_fairseq(FIXTURES / "s2t_tagged", source_languages=["en"], target_languages=["es"])


def test_global_statistics_are_kept_in_the_folder(tmp_path):
    import_model(FIXTURES / "s2t_global", tmp_path / "model", source_languages=["en"], target_languages=["de"])
    norm = System.load(tmp_path / "model").model.embeddings["speech"].normalisation
    assert isinstance(norm, GlobalNorm)
    with np.load(FIXTURES / "s2t_global" / "gcmvn.npz") as statistics:
        features = np.random.default_rng(0).normal(9, 3, (1, 5, 80)).astype("f4")
        normalised = norm(Padded(torch.from_numpy(features), torch.tensor([3]))).values
        expected = (features - statistics["mean"]) / statistics["std"]
    np.testing.assert_allclose(normalised[:, :3], expected[:, :3], atol=1e-5)
    assert not normalised[:, 3:].any()


def test_broken_statistics_are_refused(tmp_path):
    folder = copy(tmp_path / "data", "s2t_global")
    np.savez(folder / "gcmvn.npz", mean=np.zeros(80), std=np.zeros(80))
    refuses(DataError, "gcmvn.npz: mean and std", import_fairseq, folder, source_languages=["en"])
    np.save(folder / "gcmvn.npz", np.array({}, dtype=object), allow_pickle=True)
    (folder / "gcmvn.npz.npy").rename(folder / "gcmvn.npz")
    refuses(DataError, "gcmvn.npz: no statistics", import_fairseq, folder, source_languages=["en"])


def test_the_shortest_sounds(tmp_path):
    system, _ = import_fairseq(FIXTURES / "waveform_ctc", source_languages=["en"])
    states = system.model.encode(Batch({"speech": Padded.from_sequences([torch.ones(1), torch.ones(600)])}))
    assert states.memories["source"].lengths.tolist() == [1, 7]
    assert states.memories["source"].values.isfinite().all()


def test_the_command_imports_and_transcribes(dragoman, tmp_path):
    sounds = sorted((FIXTURES / "audio").glob("*.wav"))
    options = ["--out", tmp_path / "model", "--source-languages", "en"]
    code, said, messages = dragoman("import", FIXTURES / "waveform_ctc", *options)
    assert code == 0, messages
    assert "0 missing, 0 unexpected, 0 reshaped" in said
    code, said, messages = dragoman("translate", tmp_path / "model", *sounds)
    assert code == 0, messages
    assert len(said.splitlines()) == len(sounds)


def test_an_imported_encoder_begins_a_translator(tmp_path):
    import_model(FIXTURES / "waveform_base", tmp_path / "encoder")
    source = ReadingModel.load(tmp_path / "encoder").model
    system, _ = import_fairseq(FIXTURES / "s2t_utterance", source_languages=["en"], target_languages=["de"])
    parts = {"embedding": fresh(source.embeddings["speech"]), "encoder": fresh(source.encoder)}
    subsampler = Conv1dSubsampler(inputs=18, width=18)
    speech = SpeechEmbedding(frontend=WaveformEncoder(**parts), subsampler=subsampler)
    arguments = system.model.arguments | {"embeddings": {"speech": speech}}
    system = System(**system.arguments | {"model": Translator(**arguments)}).eval()
    here = "model.embeddings.speech.frontend"
    parts = {f"{here}.embedding": "model.embeddings.speech", f"{here}.encoder": "model.encoder"}
    Initialise(folder=str(tmp_path / "encoder"), parts=parts).apply(system)
    batch = Padded.from_sequences([torch.randn(3000), torch.randn(2000)])
    found = system.model.embeddings["speech"].frontend(batch)
    expected = source.encode(Batch({"speech": batch})).memories["source"]
    torch.testing.assert_close(found.values, expected.values)
    system.save(tmp_path / "translator")
    noise = str(FIXTURES / "audio" / "0.wav")
    assert System.load(tmp_path / "translator").translate(noise, keep_silence=True) is not None
