"""Export of a language model that was imported and trained on: its folder at Hugging Face with other weights."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from dragoman.exchange.huggingface.hf_like import check_back, check_out, copied, differing
from dragoman.exchange.huggingface.hf_reading import CONFIG, Config
from dragoman.exchange.transformers_engine.causal import CausalModel
from dragoman.exchange.transformers_engine.library_folder import (
    opened,
    opened_tokenizer,
    plain,
    quiet,
    tokenizer_file,
)
from dragoman.shared.errors import UsageError, shown
from dragoman.shared.machine.files import replaced_folder
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.systems.system import System


def holds_language_model(model: str | Path) -> bool:
    """Tell whether a model folder holds a decoder-only language model of the library, by its description."""
    with torch.device("meta"):
        return type(ReadingModel.from_description(Path(model)).model) is CausalModel


def export_language_model(model: str | Path, original: str | Path, out: str | Path) -> list[str]:
    """Write a folder that was imported before, with the weights of a model folder that was trained on.

    Tokenizer, chat template and settings of outputs are the folder's; the prompt is not in it. What was written is
    opened again and compared.

    Args:
        model: a model folder.
        original: the folder in Hugging Face's layout that it was imported from.
        out: where to write; an earlier export there is replaced once the new one is complete.

    Returns:
        The class that loads it.

    Raises:
        DataError: if a folder cannot be read, or ``out`` holds something other than such a folder.
        UsageError: if the model is not the original's: other settings, or another tokenizer.
    """
    original, out = Path(original), Path(out)
    check_out(model, original, out)
    system = System.load(model)
    lm = system.model
    assert isinstance(lm, CausalModel)
    theirs = plain(Config(original / CONFIG).values)
    for place, one, other in differing(lm.arguments["config"], theirs, CONFIG):
        raise UsageError(f"{model}: is no model like {original}: {place} is {shown(one)}, not {shown(other)}")
    with TemporaryDirectory() as scratch:
        file = tokenizer_file(original, opened_tokenizer(original), Path(scratch))
        tokenizer: Any = system.output.tokenizer
        if file.read_bytes() != Path(tokenizer.arguments["file"]).read_bytes():
            raise UsageError(f"{model}: is no model like {original}: its tokenizer is another one")
    with replaced_folder(out) as temporary, quiet():
        lm.lm.save_pretrained(temporary)
        for path in copied(original):
            if path.name != CONFIG:
                shutil.copyfile(path, temporary / path.name)
        for path in temporary.glob("*.safetensors"):
            path.chmod((temporary / CONFIG).stat().st_mode & 0o777)
        back, _ = opened(temporary, lm.found_by)
        check_back(back.state_dict(), lm.lm.state_dict(), set())
    return [f"{type(lm.lm).__name__} ({lm.lm.config.model_type}), as {original}"]
