"""Language models of transformers that hear (Qwen2-Audio, Granite speech, Voxtral): prompts and outputs are theirs.

At the longest length the library is told to force the end symbol, as our rules do; neither lets it cost anything.
"""

import base64
import io
import json

import numpy as np
import pytest
import soundfile
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from dragoman import DataError, UsageError
from dragoman.exchange.importing import import_model
from dragoman.exchange.transformers_engine.spoken_prompt_import import PROMPT
from dragoman.shared.batch import Batch
from dragoman.shared.batches.loader import collate
from dragoman.shared.batches.stream import Budget
from dragoman.shared.evaluation.rescoring import score_rows
from dragoman.shared.search import BeamSearch, GreedySearch, Rules
from dragoman.shared.systems.system import System
from dragoman.simultaneous.listening import Listener
from dragoman.simultaneous.policies import Hold
from tests import small
from tests.parity.library_models import SENTENCES, louder, noise, told
from tests.small import refuses

transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
pytestmark = pytest.mark.parity

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>", "<|audio_bos|>", "<|AUDIO|>", "<|audio_eos|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{% for part in message.content %}"
    "{% if part.type == 'audio' %}Audio 1: <|audio_bos|><|AUDIO|><|audio_eos|>\n{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
#: A template that knows texts only.
PLAIN = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
#: Seconds of a window, which make the encoder quick.
WINDOW = 4
LIMIT = 12
RULES = Rules(maximum_length_extra=LIMIT, minimum_length=0, forced_free=True)


def spoken_tokenizer():
    """Train a tokenizer of bytes with the symbols of a chat and of a sound."""
    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, initial_alphabet=alphabet)
    tokenizer.train_from_iterator([*SENTENCES, PROMPT] * 5, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|pad|>", extra_special_tokens=SPECIAL[4:]
    )


def language_model(kind, rows):
    text = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    text |= {"num_key_value_heads": 2, "vocab_size": rows, "eos_token_id": 2, "pad_token_id": 3}
    return text | {"model_type": kind, "bos_token_id": 0, "max_position_embeddings": 512}


def qwen(folder, template=TEMPLATE):
    """Write a tiny Qwen2-Audio with its processor, as the library does."""
    fast = spoken_tokenizer()
    extractor = transformers.WhisperFeatureExtractor(feature_size=16, chunk_length=WINDOW)
    transformers.Qwen2AudioProcessor(extractor, fast, chat_template=template).save_pretrained(folder)
    audio = {"d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 64}
    audio |= {"num_mel_bins": 16, "max_source_positions": 50 * WINDOW, "model_type": "qwen2_audio_encoder"}
    text = language_model("qwen2", len(fast) + 5)
    torch.manual_seed(7)
    config = transformers.Qwen2AudioConfig(audio_config=audio, text_config=text, audio_token_index=5)
    saved(transformers.Qwen2AudioForConditionalGeneration(config), folder)
    return folder


def granite(folder, template=PLAIN):
    """Write a tiny Granite speech with an adapter beside its language model, as the library does."""
    fast = spoken_tokenizer()
    processor = transformers.GraniteSpeechProcessor(
        transformers.GraniteSpeechFeatureExtractor(), fast, audio_token="<|AUDIO|>", chat_template=template
    )
    processor.save_pretrained(folder)
    encoder = {"hidden_dim": 32, "num_layers": 2, "num_heads": 4, "context_size": 20, "max_pos_emb": 32}
    encoder |= {"model_type": "granite_speech_encoder"}
    projector = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
    projector |= {"encoder_hidden_size": 32, "model_type": "blip_2_qformer", "cross_attention_frequency": 1}
    text = language_model("granite", len(fast) + 5)
    torch.manual_seed(7)
    config = transformers.GraniteSpeechConfig(
        text_config=text, encoder_config=encoder, projector_config=projector, audio_token_index=5
    )
    model = transformers.GraniteSpeechForConditionalGeneration(config)
    saved(model, folder)
    model.add_adapter(peft.LoraConfig(r=4, target_modules=".*language_model.*(q_proj|v_proj)"))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.4)
    transformers.PreTrainedModel.save_pretrained(model, str(folder))  # the adapter alone
    return folder


def saved(model, folder):
    """Write a model whose outputs differ."""
    louder(model, 2, 2.5)
    model.generation_config.eos_token_id = 2
    model.eval().save_pretrained(str(folder))


