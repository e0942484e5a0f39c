"""Taking parameters from the model folders of earlier phases or other people."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.nn.fbank import GlobalNorm
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.text.tagged import extends


class Initialiser(Protocol):
    """Gives parameters their values before the first update; several do so one after the other."""

    def apply(self, system: ReadingModel) -> list[str]:
        """Set parameters; return lines that report it, and add them to the system's ``origin``."""
        ...


class Initialise:
    """Copy parameters of another model into parts of this one.

    An encoder's layers serve a decoder as well, whose attention to the encoder stays new::

        parts: {model.decoder: model.encoder}
        allow: [model.decoder.layers.*.memory_attention]

    Of a tokenizer that is the other's with symbols behind its ids (TaggedTokenizer), the vectors of these stay new.

    Args:
        folder: a model folder; with None, the parts stay random, and the report says so.
        parts: prefix of this system's parameter names -> prefix of the names in the folder; for example
            ``{model.encoder: model.encoder}``. Every parameter below a prefix must be found, with the same shape.
        allow: beginnings of this system's names that may stay as they are if the folder has no fitting tensor; ``*``
            stands for one part of a name, such as a layer's number.
        layers: the folder's layers that become this system's first, second, ...: ``[0, 2, 4]`` for every other one,
            ``[-2, -1]`` for the last two. Default: its first ones.
    """

    def __init__(
        self,
        *,
        folder: str | None,
        parts: dict[str, str],
        allow: list[str] | None = None,
        layers: list[int] | None = None,
    ) -> None:
        if not parts:
            raise UsageError("initialise: parts names nothing to initialise")
        if layers is not None and not layers:
            raise UsageError("initialise: layers names no layer")
        self.folder = None if folder is None else Path(folder)
        self.parts = dict(parts)
        self.layers = layers
        patterns = (re.escape(one).replace(r"\*", r"[^.]+") for one in allow or [])
        self._allowed = [re.compile(pattern) for pattern in patterns]

    def apply(self, system: ReadingModel) -> list[str]:
        """Copy; return lines that report what was taken, which are kept in the system's ``origin``, too.

        Raises:
            DataError: if anything below a prefix is missing or shaped differently and not allowed to be, or vectors of
                symbols belong to another tokenizer.
        """
        tensors_here = system.state_dict()
        wanted = {
            here: [name for name in tensors_here if name == here or name.startswith(here + ".")] for here in self.parts
        }
        for here, names in wanted.items():
            if not names:
                raise UsageError(f"initialise: the system has no parameters below {here!r}")
        if self.folder is None:
            return [f"{here}: begins with random parameters, no folder is given" for here in wanted]
        file = self.folder / "model.safetensors"
        try:
            with safe_open(file, framework="pt") as tensors:
                report, problems = self._copy(system, tensors_here, wanted, tensors)
        except (FileNotFoundError, SafetensorError, OSError) as error:
            raise DataError(f"{file}: not a readable weights file ({error})") from error
        if problems:
            raise DataError(f"{file}: {'; '.join(problems[:3])} ({len(problems)} in all); name them in allow to go on")
        system.origin += report
        return report

    def _copy(
        self, system: ReadingModel, tensors_here: dict[str, torch.Tensor], wanted: dict[str, list[str]], tensors: Any
    ) -> tuple[list[str], list[str]]:
        stored = {*tensors.keys()}
        pairs = {
            here: {name: self._source(self.parts[here] + name[len(here) :], stored) for name in names}
            for here, names in wanted.items()
        }
        longer = self._check_symbols(system, [pair for part in pairs.values() for pair in part.items()])
        report, problems = [], []
        for here, names in pairs.items():
            new, rows = [], 0
            for name, there in names.items():
                tensor = tensors.get_tensor(there) if there in stored else None
                place = (
                    tensors_here[name] if tensor is None or name not in longer else tensors_here[name][: len(tensor)]
                )
                if tensor is not None and tensor.shape == place.shape:
                    with torch.no_grad():
                        place.copy_(tensor)
                    rows += len(tensors_here[name]) - len(place)
                    continue
                new.append(name)
                if not any(pattern.match(name) for pattern in self._allowed):
                    shape = (
                        "is missing"
                        if tensor is None
                        else f"is {tuple(tensor.shape)}, not {tuple(tensors_here[name].shape)}"
                    )
                    problems.append(f"{there} {shape}")
            taken = f"{len(names) - len(new)} of {len(names)} tensors"
            chosen = "" if self.layers is None else f", layers {' '.join(map(str, self.layers))}"
            fresh = f", but for {rows} rows of further symbols" if rows else ""
            report.append(f"{here}: {taken} from {self.parts[here]} of {self.folder}{chosen}{fresh}")
        return report, problems

    def _source(self, name: str, stored: set[str]) -> str:
        """Return the name there, with the number of the layer that was chosen."""
        layer = re.search(r"(^|\.)layers\.(\d+)\.", name)
        if not layer or self.layers is None:
            return name
        number, before = int(layer[2]), name[: layer.start(2)]
        if number >= len(self.layers):
            raise UsageError(f"initialise: layers names {len(self.layers)}, but this system has a layer {number}")
        matches = (re.match(re.escape(before) + r"(\d+)\.", one) for one in stored)
        count = 1 + max((int(match[1]) for match in matches if match), default=-1)
        chosen = self.layers[number]
        if not -count <= chosen < count:
            raise UsageError(f"initialise: {self.folder} has {count} layers at {before[:-1]}, but no layer {chosen}")
        return f"{before}{chosen % count}{name[layer.end(2) :]}"

    def _check_symbols(self, system: ReadingModel, pairs: Sequence[tuple[str, str]]) -> set[str]:
        """Refuse vectors of symbols that mean something else there; return the tensors with further symbols here."""
        assert self.folder is not None
        tokenizers = system.tokenizers_of_rows()
        needed = [(here, there) for here, there in pairs if here in tokenizers]
        longer: set[str] = set()
        if not needed:
            return longer
        with torch.device("meta"):  # its description is wanted, not its parameters
            others = ReadingModel.from_description(self.folder).tokenizers_of_rows()
        for here, there in needed:
            mine, theirs = tokenizers[here], others.get(there)
            if theirs is not None and extends(mine, theirs):
                longer.add(here)
            elif theirs is not None and mine.fingerprint != theirs.fingerprint:
                raise DataError(
                    f"{self.folder}: was trained with another tokenizer ({theirs.fingerprint}, here "
                    f"{mine.fingerprint}): its symbols cannot be used ({there})"
                )
        return longer


