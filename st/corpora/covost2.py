r"""CoVoST 2 (Wang, Wu and Pino, 2020): Common Voice clips with translations, 36 directions.

The layout: Common Voice (Corpus 4 is what the translations were made for) with the translations beside it::

    {root}/fr/clips/common_voice_fr_17299384.mp3     one sentence each, any rate
    {root}/fr/validated.tsv                          client_id, path, sentence, ... (tabs, no quoting, \ escapes)
    {root}/fr/covost_v2.fr_en.tsv                    path, translation, split

Common Voice is at https://commonvoice.mozilla.org/datasets (with a login; Corpus 4 is among the older ones), the
tables of translations at https://github.com/facebookresearch/covost. Mirrors with the sound inside are read by
``parquet``.

The two tables are joined on ``path``; the splits are train (rows marked train and train_covost), dev and test, as in
the makers' get_covost_splits.py. That script drops silently what the join does not find; here it is an error, as a
missing clip is, unless ``prepare`` is allowed to skip a share of the training rows. Later versions of Common Voice lack
clips whose speakers have taken them back: ``later_version`` leaves those out of every split, and the report has their
number. Scores on such a test set are not those of the published one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from reprlib import repr as shown

from dragoman.shared.errors import DataError
from dragoman.shared.preparing.reader import Reader, SourceRow
from dragoman.shared.text import languages
from dragoman.shared.text.lines import Unusable, read_table
from dragoman.shared.text.quoting import Dialect

INTO_ENGLISH = "fr de es ca it ru zh-CN pt fa et mn nl tr ar sv-SE lv sl ta ja id cy".split()
FROM_ENGLISH = "de tr fa sv-SE mn zh-CN cy ca sl et id ar ta lv ja".split()

_SPLITS = {"train": ("train", "train_covost"), "dev": ("dev",), "test": ("test",)}


class CoVoST2(Reader):
    """Reads one direction of CoVoST 2."""

    name = "covost2"

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str,
        target_language: str = "en",
        splits: list[str] | None = None,
        later_version: bool = False,
    ) -> None:
        """Check the direction and look for its files.

        Args:
            root: the folder that holds ``fr`` and other source languages.
            source_language: a Common Voice code, such as ``fr`` or ``zh-CN``.
            target_language: likewise; one of the two is ``en``.
            splits: some of train, dev and test; None means all.
            later_version: leave out clips that ``validated.tsv`` does not have, and say how many they are.

        Raises:
            DataError: if CoVoST 2 has no such direction or split, or a file is missing.
        """
        if (target_language == "en" and source_language not in INTO_ENGLISH) or (
            target_language != "en" and (source_language != "en" or target_language not in FROM_ENGLISH)
        ):
            raise DataError(
                f"CoVoST 2 has no direction {source_language} to {target_language}; it has {', '.join(INTO_ENGLISH)} "
                f"to en, and en to {', '.join(FROM_ENGLISH)}"
            )
        for split in splits or []:
            if split not in _SPLITS:
                raise DataError(f"CoVoST 2 has no split {split!r}; it has {', '.join(_SPLITS)}")
        self.source_language = languages.check(source_language)
        self.target_language = languages.check(target_language)
        self.folder = f"{source_language}-{target_language}"
        self._later = later_version
        self._splits: list[str] = splits or list(_SPLITS)
        self._home = Path(root).absolute() / source_language
        for path in (*self.inputs(self._splits[0]), self._home / "clips"):
            if not path.exists():
                raise DataError(
                    f"{path}: not there; CoVoST 2 needs validated.tsv and clips/ of Common Voice, by default Corpus 4 "
                    "(https://commonvoice.mozilla.org/datasets, with a login; a later version: --later-version true), "
                    "and the tables of translations (https://github.com/facebookresearch/covost). Mirrors with the "
                    "sound inside: parquet; without either: mtedx or fleurs (docs/data.md)"
                )
        self._tables: tuple[dict[str, tuple[str, str]], dict[str, list[tuple[int, str, str]]]] | None = None

    def inputs(self, split: str) -> list[Path]:
        """Return the two tables."""
        name = f"covost_v2.{self.source_language}_{self.target_language}.tsv"
        return [self._home / name, self._home / "validated.tsv"]

    def count(self, split: str) -> int:
        """Return the number of rows that the table of translations has for the split."""
        return len(self._read()[1][split])

    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through a split in the order of the table of translations; durations are not known yet.

        Raises:
            DataError: if a table is not as it should be.
        """
        translations, validated = self.inputs(split)
        sentences, by_split = self._read()
        passed = self._passed(split, anew=True)
        for line, path, translation in by_split[split]:
            if path not in sentences:
                if self._later:
                    passed[f"clips that are not in {validated.name}"] += 1
                    continue
                reason = f"clip {path} is not in {validated} (a later Common Voice? --later-version true leaves it out)"
                yield Unusable(reason, translations, line, Path(path).stem)
                continue
            speaker, sentence = sentences[path]
            row = {
                "id": Path(path).stem,
                "audio": str(self._home / "clips" / path),
                "start": 0.0,
                "duration": None,
                "source_text": sentence.strip(),
                "source_language": self.source_language,
                "target_text": translation.strip(),
                "target_language": self.target_language,
                "speaker": speaker or None,
                "document": None,
            }
            yield SourceRow(row, file=translations, line=line)

    def _read(self) -> tuple[dict[str, tuple[str, str]], dict[str, list[tuple[int, str, str]]]]:
        """Return (speaker, sentence) by clip, and (line, clip, translation) by split; read once."""
        if self._tables is None:
            translations, validated = self.inputs("")
            by_split: dict[str, list[tuple[int, str, str]]] = {split: [] for split in _SPLITS}
            of_mark = {mark: split for split, marks in _SPLITS.items() for mark in marks}
            lines: dict[str, int] = {}
            for line, cells in _whole_lines(translations, ("path", "translation", "split")):
                path = cells["path"]
                if cells["split"] not in of_mark:
                    raise DataError(
                        f"{translations}, line {line}: unknown split {shown(cells['split'])} of clip {path}"
                    )
                if path in lines:
                    raise DataError(f"{translations}, line {line}: clip {path} is already used in line {lines[path]}")
                lines[path] = line
                by_split[of_mark[cells["split"]]].append((line, path, cells["translation"]))
            sentences: dict[str, tuple[str, str]] = {}
            for line, cells in _whole_lines(validated, ("client_id", "path", "sentence")):
                path, row_cells = cells["path"], (cells["client_id"], cells["sentence"])
                if path in lines and sentences.setdefault(path, row_cells) != row_cells:
                    raise DataError(f"{validated}, line {line}: clip {path} has another sentence before")
            self._tables = sentences, by_split
        return self._tables


def _whole_lines(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """Go through a table of the release, of which no line may be broken: a backslash escapes the next character."""
    for line, cells in read_table(path, columns, Dialect(escape="\\")):
        if isinstance(cells, Unusable):
            raise DataError(str(cells))
        yield line, cells
