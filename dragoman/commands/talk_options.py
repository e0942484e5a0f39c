"""Options of recordings, of their subtitles, and of talks that are heard while somebody speaks."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, ClassVar

from dragoman.commands.options import option
from dragoman.shared.errors import UsageError, check_number

SOUND, SUBTITLES, STREAM = "Sound files", "Limits of subtitles", "While listening"


@dataclass(frozen=True, kw_only=True)
class DivisionOptions:
    """The division of long recordings into segments (docs/talks.md)."""

    #: Those that may be infinite.
    endless: ClassVar[tuple[str, ...]] = ("maximum_seconds", "longest_pause", "speech_margin")

    maximum_seconds: Annotated[
        float, option("length in seconds above which sound files are divided; inf: never", SOUND)
    ] = 20.0
    segmenter: Annotated[
        str,
        option(
            "where long sound files are divided: pauses (the quietest places), or silero (where there is least speech, "
            "for loud backgrounds; pip install 'dragoman\\[vad]')",
            SOUND,
        ),
    ] = "pauses"
    longest_pause: Annotated[
        float,
        option("seconds of the longest pause within a segment of a divided file; inf: no limit", SOUND, min=0.0),
    ] = 0.5
    speech_margin: Annotated[
        float,
        option("seconds kept before and after the speech of such a segment; inf: all of them", SOUND, min=0.0),
    ] = 0.03

    def check(self) -> None:
        """Accept every combination: the segmenters check their numbers."""


@dataclass(frozen=True, kw_only=True)
class SoundOptions(DivisionOptions):
    """The treatment of sound files before translation."""

    keep_silence: Annotated[
        bool, option("also translate segments without speech, instead of skipping them with a warning", SOUND)
    ] = False
    speech_detector: Annotated[
        str,
        option(
            "speech detector: silero (pip install 'dragoman\\[vad]'), levels (no extra package, but takes "
            "music for speech), or auto (silero if it is installed)",
            SOUND,
        ),
    ] = "auto"

    def refuse(self) -> None:
        """Refuse all of these options, for a model that reads text.

        Raises:
            UsageError: names the first one that was given.
        """
        for field in fields(self):
            if getattr(self, field.name) != field.default:
                raise UsageError(f"--{field.name.replace('_', '-')} does not apply: this model reads text")

    def check(self) -> None:
        """Refuse a detector that is not used, by UsageError."""
        if self.keep_silence and self.speech_detector != type(self).speech_detector:
            raise UsageError("--speech-detector does not apply with --keep-silence: nothing is skipped")


@dataclass(frozen=True, kw_only=True)
class SubtitleOptions:
    """The limits of subtitles; see shared/text/subtitles.py."""

    line_length: Annotated[int, option("maximum number of characters in a line", SUBTITLES, min=1)] = 42
    lines: Annotated[int, option("maximum number of lines in a block", SUBTITLES, min=1)] = 2
    characters_per_second: Annotated[float, option("maximum reading speed", SUBTITLES)] = 21.0
    gap: Annotated[float, option("minimum number of seconds between two blocks", SUBTITLES)] = 0.08
    shortest: Annotated[float, option("minimum number of seconds that a block is shown", SUBTITLES)] = 1.0

    def check(self) -> None:
        """Accept every combination: the rules check their numbers."""


#: The policies of a listener, and the options that each of them reads.
POLICIES = {"agreement": {"agree"}, "alignatt": {"frames", "layer"}, "hold": {"hold"}, "wait-k": {"k", "tokens"}}


@dataclass(frozen=True, kw_only=True)
class PolicyOptions:
    """The policy of a listener: when to write (dragoman/simultaneous/policies.py); and the pauses between sentences."""

    policy: Annotated[
        str,
        option(
            "what is written before the end: agreement (what the last outputs agree on), alignatt (what attends to "
            "sound that lies back), hold (all but the last tokens), wait-k (a word a chunk)",
            STREAM,
        ),
    ] = "agreement"
    chunk: Annotated[float, option("seconds of sound from one translation to the next", STREAM, min=0.01)] = 0.5
    agree: Annotated[int, option("agreement: number of outputs that have to agree", STREAM, min=2)] = 2
    frames: Annotated[int, option("alignatt: encoder positions that are too new to be trusted", STREAM, min=1)] = 4
    layer: Annotated[
        int, option("alignatt: decoder layer, 1 for the first; 0: at two thirds of the depth", STREAM, min=0)
    ] = 0
    hold: Annotated[int, option("hold: number of tokens that are held back", STREAM, min=1)] = 6
    k: Annotated[int, option("wait-k: number of chunks before the first word", STREAM, min=1)] = 3
    tokens: Annotated[
        bool,
        option("wait-k: count tokens instead of words, as models do that were trained to wait (st/wait_k.py)", STREAM),
    ] = False
    pause: Annotated[float, option("seconds without speech that end a sentence", STREAM)] = 0.6

    def check(self) -> None:
        """Refuse an unknown policy, and options of another one.

        Raises:
            UsageError: names the first such option.
        """
        for name in ("chunk", "pause"):
            check_number(f"--{name}", getattr(self, name), above=0, most=3600)
        if self.policy not in POLICIES:
            raise UsageError(f"--policy must be one of {', '.join(POLICIES)}, not {self.policy!r}")
        others = set().union(*POLICIES.values()) - POLICIES[self.policy]
        for field in fields(self):
            if field.name in others and getattr(self, field.name) != field.default:
                raise UsageError(f"--{field.name} does not apply to the policy {self.policy}")


@dataclass(frozen=True, kw_only=True)
class ListeningOptions(PolicyOptions):
    """A listener's policy, and what else ends a sentence."""

    maximum_seconds: Annotated[float, option("seconds after which a sentence is ended in any case", STREAM)] = 20.0
    speech_detector: Annotated[str, option("finds those pauses: auto, levels, silero", STREAM)] = "auto"

    def check(self) -> None:
        """Refuse what :class:`PolicyOptions` does, and a length out of its range, by UsageError."""
        super().check()
        check_number("--maximum-seconds", self.maximum_seconds, above=0, most=3600)
