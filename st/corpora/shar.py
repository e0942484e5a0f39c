"""Shar, the tar files of lhotse, local or by URI, read without lhotse: cuts beside the sound of each.

The layout, as ``CutSet.to_shar`` writes it with ``fields={"recording": "flac"}``::

    {root}/cuts.000000.jsonl.gz, {root}/recording.000000.tar, ...      or {root}/train/cuts.000000.jsonl.gz ...

Cut n of a file is member n of the tar file of its number, which has the cut's id and, behind it, what is known of the
recording. Rows are made of cuts as by the reader ``lhotse``. The sound stays in the tar files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from dragoman.shared.errors import DataError
from dragoman.shared.machine.remote import files_in, local_copy, located, uri_of
from dragoman.shared.preparing.reader import SourceRow
from dragoman.shared.preparing.split_files import chosen_splits
from dragoman.shared.text import languages
from dragoman.shared.text.lines import Unusable
from dragoman.st.corpora.json_lines import Record, read_json_lines
from dragoman.st.corpora.lhotse import Lhotse
from dragoman.st.corpora.tar_members import SOUNDS, Entry, members

#: Endings of members that stand behind the sound of a cut.
_BEHIND = (".json", ".nometa")


class Shar(Lhotse):
    """Reads lhotse's Shar."""

    name = "shar"

    def __init__(
        self,
        *,
        root: str | Path,
        source_language: str | None = None,
        target_language: str | None = None,
        translation: str = "translation",
        splits: list[str] | None = None,
    ) -> None:
        """Look for the files.

        Args:
            root: a folder, or where it lies, by URI.
            source_language: of all supervisions that do not say theirs.
            target_language: of the translations; None reads none.
            translation: the key in ``custom``.
            splits: some of the folders, each a split; None means all.

        Raises:
            DataError: if cuts have no tar file, or a code is unknown.
        """
        self._source = source_language
        self._target = target_language
        languages.check_given(source_language, target_language)
        self._translation = translation
        self._pairs: dict[str, list[tuple[Path, Path]]] = {}
        place = located(root)
        tars = {*files_in(place, "recording.*.tar", "*/recording.*.tar")}
        for cuts in files_in(place, "cuts.*.jsonl.gz", "cuts.*.jsonl", "*/cuts.*.jsonl.gz", "*/cuts.*.jsonl"):
            tar = cuts.with_name(f"recording.{cuts.name.split('.')[1]}.tar")
            if tar not in tars:
                raise DataError(f"{cuts}: there is no {tar.name} beside it")
            self._pairs.setdefault(cuts.parent.name, []).append((cuts, tar))
        read = {tar for pairs in self._pairs.values() for _, tar in pairs}
        if lost := sorted(tars - read):
            raise DataError(f"{lost[0]}: there are no cuts beside it")
        if not self._pairs:
            raise DataError(f"{root}: neither cuts.*.jsonl.gz beside recording.*.tar nor folders with such")
        self._splits = chosen_splits(root, self._pairs, splits)

    def inputs(self, split: str) -> list[Path]:
        """Return the files with cuts, and the tar files."""
        return [path for pair in self._pairs[split] for path in pair]

    def rows(self, split: str) -> Iterator[SourceRow | Unusable]:
        """Go through the cuts of all files, and the places of their sound."""
        for cuts, tar in self._pairs[split]:
            uri = uri_of(cuts)
            sounds = (entry for entry in members(tar) if not entry.name.endswith(_BEHIND))
            for line, record in read_json_lines(cuts if uri is None else local_copy(uri)):
                entry = next(sounds, None)
                if isinstance(record, Unusable):
                    yield record
                    continue
                name = str(record.get("id") or "")
                if entry is None:
                    raise DataError(f"{cuts}, line {line}: cut {name!r} has no member in {tar.name}, which ends before")
                if PurePosixPath(entry.name).with_suffix("") != PurePosixPath(name):
                    raise DataError(f"{tar}: member {entry.name!r} stands where the sound of cut {name!r} is expected")
                try:
                    for row in self._rows(_placed(record, entry), cuts.parent):
                        yield SourceRow(row, file=cuts, line=line)
                except DataError as error:
                    yield Unusable(str(error), cuts, line, name)
            if (entry := next(sounds, None)) is not None:
                raise DataError(f"{tar}: member {entry.name!r} has no cut in {cuts.name}, which ends before")


def _placed(cut: Record, entry: Entry) -> Record:
    """Return a cut whose recording is the member of a tar file."""
    ending = PurePosixPath(entry.name).suffix.lower()
    wrong = "without sound" if ending == ".nodata" else entry.wrong
    if wrong is None and ending not in SOUNDS:
        wrong = f"none of {', '.join(SOUNDS)}"
    if wrong is not None:
        raise DataError(f"member {entry.name!r} is {wrong}")
    recording = cut.get("recording")
    recording = recording if isinstance(recording, dict) else {}
    sources = recording.get("sources")
    if not isinstance(sources, list) or len(sources) != 1 or not isinstance(sources[0], dict):
        raise DataError("recording has not one source")
    source = sources[0] | {"type": "file", "source": str(entry.place)}
    return cut | {"recording": recording | {"sources": [source]}}
