"""The masks of LaSS (mt/lass.py): by magnitude or at random, and what directions have in common.

In each matrix, a share of the entries is pruned, those with the smallest scores. Scores are the magnitudes of a model
that was fine-tuned for the direction (Lin et al. 2021), or random numbers, to compare with. Of two
directions' masks, the similarity is |M_1 and M_2| / |M_1|.

Legend: N entries of a matrix.
"""

from __future__ import annotations

import re
import zlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from dragoman.mt.lass import MaskedTranslator, masked_model
from dragoman.shared.annotations import Checked
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.machine.processes import MainPhase
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.ranges import ShareBelowOne
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.systems.saved_model import SavedModel


def kept(scores: Tensor, share: float) -> Tensor:
    """Return which of N entries are kept, of the shape of their scores, bool: all but exactly round(share N) lowest."""
    flat = scores.flatten()
    mask = torch.ones_like(flat, dtype=torch.bool)
    mask[flat.argsort(stable=True)[: round(share * len(flat))]] = False
    return mask.view_as(scores)


class Pruning(Checked):
    """Base class of the Initialisers that set the masks of a model's directions.

    Args:
        share: of the entries of each matrix that are pruned; 0 keeps all.
        known: a model folder with masks; those of directions that the model has, too, are taken as they are.
    """

    def __init__(self, *, share: ShareBelowOne, known: str | None = None) -> None:
        self.share = share
        self.known = None if known is None else Path(known)

    def apply(self, system: ReadingModel) -> list[str]:
        """Set the masks of all directions; return lines that report it, which are kept in ``origin``, too.

        Raises:
            DataError: if a model folder cannot be read, or its matrices are others.
            UsageError: if the system, or that of ``known``, has no masks.
        """
        model = masked_model(system)
        report = []
        taken = self._known_masks(model)
        for pair in model.pairs:
            if pair in taken:
                model.set_masks(pair, taken[pair])
                report.append(f"masks of {pair}: those of {self.known}")
                continue
            scores = self.scores(model, pair)
            masks = {
                name: torch.cat([kept(block, self.share) for block in scores[name].chunk(blocks)])
                for name, blocks in model.blocks.items()
            }
            model.set_masks(pair, masks)
            report.append(f"masks of {pair}: {self.share:g} of each matrix pruned, {self.rule(pair)}")
        system.origin += report
        return report

    @abstractmethod
    def scores(self, model: MaskedTranslator, pair: str) -> Mapping[str, Tensor]:
        """Return the scores (out, in) of a direction by the name of the linear map."""

    @abstractmethod
    def rule(self, pair: str) -> str:
        """Say by what the masks of a direction are chosen."""

    def _known_masks(self, model: MaskedTranslator) -> dict[str, dict[str, Tensor]]:
        """Return the masks by direction that are taken as they are."""
        if self.known is None:
            return {}
        other = masked_model(SavedModel.load(self.known))
        _check_alike(model, other, self.known)
        return {pair: other.masks_of(pair) for pair in model.pairs if pair in other.pairs}


class Prune(Pruning):
    """Keep the entries whose magnitudes are largest in a model that was fine-tuned for the direction.

    Args:
        tuned: the folder with a folder of each direction, ``<source>-<target>/model``, as ``FitEach`` writes it.
        share: of the entries of each matrix that are pruned; 0 keeps all.
        known: a model folder with masks; those of directions that the model has, too, are taken as they are.
    """

    def __init__(self, *, tuned: str, share: ShareBelowOne, known: str | None = None) -> None:
        super().__init__(share=share, known=known)
        self.tuned = Path(tuned)

    def scores(self, model: MaskedTranslator, pair: str) -> Mapping[str, Tensor]:
        """Return the magnitudes in the model that was fine-tuned for a direction."""
        folder = self.tuned / pair / "model"
        tuned = SavedModel.load(folder)
        _check_alike(model, getattr(tuned, "model", tuned), folder)
        tensors = tuned.state_dict()
        return {name: tensors[f"model.{name}.weight"].float().abs() for name in model.blocks}

    def rule(self, pair: str) -> str:
        """Say by what the masks of a direction are chosen."""
        return f"by the magnitudes of {self.tuned / pair / 'model'}"


class PruneAtRandom(Pruning):
    """Keep as many entries, drawn at random: the control of :class:`Prune`.

    Args:
        seed: of the random numbers; each direction has others.
        share: of the entries of each matrix that are pruned; 0 keeps all.
        known: a model folder with masks; those of directions that the model has, too, are taken as they are.
    """

    def __init__(self, *, seed: int, share: ShareBelowOne, known: str | None = None) -> None:
        super().__init__(share=share, known=known)
        self.seed = seed

    def scores(self, model: MaskedTranslator, pair: str) -> Mapping[str, Tensor]:
        """Return random numbers."""
        random = torch.Generator().manual_seed(zlib.crc32(f"{self.seed} {pair}".encode()))
        shapes = {name: model.get_parameter(f"{name}.weight").shape for name in model.blocks}
        return {name: torch.rand(shape, generator=random) for name, shape in shapes.items()}

    def rule(self, pair: str) -> str:
        """Say by what the masks of a direction are chosen."""
        return f"at random (seed {self.seed})"


