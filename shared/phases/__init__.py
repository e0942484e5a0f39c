"""The phases that ``phases:`` of a recipe may name: ``!new:shared.phases.Prepare``."""

from shared.phases.aligning import AlignSpeech, ReadWords
from shared.phases.assembling import Assemble
from shared.phases.averaging import Average
from shared.phases.comparing import PairDistance, Pictures, Retrieve, WordAccuracy, WordSimilarity
from shared.phases.covering import LexiconCoverage
from shared.phases.extracting import ExtractPhrases
from shared.phases.fitting_each import FitEach
from shared.phases.generating import Generate
from shared.phases.linking import AlignWords
from shared.phases.manifests import Prepare, Write
from shared.phases.measuring import MeasureFeatures
from shared.phases.nested import RunRecipe
from shared.phases.pieces import CountPieces, TrainTokenizer
from shared.phases.quality import Quality
from shared.phases.retrieving import CompareInputs
from shared.phases.simulating import Simulate
from shared.phases.terms import MeasureTerms
from shared.phases.testing import Evaluate, Rescore
from shared.phases.trim import Trim
from shared.training.fit import Fit

__all__ = [
    "AlignSpeech",
    "AlignWords",
    "Assemble",
    "Average",
    "CompareInputs",
    "CountPieces",
    "Evaluate",
    "ExtractPhrases",
    "Fit",
    "FitEach",
    "Generate",
    "LexiconCoverage",
    "MeasureFeatures",
    "MeasureTerms",
    "PairDistance",
    "Pictures",
    "Prepare",
    "Quality",
    "ReadWords",
    "Rescore",
    "Retrieve",
    "RunRecipe",
    "Simulate",
    "TrainTokenizer",
    "Trim",
    "WordAccuracy",
    "WordSimilarity",
    "Write",
]
