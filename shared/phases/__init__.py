"""The phases that ``phases:`` of a recipe may name: ``!new:shared.phases.Evaluate``."""

from dragoman.shared.phases.assembling import Assemble
from dragoman.shared.phases.averaging import Average
from dragoman.shared.phases.evaluating import Evaluate, Rescore
from dragoman.shared.phases.generating import Generate
from dragoman.shared.phases.linking import AlignWords
from dragoman.shared.phases.pieces import CountPieces, TrainTokenizer
from dragoman.shared.phases.quality import Quality
from dragoman.shared.phases.terms import MeasureTerms
from dragoman.shared.phases.writing import Write
from dragoman.shared.training.fit import Fit

__all__ = [
    "AlignWords",
    "Assemble",
    "Average",
    "CountPieces",
    "Evaluate",
    "Fit",
    "Generate",
    "MeasureTerms",
    "Quality",
    "Rescore",
    "TrainTokenizer",
    "Write",
]
