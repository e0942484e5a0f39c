"""The commands that score and compare outputs and runs. Like main.py, it imports nothing heavy at the top."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from dragoman.commands.options import METRIC_NAMES, OPEN, command_line
from dragoman.commands.text_options import names_of
from dragoman.shared.errors import UsageError
from dragoman.shared.machine.digits import whole_number

reports = typer.Typer()


@reports.command()
def score(
    hypotheses: Annotated[Path, typer.Argument(help="file with one hypothesis per line")],
    references: Annotated[
        list[Path],
        typer.Argument(help="file with one reference per line; several files: several references per hypothesis"),
    ],
    language: Annotated[str, typer.Option(help="language code; it determines the tokenizer")],
    metrics: Annotated[
        str,
        typer.Option(help=f"one or more of {METRIC_NAMES}, separated by commas; '' with --comet: none"),
    ] = "bleu,chrf,ter",
    baseline: Annotated[Path | None, typer.Option(help="hypotheses of another system, for a significance test")] = None,
    resegment: Annotated[
        bool,
        typer.Option(
            "--resegment", help="the hypotheses are whole talks, one per line; split them as the references are"
        ),
    ] = False,
    documents: Annotated[
        Path | None,
        typer.Option(help="file with the talk of each reference line, for --resegment; default: all are one talk"),
    ] = None,
    sources: Annotated[Path | None, typer.Option(help="file with one source per line, for --comet")] = None,
    comet: Annotated[
        Path | None,
        typer.Option(help="folder of a COMET model, with hparams.yaml and checkpoints/model.ckpt: score with it too"),
    ] = None,
    device: Annotated[str, typer.Option(help="device of the COMET model: auto, cpu, cuda, cuda:1, mps")] = "auto",
) -> None:
    """Score hypotheses against references, with signatures; optionally with a significance test against a baseline."""
    from dragoman.commands.score import Learned, score_files

    if documents is not None and not resegment:
        raise UsageError("--documents needs --resegment")
    if (comet is None) != (sources is None):
        raise UsageError("--comet and --sources need each other")
    learned = Learned(comet, sources, device) if comet is not None and sources is not None else None
    talks = (documents,) if resegment else None
    names = names_of(metrics) if metrics else []
    score_files(hypotheses, references, language, names, baseline, talks=talks, learned=learned)


@reports.command()
def diff(
    run_a: Annotated[Path, typer.Argument(help="output folder of a run with results")],
    run_b: Annotated[Path, typer.Argument(help="output folder of another run on the same test sets")],
    show: Annotated[int, typer.Option(min=0, help="number of sentences to print, those that differ most")] = 5,
    metrics: Annotated[
        str,
        typer.Option(help=f"one or more of {METRIC_NAMES}, separated by commas; default: those of both runs"),
    ] = "",
    phase: Annotated[str | None, typer.Option(help="evaluation phase to compare, if a run has several")] = None,
) -> None:
    """Compare two runs: scores with significance, the sentences that differ most, and the recipes' keys."""
    from dragoman.commands.diff import diff_runs

    print(diff_runs(run_a, run_b, metrics=names_of(metrics) if metrics else (), show=show, phase=phase))


@reports.command(context_settings=OPEN)
def seeds(
    context: typer.Context,
    recipe: Annotated[str, typer.Argument(help="recipe file, or name of an installed recipe (almanac/st)")],
    seeds: Annotated[str, typer.Option(help="comma-separated seeds, one run each")] = "1,2,3",
    arm: Annotated[str | None, typer.Option(help="arm of the recipe to run, of those that dragoman show lists")] = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="arm of the recipe, or other recipe, to compare with; keys of its own in the same quotes: "
            "'NAME --key value'"
        ),
    ] = None,
    phase: Annotated[str | None, typer.Option(help="evaluation phase to compare, if the recipe has several")] = None,
    over: Annotated[
        str | None,
        typer.Option(help="key and values to run for, one after another, with a curve: low_pairs=100,300,1000"),
    ] = None,
    into: Annotated[Path | None, typer.Option(help="output folder for results.jsonl and RESULTS.md")] = None,
    launcher: Annotated[
        str, typer.Option(help="command that starts each run, such as 'torchrun --nproc-per-node 8 --no-python'")
    ] = "",
) -> None:
    """Run a recipe with several seeds: mean and spread, and significance against an arm of it or another.

    Finished runs are skipped, interrupted runs resume. --key value overrides a key of both recipes; --over runs all for
    each of several values of one, and draws the scores over them.
    """
    from dragoman.commands.curves import run_curve
    from dragoman.commands.seeds import run_seeds

    numbers = [whole_number(number.strip()) for number in seeds.split(",")]
    if None in numbers:
        raise UsageError(f"--seeds must be numbers with commas between them, not {seeds!r}")
    run = run_seeds if over is None else partial(run_curve, over=over)
    done = run(
        recipe,
        context.args,
        seeds=[number for number in numbers if number is not None],
        arm=arm,
        against=against,
        phase=phase,
        into=into,
        launcher=launcher,
        command=command_line(),
    )
    sys.exit(0 if done else 1)


@reports.command(context_settings=OPEN)
def lab(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="YAML file of experiments; its form: docs/results.md")],
    minutes: Annotated[
        float | None,
        typer.Option(help="stop all after this many, print what there is, and go on at the next call; 0: print only"),
    ] = None,
    into: Annotated[Path | None, typer.Option(help="folder for results and logs; default: the file's name")] = None,
) -> None:
    """Do the experiments that a file lists, as many at once as the device holds; print their table and what is missing.

    Finished runs are skipped, interrupted runs resume. --key value overrides a key of all runs; --debug does two
    updates of each, in folders that end in -debug.
    """
    from dragoman.commands.lab import run_lab

    done = run_lab(file, context.args, minutes=minutes, into=into, command=command_line())
    sys.exit(0 if done else 1)


@reports.command()
def results(
    into: Annotated[Path, typer.Option(help="folder of the results.jsonl and RESULTS.md to update")],
    runs: Annotated[list[Path] | None, typer.Argument(help="output folders of runs")] = None,
    summary: Annotated[
        Path | None, typer.Option(help="text file to write the headline scores into, at its <!-- results --> mark")
    ] = None,
    details: Annotated[
        bool,
        typer.Option("--details", help="also print scores by direction, sources by targets, and by parts of test sets"),
    ] = False,
) -> None:
    """Collect the results of runs into results.jsonl, and write RESULTS.md from it."""
    from dragoman.reporting.collecting import collect
    from dragoman.reporting.tables import details as tables
    from dragoman.reporting.tables import summarise
    from dragoman.shared.evaluation.results import of_run, read

    rows = [row for run in runs or [into] for row in of_run(run)]
    collect(rows, into)
    if summary is not None:
        summarise(read(into / "results.jsonl"), summary)
    if details:
        print("\n\n".join(tables(read(into / "results.jsonl"))))
