"""Running a recipe: its phases in order, the finished ones skipped, the interrupted one resumed."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shared.errors import UsageError
from shared.files import replaced_file
from shared.recipe import Recipe
from shared.workspace import Phase, PhaseRecord, Stopwatch, Workspace, fingerprint, strings

OPTIONS_OF_A_RUN = ("device", "precision", "compile", "debug", "noprogressbar", "workers")


def run_recipe(
    recipe: Recipe,
    *,
    restart: Sequence[str] = (),
    until: str | None = None,
    command: str = "",
    options: Mapping[str, Any] | None = None,
) -> Workspace:
    """Run the phases of a recipe in its output folder.

    A phase is skipped if it finished with the same fingerprint (its resolved keys and those of the phases it reads
    from), resumed if it was interrupted, and refused if its keys have changed since it started.

    Args:
        recipe: a loaded recipe.
        restart: phases whose work is thrown away first; so is that of the phases which read from them.
        until: the last phase to run.
        command: how the run was started, for the record.
        options: the run options, if not those of the recipe.

    Raises:
        UsageError: for an unknown phase name, a changed phase, or a folder that another run holds.

    """
    recipe.check()
    names = recipe.phases
    for name in [*restart, *([until] if until else [])]:
        if name not in names:
            raise UsageError(f"{recipe.source}: no phase {name!r}; its phases are {', '.join(names)}")
    workspace = Workspace(
        output=Path(recipe.value("output_folder")),
        seed=recipe.value("seed"),
        command=command,
        recipe=recipe.name,
        **(options or {key: recipe.options[key] for key in OPTIONS_OF_A_RUN}),
    )
    with workspace.locked():
        if workspace.main:
            with replaced_file(workspace.output / "recipe.yaml") as temporary:
                temporary.write_text(recipe.text(), encoding="utf-8")
        done: dict[str, tuple[str, list[str]]] = {}  # phase -> fingerprint, places it wrote to
        for name in names[: names.index(until) + 1] if until else names:
            _run_phase(recipe, workspace, name, done, list(restart))
    return workspace


def _run_phase(
    recipe: Recipe, workspace: Workspace, name: str, done: dict[str, tuple[str, list[str]]], restart: list[str]
) -> None:
    import torch

    plain = recipe.plain(name)
    read = [
        earlier
        for earlier, (_, places) in done.items()
        if any(_inside(text, place) for text in strings(plain) for place in places)
    ]
    mark = fingerprint(plain, {earlier: done[earlier][0] for earlier in read}, recipe.value("output_folder"))
    record = PhaseRecord(workspace.output, name)
    state = record.read()
    workspace.phase = name
    if name in restart or any(earlier in restart for earlier in read):
        if name not in restart:
            restart.append(name)
        if workspace.main:
            shutil.rmtree(workspace.folder, ignore_errors=True)
        state = {}
    if state and state["fingerprint"] != mark:
        raise UsageError(
            f"{workspace.output}: phase {name!r} was started with other keys than the recipe now has; "
            f"use --restart {name} to do it again, or another --output_folder"
        )
    torch.manual_seed(workspace.seed_for(name))
    if state.get("status") == "finished":
        workspace.log.info("%s: done before", name)
        done[name] = (mark, [str(workspace.folder), *state["outputs"]])
        return
    workspace.log.info("%s: %s", name, "going on" if state else "starting")
    stopwatch = Stopwatch()
    phase: Phase = recipe.build(name)
    outputs = [str(path) for path in phase.outputs()]
    before = float(state.get("seconds", 0.0))
    if workspace.main:
        record.write(status="running", fingerprint=mark, outputs=outputs, seconds=before)
    try:
        phase.run(workspace)
    finally:
        seconds = before + stopwatch.seconds
        if workspace.main:
            record.write(status="running", fingerprint=mark, outputs=outputs, seconds=seconds)
    if workspace.main:
        record.write(status="finished", fingerprint=mark, outputs=outputs, seconds=seconds)
    workspace.log.info("%s: done in %.0f s", name, seconds)
    done[name] = (mark, [str(workspace.folder), *outputs])


def _inside(text: str, place: str) -> bool:
    text, place = os.path.normpath(text), os.path.normpath(place)
    return text == place or text.startswith(place + os.sep)


class RunRecipe(Phase):
    """Run another recipe, in its own folder; what of it is done already is skipped.

    Args:
        recipe: its name or file.
        overrides: its keys that are to have other values.

    """

    def __init__(self, *, recipe: str, overrides: dict[str, Any] | None = None) -> None:
        self.recipe = Recipe.load(recipe, overrides or {})

    def outputs(self) -> list[Path]:
        """Name the other recipe's folder."""
        return [Path(self.recipe.value("output_folder"))]

    def run(self, workspace: Workspace) -> None:
        """Run it with this run's device, precision and other options."""
        options = {key: getattr(workspace, key) for key in OPTIONS_OF_A_RUN}
        run_recipe(self.recipe, command=workspace.command, options=options)


def log_to_terminal() -> None:
    """Send the log to standard error, above the progress bars if there are any."""
    from shared.progress import console

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            time = self.formatter.formatTime(record, "%H:%M:%S") if self.formatter else ""
            console().print(f"{time} {record.getMessage()}", markup=False, highlight=False)

    logger = logging.getLogger("dragoman")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    if not logger.handlers:
        handler = Handler()
        handler.setFormatter(logging.Formatter())
        logger.addHandler(handler)
