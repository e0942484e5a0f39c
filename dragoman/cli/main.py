"""The ``dragoman`` command. Nothing heavy is imported before a command runs, so that ``--help`` is instant.

Exit codes: 0 done; 1 something is wrong with the data or the run (or it was stopped); 2 wrong usage.
"""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dragoman.cli.models import models
from dragoman.cli.recipe_runs import recipe_runs
from dragoman.cli.reports import reports
from dragoman.cli.talks import talks
from dragoman.commands.endings import Warnings, as_ctrl_c, complain, finish, no_memory, unwritable
from dragoman.commands.model_options import ModelOptions
from dragoman.commands.options import METRIC_NAMES, OPEN, SourceLanguage, TargetLanguage, with_options
from dragoman.commands.reader_help import ReaderCommand, flow
from dragoman.commands.search_options import ChoosingOptions, SearchOptions
from dragoman.commands.serving_options import ServingOptions
from dragoman.commands.talk_options import DivisionOptions, PolicyOptions, SoundOptions
from dragoman.commands.text_options import LanguageIdentifier, SourceOrAuto, TextOptions, names_of
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.stopping import Interrupted

Shard = Annotated[
    str | None,
    typer.Option(help="i/n: do part i of n, on n machines that share a disk; the last one puts the parts together"),
]

app = typer.Typer(
    name="dragoman",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"dragoman {version('dragoman')}")
        raise typer.Exit


@app.callback()
def options_of_all_commands(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    package: Annotated[
        list[Path] | None,
        typer.Option(
            help="Your own package or module (methods/ or layers.py) with classes that a model uses; repeatable."
        ),
    ] = None,
) -> None:
    """Speech-and-text translation: prepare corpora, run recipes, translate, evaluate."""
    from dragoman.shared.described import use_package

    for path in package or []:
        use_package(path)


@app.command(context_settings=OPEN, cls=ReaderCommand)
def prepare(
    context: typer.Context,
    corpus: Annotated[
        str,
        typer.Argument(
            help="of speech: mustc, mtedx, covost2, fleurs, europarl_st, librispeech, librilight, parquet, webdataset, "
            "nemo, lhotse, shar, kaldi, fairseq_s2t, tsv; of text: moses, monolingual, wmt, iwslt, ted, libreoffice, "
            "gettext, tmx, xliff; of labels: xnli, paws_x, wikiann, universal_dependencies, help_programs; of "
            "answers: squad, xquad, mlqa, tydiqa; of translations to find: tatoeba, bucc; of titles, summaries, "
            "questions: aligned, ncls, cnn_dailymail, xsum, squad_questions, help_titles; made on the spot: almanac; "
            "or one that a package provides"
        ),
    ],
    root: Annotated[Path, typer.Option(help="folder that holds the corpus")],
    out: Annotated[Path | None, typer.Option(help="output folder for the manifests (not for almanac)")] = None,
    workers: Annotated[int, typer.Option(min=0, help="number of processes; 0: one per core")] = 0,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="leave bad rows out of train and list them in train.skipped.tsv")
    ] = False,
    end_tolerance: Annotated[
        float | None,
        typer.Option(help="seconds by which a segment may run past the end of its recording; cut there (default 0.05)"),
    ] = None,
    shard: Shard = None,
) -> None:
    """Check a corpus and write its manifests; further options go to its reader (--source-language fr ...).

    An unusable row is an error, and nothing is written. --skip-bad skips such rows, but never in dev and test splits.

    dragoman prepare mustc --help prints the layout of files and the options of that reader as well.
    """
    from dragoman.commands.prepare import prepare_corpus

    options: dict[str, Any] = {"root": root, "out": out, "workers": workers, "skip_bad": skip_bad, "shard": shard}
    prepare_corpus(corpus, arguments=context.args, end_tolerance=end_tolerance, **options)


