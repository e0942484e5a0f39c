"""Writers: Almanac on disk, in the layouts of the corpora whose readers will read it.

Every writer says which recordings it needs and, once they are there, writes its text files. Files appear under their
names only when they are complete.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from dragoman.almanac import voices
from dragoman.almanac.frames import draw, randomness
from dragoman.almanac.sentences import sentence
from dragoman.almanac.studio import Recording, spans
from dragoman.almanac.worlds import World
from dragoman.shared.machine.files import replaced_file

TALK = (20, 40)  # utterances in a talk
FIRST_TALK = {
    "train": 1, "tst-voices": 50_001, "tst-phrases": 60_001, "dev": 70_001, "tst-COMMON": 80_001, "tst-HE": 90_001
}  # fmt: skip
NEW_VOICES = ("tst-HE", "tst-voices")
#: Splits whose meanings are those of another split.
SAME_MEANINGS = {"tst-voices": "tst-COMMON", "tst-phrases": "tst-COMMON"}


@dataclass(frozen=True)
class Settings:
    """The contents and sizes of what is written: pairs are (source, target); `parts` is where unfinished work lies.

    World 2 only: `pair_sizes` are numbers of training sentences of pairs with another one than `text`, `wide` the pairs
    whose training text has all phrasings; both name a pair in alphabetical order, de-en.
    """

    root: Path
    parts: Path
    languages: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    sizes: dict[str, int]
    seed: int
    world: World
    pair_sizes: Mapping[str, int] = field(default_factory=dict)
    wide: tuple[str, ...] = ()

    @property
    def first_pairs(self) -> list[tuple[str, str]]:
        """One pair for each source language, in order."""
        return list({source: (source, target) for source, target in reversed(self.pairs)}.values())[::-1]


class Writer(Protocol):
    """A layout: the recordings that it needs, and then its text files."""

    def __init__(self, *, settings: Settings) -> None: ...

    def recordings(self) -> Iterator[Recording]:
        """The sound files, in a fixed order."""

    def finish(self) -> None:
        """Write what is not sound; every recording is there."""


def write_lines(path: Path, lines: list[str]) -> None:
    """Write a text file at once, or not at all."""
    with replaced_file(path) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_references(file: Path, references: list[list[str]]) -> None:
    """Write further references beside a file of sentences, FILE.1, FILE.2, ...; as many of each line, perhaps none."""
    for number, texts in enumerate(zip(*references, strict=True), start=1):
        write_lines(file.with_name(f"{file.name}.{number}"), list(texts))


@dataclass(frozen=True)
class Talk:
    """Consecutive utterances of one voice in one sound file."""

    number: int
    variant: str
    sayings: tuple[Any, ...]


def talks(split: str, size: int, seed: int, world: World) -> list[Talk]:
    """The talks of a split of the MuST-C layout: what is said, by whom. The same whatever the languages."""
    generator = randomness(seed, "talks", split)
    variants = list(voices.UNSEEN_VOICES if split in NEW_VOICES else voices.SEEN_VOICES)
    generator.shuffle(variants)
    sayings = world.draw(split, size, randomness(seed, "sayings", SAME_MEANINGS.get(split, split)))
    drawn: list[Talk] = []
    start = 0
    while start < size:
        length = TALK[0] + int(generator.random() * (TALK[1] - TALK[0] + 1))
        number = FIRST_TALK[split] + len(drawn)
        drawn.append(Talk(number, variants[len(drawn) % len(variants)], tuple(sayings[start : start + length])))
        start += length
    return drawn


class MustCWriter:
    """ROOT/<src>-<tgt>/data/<split>/{wav/ted_N.wav, txt/<split>.yaml, txt/<split>.<src>, txt/<split>.<tgt>}.

    The same sayings for all pairs; a talk is spoken once a source language, and copied to that language's other pairs.
    World 2 adds wav/ted_N.words.tsv (where the voice says which word) and txt/<split>.<tgt>.1, .2 (further references).
    """

    def __init__(self, *, settings: Settings) -> None:
        self.settings = settings
        self.world = settings.world
        self.talks = {
            split: talks(split, settings.sizes[split], settings.seed, settings.world)
            for split in settings.world.splits
            if split in settings.sizes
        }

    def recordings(self) -> Iterator[Recording]:
        """One a talk and source language; it belongs to the first pair with that source."""
        for source, target in self.settings.first_pairs:
            for split, split_talks in self.talks.items():
                for talk in split_talks:
                    yield self._recording(source, target, split, talk)

    def _recording(self, source: str, target: str, split: str, talk: Talk) -> Recording:
        wav = self._folder(source, target, split) / "wav" / f"ted_{talk.number}.wav"
        return Recording(
            name=f"{self.settings.seed}|mustc|{source}|{split}|{talk.number}",
            path=str(wav),
            spans=str(self.settings.parts / f"mustc-{source}-{split}-{talk.number}.json"),
            language=source,
            variant=talk.variant,
            texts=tuple(self.world.sentence(saying, source) for saying in talk.sayings),
            words=str(wav.with_suffix(".words.tsv")) if self.world.number == 2 else "",
        )

    def _folder(self, source: str, target: str, split: str) -> Path:
        return self.settings.root / f"{source}-{target}" / "data" / split

    def finish(self) -> None:
        """Write the texts of every pair, and the talks of pairs whose source another pair has already spoken."""
        spoken = {Path(recording.path): recording for recording in self.recordings()}
        by_source = {(r.language, Path(r.path).name): path for path, r in spoken.items()}
        for source, target in self.settings.pairs:
            for split, split_talks in self.talks.items():
                folder = self._folder(source, target, split)
                segments: list[str] = []
                for talk in split_talks:
                    wav = folder / "wav" / f"ted_{talk.number}.wav"
                    original = by_source[source, wav.name]
                    if original != wav and not wav.exists():
                        self._copy(original.with_suffix(".words.tsv"), wav.with_suffix(".words.tsv"))
                        self._copy(original, wav)
                    segments += self._segments(talk, spoken[original])
                sayings = [saying for talk in split_talks for saying in talk.sayings]
                write_lines(folder / "txt" / f"{split}.yaml", segments)
                for language in (source, target):
                    file = folder / "txt" / f"{split}.{language}"
                    write_lines(file, [self.world.sentence(saying, language) for saying in sayings])
                    if split != "train":
                        write_references(file, [self.world.references(saying, language) for saying in sayings])

    def _copy(self, original: Path, copy: Path) -> None:
        if original.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            temporary = self.settings.parts / f"{copy.parents[3].name}-{copy.name}"
            shutil.copyfile(original, temporary)
            os.replace(temporary, copy)

    @staticmethod
    def _segments(talk: Talk, recording: Recording) -> list[str]:
        speaker = 1 + (voices.SEEN_VOICES + voices.UNSEEN_VOICES).index(talk.variant)
        return [
            f"- {{duration: {length / voices.RATE:.6f}, offset: {start / voices.RATE:.6f}, rW: {len(text.split())}, "
            f"uW: 0, speaker_id: spk.{speaker}, wav: ted_{talk.number}.wav}}"
            for text, (start, length) in zip(recording.texts, spans(recording), strict=True)
        ]


class CovostWriter:
    """ROOT/covost2/<src>/{validated.tsv, covost_v2.<src>_<tgt>.tsv, clips/common_voice_<src>_N.mp3}.

    CoVoST 2 has one test split: it is drawn like MuST-C's tst-COMMON (other sayings of the same share of frames).
    """

    SPLITS = {"train": "train", "dev": "dev", "test": "tst-COMMON"}
    HEADER = ("client_id", "path", "sentence", "up_votes", "down_votes", "age", "gender", "accent")

    def __init__(self, *, settings: Settings) -> None:
        self.settings = settings
        self.world = settings.world
        self.clips: list[tuple[str, str, Any]] = []  # split, variant, saying
        for split, like in self.SPLITS.items():
            generator = randomness(settings.seed, "clips", split)
            for saying in self.world.draw(like, settings.sizes[like], randomness(settings.seed, "covost2", split)):
                variant = voices.SEEN_VOICES[int(generator.random() * len(voices.SEEN_VOICES))]
                self.clips.append((split, variant, saying))

    def _folder(self, source: str) -> Path:
        return self.settings.root / "covost2" / source

    def recordings(self) -> Iterator[Recording]:
        """One a clip and source language."""
        for source, _ in self.settings.first_pairs:
            for number, (_, variant, saying) in enumerate(self.clips, start=1):
                yield Recording(
                    name=f"{self.settings.seed}|covost2|{source}|{number}",
                    path=str(self._folder(source) / "clips" / self._clip(source, number)),
                    spans=str(self.settings.parts / f"covost2-{source}-{number}.json"),
                    language=source,
                    variant=variant,
                    texts=(self.world.sentence(saying, source),),
                )

    @staticmethod
    def _clip(source: str, number: int) -> str:
        return f"common_voice_{source}_{number}.mp3"

    def finish(self) -> None:
        """Write validated.tsv of every source language and the translations of every pair."""
        for source, _ in self.settings.first_pairs:
            rows = ["\t".join(self.HEADER)]
            for number, (_, variant, saying) in enumerate(self.clips, start=1):
                client = hashlib.sha512(variant.encode()).hexdigest()
                text = self.world.sentence(saying, source)
                rows.append("\t".join([client, self._clip(source, number), text, "2", "0", "", "", ""]))
            write_lines(self._folder(source) / "validated.tsv", rows)
        for source, target in self.settings.pairs:
            rows = ["path\ttranslation\tsplit"]
            for number, (split, _, saying) in enumerate(self.clips, start=1):
                rows.append("\t".join([self._clip(source, number), self.world.sentence(saying, target), split]))
            write_lines(self._folder(source) / f"covost_v2.{source}_{target}.tsv", rows)


class TextWriter:
    """A layout without sound."""

    def __init__(self, *, settings: Settings) -> None:
        self.settings = settings

    def recordings(self) -> Iterator[Recording]:
        """None: it is text."""
        return iter(())


class MosesWriter(TextWriter):
    """World 1. ROOT/text/{train,dev,test}.<language>: line n of every language says the same.

    `text` is the size of train; dev and test are as large as dev and tst-COMMON, and are drawn like them.
    """

    def finish(self) -> None:
        """Write every split in every language."""
        for split, like, size in (
            ("train", "train", "text"),
            ("dev", "dev", "dev"),
            ("test", "tst-COMMON", "tst-COMMON"),
        ):
            sayings = draw(like, self.settings.sizes[size], randomness(self.settings.seed, "text", split))
            for language in self.settings.languages:
                texts = [sentence(saying, language) for saying in sayings]
                write_lines(self.settings.root / "text" / f"{split}.{language}", texts)


class MonolingualWriter(TextWriter):
    """World 1. ROOT/monolingual/{train,dev}.<language>: texts of each language that do not translate those of another.

    `text` is the size of train; dev is as large as dev, and drawn like it.
    """

    def finish(self) -> None:
        """Write every split in every language."""
        for split, size in (("train", self.settings.sizes["text"]), ("dev", self.settings.sizes["dev"])):
            for language in self.settings.languages:
                sayings = draw(split, size, randomness(self.settings.seed, "monolingual", language, split))
                texts = [sentence(saying, language) for saying in sayings]
                write_lines(self.settings.root / "monolingual" / f"{split}.{language}", texts)