class FeatureStatistics:
    """Fill a GlobalNorm with the means and deviations that a phase MeasureFeatures has taken.

    Args:
        file: ``features.safetensors`` of that phase.
        part: the norm's name in the system.
    """

    #: A feature that deviates less is constant, and only its mean is subtracted.
    LEAST = 1e-5

    def __init__(self, *, file: str, part: str = "model.embeddings.speech.normalisation") -> None:
        self.file = Path(file)
        self.part = part

    def apply(self, system: ReadingModel) -> list[str]:
        """Fill it; return a line that says so.

        Raises:
            DataError: if another phase wrote the file, or its features are others.
            UsageError: if the system has no such norm.
        """
        try:
            norm = system.get_submodule(self.part)
        except AttributeError:
            norm = None
        if not isinstance(norm, GlobalNorm):
            raise UsageError(f"initialise: {self.part} is a {type(norm).__name__}, not a GlobalNorm")
        try:
            tensors = load_file(self.file)
            mean, deviation = tensors["mean"], tensors["deviation"]
        except (SafetensorError, OSError, KeyError) as error:
            raise DataError(f"{self.file}: holds no features that MeasureFeatures has measured ({error})") from error
        if not mean.shape == deviation.shape == norm.mean.shape:
            raise DataError(f"{self.file}: has {len(mean)} features, and {self.part} {len(norm.mean)}")
        norm.mean.copy_(mean)
        norm.deviation.copy_(torch.where(deviation < self.LEAST, torch.ones_like(deviation), deviation))
        report = f"{self.part}: means and deviations of {len(mean)} features from {self.file}"
        system.origin.append(report)
        return [report]
