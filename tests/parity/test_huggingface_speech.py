"""Imported speech models against transformers' own: states, logits, gradients, and what beam search makes of them.

transformers is given each waveform alone, because its own padding changes results; ours are given all in one batch.
"""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch

from dragoman import BeamSearch, DataError, Rules, System
from dragoman.exchange.huggingface.hf_speech2text import import_hf_speech
from dragoman.exchange.huggingface.hf_wav2vec2 import PARTS, import_hf_waveform, letters_of, names_of
from dragoman.exchange.wav2vec2_model import counterparts
from dragoman.shared.batch import Batch
from dragoman.shared.padded import Padded
from dragoman.shared.systems.encoder_system import EncoderSystem
from dragoman.shared.systems.reading_model import ReadingModel
from tests.parity.speech_models import LETTERS, check_gradients, disturbed, features_of, read, same_outputs, weighted
from tests.small import refuses

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

BASE = {
    "hidden_size": 18, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 22,
    "conv_dim": (14, 10, 10, 7), "conv_kernel": (10, 3, 3, 2), "conv_stride": (5, 2, 2, 2),
    "num_conv_pos_embeddings": 6, "num_conv_pos_embedding_groups": 3, "vocab_size": len(LETTERS),
    "mask_time_prob": 0.2,
}  # fmt: skip
CODES = {"codevector_dim": 6, "proj_codevector_dim": 5, "num_codevectors_per_group": 4}
LARGE = BASE | {"feat_extract_norm": "layer", "do_stable_layer_norm": True, "conv_bias": True}
ODD = LARGE | {"hidden_size": 15, "num_conv_pos_embeddings": 5, "layer_norm_eps": 1e-3, "mask_time_prob": 0.0}
WAVEFORM: dict[str, tuple[str, dict[str, Any], bool]] = {
    "base_model": ("Wav2Vec2Model", BASE, False),
    "base_pretraining": ("Wav2Vec2ForPreTraining", BASE | CODES, True),
    "base_ctc": ("Wav2Vec2ForCTC", BASE, False),
    "large_model": ("Wav2Vec2Model", LARGE, True),
    "large_pretraining": ("Wav2Vec2ForPreTraining", LARGE | CODES, True),
    "odd_ctc": ("Wav2Vec2ForCTC", ODD | {"hidden_act": "relu"}, True),
    "unprojected": ("Wav2Vec2Model", BASE | {"conv_dim": (14, 10, 10, 18)}, False),
    "hubert_base_model": ("HubertModel", BASE, True),
    "hubert_large_ctc": ("HubertForCTC", LARGE, True),
}


# -- encoders of waveforms --------------------------------------------------------------------------------------------


