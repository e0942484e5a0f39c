"""The ``dragoman`` command. Nothing heavy is imported before a command runs, so that ``--help`` is instant.

Exit codes: 0 done; 1 something is wrong with the data or the run (or it was stopped); 2 wrong usage.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from shared.commands.models import models
from shared.commands.options import ModelOptions, SearchOptions, SoundOptions, command_line, with_options
from shared.errors import DataError, UsageError, one_line, shortened
from shared.machine.stopping import Interrupted
from shared.text.surrogates import find_surrogate, printable

app = typer.Typer(
    name="dragoman",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
OPEN = {"allow_extra_args": True, "ignore_unknown_options": True}


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
        typer.Option(help="A package or module of your own (methods/ or layers.py) that a model needs; repeatable."),
    ] = None,
) -> None:
    """Speech-and-text translation: prepare corpora, run recipes, translate, evaluate."""
    from shared.described import use_package

    for path in package or []:
        use_package(path)


@app.command(context_settings=OPEN)
def prepare(
    context: typer.Context,
    corpus: Annotated[
        str, typer.Argument(help="mustc, covost2, moses, monolingual, tsv, almanac, or one of a package")
    ],
    root: Annotated[Path, typer.Option(help="folder of the corpus")],
    out: Annotated[Path | None, typer.Option(help="folder for the manifests (almanac needs none)")] = None,
    workers: Annotated[int, typer.Option(min=0, help="processes; 0: one per core")] = 0,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="leave bad rows out of train, and list them in train.skipped.tsv")
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(help="i/n: do the share of machine i of n with a common disk; the last one writes the manifests"),
    ] = None,
) -> None:
    """Check a corpus and turn it into manifests; other options go to its reader (--source-language fr ...).

    Rows that cannot be used are errors, and nothing is written. In dev and test splits they always are.
    """
    from shared.commands.prepare import prepare_corpus

    options: dict[str, Any] = {"root": root, "out": out, "workers": workers, "skip_bad": skip_bad, "shard": shard}
    prepare_corpus(corpus, arguments=context.args, **options)


@app.command(context_settings=OPEN)
def check(
    targets: Annotated[list[str], typer.Argument(help="a corpus, as for prepare, or manifests (*.arrow)")],
    root: Annotated[Path | None, typer.Option(help="folder of the corpus")] = None,
    workers: Annotated[int, typer.Option(min=0, help="processes; 0: one per core")] = 0,
    headers_only: Annotated[
        bool, typer.Option("--headers-only", help="do not decode every sample: silence and clipping stay unseen")
    ] = False,
) -> None:
    """Say what is wrong or strange about a corpus or manifests; nothing is written. Exit code 1 if there are errors.

    Options after the corpus go to its reader (--source-language fr ...), as with prepare.
    """
    from shared.commands.check import check as check_targets

    first = next((place for place, word in enumerate(targets) if word.startswith("--")), len(targets))
    check_targets(targets[:first], root=root, workers=workers, listen=not headers_only, arguments=targets[first:])


@app.command(context_settings=OPEN)
def run(
    context: typer.Context,
    recipe: Annotated[str, typer.Argument(help="a recipe file, or the name of one that is installed (almanac/st)")],
    restart: Annotated[
        list[str] | None,
        typer.Option(help="a phase to do again from the start; asr.fit: phase fit of the recipe that phase asr runs"),
    ] = None,
    until: Annotated[str | None, typer.Option(help="the last phase to run")] = None,
) -> None:
    """Run a recipe: finished phases are skipped, an interrupted one goes on. --key value overrides its keys.

    Where its phase asr runs another recipe, --phases.asr.KEY value overrides that one's keys, and --phases.asr null
    trains from scratch, without it. --debug does two updates of everything, in folders that end in -debug.
    """
    from shared.recipe.recipe import Recipe
    from shared.run.running import log_to_terminal, run_recipe

    log_to_terminal()
    loaded = Recipe.load(recipe, context.args)
    run_recipe(loaded, restart=restart or [], until=until, command=command_line())


@app.command("batch-size", context_settings=OPEN)
def batch_size(
    context: typer.Context,
    recipe: Annotated[str, typer.Argument(help="a recipe file, or the name of one that is installed (almanac/st)")],
    memory: Annotated[
        str | None, typer.Option(help="the most that may be used, for example 4GB; on a GPU by default what is free")
    ] = None,
    phase: Annotated[str | None, typer.Option(help="the phase that trains; by default the last one")] = None,
) -> None:
    """Find the largest batches that fit into memory, by trying: forward, backward and optimiser on the worst ones.

    Phases before the training (corpus, manifests, tokenizer) are run first, if they are not done. Prints what was
    tried, and the keys to give to dragoman run. --key value overrides the recipe's keys.
    """
    from shared.commands.batch_size import print_batch_sizes
    from shared.run.running import log_to_terminal

    log_to_terminal()
    print_batch_sizes(recipe, context.args, memory=memory, phase=phase)


@app.command()
@with_options(sound=SoundOptions, search=SearchOptions, models=ModelOptions)
def translate(
    model: Annotated[Path, typer.Argument(help="a model folder")],
    inputs: Annotated[list[Path] | None, typer.Argument(help="text files, or sound files and folders of them")] = None,
    source_language: Annotated[str | None, typer.Option("--source-language", "--from")] = None,
    target_language: Annotated[str | None, typer.Option("--target-language", "--to")] = None,
    n_best: Annotated[
        int, typer.Option(min=1, help="print so many hypotheses of each input (not of long sound files)")
    ] = 1,
    samples: Annotated[int, typer.Option(min=1, help="with --sample: so many outputs of each input")] = 1,
    *,
    sound: SoundOptions,
    search: SearchOptions,
    models: ModelOptions,
) -> None:
    """Translate text (files or standard input, a line each) or sound files; prints a line per input, in order."""
    from shared.commands.translate import translate_inputs

    translate_inputs(
        model,
        inputs or [],
        languages=(source_language, target_language),
        n_best=n_best,
        samples=samples,
        sound=sound,
        search=search,
        models=models,
    )


@app.command()
@with_options(search=SearchOptions, models=ModelOptions)
def evaluate(
    model: Annotated[Path, typer.Argument(help="a model folder")],
    manifests: Annotated[list[Path], typer.Argument(help="manifests (*.arrow) to translate and score")],
    metrics: Annotated[str, typer.Option(help="of bleu, chrf, ter, wer, cer")] = "bleu,chrf,ter",
    out: Annotated[Path | None, typer.Option(help="folder for hypotheses and results.jsonl")] = None,
    limit: Annotated[int, typer.Option(min=0, help="only the first so many rows; 0: all")] = 0,
    *,
    search: SearchOptions,
    models: ModelOptions,
) -> None:
    """Translate manifests with a model and score the output, exactly as recipes do."""
    from shared.commands.translate import evaluate_manifests

    evaluate_manifests(model, manifests, metrics=metrics.split(","), out=out, limit=limit, search=search, models=models)


@app.command()
@with_options(models=ModelOptions)
def rescore(
    model: Annotated[Path, typer.Argument(help="the model folder of a translator, recogniser or language model")],
    manifest: Annotated[Path, typer.Argument(help="manifest (*.arrow) with what the model reads")],
    outputs: Annotated[
        Path | None, typer.Option(help="text file, a line per row; by default the manifest's own texts are scored")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="table (TSV) to write: sum, tokens and mean of each row")] = None,
    *,
    models: ModelOptions,
) -> None:
    """Say how probable given outputs are under a model: log-probabilities of each, and the perplexity of all."""
    from shared.commands.translate import rescore_manifest

    rescore_manifest(model, manifest, outputs=outputs, out=out, models=models)


@app.command()
def score(
    hypotheses: Annotated[Path, typer.Argument(help="a line per hypothesis")],
    references: Annotated[list[Path], typer.Argument(help="a line per reference; several files: several references")],
    language: Annotated[str, typer.Option(help="code of the language, which decides the tokenizer")],
    metrics: Annotated[str, typer.Option(help="of bleu, chrf, ter, wer, cer")] = "bleu,chrf,ter",
    baseline: Annotated[Path | None, typer.Option(help="another system's hypotheses, to test the difference")] = None,
) -> None:
    """Score a file of hypotheses against references, with signatures; and test it against another system's."""
    from shared.commands.translate import score_files

    score_files(hypotheses, references, language, metrics.split(","), baseline)


