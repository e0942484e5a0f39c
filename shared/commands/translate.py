"""The commands that use a model folder: translate, evaluate, rescore, score."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from shared.commands.diff import render_comparisons
from shared.commands.options import ModelOptions, SearchOptions, SoundOptions, command_line
from shared.corpus.findings import LONGEST_TEXT
from shared.corpus.manifest import Manifest
from shared.corpus.speech_activity import check_detector, speech_detector
from shared.corpus.stream import translation_budget
from shared.errors import DataError, UsageError, one_line, shortened
from shared.evaluation.outputs import ONE_LINE
from shared.evaluation.rescoring import perplexity, rescore, write_rescored
from shared.evaluation.scores import Score, TextScorer
from shared.evaluation.scoring import check_metrics, evaluate_system
from shared.evaluation.significance import compare
from shared.machine.processes import join, leave, together
from shared.machine.workspace import Workspace
from shared.phases.testing import Evaluate
from shared.run.running import log_to_terminal
from shared.search import (
    AllowedTokens,
    AnySearch,
    BeamSearch,
    CtcGreedySearch,
    CtcPrefixSearch,
    ForbiddenTokens,
    GreedySearch,
    RepeatedNgrams,
    Rules,
    SamplingSearch,
)
from shared.search.bans import Ban
from shared.systems.combining import load_combined
from shared.systems.ctc_system import CtcSystem
from shared.systems.inputs import AUDIO_SUFFIXES
from shared.systems.system import System
from shared.text.surrogates import printable
from shared.text.tokenizer import Tokenizer

CHUNK = 2048  # lines held in memory at a time


def search_for(
    options: SearchOptions, *, n_best: int = 1, samples: int = 1, tokenizer: Tokenizer | None = None
) -> AnySearch:
    """Return the search that the options describe.

    Args:
        options: checked ones.
        n_best: hypotheses of each input.
        samples: outputs of each input, when sampling.
        tokenizer: whose symbols the files of allowed and forbidden ones name; without it they are not read, which is
            enough to find wrong numbers before a model is loaded.

    Raises:
        DataError: if a file names a symbol that there is not.
        UsageError: if the numbers do not fit together.

    """
    if samples > 1 and not options.sample:
        raise UsageError(f"--samples {samples} needs --sample")
    if n_best > 1 and options.sample:
        raise UsageError("--n-best has no part in sampling: say --samples")
    try:
        if options.ctc:
            if options.beam == 1 and n_best == 1:
                return CtcGreedySearch()
            return CtcPrefixSearch(beam=options.beam, n_best=n_best, length_bonus=options.length_bonus)
        rules = rules_for(options, tokenizer)
        if options.sample:
            return SamplingSearch(
                samples=samples,
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
    known = {tokenizer.symbol(id): id for id in range(tokenizer.size)}
    ids = []
    for number, symbol in enumerate(lines([path]), start=1):
        if symbol not in known:
            raise DataError(f"{path}: line {number}: {symbol!r} is no symbol of the tokenizer")
        ids.append(known[symbol])
    if not ids:
        raise DataError(f"{path}: names no symbol")
    return ids


def load_models(model: Path, options: ModelOptions, workspace: Workspace, *, ctc: bool = False) -> System:
    """Load a model folder and those that the options put beside it, for the engine that they name and searches there.

    Raises:
        UsageError: if the engine cannot read a CTC head, or has no place for the model.

    """
    if options.engine == "ctranslate2":
        from shared.exchange.ctranslate2 import CTranslate2System

        if ctc:
            raise UsageError("--ctc needs the native engine")
        return CTranslate2System.open(model, workspace.device)
    return load_combined(
        model,
        workspace.device,
        autocast_dtype=workspace.autocast_dtype,
        ensemble=options.ensemble or [],
        language_model=options.lm,
        lm_weight=options.lm_weight,
        ctc=ctc,
    )


def fitting(options: SearchOptions, system: System) -> SearchOptions:
    """Return the options with ``ctc``, if the system can be decoded in no other way.

    Raises:
        UsageError: if another option has no part in that.

    """
    if options.ctc or not isinstance(system, CtcSystem):
        return options
    changed = replace(options, ctc=True)
    changed.check()
    return changed


def translate_inputs(
    model: Path,
    inputs: list[Path],
    *,
    languages: tuple[str | None, str | None],
    n_best: int,
    samples: int,
    sound: SoundOptions,
    search: SearchOptions,
    models: ModelOptions,
) -> None:
    """Translate files or standard input and print the result."""
    search_for(search, n_best=n_best, samples=samples)
    check_detector(sound.speech_detector)
    workspace = Workspace(output=Path(), device=models.device, precision=models.precision)
    system = load_models(model, models, workspace, ctc=search.ctc)
    search = fitting(search, system)
    chosen = search_for(search, n_best=n_best, samples=samples, tokenizer=system.output.tokenizer)
    speech, several = "speech" in system.inputs, max(n_best, samples) > 1
    detector = speech_detector(sound.speech_detector) if speech else None
    items: Iterable[str | Path] = sound_files(inputs) if speech else lines(inputs)
    iterator = enumerate(items, start=1)
    unreadable: list[DataError] = []
    while chunk := list(islice(iterator, CHUNK)):
        before = len(unreadable)
        with workspace.autocast():
            found = system.hypotheses(
                [item for _, item in chunk],
                source_language=languages[0],
                target_language=languages[1],
                search=chosen,
                batch_size=models.batch_size,
                maximum_seconds=sound.maximum_seconds,
                keep_silence=sound.keep_silence,
                detector=detector,
                unreadable=unreadable,
            )
        for (number, item), hypotheses in zip(chunk, found, strict=True):
            for hypothesis in hypotheses:
                cells = [str(item)] if speech else [str(number)] if several else []
                cells += [f"{hypothesis.score:.4f}"] if several else []
                print("\t".join([*cells, hypothesis.texts[system.output_name].translate(ONE_LINE)]))
        sys.stdout.flush()
        for error in unreadable[before:]:
            print(f"dragoman: error: {printable(one_line(error))}", file=sys.stderr)
    if unreadable:
        raise DataError(f"{len(unreadable)} of {number} sound files could not be translated")


def sound_files(inputs: list[Path]) -> list[Path]:
    """Return the sound files among the inputs and in the folders among them, sorted within a folder."""
    if not inputs:
        raise UsageError("this system reads speech: give sound files, or folders of them")
    found: list[Path] = []
    for path in inputs:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.suffix.lower() in AUDIO_SUFFIXES)
            if not inside:
                raise DataError(f"{path}: holds no sound file ({', '.join(sorted(AUDIO_SUFFIXES))})")
            found += inside
        else:
            found.append(path)
    return found


def lines(inputs: list[Path]) -> Iterator[str]:
    """Yield the lines of text files, or of standard input if there are none; only a newline ends a line."""
    if not inputs:
        yield from _decoded(sys.stdin.buffer, "standard input")
    for path in inputs:
        try:
            with open(path, "rb") as file:
                yield from _decoded(file, str(path))
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def _decoded(file: BinaryIO, name: str) -> Iterator[str]:
    # A file without line ends would be read into memory whole: characters have at most four bytes.
    limited = iter(lambda: file.readline(4 * LONGEST_TEXT + 2), b"")
    for number, line in enumerate(limited, start=1):
        try:
            text = line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise DataError(f"{name}: line {number} is not UTF-8 (byte {error.object[error.start]:#04x})") from error
        if len(text) > LONGEST_TEXT:
            raise DataError(f"{name}: line {number} has more than {LONGEST_TEXT:,} characters: {shortened(text)!r}")
        yield text


def evaluate_manifests(
    model: Path,
    manifests: list[Path],
    *,
    metrics: list[str],
    out: Path | None,
    limit: int,
    search: SearchOptions,
    models: ModelOptions,
) -> None:
    """Translate manifests, print the scores, and write hypotheses and results if ``out`` is given."""
    log_to_terminal()
    check_metrics(metrics)
    if out is not None and limit:
        raise UsageError("--limit is for a quick look: without --out, since no part of a test is a result")
    search_for(search)
    budget = translation_budget(models.batch_size)
    workspace = _workspace(out or Path(), models, "evaluate")
    system = load_models(model, models, workspace, ctc=search.ctc)
    search = fitting(search, system)
    chosen = search_for(search, tokenizer=system.output.tokenizer)
    phase = Evaluate(
        model=str(model),
        manifests=[str(p) for p in manifests],
        search=chosen,
        budget=budget,
        metrics=metrics,
        ensemble=[str(p) for p in models.ensemble or []],
        language_model=None if models.lm is None else str(models.lm),
        lm_weight=models.lm_weight,
        ctc=search.ctc,
    )
    joined = join(workspace)  # under torchrun, the processes share the rows
    with workspace.locked() if out is not None else nullcontext(), together(workspace):
        for path in manifests:
            if out is not None:
                evaluation = phase.evaluate(system, path, workspace)
            else:
                manifest = Manifest.open(path)
                manifest = manifest.select(range(min(limit, len(manifest)))) if limit else manifest
                evaluation = evaluate_system(
                    system, manifest, search=chosen, budget=budget, metrics=metrics, workspace=workspace
                )
                for alarm in evaluation.alarms:
                    workspace.log.warning("%s: %s", path, alarm)
            if workspace.main:
                print_scores(evaluation.all_scores, str(path))
    if joined:
        leave()


def rescore_manifest(
    model: Path, manifest: Path, *, outputs: Path | None, out: Path | None, models: ModelOptions
) -> None:
    """Print the perplexity of given outputs, and write the score of each if ``out`` is given."""
    log_to_terminal()
    if models.lm is not None and out is None:
        raise UsageError("--lm: scores of two models together are no probabilities: give --out, there is no perplexity")
    workspace = _workspace(Path(), models, "rescore")
    opened = Manifest.open(manifest)
    texts = None if outputs is None else list(lines([outputs]))
    system = load_models(model, models, workspace)
    found = rescore(system, opened, texts=texts, budget=translation_budget(models.batch_size), workspace=workspace)
    if out is not None:
        write_rescored(found, out)
    if models.lm is None:
        print_scores([perplexity(found, system.output.tokenizer.fingerprint)], str(outputs or manifest))


def _workspace(output: Path, models: ModelOptions, phase: str) -> Workspace:
    return Workspace(
        output=output, device=models.device, precision=models.precision, command=command_line(), phase=phase
    )


def score_files(
    hypotheses: Path, references: list[Path], language: str, metrics: list[str], baseline: Path | None = None
) -> None:
    """Score a file of hypotheses against one or more files of references, and test it against another such file."""
    check_metrics(metrics)
    sets = [list(lines([path])) for path in references]
    outputs = {path: list(lines([path])) for path in [hypotheses, *([baseline] if baseline else [])]}
    for path, found in [*zip(references, sets, strict=True), *outputs.items()]:
        if len(found) != len(sets[0]):
            raise DataError(f"{path}: {len(found)} lines, but {references[0]} has {len(sets[0])}")
    scorer = TextScorer(sets, language, metrics)
    counts = {path: scorer.count(found) for path, found in outputs.items()}
    for path, counted in counts.items():
        print_scores([Score.of(item) for item in counted], str(path))
    if baseline:
        print()
        print(render_comparisons([compare(*pair) for pair in zip(counts[hypotheses], counts[baseline], strict=True)]))


def print_scores(scores: list[Score], name: str) -> None:
    """Print a line per score: name of what was scored, metric, value, lines, signature."""
    for item in scores:
        print(f"{name}\t{item.name}\t{item.value:.2f}\t{item.lines} lines\t{item.signature}")
