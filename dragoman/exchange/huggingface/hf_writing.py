"""Writing of folders in Hugging Face's layout: settings, weights, and the place where they are put."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from dragoman.shared.errors import DataError, one_line
from dragoman.shared.machine.files import is_empty, replaced_folder
from dragoman.shared.systems.model_folder import WEIGHTS


def check_free(out: Path, weights: str = WEIGHTS, what: str = "a model") -> None:
    """Raise a DataError if a place holds something else than an earlier export, whose file of weights is called so."""
    if out.exists() and not (out / weights).is_file() and not (out.is_dir() and is_empty(out)):
        raise DataError(f"{out}: holds something other than {what}, which would be lost")


@contextmanager
def written_folder(out: Path) -> Iterator[Path]:
    """Yield an empty folder that takes the place of ``out`` when the block ends well.

    Raises:
        DataError: if weights cannot be written.
    """
    try:
        with replaced_folder(out) as temporary:
            yield temporary
    except SafetensorError as error:
        raise DataError(f"{out}: the model could not be written ({one_line(error)})") from error


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write settings."""
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def exported(value: Tensor) -> Tensor:
    """Return a copy of a tensor as it is written: in single precision, with memory of its own."""
    return value.detach().float().contiguous().clone()


def write_weights(path: Path, tensors: dict[str, Tensor], settings: str) -> None:
    """Write tensors beside a file of settings: whoever may read that may read them, not their owner alone."""
    save_file(tensors, path, metadata={"format": "pt"})
    path.chmod((path.parent / settings).stat().st_mode & 0o777)