def saved_waveform_model(name: str, folder: Path, pickled: bool = False) -> Any:
    kind, settings, normalised = WAVEFORM[name]
    torch.manual_seed(1)
    architecture = getattr(transformers, kind)
    model = architecture(architecture.config_class(**settings))
    disturbed(model, 0.15)
    model.save_pretrained(folder)
    transformers.Wav2Vec2FeatureExtractor(do_normalize=normalised).save_pretrained(folder)
    if kind.endswith("ForCTC"):
        (folder / "vocab.json").write_text(json.dumps({letter: i for i, letter in enumerate(LETTERS)}))
        transformers.Wav2Vec2CTCTokenizer(folder / "vocab.json").save_pretrained(folder)
    if pickled:  # and with the names of torch before 2.1
        state = model.state_dict()
        for number, old in enumerate("gv"):
            new = f"parametrizations.weight.original{number}"
            state = {name.replace(new, f"weight_{old}"): tensor for name, tensor in state.items()}
        torch.save(state, folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    return model


@pytest.mark.parametrize("name", WAVEFORM)
def test_states_logits_and_gradients_of_waveform_models(name, tmp_path, files, compared):
    family = "HuBERT" if name.startswith("hubert") else "wav2vec 2.0"
    compared.named("transformers", f"{family} ({name.removeprefix('hubert_').replace('_', ' ')})")
    theirs = saved_waveform_model(name, tmp_path / "theirs")
    system, report = import_hf_waveform(tmp_path / "theirs", source_languages=["en"])
    report.check()
    assert report.elsewhere == []
    assert ("contrastive" in system.model.heads) == ("pretraining" in name)
    system.save(tmp_path / "ours")
    system = ReadingModel.load(tmp_path / "ours")
    model, normalised = system.model, WAVEFORM[name][2]
    encoding = model.encode(Batch({"speech": Padded.from_sequences(read(files), padding=0.5)}))
    found = encoding.memories["source"]
    if "ctc" in name:
        found = found.map(model.heads["ctc"])
    extractor = transformers.Wav2Vec2FeatureExtractor.from_pretrained(tmp_path / "theirs")
    total: Any = 0
    for waveform, ours in zip(read(files), found.rows(), strict=True):
        given = extractor(waveform.numpy(), sampling_rate=16000, return_tensors="pt").input_values
        assert normalised == (abs(float(given.mean())) < 1e-5)
        bare = theirs.wav2vec2 if "pretraining" in name else theirs  # whose own output is the loss
        expected = (bare(given).logits if "ctc" in name else bare(given).last_hidden_state)[0]
        compared.close("logits" if "ctc" in name else "states", ours, expected)
        total = total + weighted(expected)
    total.backward()
    sum(weighted(ours) for ours in found.rows()).backward()
    prefix = "" if WAVEFORM[name][0].endswith("Model") else f"{theirs.base_model_prefix}."

    class Plan:
        convolutions = WAVEFORM[name][1]["conv_dim"]

    def names(ours: str) -> list[str]:
        parts = counterparts(ours, names_of(Plan), PARTS)
        outside = ("lm_head", "quantizer", "project_")
        return [part if part.startswith(outside) else prefix + part for part in parts]

    check_gradients(model, theirs, names, compared)


def test_old_pickles_with_old_names(tmp_path, files):
    saved_waveform_model("large_model", tmp_path / "new")
    saved_waveform_model("large_model", tmp_path / "old", pickled=True)
    models = []
    for name in ("new", "old"):
        system, report = import_hf_waveform(tmp_path / name)
        report.check()
        assert isinstance(system, EncoderSystem)
        models.append(system.model.state_dict())
    assert models[0].keys() == models[1].keys()
    for name, tensor in models[0].items():
        torch.testing.assert_close(tensor, models[1][name], atol=0, rtol=0)


def test_transcripts_are_those_of_the_processor(tmp_path, files):
    from dragoman.shared.search.ctc_greedy import CtcGreedySearch

    theirs = saved_waveform_model("base_ctc", tmp_path / "theirs")
    system, _ = import_hf_waveform(tmp_path / "theirs", source_languages=["en"])
    system.save(tmp_path / "ours")
    processor = transformers.Wav2Vec2Processor.from_pretrained(tmp_path / "theirs")
    expected = []
    for waveform in read(files):
        given = processor(waveform.numpy(), sampling_rate=16000, return_tensors="pt").input_values
        [text] = processor.batch_decode(theirs(given).logits.argmax(-1), skip_special_tokens=False)
        expected.append(re.sub("<s>|</s>|<unk>", "", text).strip())  # skipped earlier, blanks would not part letters
    found = System.load(tmp_path / "ours").hypotheses(files, search=CtcGreedySearch(), keep_silence=True)
    assert [hypotheses[0].texts["transcript"] for hypotheses in found] == expected
    assert any(expected)


def test_letters_are_numbered_as_by_the_processors_tokenizer(tmp_path):
    (tmp_path / "vocab.json").write_text(json.dumps({"[PAD]": 6, "[UNK]": 5, "|": 4, "a": 0, "é": 1, "'": 2, "b": 3}))
    theirs = transformers.Wav2Vec2CTCTokenizer(tmp_path / "vocab.json", pad_token="[PAD]", unk_token="[UNK]")
    theirs.save_pretrained(tmp_path)
    ours = letters_of(tmp_path, len(theirs))
    for text in ("ab a'b é", "b", " a  b ", "axb"):
        assert ours.encode(text) == theirs(" ".join(text.split())).input_ids
        assert ours.decode(ours.encode(text)) == " ".join(text.split()).replace("x", "")
    assert ours.blank == 6


# -- Speech2Text ------------------------------------------------------------------------------------------------------

SPEECH = {
    "d_model": 18, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 3,
    "decoder_attention_heads": 3, "encoder_ffn_dim": 22, "decoder_ffn_dim": 26, "conv_channels": 14, "init_std": 0.2,
    "max_length": 60,
}  # fmt: skip
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "small": ({}, {}, {}),
    "larger": ({"d_model": 60, "encoder_layers": 3, "scale_embedding": False, "activation_function": "gelu"}, {}, {}),
    "odd": ({"d_model": 33, "conv_kernel_sizes": (3, 5, 3), "num_conv_layers": 3}, {"normalize_vars": False}, {}),
    "untied": ({"tie_word_embeddings": False, "input_feat_per_channel": 40}, {"num_mel_bins": 40}, {}),
    "upper": ({}, {"do_ceptral_normalize": False}, {"do_upper_case": True, "do_lower_case": True}),
    "many": ({}, {}, {"lang_codes": "mustc", "tgt_lang": "fr"}),
}


