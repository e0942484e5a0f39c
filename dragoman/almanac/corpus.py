"""Almanac, the embedded corpus: a small made-up world in several languages, written in the layouts of real corpora.

It is synthetic and a closed domain. Its use is that every method runs, and can be compared, in minutes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.almanac.audio_writers import LibriLightWriter
from dragoman.almanac.studio import Studio
from dragoman.almanac.text_writers import DocumentsWriter, LexiconWriter, PairsWriter, WideWriter
from dragoman.almanac.worlds import WORLDS
from dragoman.almanac.writers import CovostWriter, MonolingualWriter, MosesWriter, MustCWriter, Settings, Writer
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.files import locked, replaced_file

VERSION = 1  # raise it when the same settings give other bytes
DOCUMENTS_VERSION = 2  # likewise, of a corpus with documents
SIZES = {"train": 2000, "dev": 200, "tst-COMMON": 300, "tst-HE": 300, "text": 10_000}
SECOND_SIZES = {
    "train": 2000, "dev": 200, "tst-COMMON": 1000, "tst-HE": 1000,
    "text": 10_000, "monolingual": 12_000, "test": 1000, "documents": 1000, "audio": 4000,
}  # fmt: skip
OPTIONAL_SIZES = ("tst-voices", "tst-phrases")  # of world 2: splits that are there when their size is given
LAYOUTS: dict[int, dict[str, type[Writer]]] = {
    1: {"mustc": MustCWriter, "covost2": CovostWriter, "moses": MosesWriter, "monolingual": MonolingualWriter},
    2: {
        "mustc": MustCWriter,
        "covost2": CovostWriter,
        "moses": PairsWriter,
        "monolingual": WideWriter,
        "documents": DocumentsWriter,
        "lexicons": LexiconWriter,
        "librilight": LibriLightWriter,
    },
}


class Almanac:
    """The corpus of one seed and world (worlds.py), to be written under `root`.

    `pairs` are the (source, target) directions of the speech layouts; `sizes` (sentences a split) overrides SIZES, in
    world 2 SECOND_SIZES; `layouts` are of LAYOUTS; `workers` speaking processes, 0 for one a processor. Same settings,
    same bytes: `workers` changes nothing, and a larger size keeps the sentences of a smaller one. World 2 only:
    `pair_sizes` are training sentences of single pairs in the layout moses, and the training text of `wide` pairs has
    all phrasings; both name a pair in alphabetical order, de-en.

    Raises UsageError for a language, pair, size or layout that there is not.
    """

    def __init__(
        self,
        *,
        root: str | Path,
        languages: Sequence[str] = ("en", "de", "fr", "tr"),
        pairs: Sequence[Sequence[str]] = (("en", "de"),),
        sizes: Mapping[str, int] | None = None,
        seed: int = 1,
        layouts: Sequence[str] = ("mustc", "covost2", "moses"),
        workers: int = 0,
        world: int = 1,
        pair_sizes: Mapping[str, int] | None = None,
        wide: Sequence[str] = (),
    ) -> None:
        self.root = Path(root).absolute()
        self.languages = tuple(languages)
        self.pairs = tuple(_pair(pair, self.languages) for pair in pairs)
        if world not in WORLDS:
            raise UsageError(f"almanac has the worlds {', '.join(map(str, WORLDS))}, not {world!r}")
        self.world = world
        known_sizes = SIZES if world == 1 else SECOND_SIZES
        self.sizes = {**known_sizes, **(sizes or {})}
        self.pair_sizes = dict(pair_sizes or {})
        self.wide = tuple(wide)
        self.seed = seed
        self.layouts = tuple(layouts)
        self.workers = workers
        _known("language", self.languages, WORLDS[world].languages)
        _known("size", self.sizes, (*known_sizes, *(OPTIONAL_SIZES if world == 2 else ())))
        _known("layout", self.layouts, LAYOUTS[world])
        self._check_pair_names()
        for name, size in (self.sizes | self.pair_sizes).items():
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise UsageError(f"almanac: the size of {name} must be a whole number of sentences >= 1, not {size!r}")
        if not isinstance(seed, int) or isinstance(seed, bool):
            raise UsageError(f"almanac: seed must be a whole number, not {seed!r}")
        if workers < 0:
            raise UsageError(f"almanac: workers must be 0 (as many as there are processors) or more, not {workers!r}")

    def _check_pair_names(self) -> None:
        """Raise UsageError for `pair_sizes` and `wide` of pairs that there are not."""
        names = ["-".join(sorted(pair)) for pair in self.pairs]
        for name in (*self.pair_sizes, *self.wide):
            if self.world == 1 or name not in names:
                there = f"has the pairs {', '.join(names)}" if self.world == 2 else "1 has no settings of single pairs"
                raise UsageError(f"almanac: pair {name!r}: world {there}")

    @property
    def marker(self) -> Path:
        """The file that holds the settings, and says when all is written."""
        return self.root / "almanac.json"

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that the bytes on disk depend on, as plain data."""
        second = {"world": 2, "pair_sizes": dict(sorted(self.pair_sizes.items())), "wide": sorted(self.wide)}
        return {
            "version": DOCUMENTS_VERSION if "documents" in self.layouts else VERSION,
            "languages": list(self.languages),
            "pairs": [list(pair) for pair in self.pairs],
            "sizes": dict(sorted(self.sizes.items())),
            "seed": self.seed,
            "layouts": list(self.layouts),
            **(second if self.world == 2 else {}),
        }

    @property
    def fingerprint(self) -> str:
        """A hash of the settings."""
        return hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()[:16]

    def write(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Write the corpus; what an interrupted call has left is completed, a finished one is not touched.

        Of several processes that are asked for the same folder at once, one writes it and the others wait.

        `progress(done, total)` hears of utterances spoken.

        Raises DataError when `root` holds something else, a package of the extra `demo` is missing, a split is asked
        to be larger than its frames allow, or eSpeak NG refuses something.
        """
        with locked(self.root.parent / f".{self.root.name}.lock"):
            if not self._finished():
                self._write(progress)

    def _write(self, progress: Callable[[int, int], None] | None) -> None:
        parts = self.root / ".almanac"
        writers = [
            LAYOUTS[self.world][layout](
                settings=Settings(
                    root=self.root,
                    parts=parts,
                    languages=self.languages,
                    pairs=self.pairs,
                    sizes=self.sizes,
                    seed=self.seed,
                    world=WORLDS[self.world],
                    pair_sizes=self.pair_sizes,
                    wide=self.wide,
                )
            )
            for layout in self.layouts
        ]
        recordings = [recording for writer in writers for recording in writer.recordings()]
        self._mark(finished=False)
        parts.mkdir(exist_ok=True)
        done, total = 0, sum(len(recording.texts) for recording in recordings)
        with Studio(workers=self.workers) as studio:
            for recording in studio.record(recordings):
                done += len(recording.texts)
                if progress is not None:
                    progress(done, total)
        for writer in writers:
            writer.finish()
        shutil.rmtree(parts)
        self._mark(finished=True)

    def _finished(self) -> bool:
        if not self.marker.exists():
            if self.root.exists() and any(self.root.iterdir()):
                raise DataError(f"{self.root}: not empty, and no almanac.json says that Almanac wrote it")
            return False
        try:
            marker = json.loads(self.marker.read_text(encoding="utf-8"))
            settings, finished = marker["settings"], marker["finished"]
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise DataError(f"{self.marker}: not a file that Almanac wrote ({error!r})") from error
        for key, value in self.settings.items():
            if settings.get(key) != value:
                raise DataError(
                    f"{self.marker}: written with {key}={json.dumps(settings.get(key))}, "
                    f"asked for is {json.dumps(value)}; choose another folder or remove this one"
                )
        return bool(finished)

    def _mark(self, *, finished: bool) -> None:
        content = {"fingerprint": self.fingerprint, "settings": self.settings, "finished": finished}
        with replaced_file(self.marker) as temporary:
            temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _pair(pair: Sequence[str], languages: tuple[str, ...]) -> tuple[str, str]:
    if isinstance(pair, str) or len(pair) != 2 or pair[0] == pair[1] or not set(pair) <= set(languages):
        raise UsageError(f"almanac: a pair is two different ones of the languages {', '.join(languages)}, not {pair!r}")
    return pair[0], pair[1]


def _known(what: str, given: Sequence[str] | Mapping[str, Any], names: Collection[str]) -> None:
    if not given or len(set(given)) != len(given):
        raise UsageError(f"almanac: every {what} once, and at least one, not {list(given)!r}")
    for name in given:
        if name not in names:
            raise UsageError(f"almanac has no {what} {name!r}; it has {', '.join(names)}")
