"""Objectives: what training minimises. Losses that more than one method uses; the others are in the method's file."""

from shared.objectives.by_field import FieldObjective
from shared.objectives.cross_entropy import CrossEntropy
from shared.objectives.ctc import Ctc
from shared.objectives.masked import MaskedTokens
from shared.objectives.objective import Loss, Objective, Term
from shared.objectives.parts import EncoderDecoderObjective, Part
from shared.objectives.tasks import TaskObjective

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
