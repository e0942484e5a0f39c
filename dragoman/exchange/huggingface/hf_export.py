"""Export to Hugging Face's layout: the class of transformers that computes the same, its settings, weights, tokenizer.

A plain text translator becomes BART, mBART, M2M-100, Marian or FSMT, by where it normalises and how it counts
positions; an encoder of waveforms becomes wav2vec 2.0, one of text with a head BERT or XLM-R, a text on both sides
with a head BART or mBART. What none of them computes is refused by name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from dragoman.exchange.huggingface.hf_heads_export import export_headed, headed_system
from dragoman.exchange.huggingface.hf_reading import CONFIG
from dragoman.exchange.huggingface.hf_tokenizer import new_order, write_tokenizer
from dragoman.exchange.huggingface.hf_translator_export import kind_of, plain_translator, settings_of, tensors_of
from dragoman.exchange.huggingface.hf_wav2vec2_export import encoder_of, export_encoder
from dragoman.shared.errors import DataError, one_line
from dragoman.shared.machine.files import is_empty, replaced_folder
from dragoman.shared.systems.encoder_system import EncoderSystem
from dragoman.shared.systems.model_folder import WEIGHTS
from dragoman.shared.systems.saved_model import SavedModel
from dragoman.shared.systems.system import System

LONGEST_OUTPUT = 200


def export(model: str | Path, out: str | Path) -> list[str]:
    """Write a model folder in Hugging Face's layout.

    Args:
        model: a model folder.
        out: where to write; an earlier export there is replaced once the new one is complete.

    Returns:
        What its user has to know, a line each: the class that loads it, and what to say about languages.

    Raises:
        DataError: if the model cannot be read, or ``out`` holds something other than such a folder.
        UsageError: for a model that transformers has no equal of, naming the part.
    """
    out = Path(out)
    if out.exists() and not (out / WEIGHTS).is_file() and not (out.is_dir() and is_empty(out)):
        raise DataError(f"{out}: holds something other than a model, which would be lost")
    if (out / CONFIG).is_file() and "system" in json.loads((out / CONFIG).read_text(encoding="utf-8")):
        raise DataError(f"{out}: holds a model folder of this project, which would be lost")
    loaded = SavedModel.load(model)
    encoder = encoder_of(loaded) if isinstance(loaded, EncoderSystem) else None
    if encoder is not None:
        return export_encoder(encoder, out)
    headed = headed_system(loaded)
    if headed is not None:
        return export_headed(headed, out)
    system = loaded if isinstance(loaded, System) else System.load(model)
    translator = plain_translator(system)
    order = new_order(system)
    kind = kind_of(translator, order.index(system.output.tokenizer.pad))
    try:
        with replaced_folder(out) as temporary:
            start = write_tokenizer(system, order, temporary)
            settings = settings_of(translator, kind)
            start.generation["max_length"] = min(LONGEST_OUTPUT, settings["max_position_embeddings"])
            _write(temporary / CONFIG, settings | start.settings)
            _write(temporary / "generation_config.json", start.generation)
            save_file(tensors_of(translator, kind, torch.tensor(order)), temporary / WEIGHTS, metadata={"format": "pt"})
            (temporary / WEIGHTS).chmod((temporary / CONFIG).stat().st_mode & 0o777)
    except SafetensorError as error:
        raise DataError(f"{out}: the model could not be written ({one_line(error)})") from error
    return [f"{kind.architecture} ({kind.name})", *start.notes]


def _write(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
