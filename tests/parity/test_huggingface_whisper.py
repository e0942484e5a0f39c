"""Imported Whisper against transformers' own: features, states, logits, gradients, and what searches make of them.

The models are small and random; the tokenizer is trained on the spot. transformers is given each sound alone, ours all
in one batch.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers

from dragoman import BeamSearch, GreedySearch, Rules, System
from dragoman.commands.detecting import Detection
from dragoman.commands.heard_language import LEAST, HeardLanguages
from dragoman.exchange.huggingface.hf_whisper import SYMBOLS, import_hf_whisper, whisper_counterparts
from dragoman.exchange.importing import import_model
from dragoman.exchange.vocabularies.json_file import JsonTokenizer
from dragoman.shared.batch import Batch
from dragoman.shared.errors import DataError, TooLongError, UsageError
from dragoman.shared.nn.positions import LearnedPositions, SinusoidalPositions
from dragoman.shared.padded import Padded
from tests.parity.speech_models import disturbed, features_of, read, same_outputs
from tests.small import refuses

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

LANGUAGES = ["en", "fr", "de", "jw", "haw"]
SPECIAL = [
    "<|endoftext|>", "<|startoftranscript|>", *(f"<|{code}|>" for code in LANGUAGES), "<|translate|>",
    "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>",
]  # fmt: skip
TIMES = ["<|0.00|>", "<|0.02|>", "<|0.04|>"]
BASE = {
    "d_model": 18, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 3,
    "decoder_attention_heads": 3, "encoder_ffn_dim": 22, "decoder_ffn_dim": 26, "init_std": 0.2,
    "max_source_positions": 100, "max_target_positions": 50,
}  # fmt: skip
#: Settings of the model; whether it has many languages; whether its table of positions is one of sinusoids.
CASES: dict[str, tuple[dict[str, Any], bool, bool]] = {
    "small": ({}, True, True),
    "full window, 128 bins": ({"max_source_positions": 1500, "num_mel_bins": 128, "encoder_layers": 3}, True, True),
    "English": ({"scale_embedding": True}, False, True),
    "positions trained": ({"d_model": 30, "activation_function": "relu"}, True, False),
    "untied": ({"tie_word_embeddings": False}, True, True),
}
NEW = 24  # tokens of an output, the end among them


def trained_tokenizer(times: list[str] = TIMES) -> tokenizers.Tokenizer:
    built = tokenizers.Tokenizer(models.BPE())
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = decoders.ByteLevel()
    words = " ".join(["alpha beta gamma delta epsilon zeta eta theta, it's 5 o'clock."] * 20)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    built.train_from_iterator([words], trainer)
    built.add_special_tokens([AddedToken(symbol, special=True, normalized=False) for symbol in SPECIAL])
    built.add_tokens([AddedToken(symbol, special=False, normalized=False) for symbol in times])
    return built


def saved(name: str, folder: Path, times: list[str] = TIMES, **more: Any) -> Any:
    settings, many, sinusoids = CASES[name]
    folder.mkdir()
    tokenizer = trained_tokenizer(times)
    tokenizer.save(str(folder / "tokenizer.json"))
    id = tokenizer.token_to_id
    end = id("<|endoftext|>")
    settings = BASE | settings | more
    config = transformers.WhisperConfig(
        vocab_size=tokenizer.get_vocab_size() + 2, pad_token_id=end, bos_token_id=end, eos_token_id=end,
        decoder_start_token_id=id("<|startoftranscript|>"), begin_suppress_tokens=None, **settings,
    )  # fmt: skip
    torch.manual_seed(1)
    model = transformers.WhisperForConditionalGeneration(config)
    table = model.model.encoder.embed_positions.weight.clone()
    disturbed(model, 4.5 / config.d_model)
    with torch.no_grad():
        if sinusoids:
            model.model.encoder.embed_positions.weight.copy_(table)
    generation = model.generation_config
    generation.is_multilingual = many
    generation.no_timestamps_token_id = id("<|notimestamps|>")
    if many:
        generation.lang_to_id = {f"<|{code}|>": id(f"<|{code}|>") for code in LANGUAGES}
        generation.task_to_id = {task: id(f"<|{task}|>") for task in ("translate", "transcribe")}
    # What searches here never write by themselves; and times, unless they are tested: generate divides the sound there,
    # even if it was told that there are none.
    never = ["<|startoflm|>", "<|startoftranscript|>", *(TIMES if times is TIMES else [])]
    generation.suppress_tokens = [id(symbol) for symbol in never]
    generation.begin_suppress_tokens = [end]
    generation.max_length = settings["max_target_positions"]
    model.save_pretrained(folder)
    sizes = {"feature_size": config.num_mel_bins, "chunk_length": config.max_source_positions // 50}
    transformers.WhisperFeatureExtractor(**sizes).save_pretrained(folder)
    return model


def tuned(theirs: Any, folder: Path, files: list[str], told: dict[str, Any]) -> None:
    """Ban what the first output begins with, and what most have in them; let some end early."""

    def written() -> list[list[int]]:
        found = [theirs.generate(features(folder, file), max_new_tokens=NEW, **told)[0].tolist() for file in files]
        start = 4 if told else 2
        return [tokens[start:] if tokens[0] == theirs.config.decoder_start_token_id else tokens for tokens in found]

    generation, end = theirs.generation_config, theirs.config.eos_token_id
    always = generation.suppress_tokens
    likely = dict.fromkeys(token for tokens in written() for token in tokens[3:])
    for late, factor in product(likely, (1.01, 0.99)):  # a score below zero rises where it shrinks
        with torch.no_grad():
            theirs.proj_out.weight[end] = factor * theirs.proj_out.weight[late]
        generation.suppress_tokens, generation.begin_suppress_tokens = always, [end]
        first = written()[0][0]
        generation.begin_suppress_tokens = sorted({first, end})
        inside = Counter(token for tokens in written() for token in tokens if token not in (first, end))
        generation.suppress_tokens = sorted([*always, inside.most_common(1)[0][0]])
        if any(len([token for token in tokens if token != end]) < NEW - 1 for tokens in written()):
            break
    theirs.save_pretrained(folder)


features = partial(features_of, transformers.WhisperFeatureExtractor)


def loaded(folder: Path) -> System:
    import_model(folder, folder.parent / "ours").check()
    return System.load(folder.parent / "ours")


@pytest.mark.parametrize("name", CASES)
def test_features_states_logits_and_gradients(name, tmp_path, files, compared):
    compared.named("transformers", f"Whisper ({name})")
    theirs = saved(name, tmp_path / "theirs")
    model = loaded(tmp_path / "theirs").model
    theirs.model.encoder.embed_positions.requires_grad_(True)
    speech = Padded.from_sequences(read(files), padding=0.5)
    for found, file in zip(model.embeddings["speech"].features(speech).rows(), files, strict=True):
        expected = features(tmp_path / "theirs", file)[0].T
        assert found.shape == expected.shape
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    same_outputs(model, theirs, files, partial(features, tmp_path / "theirs"), [301, 5, 7, 130, 4, 9], compared)
    positions = model.embeddings["speech"].positions
    assert isinstance(positions, SinusoidalPositions if CASES[name][2] else LearnedPositions)
    gradients = {parameter: tensor.grad for parameter, tensor in theirs.named_parameters()}
    keys = [parameter for parameter in gradients if parameter.endswith("k_proj.weight")]
    # Biases of keys, which they lack, change no attention, and learn nothing.
    gradients |= {key.replace("weight", "bias"): torch.zeros(len(gradients[key])) for key in keys}
    for parameter, tensor in model.named_parameters():
        whole = torch.cat([gradients[part] for part in whisper_counterparts(parameter)])
        size = whole.abs().max().clamp(min=1)
        compared.close("gradients", tensor.grad / size, whole / size, message=parameter)
    assert len(keys) == 6 + ("128" in name) and compared.largest.keys() == {"states", "logits", "gradients"}


def test_a_shorter_window_is_that_of_a_model_with_fewer_positions(tmp_path, files):
    """The first positions are the same, and features those of a window of the same length."""
    saved("full window, 128 bins", tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "short", window=4.0).check()
    path = tmp_path / "theirs" / "config.json"
    config = transformers.WhisperConfig(**json.loads(path.read_text()) | {"max_source_positions": 200})
    theirs = transformers.WhisperForConditionalGeneration(config)
    tensors = transformers.WhisperForConditionalGeneration.from_pretrained(tmp_path / "theirs").state_dict()
    place = "model.encoder.embed_positions.weight"
    theirs.load_state_dict(tensors | {place: tensors[place][:200]})
    extractor = transformers.WhisperFeatureExtractor(feature_size=128, chunk_length=4)
    model = System.load(tmp_path / "short").model.eval()
    speech = Padded.from_sequences(read(files))
    states = model.encode(Batch({"speech": speech})).memories["source"]
    assert {len(one) for one in states.rows()} == {200}
    for found, sound in zip(states.rows(), read(files), strict=True):
        values = extractor(sound.numpy(), sampling_rate=16000, return_tensors="pt").input_features
        torch.testing.assert_close(found, theirs.eval().model.encoder(values)[0][0], atol=1e-4, rtol=1e-4)


def test_a_window_that_is_no_shorter_one_is_refused(tmp_path):
    saved("small", tmp_path / "theirs")
    why = "--window must be a number at least 1 and at most 2"
    for seconds in (3.0, 0.5):
        refuses(UsageError, why, import_model, tmp_path / "theirs", tmp_path / "ours", window=seconds)
    refuses(UsageError, "--window is for Whisper and", import_model, tmp_path, tmp_path / "ours", window=5.0)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("task", ["translate", "transcribe"])
@pytest.mark.parametrize("beams", [1, 5])
def test_searches_find_what_generate_finds(name, task, beams, tmp_path, files, compared):
    many = CASES[name][1]
    if task == "translate" and not many:
        pytest.skip("it has no such task")
    compared.named("transformers", f"Whisper ({name})")
    told: dict[str, Any] = {"language": "fr", "task": task} if many else {}
    theirs = saved(name, tmp_path / "theirs")
    tuned(theirs, tmp_path / "theirs", files, told)
    system = loaded(tmp_path / "theirs")
    if many:
        system = system.for_task(writes="translation" if task == "translate" else "transcript")
    rules = Rules(maximum_length=NEW - 1, forced_free=True)
    search = GreedySearch(rules=rules) if beams == 1 else BeamSearch(beam=beams, rules=rules)
    language = "fr" if many else "en"
    found = system.hypotheses(files, search=search, source_language=language, batch_size=3, keep_silence=True)
    reader = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "theirs" / "tokenizer.json"))
    end = reader.convert_tokens_to_ids("<|endoftext|>")
    for file, ours in zip(files, found, strict=True):
        expected = theirs.generate(
            features(tmp_path / "theirs", file), num_beams=beams, max_new_tokens=NEW, forced_eos_token_id=end,
            return_dict_in_generate=True, output_scores=True, **told, **({"early_stopping": True} if beams > 1 else {}),
        )  # fmt: skip
        tokens = expected["sequences"][0].tolist()
        start = 4 if many else 2
        if tokens[0] == reader.convert_tokens_to_ids("<|startoftranscript|>"):
            tokens = tokens[start:]
        tokens = [*(token for token in tokens if token != end), end]
        compared.same("hypotheses", [ours[0].tokens], [tokens])
        if beams > 1:
            compared.close("scores", ours[0].score, expected["sequences_scores"][0])
        times = {reader.convert_tokens_to_ids(symbol) for symbol in TIMES}
        text = reader.decode([token for token in tokens if token not in times], skip_special_tokens=True)
        compared.same("texts", [ours[0].texts[system.output_name]], [text.removeprefix(" ")])
    assert beams > 1 or min(len(ours[0].tokens) for ours in found) < NEW
    given = {"search": search, "source_language": language, "keep_silence": True}
    for ban in system.bans if beams == 1 else []:  # each has its effect
        freer = System(**system.arguments | {"bans": [other for other in system.bans if other is not ban]}).eval()
        outputs = freer.hypotheses(files, **given)
        assert [ours[0].tokens for ours in outputs] != [ours[0].tokens for ours in found]


def test_what_a_system_is(tmp_path):
    saved("small", tmp_path / "theirs")
    many = loaded(tmp_path / "theirs")
    assert many.source_languages == ["en", "fr", "de", "jv"] and many.target_languages == ["en"]
    assert many.output_name == "translation" and list(many.other_outputs) == ["transcript"]
    tokenizer = many.output.tokenizer

    def symbols(system: System, language: str, source: str) -> str:
        return "".join(map(tokenizer.symbol, system.prefix([language], sources=[source]).values[0].tolist()))

    assert symbols(many, "en", "jv") == "<|startoftranscript|><|jw|><|translate|><|notimestamps|>"
    assert symbols(many, "en", "en") == "<|startoftranscript|><|en|><|transcribe|><|notimestamps|>"
    transcripts = many.for_task(writes="transcript")
    assert symbols(transcripts, "fr", "fr") == "<|startoftranscript|><|fr|><|transcribe|><|notimestamps|>"
    assert transcripts.start_symbols == 4 and transcripts.bans == many.bans
    refuses(DataError, "'<{source_language}>' needs a language", many.prefix, ["en"])
    with pytest.raises(DataError, match="has no symbol '<start in de>'"):
        many.output({"target_text": "a", "source_language": "fr", "target_language": "de"}, np.random.default_rng(0))

    system, _ = import_hf_whisper(tmp_path / "theirs", scratch=tmp_path, source_languages=["de", "fr"])
    assert system.source_languages == ["de", "fr"] and system.target_languages == ["en"]
    french = {"source_languages": ["fr"], "target_languages": ["fr"]}
    system, _ = import_hf_whisper(tmp_path / "theirs", scratch=tmp_path, **french)
    assert system.output_name == "transcript" and system.other_outputs == {} and system.target_languages == ["fr"]
    for sources, targets in ((["fr"], ["de"]), (["fr", "de"], ["fr"]), (["fr"], ["en", "fr"])):
        with pytest.raises(UsageError, match="translates into en alone, and transcribes: it cannot write"):
            import_hf_whisper(tmp_path / "theirs", scratch=tmp_path, source_languages=sources, target_languages=targets)
    with pytest.raises(UsageError, match="no symbol for es, only for en, fr, de, jv"):
        import_hf_whisper(tmp_path / "theirs", scratch=tmp_path, source_languages=["es"])

    saved("English", tmp_path / "english")
    english, _ = import_hf_whisper(tmp_path / "english", scratch=tmp_path)
    assert english.output_name == "transcript" and english.source_languages == english.target_languages == ["en"]
    assert symbols(english, "en", "en") == "<|startoftranscript|><|notimestamps|>"
    with pytest.raises(UsageError, match="transcribes English alone: it cannot write fr from en"):
        import_hf_whisper(tmp_path / "english", scratch=tmp_path, target_languages=["fr"])
    with pytest.raises(UsageError, match="no symbol for fr, only for en"):
        import_hf_whisper(tmp_path / "english", scratch=tmp_path, source_languages=["fr"])


def test_ids_and_texts_are_those_of_their_tokenizer(tmp_path):
    """From tokenizer.json and from the older files; symbols that are typed are text, and times are left out."""
    saved("small", tmp_path / "theirs")
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "theirs" / "tokenizer.json"))
    content = json.loads((tmp_path / "theirs" / "tokenizer.json").read_text())
    for old in (False, True):
        if old:
            (tmp_path / "theirs" / "vocab.json").write_text(json.dumps(content["model"]["vocab"]))
            merges = [" ".join(pair) for pair in content["model"]["merges"]]
            (tmp_path / "theirs" / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
            added = {token["content"]: token["id"] for token in content["added_tokens"]}
            (tmp_path / "theirs" / "added_tokens.json").write_text(json.dumps(added))
            (tmp_path / "theirs" / "tokenizer.json").unlink()
        tokenizer = loaded(tmp_path / "theirs").output.tokenizer
        for text in (" alpha, it's  Gamma ", "ünïcode 5 o'clock", "\n", ""):
            ids = theirs.encode(text, add_special_tokens=False)
            assert tokenizer.encode(text) == ids
            assert tokenizer.decode(ids) == text.removeprefix(" ")
        for ours, symbol in SYMBOLS.items():
            assert tokenizer.id(ours) == theirs.convert_tokens_to_ids(symbol)
        assert tokenizer.pad not in (tokenizer.eos, tokenizer.bos)
        for typed in ("<|fr|>", "<|endoftext|>", "<|0.02|>"):
            assert theirs.convert_tokens_to_ids(typed) not in tokenizer.encode(f"a {typed}")
            assert tokenizer.decode(tokenizer.encode(f"a {typed}")) == f"a {typed}"
        timed = [theirs.convert_tokens_to_ids("<|0.02|>"), *theirs.encode(" beta")]
        assert tokenizer.decode(timed) == "beta"
    added["<|0.00|>"], added["<|0.02|>"] = added["<|0.00|>"] + 1, added["<|0.00|>"]
    (tmp_path / "theirs" / "added_tokens.json").write_text(json.dumps(added | {"<|fr|>": 2}))
    refuses(DataError, r"added_tokens.json: '<\|", import_hf_whisper, tmp_path / "theirs", scratch=tmp_path)
    (tmp_path / "theirs" / "merges.txt").unlink()
    with pytest.raises(DataError, match="has neither tokenizer.json nor merges.txt, so there is no tokenizer"):
        import_hf_whisper(tmp_path / "theirs", scratch=tmp_path)


def test_longer_sound_is_refused_by_its_length(tmp_path, files):
    saved("small", tmp_path / "theirs")
    model = loaded(tmp_path / "theirs").model
    sounds = Padded.from_sequences([torch.zeros(16000), torch.zeros(32000), torch.zeros(33600)])
    batch = Batch({"speech": sounds}, ids=["one", "two", "three"])
    why = "row 'three': its 'speech' is too long .*2.10 s are more than the model's window of 2 s"
    refuses(DataError, why, model.encode, batch)
    refuses(TooLongError, r"2.10 s", lambda: model.embeddings["speech"](sounds))
    assert model.embeddings["speech"](Padded.from_sequences([torch.zeros(32000)])).values.shape[1] == 100


def test_what_does_not_fit_is_refused(tmp_path):
    theirs = saved("small", tmp_path / "one")
    folder = tmp_path / "one"

    def refused(name: str, change: dict[str, Any], message: str) -> None:
        path = folder / name
        before = path.read_text()
        path.write_text(json.dumps(json.loads(before) | change))
        refuses(DataError, message, import_model, folder, tmp_path / "out")
        path.write_text(before)

    features = "preprocessor_config.json"
    refused(features, {"hop_length": 320}, f"{features}: hop_length 320 has no counterpart")
    refused(features, {"feature_size": 128}, "feature_size 128 has no counterpart here, only 80")
    refused(features, {"chunk_length": 30}, "max_source_positions is 100, but a window of 30 s has 3000")
    refused("config.json", {"encoder_layers": 3}, "encoder.layers.2.*missing")
    refused("config.json", {"eos_token_id": 5}, "eos_token_id is 5, but the tokenizer's 295")
    refused("config.json", {"vocab_size": 5000}, "vocab_size is 5000, but no tensor")
    refused("generation_config.json", {"suppress_tokens": [400]}, r"suppress_tokens \[400\] are not ids below")
    refused("generation_config.json", {"begin_suppress_tokens": [-1]}, r"begin_suppress_tokens \[-1\] are not ids")
    refused("tokenizer.json", {"added_tokens": []}, "has no symbol")
    assert isinstance(import_model(folder, tmp_path / "out").counts, str)
    state = dict(theirs.state_dict())
    state["proj_out.weight"] = state["proj_out.weight"] + 1
    torch.save(state, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    refuses(DataError, "proj_out.weight is unexpected", import_model, folder, tmp_path / "out")


def test_symbols_of_bans_survive_trimming(tmp_path):
    from dragoman.exchange.trimming import Trimming, always

    saved("small", tmp_path / "theirs")
    system = loaded(tmp_path / "theirs")
    tokenizer = system.output.tokenizer
    assert isinstance(tokenizer, JsonTokenizer)
    kept = always(tokenizer) | {40, 200} | {*tokenizer.encode("alpha beta")}
    trimmed = Trimming({tokenizer.fingerprint: kept}, tmp_path).apply(system)
    assert isinstance(trimmed, System)

    def banned(one: System) -> list[set[str]]:
        return [{one.output.tokenizer.symbol(id) for id in ban.lists[""]} for ban in one.bans]

    left = {tokenizer.symbol(id) for id in kept}
    assert banned(trimmed) == [symbols & left for symbols in banned(system)] and all(banned(trimmed))


@pytest.mark.parametrize("task", ["translation", "transcript"])
def test_languages_are_those_that_transformers_detects(task, tmp_path, files):
    """Each file alone there; the probabilities are a softmax over the languages' symbols."""
    theirs = saved("small", tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    system = System.load(tmp_path / "ours").for_task(writes=task)
    heard = HeardLanguages(search=GreedySearch(), detection=Detection(system.source_languages), system=system)
    ids = theirs.generation_config.lang_to_id
    del ids["<|haw|>"]  # which has no code here
    assert sorted(heard.symbols.values()) == sorted(ids.values())
    for file in files:
        speech = Padded.from_sequences(read([file]))
        batch = Batch({"speech": speech}, {"source": ["en"], "target": ["en"]}, ids=["a"])
        with torch.no_grad():
            [shares] = heard.probabilities(system, batch)
            shown = features(tmp_path / "theirs", file)
            start = torch.tensor([[theirs.config.decoder_start_token_id]])
            logits = theirs(shown, decoder_input_ids=start).logits[0, 0]
            told = int(theirs.detect_language(shown)[0])
        expected = logits[[*ids.values()]].softmax(-1).tolist()
        by_symbol = {heard.symbols[code]: share for code, share in shares.items()}
        assert [by_symbol[id] for id in ids.values()] == pytest.approx(expected, abs=1e-4)
        best = max(shares, key=lambda code: shares[code])
        assert told == heard.symbols[best]
        rows = [{"id": "a", "audio": file, "start": 0.0}]
        if shares[best] >= LEAST:
            heard.translated(system, batch, rows)
            assert rows[0]["source_language"] == best
        else:
            refuses(DataError, "the language is unknown", heard.translated, system, batch, rows)