def _check_alike(model: MaskedTranslator, other: nn.Module, folder: Path) -> None:
    """Raise a DataError if another model lacks a matrix of this one, or has it in another shape."""
    tensors = other.state_dict()
    for name in model.blocks:
        parameter, there = model.get_parameter(f"{name}.weight"), tensors.get(f"{name}.weight")
        if there is None or there.shape != parameter.shape:
            what = "is missing" if there is None else f"is {tuple(there.shape)}, not {tuple(parameter.shape)}"
            raise DataError(f"{folder}: {name}.weight {what}: a mask of it would not fit")


class ExchangeMasks(MainPhase):
    """Let directions of a model use the masks of others, as a control of what masks are worth; writes ``model/``.

    Args:
        model: a model folder with masks.
        masks: by direction, the one whose masks it uses: ``{de-en: fr-en}``.

    Raises:
        UsageError: if none is exchanged, or, when it runs, the model has no such direction.
    """

    def __init__(self, *, model: str, masks: dict[str, str]) -> None:
        if not masks:
            raise UsageError("masks must name at least one direction, and the one whose masks it uses")
        self.model = Path(model)
        self.masks = dict(masks)

    def work(self, workspace: Workspace) -> None:
        """Exchange the masks, and save the system."""
        system = SavedModel.load(self.model)
        model = masked_model(system)
        unknown = sorted({*self.masks} - {*model.pairs})
        if unknown:
            raise UsageError(f"{self.model}: has no masks of {', '.join(unknown)}, only of {', '.join(model.pairs)}")
        others = {pair: model.masks_of(other) for pair, other in self.masks.items()}  # all of them, before any is set
        for pair, masks in others.items():
            model.set_masks(pair, masks)
            system.origin.append(f"masks of {pair}: those of {self.masks[pair]}")
            workspace.log.info("%s: %s", workspace.phase, system.origin[-1])
        system.save(workspace.folder / "model")


def of_others(pairs: Sequence[Sequence[str]]) -> dict[str, str]:
    """Return of each direction another one, whose masks it may use: the next of those into its target language.

    Where it is the only one of them, the next of those from its source language. After the last comes the first.

    Args:
        pairs: the directions, (source, target).
    """
    found = {}
    for source, target in pairs:
        into = [f"{one}-{other}" for one, other in pairs if other == target]
        alike = into if len(into) > 1 else [f"{one}-{other}" for one, other in pairs if one == source]
        own = f"{source}-{target}"
        found[own] = alike[(alike.index(own) + 1) % len(alike)]
    return {own: other for own, other in found.items() if own != other}


class Sharing(MainPhase):
    """Measure what the masks of a model's directions have in common (Lin et al. 2021).

    Writes ``sharing.tsv``: the similarity of each two directions over all matrices, and over those of each layer.

    Args:
        model: a model folder with masks.
    """

    def __init__(self, *, model: str) -> None:
        self.model = Path(model)

    def work(self, workspace: Workspace) -> None:
        """Compare all pairs of directions; log the mean of each layer."""
        model = masked_model(SavedModel.load(self.model))
        layers = layers_of([*model.blocks])
        masks = {pair: model.masks_of(pair) for pair in model.pairs}
        lines = ["layer\tdirection\tother\tsimilarity"]
        for layer, names in layers.items():
            shares = {
                (one, other): similarity([masks[one][name] for name in names], [masks[other][name] for name in names])
                for one in masks
                for other in masks
                if one != other
            }
            lines += [f"{layer}\t{one}\t{other}\t{value:.4f}" for (one, other), value in shares.items()]
            if shares:
                mean = sum(shares.values()) / len(shares)
                workspace.log.info("%s: of what a direction keeps, another keeps %.1f %%", layer, 100 * mean)
        with replaced_file(workspace.folder / "sharing.tsv") as temporary:
            temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")


def layers_of(names: Sequence[str]) -> dict[str, list[str]]:
    """Sort names of linear maps by layer, "encoder.layers.0"; behind "all", which has all of them."""
    layers = {"all": [*names]}
    for name in names:
        match = re.match(r".*?\.layers\.\d+", name)
        if match:
            layers.setdefault(match[0], []).append(name)
    return layers


def similarity(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    """Return the share of what masks keep that others of the same matrices keep, too."""
    common = sum(int((a & b).sum()) for a, b in zip(one, other, strict=True))
    return common / sum(int(a.sum()) for a in one)
