"""The folder of a model: its place, also within a run, and what its ``config.json`` says, whoever wrote it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from dragoman.shared.described import build
from dragoman.shared.errors import DataError, UsageError, one_line, shortened
from dragoman.shared.machine.files import is_empty
from dragoman.shared.machine.nesting import from_json
from dragoman.shared.machine.workspace import PhaseRecord

FORMAT = 1
#: How many folders are looked into to say which models there are: a whole disk takes minutes.
MOST_FOLDERS = 10_000
CONFIG, WEIGHTS = "config.json", "model.safetensors"


def model_folder(place: str | Path) -> Path:
    """Return the model folder that a person means: the folder itself, or the last model that a run has made.

    Args:
        place: a model folder, the folder of a phase that made one, or that of a run.

    Raises:
        DataError: naming what is there, if it holds no model, or several of which none is the last.
    """
    place = Path(place)
    if (place / CONFIG).is_file() or not place.is_dir():
        return place
    if (place / "model" / CONFIG).is_file():
        return place / "model"
    finished = {
        folder.parent: PhaseRecord(place, folder.parents[1].name).read().get("finished", "")
        for folder in sorted(place.glob(f"*/model/{CONFIG}"))
    }
    last = [folder for folder, time in finished.items() if time == max(finished.values())]
    if len(last) == 1:
        return last[0]
    raise DataError(f"{place}: not a model folder (it has no {CONFIG}){_inside(place)}")


def _inside(place: Path) -> str:
    """Say what there is instead of a model, "" for nothing."""
    below = list(islice(_folders(place), MOST_FOLDERS))
    models = sorted(str(folder) for folder in below if folder.name == "model" and (folder / CONFIG).is_file())
    if models:
        others = f" or {len(models) - 3} others" if len(models) > 3 else ""
        return f"; which model do you mean: {', '.join(models[:3])}{others}?"
    checkpoints = sorted(one for one in below if one.parent.name == "checkpoints" and (one / "meta.json").is_file())
    if checkpoints:
        return f": checkpoints ({checkpoints[-1]} is the newest) become a model at the end of the run"
    return ": the run has made no model yet" if (place / "recipe.yaml").is_file() else ""


def _folders(place: Path) -> Iterator[Path]:
    """Yield the folders below a place, those that are nearer first; nothing behind links."""
    waiting = deque([place])
    while waiting:
        try:
            with os.scandir(waiting.popleft()) as entries:
                folders = sorted((entry.path, entry.is_symlink()) for entry in entries if entry.is_dir())
        except OSError:  # not ours to read, or gone
            continue
        yield from (Path(path) for path, _ in folders)
        waiting += [Path(path) for path, is_link in folders if not is_link]


def read_config(folder: Path) -> dict[str, Any]:
    """Read ``config.json``, and check what does not belong to the description of the system.

    Raises:
        DataError: naming the file, if it is missing or does not describe a model.
    """
    path = folder / CONFIG
    if not path.is_file():
        lack = f"it has no {CONFIG}" if folder.exists() else "nothing is there"
        raise DataError(f"{folder}: not a model folder ({lack})")
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
