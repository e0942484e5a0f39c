"""A speech language model: an encoder of speech, a projector, and a decoder-only language model that has prompts.

The vectors of the projector stand in the prompt where ``{audio}`` does; what is asked there is a task: to write the
translation, the transcript, or both, one after the other (as in SLAM-ASR, Ma et al. 2024, arXiv 2402.08846, and in
Qwen-Audio, Chu et al. 2023, arXiv 2311.07919). ``recipes/own/speech_llm.yaml`` composes and trains one.

Legend: B sentences, N samples, P prompt, T tokens, S vectors, D width.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.exchange.transformers_engine.causal import CausalModel
from dragoman.exchange.transformers_engine.prompt import TEXT, PromptedSystem, PromptField
from dragoman.shared.batch import Batch, naming_longest
from dragoman.shared.batches.fields import Rows, TextField
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.described import Described
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.translator import MEMORY, SPEECH
from dragoman.shared.padded import Padded
from dragoman.shared.systems.system import System
from dragoman.shared.text import languages
from dragoman.shared.text.tokenizer import Tokenizer

AUDIO, PROMPT = "{audio}", "prompt"
TRANSLATION, TRANSCRIPT, BOTH = "translation", "transcript", "both"
#: In the place of a sound among the ids of a prompt.
PLACE = -1


class SoundPromptField(Described):
    """A prompt around a sound as ids but for the last, with which the output begins; :data:`PLACE` for the sound.

    Args:
        prompt: its parts in order: symbols of the tokenizer, and texts in which ``{audio}`` stands for the sound,
            ``{source_language}`` and ``{target_language}`` for the English names of a row's languages.
        tokenizer: see shared/text/tokenizer.py; each text between symbols and sound is tokenised as a whole.

    Raises:
        UsageError: if the sound has no place in the prompt, or two, or a text has one.
    """

    unit = "elements"
    overhead = 0

    def __init__(self, *, prompt: list[str], tokenizer: Tokenizer) -> None:
        whole = "".join(prompt)
        if whole.count(AUDIO) != 1 or TEXT in whole:
            raise UsageError(f"a prompt around a sound has it, {AUDIO}, once, and no {TEXT}: {whole!r}")
        self.prompt = list(prompt)
        self.tokenizer = tokenizer
        self.padding = float(tokenizer.pad)

    def __call__(self, row: Row, rng: np.random.Generator) -> Tensor:
        """Return (P,) int64.

        Raises:
            DataError: if the row lacks a language that the prompt names.
        """
        return torch.tensor(self.whole(row)[:-1], dtype=torch.int64)

    def whole(self, row: Mapping[str, Any]) -> list[int]:
        """Return the ids of the prompt."""
        ids: list[int] = []
        for part in self.prompt:
            if part in self.tokenizer.symbols:
                ids.append(self.tokenizer.id(part))
                continue
            before, sound, behind = languages.with_languages(part, row).partition(AUDIO)
            for text, place in ((before, [PLACE] if sound else []), (behind, [])):
                ids += [*(self.tokenizer.encode(text) if text else []), *place]
        return ids

    def length(self, row: Row) -> int:
        """Return the number of ids, P."""
        return len(self.whole(row)) - 1

    def lengths(self, rows: Rows, folder: Path | None = None) -> np.ndarray:
        """Return the numbers of ids, the same for rows of the same languages."""
        names = ("source_language", "target_language")
        if isinstance(rows, Manifest):
            pairs = [*zip(*(rows.column(name).to_pylist() for name in names), strict=True)]
        else:
            pairs = [tuple(row.get(name) for name in names) for row in rows]
        known = {pair: self.length(dict(zip(names, pair, strict=True))) for pair in {*pairs}}
        return np.array([known[pair] for pair in pairs], dtype=np.int64)

    def evaluating(self) -> SoundPromptField:
        """Return the field itself: it has no noise."""
        return self


class ChainedText(TextField):
    """Texts of a row one after the other, with a text between: a transcript, and the translation that follows from it.

    Column and language are those of the last text. White space in texts becomes single spaces.

    Args:
        fields: the texts by name, in their order; of each, only its text is taken.
        prefix: symbols before the first text, as in ``TextField``.
        separator: between two texts; what a model wrote is divided there.

    Raises:
        UsageError: if there are not two texts or more, or the separator is a space or less.
    """

    def __init__(self, *, fields: dict[str, TextField], prefix: list[str], separator: str = "\n") -> None:
        if len(fields) < 2 or not separator.strip(" "):
            raise UsageError(f"a chain has two texts or more, and more than spaces between: {[*fields]}, {separator!r}")
        *_, last = fields.values()
        super().__init__(column=last.column, tokenizer=last.tokenizer, prefix=prefix)
        self.fields = dict(fields)
        self.separator = separator

    @property
    def fingerprint(self) -> str:
        """Hash of all that decides how many pieces the texts have."""
        parts = [super().fingerprint, self.separator]
        parts += [part for field in self.fields.values() for part in (field.column, field.fingerprint)]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def text(self, row: Row) -> str:
        """Return the row's texts as they are tokenised.

        Raises:
            DataError: if the row lacks one.
        """
        return self.separator.join(" ".join(field.text(row).split()) for field in self.fields.values())

    def texts(self, rows: Rows) -> list[str | None]:
        """Return the texts of all rows, None where one is missing."""
        columns = [field.column for field in self.fields.values()]
        return [None if any(row.get(column) is None for column in columns) else self.text(row) for row in rows]

    def divided(self, text: str) -> dict[str, str]:
        """Return each text of an output; those that no separator has begun are empty."""
        found = [*text.split(self.separator, len(self.fields) - 1), *[""] * len(self.fields)]
        return {name: one.strip() for name, one in zip(self.fields, found, strict=False)}


class SpeechLanguageModel(CausalModel):
    """A language model that reads vectors of speech among those of a prompt's tokens.

    Args:
        config: the library's ``config.json`` of the language model.
        ends: ids of the symbols that end an output, the tokenizer's ``</s>`` first.
        speech: from waveforms to vectors of the language model's width, such as a SpeechEmbedding above an encoder.
        recompute: see :class:`CausalModel`.

    Raises:
        DataError: as :class:`CausalModel`.
        UsageError: likewise; also if the widths differ.
    """

    def __init__(self, *, config: dict[str, Any], ends: list[int], speech: nn.Module, recompute: bool = False) -> None:
        super().__init__(config=config, ends=ends, recompute=recompute)
        if (width := getattr(speech, "width", self.width)) != self.width:
            raise UsageError(f"vectors of speech of width {width} for a language model of width {self.width}")
        self.speech = speech

    def encode(self, batch: Batch, field: str | None = None) -> Encoding:
        """Return the vectors (B, P - 1 + S, D) of prompts with the sounds in them.

        Raises:
            DataError: if one is longer than the model has positions, naming it.
        """
        embed, rows = self.lm.get_input_embeddings(), []
        with naming_longest(batch, SPEECH):
            heard = self.speech(batch[SPEECH])
            for ids, vectors in zip(batch[PROMPT].rows(), heard.rows(), strict=True):
                place = int((ids == PLACE).nonzero())
                around = embed(ids.clamp(min=0))
                rows.append(torch.cat([around[:place], vectors.to(around.dtype), around[place + 1 :]]))
            prompts = Padded.from_sequences(rows).to(heard.device)
            self._check_prompts(prompts.lengths)
        return Encoding({MEMORY: prompts})

    def longest_prompt(self, batch: Batch) -> int:
        """Return how many vectors the longest prompt of a batch has; those of its sound, if they can be told before."""
        samples, lengths = batch[SPEECH].lengths, getattr(self.speech, "lengths", None)
        heard = torch.zeros_like(samples)
        if lengths is not None:
            heard = lengths(samples.clamp(min=getattr(self.speech, "window", None) or 0))
        return int((batch[PROMPT].lengths - 1 + heard).max())

    def like_prompts(self, prefix: Padded) -> Padded:
        """Return the vectors (B, P, D) of tokens (B, P)."""
        return prefix.map(self.lm.get_input_embeddings())


class SpeechPromptSystem(PromptedSystem):
    """A speech language model with its prompts; one for each task, called by what is written.

    Args:
        model: a SpeechLanguageModel.
        prompts: by task: "translation", "transcript", "both".
        outputs: what is written, by task.
        task: the one at hand.
        source_languages: the language codes that the system was trained to read.
        target_languages: the language codes that it was trained to write.

    Raises:
        UsageError: if prompts and outputs are not of the same tasks, or none is the one at hand.
    """

    def __init__(
        self,
        *,
        model: nn.Module,
        prompts: dict[str, SoundPromptField],
        outputs: dict[str, TextField],
        task: str = TRANSLATION,
        source_languages: list[str],
        target_languages: list[str],
    ) -> None:
        if {*prompts} != {*outputs} or task not in prompts:
            raise UsageError(f"task {task!r}: there are prompts of {[*prompts]} and outputs of {[*outputs]}")
        output = outputs[task]
        super().__init__(
            model=model,
            inputs={SPEECH: SpeechField(), PROMPT: prompts[task]},
            output=output,
            output_name=[*output.fields][-1] if isinstance(output, ChainedText) else task,
            source_languages=source_languages,
            target_languages=target_languages,
        )
        self.prompts = dict(prompts)
        self.outputs = dict(outputs)
        self.task = task

    @property
    def texts(self) -> dict[str, TextField]:
        """The texts of each hypothesis, by name."""
        return self.output.fields if isinstance(self.output, ChainedText) else super().texts

    def text_fields(self) -> list[TextField]:
        """Return all text fields that the model writes, each once."""
        return [*self.outputs.values()]

    def for_task(self, *, reads: Sequence[str] | None = None, writes: str | None = None) -> System:
        """Return a system with the same model that is asked for another task; it reads speech in any case.

        Raises:
            UsageError: if it has no prompt for that, or does not read that.
        """
        if reads is not None:
            self._known_inputs(reads)
        if writes is not None and writes not in self.prompts:
            raise UsageError(f"the system can write {' or '.join(self.prompts)}, not {writes!r}")
        if writes in (None, self.task):
            return self
        other = type(self)(**self.arguments | {"task": writes}).train(self.training)
        other.origin, other.autocast_dtype = list(self.origin), self.autocast_dtype
        return other

    def texts_of(self, tokens: Sequence[int]) -> dict[str, str]:
        """Return the texts that the decoder's tokens stand for, by name."""
        if isinstance(self.output, ChainedText):
            return self.output.divided(self.output.decoded(tokens))
        return super().texts_of(tokens)


