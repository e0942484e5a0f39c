"""The phase that tells what each layer of an encoder knows: labels that a linear classifier reads off frozen states.

Dong et al. 2021, AAAI ("Listen, Understand and Translate", arXiv 2009.09704) ask so what LUT's two encoders know: of
speakers, 97.6 % are told by the acoustic encoder and 46.3 % by the semantic one, of intents 91.0 and 93.1 % (figures at
second hand). Of any encoder here, the mean of a row's states behind each layer is read.

Not established: the paper's classifier, its data and how it pools states. Here it is multinomial logistic regression of
states whose dimensions have mean 0 and deviation 1 in training,

    L(W, b) = 1/N sum_n - log softmax(W x_n + b)[y_n] + penalty / 2 |W|^2,

which is convex, and minimised by L-BFGS.

Legend: N rows, B rows of a batch, D width, C labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.shared.batch import Batch
from dragoman.shared.batches.find import find_manifests
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.stream import Budget
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.evaluation.representations import row_vectors
from dragoman.shared.evaluation.scores import Score
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.nn.recurrent import LstmEncoder
from dragoman.shared.nn.transformer import Encoder
from dragoman.shared.padded import Padded
from dragoman.shared.phases.evaluating import MeasureManifests, opened
from dragoman.shared.ranges import NonNegativeFloat
from dragoman.shared.systems.reading_model import ReadingModel

#: Of a layer: the means and the deviations of its dimensions (D,), the matrix (C, D) and the bias (C,).
Classifier = tuple[Tensor, Tensor, Tensor, Tensor]


class ProbeLayers(MeasureManifests):
    """Read a label of each row off the states behind each layer of a model's encoders, by a linear classifier.

    The scores are percentages of rows whose label is right, called "<label>.<encoder>.<layer>": layer 0 is what an
    encoder reads, the last one its output. "<label>.commonest" is what there is without any knowledge. Rows whose label
    no training row has are left out, and counted.

    Args:
        model: a model folder, of whatever has an encoder.
        train: manifests that the classifiers learn from, as paths or patterns.
        manifests: the tests, likewise.
        budget: how large a batch may be.
        label: a column of the manifests, such as "speaker"; of a column of text, its first word.
        reads: the input that is encoded; by default the first of those that the model reads.
        penalty: of large weights.
    """

    measured = ReadingModel

    def __init__(
        self,
        *,
        model: str,
        train: list[str],
        manifests: list[str],
        budget: Budget,
        label: str,
        reads: str | None = None,
        penalty: NonNegativeFloat = 0.001,
    ) -> None:
        super().__init__(model=model, manifests=manifests, budget=budget)
        self.train = list(train)
        self.label = label
        self.reads = reads
        self.penalty = penalty
        self._learned: tuple[list[str], dict[str, Classifier]] | None = None

    def measure(
        self, system: ReadingModel, manifest: Manifest, name: str, workspace: Workspace
    ) -> tuple[list[Score], dict[str, Any]]:
        """Return the accuracy of each layer's classifier.

        Raises:
            DataError: if a row has no label, or training rows have one alone.
            UsageError: if the model does not read the input.
        """
        if self._learned is None:
            self._learned = self._learn(system, workspace)
        names, classifiers = self._learned
        labels = self._labels(manifest)
        known = torch.tensor([label in names for label in labels])
        left_out = len(labels) - int(known.sum())
        if left_out == len(labels):
            workspace.log.warning("%s: no row has a %s that training rows have", manifest.path, self.label)
            return [], {}
        wanted = torch.tensor([names.index(label) for label in labels if label in names])
        right = {"commonest": wanted == 0}
        for layer, vectors in layer_means(system, manifest, self._reads(system), self.budget, workspace).items():
            mean, deviation, weight, bias = classifiers[layer]
            scores = F.linear((vectors[known].double() - mean) / deviation, weight, bias)
            right[layer] = scores.argmax(1) == wanted
        signature = f"probe:linear|penalty:{self.penalty:g}|labels:{len(names)}"
        scores_of_layers = [
            Score(f"{self.label}.{layer}", 100 * float(hits.double().mean()), signature, len(wanted))
            for layer, hits in right.items()
        ]
        return scores_of_layers, {"left_out": left_out}

    def _learn(self, system: ReadingModel, workspace: Workspace) -> tuple[list[str], dict[str, Classifier]]:
        """Return the labels, the commonest first, and the classifier of each layer."""
        manifests = [opened(path, workspace) for path in find_manifests(self.train)]
        labels = [label for manifest in manifests for label in self._labels(manifest)]
        names = [label for label, _ in Counter(labels).most_common()]
        if len(names) < 2 and not workspace.debug:
            raise DataError(f"{', '.join(self.train)}: {self.label} is the same in all {len(labels)} rows")
        wanted = torch.tensor([names.index(label) for label in labels])
        tables = [layer_means(system, one, self._reads(system), self.budget, workspace) for one in manifests]
        learned = {}
        for layer in tables[0]:
            vectors = torch.cat([table[layer] for table in tables]).double()
            mean, deviation = vectors.mean(0), vectors.std(0, correction=0)
            deviation = torch.where(deviation > 0, deviation, torch.ones_like(deviation))
            weight, bias = logistic_regression((vectors - mean) / deviation, wanted, len(names), self.penalty)
            learned[layer] = (mean, deviation, weight, bias)
        return names, learned

    def _labels(self, manifest: Manifest) -> list[str]:
        """Return the labels of all rows."""
        if self.label not in manifest.columns:
            raise DataError(f"{manifest.path}: there is no column {self.label!r}")
        labels = []
        values = manifest.column(self.label).to_pylist()
        for number, value in enumerate(values):
            words = str(value).split() if value is not None else []
            if not words:
                raise DataError(f"{manifest.path}: row {manifest[number]['id']!r} has no {self.label}")
            labels.append(words[0] if self.label.endswith("_text") else str(value))
        return labels

    def _reads(self, system: ReadingModel) -> str:
        name = self.reads or next(iter(system.reads), "")
        if name not in system.inputs:
            raise UsageError(f"{self.model}: reads {' and '.join(system.inputs) or 'nothing'}, not {name!r}")
        return name


def layer_means(
    system: ReadingModel, manifest: Manifest, field: str, budget: Budget, workspace: Workspace
) -> dict[str, Tensor]:
    """Return the means of a row's states behind each layer of all encoders that read a field, (N, D) float32 each.

    Raises:
        DataError: if a row lacks the field, or there are no rows.
        UsageError: if no encoder reads the field, or one reads it several times.
    """
    model: Any = system.model
    widths: dict[str, int] = {}
    with _kept(model) as kept:

        def means(batch: Batch) -> Tensor:
            kept.clear()
            model.encode(batch, field)
            found = {name: torch.cat(parts) for name, parts in kept.items()}
            if not found or any(len(table) != len(batch) for table in found.values()):
                raise UsageError(f"{field!r} is to be read by each encoder once: {', '.join(found) or 'none reads it'}")
            widths.update({name: table.shape[1] for name, table in found.items()})
            return torch.cat([*found.values()], dim=1)

        table = row_vectors(system, manifest, {field: system.inputs[field]}, means, budget, workspace)
    return dict(zip(widths, table.split([*widths.values()], dim=1), strict=True))


@contextmanager
def _kept(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Let all encoders of a model leave the means of their layers' states (B, D), by name and number."""
    kept: dict[str, list[Tensor]] = {}
    handles, taps = [], {}
    for name, stack in model.named_modules():
        if isinstance(stack, Encoder | LstmEncoder):

            def keep(_: nn.Module, __: Any, result: tuple[Padded, dict[int, Padded]], name: str = name) -> None:
                for number, states in sorted(result[1].items()):
                    kept.setdefault(f"{name}.{number}", []).append(states.mean().float())

            taps[stack] = stack.taps
            stack.taps = [*range(len(stack.layers) + 1)]
            handles.append(stack.register_forward_hook(keep))
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()
        for stack, before in taps.items():
            stack.taps = before


def logistic_regression(x: Tensor, labels: Tensor, classes: int, penalty: float) -> tuple[Tensor, Tensor]:
    """Return the matrix (C, D) and the bias (C,) that minimise the loss above for x (N, D) and labels (N,)."""
    with torch.inference_mode(False), torch.enable_grad():
        x = x.clone()  # of what was made in inference no gradient may be taken
        weight, bias = (x.new_zeros(shape, requires_grad=True) for shape in ((classes, x.shape[1]), (classes,)))
        solver = torch.optim.LBFGS(
            [weight, bias], max_iter=500, tolerance_grad=1e-8, tolerance_change=1e-12, line_search_fn="strong_wolfe"
        )

        def loss() -> Tensor:
            solver.zero_grad()
            value = F.cross_entropy(F.linear(x, weight, bias), labels) + penalty / 2 * weight.square().sum()
            cast(Any, value).backward()
            return value

        solver.step(loss)
    return weight.detach(), bias.detach()
