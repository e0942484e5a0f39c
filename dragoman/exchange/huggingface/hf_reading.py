"""Folders in Hugging Face's layout: settings and tensors, read without transformers and without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from dragoman.exchange.foreign_settings import ForeignSettings, check_settings
from dragoman.exchange.unpickling import read_checkpoint
from dragoman.shared.errors import DataError, shown
from dragoman.shared.machine.nesting import from_json
from dragoman.shared.nn.weights import load_tensors

CONFIG = "config.json"


class Config(ForeignSettings):
    """The settings of a model, or those of its tokenizer.

    Args:
        path: of the JSON file.

    Raises:
        DataError: if it cannot be read or is not a dictionary, or a setting has a value that no network can have.
    """

    path: Path
    sign = " "

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values = read_json(path)
        if not isinstance(self.values, dict):
            raise DataError(f"{path}: does not hold settings")
        check_settings(self.values, path)

    def need(self, name: str) -> Any:
        """Return a setting.

        Raises:
            DataError: if the file does not say.
        """
        if self.get(name) is None:
            raise DataError(f"{self.path}: does not say {name}")
        return self.values[name]

    def choose(self, name: str, choices: dict[str, Any], default: str | None = None) -> Any:
        """Return what a setting stands for.

        Raises:
            DataError: if its value is not among the known ones.
        """
        value = self.need(name) if default is None else self.get(name, default)
        if value not in choices:
            raise DataError(f"{self.path}: {name} {shown(value)} has no counterpart here, only {', '.join(choices)}")
        return choices[value]


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        DataError: if it cannot be read.
    """
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file") from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as JSON ({error})") from error


def is_huggingface(folder: Path) -> bool:
    """Tell whether a folder holds a model in Hugging Face's layout."""
    if not (folder / CONFIG).is_file():
        return False
    values = read_json(folder / CONFIG)
    return isinstance(values, dict) and "model_type" in values


def read_tensors(folder: Path) -> tuple[dict[str, Tensor], Path]:
    """Read the weights of a folder, whole or in shards; safetensors before pickles, which are read restricted.

    Returns:
        The tensors, and the file that was (or that lists the files).

    Raises:
        DataError: naming the file, if there is none or one cannot be read.
    """
    for name, read in (("model.safetensors", load_tensors), ("pytorch_model.bin", _pickle)):
        if (folder / name).is_file():
            return read(folder / name), folder / name
        index = folder / f"{name}.index.json"
        if index.is_file():
            tensors: dict[str, Tensor] = {}
            for shard in sorted({*Config(index).need("weight_map").values()}):
                if Path(shard).name != shard:
                    raise DataError(f"{index}: {shard!r} is not a file of the folder")
                tensors |= read(folder / shard)
            return tensors, index
    raise DataError(f"{folder}: has neither model.safetensors nor pytorch_model.bin")


def _pickle(path: Path) -> dict[str, Tensor]:
    return {name: value for name, value in read_checkpoint(path).items() if isinstance(value, Tensor)}
