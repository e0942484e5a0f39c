"""Objectives: what training minimises. Losses that more than one method uses; the others are in the method's file."""

from dragoman.shared.objectives.by_field import FieldObjective
from dragoman.shared.objectives.cross_entropy import CrossEntropy
from dragoman.shared.objectives.ctc import Ctc
from dragoman.shared.objectives.masked import MaskedTokens
from dragoman.shared.objectives.objective import Loss, Objective, Term
from dragoman.shared.objectives.parts import EncoderDecoderObjective, Part
from dragoman.shared.objectives.tasks import TaskObjective

__all__ = [
    "CrossEntropy",
    "Ctc",
    "EncoderDecoderObjective",
    "FieldObjective",
    "Loss",
    "MaskedTokens",
    "Objective",
    "Part",
    "TaskObjective",
    "Term",
]
