"""Options that several commands share, each defined once; nothing heavy is imported here.

A group of options is a dataclass whose fields are typer options. :func:`with_options` gives them to a command, which
receives one object of the group.
"""

from __future__ import annotations

import inspect
import math
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, get_type_hints

import typer

from dragoman.commands.text_options import ContextLines, GlossaryFile, names_of
from dragoman.shared.errors import UsageError, check_number

SEARCH, SAMPLING, SOUND, MODELS = "Search", "Sampling", "Sound files", "Models and machine"
CHOICE = "Choice among hypotheses"
SUBTITLES = "Limits of subtitles"
STREAM = "While listening"
ADDRESS, LIMITS = "Address and keys", "Limits of requests"
#: Those of shared/evaluation/metrics.py, which is too heavy to be imported here.
METRIC_NAMES = (
    "bleu, bleu_lc, bleu_bare, spbleu, chrf, chrf++, ter, wer, cer, wer_raw, cer_raw, accuracy, entity_f1, "
    "exact_match, answer_f1, exact_match_local, answer_f1_local, rouge1, rouge2, rougeL, rougeLsum, meteor"
)
#: The context of a command that gets keys of a recipe or options of a reader, beside its own.
OPEN = {"allow_extra_args": True, "ignore_unknown_options": True}
Command = TypeVar("Command", bound=Callable[..., Any])


def _option(help: str, panel: str, **settings: Any) -> Any:
    return typer.Option(help=help, rich_help_panel=panel, **settings)


SourceLanguage = Annotated[str | None, typer.Option("--source-language", "--from", help="language code of the input")]
TargetLanguage = Annotated[str | None, typer.Option("--target-language", "--to", help="language code of the output")]


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """The search: beam search, sampling, or prefix search with a CTC head (docs/search.md)."""

    beam: Annotated[int, _option("beam width; 1: greedy search", SEARCH, min=1)] = 5
    length_penalty: Annotated[float, _option("exponent of the length by which scores are divided", SEARCH)] = 1.0
    minimum_length: Annotated[int, _option("minimum length of an output in tokens", SEARCH, min=0)] = 1
    maximum_length_ratio: Annotated[
        float, _option("maximum length of an output, in tokens per encoder position", SEARCH, min=0.0)
    ] = 0.0
    maximum_length_extra: Annotated[int, _option("tokens added to that maximum length", SEARCH, min=0)] = 250
    no_repeat_ngram: Annotated[
        int, _option("size of the n-grams that an output must not repeat; 0: no limit", SEARCH, min=0)
    ] = 0
    allowed: Annotated[
        Path | None, _option("file with one token per line: the only tokens that an output may contain", SEARCH)
    ] = None
    forbidden: Annotated[
        Path | None, _option("file with one token per line: tokens that an output must not contain", SEARCH)
    ] = None
    ctc: Annotated[
        bool, _option("decode with the CTC head: prefix beam search, or the best path with --beam 1", SEARCH)
    ] = False
    length_bonus: Annotated[float, _option("score added per output token, with --ctc", SEARCH)] = 0.0
    iterations: Annotated[
        int,
        _option("passes of a model that fills masks, which tries --beam lengths; 0: as many as usual", SEARCH, min=0),
    ] = 0
    sample: Annotated[bool, _option("sample outputs instead of searching for the best one", SAMPLING)] = False
    temperature: Annotated[float, _option("below 1 sharpens the distribution, above 1 flattens it", SAMPLING)] = 1.0
    top_k: Annotated[int, _option("sample from the K most probable tokens; 0: from all", SAMPLING, min=0)] = 0
    top_p: Annotated[
        float,
        _option("sample from the smallest set of most probable tokens whose probabilities sum to at least P", SAMPLING),
    ] = 1.0
    seed: Annotated[int, _option("seed of the sampling", SAMPLING)] = 1

    @property
    def samples_outputs(self) -> bool:
        """Tell whether outputs are sampled."""
        return self.sample

    def check(self) -> None:
        """Refuse options that the chosen search does not read.

        Raises:
            UsageError: names the first such option.
        """
        if self.ctc:
            kind, read = "decoding by CTC", {"ctc", "beam", "length_bonus"}
        elif self.iterations:
            kind, read = "filling masks", {"iterations", "beam"}
        elif self.samples_outputs:
            kind, read = "sampling", RULES | {"sample", "temperature", "top_k", "top_p", "seed"}
        else:
            kind, read = "beam search", RULES | {"beam", "length_penalty"}
        for field in fields(SearchOptions):
            if field.name not in read and getattr(self, field.name) != field.default:
                raise UsageError(f"--{field.name.replace('_', '-')} does not apply to {kind}")


