"""The folder of a model: its place, and what its ``config.json`` says, whoever wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shared.described import build
from shared.errors import DataError, UsageError, one_line, shortened
from shared.machine.files import is_empty
from shared.machine.nesting import from_json

FORMAT = 1
CONFIG, WEIGHTS = "config.json", "model.safetensors"


def read_config(folder: Path) -> dict[str, Any]:
    """Read ``config.json``, and check what does not belong to the description of the system.

    Raises:
        DataError: naming the file, if it is missing or does not describe a model.

    """
    path = folder / CONFIG
    if not path.is_file():
        inside = sorted(file.parent for file in folder.glob("**/model/" + CONFIG))[:3]
        instead = f"; the model of this run is {' or '.join(map(str, inside))}" if inside else ""
        raise DataError(f"{folder}: not a model folder (it has no {CONFIG}){instead}")
    try:
        config = from_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {type(error).__name__}: {one_line(error)}") from error
    if not isinstance(config, dict) or not {"format", "system"} <= config.keys():
        raise DataError(f"{path}: does not describe a model (it needs 'format' and 'system')")
    if config["format"] != FORMAT:
        raise DataError(f"{path}: format {config['format']!r} is not the known one, {FORMAT}")
    for name, kind, what in (("origin", list, "a list of lines"), ("files", dict, "marks of files by their names")):
        if not isinstance(config.get(name, kind()), kind):
            raise DataError(f"{path}: {name} is {shortened(repr(config[name]))}, not {what}")
    return config


def build_described(description: Any, folder: Path) -> Any:
    """Build what a model folder's ``config.json`` describes.

    Raises:
        DataError: naming the file, if it describes nothing that this project can build.

    """
    path = folder / CONFIG
    try:
        return build(description, folder)
    except (DataError, UsageError) as error:
        place = "" if str(folder) in str(error) else f"{path}: "  # a file beside it has been named
        raise DataError(f"{place}{error}") from error
    except Exception as error:  # whatever a constructor says to arguments that nobody of this project wrote
        raise DataError(f"{path}: {type(error).__name__}: {one_line(error)}") from error


def check_place(folder: Path) -> None:
    """Raise a DataError if a model cannot be written to a place without the loss of something else."""
    if folder.exists() and not (folder / CONFIG).is_file() and not (folder.is_dir() and is_empty(folder)):
        raise DataError(f"{folder}: holds something other than a model, which would be lost: give another place")
