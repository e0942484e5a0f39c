"""Running a recipe: its phases in order, the finished ones skipped, the interrupted one resumed."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dragoman.runs.phase_changes import PhaseNow, Verdict, changed_manifests, is_same, manifest_marks
from dragoman.runs.restarting import check_phase, discard, places, reads
from dragoman.runs.restarting import restart as restart_phases
from dragoman.shared.errors import UsageError
from dragoman.shared.machine.files import replaced_file, sweep
from dragoman.shared.machine.stopping import Interrupted
from dragoman.shared.machine.workspace import LOG, Phase, PhaseRecord, Stopwatch, Workspace, fingerprint, log_message
from dragoman.shared.recipe.planned import PlannedPhase
from dragoman.shared.recipe.recipe import Plan, Recipe
from dragoman.shared.recipe.run_keys import RUN_OPTIONS, keys_of_a_result

#: By phase: what its readers depend on, and the places that it wrote to.
Done = dict[str, tuple[str, list[str]]]


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
    from), resumed if it was interrupted, and refused if its keys, the seed, ``debug`` or the manifests that it reads
    have changed since it started. It goes on if nothing but more updates are asked for, and starts again if it had
    failed before it left anything.

    Args:
        recipe: a loaded recipe.
        restart: phases whose work is thrown away first; so is that of the phases which read from them. "asr.fit" is
            phase ``fit`` of the recipe that phase ``asr`` runs, "asr" all of that recipe.
        until: the last phase to run.
        command: how the run was started, for the record.
        options: the run options, if not those of the recipe; and ``keep_time`` and ``inside`` of the run that this one
            is part of.

    Raises:
        UsageError: for an unknown phase name, a changed phase, a folder that another run holds, or processes that
            differ.
        DataError: for a changed manifest.
        Interrupted: after Ctrl-C, when the run can go on from where it was.
    """
    recipe.check()
    names = recipe.phases
    for name in restart:
        check_phase(recipe, name, inside=True)
    if until:
        check_phase(recipe, until)
    names = names[: names.index(until) + 1] if until else names
    workspace = workspace_of(recipe, command, options)
    from dragoman.runs.alike import check_machines
    from dragoman.runs.announcing import beginning, ending
    from dragoman.runs.hanging import watching
    from dragoman.runs.prechecks import check_values
    from dragoman.shared.machine.processes import join, leave, on_main, together

    check_values(recipe, workspace.device, names)
    outermost = join(workspace)
    try:
        with workspace.locked(), together(workspace), watching(workspace), algorithms(workspace):
            if not workspace.inside:  # a recipe inside another runs on the machine that the other one has named
                workspace.log.info("%s", beginning(workspace))
            check_machines(workspace, recipe.text())
            on_main(lambda: _begin(recipe, workspace, restart), workspace)
            done: Done = {}
            keep_time = workspace.keep_time  # of the run that this one is a phase of
            more_is_known = False
            for name in names:
                if more_is_known:
                    check_values(recipe, workspace.device, names)
                more_is_known = _run_phase(recipe.plan, name, workspace, done, keep_time)
            last = ending(recipe.plan, workspace.output, names) if options is None and workspace.main else None
            if last:
                workspace.log.info("%s", last)
    except KeyboardInterrupt as error:
        raise Interrupted(
            f"{workspace.output}: stopped {workspace.where}; the same command goes on from there"
        ) from error
    if outermost:
        leave()
    return workspace


def workspace_of(recipe: Recipe, command: str, options: Mapping[str, Any] | None = None) -> Workspace:
    """Return the workspace that a recipe is run in, for the arguments of :func:`run_recipe`.

    Raises:
        UsageError: for a precision that is none for a run.
    """
    workspace = Workspace(
        output=Path(recipe.value("output_folder")),
        seed=recipe.value("seed"),
        command=command,
        recipe=recipe.name,
        arm=recipe.arm,
        keys=keys_of_a_result(recipe.changed),
        **(options or {key: recipe.options[key] for key in RUN_OPTIONS}),
    )
    if workspace.precision == "int8":
        raise UsageError("precision int8 is for searches with a trained model, not for a run: fp32 or bf16")
    return workspace


