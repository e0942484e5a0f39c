"""The phase that tells how much of a text a lexicon knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from dragoman.mt.lexicon import Lexicon
from dragoman.shared.batches.find import find_manifests
from dragoman.shared.errors import DataError
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.machine.processes import MainPhase
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases.evaluating import opened
from dragoman.shared.ranges import NonNegativeFloat, NonNegativeInt
from dragoman.shared.text.case import lower
from dragoman.shared.text.word_spans import is_known, words


class LexiconCoverage(MainPhase):
    """Count the words of texts that a lexicon can translate: of running text, and of different words.

    Writes ``coverage.tsv``, a line for each language. Words that a lexicon lacks are what a method that replaces words
    never changes: function words most of all, which are half of a text.

    Args:
        manifests: of the texts, as paths or patterns.
        lexicon: whose words are looked for.
        columns: the texts: "source_text", "target_text" or both.
        languages: of the texts that are looked at; None: all.
        least: below this share of running words, in per cent, the log has a warning.
        limit: texts of each manifest that are looked at, from the first; 0: all.
    """

    def __init__(
        self,
        *,
        manifests: list[str],
        lexicon: Lexicon,
        columns: Sequence[Literal["source_text", "target_text"]] = ("source_text",),
        languages: list[str] | None = None,
        least: NonNegativeFloat = 0.0,
        limit: NonNegativeInt = 100_000,
    ) -> None:
        self.manifests = list(manifests)
        self.lexicon = lexicon
        self.columns = list(columns)
        self.languages = languages
        self.least = least
        self.limit = limit

    def work(self, workspace: Workspace) -> None:
        """Count.

        Raises:
            DataError: if there is no text.
        """
        counts: dict[str, Counter[str]] = {}
        for path in find_manifests(self.manifests):
            manifest = opened(path, workspace)
            rows = manifest.select(range(min(self.limit or len(manifest), len(manifest))))
            for column in self.columns:
                pair = (rows.column(name).to_pylist() for name in (column.replace("_text", "_language"), column))
                for language, text in zip(*pair, strict=True):
                    if text and language and (self.languages is None or language in self.languages):
                        counts.setdefault(language, Counter()).update(self._words(text, language))
        if not any(counts.values()):
            which = "" if self.languages is None else f" of {', '.join(self.languages)}"
            raise DataError(
                f"{', '.join(self.manifests)}: no word{which} in {' and '.join(self.columns)} whose language is named"
            )
        lines = ["language\twords\tknown\tdifferent\tdifferent_known"]
        for language, seen in sorted(counts.items()):
            covered = [word for word in seen if is_known(word, language, self.lexicon.entries(language))]
            sizes = (seen.total(), sum(seen[word] for word in covered), len(seen), len(covered))
            lines.append("\t".join(map(str, (language, *sizes))))
            self._report(language, *sizes, workspace)
        with replaced_file(workspace.folder / "coverage.tsv") as temporary:
            temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _words(self, text: str, language: str) -> list[str]:
        """Return the words as the lexicon divides them, in lower case."""
        spans = words(text, language, self.lexicon.entries(language), self.lexicon.longest(language))
        return [lower(text[start:end], language) for start, end in spans]

    def _report(
        self, language: str, total: int, covered: int, different: int, covered_words: int, workspace: Workspace
    ) -> None:
        share = 100 * covered / max(1, total)
        workspace.log.info(
            "%s: the lexicon has %.1f %% of %d words, %.1f %% of %d different ones",
            language, share, total, 100 * covered_words / max(1, different), different,
        )  # fmt: skip
        if share < self.least:
            workspace.log.warning("%s: less than %.0f %% of the words can be replaced", language, self.least)
