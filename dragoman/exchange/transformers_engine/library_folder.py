"""Folders in Hugging Face's layout that the library transformers itself opens: what is refused, and how it is asked.

No code of a folder is run, and weights are read as safetensors alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from dragoman.exchange.huggingface.hf_tokenizer import JSON
from dragoman.exchange.loaded import LoadReport
from dragoman.shared.errors import DataError, UsageError, one_line

#: Of a configuration: what would have the library fetch code, or store weights in a form of somebody else.
REFUSED = ("auto_map", "quantization_config")
#: Likewise, but with a usual choice in its place: the attention may be named by a kernel on the Hub.
CHOSEN_HERE = ("attn_implementation", "_attn_implementation", "_attn_implementation_internal", "experts_implementation")
#: How attention is computed, by model type, where the library has not the usual way.
ATTENTION = {"nllb-moe": "eager"}
USUAL = "sdpa"
#: With which the library is asked for anything.
LOCAL: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
#: With which a tokenizer here is compared with the library's.
PROBES = ("Good morning, Mr. Müller!", "x", " Two  spaces and 3.5 %\nand a line", "これは文です。")


def library() -> Any:
    """Return transformers.

    Raises:
        UsageError: if it is not installed.
    """
    try:
        import transformers
    except ImportError as error:
        raise UsageError("this model needs transformers: pip install 'dragoman[hf]'") from error
    return transformers


def check_config(config: dict[str, Any], place: str) -> None:
    """Refuse a configuration that needs code of its own, or weights that are stored in few bits.

    Those of a model's parts stand inside it.

    Raises:
        UsageError: naming the key.
    """
    for key in REFUSED:
        if config.get(key):
            raise UsageError(f"{place}: {key} is refused: no code of a model is run, and weights are plain tensors")
    for name, inner in config.items():
        if isinstance(inner, dict):
            check_config(inner, f"{place}: {name}")


def plain(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration without what is chosen here, also in that of a part."""
    kept = {key: value for key, value in config.items() if key not in CHOSEN_HERE}
    return {key: plain(value) if isinstance(value, dict) else value for key, value in kept.items()}


def library_model(config: dict[str, Any], kind: str, what: str) -> Any:
    """Return the model that the library builds of a configuration, without weights.

    Args:
        config: the library's ``config.json``.
        kind: the library's class that finds the model's by the configuration: ``AutoModelForCausalLM``.
        what: the model is, for messages.

    Raises:
        DataError: if the library knows no such model.
        UsageError: if the library is not installed, or the configuration is refused.
    """
    check_config(config, "config")
    transformers = library()
    named = config.get("model_type", "")
    try:
        built = transformers.AutoConfig.for_model(**plain(config))
        found = getattr(transformers, kind)
        return found.from_config(built, attn_implementation=ATTENTION.get(named, USUAL), trust_remote_code=False)
    except (ValueError, KeyError, TypeError, AttributeError, ImportError) as error:
        raise DataError(f"transformers builds no {what} of a {named!r} ({one_line(error)})") from error


def opened(source: Path, kind: str, model_type: str = "") -> tuple[Any, dict[str, Any]]:
    """Return the model that the library reads from a folder, and what it says of the tensors.

    Args:
        source: the folder.
        kind: the library's class that finds the model's.
        model_type: as the folder's configuration says it.

    Raises:
        DataError: if it has no safetensors.
        UsageError: if the library is not installed.
    """
    if not any(source.glob("*.safetensors")):
        raise DataError(f"{source}: has no weights in the format safetensors")
    found = getattr(library(), kind)
    with quiet():
        model, info = found.from_pretrained(
            source,
            use_safetensors=True,
            dtype="auto",
            output_loading_info=True,
            attn_implementation=ATTENTION.get(model_type, USUAL),
            **LOCAL,
        )
    return model, info


def opened_tokenizer(source: Path) -> Any:
    """Return the library's tokenizer of a folder.

    Raises:
        DataError: if there is none; the library then makes one without pieces.
        UsageError: if the library is not installed, or the tokenizer is none of the library tokenizers.
    """
    with quiet():
        tokenizer = library().AutoTokenizer.from_pretrained(source, **LOCAL)
    if not tokenizer.is_fast:
        raise UsageError(f"{source}: its tokenizer has no tokenizer.json")
    if not tokenizer(PROBES[1], add_special_tokens=False)["input_ids"]:
        raise DataError(f"{source}: has no tokenizer (tokenizer.json, or the files that transformers makes one of)")
    return tokenizer


def tokenizer_file(source: Path, tokenizer: Any, scratch: Path) -> Path:
    """Return the file with the tokenizer: the folder's own, or what the library makes of the folder's others."""
    if not (source / JSON).is_file():
        tokenizer.backend_tokenizer.save(str(scratch / JSON))
        return scratch / JSON
    return source / JSON


def report_of(source: Path, model: nn.Module, info: dict[str, Any], elsewhere: tuple[str, ...] = ()) -> LoadReport:
    """Return what the library said of a folder's tensors as a report.

    Args:
        source: the folder.
        model: as it is saved here.
        info: what the library said.
        elsewhere: beginnings of names of tensors that serve what the model is not for.

    Raises:
        DataError: if a tensor holds a value that is not a finite number.
    """
    tensors = model.state_dict()
    for name, value in tensors.items():
        if not value.isfinite().all():
            raise DataError(f"{source}: {name} holds values that are not finite numbers")
    unexpected = sorted(info["unexpected_keys"])
    return LoadReport(
        source=str(source),
        loaded=[*tensors],
        missing=sorted(info["missing_keys"]),
        unexpected=[name for name in unexpected if not name.startswith(elsewhere)],
        reshaped={name: f"{theirs} there, {ours} here" for name, theirs, ours in info["mismatched_keys"]},
        elsewhere=[name for name in unexpected if name.startswith(elsewhere)],
    )


def without_tied(module: nn.Module, tensors: dict[str, Tensor], prefix: str, metadata: Any) -> None:
    """Leave out of a state dict what is the same parameter under a second name; a hook of ``state_dict``."""
    first = {name for name, _ in module.named_parameters()}
    for name, _ in module.named_parameters(remove_duplicate=False):
        if name not in first:
            tensors.pop(prefix + name, None)


def with_tied(module: nn.Module, tensors: dict[str, Tensor], prefix: str, *told: Any) -> None:
    """Give what is the same parameter under a second name its values; a hook before ``load_state_dict``."""
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if (first := prefix + names[id(parameter)]) in tensors:
            tensors.setdefault(prefix + name, tensors[first])


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the library from telling at length what a report here says; as it was afterwards."""
    logging = library().utils.logging
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()
