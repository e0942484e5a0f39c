"""The phase that finds phrases that translate each other in sentence pairs whose words are linked."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from hashlib import blake2b

import numpy as np
import pyarrow as pa

from dragoman.shared.batches.find import find_manifests
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.errors import DataError
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases.aligning import AddColumns
from dragoman.shared.phases.evaluating import opened
from dragoman.shared.phases.linking import LINKS, keys
from dragoman.shared.ranges import PositiveInt
from dragoman.shared.text.normalise import Normalizer, apply
from dragoman.shared.text.phrase_pairs import PHRASES, PhrasePair, phrase_pairs
from dragoman.shared.text.word_links import read
from dragoman.shared.text.word_spans import linked_words

PHRASES_TYPE = pa.list_(pa.list_(pa.int32(), 4))


class ExtractPhrases(AddColumns):
    """Find the phrases of each text that have a counterpart in its translation, by links between words (AlignWords).

    Adds the columns ``source_phrases`` and ``target_phrases``: for each phrase of that text where it begins and ends,
    and where its counterpart does, in words of ``linked_words``; None for a row without links. Of several counterparts
    in the sentence pair, the one counts that has the highest probability in the phrase table, which is the one with
    which the phrase is found most often: p(t | s) = c(s, t) / c(s). Of equal ones, it is the shortest. Phrases are
    compared as aligners see words: in lower case, without the signs at their ends.

    Memory: 24 bytes for each phrase pair of ``pairs`` while they are counted; a sentence of 20 words that is translated
    word by word has 74.

    Args:
        manifests: with the column ``word_links``; see :class:`AddColumns`.
        pairs: likewise; those whose phrases make the table.
        normalizers: changes to the texts of each column before they are divided, those of ``AlignWords``.
        longest: the most words of a phrase, on either side.
    """

    columns = dict.fromkeys(PHRASES.values(), PHRASES_TYPE)

    def __init__(
        self,
        *,
        manifests: list[str],
        pairs: list[str],
        normalizers: dict[str, list[Normalizer]] | None = None,
        longest: PositiveInt = 4,
    ) -> None:
        super().__init__(manifests=manifests, further=pairs)
        self.pairs = list(pairs)
        self.normalizers = dict(normalizers or {})
        self.longest = longest

    def begin(self, workspace: Workspace) -> None:
        """Count the phrase pairs.

        Raises:
            DataError: if a manifest has no links.
        """
        numbers = array("Q")
        for path in find_manifests(self.pairs):
            for row in opened(path, workspace):
                numbers.extend(number for _, number in self._numbered(row))
        self._numbers, self._counts = np.unique(np.array(numbers, dtype=np.uint64), return_counts=True)
        workspace.log.info("%s: %d phrase pairs, %d different", workspace.phase, len(numbers), len(self._numbers))

    def rows(self, manifest: Manifest, workspace: Workspace) -> Iterator[Row]:
        """Yield the rows with their phrases."""
        rows = phrases = 0
        for row in manifest:
            numbered = self._numbered(row)
            new: dict[str, list[list[int]] | None] = dict.fromkeys(PHRASES.values())
            if row[LINKS] is not None:
                counts = self._counted([number for _, number in numbered])
                pairs = [pair for pair, _ in numbered]
                turned = [PhrasePair(*pair[2:], *pair[:2]) for pair in pairs]
                new = {PHRASES["source"]: best(pairs, counts), PHRASES["target"]: best(turned, counts)}
                rows, phrases = rows + 1, phrases + len(new[PHRASES["source"]] or [])
            yield row | new
        workspace.log.info(
            "%s: %s: %d source phrases in %d sentence pairs", workspace.phase, manifest.path, phrases, rows
        )

    def _numbered(self, row: Row) -> list[tuple[PhrasePair, int]]:
        """Return a row's phrase pairs, and a number for the words of each."""
        if LINKS not in row:
            raise DataError(f"row {row['id']!r} has no column {LINKS}: AlignWords adds it")
        if row[LINKS] is None:
            return []
        source, target = self._words(row, "source"), self._words(row, "target")
        links = read(row[LINKS])
        wrong = next((link for link in links if link[0] >= len(source) or link[1] >= len(target)), None)
        if wrong:
            raise DataError(
                f"row {row['id']!r}: {wrong[0]}-{wrong[1]} links a word that is not there: the texts have "
                f"{len(source)} and {len(target)} words"
            )
        languages = f"{row['source_language']}\t{row['target_language']}"
        numbered = []
        for pair in phrase_pairs(links, len(source), len(target), self.longest):
            a, b, c, d = pair
            text = f"{languages}\t{' '.join(source[a:b])}\t{' '.join(target[c:d])}"
            # 64 bits of a hash: texts of a large corpus would not fit into memory.
            numbered.append((pair, int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")))
        return numbered

    def _words(self, row: Row, side: str) -> list[str]:
        language = row[f"{side}_language"]
        text = apply(self.normalizers.get(f"{side}_text", []), row[f"{side}_text"] or "", language)
        return keys([text[start:end] for start, end in linked_words(text, language)], language)

    def _counted(self, numbers: Sequence[int]) -> list[int]:
        """Return how often phrase pairs occur in the table; 0 for those that it lacks."""
        if not numbers or not len(self._numbers):
            return [0] * len(numbers)
        asked = np.array(numbers, dtype=np.uint64)
        places = np.searchsorted(self._numbers, asked).clip(max=len(self._numbers) - 1)
        return np.where(self._numbers[places] == asked, self._counts[places], 0).tolist()


def best(pairs: Sequence[PhrasePair], counts: Sequence[int]) -> list[list[int]]:
    """Return each phrase with the counterpart of the highest count; of equal ones the shortest, then the first."""
    by_span: dict[tuple[int, int], tuple[tuple[int, int, int], PhrasePair]] = {}
    for pair, count in zip(pairs, counts, strict=True):
        start, end = pair[2:]
        rank = -count, end - start, start
        rival = by_span.get(pair[:2])
        if rival is None or rank < rival[0]:
            by_span[pair[:2]] = rank, pair
    return [list(by_span[span][1]) for span in sorted(by_span)]