@app.command(context_settings=OPEN)
def check(
    targets: Annotated[list[str], typer.Argument(help="a corpus as in prepare, manifests (*.arrow), or a recipe")],
    root: Annotated[Path | None, typer.Option(help="folder that holds the corpus")] = None,
    workers: Annotated[int, typer.Option(min=0, help="number of processes; 0: one per core")] = 0,
    headers_only: Annotated[
        bool,
        typer.Option(
            "--headers-only",
            help="read the headers of sound files only: faster, but does not detect silence and clipping",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="write the report to this file, and go on with it if the command was killed. Default: print it"
        ),
    ] = None,
    shard: Shard = None,
) -> None:
    """Report errors and oddities of a corpus or of manifests. The exit code is 1 if there are errors.

    Options after the corpus go to its reader (--source-language fr ...), as in prepare. Of a recipe, all phases are
    checked, and those of all its arms, without data; --key value overrides a key.
    """
    from dragoman.commands.check import check as check_targets

    first = next((place for place, word in enumerate(targets) if word.startswith("--")), len(targets))
    options: dict[str, Any] = {"root": root, "workers": workers, "listen": not headers_only, "out": out, "shard": shard}
    check_targets(targets[:first], arguments=targets[first:], **options)


@app.command()
@with_options(texts=TextOptions, sound=SoundOptions, search=ChoosingOptions, models=ModelOptions)
def translate(
    model: Annotated[Path, typer.Argument(help="folder of a model, or of a run")],
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="text files, subtitles (srt, vtt, ass), JSON, Markdown, or sound files and folders with them"
        ),
    ] = None,
    source_language: SourceOrAuto = None,
    target_language: TargetLanguage = None,
    identifier: LanguageIdentifier = None,
    n_best: Annotated[
        int,
        typer.Option(
            min=1, help="number of hypotheses per input, in text and json (a divided sound file has one hypothesis)"
        ),
    ] = 1,
    format: Annotated[
        str,
        typer.Option(
            help="text; json: an object per line of text or sound file; for sound files also srt, vtt, tsv, with times"
        ),
    ] = "text",
    out: Annotated[
        Path | None,
        typer.Option(
            help="for formats with times, subtitles, JSON and Markdown: output folder, with one file per input, or, of "
            "one input, the file; for lines: the file for all, which is made in parts: a command that was killed goes "
            "on. Default: print"
        ),
    ] = None,
    shard: Shard = None,
    *,
    texts: TextOptions,
    sound: SoundOptions,
    search: ChoosingOptions,
    models: ModelOptions,
) -> None:
    """Translate lines of text (files or standard input) or sound files; prints one line per input, in order.

    Subtitles, JSON and Markdown are translated by sentences; times, tags, keys, placeholders, code and addresses stay.
    """
    from dragoman.commands.translate import translate_inputs

    translate_inputs(
        model,
        inputs or [],
        languages=(source_language, target_language),
        identifier=identifier,
        n_best=n_best,
        texts=texts,
        kind=format,
        out=out,
        shard=shard,
        sound=sound,
        search=search,
        models=models,
    )


@app.command()
@with_options(serving=ServingOptions, sound=SoundOptions, live=PolicyOptions, search=SearchOptions, models=ModelOptions)
def serve(
    folders: Annotated[
        list[str], typer.Argument(metavar="MODEL...", help="model folders, or of runs; NAME=FOLDER: clients know it so")
    ],
    *,
    serving: ServingOptions,
    sound: SoundOptions,
    live: PolicyOptions,
    search: SearchOptions,
    models: ModelOptions,
) -> None:
    r"""Answer clients of LibreTranslate (texts) and of OpenAI (speech) over HTTP; all who wait share a batch.

    The outputs are those of dragoman translate. Needs pip install 'dragoman\[serve]'; see docs/serving.md.
    """
    from dragoman.serving.server import serve_models

    serve_models(folders, serving=serving, sound=sound, listening=live, search=search, models=models)


