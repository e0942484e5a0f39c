"""Two plain files, of which line n of one is the translation of line n of the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from dragoman.shared.batches.manifest import Row
from dragoman.shared.errors import DataError
from dragoman.shared.preparing.reader import SourceRow
from dragoman.shared.text.lines import count_lines, further_references, read_lines


def pair_row(id: str, texts: Sequence[str], codes: Sequence[str], **further: str | None) -> Row:
    """Return the row of a source and a target text in the languages of these codes, and columns of other names."""
    languages = {"source_language": codes[0], "target_language": codes[1]}
    return {**further, "id": id, "source_text": texts[0], "target_text": texts[1], **languages}


def paired_files(source: Path, target: Path) -> list[Path]:
    """Return the files of a pair, further references (``test.de.1``) behind the first."""
    return [source, target, *further_references(target)]


def paired_rows(source_file: Path, target_file: Path, codes: tuple[str, str], prefix: str) -> Iterator[SourceRow]:
    """Go through the sentences of a pair; blank lines are rows too. Ids are the prefix and the number of the line.

    Raises:
        DataError: if the two sides differ in length.
    """
    files = paired_files(source_file, target_file)
    for file in files[1:]:
        counts = count_lines(source_file), count_lines(file)
        if counts[0] != counts[1]:
            first = f"line {min(counts) + 1} has no partner"
            raise DataError(f"{source_file}: {counts[0]} lines, but {file.name} has {counts[1]}: {first}")
    texts = zip(*(read_lines(file, "surrogateescape") for file in files), strict=True)
    for number, (source, target, *further) in enumerate(texts, 1):
        references = {f"target_text_{n}": text.strip() or None for n, text in enumerate(further, 1)}
        row = pair_row(f"{prefix}{number}", (source.strip(), target.strip()), codes, **references)
        yield SourceRow(row, file=source_file, line=number, files={"target_text": target_file})