@app.command()
def diff(
    run_a: Annotated[Path, typer.Argument(help="output folder of an evaluated run")],
    run_b: Annotated[Path, typer.Argument(help="of another one, on the same test sets")],
    show: Annotated[int, typer.Option(min=0, help="print so many of the sentences that differ most")] = 5,
    metrics: Annotated[str, typer.Option(help="of bleu, chrf, ter, wer, cer; by default those of both runs")] = "",
    phase: Annotated[str | None, typer.Option(help="the evaluation to compare, if a run has several")] = None,
) -> None:
    """Compare two runs: scores with significance, the sentences that differ most, and the recipes' keys."""
    from shared.commands.diff import diff_runs

    print(diff_runs(run_a, run_b, metrics=metrics.split(",") if metrics else (), show=show, phase=phase))


@app.command(context_settings=OPEN)
def seeds(
    context: typer.Context,
    recipe: Annotated[str, typer.Argument(help="a recipe file, or the name of one that is installed (almanac/st)")],
    seeds: Annotated[str, typer.Option(help="so many runs, each with one of these")] = "1,2,3",
    against: Annotated[str | None, typer.Option(help="another recipe; keys of its own may follow, in quotes")] = None,
    phase: Annotated[str | None, typer.Option(help="the evaluation to compare, if the recipe has several")] = None,
    into: Annotated[Path | None, typer.Option(help="folder of results.jsonl and RESULTS.md")] = None,
    launcher: Annotated[str, typer.Option(help="'torchrun --nproc-per-node 8 --no-python': what starts a run")] = "",
) -> None:
    """Run a recipe with several seeds: mean and spread, and significance against another recipe.

    Finished runs are skipped and interrupted ones go on. --key value overrides keys of both recipes.
    """
    from shared.commands.seeds import run_seeds

    if not all(number.strip().isdecimal() for number in seeds.split(",")):
        raise UsageError(f"--seeds must be numbers with commas between them, not {seeds!r}")
    done = run_seeds(
        recipe,
        context.args,
        seeds=[int(number) for number in seeds.split(",")],
        against=against,
        phase=phase,
        into=into,
        launcher=launcher,
        command=command_line(),
    )
    sys.exit(0 if done else 1)