@dataclass(frozen=True, kw_only=True)
class ChoosingOptions(SearchOptions):
    """The search, and the choice among several hypotheses that it finds (docs/search.md)."""

    samples: Annotated[
        int, _option("number of outputs per input, with --sample, --mbr or --rerank", SAMPLING, min=1)
    ] = 1
    mbr: Annotated[
        str | None,
        _option(
            "chrf, chrf++, bleu or the folder of a COMET model: choose the hypothesis that is most like all of them "
            "(minimum Bayes risk), of --samples or of the beam",
            CHOICE,
        ),
    ] = None
    rerank: Annotated[
        Path | None,
        _option(
            "model folder: choose by score + weight x mean log-probability of a language model, or of a translator "
            "from the target language to the source language; or the folder of a COMET model without references, "
            "CometKiwi for example: choose by the quality that it estimates",
            CHOICE,
        ),
    ] = None
    rerank_weight: Annotated[float, _option("that weight", CHOICE)] = 1.0

    @property
    def chooses(self) -> bool:
        """Tell whether a judge chooses among hypotheses."""
        return self.mbr is not None or self.rerank is not None

    @property
    def samples_outputs(self) -> bool:
        """Tell whether outputs are sampled: several samples to choose among need no further word."""
        return self.sample or (self.chooses and self.samples > 1)

    def check(self) -> None:
        """Refuse options that the chosen search does not read, two judges, and a judge without a choice.

        Raises:
            UsageError: names the first such option.
        """
        super().check()
        if self.samples > 1 and not self.samples_outputs:
            raise UsageError(f"--samples {self.samples} needs --sample")
        if self.mbr is not None and self.rerank is not None:
            raise UsageError("--mbr and --rerank do not go together")
        if self.chooses and (self.samples if self.samples_outputs else self.beam) == 1:
            judge = "--rerank" if self.mbr is None else "--mbr"
            raise UsageError(f"{judge} chooses among several hypotheses: give --samples, or a --beam above 1")
        if self.rerank is None and self.rerank_weight != type(self).rerank_weight:
            raise UsageError("--rerank-weight needs --rerank")


RULES = {"minimum_length", "maximum_length_ratio", "maximum_length_extra", "no_repeat_ngram", "allowed", "forbidden"}


@dataclass(frozen=True, kw_only=True)
class DivisionOptions:
    """The division of long recordings into segments (docs/talks.md)."""

    #: Those that may be infinite.
    endless: ClassVar[tuple[str, ...]] = ("maximum_seconds", "longest_pause", "speech_margin")

    maximum_seconds: Annotated[
        float, _option("length in seconds above which sound files are divided; inf: never", SOUND)
    ] = 20.0
    segmenter: Annotated[
        str,
        _option(
            "where long sound files are divided: pauses (the quietest places), or silero (where there is least speech, "
            "for loud backgrounds; pip install 'dragoman\\[vad]')",
            SOUND,
        ),
    ] = "pauses"
    longest_pause: Annotated[
        float,
        _option("seconds of the longest pause within a segment of a divided file; inf: no limit", SOUND, min=0.0),
    ] = 0.5
    speech_margin: Annotated[
        float,
        _option("seconds kept before and after the speech of such a segment; inf: all of them", SOUND, min=0.0),
    ] = 0.03

    def check(self) -> None:
        """Accept every combination: the segmenters check their numbers."""


@dataclass(frozen=True, kw_only=True)
class SoundOptions(DivisionOptions):
    """The treatment of sound files before translation."""

    keep_silence: Annotated[
        bool, _option("also translate segments without speech, instead of skipping them with a warning", SOUND)
    ] = False
    speech_detector: Annotated[
        str,
        _option(
            "speech detector: silero (pip install 'dragoman\\[vad]'), levels (no extra package, but takes "
            "music for speech), or auto (silero if it is installed)",
            SOUND,
        ),
    ] = "auto"

    def refuse(self) -> None:
        """Refuse all of these options, for a model that reads text.

        Raises:
            UsageError: names the first one that was given.
        """
        for field in fields(self):
            if getattr(self, field.name) != field.default:
                raise UsageError(f"--{field.name.replace('_', '-')} does not apply: this model reads text")

    def check(self) -> None:
        """Refuse a detector that is not used, by UsageError."""
        if self.keep_silence and self.speech_detector != type(self).speech_detector:
            raise UsageError("--speech-detector does not apply with --keep-silence: nothing is skipped")


@dataclass(frozen=True, kw_only=True)
class SubtitleOptions:
    """The limits of subtitles; see shared/text/subtitles.py."""

    line_length: Annotated[int, _option("maximum number of characters in a line", SUBTITLES, min=1)] = 42
    lines: Annotated[int, _option("maximum number of lines in a block", SUBTITLES, min=1)] = 2
    characters_per_second: Annotated[float, _option("maximum reading speed", SUBTITLES)] = 21.0
    gap: Annotated[float, _option("minimum number of seconds between two blocks", SUBTITLES)] = 0.08
    shortest: Annotated[float, _option("minimum number of seconds that a block is shown", SUBTITLES)] = 1.0

    def check(self) -> None:
        """Accept every combination: the rules check their numbers."""


