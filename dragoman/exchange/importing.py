"""From anybody's checkpoint to a model folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from dragoman.exchange.fairseq.fairseq_import import import_fairseq
from dragoman.exchange.huggingface.hf_import import import_huggingface
from dragoman.exchange.huggingface.hf_reading import CONFIG, Config, is_huggingface
from dragoman.exchange.huggingface.hub import fetch, own_files
from dragoman.exchange.loaded import LoadReport
from dragoman.exchange.transformers_engine.engine import TYPES, import_for_library
from dragoman.shared.errors import DataError, UsageError, one_line, shortened
from dragoman.shared.systems.reading_model import ReadingModel

ENGINES = ("native", "transformers")
#: Characters of a refusal, whatever stands in a file.
LONGEST = 2000
#: How names of files end that hold a checkpoint; no model on the Hub is named like that.
_CHECKPOINTS = {".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".npz"}


def import_model(
    source: str | Path,
    out: str | Path,
    *,
    allow: Sequence[str] = (),
    dictionary: str | Path | None = None,
    pieces: str | Path | None = None,
    source_languages: list[str] | None = None,
    target_languages: list[str] | None = None,
    engine: str = "native",
    prompt: str | None = None,
    window: float | None = None,
    times: bool = False,
) -> LoadReport:
    """Read a checkpoint and write a model folder.

    Args:
        source: a checkpoint of fairseq, or a folder with one; a folder in Hugging Face's layout, or the name of a
            model on its Hub (``organisation/model``).
        out: the model folder; one that is there is replaced when the new one is complete.
        allow: beginnings of names of tensors that may be missing, unexpected or reshaped.
        dictionary: where the dictionaries are, if not beside the checkpoint.
        pieces: what cuts text into pieces, if it is not found beside the checkpoint.
        source_languages: codes, if the checkpoint does not say them.
        target_languages: likewise.
        engine: "native"; or "transformers", whose code then computes the model (see docs/from_huggingface.md).
        prompt: what such a model is asked, with ``{text}``, ``{source_language}`` and ``{target_language}``.
        window: seconds that Whisper or Qwen2-Audio hears at a time, if they are to be fewer than its 30.
        times: Whisper writes the times of its segments (see whisper_times.py).

    Returns:
        What was loaded and what was not.

    Raises:
        DataError: if something is missing, has no counterpart here, or does not match and is not allowed.
        UsageError: if a language is unknown to the model, an option does not go with the source, or the source is a
            model folder already.
    """
    if engine not in ENGINES:
        raise UsageError(f"--engine must be one of {', '.join(ENGINES)}, not {engine!r}")
    if prompt is not None and engine == "native":
        raise UsageError("--prompt is for language models: it needs --engine transformers")
    folder, name = Path(source), None
    if not folder.exists() and re.fullmatch(r"[\w.-]+/[\w.-]+", str(source)):
        if folder.suffix in _CHECKPOINTS:
            raise DataError(f"{source}: no such file")
        try:
            folder, name = fetch(str(source)), str(source)
        except (DataError, UsageError) as error:
            if folder.parent.is_dir():
                reason = f"{source}: not in the folder {folder.parent}; as a name on the Hub: {error}"
                raise type(error)(reason) from error
            raise
    if own_files(folder) is not None:
        raise UsageError(f"{source}: is a model folder of this project already: nothing is to be imported")
    if window is not None and not is_huggingface(folder):
        raise UsageError("--window is for Whisper and Qwen2-Audio in Hugging Face's layout")
    if times and (engine != "native" or not is_huggingface(folder)):
        raise UsageError("--times is for Whisper in Hugging Face's layout, computed by the native engine")
    with TemporaryDirectory() as scratch:
        system: ReadingModel
        with _refusals(source):
            if engine == "transformers":
                system, report = import_for_library(
                    folder,
                    Path(scratch),
                    source_languages=source_languages,
                    target_languages=target_languages,
                    prompt=prompt,
                    window=window,
                )
            elif is_huggingface(folder):
                if dictionary or pieces:
                    raise UsageError(f"{source}: brings its own tokenizer; --dictionary and --pieces are for fairseq's")
                if (kind := Config(folder / CONFIG).need("model_type")) in TYPES:
                    raise UsageError(f"{source}: a {kind} is computed by transformers: add --engine transformers")
                system, report = import_huggingface(
                    folder,
                    Path(scratch),
                    name=name,
                    source_languages=source_languages,
                    target_languages=target_languages,
                    window=window,
                    times=times,
                )
            else:
                system, report = import_fairseq(
                    folder,
                    dictionary=Path(dictionary) if dictionary else None,
                    pieces=Path(pieces) if pieces else None,
                    source_languages=source_languages,
                    target_languages=target_languages,
                )
        report.check(allow)
        system.save(out)
    return report


@contextmanager
def _refusals(source: str | Path) -> Iterator[None]:
    """Turn whatever constructors and libraries say to values that nobody of this project wrote into one line."""
    try:
        yield
    except (DataError, UsageError) as error:
        place = "" if str(source) in str(error) else f"{source}: "
        raise type(error)(shortened(f"{place}{error}", LONGEST)) from error
    except Exception as error:
        said = f"{source}: cannot be imported ({type(error).__name__}: {one_line(error)})"
        raise DataError(shortened(said, LONGEST)) from error