def voxtral(folder):
    """Write a tiny Voxtral with Mistral's tokenizer, as it is published: the library knows windows of 30 s alone."""
    pieces = [bytes([byte]) for byte in range(256)]
    pieces += [piece.encode() for piece in ("th", "he", "the", " t", " th", " the", "an", "in", "at", "er", "lat")]
    names = (
        "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] "
        "[TOOL_CALLS] [IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] "
        "[TOOL_CONTENT] <SPECIAL_20> [ARGS] [CALL_ID] <SPECIAL_23> [AUDIO] [BEGIN_AUDIO] [TRANSCRIBE]"
    ).split()
    audio = {"sampling_rate": 16000, "frame_rate": 12.5, "chunk_length_s": 30.0}
    audio["audio_encoding_config"] = {"num_mel_bins": 16, "hop_length": 160, "window_size": 400}
    rows = len(pieces) + len(names)
    sizes = {"num_vocab_tokens": len(pieces), "default_vocab_size": rows, "default_num_special_tokens": len(names)}
    content = {
        "config": {"pattern": r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+", "version": "v11", **sizes},
        "vocab": [
            {"rank": rank, "token_bytes": base64.b64encode(piece).decode(), "token_str": None}
            for rank, piece in enumerate(pieces)
        ],
        "special_tokens": [{"rank": rank, "token_str": name, "is_control": True} for rank, name in enumerate(names)],
        "audio": audio,
    }
    (folder / "tekken.json").write_text(json.dumps(content))
    transformers.WhisperFeatureExtractor(feature_size=16).save_pretrained(folder)
    encoder = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    encoder |= {"num_mel_bins": 16, "model_type": "voxtral_encoder"}
    text = language_model("llama", rows + 5) | {"pad_token_id": 11, "max_position_embeddings": 1024, "head_dim": 8}
    torch.manual_seed(7)
    config = transformers.VoxtralConfig(audio_config=encoder, text_config=text, audio_token_id=24)
    saved(transformers.VoxtralForConditionalGeneration(config), folder)
    return folder


class MistralReader:
    """Inputs for a sound and a text: ids by mistral-common, and features by transformers."""

    def __init__(self, folder):
        from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

        self.mistral = MistralTokenizer.from_file(str(folder / "tekken.json"))
        self.extractor = transformers.WhisperFeatureExtractor.from_pretrained(folder)

    def asked(self, sound, text):
        from mistral_common.protocol.instruct.request import ChatCompletionRequest

        file = io.BytesIO()
        soundfile.write(file, sound, 16000, subtype="FLOAT", format="WAV")
        heard = {"data": base64.b64encode(file.getvalue()).decode(), "format": "wav"}
        content = [{"type": "input_audio", "input_audio": heard}, {"type": "text", "text": text}]
        request = ChatCompletionRequest.from_openai([{"role": "user", "content": content}])
        made = self.mistral.encode_chat_completion(request)
        how = {"padding": True, "truncation": False, "pad_to_multiple_of": 480000, "return_tensors": "pt"}
        features = self.extractor(made.audios[0].audio_array, sampling_rate=16000, **how).input_features
        ids = torch.tensor([made.tokens])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "input_features": features}

    def tokenizer(self, text, add_special_tokens):
        return {"input_ids": self.mistral.instruct_tokenizer.tokenizer.encode(text, bos=False, eos=False)}


KINDS = {"qwen": qwen, "granite": granite, "voxtral": voxtral}


@pytest.fixture(scope="module", params=KINDS)
def imported(request, tmp_path_factory):
    """The library's processor and model, and the same as a model folder's system."""
    if request.param == "voxtral":
        pytest.importorskip("mistral_common")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    folder = KINDS[request.param](tmp_path_factory.mktemp("theirs"))
    out = tmp_path_factory.mktemp("out") / "model"
    report = imported_from(folder, out)
    assert not report.missing and not report.unexpected and not report.reshaped
    theirs = transformers.AutoModelForMultimodalLM.from_pretrained(folder).eval()
    read = MistralReader if request.param == "voxtral" else transformers.AutoProcessor.from_pretrained
    return read(folder), theirs, System.load(out)


def imported_from(folder, out, **options):
    languages = {"source_languages": ["en"], "target_languages": ["de", "fr"]}
    return import_model(folder, out, engine="transformers", **languages, **options)