#: The policies of a listener, and the options that each of them reads.
POLICIES = {"agreement": {"agree"}, "alignatt": {"frames", "layer"}, "hold": {"hold"}, "wait-k": {"k", "tokens"}}


@dataclass(frozen=True, kw_only=True)
class PolicyOptions:
    """The policy of a listener: when to write (dragoman/simultaneous/policies.py); and the pauses between sentences."""

    policy: Annotated[
        str,
        _option(
            "what is written before the end: agreement (what the last outputs agree on), alignatt (what attends to "
            "sound that lies back), hold (all but the last tokens), wait-k (a word a chunk)",
            STREAM,
        ),
    ] = "agreement"
    chunk: Annotated[float, _option("seconds of sound from one translation to the next", STREAM, min=0.01)] = 0.5
    agree: Annotated[int, _option("agreement: number of outputs that have to agree", STREAM, min=2)] = 2
    frames: Annotated[int, _option("alignatt: encoder positions that are too new to be trusted", STREAM, min=1)] = 4
    layer: Annotated[
        int, _option("alignatt: decoder layer, 1 for the first; 0: at two thirds of the depth", STREAM, min=0)
    ] = 0
    hold: Annotated[int, _option("hold: number of tokens that are held back", STREAM, min=1)] = 6
    k: Annotated[int, _option("wait-k: number of chunks before the first word", STREAM, min=1)] = 3
    tokens: Annotated[
        bool,
        _option("wait-k: count tokens instead of words, as models do that were trained to wait (st/wait_k.py)", STREAM),
    ] = False
    pause: Annotated[float, _option("seconds without speech that end a sentence", STREAM)] = 0.6

    def check(self) -> None:
        """Refuse an unknown policy, and options of another one.

        Raises:
            UsageError: names the first such option.
        """
        for name in ("chunk", "pause"):
            check_number(f"--{name}", getattr(self, name), above=0, most=3600)
        if self.policy not in POLICIES:
            raise UsageError(f"--policy must be one of {', '.join(POLICIES)}, not {self.policy!r}")
        others = set().union(*POLICIES.values()) - POLICIES[self.policy]
        for field in fields(self):
            if field.name in others and getattr(self, field.name) != field.default:
                raise UsageError(f"--{field.name} does not apply to the policy {self.policy}")


@dataclass(frozen=True, kw_only=True)
class ListeningOptions(PolicyOptions):
    """A listener's policy, and what else ends a sentence."""

    maximum_seconds: Annotated[float, _option("seconds after which a sentence is ended in any case", STREAM)] = 20.0
    speech_detector: Annotated[str, _option("finds those pauses: auto, levels, silero", STREAM)] = "auto"

    def check(self) -> None:
        """Refuse what :class:`PolicyOptions` does, and a length out of its range, by UsageError."""
        super().check()
        check_number("--maximum-seconds", self.maximum_seconds, above=0, most=3600)


ENGINES = ("native", "ctranslate2")


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The task, the further models, the engine and the device."""

    reads: Annotated[
        str | None,
        _option("inputs to read, if the model was trained on several: speech, source, or speech,source", MODELS),
    ] = None
    writes: Annotated[
        str | None,
        _option("text to write, if the model was trained to write several: translation, transcript", MODELS),
    ] = None
    ensemble: Annotated[
        list[Path] | None,
        _option("another model, whose probabilities are averaged with the first's; repeatable", MODELS),
    ] = None
    lm: Annotated[Path | None, _option("model folder of a language model (see recipes/text/lm.yaml)", MODELS)] = None
    lm_weight: Annotated[float, _option("weight of the language model's log-probabilities", MODELS)] = 0.3
    ctc_weight: Annotated[
        float, _option("share of the CTC head in a joint search with the decoder, below 1; 0: none", MODELS)
    ] = 0.0
    batch_size: Annotated[
        int, _option("maximum number of inputs per batch; does not change the output", MODELS, min=1)
    ] = 32
    device: Annotated[str, _option("auto, cpu, cuda, cuda:1, mps", MODELS)] = "auto"
    precision: Annotated[str, _option("auto, fp32, bf16, fp16; int8: on a CPU", MODELS)] = "auto"
    memory: Annotated[
        str | None,
        _option("weights a device may hold, if the model is larger than it: 0=20GB,cpu=60GB (docs/search.md)", MODELS),
    ] = None
    engine: Annotated[
        str, _option("native, or ctranslate2 (text models, and their folders written by dragoman export)", MODELS)
    ] = "native"

    @property
    def inputs(self) -> list[str] | None:
        """The names of the inputs to read, None for the model's own choice."""
        return None if self.reads is None else names_of(self.reads)

    def check(self) -> None:
        """Refuse an unknown engine, a weight out of its range, and one without a language model, by UsageError."""
        if self.engine not in ENGINES:
            raise UsageError(f"--engine must be one of {', '.join(ENGINES)}, not {self.engine!r}")
        if self.engine != "native" and (self.ensemble or self.lm or self.ctc_weight or self.memory):
            raise UsageError(f"--ensemble, --lm, --ctc-weight and --memory need the native engine, not {self.engine}")
        if not 0 <= self.ctc_weight < 1:
            raise UsageError(f"--ctc-weight must be at least 0 and below 1, not {self.ctc_weight}")
        if self.lm is None and self.lm_weight != type(self).lm_weight:
            raise UsageError("--lm-weight needs --lm")
        if self.lm is not None:
            from dragoman.shared.systems.combining import LARGEST_WEIGHT  # which needs torch

            check_number("--lm-weight", self.lm_weight, above=0, most=LARGEST_WEIGHT)


