"""Import of models in Hugging Face's layout: BERT, RoBERTa, XLM-R, BART, mBART, M2M-100, NLLB, Marian, T5; speech.

The library transformers is not needed. ``config.json`` decides what is built; nothing in the folder is run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from dragoman.exchange.codes import language_of, languages_of_side
from dragoman.exchange.huggingface.hf_heads import HeadedBothSides, HeadedEncoder, task_of_class
from dragoman.exchange.huggingface.hf_model import ENCODERS, FAMILIES, EncoderDecoder, MaskedEncoder
from dragoman.exchange.huggingface.hf_reading import CONFIG, Config, read_tensors
from dragoman.exchange.huggingface.hf_speech2text import MODEL_TYPE as SPEECH_MODEL
from dragoman.exchange.huggingface.hf_speech2text import import_hf_speech
from dragoman.exchange.huggingface.hf_t5 import MODEL_TYPES as T5_MODELS
from dragoman.exchange.huggingface.hf_t5 import T5
from dragoman.exchange.huggingface.hf_text import read_texts
from dragoman.exchange.huggingface.hf_w2v_bert import MODEL_TYPE as WAV2VEC2_BERT
from dragoman.exchange.huggingface.hf_w2v_bert import import_hf_conformer
from dragoman.exchange.huggingface.hf_wav2vec2 import MODEL_TYPES as WAVEFORM_MODELS
from dragoman.exchange.huggingface.hf_wav2vec2 import import_hf_waveform
from dragoman.exchange.huggingface.hf_whisper import MODEL_TYPE as WHISPER
from dragoman.exchange.huggingface.hf_whisper import import_hf_whisper
from dragoman.exchange.import_sizes import built, check_rows
from dragoman.exchange.loaded import LoadReport
from dragoman.shared.errors import UsageError
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.systems.system import System

#: The model types that are read.
KINDS = (*FAMILIES, *T5_MODELS, *ENCODERS, *WAVEFORM_MODELS, WAV2VEC2_BERT, SPEECH_MODEL, WHISPER)


def import_huggingface(
    source: Path,
    scratch: Path,
    *,
    name: str | None = None,
    source_languages: list[str] | None = None,
    target_languages: list[str] | None = None,
    window: float | None = None,
    times: bool = False,
) -> tuple[ReadingModel, LoadReport]:
    """Read a folder in Hugging Face's layout.

    Args:
        source: the folder.
        scratch: a folder for tokenizer files that are put together from older ones; needed until the system is saved.
        name: what the model is called; by default as the folder.
        source_languages: codes; by default what the folder says.
        target_languages: likewise.
        window: seconds that Whisper hears at a time, if they are to be fewer than it was trained on.
        times: Whisper writes the times of its segments.

    Returns:
        The system, filled with what fits, and the report of what was loaded and what was not.

    Raises:
        DataError: naming the file, if something is missing, or has no counterpart here.
        UsageError: for a language that the model has no symbol for.
    """
    config = Config(source / CONFIG)
    kind = config.choose("model_type", {one: one for one in KINDS})
    if window is not None and kind != WHISPER:
        raise UsageError(f"--window is for Whisper: a {kind} hears sound of any length, or reads text")
    if times and kind != WHISPER:
        raise UsageError(f"--times is for Whisper: a {kind} writes none")
    if kind in (*WAVEFORM_MODELS, WAV2VEC2_BERT):
        import_encoder = import_hf_conformer if kind == WAV2VEC2_BERT else import_hf_waveform
        system, report = import_encoder(source, source_languages=source_languages)
    else:
        others: dict[str, Callable[..., Any]] = {
            SPEECH_MODEL: import_hf_speech,
            WHISPER: partial(import_hf_whisper, scratch=scratch, seconds=window, times=times),
        }
        read = others.get(kind, partial(import_hf_text, scratch=scratch))
        system, report = read(source, source_languages=source_languages, target_languages=target_languages)
    system.origin.append(f"imported from {name or source.name} (transformers, {kind}): {report.counts}")
    return system.eval(), report


def import_hf_text(
    source: Path,
    *,
    scratch: Path,
    source_languages: list[str] | None = None,
    target_languages: list[str] | None = None,
) -> tuple[ReadingModel, LoadReport]:
    """Read the folder of a text model; see :func:`import_huggingface`."""
    config = Config(source / CONFIG)
    tensors, file = read_tensors(source)
    if config.need("model_type") == "fsmt":  # which has names of its own for the sizes of both sides
        sizes = {"vocab_size": config.need("src_vocab_size"), "decoder_vocab_size": config.need("tgt_vocab_size")}
        config.values |= sizes
    check_rows(config.need("vocab_size"), tensors, config.path)
    texts = read_texts(source, config, scratch)
    read: MaskedEncoder | EncoderDecoder | T5
    kind = config.get("model_type")
    task = task_of_class(config)
    if task is not None and kind in ENCODERS:
        read = HeadedEncoder(config, tensors, texts.source.tokenizer.pad, task=task)
    elif task is not None:
        read = HeadedBothSides(config, tensors, texts.source, task=task)
    elif kind in ENCODERS:
        read = MaskedEncoder(config, tensors, texts.source.tokenizer.pad)
    else:
        read = (T5 if kind in T5_MODELS else EncoderDecoder)(config, tensors)
    model: nn.Module = built(read.build, tensors, config.path)
    report = read.load(model, str(file))
    given = {"source": source_languages, "target": target_languages}
    if texts.target is None or task is not None:
        given["target"] = given["target"] or given["source"]
    codes = {
        side: languages_of_side(
            side,
            given[side] or texts.defaults.get(side),
            tagged=texts.languages[side],
            said=said,
            code=language_of(said) if said else None,
            path=source,
        )
        for side, said in texts.said.items()
    }
    if isinstance(read, HeadedEncoder | HeadedBothSides):
        return read.system(model, texts.source, codes["source"]), report
    system = System(
        model=model,
        inputs={"source": texts.source},
        output=texts.target or texts.source,
        source_languages=codes["source"],
        target_languages=codes["target"],
    )
    return system, report
