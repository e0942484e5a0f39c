"""The commands for recipes and runs. Like main.py, it imports nothing heavy at the top."""

from __future__ import annotations

from typing import Annotated

import typer

from dragoman.commands.options import OPEN, command_line
from dragoman.shared.errors import UsageError

recipe_runs = typer.Typer()


@recipe_runs.command(context_settings=OPEN)
def run(
    context: typer.Context,
    recipe: Annotated[str, typer.Argument(help="recipe file, or name of an installed recipe (almanac/st)")],
    restart: Annotated[
        list[str] | None,
        typer.Option(
            help="phase to run again from the start; asr.fit: phase fit of the recipe that phase asr runs; repeatable"
        ),
    ] = None,
    until: Annotated[str | None, typer.Option(help="last phase to run")] = None,
    run: Annotated[
        str | None, typer.Option(help="name of a run of its own: its folder is results/.../mt-NAME/1, not .../mt/1")
    ] = None,
    arm: Annotated[
        str | None,
        typer.Option(
            help="a variant that the recipe names under arms: (dragoman show), or several: a+b; in its own folder"
        ),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            help="i/n: do part i of n of the next phase, if it writes manifests (Generate), on n machines that share a "
            "disk; the last one puts the parts together"
        ),
    ] = None,
    trust_recipe: Annotated[
        bool, typer.Option("--trust-recipe", help="let the recipe run any code, not only this project's and its own")
    ] = False,
) -> None:
    """Run a recipe. Finished phases are skipped, an interrupted phase resumes. --key value overrides a key.

    If its phase asr runs another recipe, --phases.asr.KEY value overrides a key of that recipe, and --phases.asr null
    trains from scratch, without it. --debug runs two updates of each training phase, in folders that end in -debug.
    """
    from dragoman.runs.running import log_to_terminal, run_recipe
    from dragoman.shared.recipe.recipe import Recipe

    log_to_terminal()
    names = [f"--{option}={name}" for option, name in (("arm", arm), ("run", run)) if name is not None]
    loaded = Recipe.load(recipe, [*context.args, *names, *["--trust-recipe"] * trust_recipe])
    if shard is None:
        run_recipe(loaded, restart=restart or [], until=until, command=command_line())
        return
    from dragoman.commands.shard_numbers import Waiting, read_shard
    from dragoman.runs.phase_parts import run_part

    number, of = read_shard(shard)
    if restart or until:
        raise UsageError("--shard does a part of the next phase: without --restart and --until")
    waiting = run_part(loaded, number=number - 1, of=of, command=command_line())
    if waiting:
        print(f"shard {shard} is done; {Waiting([one + 1 for one in waiting])} of {of} still to be run")


@recipe_runs.command(context_settings=OPEN)
def show(
    context: typer.Context,
    target: Annotated[
        str, typer.Argument(help="recipe file, name of an installed recipe (almanac/st), or folder of a model or run")
    ],
    phase: Annotated[str | None, typer.Option(help="print only the keys that this phase uses")] = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="print only the keys that the recipe itself and the command line set")
    ] = False,
) -> None:
    """Print a recipe with its bases, and for each line the file it comes from. --key value overrides its keys.

    The output is a recipe that dragoman run accepts. Keys that nothing uses are left out.

    Of a model folder: what it reads and writes, its parts and their sizes, and commands for its tasks.
    """
    from dragoman.commands.show import show_target

    show_target(target, context.args, phase=phase, changed=changed)


@recipe_runs.command("batch-size", context_settings=OPEN)
def batch_size(
    context: typer.Context,
    recipe: Annotated[str, typer.Argument(help="recipe file, or name of an installed recipe (almanac/st)")],
    memory: Annotated[
        str | None, typer.Option(help="memory limit, for example 4GB; default on a GPU: the free memory")
    ] = None,
    phase: Annotated[str | None, typer.Option(help="training phase; default: the last one")] = None,
) -> None:
    """Find the largest batches that fit into memory by running the model and the optimiser on the worst batches.

    Runs the phases before the training (corpus, manifests, tokenizer) first if they are not done. Prints all trials
    and the keys to give to dragoman run. --key value overrides a key of the recipe.
    """
    from dragoman.commands.batch_size import print_batch_sizes
    from dragoman.runs.running import log_to_terminal

    log_to_terminal()
    print_batch_sizes(recipe, context.args, memory=memory, phase=phase)


@recipe_runs.command()
def recipes(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORD]...", help="only recipes with all these words in name or title: mustc conformer"),
    ] = None,
) -> None:
    """List the installed recipes."""
    from dragoman.shared.recipe.recipe import Recipe

    wanted = [word.lower() for word in words or []]
    listed = [pair for pair in Recipe.list() if all(word in " ".join(pair).lower() for word in wanted)]
    if not listed:
        raise UsageError(f"no recipe has {' and '.join(map(repr, wanted))} in its name or title")
    width = max(len(name) for name, _ in listed)
    for name, line in listed:
        print(f"{name:{width}}  {line}")
