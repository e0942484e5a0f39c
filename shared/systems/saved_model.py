"""The contents of a model folder: plain data, which anybody's code can read and which runs none.

The folder holds ``model.safetensors``, ``config.json`` (how the system is built, see shared/described.py) and the
tokenizer files. Loading it constructs classes of this project and of registered packages, and reads tensors; nothing in
it is executed.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import ClassVar, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import nn

from dragoman.shared.described import Described, describe
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.files import replaced_folder
from dragoman.shared.machine.memory import refuse_over
from dragoman.shared.nn.state import check_fit, contiguous
from dragoman.shared.nn.weights import Undrawn, WeightsFile, described_by, header_of, size_of
from dragoman.shared.systems.model_folder import (
    CONFIG,
    FORMAT,
    WEIGHTS,
    build_described,
    check_place,
    model_folder,
    read_config,
)


class SavedModel(Described, nn.Module):
    """A described module with a folder of its own on disk.

    Attributes:
        purpose: what a model is for that is not what the caller asked for; said when its folder is refused.
        origin: where parameters came from that were not initialised by chance, a line each; kept in the folder.
        autocast_dtype: set once matrices are stored for searches, under autocast or in eight bits
            (shared/systems/combining.py).
        home: the device that computes, set where layers stand elsewhere, too (dragoman/placing/placed.py).
    """

    purpose: ClassVar[str] = ""
    autocast_dtype: torch.dtype | None = None
    home: torch.device | None = None
    origin: list[str]

    @property
    def device(self) -> torch.device:
        """The device of the parameters, or the one that computes."""
        return self.home or next(self.parameters()).device

    def save(self, folder: str | Path) -> None:
        """Write the model folder; an existing one is replaced only when the new one is complete.

        Raises:
            DataError: if the place holds something other than a model folder, which is left alone, or it cannot be
                written, or a tokenizer file of the system is gone.
            UsageError: if the system is stored for searches under autocast, with rounded matrices, or by memory.
        """
        folder = Path(folder)
        if self.autocast_dtype is not None or self.home is not None:
            raise UsageError(
                f"{folder}: a system that was loaded for autocast, int8 or by memory is for searches; load it without "
                "to save it"
            )
        check_place(folder)
        try:
            with replaced_folder(folder) as temporary:
                self.save_description(temporary)
                save_file(contiguous(self.state_dict()), temporary / WEIGHTS)
                # safetensors writes for the owner alone; who may read the folder may read the weights.
                (temporary / WEIGHTS).chmod((temporary / CONFIG).stat().st_mode & 0o777)
        except (OSError, SafetensorError) as error:
            raise DataError(f"{folder}: the model could not be written ({error})") from error

    def save_description(self, folder: Path) -> None:
        """Write ``config.json`` and the tokenizer files into a folder."""
        assets: dict[str, Path] = {}
        config = {"format": FORMAT, "system": describe(self, assets), "files": self.files()}
        if self.origin:
            config["origin"] = self.origin
        for name in {CONFIG, WEIGHTS} & assets.keys():
            raise UsageError(f"{assets[name]}: a model folder has a file of its own that is called {name}: rename it")
        (folder / CONFIG).write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        for name, file in assets.items():
            (folder / name).write_bytes(file.read_bytes())

    def files(self) -> dict[str, str]:
        """Return a hash of each file that belongs to the system (of a tokenizer), by its name in the folder."""
        assets: dict[str, Path] = {}
        describe(self, assets)
        return {name: hashlib.sha256(file.read_bytes()).hexdigest()[:16] for name, file in assets.items()}

    def check_files(self, folder: Path) -> None:
        """Raise a DataError that names a file if the folder says that it was written with another one."""
        written = read_config(folder).get("files", {})
        for name, mark in self.files().items():
            if written.get(name, mark) != mark:  # its symbols mean something else to the model
                raise DataError(
                    f"{folder / name}: the model was trained with another file ({written[name]}, not {mark})"
                )

    @classmethod
    def load(cls, folder: str | Path, device: str | torch.device = "cpu") -> Self:
        """Load a model folder, or the last model of a run's folder, in eval mode and in the precision of the file.

        The header of the weights is compared with the description before either takes memory.

        Raises:
            DataError: naming the file, if something is missing, cut short, is not what a model folder holds, or needs
                more memory than is available.
        """
        folder = model_folder(folder)
        weights = folder / WEIGHTS
        refuse_over(size_of(cls.planned(folder)[0]), f"{folder / CONFIG}: the model that it describes", error=DataError)
        with Undrawn():
            system = cls.from_description(folder).to(device)
        values = system.state_dict(keep_vars=True)
        for name, tensor in WeightsFile(weights).items():  # one at a time, so that no second model takes memory
            value = values[name]
            if value.dtype != tensor.dtype and tensor.is_floating_point():
                value.data = torch.empty_like(value.data, dtype=tensor.dtype)
            value.data.copy_(tensor)
        return system.eval()

    @classmethod
    def planned(cls, folder: Path) -> tuple[Self, dict[str, torch.Tensor]]:
        """Return the system of a folder and its tensors by name, both on the meta device: without memory or values.

        Raises:
            DataError: as :meth:`load`.
        """
        folder = model_folder(folder)
        read_config(folder)
        weights = folder / WEIGHTS
        header = header_of(weights)
        with described_by(folder / CONFIG, header):
            planned = cls.from_description(folder)
        planned.check_files(folder)
        check_fit(planned, header, str(weights))
        return planned, header

    @classmethod
    def from_description(cls, folder: Path) -> Self:
        """Build the system that ``config.json`` describes, with fresh parameters.

        Raises:
            DataError: naming the file, if it is missing or describes something other than this class.
        """
        folder = model_folder(folder)
        config = read_config(folder)
        system = build_described(config["system"], folder)
        if not isinstance(system, cls):
            purpose = f": {purpose}" if (purpose := getattr(system, "purpose", "")) else ""
            raise DataError(f"{folder / CONFIG}: describes a {type(system).__name__}, not a {cls.__name__}{purpose}")
        system.origin = [str(line) for line in config.get("origin", [])]
        return system