@app.command()
@with_options(division=DivisionOptions, search=ChoosingOptions, models=ModelOptions)
def evaluate(
    model: Annotated[Path, typer.Argument(help="folder of a model, or of a run")],
    manifests: Annotated[list[Path], typer.Argument(help="manifests (*.arrow) to translate and score")],
    metrics: Annotated[str, typer.Option(help=f"one or more of {METRIC_NAMES}, separated by commas")] = "bleu,chrf,ter",
    text_metrics: Annotated[
        list[str] | None,
        typer.Option("--text", help="metrics for another text that the model writes: transcript:wer,cer; repeatable"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="output folder for hypotheses and results.jsonl")] = None,
    limit: Annotated[int, typer.Option(min=0, help="number of rows to evaluate, from the first; 0: all")] = 0,
    talks: Annotated[
        bool,
        typer.Option(
            "--talks",
            help="translate whole recordings, divided as the options for sound files say, and split the output to "
            "match the reference lines",
        ),
    ] = False,
    *,
    division: DivisionOptions,
    search: ChoosingOptions,
    models: ModelOptions,
) -> None:
    """Translate manifests with a model and score the output, exactly as recipes do."""
    from dragoman.commands.evaluate import evaluate_manifests, metrics_by_text

    evaluate_manifests(
        model,
        manifests,
        metrics=names_of(metrics),
        texts=metrics_by_text(text_metrics or []),
        out=out,
        limit=limit,
        talks=talks,
        division=division,
        search=search,
        models=models,
    )


@app.command()
@with_options(models=ModelOptions)
def rescore(
    model: Annotated[
        Path, typer.Argument(help="folder of a translator, recogniser or language model, or of the run that made it")
    ],
    manifest: Annotated[
        Path,
        typer.Argument(help="manifest (*.arrow) with the model's inputs, or contrastive pairs (*.json, *.tsv)"),
    ],
    outputs: Annotated[
        Path | None, typer.Option(help="text file to score, one line per row; default: the manifest's own texts")
    ] = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    mean: Annotated[bool, typer.Option(help="compare means over tokens of contrastive pairs, not sums")] = False,
    out: Annotated[Path | None, typer.Option(help="TSV file to write: sum, number of tokens and mean per row")] = None,
    *,
    models: ModelOptions,
) -> None:
    """Score given outputs with a model: log-probability of each output, and perplexity of all.

    Of contrastive pairs (LingEval97, ContraPro): how often the reference is more probable, by phenomenon.
    """
    from dragoman.commands.rescore import rescore_manifest

    languages = source_language, target_language
    rescore_manifest(model, manifest, outputs=outputs, languages=languages, mean=mean, out=out, models=models)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="output folder")] = Path("demo"),
) -> None:
    """Make a small corpus, train a speech translator on it, score it, and translate a sound file."""
    from dragoman.commands.demo import run_demo
    from dragoman.runs.running import log_to_terminal

    log_to_terminal()
    run_demo(folder)


for further in (recipe_runs, reports, talks, models):
    app.add_typer(further)
flow(app, recipe_runs, reports, talks, models)


def main() -> None:
    """Run the command; print one line for an error that the user can correct."""
    # OpenMP's threads wait for each other a thousand times a step. Asleep, they are late; spinning for long, they stand
    # in the way of whatever else runs. So they spin briefly first. It has to be said before torch loads OpenMP.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    # Logits are tens of megabytes a step: Linux is asked for them in pages of 2 MiB, not of 4 KiB.
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, as_ctrl_c(os.getpid()))
    for name in ("stdout", "stderr"):  # closed by who started us: what is printed goes nowhere, and not into a file
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="surrogateescape")  # names of files are written as the disk has them
    logging.lastResort = Warnings()
    try:
        app()
    except Interrupted as error:
        if os.environ.get("RANK", "0") != "0":  # all processes of the run were stopped, and rank 0 says so
            sys.exit(1)
        complain(error, 1)
    except UnicodeEncodeError as error:
        complain(*unwritable(error))
    except UsageError as error:
        complain(error, 2)
    except (DataError, OSError) as error:  # a full disk, a folder that is not ours: the message names the file
        complain(error, 1)
    except (MemoryError, RuntimeError) as error:
        complain(no_memory(error), 1)
    finally:
        finish()


if __name__ == "__main__":
    main()