def saved_speech_model(name: str, folder: Path) -> Any:
    settings, features, texts = CASES[name]
    folder.mkdir()
    languages = ["pt", "fr", "ru", "nl", "ro", "it", "es", "de"] if "lang_codes" in texts else []
    tags = [f"<lang:{code}>" for code in languages]
    rng = np.random.default_rng(2)
    words = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda omicron rho sigma tau".split()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(" ".join(rng.choice(words, 6)) for _ in range(300)), vocab_size=38 + len(tags),
        model_prefix=str(folder / "sentencepiece.bpe"), bos_id=0, pad_id=1, eos_id=2, unk_id=3, num_threads=1,
        user_defined_symbols=tags, minloglevel=2,
    )  # fmt: skip
    pieces = sentencepiece.SentencePieceProcessor(str(folder / "sentencepiece.bpe.model"))
    rows = {pieces.id_to_piece(i): i for i in range(len(pieces))}
    (folder / "vocab.json").write_text(json.dumps(rows))
    paths = str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model")
    transformers.Speech2TextTokenizer(*paths, **texts).save_pretrained(folder)
    bins = features.get("num_mel_bins", 80)
    transformers.Speech2TextFeatureExtractor(feature_size=bins, **features).save_pretrained(folder)
    torch.manual_seed(1)
    config = transformers.Speech2TextConfig(vocab_size=len(rows), **(SPEECH | settings))
    model = disturbed(transformers.Speech2TextForConditionalGeneration(config), 4.5 / config.d_model)
    with torch.no_grad():
        model.lm_head.weight[2] *= 3  # so that outputs end
    model.save_pretrained(folder)
    return model


def loaded_speech_model(folder: Path, name: str) -> System:
    system, report = import_hf_speech(folder, source_languages=["en"])
    report.check()
    assert system.output_name == ("translation" if name == "many" else "transcript")
    system.save(folder.parent / "ours")
    return System.load(folder.parent / "ours")


@pytest.mark.parametrize("name", CASES)
def test_states_logits_and_gradients_of_speech2text(name, tmp_path, files, compared):
    from dragoman.exchange.huggingface.hf_speech2text import _counterparts

    compared.named("transformers", f"Speech2Text ({name})")
    theirs = saved_speech_model(name, tmp_path / "theirs")
    model = loaded_speech_model(tmp_path / "theirs", name).model
    features = partial(features_of, transformers.Speech2TextFeatureExtractor, tmp_path / "theirs")
    same_outputs(model, theirs, files, features, [2, 5, 7, 30, 4, 9], compared)
    check_gradients(model, theirs, _counterparts, compared)
    assert compared.largest.keys() == {"states", "logits", "gradients"}