def unfinished(recipe: Recipe) -> list[str]:
    """Return the phases of a recipe that were not finished as it now says."""
    done = finished_phases(recipe)
    return [name for name in recipe.phases if name not in done]


def finished_phases(recipe: Recipe) -> Done:
    """Return the phases of a recipe that were finished as it now says."""
    output = Path(recipe.value("output_folder"))
    done: Done = {}
    for name, phase in recipe.plan.items():
        state = PhaseRecord(output, name).read()
        same_run = (state.get("seed"), state.get("debug")) == (recipe.value("seed"), recipe.options["debug"])
        if not (same_run and _finished(state)) or any(changed_manifests(state)):
            continue
        if is_same(phase, _inputs(phase, done), state):
            done[name] = _result(output, name, state)
    return done


def is_finished(recipe: Recipe) -> bool:
    """Tell whether all phases of a recipe were finished as it now says."""
    return not unfinished(recipe)


def intention(recipe: Recipe) -> str:
    """Say what running a recipe will do: where, the phases still to do, and their updates."""
    todo = unfinished(recipe)
    shown = []
    for name in todo:
        updates = recipe.plan[name].arguments.get("updates")
        plural = "" if updates == 1 else "s"
        shown.append(f"{name} ({updates:,} update{plural})" if isinstance(updates, int) else name)
    debug = ", two updates each for debug" if recipe.options["debug"] else ""
    what = f"runs {', '.join(shown)}{debug}" if todo else "done before"
    return f"{recipe.name} in {recipe.value('output_folder')}: {what}"


@contextmanager
def algorithms(workspace: Workspace) -> Iterator[None]:
    """Let torch use deterministic algorithms only, or TF32, if that is asked for; before the GPU is first used."""
    import torch

    before = torch.are_deterministic_algorithms_enabled()
    tf32 = workspace.tf32 and workspace.device.startswith("cuda")
    products = torch.get_float32_matmul_precision()
    if tf32:
        torch.set_float32_matmul_precision("high")
    if workspace.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it, cuBLAS is refused
    torch.use_deterministic_algorithms(before or workspace.deterministic)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        if tf32:
            torch.set_float32_matmul_precision(products)


def _begin(recipe: Recipe, workspace: Workspace, restart: Sequence[str]) -> None:
    """Clear away what killed runs have left, throw away what is to be done again, and write down the recipe."""
    sweep(workspace.output)
    restart_phases(recipe.plan, workspace, restart)
    for off in recipe.switched_off:
        workspace.log.info("%s", off)
    done: Done = {}
    for name, phase in recipe.plan.items():
        state = PhaseRecord(workspace.output, name).read()
        now = PhaseNow(recipe.plan, phase, workspace, _inputs(phase, done))
        if now.compare(state) is not Verdict.SAME or not _finished(state):
            break
        done[name] = _result(workspace.output, name, state)
    with replaced_file(workspace.output / "recipe.yaml") as temporary:
        temporary.write_text(recipe.text(), encoding="utf-8")


def _settle(workspace: Workspace, now: PhaseNow) -> dict[str, Any]:
    """Return what of an earlier start the phase goes on from; what cannot be used any more is thrown away."""
    name = now.name
    state = PhaseRecord(workspace.output, name).read()
    verdict = now.compare(state)
    if verdict is Verdict.SAME:
        return state
    if verdict is Verdict.AFRESH:
        workspace.log.info("%s: has changed since it failed and left no work: starting again", name)
        discard(now.plan, workspace, {name})
        return {}
    if verdict is Verdict.AGAIN:
        workspace.log.info("%s: has another choice than before: it is done again, and so is what reads from it", name)
        discard(now.plan, workspace, {name})
        return {}
    workspace.log.info("%s: resuming with a later end than at its start; phases that read its output run again", name)
    discard(now.plan, workspace, {name}, keep=name)
    return state | {"status": "running"}


