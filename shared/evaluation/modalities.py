"""Similarity of a sentence to itself in another modality: a vector of each row's input, and a picture of the pairs.

Legend: N rows, B rows of a batch, S states, D width, E width of a row's vector.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from shared.corpus.loader import Loader
from shared.corpus.manifest import Manifest
from shared.corpus.stream import Budget
from shared.errors import DataError, UsageError
from shared.evaluation.representations import principal_axes
from shared.machine.files import replaced_file
from shared.machine.workspace import Workspace
from shared.nn.state import evaluating
from shared.nn.translator import MEMORY
from shared.padded import Padded
from shared.systems.system import System


@torch.inference_mode()
def row_vectors(
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
    vectors: Tensor | None = None
    fields = {name: system.inputs[name]}
    with evaluating(system), workspace.autocast():
        for batch, numbers in Loader.evaluation(manifest, fields, budget, workspace.workers):
            model: torch.nn.Module = system.model
            states: Padded = model.encode(batch.to(system.device), name).memories[MEMORY]  # type: ignore[operator]
            found = _means(states) if mean else _joined(states)
            if vectors is None:
                vectors = found.new_empty(len(manifest), found.shape[1])
            if vectors.shape[1] != found.shape[1]:
                raise DataError(f"{manifest.path}: rows have different numbers of states: compare their means")
            vectors[torch.from_numpy(numbers)] = found
    if vectors is None:
        raise DataError(f"{manifest.path}: holds no rows")
    return vectors


def _means(states: Padded) -> Tensor:
    real = states.mask[..., None]
    sums = (states.values.float() * real).sum(1)
    return F.normalize(sums, dim=-1).cpu()


def _joined(states: Padded) -> Tensor:
    length = states.values.shape[1]
    if not bool((states.lengths == length).all()):
        raise DataError("rows have different numbers of states: compare their means")
    return F.normalize(states.values.float(), dim=-1).flatten(1).cpu() / length**0.5


def plot_pairs(one: Tensor, other: Tensor, path: Path, labels: tuple[str, str]) -> None:
    """Draw rows in the plane of their two principal components; a line joins the two vectors of a row.

    Args:
        one: (N, E).
        other: (N, E).
        path: of the PNG.
        labels: what the two are.

    """
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
