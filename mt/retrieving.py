"""Phases that measure a model across languages: word and sentence vectors, plots, accuracy of translated words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

from dragoman.mt.lexicon import directed, read_pairs
from dragoman.mt.word_accuracy import by_frequency, frequencies
from dragoman.shared.batches.find import find_manifests
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.stream import Budget
from dragoman.shared.evaluation.outputs import Outputs
from dragoman.shared.evaluation.plots import plot_points
from dragoman.shared.evaluation.representations import (
    last_states,
    principal_axes,
    retrieved,
    sentence_vectors,
    similarity,
    word_vectors,
)
from dragoman.shared.evaluation.scores import Score
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.machine.processes import MainPhase
from dragoman.shared.machine.workspace import Stopwatch, Workspace
from dragoman.shared.phases.evaluating import MeasureManifests, forget_earlier, record_scores
from dragoman.shared.ranges import NonNegativeInt, Range
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.systems.system import System
from dragoman.shared.text.case import capitalised

#: A word and its translation.
Pair = tuple[str, str]


class WordSimilarity(MainPhase):
    """The similarity of words to their translations: mean cosines of the token vectors, for each lexicon.

    Words that are spelled as their translations, such as names, are left out: their cosine is 1 whatever was learned.
    So are words that no training text has, whose pieces are known from other words, and are alike where spelling is.

    Writes ``similarity.tsv`` and, for each lexicon, the scores "cosine" (of translations) and "cosine_of_others" (of
    words that do not belong together) in hundredths to ``results.jsonl``.

    Args:
        model: a model folder.
        lexicons: files in MUSE's layout by direction: ``{"en-de": path}``.
        train: manifests of the training text, as paths or patterns: words are looked up as it has them most often, with
            a capital or without, since those of lexicons are in lower case.
        top: how many words of each.
    """

    def __init__(
        self, *, model: str, lexicons: Mapping[str, str], train: list[str], top: Annotated[int, Range(least=2)] = 1000
    ) -> None:
        self.model = Path(model)
        self.lexicons = {name: Path(path) for name, path in lexicons.items()}
        self.manifests = list(train)
        self.top = top

    def work(self, workspace: Workspace) -> None:
        """Compare the words of every lexicon."""
        forget_earlier(workspace)
        system = System.load(self.model, workspace.device)
        lexicons = {
            name: [(word, other) for word, other in read_pairs(path, self.top) if word != other]
            for name, path in self.lexicons.items()
        }
        lines = ["lexicon\tpairs\tcosine\tcosine_of_others"]
        for name, seen in _as_in_texts(lexicons, list(self.manifests)).items():
            stopwatch = Stopwatch()
            pairs = seen[: 2 if workspace.debug else None]
            if len(pairs) < 2:
                workspace.log.warning("%s: the training text has fewer than two words with translations", name)
                continue
            cosines = similarity(*(word_vectors(system, [pair[side] for pair in pairs]) for side in (0, 1)))
            lines.append(f"{name}\t{cosines.pairs}\t{cosines.translations:.4f}\t{cosines.others:.4f}")
            signature = f"vectors:mean of pieces|top:{self.top}|words:of the training text"
            values = {"cosine": cosines.translations, "cosine_of_others": cosines.others}
            scores = [Score(key, 100 * value, signature, cosines.pairs) for key, value in values.items()]
            left_out = {"left_out": len(lexicons[name]) - len(seen)}
            record_scores(scores, name, None, self.model, workspace, stopwatch, left_out)
        _write(workspace.folder / "similarity.tsv", lines)


class Pictures(MainPhase):
    """Words of several languages on the two axes of greatest variance of their vectors (PCA), as a picture and a table.

    Args:
        model: a model folder.
        lexicons: files in MUSE's layout by direction, of the same source language: ``{"en-de": path, "en-fr": path}``.
        train: manifests of the training text, which has to have the words; see :class:`WordSimilarity`.
        words: number of words to draw: the most frequent words of the source language that are in all lexicons.
    """

    def __init__(
        self, *, model: str, lexicons: Mapping[str, str], train: list[str], words: Annotated[int, Range(least=2)] = 20
    ) -> None:
        self.model = Path(model)
        self.lexicons = {name: Path(path) for name, path in lexicons.items()}
        self.manifests = list(train)
        self.words = words

    def work(self, workspace: Workspace) -> None:
        """Draw ``words.png`` and write ``words.tsv``."""
        system = System.load(self.model, workspace.device)
        lexicons = _as_in_texts(
            {name: [*read_pairs(path)] for name, path in self.lexicons.items()}, list(self.manifests)
        )
        tables = {name: dict(reversed(pairs)) for name, pairs in lexicons.items()}
        frequent = dict.fromkeys(word for word, _ in next(iter(lexicons.values())))
        chosen = [word for word in frequent if all(word in table for table in tables.values())][: self.words]
        if len(chosen) < 2:
            workspace.log.warning("no picture: the training text has fewer than two words that are in all lexicons")
            return
        source = directed(next(iter(self.lexicons)))[0]
        shown = [(source, word) for word in chosen]
        shown += [(directed(name)[1], table[word]) for name, table in tables.items() for word in chosen]
        places = principal_axes(word_vectors(system, [word for _, word in shown])).tolist()
        lines = [f"{code}\t{word}\t{x:.4f}\t{y:.4f}" for (code, word), (x, y) in zip(shown, places, strict=True)]
        _write(workspace.folder / "words.tsv", ["language\tword\tx\ty", *lines])
        points = [(x, y, word, code) for (code, word), (x, y) in zip(shown, places, strict=True)]
        plot_points(points, workspace.folder / "words.png")


class Retrieve(MeasureManifests):
    """Find each sentence's translation among all of a manifest by the cosine of sentence vectors, in both directions.

    A sentence's vector is the mean of the encoder's states. The score "retrieval" is the share, in per cent, of
    sentences that are found, the mean of both directions. Texts that come twice count as found with either.

    Args:
        model: a model folder, of a translator or of an encoder alone.
        manifests: as paths or patterns.
        budget: how large a batch may be.
        tap: take the states behind this layer, or of this one of the model's taps; None: the encoder's output.
    """

    measured = ReadingModel

    def __init__(self, *, model: str, manifests: list[str], budget: Budget, tap: int | str | None = None) -> None:
        super().__init__(model=model, manifests=manifests, budget=budget)
        self.tap = tap

    def measure(
        self, system: ReadingModel, manifest: Manifest, name: str, workspace: Workspace
    ) -> tuple[list[Score], dict[str, Any]]:
        """Return the share of sentences that are found, and that of each direction.

        Raises:
            UsageError: if the model has no such layer or tap.
        """
        shares = self._shares(system, manifest, workspace)
        states = "states" if self.tap is None else f"states of tap {self.tap}"
        score = Score("retrieval", sum(shares) / 2, f"vectors:mean of {states}|cosine", len(manifest))
        return [score], {"forward": round(shares[0], 2), "backward": round(shares[1], 2)}

    def _shares(self, system: ReadingModel, manifest: Manifest, workspace: Workspace) -> tuple[float, float]:
        """Return the per cent of sentences found from source to target, and from target to source."""
        columns = ("source_text", "target_text")
        sides = [sentence_vectors(system, manifest, column, self.budget, workspace, tap=self.tap) for column in columns]
        texts = [manifest.column(column).to_pylist() for column in columns]
        forward = retrieved(sides[0], sides[1], texts[1])
        backward = retrieved(sides[1], sides[0], texts[0])
        return 100 * forward / len(manifest), 100 * backward / len(manifest)


class PairDistance(MeasureManifests):
    """The distance that a model keeps between sentences and their translations (Zan et al. 2022, section 5).

    Of each sentence, the decoder's state of its last symbol is taken, with the sentence on both sides. The score
    "distance" is the root of the sum of squared distances over all pairs.

    Args:
        model: a model folder of a translator.
        manifests: as paths or patterns.
        budget: how large a batch may be.
        limit: pairs of each, from the first; 0: all.
    """

    def __init__(self, *, model: str, manifests: list[str], budget: Budget, limit: NonNegativeInt = 20_000) -> None:
        super().__init__(model=model, manifests=manifests, budget=budget)
        self.limit = limit

    def measure(
        self, system: System, manifest: Manifest, name: str, workspace: Workspace
    ) -> tuple[list[Score], dict[str, Any]]:
        """Return the distance."""
        manifest = manifest.select(range(min(self.limit or len(manifest), len(manifest))))
        columns = ("source_text", "target_text")
        one, other = (last_states(system, manifest, column, self.budget, workspace) for column in columns)
        return [Score("distance", float((one - other).norm()), "states:last of decoder|euclid", len(manifest))], {}


class WordAccuracy(MainPhase):
    """The F measure of translated words against the first reference, by how often the training text has them.

    The scores are called "word_f", of the test sets ``<test>:0-99``, ``<test>:100-999``, ``<test>:1000+``.

    Args:
        model: the model folder whose outputs they are.
        outputs: tables that Evaluate has written, as paths.
        train: manifests of the training text.
        column: of the training text, on the side of the outputs.
        language: of the outputs.
        edges: frequencies at which buckets begin.
    """

    def __init__(
        self,
        *,
        model: str,
        outputs: list[str],
        train: list[str],
        column: str = "target_text",
        language: str,
        edges: list[int] | None = None,
    ) -> None:
        self.model = Path(model)
        self.tables = [Path(path) for path in outputs]
        self.manifests = list(train)
        self.column = column
        self.language = language
        self.edges = [100, 1000] if edges is None else list(edges)

    def work(self, workspace: Workspace) -> None:
        """Count in every table."""
        forget_earlier(workspace)
        paths = find_manifests(self.manifests)
        texts = (text for path in paths for text in Manifest.open(path).column(self.column).to_pylist() if text)
        counts = frequencies(texts, self.language)
        for path in self.tables:
            stopwatch = Stopwatch()
            outputs = Outputs.read(path)
            references = [line or "" for line in outputs.references[0]]
            for bucket in by_frequency(outputs.hypotheses, references, counts, self.language, self.edges):
                score = Score("word_f", bucket.f_measure, "reference:first|case:mixed", len(references))
                split = f"{path.stem}:{bucket.name}"
                words = {"words": bucket.wanted, "words_written": bucket.written}
                record_scores([score], split, None, self.model, workspace, stopwatch, words)


def _as_in_texts(lexicons: Mapping[str, list[Pair]], manifests: list[str]) -> dict[str, list[Pair]]:
    """Return the pairs of words of which the texts have both, spelled as these have them most often."""
    spellings: dict[str, set[str]] = {}
    for name, pairs in lexicons.items():
        for side, code in enumerate(directed(name)):
            spellings.setdefault(code, set()).update(pair[side] for pair in pairs)
    counts: dict[str, Counter[str]] = {code: Counter() for code in spellings}
    for manifest in map(Manifest.open, find_manifests(manifests)):
        for column in ("source", "target"):
            columns = (manifest.column(f"{column}_{kind}").to_pylist() for kind in ("language", "text"))
            rows = [*zip(*columns, strict=True)]
            for code in {code for code, _ in rows} & {*spellings}:
                texts = (text for language, text in rows if language == code and text)
                counts[code].update(frequencies(texts, code, spellings[code]))
    spelled = {code: _spellings(words, counts[code], code) for code, words in spellings.items()}
    by_direction: dict[str, list[Pair]] = {}
    for name, pairs in lexicons.items():
        one, other = (spelled[code] for code in directed(name))
        by_direction[name] = [(one[a], other[b]) for a, b in pairs if a in one and b in other]
    return by_direction


def _spellings(words: Collection[str], counts: Counter[str], language: str) -> dict[str, str]:
    """Return the words that were counted, with or without a capital, each as it was counted most often."""
    often = {word: max(word, capitalised(word, language), key=lambda form: counts[form]) for word in words}
    return {word: form for word, form in often.items() if counts[form]}


def _write(path: Path, lines: list[str]) -> None:
    with replaced_file(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
