"""Import of a language model that hears (Qwen2-Audio, Granite speech, Voxtral), with its prompt, as a translator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from dragoman.exchange.huggingface.hf_reading import CONFIG, Config
from dragoman.exchange.loaded import LoadReport
from dragoman.exchange.transformers_engine.encoder_decoder_import import extractor_settings
from dragoman.exchange.transformers_engine.library_features import LibraryFeatures
from dragoman.exchange.transformers_engine.library_folder import (
    LOCAL,
    check_config,
    library,
    opened,
    plain,
    quiet,
)
from dragoman.exchange.transformers_engine.lm_import import (
    by_template,
    ends_of,
    given_languages,
    library_ids,
    prompted,
    translating,
)
from dragoman.exchange.transformers_engine.prompt import TEXT, PromptedSystem
from dragoman.exchange.transformers_engine.spoken_prompt import (
    ApartHearingModel,
    HearingModel,
    SpokenPrompt,
    WindowHearingModel,
)
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.errors import DataError, UsageError, check_number, one_line
from dragoman.shared.nn.translator import SPEECH

QWEN, GRANITE, VOXTRAL = "qwen2_audio", "granite_speech", "voxtral"
MODELS = {QWEN: HearingModel, GRANITE: ApartHearingModel, VOXTRAL: WindowHearingModel}
MODEL_TYPES = (*MODELS,)
#: The tokenizer of Mistral's models, and their prompt around a sound, which a library of theirs has in place of a chat
#: template (``mistral_common.tokens.tokenizers.instruct``).
TEKKEN, INSTRUCTION = "tekken.json", ("<s>", "[INST]", "[BEGIN_AUDIO]", "[AUDIO]", "[/INST]")
#: The settings of an adapter, in a file of its own.
ADAPTER = "adapter_config.json"
#: What it is asked, behind the sound.
PROMPT = "Translate the {source_language} speech into {target_language}. Write the translation only."


def import_hearing_model(
    source: Path,
    scratch: Path,
    *,
    source_languages: list[str] | None,
    target_languages: list[str] | None,
    prompt: str,
    window: float | None = None,
) -> tuple[PromptedSystem, LoadReport]:
    """Read a folder of a language model that hears, in Hugging Face's layout.

    The chat template is rendered once, here, in the sandbox of transformers; the model folder holds what came out.

    Args:
        source: the folder; its weights are safetensors.
        scratch: a folder for the tokenizer's file, needed until the system is saved.
        source_languages: codes of what it is to translate from.
        target_languages: codes of what it is to translate into.
        prompt: what it is asked behind the sound, with ``{source_language}`` and ``{target_language}``.
        window: whole seconds that Qwen2-Audio's encoder computes, fewer than it was trained on; it hears no silence
            behind a sound, so that nothing else changes.

    Returns:
        The system, and the report of what was loaded and what was not.

    Raises:
        DataError: if something is missing, or the chat template fails.
        UsageError: without languages or the library, for a model that needs code of its own, or a tokenizer that
            divides a prompt otherwise than at its symbols.
    """
    sources, targets = given_languages(source_languages, target_languages)
    if TEXT in prompt:
        raise UsageError(f"--prompt of a model that hears has no {TEXT}: the sound comes before it, not {prompt!r}")
    config = Config(source / CONFIG).values
    check_config(config, str(source / CONFIG))
    kind = MODELS[config["model_type"]]
    loaded, info = opened(source, kind.found_by)
    merge_adapters(source, loaded, config)
    if kind is WindowHearingModel:
        theirs, sound = opened_tekken(source), INSTRUCTION[3]
        text = "".join([*INSTRUCTION[:4], prompt, *INSTRUCTION[4:]])
    else:
        with quiet():
            processor = library().AutoProcessor.from_pretrained(source, **LOCAL)
        theirs, sound = processor.tokenizer, processor.audio_token
        text = _rendered(processor, prompt, apart=kind is HearingModel)
    ends = ends_of(theirs, loaded)
    last = library_ids(theirs, text, "en", "de")[-1]
    rows = loaded.get_input_embeddings().num_embeddings
    parts, tokenizer = prompted(source, scratch, theirs, text, ends=ends, last=last, rows=rows)
    asked = SpokenPrompt(prompt=parts, tokenizer=tokenizer, sound=sound)
    for pair in (("en", "de"), ("ja", "fi")):
        ours = asked.whole({"source_language": pair[0], "target_language": pair[1]}, 1)
        wanted = library_ids(theirs, text, *pair)
        if ours != wanted or ours[-1] != last:
            raise UsageError(f"the tokenizer makes {len(wanted)} tokens of the prompt, and its parts have {len(ours)}")
    settings = extractor_settings(source)
    if window is not None:
        settings |= shortened_window(loaded, config, int(settings.get("chunk_length", 30)), window)
    features = LibraryFeatures(settings=settings)
    with torch.device("meta"):
        model = kind(config=plain(config), ends=ends, features=features, prompt=asked)
    model.lm = loaded
    return translating(source, model, info, {SPEECH: SpeechField()}, tokenizer, (sources, targets))


def shortened_window(model: Any, config: dict[str, Any], usual: int, seconds: float) -> dict[str, Any]:
    """Give the encoder of a Qwen2-Audio a shorter window; return the settings of its features that change.

    Args:
        model: whose encoder keeps its first positions.
        config: the library's, which is changed as well.
        usual: seconds of the window that it has.
        seconds: of the new one.

    Raises:
        UsageError: if the new one is no shorter, or not of whole seconds.
    """
    check_number("--window", seconds, least=1, most=usual)
    if seconds != int(seconds):
        raise UsageError(f"--window of a {QWEN} is of whole seconds, not {seconds}")
    encoder = model.model.audio_tower
    states = encoder.max_source_positions * int(seconds) // usual
    config["audio_config"] = config["audio_config"] | {"max_source_positions": states}
    encoder.max_source_positions = encoder.config.max_source_positions = states
    weight = encoder.embed_positions.weight.detach()[:states].clone()
    encoder.embed_positions = torch.nn.Embedding.from_pretrained(weight)
    return {"chunk_length": int(seconds)}


def opened_tekken(source: Path) -> Any:
    """Return the library's tokenizer of a folder of Mistral's.

    Raises:
        DataError: if there is none, or it lacks a symbol of the prompt.
        UsageError: if the library is too old for it.
    """
    if not (source / TEKKEN).is_file():
        raise DataError(f"{source}: has no {TEKKEN}")
    try:
        from transformers.integrations.mistral import convert_tekken_tokenizer
    except ImportError as error:
        raise UsageError(f"{source}: {TEKKEN} needs a newer transformers: pip install -U 'dragoman[hf]'") from error
    try:
        with quiet():
            theirs = convert_tekken_tokenizer(str(source / TEKKEN))
    except (ImportError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{source / TEKKEN}: is no such tokenizer ({one_line(error)})") from error
    special = {str(token) for token in theirs.added_tokens_decoder.values() if token.special}
    if lacking := [symbol for symbol in INSTRUCTION if symbol not in special]:
        raise DataError(f"{source / TEKKEN}: has no symbol {lacking[0]}")
    return theirs


def merge_adapters(source: Path, model: Any, config: dict[str, Any]) -> None:
    """Add low-rank adapters, which the library has put beside matrices, to these: they are on whenever sound is heard.

    Raises:
        DataError: if the settings ask for one that is not there.
        UsageError: if peft is not installed, without which the library leaves it out.
    """
    if not config.get("has_lora_adapter"):
        return
    if not (source / ADAPTER).is_file():
        raise DataError(f"{source}: has no {ADAPTER}, and its settings say has_lora_adapter")
    try:
        from peft.tuners.tuners_utils import BaseTunerLayer
    except ImportError as error:
        raise UsageError(f"{source}: its adapter needs peft: pip install 'dragoman[adapters]'") from error
    for name, part in [*model.named_modules()]:
        if isinstance(part, BaseTunerLayer):
            part.merge()
            model.set_submodule(name, part.get_base_layer())
    model._hf_peft_config_loaded = False
    model.config.has_lora_adapter = config["has_lora_adapter"] = False


def _rendered(processor: Any, prompt: str, *, apart: bool) -> str:
    """Return the sound's symbol and the prompt as the chat template shows them, ready for the answer.

    Args:
        processor: the library's.
        prompt: behind the sound.
        apart: the template is given sound and text as two parts of what is said; otherwise as a text with a symbol.

    Raises:
        DataError: for a template that is missing, fails, or shows the sound or the prompt not once.
    """
    parts = [{"type": "audio", "audio_url": "sound"}, {"type": "text", "text": prompt}]
    text = by_template(processor, parts if apart else f"{processor.audio_token}{prompt}")
    for part in (processor.audio_token, prompt):
        if text.count(part) != 1:
            raise DataError(f"the chat template shows {part!r} {text.count(part)} times: {text!r}")
    return text
