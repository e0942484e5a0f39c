"""Import of a decoder-only language model, with its chat template, as a translator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from dragoman.exchange.huggingface.hf_reading import CONFIG, Config
from dragoman.exchange.loaded import LoadReport
from dragoman.exchange.transformers_engine.causal import CausalModel
from dragoman.exchange.transformers_engine.library_folder import (
    PROBES,
    check_config,
    opened,
    opened_tokenizer,
    plain,
    report_of,
    tokenizer_file,
)
from dragoman.exchange.transformers_engine.prompt import CONTEXT, TEXT, PromptedSystem, PromptField, divided
from dragoman.exchange.vocabularies.json_file import JsonTokenizer
from dragoman.shared.batches.fields import Field, TextField
from dragoman.shared.errors import DataError, UsageError, one_line
from dragoman.shared.nn.translator import MEMORY
from dragoman.shared.text import languages
from dragoman.shared.text.tokenizer import Tokenizer

#: As TowerInstruct (Alves et al. 2024, arXiv 2402.17733) and ALMA (Xu et al. 2024) are asked.
PROMPT = (
    "Translate the following text from {source_language} into {target_language}.\n"
    "{source_language}: {text}\n{target_language}:"
)
START = "<start>"


def import_language_model(
    source: Path, scratch: Path, *, source_languages: list[str] | None, target_languages: list[str] | None, prompt: str
) -> tuple[PromptedSystem, LoadReport]:
    """Read a folder of a decoder-only language model in Hugging Face's layout.

    The chat template is rendered once, here, in the sandbox of transformers; the model folder holds what came out.
    Without one the prompt stands as it is behind the symbol that begins a text.

    Args:
        source: the folder; its weights are safetensors.
        scratch: a folder for the tokenizer's file, needed until the system is saved.
        source_languages: codes of what it is to translate from.
        target_languages: codes of what it is to translate into.
        prompt: what it is asked, with ``{text}``, ``{source_language}`` and ``{target_language}``; perhaps with
            ``{context}``, where the lines before stand.

    Returns:
        The system, and the report of what was loaded and what was not.

    Raises:
        DataError: if something is missing, or no language model for transformers.
        UsageError: without languages or the library, for a model that needs code of its own, or a tokenizer that
            divides a prompt otherwise than at its symbols.
    """
    sources, targets = given_languages(source_languages, target_languages)
    if prompt.count(TEXT) != 1:
        raise UsageError(f"--prompt must have the place of the text, {TEXT}, once, not {prompt!r}")
    config = Config(source / CONFIG).values
    check_config(config, str(source / CONFIG))
    loaded, info = opened(source, "AutoModelForCausalLM")
    theirs = opened_tokenizer(source)
    ends = ends_of(theirs, loaded)
    text = _rendered(theirs, prompt)
    last = library_ids(theirs, _with_text(text, PROBES[0]), "en", "de")[-1]
    rows = loaded.get_input_embeddings().num_embeddings
    parts, tokenizer = prompted(source, scratch, theirs, text, ends=ends, last=last, rows=rows)
    field = PromptField(prompt=parts, tokenizer=tokenizer)
    _compare(field, theirs, text, last)
    with torch.device("meta"):
        model = CausalModel(config=plain(config), ends=ends)
    model.lm = loaded
    return translating(source, model, info, {MEMORY: field}, tokenizer, (sources, targets))


def translating(
    source: Path,
    model: CausalModel,
    info: dict[str, Any],
    inputs: dict[str, Field],
    tokenizer: Tokenizer,
    codes: tuple[list[str], list[str]],
) -> tuple[PromptedSystem, LoadReport]:
    """Return a system around a model that is asked by a prompt, and the report of what was loaded.

    Args:
        source: the folder.
        model: with the library's weights.
        info: the library's, of what was loaded.
        inputs: of the model, by name.
        tokenizer: of prompt and output.
        codes: of the source languages, and of the target languages.
    """
    sources, targets = codes
    system = PromptedSystem(
        model=model,
        inputs=inputs,
        output=TextField(tokenizer=tokenizer, prefix=[START]),
        source_languages=sources,
        target_languages=targets,
    )
    report = report_of(source, model, info)
    system.origin.append(f"imported from {source.name} (transformers, {model.lm.config.model_type}): {report.counts}")
    return system.eval(), report


def given_languages(source: list[str] | None, target: list[str] | None) -> tuple[list[str], list[str]]:
    """Return the codes that a user gives.

    Raises:
        DataError: for an unknown code.
        UsageError: without any.
    """
    if not source or not target:
        raise UsageError(
            "a language model does not say what it translates: give --source-languages, --target-languages"
        )
    for code in (*source, *target):
        languages.check(code)
    return source, target


def prompted(
    source: Path, scratch: Path, theirs: Any, text: str, *, ends: list[int], last: int, rows: int
) -> tuple[list[str], JsonTokenizer]:
    """Divide a prompt at its symbols; return its parts, and the tokenizer that knows these.

    Args:
        source: the folder.
        scratch: a folder for the tokenizer's file.
        theirs: the library's tokenizer.
        text: the prompt as it is rendered.
        ends: the symbols that end an output.
        last: the id that the prompt ends with, and with which an output begins here.
        rows: how many vectors the model has.

    Raises:
        DataError: if the tokenizer has more symbols than that, or none for padding.
    """
    special = [str(token) for token in theirs.added_tokens_decoder.values() if token.special]
    parts = divided(text, special)
    symbols = {part: part for part in parts if part in special}
    symbols |= {"</s>": theirs.convert_ids_to_tokens(ends[0]), START: theirs.convert_ids_to_tokens(last)}
    symbols |= dict.fromkeys(("<pad>", "<unk>"), _idle(theirs, special, {*ends, last}))
    file = tokenizer_file(source, theirs, scratch)
    tokenizer = JsonTokenizer(file=str(file), symbols=symbols, rows=rows, pieces=[START])
    if tokenizer.size > rows:
        raise DataError(f"{file}: has {tokenizer.size} symbols, and the model {rows} vectors")
    return parts, tokenizer


def ends_of(tokenizer: Any, model: Any) -> list[int]:
    """Return the ids that end an output: the tokenizer's first, then those of the model's settings.

    Raises:
        DataError: if there is none.
    """
    said = getattr(model.generation_config, "eos_token_id", None)
    ends = [tokenizer.eos_token_id, *(said if isinstance(said, list) else [said])]
    ends = [*dict.fromkeys(end for end in ends if end is not None)]
    if not ends:
        raise DataError("neither tokenizer nor model name a symbol that ends an output")
    return ends


def _idle(tokenizer: Any, special: list[str], used: set[int]) -> str:
    """Return a symbol that no output has, for padding.

    Raises:
        DataError: if there is none.
    """
    wished = [tokenizer.pad_token, tokenizer.unk_token, tokenizer.bos_token, *special]
    for token in wished:
        if token is not None and tokenizer.convert_tokens_to_ids(token) not in used:
            return str(token)
    raise DataError("the tokenizer has no symbol but those that end an output, and none that could be padding")


def _rendered(tokenizer: Any, prompt: str) -> str:
    """Return the prompt as the chat template shows it, ready for the answer.

    Raises:
        DataError: for a template that fails, or changes the prompt.
    """
    if not tokenizer.chat_template:
        return f"{tokenizer.bos_token or ''}{prompt}"
    text = by_template(tokenizer, prompt, enable_thinking=False)
    if text.count(TEXT) != 1:
        raise DataError(f"the chat template shows the prompt {text.count(TEXT)} times: {text!r}")
    return text


def by_template(library: Any, content: Any, **options: Any) -> str:
    """Return what a user says as the chat template of a tokenizer or processor of the library shows it.

    Raises:
        DataError: for a template that fails.
    """
    said = [{"role": "user", "content": content}]
    try:
        return str(library.apply_chat_template(said, add_generation_prompt=True, tokenize=False, **options))
    except Exception as error:  # whatever a template of somebody else says
        raise DataError(f"the chat template fails ({type(error).__name__}: {one_line(error)})") from error


def library_ids(tokenizer: Any, text: str, source: str, target: str) -> list[int]:
    """Return the ids that the library makes of a rendered prompt, for two languages."""
    full = languages.with_languages(text, {"source_language": source, "target_language": target})
    return [*tokenizer(full, add_special_tokens=False)["input_ids"]]


def _with_text(text: str, probe: str) -> str:
    return text.replace(CONTEXT, "").replace(TEXT, probe)


def _compare(field: PromptField, theirs: Any, text: str, last: int) -> None:
    """Refuse, by UsageError, a tokenizer that divides a prompt otherwise than its symbols do."""
    for probe in PROBES:
        for codes in (("en", "de"), ("ja", "fi")):
            row = {"id": "", "source_text": probe, "source_language": codes[0], "target_language": codes[1]}
            ours, wanted = field.whole(row), library_ids(theirs, _with_text(text, probe), *codes)
            if ours != wanted or ours[-1] != last:
                raise UsageError(
                    f"the tokenizer makes {len(wanted)} tokens of the prompt around {probe!r}, and its parts have "
                    f"{len(ours)}: give a --prompt whose text ends with a line"
                )
