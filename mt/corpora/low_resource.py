r"""A low-resource setting cut out of a corpus in many languages, as plain files: few pairs of some, text, lexicons.

What pre-training is for is measured where pairs are few and there is more text that is not parallel. This takes such a
setting from any reader of parallel text whose rows name their ``document``. By a hash of its name, each document of
training belongs to one of three groups; pairs, and the text of two languages, are from different ones::

    {root}/text/{split}.{code}-{pivot}.{code}      Moses: all pairs of the pivot with each language; of the languages in
    {root}/text/{split}.{code}-{pivot}.{pivot}     ``few`` a sample of the first group (20 %) for training
    {root}/monolingual/{split}.{code}              documents, with a blank line between them: the second group (40 %);
                                                   of the pivot the third, less translations of the text in the first
                                                   language with few pairs
    {root}/lexicons/{one}-{other}.txt              MUSE's layout, most frequent words first

dev and test are whole, in both. A lexicon has of each word that occurs at least twice the best translation by a model
of all pairs of training (``shared/text/word_aligner.py``), where that holds in both directions: it stands for the
dictionary which a low-resource language may have, and knows more than the few pairs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dragoman.shared.annotations import Checked
from dragoman.shared.batches.manifest import Row
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.files import locked, replaced_folder
from dragoman.shared.preparing.held_out import DEV, TEST, TRAIN, hashed
from dragoman.shared.preparing.reader import Corpus, place
from dragoman.shared.ranges import PositiveInt
from dragoman.shared.text.case import lower
from dragoman.shared.text.languages import check
from dragoman.shared.text.lines import Unusable
from dragoman.shared.text.word_aligner import DirectedAligner
from dragoman.shared.text.word_spans import words

#: Documents are in so many parts; the first of them are for few pairs, and from the third on for text.
PARTS, FEW, TEXT, PIVOT = 10, range(2), range(2, 6), range(6, 10)
#: Passes of EM for a lexicon, half of them of IBM model 1.
PASSES = 6
MARKER = "low_resource.json"
#: Source and target of a row, and its document.
Pair = tuple[str, str, str]


class LowResource(Checked):
    """Writes a setting.

    Args:
        root: the folder for it.
        reader: makes a reader of a ``source_language`` and a ``target_language``, with splits train, dev and test.
        pivot: the language that all are paired with.
        languages: the others.
        few: those of them with few pairs.
        pairs: of each of these, for training; None means all.
        lexicons: whether to write them; a folder that has them serves who needs none.

    Raises:
        UsageError: for a language that is named twice, is not known, or is not one of ``languages``.
    """

    def __init__(
        self,
        *,
        root: str | Path,
        reader: Callable[..., Corpus],
        pivot: str,
        languages: Sequence[str],
        few: Sequence[str],
        pairs: PositiveInt | None,
        lexicons: bool = True,
    ) -> None:
        self.root = Path(root)
        self.pivot = check(pivot)
        self.languages = [check(code) for code in languages]
        self.few = list(few)
        self.pairs = pairs
        self.lexicons = lexicons
        self._reader = reader
        if len({pivot, *languages}) < 1 + len(languages):
            raise UsageError(f"languages {', '.join([pivot, *languages])}: each must be named once")
        if other := [code for code in few if code not in languages]:
            raise UsageError(f"few: {', '.join(other)}: not one of the languages {', '.join(languages)}")

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that the files depend on, beside the corpus."""
        names = ("pivot", "languages", "few", "pairs", *(() if self.lexicons else ("lexicons",)))
        return {name: getattr(self, name) for name in names}

    def write(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Write all; what is complete stays, and of several processes one writes while the others wait.

        Args:
            progress: hears of languages done, and of all.

        Raises:
            DataError: if the folder holds something else, a row has no document, or there are fewer pairs than asked.
        """
        with locked(self.root.parent / f".{self.root.name}.lock"):
            if self._is_there():
                return
            with replaced_folder(self.root) as folder:
                for name in ("text", "monolingual", *(("lexicons",) if self.lexicons else ())):
                    (folder / name).mkdir(parents=True)
                for done, code in enumerate(sorted(self.languages, key=lambda code: code not in self.few), 1):
                    self._write_language(folder, code, first=done == 1)
                    if progress is not None:
                        progress(done, len(self.languages))
                (folder / MARKER).write_text(json.dumps(self.settings, indent=2) + "\n", encoding="utf-8")

    def _is_there(self) -> bool:
        """Tell whether the folder holds the setting."""
        marker = self.root / MARKER
        if not marker.is_file():
            if self.root.exists() and any(self.root.iterdir()):
                raise DataError(f"{self.root}: not empty, and no {MARKER} says what it holds")
            return False
        try:
            found = json.loads(marker.read_text(encoding="utf-8"))
        except ValueError as error:
            raise DataError(f"{marker}: not JSON ({error})") from error
        if found not in (self.settings, {key: value for key, value in self.settings.items() if key != "lexicons"}):
            raise DataError(f"{self.root}: written with {found}, asked for is {self.settings}: choose another folder")
        return True

    def _write_language(self, folder: Path, code: str, *, first: bool) -> None:
        """Write the pairs of a language with the pivot, its text, its lexicons, and with the first the pivot's text."""
        reader = self._reader(source_language=code, target_language=self.pivot)
        for split in (TRAIN, DEV, TEST):
            rows = [_pair(row, reader) for row in reader.rows(split)]
            parallel = self._sample(rows, code) if split == TRAIN and code in self.few else rows
            for side, name in enumerate((code, self.pivot)):
                lines = [pair[side] for pair in parallel]
                _write(folder / "text" / f"{split}.{code}-{self.pivot}.{name}", lines)
                if name == code or first:
                    text = rows if split != TRAIN else self._text(rows, name)
                    _write(folder / "monolingual" / f"{split}.{name}", _documents(text, side))
            if split == TRAIN and self.lexicons:
                self._write_lexicons(folder / "lexicons", rows, code)

    def _text(self, rows: Sequence[Pair], code: str) -> list[Pair]:
        """Return the pairs of training whose side in a language is its text."""
        of_code, of_pivot = ([pair for pair in rows if hashed(pair[2]) % PARTS in group] for group in (TEXT, PIVOT))
        if code != self.pivot:
            return of_code
        there = {pair[0] for pair in of_code}
        translations = {pair[1] for pair in rows if pair[0] in there}
        return [pair for pair in of_pivot if pair[1] not in translations]

    def _sample(self, rows: Sequence[Pair], code: str) -> list[Pair]:
        """Return the pairs of a language that has few: those of lowest hash, so that more pairs hold the fewer."""
        if self.pairs is None:
            return list(rows)
        there = [pair for pair in rows if hashed(pair[2]) % PARTS in FEW]
        if len(there) < self.pairs:
            raise DataError(f"{code}-{self.pivot}: {len(there)} pairs in a fifth of the documents, not {self.pairs}")
        chosen = set(sorted(there, key=lambda pair: hashed("\n".join(pair)))[: self.pairs])
        return [pair for pair in there if pair in chosen]

    def _write_lexicons(self, folder: Path, rows: Sequence[Pair], code: str) -> None:
        sides = code, self.pivot
        pairs = [(_words(pair[0], code), _words(pair[1], self.pivot)) for pair in rows]
        turned = [(target, source) for source, target in pairs]
        best = [DirectedAligner(each, iterations=PASSES, flat=PASSES // 2).best() for each in (pairs, turned)]
        for side, (here, there) in enumerate((best, best[::-1])):
            counts = Counter(word for pair in pairs for word in pair[side])
            known = [
                word for word, number in counts.most_common() if number > 1 and there.get(here.get(word, "")) == word
            ]
            name = f"{sides[side]}-{sides[1 - side]}.txt"
            _write(folder / name, [f"{word}\t{here[word]}" for word in known])


def _pair(row: Row | Unusable, reader: Corpus) -> Pair:
    """Return what a row says; in a line each, texts have no line breaks."""
    if isinstance(row, Unusable):
        raise DataError(f"{place(row)}{row.reason}")
    if not row.get("document"):
        raise DataError(f"{place(row)}{reader.name} names no document, by which pairs and text are parted")
    source, target, document = (" ".join(str(row[key]).split()) for key in ("source_text", "target_text", "document"))
    return source, target, document


def _words(text: str, language: str) -> list[str]:
    """Return the words of a text in lower case, without signs and numbers."""
    spans = words(text, language)
    return [lower(text[start:end], language) for start, end in spans if text[start:end].isalpha()]


def _documents(pairs: Sequence[Pair], side: int) -> list[str]:
    """Return one side of pairs, with an empty line between documents."""
    lines: list[str] = []
    for before, pair in zip((None, *pairs), pairs, strict=False):
        lines += [""] * (before is not None and before[2] != pair[2])
        lines.append(pair[side])
    return lines


def _write(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