def asked(*, system: System, task: str) -> System:
    """Return the system at another task, for the fields of a stream.

    Raises:
        UsageError: if it has no prompt for that.
    """
    return system.for_task(writes=task)


def speech_language_model(
    *,
    speech: nn.Module,
    llm: System,
    prompts: dict[str, str],
    source_languages: list[str],
    target_languages: list[str],
    task: str = TRANSLATION,
) -> SpeechPromptSystem:
    """Put speech into the prompts of a language model that was imported through transformers.

    Args:
        speech: from waveforms to vectors of the language model's width.
        llm: the language model; a prompt takes the place of the text in the prompt that it was imported with.
        prompts: by task ("translation", "transcript", "both"), with ``{audio}``, ``{source_language}`` and
            ``{target_language}``.
        source_languages: codes of what is heard.
        target_languages: codes of what is written.
        task: that the system does unless it is asked for another.

    Raises:
        UsageError: if the system is no such language model, a task is unknown, or a prompt has no place for the sound
            or ends otherwise than that of the import.
    """
    model, shell = llm.model, llm.inputs.get(MEMORY)
    if type(model) is not CausalModel or not isinstance(shell, PromptField):
        raise UsageError(f"llm: a {type(model).__name__} is no decoder-only language model through transformers")
    tokenizer, start = llm.output.tokenizer, llm.output.prefix
    written = {
        TRANSLATION: TextField(tokenizer=tokenizer, prefix=start),
        TRANSCRIPT: TextField(column="source_text", tokenizer=tokenizer, prefix=start),
    }
    chain = {name: written[name] for name in (TRANSCRIPT, TRANSLATION)}
    outputs = written | {BOTH: ChainedText(fields=chain, prefix=start)}
    if unknown := [name for name in prompts if name not in outputs]:
        raise UsageError(f"prompts: the tasks are {', '.join(outputs)}, not {unknown[0]!r}")
    fields = {
        name: SoundPromptField(prompt=[part.replace(TEXT, prompt) for part in shell.prompt], tokenizer=tokenizer)
        for name, prompt in prompts.items()
    }
    for name, field in fields.items():
        row = {"id": name, "source_language": source_languages[0], "target_language": target_languages[0]}
        if field.whole(row)[-1] != tokenizer.id(start[-1]):
            raise UsageError(
                f"prompts: {name}: ends otherwise than the prompt of the import, whose text must not be its end"
            )
    arguments = model.arguments | {"speech": speech}
    with torch.device("meta"):
        joined = SpeechLanguageModel(**arguments)
    joined.lm = model.lm
    system = SpeechPromptSystem(
        model=joined,
        prompts=fields,
        outputs={name: outputs[name] for name in fields},
        task=task,
        source_languages=source_languages,
        target_languages=target_languages,
    )
    system.origin = list(llm.origin)
    return system
