"""Bilingual lexicons: which words of other languages a word may be translated by.

The files have the layout of MUSE's dictionaries (Conneau et al. 2018, arXiv 1710.04087): a line holds a word and one
translation, with a tab between them, or a space if there is no tab; a word with several translations has several lines;
words come in lower case, the most frequent first. Behind a second tab, a line may hold its translation's probability.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from dragoman.shared.annotations import Checked
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.ranges import PositiveInt
from dragoman.shared.text import languages
from dragoman.shared.text.case import capitalised, lower
from dragoman.shared.text.lines import read_lines

#: A word of a language: its code, and the word.
Word = tuple[str, str]

#: Words whose indirect translations are kept once they were looked up.
MOST_KEPT = 1 << 16


class Lexicon(Checked):
    """Translations of words, from one or several files, which :meth:`load` reads.

    Args:
        files: by direction: ``{"en-de": "en-de.txt"}``.
        top: how many words of each file are read: the most frequent, with all of their translations; None: all.
        both_ways: read each file in the other direction, too.
        depth: the largest number of steps: translations of translations count as well, whatever the languages. Of
            lexicons from and to English, depth 2 also leads from German to French. Words of the first one's language
            are left out.
        forms: a folder with a file of words for each language of which there are texts, as these have them most often
            (phase ``CountForms``): what :meth:`written` inserts. In other languages, it is the lexicon's form.

    Raises:
        UsageError: without files, or for a direction that is not of two different languages.
    """

    def __init__(
        self,
        *,
        files: Mapping[str, str],
        top: PositiveInt | None = None,
        both_ways: bool = False,
        depth: PositiveInt = 1,
        forms: str | None = None,
    ) -> None:
        if not files:
            raise UsageError("a lexicon needs at least one file")
        self._files = [(*directed(direction), Path(path)) for direction, path in files.items()]
        self._top = top
        self._both_ways = both_ways
        self._depth = depth
        self._forms_folder = None if forms is None else Path(forms)
        self._forms: dict[str, dict[str, str]] = {}
        self._kept: dict[Word, list[Word]] = {}
        self._probabilities: dict[str, dict[str, list[float]]] = {}
        direct = {(source, target) for source, target, _ in self._files}
        self._direct = direct | {(target, source) for source, target in direct} if both_ways else direct

    @property
    def pairs(self) -> set[tuple[str, str]]:
        """The directions in which words may be translated, (source, target)."""
        entries = set(self._direct)
        for _ in range(self._depth - 1):
            entries |= {(a, d) for a, b in entries for c, d in self._direct if b == c and a != d}
        return entries

    @cached_property
    def _translations(self) -> dict[str, dict[str, list[Word]]]:
        """Direct translations, by language and word; read when they are first asked for."""
        translations: dict[str, dict[str, list[Word]]] = {}

        def add(word: Word, translation: Word, probability: float | None = None) -> None:
            listed = translations.setdefault(word[0], {}).setdefault(word[1], [])
            if translation in listed:
                return
            listed.append(translation)
            if probability is not None:  # beside the translations, in a list of the same order
                named = self._probabilities.setdefault(word[0], {}).setdefault(word[1], [])
                named += [math.nan] * (len(listed) - 1 - len(named)) + [probability]

        for source, target, path in self._files:
            for word, translation, probability in read_entries(path, self._top):
                add((source, word), (target, translation), probability)
                if self._both_ways:
                    add((target, translation), (source, word))
        return translations

    @cached_property
    def _longest(self) -> dict[str, int]:
        return {code: max(map(len, words)) for code, words in self._translations.items()}

    def load(self) -> None:
        """Read the files, which happens else when a word is first looked up.

        Raises:
            DataError: if a file is missing, empty or not UTF-8, or a line has no translation, with file and line; or if
                the folder of forms is missing.
        """
        for language in sorted({target for _, target in self.pairs if self._longest}):
            self._forms_of(language)

    def entries(self, language: str) -> Mapping[str, list[Word]]:
        """Return the words of a language that have translations, with the direct ones, in the order of the files."""
        return self._translations.get(language, {})

    def longest(self, language: str) -> int:
        """Return the characters of its longest word; 0 without words."""
        return self._longest.get(language, 0)

    def candidates(self, word: str, source: str, targets: Collection[str] | None = None) -> list[Word]:
        """Return the translations of a word, with their languages, as the lexicon has them; none if it is unknown.

        Args:
            word: as it stands in a text: "Hunde" is looked up as it is, then as "hunde".
            source: its language.
            targets: languages of the translations; None: all.
        """
        entries = self.entries(source)
        text = _as_known(word, source, entries)
        translations = entries.get(text, []) if self._depth == 1 else self._reached((source, text))
        return translations if targets is None else [near for near in translations if near[0] in targets]

    def probabilities(self, word: str, source: str, translations: Sequence[Word]) -> list[float] | None:
        """Return the probabilities of some of a word's :meth:`candidates`; None unless the files name all of them."""
        text = _as_known(word, source, self.entries(source))
        named = self._probabilities.get(source, {}).get(text)
        if named is None:
            return None
        by_word = dict(zip(self.entries(source)[text], named, strict=False))
        chosen = [by_word.get(other, math.nan) for other in translations]
        return None if any(map(math.isnan, chosen)) else chosen

    def written(self, translation: Word, *, capital: bool) -> str:
        """Return a translation as it stands in a text, capitalised if it begins a sentence.

        It has the form that texts of its language have most often, whatever the case of the word that it replaces:
        German "Puppe" for English "doll".
        """
        language, word = translation
        forms = self._forms_of(language)
        form = " ".join(forms.get(lower(part, language), part) for part in word.split(" ")) if forms else word
        return capitalised(form, language) if capital else form

    def _forms_of(self, language: str) -> dict[str, str]:
        """Return the forms of a language's words by the words in lower case; none if there is no file of it."""
        if language not in self._forms:
            folder = self._forms_folder
            if folder is not None and not folder.is_dir():
                raise DataError(f"{folder}: no such folder, which phase CountForms writes")
            path = None if folder is None else folder / f"{language}.txt"
            lines = read_lines(path) if path is not None and path.is_file() else ()
            self._forms[language] = {lower(form, language): form for form in lines}
        return self._forms[language]

    def _reached(self, word: Word) -> list[Word]:
        """Return the words of other languages that are reached in up to ``depth`` steps, the nearest first."""
        if word not in self._kept:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            reached = {word: None}
            last = [word]
            for _ in range(self._depth):
                last = [near for code, text in last for near in self.entries(code).get(text, ()) if near not in reached]
                reached |= dict.fromkeys(last)
            self._kept[word] = [near for near in reached if near[0] != word[0]]
        return self._kept[word]