def asked(processor, sound):
    named = PROMPT.replace("{source_language}", "English").replace("{target_language}", "German")
    if isinstance(processor, MistralReader):
        return processor.asked(sound, named)
    content = [{"type": "audio", "audio_url": "x"}, {"type": "text", "text": named}]
    if isinstance(processor, transformers.GraniteSpeechProcessor):
        content = f"<|AUDIO|>{named}"
    said = [{"role": "user", "content": content}]
    text = processor.apply_chat_template(said, add_generation_prompt=True, tokenize=False)
    if isinstance(processor, transformers.GraniteSpeechProcessor):
        return processor(text=text, audio=torch.from_numpy(sound), return_tensors="pt")
    return processor(text=text, audio=sound, sampling_rate=16000, return_tensors="pt")


def found(system, items, search):
    common = {"source_language": "en", "target_language": "de", "keep_silence": True, "sample_rate": 16000}
    return system.hypotheses(items, search=search, **common)


def rows_of(folder):
    """Rows of a manifest with a given output each."""
    for number, (sound, output) in enumerate(zip(noise(), ["ein Hund", "yes", "the cat", "Guten"], strict=True)):
        soundfile.write(folder / f"{number}.wav", sound, 16000, subtype="FLOAT")
        row = {"id": str(number), "audio": str(folder / f"{number}.wav"), "start": 0.0, "duration": len(sound) / 16000}
        yield row | {"source_language": "en", "target_language": "de", "target_text": output}


def test_prompts_have_the_ids_of_the_processor(imported, tmp_path):
    processor, _, system = imported
    rows = [*rows_of(tmp_path)]
    batch = collate(rows, system.input_fields, np.random.default_rng(1))
    prompts = system.model.encode(batch).memories["source"].rows()
    for sound, prompt in zip(noise(), prompts, strict=True):
        assert [*prompt.tolist(), system.output.prefix_ids("de")[0]] == asked(processor, sound)["input_ids"][0].tolist()


def cached(state):
    """The bytes of the library's keys and values."""
    return sum(layer.keys.nbytes + layer.values.nbytes for layer in state.cache.layers)


@torch.no_grad()
def test_the_bytes_of_prompts_are_those_that_the_library_keeps(imported, tmp_path):
    _, _, system = imported
    batch = collate([*rows_of(tmp_path)], system.input_fields, np.random.default_rng(1))
    state = system.model.start(system.model.encode(batch), None).fork(3)
    assert cached(state) == system.model.read_bytes(batch, 3)
    _, longer = system.model.step(torch.full((12,), 5), state)
    assert cached(longer) == system.model.read_bytes(batch, 3) + 12 * system.model.state_bytes(1)


@pytest.mark.parametrize("beam", [1, 3])
def test_outputs_are_those_of_generate(imported, beam):
    processor, theirs, system = imported
    search = GreedySearch(rules=RULES) if beam == 1 else BeamSearch(beam=beam, rules=RULES)
    outputs = found(system, noise(), search)
    options = {"num_beams": beam, "early_stopping": True} if beam > 1 else {}
    for sound, [best] in zip(noise(), outputs, strict=True):
        prompt = asked(processor, sound)
        with torch.no_grad():
            made = theirs.generate(
                **prompt,
                **options,
                do_sample=False,
                max_new_tokens=LIMIT + 1,
                forced_eos_token_id=2,
                return_dict_in_generate=True,
                output_scores=True,
            )
        new, score = told(made, prompt["input_ids"].shape[1], 2, beam)
        assert best.tokens == new and best.score == pytest.approx(score, abs=2e-4)
    assert len({tuple(best.tokens) for [best] in outputs}) >= 2


def test_a_batch_changes_nothing(imported):
    _, _, system = imported
    search = BeamSearch(beam=2, rules=RULES)
    for sound, [best] in zip(noise(), found(system, noise(), search), strict=True):
        [[alone]] = found(system, [sound], search)
        assert alone.tokens == best.tokens and alone.score == pytest.approx(best.score, abs=1e-4)


@torch.no_grad()
def test_given_outputs_are_scored_as_the_library_scores_them(imported, tmp_path):
    processor, theirs, system = imported
    rows = [*rows_of(tmp_path)]
    for number, total, tokens in score_rows(system, rows, budget=Budget(rows=4), autocast=system.autocast):
        prompt = {**asked(processor, noise()[number])}
        given = [*processor.tokenizer(rows[number]["target_text"], add_special_tokens=False)["input_ids"], 2]
        start = prompt["input_ids"].shape[1]
        prompt["input_ids"] = torch.cat([prompt["input_ids"], torch.tensor([given])], dim=1)
        prompt["attention_mask"] = torch.ones_like(prompt["input_ids"])
        scores = theirs(**prompt).logits[0].log_softmax(-1)
        sums = sum(float(scores[start + place - 1, token]) for place, token in enumerate(given))
        assert tokens == len(given) and total == pytest.approx(sums, rel=1e-4)


