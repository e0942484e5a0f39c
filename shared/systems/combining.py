"""Systems made of systems: an ensemble, with a language model, searched through a CTC head or together with it.

What comes out is a System like any other: it translates, is evaluated, and can be saved as one model folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import torch

from dragoman.shared.batches.fields import Field
from dragoman.shared.described import describe
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Generator, Scorer
from dragoman.shared.machine.settings import prepare_process
from dragoman.shared.nn.combined import Ensemble, ShallowFusion
from dragoman.shared.nn.int8 import has_int8
from dragoman.shared.nn.joint_ctc import JointCtc
from dragoman.shared.nn.linear import store_for_search
from dragoman.shared.ranges import Range
from dragoman.shared.systems.ctc_system import CtcSystem
from dragoman.shared.systems.system import System

#: A language model with a higher weight would decide alone.
LARGEST_WEIGHT = 1e4
LmWeight = Annotated[float, Range(above=0, most=LARGEST_WEIGHT)]


def check_joint(ctc_weight: float, *, ctc: bool = False, ensemble: Sequence[Any] = ()) -> None:
    """Refuse a share of a CTC head that is not from 0 to below 1, or has nothing to be shared with, by UsageError."""
    if not 0 <= ctc_weight < 1:
        raise UsageError(f"ctc_weight must be at least 0 and below 1, not {ctc_weight} (CTC alone is ctc)")
    if ctc_weight and (ctc or ensemble):
        other = "a search through the head alone" if ctc else "an ensemble"
        raise UsageError(f"a joint search of decoder and CTC head (ctc_weight) does not go with {other}")


def load_combined(
    model: Path,
    device: str | torch.device = "cpu",
    *,
    autocast_dtype: torch.dtype | None = None,
    ensemble: Sequence[Path] = (),
    language_model: Path | None = None,
    lm_weight: float = 0.0,
    ctc: bool = False,
    ctc_weight: float = 0.0,
    reads: Sequence[str] | None = None,
    writes: str | None = None,
    load: Callable[[Path], System] | None = None,
) -> System:
    """Load a model folder, and what is to work with it, for searches.

    On a CPU, this process then keeps the memory that it frees. Matrices are stored as searches read them best: given
    ``autocast_dtype``, for searches under this autocast, or in eight bits, and nothing else, so that the system can be
    neither saved, moved nor copied.

    Args:
        model: the folder.
        device: where to put the model.
        autocast_dtype: of the searches; int8 for matrices in eight bits (shared/nn/int8.py), on a CPU.
        ensemble: further folders, whose probabilities are averaged with the model's.
        language_model: the folder of a language model that takes part in the search.
        lm_weight: its weight.
        ctc: decode through the CTC head.
        ctc_weight: the head's share in the scores of a joint search with the decoder; 0 for none.
        reads: the inputs that are read; None for those that the folder names.
        writes: the text that is written; None for the one that the folder names.
        load: reads the model, and stores it for searches; None: all of it to the device.

    Raises:
        DataError: if a folder is not one.
        UsageError: if the systems do not fit together.
    """
    check_joint(ctc_weight, ctc=ctc, ensemble=ensemble)
    if autocast_dtype == torch.int8 and not has_int8():
        raise UsageError("precision int8: this build of torch has no oneDNN, which multiplies in eight bits")
    system = System.load(model, device) if load is None else load(model)
    home = system.home
    system = system.for_task(reads=reads, writes=writes)
    if ctc:
        system = through_ctc(system)
    system = with_ctc(system, ctc_weight)
    if ensemble:
        others = [System.load(folder, device).for_task(reads=reads, writes=writes) for folder in ensemble]
        system = ensembled([system, *others])
    if language_model is not None:
        try:
            system = with_language_model(system, System.load(language_model, device), lm_weight)
        except UsageError as error:
            raise UsageError(f"{language_model}: {error}") from error
    if load is None:
        store_for_search(system, autocast_dtype)
    system.autocast_dtype, system.home = autocast_dtype, home
    prepare_process(device)  # only now: what was freed while matrices were stored goes back to the machine
    return system


def ensembled(systems: Sequence[System]) -> System:
    """Return a system that averages the probabilities of systems which read and write the same.

    Raises:
        UsageError: if they do not, or have no decoders; naming the first difference.
    """
    first = systems[0]
    for number, system in enumerate(systems, start=1):
        if system.generator is None:
            raise UsageError(f"model {number} of the ensemble does not write from left to right: it cannot be averaged")
        difference = _difference(first, system)
        if difference:
            raise UsageError(f"model {number} of the ensemble does not fit the first: {difference}")
    model = Ensemble(models=[system.model for system in systems])
    return type(first)(**first.arguments | {"model": model}).eval()


def with_language_model(system: System, language_model: System, weight: float) -> System:
    """Return the system with a language model that has a say in every search (shallow fusion).

    It writes those of the system's languages that the language model knows.

    Raises:
        UsageError: if the second system is no language model, or they do not write the same symbols.
    """
    model = language_model.model
    if language_model.inputs or not isinstance(model, Generator) or not isinstance(model, Scorer):
        raise UsageError("not a language model: it reads an input")
    codes = [code for code in system.target_languages if code in language_model.target_languages]
    if not codes:
        raise UsageError(
            f"the language model knows {', '.join(language_model.target_languages)}, "
            f"the system writes {', '.join(system.target_languages)}"
        )
    difference = _difference_in_output(system, language_model, codes)
    if difference:
        raise UsageError(f"the language model does not fit the system: {difference}")
    changed: dict[str, Any] = {"target_languages": codes}
    if isinstance(system, CtcSystem):
        changed |= {"language_model": model, "lm_weight": weight}
    elif system.generator is not None:
        changed |= {"model": ShallowFusion(model=system.model, language_model=model, weight=weight)}
    else:
        raise UsageError("the system has no decoder that a language model could help")
    return type(system)(**system.arguments | changed).eval()


def through_ctc(system: System) -> CtcSystem:
    """Return a system that is decoded through the CTC head of another; one that is already stays as it is.

    Raises:
        UsageError: if there is no such head, or the system does not say what it writes.
    """
    if isinstance(system, CtcSystem):
        return system
    output = system.ctc_output
    if output is None or "ctc" not in getattr(system.model, "heads", {}):
        raise UsageError(
            "this system cannot be decoded with CTC: it has no CTC head, or does not describe the output of that head"
        )
    return CtcSystem(
        model=system.model,
        inputs=system.inputs,
        reads=system.reads,
        decoder_output=system.output,
        output=output,
        output_name="transcript" if output.side == "source" else "translation",
        source_languages=system.source_languages,
        target_languages=system.source_languages if output.side == "source" else system.target_languages,
    ).eval()


def with_ctc(system: System, weight: float) -> System:
    """Return a system whose decoder and CTC head judge together: all tokens, or those of the first of several texts.

    It writes no other outputs.

    Args:
        system: with both.
        weight: the head's share; with 0 the system stays as it is.

    Raises:
        UsageError: if there are not both, or they do not write the same text; if the weight is not from 0 to below 1.
    """
    check_joint(weight)
    if not weight:
        return system
    heard = system.ctc_output
    if heard is None or system.generator is None or "ctc" not in getattr(system.model, "heads", {}):
        raise UsageError(
            "this system has no joint search with CTC: it lacks a decoder or a CTC head, or does not describe the "
            "output of that head"
        )
    text, end = system.output.first_text()
    if (heard.column, heard.fingerprint) != (text.column, text.fingerprint):
        raise UsageError(
            f"the CTC head writes {heard.column!r} and the decoder {text.column!r}, or with other symbols: they "
            "cannot judge the same tokens"
        )
    beginnings = [system.output.prefix_ids(*pair) for pair in _pairs(system, system.output_languages)]
    passed = sorted({symbol for beginning in beginnings for symbol in beginning})
    changed: dict[str, Any] = {"model": JointCtc(model=system.model, weight=weight, end=end, passed=passed)}
    if system.other_outputs:  # which the head does not judge
        changed["other_outputs"] = {}
    together = type(system)(**system.arguments | changed).eval()
    together.origin = list(system.origin)
    return together


def _difference(one: System, other: System) -> str:
    """Say in what two systems differ that should read and write the same, "" for nothing."""
    if one.reads != other.reads:
        return f"it reads {', '.join(other.reads) or 'nothing'}, not {', '.join(one.reads) or 'nothing'}"
    for name, field in one.input_fields.items():
        if _reading(field) != _reading(other.inputs[name]):
            return f"its input {name!r} is another field, or has another tokenizer"
    missing = [code for code in one.target_languages if code not in other.target_languages]
    if missing:
        return f"it does not write {', '.join(missing)}"
    return _difference_in_output(one, other, one.target_languages)


def _difference_in_output(one: System, other: System, codes: Sequence[str]) -> str:
    here, there = one.output.tokenizer.fingerprint, other.output.tokenizer.fingerprint
    if here != there:
        return f"its output has another tokenizer ({there}, not {here})"
    for code, source in _pairs(one, codes):
        if one.output.prefix_ids(code, source) != other.output.prefix_ids(code, source):
            return f"its output in {code!r} begins with other symbols"
    return ""


def _pairs(system: System, codes: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Yield languages of outputs with those of their sources, which are None where outputs begin alike for all."""
    asked = any("{source_language}" in symbol for symbol in system.output.prefix)
    return product(codes, system.source_languages if asked else [None])


def _reading(field: Field) -> Any:
    """Return what decides how a field turns a row into numbers; tokenizers by what they do, not where they lie."""
    arguments = dict(getattr(field, "arguments", {}))
    tokenizer = arguments.pop("tokenizer", None)
    return type(field), describe(arguments), getattr(tokenizer, "fingerprint", None)
