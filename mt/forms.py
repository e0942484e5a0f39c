"""The phase that finds how texts write their words: with a capital or without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dragoman.shared.batches.find import find_manifests
from dragoman.shared.errors import DataError
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.machine.processes import MainPhase
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases.evaluating import opened
from dragoman.shared.ranges import NonNegativeInt
from dragoman.shared.text import languages
from dragoman.shared.text.case import lower
from dragoman.shared.text.normalise import Normalizer, apply
from dragoman.shared.text.word_spans import has_capital_of_sentence, words


class CountForms(MainPhase):
    """Find the form that texts have most often of each word: "Puppe" and not "puppe".

    Writes a file for each language whose script has capitals, ``de.txt``, with a word on each line; a ``Lexicon`` reads
    the folder as ``forms``, so that a word is inserted as its language writes it. A capital at the start of a sentence
    tells nothing about a word: it is not counted there.

    Args:
        manifests: of the texts, as paths or patterns; both sides are read.
        normalizers: changes to the texts, those of the field whose words are replaced.
        limit: texts of each manifest that are looked at, from the first; 0: all.
    """

    def __init__(
        self, *, manifests: list[str], normalizers: list[Normalizer] | None = None, limit: NonNegativeInt = 1_000_000
    ) -> None:
        self.manifests = list(manifests)
        self.normalizers = list(normalizers or [])
        self.limit = limit

    def work(self, workspace: Workspace) -> None:
        """Count, and write the words of each language.

        Raises:
            DataError: if no text has a language.
        """
        counts: dict[str, dict[str, Counter[str]]] = {}
        named = False
        for language, text in self._texts(workspace):
            named = True
            if languages.cased(language):
                forms = counts.setdefault(language, {})
                for word in _words_inside(apply(self.normalizers, text, language), language):
                    forms.setdefault(lower(word, language), Counter())[word] += 1
        if not named:
            raise DataError(f"{', '.join(self.manifests)}: no text whose language is named")
        workspace.folder.mkdir(parents=True, exist_ok=True)  # a lexicon looks for it, with or without a file
        for language, forms in counts.items():
            best = [max(sorted(seen), key=seen.__getitem__) for _, seen in sorted(forms.items())]
            with replaced_file(workspace.folder / f"{language}.txt") as temporary:
                temporary.write_text("".join(f"{form}\n" for form in best), encoding="utf-8")
            capitals = sum(form != lower(form, language) for form in best)
            workspace.log.info("%s: %d words, %d of them with capitals", language, len(best), capitals)

    def _texts(self, workspace: Workspace) -> Iterator[tuple[str, str]]:
        """Yield language and text of both sides of all rows."""
        for path in find_manifests(self.manifests):
            manifest = opened(path, workspace)
            rows = manifest.select(range(min(self.limit or len(manifest), len(manifest))))
            for side in ("source", "target"):
                columns = (rows.column(f"{side}_{kind}").to_pylist() for kind in ("language", "text"))
                yield from ((language, text) for language, text in zip(*columns, strict=True) if language and text)


def _words_inside(text: str, language: str) -> Iterator[str]:
    """Yield the words of a text but for those whose capital is that of a sentence."""
    for start, end in words(text, language):
        if not has_capital_of_sentence(text, start):
            yield text[start:end]