def test_a_listener_ends_with_the_output_of_all_that_was_heard(imported):
    _, _, system = imported
    search = BeamSearch(beam=2, rules=RULES)
    listener = Listener(system, Hold(tokens=100), search=search, source_language="en", target_language="de")
    for number, chunk in enumerate(torch.from_numpy(noise()[2]).split(11000)):
        listener.hear(chunk, last=number == 2)
    [[whole]] = found(system, noise()[2:3], search)
    assert listener.written == [token for token in whole.tokens if token != system.output.tokenizer.eos]


def test_a_shorter_window_changes_no_output(tmp_path):
    """Qwen2-Audio hears no silence behind a sound; the library computes windows of 4 s."""
    folder, sounds = qwen(tmp_path), [sound for sound in noise() if len(sound) <= 2 * 16000]
    imported_from(folder, tmp_path / "short", window=2)
    system = System.load(tmp_path / "short")
    assert len(system.model.lm.model.audio_tower.embed_positions.weight) == 100 and len(sounds) == 3
    processor = transformers.AutoProcessor.from_pretrained(folder)
    theirs = transformers.AutoModelForMultimodalLM.from_pretrained(folder).eval()
    how = {"do_sample": False, "max_new_tokens": LIMIT + 1, "forced_eos_token_id": 2}
    how |= {"return_dict_in_generate": True, "output_scores": True}
    for sound, [best] in zip(sounds, found(system, sounds, GreedySearch(rules=RULES)), strict=True):
        prompt = asked(processor, sound)
        with torch.no_grad():
            new, score = told(theirs.generate(**prompt, **how), prompt["input_ids"].shape[1], 2, 1)
        assert best.tokens == new and best.score == pytest.approx(score, abs=2e-4)
    why = "--window must be a number at least 1 and at most 4"
    refuses(UsageError, why, imported_from, folder, tmp_path / "out", window=5)
    refuses(UsageError, "is of whole seconds, not 1.5", imported_from, folder, tmp_path / "out", window=1.5)
    (tmp_path / "granite").mkdir()
    other = granite(tmp_path / "granite")
    refuses(UsageError, "a granite_speech has no other", imported_from, other, tmp_path / "out", window=2)


def test_bad_input_is_named(imported, tmp_path):
    processor, _, system = imported
    if isinstance(processor, transformers.GraniteSpeechProcessor):
        folder = granite(tmp_path / "theirs")
        (folder / "adapter_config.json").unlink()
        refuses(DataError, "has no adapter_config.json", imported_from, folder, tmp_path / "out")
        return
    if isinstance(processor, MistralReader):
        long = Batch({"speech": small.padded([torch.zeros(16000 * 31)])})
        refuses(DataError, "31.00 s are more than the 30 s of a window", system.model.encode, long)
        folder = voxtral(tmp_path)
        content = json.loads((folder / "tekken.json").read_text())
        content["special_tokens"][25]["token_str"] = "[SOUND]"
        for wrong, why in ((json.dumps(content), "has no symbol \\[BEGIN_AUDIO\\]"), ("{}", "is no such tokenizer")):
            (folder / "tekken.json").write_text(wrong)
            refuses(DataError, f"tekken.json: {why}", imported_from, folder, tmp_path / "out")
        (folder / "tekken.json").unlink()
        refuses(DataError, "has no tekken.json", imported_from, folder, tmp_path / "out")
        return
    long = np.zeros(16000 * 5, dtype=np.float32)
    refuses(DataError, "5.00 s are more than the 4 s of a window", found, system, [long], GreedySearch(rules=RULES))

    def refused(match, error=DataError, prompt=None, **options):
        folder = qwen(tmp_path / str(len([*tmp_path.iterdir()])), **options)
        refuses(error, match, imported_from, folder, tmp_path / "out", prompt=prompt)
        return folder

    refused("has no {text}", UsageError, prompt="Translate: {text}")
    folder = refused("shows '<|AUDIO|>' 0 times", template="{{ messages[0].content[1].text }}")
    refuses(UsageError, "give --source-languages", import_model, folder, tmp_path / "out", engine="transformers")