@pytest.mark.parametrize("name", CASES)
def test_beam_search_finds_what_generate_finds(name, tmp_path, files, compared):
    """Compares the best of five: generate replaces worse ones of those that it has finished, fairseq never does."""
    compared.named("transformers", f"Speech2Text ({name})")
    theirs = saved_speech_model(name, tmp_path / "theirs")
    system = loaded_speech_model(tmp_path / "theirs", name)
    tokenizer = transformers.Speech2TextTokenizer.from_pretrained(tmp_path / "theirs")
    forced = {"forced_bos_token_id": tokenizer.lang_code_to_id["de"]} if name == "many" else {}
    limit = 40
    search = BeamSearch(beam=5, rules=Rules(maximum_length=limit - 2, minimum_length=0, forced_free=True))
    language = "de" if name == "many" else None
    found = system.hypotheses(files, search=search, target_language=language, batch_size=3, keep_silence=True)
    for file, ours in zip(files, found, strict=True):
        expected = theirs.generate(
            features_of(transformers.Speech2TextFeatureExtractor, tmp_path / "theirs", file), **forced,
            num_beams=5, early_stopping=True, max_length=limit, forced_eos_token_id=2, suppress_tokens=[1],
            output_scores=True, return_dict_in_generate=True,
        )  # fmt: skip
        best = [token for token in expected.sequences[0, 1:].tolist() if token != 1]
        compared.same("hypotheses", [ours[0].tokens], [best])
        compared.close("scores", ours[0].score, expected.sequences_scores[0])
        texts = tokenizer.batch_decode(expected.sequences[:1], skip_special_tokens=True)
        compared.same("texts", [ours[0].texts[system.output_name].strip()], texts)
    assert compared.equal == {"hypotheses": len(files), "texts": len(files)}


def test_what_does_not_fit_is_refused(tmp_path, files):
    saved_waveform_model("base_ctc", tmp_path / "one")
    config = json.loads((tmp_path / "one" / "config.json").read_text())
    for change, message in (
        ({"num_hidden_layers": 3}, "encoder.layers.2.*missing"),
        ({"intermediate_size": 23}, r"\(22, 18\) instead of \(23, 18\)"),
        ({"num_attention_heads": 4}, "config.json: hidden_size 18 cannot be divided by num_attention_heads 4"),
        ({"add_adapter": True}, "config.json: add_adapter True has no counterpart"),
        ({"model_type": "hubert", "feat_proj_layer_norm": False}, "feat_proj_layer_norm False has no counterpart"),
        ({"conv_stride": [5, 2, 2]}, "different lengths"),
    ):
        (tmp_path / "one" / "config.json").write_text(json.dumps(config | change))
        refuses(DataError, message, lambda: import_hf_waveform(tmp_path / "one", source_languages=["en"])[1].check())
    (tmp_path / "one" / "config.json").write_text(json.dumps(config))
    refuses(DataError, "--source-languages", import_hf_waveform, tmp_path / "one")
    letters = {letter: i for i, letter in enumerate("abcdefghijklmnopq")}
    (tmp_path / "one" / "vocab.json").write_text(json.dumps(letters))
    with pytest.raises(DataError, match="17 symbols, but the head 12 rows"):
        import_hf_waveform(tmp_path / "one", source_languages=["en"])
    (tmp_path / "one" / "preprocessor_config.json").write_text(json.dumps({"sampling_rate": 8000}))
    with pytest.raises(DataError, match=r"preprocessor_config.json: sampling_rate 8000 has no counterpart here"):
        import_hf_waveform(tmp_path / "one", source_languages=["en"])
    (tmp_path / "one" / "preprocessor_config.json").write_text(json.dumps({"sampling_rate": [1] * 100_000}))
    with pytest.raises(DataError, match=r"sampling_rate \[1, 1, .*\] has no counterpart here") as refused:
        import_hf_waveform(tmp_path / "one", source_languages=["en"])
    assert len(str(refused.value)) < 400
