"""Export of what was imported from a folder in Hugging Face's layout, and trained on: that folder with other weights.

Whatever can be imported goes back so: Whisper, Speech2Text, wav2vec 2.0, w2v-BERT, T5, and translators of text with the
tokenizers' classes that they came with. The folder's other files (settings, tokenizer, preprocessor, generation) stay
as they are. What was written is imported again and compared, so that no tensor can be lost on the way.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from dragoman.exchange.huggingface.hf_import import import_huggingface
from dragoman.exchange.huggingface.hf_reading import CONFIG, read_json, read_tensors
from dragoman.exchange.huggingface.hf_wav2vec2 import RENAMED
from dragoman.exchange.huggingface.hf_writing import check_free, write_json, write_weights, written_folder
from dragoman.exchange.loaded import LoadReport
from dragoman.shared.described import describe
from dragoman.shared.errors import DataError, UsageError, shown
from dragoman.shared.systems.model_folder import WEIGHTS
from dragoman.shared.systems.reading_model import ReadingModel

#: Files that are copied, by their endings; weights in other formats, and the list of their shards, are not.
COPIED, LISTS = (".json", ".txt", ".model", ".spm", ".jinja", ".tiktoken"), ".index.json"
#: Arguments of a model that matter in training alone.
TRAINING = {"dropout", "attention_dropout", "activation_dropout", "frame_dropout", "final_dropout", "layer_drop"}
TRAINING |= {"recompute", "masking", "specaugment", "augmentation"}
#: Biases that a model there may lack: one of keys adds the same to all scores of a query, and changes no attention.
WITHOUT = ".k_proj.bias"
#: Between a norm and the same after it was divided and multiplied by a factor, in single precision.
ROUNDING = 1e-6


def export_like(model: str | Path, original: str | Path, out: str | Path) -> list[str]:
    """Write a folder that was imported before, with the weights of a model folder that was trained on.

    Args:
        model: a model folder.
        original: the folder in Hugging Face's layout that it was imported from.
        out: where to write; an earlier export there is replaced once the new one is complete.

    Returns:
        The class that loads it.

    Raises:
        DataError: if a folder cannot be read, or ``out`` holds something other than such a folder.
        UsageError: if the model is not the original's: other parts, sizes, settings or tokenizers, naming the first.
    """
    original, out = Path(original), Path(out)
    check_out(model, original, out)
    system = ReadingModel.load(model)
    with TemporaryDirectory() as scratch:
        theirs, report = imported(original, system, Path(scratch))
        check_same(system, theirs, str(model), str(original))
    values = {name.removeprefix("model."): value for name, value in system.state_dict().items()}
    file, _ = read_tensors(original)
    tensors, expected = replaced(file, report, values, str(original))
    config = read_json(original / CONFIG)
    config = {name: value for name, value in config.items() if name != "torch_dtype"} | {"dtype": "float32"}
    with written_folder(out) as temporary:
        for path in copied(original):
            shutil.copyfile(path, temporary / path.name)
        write_json(temporary / CONFIG, config)
        write_weights(temporary / WEIGHTS, tensors, CONFIG)
        with TemporaryDirectory() as scratch:
            back, report = imported(temporary, system, Path(scratch))
        rounded = {name for name, parts in report.names.items() if {*parts} & {*report.factors}}
        check_back(back.model.state_dict(), expected, rounded)
    return [f"{(config.get('architectures') or ['a model'])[0]} ({config['model_type']}), as {original}"]


def check_out(model: str | Path, original: Path, out: Path, weights: str = WEIGHTS) -> None:
    """Refuse a place for an export, whose file of weights is called so, where something would be lost.

    Raises:
        DataError: if it holds something other than a model.
        UsageError: if it is the model itself, or what it is to be like.
    """
    check_free(out, weights)
    if out.resolve() in (original.resolve(), Path(model).resolve()):
        raise UsageError(f"{out}: is the model itself, or what it is to be like: give another place")


def copied(original: Path) -> list[Path]:
    """Return the files of a folder that stay as they are: all but weights, settings of the model included."""
    files = (path for path in sorted(original.iterdir()) if path.is_file())
    return [path for path in files if path.name.endswith(COPIED) and not path.name.endswith(LISTS)]


def imported(folder: Path, system: ReadingModel, scratch: Path) -> tuple[ReadingModel, LoadReport]:
    """Import a folder for the languages of a system."""
    return import_huggingface(
        folder,
        scratch,
        source_languages=system.source_languages or None,
        target_languages=getattr(system, "target_languages", None),
    )


def check_same(system: ReadingModel, theirs: ReadingModel, name: str, original: str) -> None:
    """Refuse a system that computes something else than the one that a folder describes.

    Raises:
        UsageError: naming the first thing that differs.
    """
    ours, others = (describe(one.model) for one in (system, theirs))
    for path, one, other in differing(ours, others):
        raise UsageError(f"{name}: is no model like {original}: {path} is {shown(one)}, not {shown(other)}")
    pairs = zip(system.text_fields(), theirs.text_fields(), strict=False)
    if any(one.tokenizer.fingerprint != other.tokenizer.fingerprint for one, other in pairs):
        raise UsageError(f"{name}: is no model like {original}: its tokenizer is another one")


def differing(one: Any, other: Any, path: str = "model") -> Iterator[tuple[str, Any, Any]]:
    """Yield place and values of what differs in two descriptions, but for what matters in training alone."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys([*one, *other]):
            inside = path if key in ("class", "arguments") else f"{path}.{key}"
            if key not in TRAINING:
                yield from differing(one.get(key), other.get(key), inside)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True)):
            yield from differing(*pair, f"{path}.{number}")
    elif one != other:
        yield path, one, other


