"""The search and the treatment of sound that a command's options describe."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from dragoman.commands.input_files import lines
from dragoman.commands.judging import OF_SENTENCES, ExpectedMetric, OtherModel
from dragoman.commands.model_options import ModelOptions
from dragoman.commands.search_options import ChoosingOptions, SearchOptions
from dragoman.commands.talk_options import SoundOptions
from dragoman.shared.errors import DataError, UsageError, check_number
from dragoman.shared.search import (
    AllowedTokens,
    AnySearch,
    BeamSearch,
    ChoosingSearch,
    CtcGreedySearch,
    CtcPrefixSearch,
    FillingSearch,
    ForbiddenTokens,
    GreedySearch,
    Judge,
    RepeatedNgrams,
    Rules,
    SamplingSearch,
)
from dragoman.shared.search.bans import Ban
from dragoman.shared.sound.segmentation import named_segmenter
from dragoman.shared.sound.speech_activity import speech_detector
from dragoman.shared.systems.combining import LARGEST_WEIGHT
from dragoman.shared.systems.ctc_system import CtcSystem
from dragoman.shared.systems.model_folder import model_folder
from dragoman.shared.systems.system import System
from dragoman.shared.text.tokenizer import Tokenizer

#: What a folder of unbabel-comet has.
COMET = "hparams.yaml"
#: Those of a command.
Options = TypeVar("Options", bound=SearchOptions)


def search_for(options: SearchOptions, *, n_best: int = 1, tokenizer: Tokenizer | None = None) -> AnySearch:
    """Return the search that the options describe.

    Args:
        options: checked ones.
        n_best: hypotheses of each input.
        tokenizer: whose symbols the files of allowed and forbidden ones name; without it they are not read, which is
            enough to find wrong numbers before a model is loaded.

    Raises:
        DataError: if a file names a symbol that there is not.
        UsageError: if the numbers do not fit together.
    """
    if isinstance(options, ChoosingOptions) and options.chooses:
        sampled = options.samples_outputs
        plain = replace(options, mbr=None, rerank=None, rerank_weight=1.0, sample=sampled)
        found_by: Any = search_for(plain, n_best=1 if sampled else options.beam, tokenizer=tokenizer)
        return ChoosingSearch(search=found_by, judge=judge_for(options), n_best=n_best)
    if n_best > 1 and options.sample:
        raise UsageError("--n-best does not apply to sampling: use --samples")
    if n_best > options.beam:
        raise UsageError(f"--n-best {n_best} is more than --beam {options.beam} finds")
    try:
        if options.ctc:
            if options.beam == 1 and n_best == 1:
                return CtcGreedySearch()
            return CtcPrefixSearch(beam=options.beam, n_best=n_best, length_bonus=options.length_bonus)
        if options.iterations:
            return FillingSearch(iterations=options.iterations, beam=options.beam, n_best=n_best)
        rules = rules_for(options, tokenizer)
        if options.sample:
            return SamplingSearch(
                samples=getattr(options, "samples", 1),
                temperature=options.temperature,
                top_k=options.top_k,
                top_p=options.top_p,
                seed=options.seed,
                rules=rules,
            )
        if options.beam == 1 and n_best == 1:
            return GreedySearch(rules=rules)
        return BeamSearch(beam=options.beam, length_penalty=options.length_penalty, n_best=n_best, rules=rules)
    except (DataError, UsageError):
        raise
    except ValueError as error:
        raise UsageError(str(error)) from error


def judge_for(options: ChoosingOptions) -> Judge:
    """Return what chooses among hypotheses; see :func:`search_for`."""
    if options.rerank is None:
        metric = str(options.mbr)
        if metric in OF_SENTENCES:
            return ExpectedMetric(metric=metric)
        if not (Path(metric) / COMET).is_file():
            raise UsageError(f"--mbr {metric}: neither {', '.join(OF_SENTENCES)} nor a folder of COMET, with {COMET}")
        from dragoman.exchange.comet_judges import ExpectedComet

        return ExpectedComet(model=metric)
    if (options.rerank / COMET).is_file():
        if options.rerank_weight != type(options).rerank_weight:
            raise UsageError(f"--rerank-weight: the estimator in {options.rerank} chooses alone")
        from dragoman.exchange.comet_judges import QualityEstimate

        return QualityEstimate(model=str(options.rerank))
    check_number("--rerank-weight", options.rerank_weight, above=0, most=LARGEST_WEIGHT)
    return OtherModel(model=str(model_folder(options.rerank)), weight=options.rerank_weight)


def rules_for(options: SearchOptions, tokenizer: Tokenizer | None) -> Rules:
    """Return the rules that the options describe; see :func:`search_for`."""
    bans: list[Ban] = []
    if options.no_repeat_ngram:
        bans.append(RepeatedNgrams(size=options.no_repeat_ngram))
    if tokenizer is not None and options.allowed is not None:
        bans.append(AllowedTokens(tokens=listed_symbols(options.allowed, tokenizer)))
    if tokenizer is not None and options.forbidden is not None:
        bans.append(ForbiddenTokens(tokens=listed_symbols(options.forbidden, tokenizer)))
    return Rules(
        minimum_length=options.minimum_length,
        maximum_length_ratio=options.maximum_length_ratio,
        maximum_length_extra=options.maximum_length_extra,
        bans=bans,
    )


def listed_symbols(path: Path, tokenizer: Tokenizer) -> list[int]:
    """Return the ids of the symbols (pieces, specials, tags) that a file has a line of each.

    Raises:
        DataError: naming the line that is no symbol of the tokenizer.
    """
    numbers = {tokenizer.symbol(id): id for id in range(tokenizer.size)}
    ids = []
    for number, symbol in enumerate(lines([path]), start=1):
        if symbol not in numbers:
            raise DataError(f"{path}: line {number}: {symbol!r} is no symbol of the tokenizer")
        ids.append(numbers[symbol])
    if not ids:
        raise DataError(f"{path}: names no symbol")
    return ids


def fitting(options: Options, system: System) -> Options:
    """Return the options with ``ctc`` or ``iterations``, if the system can be decoded in no other way.

    Raises:
        UsageError: if another option does not apply to decoding by CTC, or to filling masks.
    """
    usual = system.default_search()
    if isinstance(system, CtcSystem) and not options.ctc:
        changed = replace(options, ctc=True)
    elif isinstance(usual, FillingSearch) and not options.iterations:
        changed = replace(options, iterations=usual.iterations)
    else:
        return options
    changed.check()
    return changed


def translation_options(
    languages: tuple[str | None, str | None], sound: SoundOptions, models: ModelOptions, *, speech: bool
) -> dict[str, Any]:
    """Return the arguments of :meth:`System.parts` that the options describe, but for the search.

    Args:
        languages: the codes of source and target, None where the system knows one only.
        sound: the treatment of sound files.
        models: for their batch size.
        speech: look for segments without speech: the system reads sound.

    Raises:
        UsageError: if the detector is not installed.
    """
    return {
        "source_language": languages[0],
        "target_language": languages[1],
        "batch_size": models.batch_size,
        "maximum_seconds": sound.maximum_seconds,
        "segmenter": named_segmenter(sound.segmenter, margin=sound.speech_margin, longest_pause=sound.longest_pause),
        "keep_silence": sound.keep_silence,
        "detector": speech_detector(sound.speech_detector) if speech else None,
    }