@app.command()
def recipes() -> None:
    """List the installed recipes."""
    from shared.recipe.recipe import Recipe

    listed = Recipe.list()
    width = max(len(name) for name, _ in listed)
    for name, line in listed:
        print(f"{name:{width}}  {line}")


@app.command()
def results(
    runs: Annotated[list[Path], typer.Argument(help="output folders of runs")],
    into: Annotated[Path, typer.Option(help="folder whose results.jsonl and RESULTS.md are brought up to date")],
    summary: Annotated[Path | None, typer.Option(help="a text whose <!-- results --> gets the headline scores")] = None,
) -> None:
    """Collect the results of runs into results.jsonl, and write RESULTS.md from it."""
    from shared.evaluation.results import collect, read
    from shared.evaluation.tables import summarise

    collect(runs, into)
    if summary is not None:
        summarise(read(into / "results.jsonl"), summary)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="where everything goes")] = Path("demo"),
) -> None:
    """Make a small corpus, train a speech translator on it, score it, and translate a sound file."""
    from shared.commands.demo import run_demo
    from shared.run.running import log_to_terminal

    log_to_terminal()
    run_demo(folder)


app.add_typer(models)


def main() -> None:
    """Run the command; errors that a user can mend are one line."""
    # OpenMP's threads wait for each other a thousand times a step. Asleep, they are late; spinning for long, they stand
    # in the way of whatever else runs. So they spin briefly first. It has to be said before torch loads OpenMP.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    # Logits are tens of megabytes a step: Linux is asked for them in pages of 2 MiB, not of 4 KiB.
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    signal.signal(signal.SIGTERM, _as_ctrl_c(os.getpid()))
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="surrogateescape")  # names of files are written as the disk has them
    try:
        app()
    except Interrupted as error:
        if os.environ.get("RANK", "0") != "0":  # all processes of the run were stopped, and rank 0 says so
            sys.exit(1)
        _complain(error, 1)
    except UnicodeEncodeError as error:
        _complain(*_unwritable(error))
    except UsageError as error:
        _complain(error, 2)
    except (DataError, OSError) as error:  # a full disk, a folder that is not ours: the message names the file
        _complain(error, 1)


def _unwritable(error: UnicodeEncodeError) -> tuple[Exception, int]:
    """Return what to say about text that has no bytes, and the exit code."""
    text = printable(error.object)
    shown = ascii(error.object[error.start])
    if find_surrogate(error.object):
        return DataError(f"{shortened(text, 200)}: is not UTF-8 ({shown}): rename the file or folder"), 1
    encoding = sys.stdout.encoding
    return UsageError(f"the output is written as {encoding}, which has no {shown}: set PYTHONIOENCODING=utf-8"), 2


def _complain(error: Exception, code: int) -> None:
    process = f" (process {os.environ['RANK']})" if int(os.environ.get("WORLD_SIZE", "1")) > 1 else ""
    print(f"dragoman: error{process}: {printable(one_line(error))}", file=sys.stderr)
    sys.exit(code)


def _as_ctrl_c(process: int) -> Callable[[int, FrameType | None], None]:
    """Return a handler that makes SIGTERM end this process as Ctrl-C does; processes forked from it just end."""

    def handle(number: int, _frame: FrameType | None) -> None:
        if os.getpid() == process:
            raise KeyboardInterrupt
        os._exit(128 + number)

    return handle


if __name__ == "__main__":
    main()