def replaced(
    file: Mapping[str, Tensor], report: LoadReport, values: Mapping[str, Tensor], original: str
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return a file's tensors with other values, and our values as they are to come back from it.

    Args:
        file: by their names there.
        report: of their import.
        values: of our model, by their names here.
        original: the file, for errors.

    Raises:
        UsageError: for a value that has no place there.
    """
    places = dict(_places(file, {part for parts in report.names.values() for part in parts}))
    new: dict[str, Tensor] = {}
    expected: dict[str, Tensor] = {}
    for name, value in values.items():
        parts = report.names.get(name, (name,))
        pieces = [piece.float() for piece in value.chunk(len(parts))]
        for number, part in enumerate(parts):
            if part in places:
                piece = pieces[number] / report.factors.get(part, 1.0)
                new[places[part]] = piece.reshape(file[places[part]].shape)
            elif part.endswith(WITHOUT):
                pieces[number] = torch.zeros_like(pieces[number])
            else:
                raise UsageError(f"{original}: has no place for {name}")
        expected[name] = torch.cat(pieces)
    named = {name: tensor for name, tensor in file.items() if name in new and tensor.dim() == 2}
    for name, tensor in file.items():  # the others: copies of what is shared, and what is not read
        if name not in new:
            same = (
                new[other] for other, one in named.items() if one.shape == tensor.shape and torch.equal(one, tensor)
            )
            new[name] = next(same, tensor)
    return {name: value.detach().clone().contiguous() for name, value in new.items()}, expected


def _places(file: Mapping[str, Tensor], parts: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the name in a file of what an importer calls so: it may begin otherwise, or be of an older form."""
    older = {new: old for old, new in RENAMED.items()}
    for part in parts:
        forms = [part, *([older[part]] if part in older else [])]
        for name in file:
            if any(name == form or name.endswith(f".{form}") or form.endswith(f".{name}") for form in forms):
                yield part, name


def check_back(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], rounded: set[str]) -> None:
    """Compare what was written, imported again, with what was to be written.

    Raises:
        DataError: naming the first tensor that is another one.
    """
    for name, value in expected.items():
        close = name in rounded and torch.allclose(found[name], value, rtol=ROUNDING, atol=0)
        if not close and not torch.equal(found[name], value):
            raise DataError(f"{name} does not come back from what was written as it is")
