"""Sound without text in the second world, in the layout of Libri-Light."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from dragoman.almanac import voices
from dragoman.almanac.frames import randomness
from dragoman.almanac.studio import Recording, spans
from dragoman.almanac.worlds import KINDS, draw
from dragoman.almanac.writers import Settings, write_lines

UTTERANCES = 30  # in a recording


class LibriLightWriter:
    """ROOT/librilight/<language>/small/<speaker>/<book>/<recording>.flac, with a .json beside it as in Libri-Light.

    Every voice speaks, the unseen ones, too; what is said is no test sentence, in any phrasing, and is written nowhere.
    The .json has the speaker, the language and where the voice is active (seconds). `audio` is the number of utterances
    in each source language of the pairs.
    """

    def __init__(self, *, settings: Settings) -> None:
        self.settings = settings
        self.languages = list(dict.fromkeys(source for source, _ in settings.pairs)) or list(settings.languages)

    def recordings(self) -> Iterator[Recording]:
        """One voice after the other."""
        size, seed = self.settings.sizes["audio"], self.settings.seed
        variants = voices.SEEN_VOICES + voices.UNSEEN_VOICES
        for language in self.languages:
            sayings = draw(KINDS["wide"], size, randomness(seed, "librilight", language))
            for number, start in enumerate(range(0, size, UTTERANCES), start=1):
                speaker = (number - 1) % len(variants)
                folder = self.settings.root / "librilight" / language / "small" / str(speaker + 1) / f"book_{number}"
                yield Recording(
                    name=f"{seed}|librilight|{language}|{number}",
                    path=str(folder / f"recording_{number}.flac"),
                    spans=str(self.settings.parts / f"librilight-{language}-{number}.json"),
                    language=language,
                    variant=variants[speaker],
                    texts=tuple(saying.sentence(language) for saying in sayings[start : start + UTTERANCES]),
                )

    def finish(self) -> None:
        """Write what Libri-Light says of a recording."""
        for recording in self.recordings():
            path = Path(recording.path)
            content = {
                "speaker": path.parents[1].name,
                "book_meta": {"id": path.parent.name, "language": recording.language},
                "voice_activity": [
                    [start / voices.RATE, (start + length) / voices.RATE] for start, length in spans(recording)
                ],
            }
            write_lines(path.with_suffix(".json"), [json.dumps(content)])