def _run_phase(plan: Plan, name: str, workspace: Workspace, done: Done, keep_time_outside: Callable[[], None]) -> bool:
    """Run a phase if it is not finished; tell whether it was run."""
    from dragoman.shared.machine.processes import on_main

    stopwatch = Stopwatch()
    begun = begin(plan, name, workspace, done)
    if begun is None:
        return False
    record, state = PhaseRecord(workspace.output, name), begun.state

    def note(status: str) -> None:
        if workspace.main:
            record.write(status=status, **state, seconds=begun.seconds + stopwatch.seconds)

    def keep_time() -> None:
        note("running")
        keep_time_outside()

    workspace.keep_time = keep_time
    note("running")
    try:
        begun.phase.run(workspace)
    except BaseException:
        with suppress(OSError):  # on a full disk, what has happened is more important
            note("running")
        raise
    state |= {"finished": datetime.now(UTC).isoformat(), "runs": on_main(lambda: _runs(state["outputs"]), workspace)}
    note("finished")
    workspace.log.info("%s: done in %.0f s", name, begun.seconds + stopwatch.seconds)
    done[name] = _result(workspace.output, name, state)
    return True


@dataclass(frozen=True)
class Begun:
    """A phase that is to run: what its record says of it, and the seconds that it took before."""

    phase: Phase
    state: dict[str, Any]
    seconds: float


def begin(plan: Plan, name: str, workspace: Workspace, done: Done) -> Begun | None:
    """Build a phase that is not finished, if it is what it was when it was started; None if it is finished.

    Raises:
        UsageError: if it has changed since then.
        DataError: if a manifest has.
    """
    import torch

    from dragoman.runs.alike import check_manifests
    from dragoman.shared.machine.processes import on_main

    now = PhaseNow(plan, plan[name], workspace, _inputs(plan[name], done))
    workspace.phase = name
    state, finished = on_main(lambda: (settled := _settle(workspace, now), _finished(settled)), workspace)
    if finished:
        workspace.log.info("%s: done before", name)
        done[name] = _result(workspace.output, name, state)
        return None
    workspace.log.info("%s: %s", name, "resuming" if state else "starting")
    torch.manual_seed(workspace.seed_for(name))
    phase: Phase = plan[name].build()
    manifests = manifest_marks(phase)
    check_manifests(manifests, workspace)
    now.check_manifests(state, manifests)
    outputs = [str(path) for path in phase.outputs()]
    begun = now.started_with() | {"outputs": outputs, "manifests": manifests}
    return Begun(phase, begun, float(state.get("seconds", 0.0)))


def _finished(state: Mapping[str, Any]) -> bool:
    """Tell whether a phase is done, and the runs that it consists of are as they were then."""
    return state.get("status") == "finished" and state.get("runs", []) == _runs(state["outputs"])


def _runs(outputs: Sequence[str]) -> list[str]:
    """Return a mark for each of the outputs that is the folder of a run; doing a phase of it again changes the mark."""
    marks = []
    for folder in map(Path, outputs):
        if (folder / "recipe.yaml").is_file():
            records = {file.stem: PhaseRecord(folder, file.stem).read() for file in (folder / "state").glob("*.json")}
            keys = ("status", "fingerprint", "finished", "runs")
            marks.append(fingerprint({name: [state.get(key) for key in keys] for name, state in records.items()}, {}))
    return marks


def _result(output: Path, name: str, state: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return what the readers of a finished phase depend on, and its places."""
    mark = state["fingerprint"]
    if state.get("runs"):
        mark = fingerprint(state["runs"], {name: mark})
    return mark, places(output, name, state)


def _inputs(phase: PlannedPhase[Recipe], done: Done) -> dict[str, str]:
    """Return the fingerprints of the finished phases that a phase reads from."""
    read = reads(phase, {earlier: places for earlier, (_, places) in done.items()})
    return {earlier: done[earlier][0] for earlier in read}


def log_to_terminal() -> None:
    """Send the log to standard error, above the progress bars if there are any."""
    from dragoman.shared.machine.progress import console

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            time = self.formatter.formatTime(record, "%H:%M:%S") if self.formatter else ""
            console().print(f"{time} {log_message(record)}", markup=False, highlight=False)

    logger = logging.getLogger(LOG)
    # All processes of a run have the same to say, and errors end them.
    logger.setLevel(logging.INFO if os.environ.get("RANK", "0") == "0" else logging.ERROR)
    logger.propagate = False
    if not logger.handlers:
        handler = Handler()
        handler.setFormatter(logging.Formatter())
        logger.addHandler(handler)
