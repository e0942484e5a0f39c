"""Import of a language model that hears (Qwen2-Audio), with its chat template, as a translator of speech."""

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
    report_of,
)
from dragoman.exchange.transformers_engine.lm_import import START, ends_of, prompted
from dragoman.exchange.transformers_engine.prompt import TEXT, PromptedSystem, with_languages
from dragoman.exchange.transformers_engine.spoken_prompt import HearingModel, SpokenPrompt
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.errors import DataError, UsageError, one_line
from dragoman.shared.nn.translator import SPEECH
from dragoman.shared.text import languages

MODEL_TYPES = ("qwen2_audio",)
#: What it is asked, behind the sound.
PROMPT = "Translate the {source_language} speech into {target_language}. Write the translation only."


def import_hearing_model(
    source: Path,
    scratch: Path,
    *,
    source_languages: list[str] | None,
    target_languages: list[str] | None,
    prompt: str,
) -> tuple[PromptedSystem, LoadReport]:
    """Read a folder of a language model that hears, in Hugging Face's layout.

    The chat template is rendered once, here, in the sandbox of transformers; the model folder holds what came out.

    Args:
        source: the folder; its weights are safetensors.
        scratch: a folder for the tokenizer's file, needed until the system is saved.
        source_languages: codes of what it is to translate from.
        target_languages: codes of what it is to translate into.
        prompt: what it is asked behind the sound, with ``{source_language}`` and ``{target_language}``.

    Returns:
        The system, and the report of what was loaded and what was not.

    Raises:
        DataError: if something is missing, or the chat template fails.
        UsageError: without languages or the library, for a model that needs code of its own, or a tokenizer that
            divides a prompt otherwise than at its symbols.
    """
    if not source_languages or not target_languages:
        raise UsageError(
            "a language model does not say what it translates: give --source-languages, --target-languages"
        )
    for code in (*source_languages, *target_languages):
        languages.check(code)
    if TEXT in prompt:
        raise UsageError(f"--prompt of a model that hears has no {TEXT}: the sound comes before it, not {prompt!r}")
    config = Config(source / CONFIG).values
    check_config(config, str(source / CONFIG))
    loaded, info = opened(source, HearingModel.found_by)
    with quiet():
        processor = library().AutoProcessor.from_pretrained(source, **LOCAL)
    theirs = processor.tokenizer
    text = _rendered(processor, prompt)
    ends = ends_of(theirs, loaded)
    last = _library_ids(theirs, text, "en", "de")[-1]
    rows = loaded.get_input_embeddings().num_embeddings
    parts, tokenizer = prompted(source, scratch, theirs, text, ends=ends, last=last, rows=rows)
    asked = SpokenPrompt(prompt=parts, tokenizer=tokenizer, sound=processor.audio_token)
    for pair in (("en", "de"), ("ja", "fi")):
        ours = asked.whole({"source_language": pair[0], "target_language": pair[1]}, 1)
        wanted = _library_ids(theirs, text, *pair)
        if ours != wanted or ours[-1] != last:
            raise UsageError(f"the tokenizer makes {len(wanted)} tokens of the prompt, and its parts have {len(ours)}")
    features = LibraryFeatures(settings=extractor_settings(source))
    with torch.device("meta"):
        model = HearingModel(config=plain(config), ends=ends, features=features, prompt=asked)
    model.lm = loaded
    system = PromptedSystem(
        model=model,
        inputs={SPEECH: SpeechField()},
        output=TextField(tokenizer=tokenizer, prefix=[START]),
        source_languages=source_languages,
        target_languages=target_languages,
    )
    report = report_of(source, model, info)
    system.origin.append(f"imported from {source.name} (transformers, {config.get('model_type')}): {report.counts}")
    return system.eval(), report


def _rendered(processor: Any, prompt: str) -> str:
    """Return the sound's symbol and the prompt as the chat template shows them, ready for the answer.

    Raises:
        DataError: for a template that is missing, fails, or shows the sound or the prompt not once.
    """
    said = [{"role": "user", "content": [{"type": "audio", "audio_url": "sound"}, {"type": "text", "text": prompt}]}]
    try:
        text = processor.apply_chat_template(said, add_generation_prompt=True, tokenize=False)
    except Exception as error:  # whatever a template of somebody else says
        raise DataError(f"the chat template fails ({type(error).__name__}: {one_line(error)})") from error
    for part in (processor.audio_token, prompt):
        if text.count(part) != 1:
            raise DataError(f"the chat template shows {part!r} {text.count(part)} times: {text!r}")
    return str(text)


def _library_ids(tokenizer: Any, text: str, source: str, target: str) -> list[int]:
    """Return the ids that the library makes of a rendered prompt."""
    full = with_languages(text, {"source_language": source, "target_language": target})
    return [*tokenizer(full, add_special_tokens=False)["input_ids"]]
