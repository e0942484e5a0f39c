"""Export to Hugging Face's layout: the class of transformers that computes the same, its settings, weights, tokenizer.

A plain text translator becomes BART, mBART, M2M-100, Marian or FSMT, by where it normalises and how it counts
positions; an encoder of waveforms becomes wav2vec 2.0, one of text with a head BERT or XLM-R, a text on both sides
with a head BART or mBART. What none of them computes is refused by name.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

from dragoman.exchange.huggingface.hf_heads_export import export_headed, headed_system
from dragoman.exchange.huggingface.hf_reading import CONFIG
from dragoman.exchange.huggingface.hf_tokenizer import new_order, write_tokenizer
from dragoman.exchange.huggingface.hf_translator_export import kind_of, plain_translator, settings_of, tensors_of
from dragoman.exchange.huggingface.hf_wav2vec2_export import encoder_of, export_encoder
from dragoman.exchange.huggingface.hf_writing import check_free, write_json, write_weights, written_folder
from dragoman.shared.errors import DataError
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
    check_free(out)
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
    with written_folder(out) as temporary:
        start = write_tokenizer(system, order, temporary)
        settings = settings_of(translator, kind)
        start.generation["max_length"] = min(LONGEST_OUTPUT, settings["max_position_embeddings"])
        write_json(temporary / CONFIG, settings | start.settings)
        write_json(temporary / "generation_config.json", start.generation)
        write_weights(temporary / WEIGHTS, tensors_of(translator, kind, torch.tensor(order)), CONFIG)
    return [f"{kind.architecture} ({kind.name})", *start.notes]