def _as_known(word: str, language: str, words: Container[str]) -> str:
    """Return a word as a lexicon is asked for it: as it is if it is known so, else in lower case."""
    return word if word in words else lower(word, language)


def read_pairs(path: Path, top: int | None = None) -> Iterator[Word]:
    """Yield word and translation of each line of a file; see :func:`read_entries`."""
    yield from ((word, translation) for word, translation, _ in read_entries(path, top))


def read_entries(path: Path, top: int | None = None) -> Iterator[tuple[str, str, float | None]]:
    """Yield word, translation and, if it is there, probability of each line of a file; repeated lines come again.

    Args:
        path: the file.
        top: the number of different words to read, with all lines of each; None: read all.

    Raises:
        DataError: if the file is missing, empty or not UTF-8, a line has no translation, or its probability is none.
    """
    seen: set[str] = set()
    for number, line in enumerate(read_lines(path), 1):
        line = line.strip()
        if not line:
            continue
        # Beside a tab, spaces are inside of words.
        parts = line.split("\t", maxsplit=2) if "\t" in line else line.split(maxsplit=1)
        if len(parts) < 2:
            raise DataError(f"{path}, line {number}: a word and its translation were expected, not {line[:60]!r}")
        word, translation = map(str.strip, parts[:2])
        if word not in seen and top is not None and len(seen) == top:
            continue  # a later line may hold one more translation of a word that was read
        seen.add(word)
        yield word, translation, _probability(parts[2], f"{path}, line {number}") if len(parts) > 2 else None
    if not seen:
        raise DataError(f"{path}: no word in it")


def _probability(text: str, place: str) -> float:
    """Return what stands behind the second tab of a line."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number <= 1:
        raise DataError(f"{place}: a probability above 0 and up to 1 was expected behind the second tab, not {text!r}")
    return number


def lexicon_files(*, folder: str, pairs: Sequence[Sequence[str]], suffix: str = "") -> dict[str, str]:
    """Return a folder's dictionaries by direction: ``{"en-de": "<folder>/en-de<suffix>.txt"}``, such as MUSE's."""
    names = [f"{source}-{target}" for source, target in pairs]
    return {name: str(Path(folder) / f"{name}{suffix}.txt") for name in names}


def directed(direction: str) -> tuple[str, str]:
    """Return the two codes of "en-de"; a code may hold a hyphen itself ("en-zh-CN").

    Raises:
        UsageError: unless it is of two different languages.
    """
    parts = direction.split("-")
    splits = [("-".join(parts[:n]), "-".join(parts[n:])) for n in range(1, len(parts))]
    for source, target in splits:
        if source != target and source in languages.LANGUAGES and target in languages.LANGUAGES:
            return source, target
    raise UsageError(f"a lexicon's direction is of two different languages, such as 'en-de', not {direction!r}")
