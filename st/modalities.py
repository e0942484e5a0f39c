"""Similarity of a sentence to itself in another modality: a vector of each row's input, and a picture of the pairs.

Legend: N rows, B rows of a batch, S states, D width, E width of a row's vector.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.shared.batch import Batch
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.stream import Budget
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.evaluation.representations import principal_axes, row_vectors
from dragoman.shared.machine.extras import present
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.nn.translator import MEMORY
from dragoman.shared.padded import Padded
from dragoman.shared.systems.system import System


def input_vectors(
    system: System, manifest: Manifest, name: str, *, mean: bool, budget: Budget, workspace: Workspace
) -> Tensor:
    """Encode one input of all rows: (N, E), each of length 1.

    Args:
        system: whose model encodes fields.
        manifest: of N rows.
        name: of the input: "speech", "source".
        mean: a row's vector is the mean of its states; else its states, of which all rows have equally many, one after
            the other, each of length 1: then the product of two vectors is the mean cosine of their states.
        budget: how large a batch may be.
        workspace: where to compute.

    Raises:
        UsageError: if the system has no such input.
        DataError: if rows have different numbers of states, and no mean is taken.
    """
    if name not in system.inputs:
        raise UsageError(f"the system can read {' and '.join(system.inputs)}, not {name!r}")
    model: Any = system.model

    def vectors(batch: Batch) -> Tensor:
        states: Padded = model.encode(batch, name).memories[MEMORY]
        return F.normalize(states.mean(), dim=-1) if mean else _joined(states)

    return row_vectors(system, manifest, {name: system.inputs[name]}, vectors, budget, workspace)


def _joined(states: Padded) -> Tensor:
    length = states.values.shape[1]
    if not bool((states.lengths == length).all()):
        raise DataError("rows have different numbers of states: compare their means")
    return F.normalize(states.values.float(), dim=-1).flatten(1) / length**0.5


def plot_pairs(one: Tensor, other: Tensor, path: Path, labels: tuple[str, str]) -> None:
    """Draw rows (N, E) of both in the plane of their principal components, PNG; a line joins the two of a row."""
    if not present("matplotlib", "plots", "pictures of pairs are not drawn"):
        return
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    places = principal_axes(torch.cat([one, other])).view(2, len(one), -1)
    figure = Figure(figsize=(6, 6), dpi=130, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    for start, end in places.transpose(0, 1).tolist():
        axis.plot([start[0], end[0]], [start[-1], end[-1]], color="#bbbbbb", linewidth=0.8, zorder=1)
    for points, label, marker in zip(places, labels, ("o", "x"), strict=True):
        axis.scatter(points[:, 0], points[:, -1], label=label, marker=marker, s=24, zorder=2)
    axis.legend(frameon=False)
    with replaced_file(path) as temporary, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.savefig(temporary, format="png")
