"""The events that a client may send over the WebSockets of OpenAI's protocol; what cannot be done here is refused.

https://developers.openai.com/api/reference/resources/realtime/translation-client-events has those of
translations; those of transcriptions are the events of ``/v1/realtime`` that concern a session of this type.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from dragoman.shared.errors import UsageError, shortened
from dragoman.shared.machine.nesting import from_json


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Transcription(_Strict):
    """The transcript that is asked for."""

    model: str | None = None
    language: str | None = None
    prompt: Literal[""] | None = None


class Pcm(_Strict):
    """The form of the sound."""

    type: Literal["audio/pcm"]
    rate: Literal[24_000] = 24_000


class Pauses(_Strict):
    """The ends of sentences; only the length of a pause can be chosen."""

    type: Literal["server_vad"] = "server_vad"
    silence_duration_ms: Annotated[int, Field(gt=0, le=10_000)] | None = None
    threshold: Annotated[float, Field(ge=0.5, le=0.5)] | None = None  # the protocol's defaults alone
    prefix_padding_ms: Annotated[int, Field(ge=300, le=300)] | None = None


class TranslationInput(_Strict):
    """The sound, and whether its transcript is wanted."""

    transcription: Transcription | None = None
    noise_reduction: None = None


class TranscriptionInput(TranslationInput):
    """The sound, its transcript, and what ends a sentence."""

    format: Pcm | None = None
    turn_detection: Pauses = Pauses()


class Output(_Strict):
    """The language of the translation."""

    language: str | None = None


class TranslationAudio(_Strict):
    """Both sides of a translation."""

    input: TranslationInput | None = None
    output: Output | None = None


class TranscriptionAudio(_Strict):
    """The one side of a transcription."""

    input: TranscriptionInput | None = None


class TranslationChange(_Strict):
    """The fields of a session that a client changes."""

    type: Literal["translation"] = "translation"
    audio: TranslationAudio | None = None


class TranscriptionChange(_Strict):
    """The fields of a session that a client changes."""

    type: Literal["transcription"] = "transcription"
    audio: TranscriptionAudio | None = None
    include: Annotated[list[str], Field(max_length=0)] | None = None


class _Event(_Strict):
    event_id: Annotated[str, Field(max_length=512)] | None = None


class _Sound(_Event):
    audio: str

    def sound(self) -> bytes:
        """Return the bytes of the samples, or raise a UsageError."""
        try:
            return base64.b64decode(self.audio, validate=True)
        except (binascii.Error, ValueError) as error:
            raise UsageError(f"audio: is not base64 ({error})") from error


class TranslationUpdate(_Event):
    """A change of a session of translation."""

    type: Literal["session.update"]
    session: TranslationChange


class TranslationAppend(_Sound):
    """Further sound for a translation."""

    type: Literal["session.input_audio_buffer.append"]


class TranslationClose(_Event):
    """The end of a translation."""

    type: Literal["session.close"]


class TranscriptionUpdate(_Event):
    """A change of a session of transcription."""

    type: Literal["session.update"]
    session: TranscriptionChange


class TranscriptionAppend(_Sound):
    """Further sound for a transcription."""

    type: Literal["input_audio_buffer.append"]


class TranscriptionCommit(_Event):
    """The end of a sentence, for which the server would otherwise wait."""

    type: Literal["input_audio_buffer.commit"]


class TranscriptionClear(_Event):
    """Sound that has not been heard yet is forgotten."""

    type: Literal["input_audio_buffer.clear"]


TranslationEvent = TranslationUpdate | TranslationAppend | TranslationClose
TranscriptionEvent = TranscriptionUpdate | TranscriptionAppend | TranscriptionCommit | TranscriptionClear
_TRANSLATION: TypeAdapter[TranslationEvent] = TypeAdapter(Annotated[TranslationEvent, Field(discriminator="type")])
_TRANSCRIPTION: TypeAdapter[TranscriptionEvent] = TypeAdapter(
    Annotated[TranscriptionEvent, Field(discriminator="type")]
)


def translation_event(message: str | bytes) -> TranslationEvent:
    """Return what a client of a translation sent, or raise a UsageError."""
    return _checked(_TRANSLATION, message)


def transcription_event(message: str | bytes) -> TranscriptionEvent:
    """Return what a client of a transcription sent, or raise a UsageError."""
    return _checked(_TRANSCRIPTION, message)


def _checked(adapter: TypeAdapter[Any], message: str | bytes) -> Any:
    try:
        content = from_json(message if isinstance(message, bytes) else message.encode())
    except ValueError as error:
        raise UsageError(f"the event is not JSON: {error}") from error
    try:
        return adapter.validate_python(content)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(map(str, wrong["loc"][1:]))  # after the type of the event
        given = (
            f", not {shortened(repr(wrong['input']))}" if wrong["type"] not in ("missing", "extra_forbidden") else ""
        )
        raise UsageError(f"{place or 'event'}: {wrong['msg']}{given}") from error
