"""Taking parameters from the model folders of earlier phases or other people."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from shared.errors import DataError, UsageError
from shared.system import System


class Initialise:
    """Copy parameters of another model into parts of this one.

    Args:
        folder: a model folder.
        parts: prefix of this system's parameter names -> prefix of the names in the folder; for example
            ``{model.encoder: model.encoder}``. Every parameter below a prefix must be found, with the same shape.
        allow: prefixes of this system's names that may stay as they are if the folder has no fitting tensor.

    """

    def __init__(self, *, folder: str, parts: dict[str, str], allow: list[str] | None = None) -> None:
        if not parts:
            raise UsageError("initialise: parts names nothing to initialise")
        self.folder, self.parts, self.allow = Path(folder), dict(parts), tuple(allow or ())

    def apply(self, system: System) -> list[str]:
        """Copy, and return lines that report what was taken.

        Raises:
            DataError: if anything below a prefix is missing or shaped differently and not allowed to be.

        """
        self._check_symbols(system)
        file = self.folder / "model.safetensors"
        try:
            tensors = load_file(file)
        except (FileNotFoundError, SafetensorError, OSError) as error:
            raise DataError(f"{file}: not a readable weights file ({error})") from error
        own = system.state_dict()
        report, problems = [], []
        for here, there in self.parts.items():
            names = [name for name in own if name == here or name.startswith(here + ".")]
            if not names:
                raise UsageError(f"initialise: the system has no parameters below {here!r}")
            taken = 0
            for name in names:
                found = tensors.get(there + name[len(here) :])
                if found is not None and found.shape == own[name].shape:
                    with torch.no_grad():
                        own[name].copy_(found)
                    taken += 1
                elif not name.startswith(self.allow or ("\0",)):
                    shape = "is missing" if found is None else f"is {tuple(found.shape)}, not {tuple(own[name].shape)}"
                    problems.append(f"{there + name[len(here) :]} {shape}")
            report.append(f"{here}: {taken} of {len(names)} tensors from {self.folder}")
        if problems:
            raise DataError(f"{file}: {'; '.join(problems[:3])} ({len(problems)} in all); name them in allow to go on")
        return report

    def _check_symbols(self, system: System) -> None:
        """Refuse vectors of symbols that mean something else there than here."""
        names = [name for name in system.state_dict() if any(f"{name}.".startswith(f"{part}.") for part in self.parts)]
        if not any(name.startswith(("model.target_embedding.", "model.projection.")) for name in names):
            return
        other = System.from_description(self.folder)
        here, there = system.output.tokenizer.fingerprint, other.output.tokenizer.fingerprint
        if here != there:
            raise DataError(
                f"{self.folder}: was trained with another tokenizer ({there}, here {here}): its symbols cannot be used"
            )
