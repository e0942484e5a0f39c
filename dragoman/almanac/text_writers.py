"""Writers of the second world's texts, which need no voice: sentence pairs, monolingual texts, documents, lexicons."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.almanac.documents import Document, draw_documents
from dragoman.almanac.frames import randomness
from dragoman.almanac.lexicons import halves, lexicon
from dragoman.almanac.meanings import Meaning
from dragoman.almanac.worlds import ALL_PHRASINGS, KINDS, Kind, draw
from dragoman.almanac.writers import TextWriter, write_lines, write_references

#: Tests of a language pair; a `test-words` sentence has a word that the pair's training text withholds.
TESTS = ("test", "test-new", "test-words")


def _withheld(pair: tuple[str, str], wanted: bool) -> Callable[[Meaning], bool]:
    return lambda meaning: meaning.withheld(pair) is wanted


class PairsWriter(TextWriter):
    """ROOT/text/<a>-<b>/{train,dev,test,test-new,test-words}.{a,b}: line n of one says what line n of the other says.

    Every pair has sayings of its own, and is written once for both directions. `text` is the size of train, and
    `pair_sizes` of single pairs; `test` is the size of each test. Beside each line of dev and tests stand the other
    sentences that say the same: test.a.1, test.a.2 (further references, as the reader of Moses files knows them).
    """

    def finish(self) -> None:
        """Write every pair."""
        for pair in dict.fromkeys(map(lambda pair: tuple(sorted(pair)), self.settings.pairs)):
            self._write(pair)

    def _write(self, pair: tuple[str, ...]) -> None:
        one, other = pair
        name, sizes = f"{one}-{other}", self.settings.sizes
        shows, withholds = _withheld((one, other), False), _withheld((one, other), True)
        train = KINDS["wide" if name in self.settings.wide else "train"]
        kinds = {
            "train": (train, self.settings.pair_sizes.get(name, sizes["text"]), shows),
            "dev": (KINDS["dev"], sizes["dev"], shows),
            "test": (KINDS["test"], sizes["test"], shows),
            "test-new": (KINDS["test-new"], sizes["test"], shows),
            "test-words": (Kind("test", ALL_PHRASINGS), sizes["test"], withholds),
        }
        for split, (kind, size, keep) in kinds.items():
            sayings = draw(kind, size, randomness(self.settings.seed, "pairs", name, split), keep)
            for language in pair:
                file = self.settings.root / "text" / name / f"{split}.{language}"
                write_lines(file, [saying.sentence(language) for saying in sayings])
                if split != "train":
                    write_references(file, [saying.references(language) for saying in sayings])


class WideWriter(TextWriter):
    """ROOT/monolingual/{train,dev}.<language>: texts of each language that do not translate those of another.

    All phrasings, and no meaning of a test. `monolingual` is the size of train.
    """

    def finish(self) -> None:
        """Write every split in every language."""
        kinds = {"train": KINDS["wide"], "dev": Kind("dev", ALL_PHRASINGS)}
        for split, size in (("train", self.settings.sizes["monolingual"]), ("dev", self.settings.sizes["dev"])):
            for language in self.settings.languages:
                generator = randomness(self.settings.seed, "wide", language, split)
                texts = [saying.sentence(language) for saying in draw(kinds[split], size, generator)]
                write_lines(self.settings.root / "monolingual" / f"{split}.{language}", texts)


class DocumentsWriter(TextWriter):
    """ROOT/documents/{train,dev,test}.<language>: a sentence a line, a blank line between documents.

    The lines of all languages correspond. `documents` is the number of documents in train; dev and test have a tenth.
    """

    def finish(self) -> None:
        """Write every split in every language."""
        number = self.settings.sizes["documents"]
        for split, size in (("train", number), ("dev", -(-number // 10)), ("test", -(-number // 10))):
            documents = draw_documents(split, size, randomness(self.settings.seed, "documents", split))
            for language in self.settings.languages:
                lines = _divided(documents, language)
                write_lines(self.settings.root / "documents" / f"{split}.{language}", lines)


def _divided(documents: list[Document], language: str) -> list[str]:
    """The lines of documents, with a blank line between two."""
    lines: list[str] = []
    for document in documents:
        lines += [""] if lines else []
        lines += document.lines(language)
    return lines


class LexiconWriter(TextWriter):
    """ROOT/lexicons/<a>-<b>.txt, .0-5000.txt, .5000-6500.txt: MUSE's names of the whole, a seed and a test lexicon.

    For both directions of every pair. The numbers are MUSE's; here the two are halves.
    """

    def finish(self) -> None:
        """Write three files a direction."""
        for pair in dict.fromkeys(map(lambda pair: tuple(sorted(pair)), self.settings.pairs)):
            for source, target in (pair, pair[::-1]):
                pairs = lexicon(source, target)
                for ending, part in zip(("", ".0-5000", ".5000-6500"), (pairs, *halves(pairs)), strict=True):
                    file = self.settings.root / "lexicons" / f"{source}-{target}{ending}.txt"
                    write_lines(file, [f"{one}\t{other}" for one, other in part])
