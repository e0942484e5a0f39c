"""Import of fairseq's models: translators, denoisers, masked language models; and speech, in files of its own.

fairseq is not needed. What it keeps apart (a checkpoint, dictionaries, a file of pieces, options of a task) becomes one
model folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from dragoman.exchange.codes import language_of, languages_of_side, warn_of_unnamed
from dragoman.exchange.fairseq.fairseq_model import Settings, build_encoder, build_translator, load
from dragoman.exchange.fairseq.fairseq_names import upgraded
from dragoman.exchange.fairseq.fairseq_s2t import import_speech_model, is_speech_model
from dragoman.exchange.fairseq.fairseq_text import (
    MASKED,
    codes_of,
    find_dictionary,
    find_segmenter,
    layout_of,
    tokenizer_of,
)
from dragoman.exchange.fairseq.fairseq_wav2vec import import_aggregating_model, is_aggregating_model
from dragoman.exchange.fairseq.fairseq_wav2vec2 import import_waveform_model, is_waveform_model
from dragoman.exchange.import_sizes import built
from dragoman.exchange.loaded import LoadReport
from dragoman.exchange.unpickling import read_checkpoint
from dragoman.exchange.vocabularies.vocabulary import VocabularyTokenizer, read_vocabulary
from dragoman.shared.batches.fields import TextField
from dragoman.shared.errors import DataError
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.translator import EncoderModel, Translator
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.systems.system import System


def import_fairseq(
    source: Path,
    *,
    dictionary: Path | None = None,
    pieces: Path | None = None,
    source_languages: list[str] | None = None,
    target_languages: list[str] | None = None,
) -> tuple[ReadingModel, LoadReport]:
    """Read a checkpoint of fairseq.

    Args:
        source: a checkpoint, or a folder with one.
        dictionary: a ``dict.txt`` for both languages, or a folder with dictionaries; by default beside the checkpoint.
        pieces: a SentencePiece model, a file of BPE codes, a folder with ``encoder.json`` and ``vocab.bpe``, or
            ``words``; by default what is found beside the checkpoint.
        source_languages: codes; by default what the checkpoint says (it may not: fairseq-train can tell by its data).
        target_languages: likewise.

    Returns:
        The system, filled with what fits, and the report of what was loaded and what was not.

    Raises:
        DataError: naming the file, if something is missing, or has no counterpart here.
    """
    path = find_checkpoint(source)
    content = read_checkpoint(path)
    if not isinstance(content.get("model"), dict):
        raise DataError(f"{path}: holds no model")
    settings = Settings(content, str(path))
    given: dict[str, Any] = {"dictionary": dictionary, "source_languages": source_languages}
    system: ReadingModel
    if is_aggregating_model(content):
        system, report = import_aggregating_model(path, content, settings, source_languages=source_languages)
    elif is_waveform_model(content):
        system, report = import_waveform_model(path, content, **given)
    else:
        read = import_speech_model if is_speech_model(settings) else import_text_model
        system, report = read(path, content, settings, pieces=pieces, target_languages=target_languages, **given)
    system.origin.append(f"imported from {path.name} (fairseq, arch {settings.get('arch')}): {report.counts}")
    return system.eval(), report


def import_text_model(
    path: Path,
    content: Mapping[str, Any],
    settings: Settings,
    *,
    dictionary: Path | None = None,
    pieces: Path | None = None,
    source_languages: list[str] | None = None,
    target_languages: list[str] | None = None,
) -> tuple[ReadingModel, LoadReport]:
    """Build the system of a text model's checkpoint that has been read; see :func:`import_fairseq`."""
    settings.check()
    tensors = upgraded(content["model"])
    folder = path.parent
    sides = [
        settings.get(f"{side}_lang") or (given[0] if given else None)
        for side, given in (("source", source_languages), ("target", target_languages))
    ]
    dictionaries = [_dictionary(dictionary, folder, name) for name in sides]
    masked = "encoder.lm_head.dense.weight" in tensors
    layout = MASKED if masked else layout_of(settings, read_vocabulary(dictionaries[0]), folder)
    tags = [layout.tag(name) for name in layout.names] if layout.tag else []
    warn_of_unnamed(tags, codes_of(layout).values(), path)
    segmenter = find_segmenter(folder, pieces)
    model: Translator | EncoderModel
    if layout.target is None:
        model = built(partial(build_encoder, tensors, settings), tensors, path)
        embeddings = [model.embeddings["source"]]
    else:
        model = built(partial(build_translator, tensors, settings), tensors, path)
        embeddings = [model.embeddings["source"], model.target_embedding]
    tokenizers = [
        tokenizer_of(path, cast(TextEmbedding, embedding).vocabulary, segmenter, layout)
        for path, embedding in zip(dictionaries, embeddings, strict=False)
    ]
    if len(tokenizers) == 2 and tokenizers[0].fingerprint == tokenizers[1].fingerprint:
        tokenizers.pop()
    report = load(model, tensors, str(path))
    source_field = _field("source", tokenizers[0], layout.source)
    languages = [
        languages_of_side(
            side, given, tagged=[*codes_of(layout)], said=name, code=language_of(name) if name else None, path=path
        )
        for side, given, name in (("source", source_languages, sides[0]), ("target", target_languages, sides[1]))
        if side == "source" or layout.target
    ]
    system = System(
        model=model,
        inputs={"source": source_field},
        output=_field("target", tokenizers[-1], layout.target) if layout.target else source_field,
        source_languages=languages[0],
        target_languages=languages[-1],
    )
    return system, report


def find_checkpoint(source: Path) -> Path:
    """Return the checkpoint that a path means.

    Raises:
        DataError: if there is none, or several, and none has fairseq's name for the best.
    """
    if source.is_file():
        return source
    if not source.is_dir():
        raise DataError(f"{source}: no such checkpoint")
    for name in ("checkpoint_best.pt", "model.pt"):
        if (source / name).is_file():
            return source / name
    paths = sorted(source.glob("*.pt"))
    if len(paths) != 1:
        raise DataError(f"{source}: holds {len(paths) or 'no'} checkpoints (*.pt): name one")
    return paths[0]


def _dictionary(given: Path | None, folder: Path, language: str | None) -> Path:
    if given is None or given.is_dir():
        return find_dictionary(given or folder, language)
    if not given.is_file():
        raise DataError(f"{given}: no such dictionary")
    return given


def _field(side: str, tokenizer: VocabularyTokenizer, around: tuple[list[str], list[str]]) -> TextField:
    return TextField(column=f"{side}_text", tokenizer=tokenizer, prefix=around[0], suffix=around[1])
