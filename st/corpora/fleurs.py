"""FLEURS (Conneau et al. 2022, arXiv 2205.12446): the same 2,009 sentences read in 102 languages, from the Hub.

The layout, as `hf download google/fleurs --repo-type dataset --revision refs/convert/parquet` writes it::

    {root}/de_de/{train,validation,test}/0000.parquet ...     or {root}/de_de/train-00000-of-00003.parquet ...
        id: int, audio: struct<bytes, path>, transcription, raw_transcription, num_samples, gender, ...

A language is found by its code (``de`` is ``de_de``). ``id`` is that of the sentence: up to three recordings have it,
and so has its translation in every other language. A recording whose sentence is missing on the other side (sentences
without a valid recording were dropped language by language) is left out, and the report says how many are. Texts are
those with case and punctuation (``raw_transcription``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from dragoman.shared.errors import DataError
from dragoman.shared.preparing.reader import Reader, SourceRow
from dragoman.shared.sound.shards import Place, check_sound_column, open_shard
from dragoman.shared.text import languages
from dragoman.shared.text.lines import Unusable
from dragoman.st.corpora.parquet import as_text, check_column, read_shard, shards_of

#: Where the corpus comes from, for somebody who has nothing of it.
OBTAINED = "FLEURS: hf download google/fleurs --repo-type dataset --revision refs/convert/parquet (docs/data.md)"

#: Codes of which FLEURS has several languages, or under another name.
_CONFIGS = {"zh": "cmn_hans_cn"}
_TEXT = "raw_transcription"


class Fleurs(Reader):
    """Reads one direction of FLEURS."""

    name = "fleurs"

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str,
        target_language: str = "en",
        splits: list[str] | None = None,
    ) -> None:
        """Look for both languages.

        Args:
            root: the folder that holds ``de_de``, ``en_us`` and others.
            source_language: of the speech and its transcript.
            target_language: of the translation.
            splits: some of train, dev and test; None means all.

        Raises:
            DataError: if a language, a split or a column is not there, or a code is unknown.
        """
        self.source_language = languages.check(source_language)
        self.target_language = languages.check(target_language)
        self.folder = f"{source_language}-{target_language}"
        self._source, self._target = (
            shards_of(_config(Path(root).absolute(), code)) for code in (source_language, target_language)
        )
        both = [split for split in self._source if split in self._target]
        for split in splits or []:
            if split not in both:
                raise DataError(f"{root}: no split {split!r} of {self.folder}; there are {', '.join(both) or 'none'}")
        self._splits = splits or both
        for split in self._splits:
            for path in self._source[split]:
                check_sound_column(path, "audio")
            for path in self.inputs(split):
                check_column(path, "id", "id")
                check_column(path, "text", _TEXT)

    def inputs(self, split: str) -> list[Path]:
        """Return the shards of both languages."""
        return list(dict.fromkeys([*self._source[split], *self._target[split]]))

    def count(self, split: str) -> int:
        """Return the number of recordings, with those that will be left out."""
        return sum(open_shard(path).metadata.num_rows for path in self._source[split])

    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through the recordings of the source language that have a translation."""
        passed = self._passed(split, anew=True)
        translations: dict[str, str] = {}
        for path in self._target[split]:
            for _, cells in read_shard(path, ["id", _TEXT]):
                sentence, text = as_text(cells["id"]), as_text(cells[_TEXT])
                if not sentence or not text:
                    passed[f"rows of {self.target_language} without an id or a text"] += 1
                elif translations.setdefault(sentence, text) != text:
                    passed[f"other texts of a sentence in {self.target_language}"] += 1
        recordings: Counter[str] = Counter()
        for path in self._source[split]:
            for number, cells in read_shard(path, ["id", _TEXT]):
                sentence, text = as_text(cells["id"]), as_text(cells[_TEXT])
                if not sentence or not text:
                    yield Unusable(f"{_TEXT if sentence else 'id'} is empty", path, number + 1, sentence or "")
                    continue
                recordings[sentence] += 1
                if sentence not in translations:
                    passed[f"recordings of a sentence that is not in {self.target_language}"] += 1
                    continue
                row = {
                    "id": f"{sentence}_{recordings[sentence]}",
                    "audio": str(Place(str(path), "audio", number)),
                    "start": 0.0,
                    "duration": None,
                    "source_text": text,
                    "source_language": self.source_language,
                    "target_text": translations[sentence],
                    "target_language": self.target_language,
                    "speaker": None,
                    "document": None,
                }
                yield SourceRow(row, file=path, line=number + 1)


def _config(root: Path, code: str) -> Path:
    """Return the folder of a language."""
    name = _CONFIGS.get(code)
    folders = [root / name] if name else sorted(place for place in root.glob(f"{code}_*") if place.is_dir())
    if len(folders) != 1 or not folders[0].is_dir():
        there = ", ".join(sorted(place.name for place in root.glob("*_*/"))) or "no language"
        wrong = "several folders" if len(folders) > 1 else "no folder"
        raise DataError(f"{root}: {wrong} of {code!r}; it has {there}. {OBTAINED}")
    return folders[0]
