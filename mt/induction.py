"""Lexicons from word vectors of two languages in one space (mt/mapping.py), and their precision.

A word's translations are its nearest neighbours by cross-domain similarity local scaling (Conneau et al. 2018, arXiv
1710.04087, section 2.3), or by the cosine.
"""

from __future__ import annotations

from pathlib import Path

from torch import Tensor
from torch.nn import functional as F

from dragoman.mt.lexicon import read_pairs
from dragoman.mt.mapping import nearest
from dragoman.mt.vector_tables import WordVectors
from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.scores import Score
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.machine.processes import MainPhase
from dragoman.shared.machine.workspace import Stopwatch, Workspace
from dragoman.shared.phases.evaluating import forget_earlier, record_scores
from dragoman.shared.ranges import NonNegativeInt, PositiveFloat, PositiveInt

#: The smallest probability in a lexicon; what is smaller would be written as 0.
LEAST = 1e-4


class InduceLexicon(MainPhase):
    """Write the nearest words of mapped vectors as dictionaries in MUSE's layout, in both directions.

    Behind each translation stands its probability, which is not MUSE's: a softmax over the word's translations.

    Args:
        source: a mapped table, ``<folder>/de.vec``.
        target: the other one, ``<folder>/en.vec``. The dictionaries are ``de-en.txt`` and ``en-de.txt``.
        top: translations of each word, the best first.
        neighbours: k of CSLS; 0: by the cosine alone.
        temperature: what CSLS, or the cosine, is divided by before the softmax.
    """

    def __init__(
        self,
        *,
        source: str,
        target: str,
        top: PositiveInt = 3,
        neighbours: NonNegativeInt = 10,
        temperature: PositiveFloat = 0.1,
    ) -> None:
        self.tables = [Path(source), Path(target)]
        self.top = top
        self.neighbours = neighbours
        self.temperature = temperature

    def work(self, workspace: Workspace) -> None:
        """Write."""
        read = [(path.stem, WordVectors.read(path)) for path in self.tables]
        for (one, here), (other, there) in (read, read[::-1]):
            x, y = unit_length(here.values), unit_length(there.values)
            near, rows = nearest(x, y, self.neighbours, self.top)
            likely = (near / self.temperature).softmax(-1).clamp(min=LEAST)
            with replaced_file(workspace.folder / f"{one}-{other}.txt") as new, new.open("w", encoding="utf-8") as file:
                for word, places, shares in zip(here.words, rows.tolist(), likely.tolist(), strict=True):
                    file.writelines(
                        f"{word}\t{there.words[place]}\t{share:.4f}\n"
                        for place, share in zip(places, shares, strict=True)
                    )


def unit_length(vectors: Tensor) -> Tensor:
    """Return vectors of length 1."""
    return F.normalize(vectors.double(), dim=-1)


class LexiconAccuracy(MainPhase):
    """Compare a dictionary with a true one: how often its first word, and any of its words, is a true translation.

    Writes the scores "precision_1" and "precision_<most>", over those words of the true dictionary that the other one
    has, and "coverage", their share, all in per cent.

    Args:
        lexicon: the dictionary that is judged, in MUSE's layout.
        truth: the true one.
        least: below this precision of first words, the log has a warning: most of what is learned from such a
            dictionary is wrong.
    """

    def __init__(self, *, lexicon: str, truth: str, least: float = 40.0) -> None:
        self.lexicon = Path(lexicon)
        self.truth = Path(truth)
        self.least = least

    def work(self, workspace: Workspace) -> None:
        """Compare.

        Raises:
            DataError: if the dictionary has none of the true one's words.
        """
        forget_earlier(workspace)
        stopwatch = Stopwatch()
        induced, true = (_by_word(path) for path in (self.lexicon, self.truth))
        judged = [word for word in true if word in induced]
        if not judged:
            raise DataError(f"{self.lexicon}: has none of the words of {self.truth}")
        most = max(len(induced[word]) for word in judged)
        values = {
            f"precision_{count}": sum(not true[word].keys().isdisjoint([*induced[word]][:count]) for word in judged)
            for count in sorted({1, most})
        }
        scores = [
            Score(name, 100 * right / len(judged), "truth:any translation", len(judged))
            for name, right in values.items()
        ]
        scores.append(Score("coverage", 100 * len(judged) / len(true), "of the true dictionary's words", len(true)))
        record_scores(scores, self.lexicon.stem, None, self.lexicon.parent, workspace, stopwatch, {})
        if scores[0].value < self.least:
            workspace.log.warning(
                "%s: %.0f %% of first words are true translations, less than %.0f %%",
                self.lexicon, scores[0].value, self.least,
            )  # fmt: skip


def _by_word(path: Path) -> dict[str, dict[str, None]]:
    """Return the translations of each word of a dictionary, in their order."""
    entries: dict[str, dict[str, None]] = {}
    for word, translation in read_pairs(path):
        entries.setdefault(word, {})[translation] = None
    return entries
