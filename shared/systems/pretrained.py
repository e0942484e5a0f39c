"""Model folders that recipes begin with: a system to go on training, its fields, and two of them put together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from dragoman.shared.batches.fields import Field, TextField
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.described import build, change, describe
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.nn.shrinking import ShrinkingEncoder
from dragoman.shared.nn.speech import SpeechEmbedding
from dragoman.shared.nn.state import load_exactly
from dragoman.shared.nn.subsampler import Conv1dSubsampler, StackedFrames
from dragoman.shared.nn.symbols import OUTPUT
from dragoman.shared.nn.translator import EncoderModel, Translator
from dragoman.shared.nn.waveform import WaveformEmbedding, WaveformEncoder
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.systems.system import System
from dragoman.shared.text.tokenizer import Tokenizer


def load(*, folder: str, changes: dict[str, Any] | None = None, writes: str | None = None) -> Any:
    """Load a system to go on training it, in single precision.

    Args:
        folder: a model folder, of a run or imported.
        changes: arguments that its parts are to be built with instead of those in ``config.json``, by dotted path:
            ``{model.encoder.recompute: True, model.decoder.layer.dropout: 0.3}``.
        writes: the text that it is to write, if not the one that the folder names.

    Returns:
        The system: a System, or an EncoderSystem, which writes nothing.

    Raises:
        DataError: if it cannot be loaded, or its parameters do not fit the changes.
        UsageError: if there is no such argument, or it cannot have that value; if it cannot write that text.
    """
    checking = torch.get_default_device().type == "meta"  # a recipe's values: nothing has to be in the parameters
    # Built with drawn parameters first, as it always was: the same seed must draw the same for what comes after.
    system = ReadingModel.from_description(Path(folder))
    system = (system if checking else ReadingModel.load(folder)).float()
    if changes:
        description = describe(system)
        try:
            for path, value in changes.items():
                change(description, path, value)
            changed = build(description, Path(folder))
        except (TypeError, ValueError) as error:
            raise UsageError(f"{folder}: cannot be changed: {error}") from error
        load_exactly(changed, system.state_dict(), str(folder))
        changed.origin, system = system.origin, changed
    if writes is not None:
        if not isinstance(system, System):
            raise UsageError(f"{folder}: a {type(system).__name__} writes nothing, so not {writes!r}")
        system = system.for_task(writes=writes)
    system.origin.append(f"all parameters from {folder}")
    return system


def encoder(*, system: ReadingModel, heads: dict[str, nn.Module] | None = None) -> EncoderModel:
    """Return the encoder of a system, a translator's too, without its heads or decoder, for what reads its states.

    Args:
        system: with the encoder.
        heads: new ones, by name.

    Raises:
        UsageError: if it is neither an encoder nor an ordinary translator.
    """
    model = system.model
    if not isinstance(model, EncoderModel) and type(model) is not Translator:  # others may encode in their own way
        raise UsageError(f"{type(model).__name__} has no encoder that others could read")
    return EncoderModel(embeddings=dict(model.embeddings.items()), encoder=model.encoder, heads=heads)


def speech_encoder(*, system: ReadingModel) -> WaveformEncoder:
    """Return the encoder of speech of a system, such as an imported wav2vec 2.0 or Whisper, as a front end of others.

    It hears features or waveforms as it always did; of a translator of speech, the decoder is left behind.

    Raises:
        UsageError: if the system has none.
    """
    below = encoder(system=system)
    embedding = dict(below.embeddings.items()).get("speech")
    if not isinstance(embedding, WaveformEmbedding | SpeechEmbedding):
        raise UsageError(f"speech: {type(system.model).__name__} is no encoder of speech")
    return WaveformEncoder(embedding=embedding, encoder=below.encoder)


def input_field(*, system: ReadingModel, name: str) -> Field:
    """Return what turns rows into an input of a system, called as the batch field: "source" of text, "speech".

    Raises:
        UsageError: if the system has no such input.
    """
    if name not in system.inputs:
        raise UsageError(f"the system reads {' and '.join(system.inputs)}, not {name!r}")
    return system.inputs[name]


def tokenizer(*, folder: str, name: str = "source") -> Tokenizer:
    """Return the tokenizer of a text of the system of a model folder; its parameters are not loaded.

    Args:
        folder: a model folder, of a run or imported.
        name: of the batch field that the system reads, or "output" for what it writes.

    Raises:
        DataError: if there is no such folder.
        UsageError: if the system does not read that text, or writes none.
    """
    with torch.device("meta"):
        system = ReadingModel.from_description(Path(folder))
    field = system.symbol_field(name) if name == OUTPUT else input_field(system=system, name=name)
    if field is None:
        raise UsageError(f"{folder}: this model writes nothing")
    if not isinstance(field, TextField):
        raise UsageError(f"{folder}: {name!r} is no text")
    return field.tokenizer


def speech_translator(
    *,
    speech: ReadingModel,
    text: System,
    kernels: list[int] | None = None,
    channels: int = 1024,
    dropout: float = 0.1,
    source_languages: list[str] | None = None,
    target_languages: list[str] | None = None,
) -> System:
    """Put an encoder of speech below a translator of text; the convolutions between them are new.

    The embeddings of the translator's inputs stay, because that of its output may share their vectors.

    Args:
        speech: an encoder of speech, or a translator of it; heads and decoder are left behind.
        text: a Translator, whose output is that of the new system.
        kernels: the widths of the convolutions (see Conv1dSubsampler), each of which halves the length; [3, 3] if None.
        channels: of the inner ones.
        dropout: of their outputs.
        source_languages: codes of what will be read; by default those of the text.
        target_languages: codes of what will be written; by default those of the text.

    Raises:
        UsageError: if either is something else.
    """
    above = text_translator(system=text)
    new = speech_front_end(
        speech=speech, width=above.encoder.width, kernels=kernels or [3, 3], channels=channels, dropout=dropout
    )
    model = Translator(
        embeddings={"speech": new, **above.embeddings},
        encoder=above.encoder,
        target_embedding=above.target_embedding,
        decoder=above.decoder,
        projection=above.projection,
    )
    return with_speech(
        model=model, speech=speech, text=text, source_languages=source_languages, target_languages=target_languages
    )


def text_translator(*, system: System) -> Translator:
    """Return the model of a translator of text.

    Raises:
        UsageError: if the system is something else.
    """
    model = system.model
    if not isinstance(model, Translator) or system.output_name != "translation":
        raise UsageError(f"text: {type(model).__name__} is no text translator")
    return model


def speech_front_end(
    *, speech: ReadingModel, width: int, kernels: list[int], channels: int = 1024, dropout: float = 0.1
) -> SpeechEmbedding:
    """Return an encoder of speech with new convolutions above it; for the arguments see :func:`speech_translator`.

    Raises:
        UsageError: if ``speech`` has no encoder of speech.
    """
    below = speech_encoder(system=speech)
    return SpeechEmbedding(
        frontend=below,
        subsampler=Conv1dSubsampler(inputs=below.width, channels=channels, width=width, kernels=kernels),
        dropout=dropout,
        scaled=False,
    )


def shrinking_front_end(*, speech: ReadingModel, width: int, dropout: float = 0.1) -> SpeechEmbedding:
    """Return an encoder of speech that a CTC head was trained above, with a state for each label; a new map above it.

    Args:
        speech: a recogniser that is decoded by CTC, or another system with a head "ctc".
        width: of the vectors.
        dropout: of these.

    Raises:
        UsageError: if it has no encoder of speech, or no such head.
    """
    below, head = speech_encoder(system=speech), getattr(speech.model, "heads", {})
    if "ctc" not in head:
        raise UsageError(f"speech: {type(speech.model).__name__} has no head 'ctc', by whose labels states shrink")
    return SpeechEmbedding(
        frontend=ShrinkingEncoder(embedding=below.embedding, encoder=below.encoder, head=head["ctc"]),
        subsampler=StackedFrames(inputs=below.width, width=width, stride=1),
        dropout=dropout,
        scaled=False,
    )


def with_speech(
    *,
    model: Translator,
    speech: ReadingModel,
    text: System,
    source_languages: list[str] | None = None,
    target_languages: list[str] | None = None,
) -> System:
    """Return the system around a translator of text, made of parts of both, that now reads speech as well.

    Raises:
        UsageError: for a language that the text's symbols do not include.
    """
    system = System(
        model=model,
        inputs={"speech": SpeechField(), **text.inputs},
        reads=["speech"],
        output=text.output,
        source_languages=source_languages or text.source_languages,
        target_languages=target_languages or text.target_languages,
    )
    read, sides = text.inputs.get("source"), [("target_languages", system.output, system.target_languages)]
    if isinstance(read, TextField):
        sides.append(("source_languages", read, system.source_languages))
    for side, field, codes in sides:
        for code in codes:
            try:
                field.prefix_ids(code)
            except DataError as error:
                raise UsageError(f"{side}: {code!r} is no language of the translator of text: {error}") from error
    system.origin = [*speech.origin, *text.origin]
    return system
