"""``dragoman subtitle``: translate recordings to subtitles."""

from __future__ import annotations

from pathlib import Path

from dragoman.commands.endings import warn
from dragoman.commands.model_options import ModelOptions
from dragoman.commands.search_options import SearchOptions
from dragoman.commands.talk_options import SoundOptions
from dragoman.commands.timed_output import Render, write_timed
from dragoman.shared.errors import UsageError
from dragoman.shared.systems.inputs import chosen_language
from dragoman.shared.systems.system import System
from dragoman.shared.systems.timed import TimedText
from dragoman.shared.systems.word_times import aligned_text, words_of_segments
from dragoman.shared.text import languages as codes
from dragoman.shared.text.subtitles import Cue, SubtitleRules, srt, subtitles, timed_by_words, too_fast, vtt


def write_subtitles(
    model: Path,
    inputs: list[Path],
    *,
    languages: tuple[str | None, str | None],
    kind: str,
    out: Path | None,
    text: str,
    rules: SubtitleRules,
    sound: SoundOptions,
    search: SearchOptions,
    models: ModelOptions,
) -> None:
    """Translate sound files, and print or write their subtitles.

    Raises:
        DataError: at the end, if files could not be read.
        UsageError: if the system reads text, or writes no text of this name.
    """

    def render(system: System) -> Render:
        name = text or system.output_name
        if name not in system.texts:
            raise UsageError(f"--text must be one of {', '.join(system.texts)}, not {name!r}")
        spaced = codes.spaced(_language(system, name, languages))

        def make(file: Path, segments: list[TimedText]) -> str:
            cues = [Cue(s.start, s.end, s.texts[name]) for s in segments]
            words = _words(system, name, file, segments, models.batch_size)
            blocks = subtitles(cues, rules, spaced=spaced, words=words)
            fast = too_fast(blocks, rules)
            if fast:
                limit = f"{rules.characters_per_second:g} characters per second"
                warn(f"{file}: {fast} of {len(blocks)} blocks are above {limit}")
            return srt(blocks) if kind == "srt" else vtt(blocks)

        return make

    write_timed(
        model,
        inputs,
        languages=languages,
        kind=kind,
        formats=("srt", "vtt"),
        out=out,
        render=render,
        sound=sound,
        search=search,
        models=models,
    )


def _words(
    system: System, name: str, file: Path, segments: list[TimedText], batch_size: int
) -> list[list[Cue] | None] | None:
    """Return the times of the words of each segment, if the system has a head that was trained to write this text."""
    if aligned_text(system) != name:
        return None
    words = words_of_segments(system, file, segments, batch_size=batch_size)
    pairs = zip(segments, words, strict=True)
    unknown = sum(not timed_by_words(Cue(s.start, s.end, s.texts[name]), cues) for s, cues in pairs if s.texts[name])
    if unknown:
        warn(f"{file}: words of {unknown} segments have no times")
    return words


def _language(system: System, name: str, given: tuple[str | None, str | None]) -> str:
    """Return the language of a text."""
    if system.texts[name].side == "source":
        return chosen_language("source", given[0] or given[1], system.source_languages)
    return chosen_language("target", given[1], system.target_languages)