@dataclass(frozen=True, kw_only=True)
class ServingOptions:
    """The address of a server, who may use it, the terms of all, and the limits of what they ask (docs/serving.md)."""

    host: Annotated[str, _option("address to listen at; 0.0.0.0: at all of this machine's", ADDRESS)] = "127.0.0.1"
    port: Annotated[int, _option("port; 0: a free one", ADDRESS, min=0, max=65535)] = 8000
    keys: Annotated[
        Path | None, _option("file with one key per line, of which a client must have one; default: none", ADDRESS)
    ] = None
    origin: Annotated[
        list[str] | None,
        _option("web page that may call the server from a browser (https://example.org); repeatable", ADDRESS),
    ] = None
    glossary: GlossaryFile = None
    context: ContextLines = 0
    upload_megabytes: Annotated[float, _option("size of an upload", LIMITS)] = 25.0
    upload_seconds: Annotated[float, _option("seconds of sound in an upload", LIMITS)] = 3600.0
    characters: Annotated[int, _option("characters of all texts of a request", LIMITS, min=1)] = 20_000
    requests: Annotated[
        int, _option("requests that are answered or wait at a time; others are told to come again (429)", LIMITS, min=1)
    ] = 64
    requests_per_client: Annotated[
        int, _option("of these, those of one client: by its key, or its address without one", LIMITS, min=1)
    ] = 32
    deadline: Annotated[float, _option("seconds after which a request has failed (504)", LIMITS)] = 300.0
    live: Annotated[
        int, _option("speakers who are heard live at a time; others are told to come again (429)", LIMITS, min=0)
    ] = 8
    live_seconds: Annotated[float, _option("seconds after which a live session is ended", LIMITS)] = 14_400.0
    readers: Annotated[int, _option("readers of all rooms at a time", LIMITS, min=0)] = 1000
    batch_wait: Annotated[
        float, _option("milliseconds that a line or segment waits for others to share its batch", LIMITS, min=0.0)
    ] = 5.0

    def check(self) -> None:
        """Refuse numbers out of their ranges, by UsageError."""
        check_number("--upload-megabytes", self.upload_megabytes, above=0, most=100_000)
        check_number("--upload-seconds", self.upload_seconds, above=0, most=1e6)
        check_number("--deadline", self.deadline, above=0, most=1e6)
        check_number("--live-seconds", self.live_seconds, above=0, most=1e6)
        check_number("--batch-wait", self.batch_wait, least=0, most=10_000)


def check_numbers(group: Any) -> None:
    """Refuse numbers of a group of options that are infinite, but for those whose help says so, or not numbers.

    Raises:
        UsageError: naming the first such option.
    """
    for field in fields(group):
        value = getattr(group, field.name)
        if isinstance(value, float) and not (value == math.inf and field.name in getattr(group, "endless", ())):
            check_number(f"--{field.name.replace('_', '-')}", value)


def command_line() -> str:
    """Return the command that runs, quoted as a shell needs it, for the records of what it makes."""
    return shlex.join(["dragoman", *sys.argv[1:]])


def with_options(**groups: type) -> Callable[[Command], Command]:
    """Give a command the options of groups; its parameters of the groups' names receive their objects.

    Args:
        groups: by parameter name: dataclasses with ``check()``, which is called.
    """

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        parameters = [parameter for name, parameter in signature.parameters.items() if name not in groups]
        for group in groups.values():
            hints = get_type_hints(group, include_extras=True)
            parameters += [
                inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
                for f in fields(group)
            ]

        @wraps(command)
        def run(**values: Any) -> Any:
            for name, group in groups.items():
                made = group(**{field.name: values.pop(field.name) for field in fields(group)})
                check_numbers(made)
                made.check()
                values[name] = made
            return command(**values)

        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run  # type: ignore[return-value]

    return decorate
