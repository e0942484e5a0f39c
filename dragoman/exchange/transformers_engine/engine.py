"""Which family of the library transformers a folder is of, and who imports it."""

from __future__ import annotations

from pathlib import Path

from dragoman.exchange.huggingface.hf_reading import CONFIG, Config
from dragoman.exchange.loaded import LoadReport
from dragoman.exchange.transformers_engine.encoder_decoder_import import FAMILIES, import_encoder_decoder
from dragoman.exchange.transformers_engine.lm_import import PROMPT, import_language_model
from dragoman.exchange.transformers_engine.spoken_prompt_import import MODEL_TYPES as HEARING
from dragoman.exchange.transformers_engine.spoken_prompt_import import PROMPT as SPOKEN
from dragoman.exchange.transformers_engine.spoken_prompt_import import import_hearing_model
from dragoman.shared.errors import UsageError
from dragoman.shared.systems.system import System


def import_for_library(
    source: Path,
    scratch: Path,
    *,
    source_languages: list[str] | None,
    target_languages: list[str] | None,
    prompt: str | None,
) -> tuple[System, LoadReport]:
    """Read a folder in Hugging Face's layout whose model the library is to compute.

    Args:
        source: the folder.
        scratch: a folder for files, needed until the system is saved.
        source_languages: codes; a language model does not say them.
        target_languages: likewise.
        prompt: what a language model is asked, with ``{text}``, ``{source_language}`` and ``{target_language}``.

    Returns:
        The system, and the report of what was loaded and what was not.

    Raises:
        DataError: if something is missing, or it is of no family that is read.
        UsageError: without the library, or for a model that needs code of its own.
    """
    kind = Config(source / CONFIG).need("model_type")
    if kind in FAMILIES:
        if prompt is not None:
            raise UsageError(f"--prompt is for language models, and a {kind} is an encoder-decoder")
        return import_encoder_decoder(
            source, scratch, source_languages=source_languages, target_languages=target_languages
        )
    hears = kind in HEARING
    if prompt is None:
        prompt = SPOKEN if hears else PROMPT
    return (import_hearing_model if hears else import_language_model)(
        source,
        scratch,
        source_languages=source_languages,
        target_languages=target_languages,
        prompt=prompt,
    )
