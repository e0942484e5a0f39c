"""The families of the library transformers whose folders are imported, each by its own reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dragoman.exchange.huggingface.hf_import import KINDS
from dragoman.exchange.huggingface.hf_reading import CONFIG, Config
from dragoman.exchange.loaded import LoadReport
from dragoman.exchange.transformers_engine.encoder_decoder_import import FAMILIES, import_encoder_decoder
from dragoman.exchange.transformers_engine.library_folder import library
from dragoman.exchange.transformers_engine.lm_import import PROMPT, import_language_model
from dragoman.exchange.transformers_engine.spoken_prompt_import import MODEL_TYPES as HEARING
from dragoman.exchange.transformers_engine.spoken_prompt_import import PROMPT as SPOKEN
from dragoman.exchange.transformers_engine.spoken_prompt_import import QWEN, import_hearing_model
from dragoman.shared.errors import DataError, UsageError, shown
from dragoman.shared.systems.system import System

#: The model types that only the library computes, and all that is read through it.
TYPES = (*FAMILIES, *HEARING)
READ = f"{', '.join(TYPES)} and decoder-only language models"


def is_language_model(kind: str) -> bool:
    """Tell whether the library has decoder-only language models of a type, and nothing else of it is read here.

    Raises:
        UsageError: if it is not installed.
    """
    library()
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and kind not in KINDS


def import_for_library(
    source: Path,
    scratch: Path,
    *,
    source_languages: list[str] | None,
    target_languages: list[str] | None,
    prompt: str | None,
    window: float | None = None,
) -> tuple[System, LoadReport]:
    """Read a folder in Hugging Face's layout whose model the library is to compute.

    Args:
        source: the folder.
        scratch: a folder for files, needed until the system is saved.
        source_languages: codes; a language model does not say them.
        target_languages: likewise.
        prompt: what a language model is asked, with ``{text}``, ``{source_language}`` and ``{target_language}``.
        window: seconds that Qwen2-Audio hears at a time, if they are to be fewer than it was trained on.

    Returns:
        The system, and the report of what was loaded and what was not.

    Raises:
        DataError: if something is missing, or it is of no family that is read.
        UsageError: without the library, or for a model that needs code of its own.
    """
    config = Config(source / CONFIG)
    kind = config.need("model_type")
    if window is not None and kind != QWEN:
        raise UsageError(f"--window is for Whisper and {QWEN}: through transformers, a {kind} has no other")
    if kind in FAMILIES:
        if prompt is not None:
            raise UsageError(f"--prompt is for language models, and a {kind} is an encoder-decoder")
        return import_encoder_decoder(
            source, scratch, source_languages=source_languages, target_languages=target_languages
        )
    hears = kind in HEARING
    if not hears and not is_language_model(kind):
        without = f"; {kind} is imported without --engine" if kind in KINDS else ""
        raise DataError(
            f"{config.path}: model_type {shown(kind)} is not read through transformers, only {READ}{without}"
        )
    if prompt is None:
        prompt = SPOKEN if hears else PROMPT
    given: dict[str, Any] = {"source_languages": source_languages, "target_languages": target_languages}
    given |= {"prompt": prompt} | ({} if window is None else {"window": window})
    return (import_hearing_model if hears else import_language_model)(source, scratch, **given)
