"""Losses and scores of a run, sent to where a group collects its experiments: the recipe's key ``trackers``.

TensorBoard's files are written in any case. A tracker says nothing about what is learned: it may be changed between two
starts of a run, and one that fails while a run goes on is left out of the rest of it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from shared.errors import UsageError


@runtime_checkable
class Tracker(Protocol):
    """A receiver of the numbers of a training run; a recipe may name any class with these three methods."""

    def begin(self, folder: Path) -> None:
        """Begin, or go on after an interruption; ``folder`` is that of the phase, and goes when it is restarted."""
        ...

    def track(self, values: Mapping[str, float], update: int) -> None:
        """Take values by name ("train/loss", "validation/bleu"); after an interruption some may come once more."""
        ...

    def close(self) -> None:
        """End: training is done."""
        ...


class Wandb:
    """Weights & Biases: a run for each phase that trains.

    Args:
        project: where the run is shown.
        name: of the run; by default the phase's folder.
        mode: "online", or "offline" for machines without network (``wandb sync`` sends the files later).

    Raises:
        UsageError: if wandb is not installed.

    """

    def __init__(self, *, project: str, name: str | None = None, mode: str = "online") -> None:
        _need("wandb")
        self.project = project
        self.name = name
        self.mode = mode

    def begin(self, folder: Path) -> None:
        """Begin the run, or go on with the one that the folder remembers."""
        import wandb

        self._run = wandb.init(
            project=self.project,
            name=self.name or str(folder),
            id=_remembered(folder / "wandb.id", lambda: uuid.uuid4().hex),
            resume="allow",
            dir=str(folder),
            mode=self.mode,  # type: ignore[arg-type, unused-ignore]
        )
        self._run.define_metric("*", step_metric="update")  # its own steps only grow, and updates may be done again

    def track(self, values: Mapping[str, float], update: int) -> None:
        """Send the values of an update."""
        self._run.log({**values, "update": update})

    def close(self) -> None:
        """Send what is left."""
        self._run.finish()


class MLflow:
    """MLflow: a run of an experiment for each phase that trains.

    Args:
        experiment: its name; it is made if there is none.
        uri: of the server, or of a folder or database; by default ``MLFLOW_TRACKING_URI``, or what MLflow takes.

    Raises:
        UsageError: if MLflow is not installed.

    """

    def __init__(self, *, experiment: str, uri: str | None = None) -> None:
        _need("mlflow")
        self.experiment = experiment
        self.uri = uri

    def begin(self, folder: Path) -> None:
        """Begin the run, or go on with the one that the folder remembers."""
        from mlflow import MlflowClient

        self._client = MlflowClient(tracking_uri=self.uri)

        def new() -> str:
            known = self._client.get_experiment_by_name(self.experiment)
            number = self._client.create_experiment(self.experiment) if known is None else known.experiment_id
            return str(self._client.create_run(number, run_name=str(folder)).info.run_id)

        self._run = _remembered(folder / "mlflow.id", new)

    def track(self, values: Mapping[str, float], update: int) -> None:
        """Send the values of an update."""
        for name, value in values.items():
            self._client.log_metric(self._run, name, value, step=update)

    def close(self) -> None:
        """Say that the run is done."""
        self._client.set_terminated(self._run)


def _need(library: str) -> None:
    if find_spec(library) is None:
        raise UsageError(f"the tracker needs the library {library}: pip install 'dragoman[{library}]'")


def _remembered(path: Path, new: Callable[[], str]) -> str:
    """Return the name of a run there, which a file keeps as long as the phase's folder is the same."""
    if not path.is_file():
        path.write_text(new(), encoding="utf-8")
    return path.read_text(encoding="utf-8")


def check_trackers(trackers: list[Any]) -> list[Tracker]:
    """Return the trackers; raise a UsageError for what is none, such as the name of a library."""
    for tracker in trackers:
        if not isinstance(tracker, Tracker):
            kinds = " or ".join(f"!new:{kind.__module__}.{kind.__name__}" for kind in (Wandb, MLflow))
            raise UsageError(f"trackers: {tracker!r} is no tracker: name an object, such as {kinds}")
    return list(trackers)


class Trackers:
    """All trackers of a run; one that fails is named once, and left out from then on.

    Args:
        trackers: those of the recipe.
        warn: takes a sentence about one that has failed.

    """

    def __init__(self, trackers: list[Tracker], warn: Callable[[str], None]) -> None:
        self._trackers = list(trackers)
        self._warn = warn

    def begin(self, folder: Path) -> None:
        """Begin with all.

        Raises:
            UsageError: if one cannot begin: nobody is logged in, for example.

        """
        for tracker in self._trackers:
            try:
                tracker.begin(folder)
            except Exception as error:  # their libraries raise anything
                raise UsageError(f"the tracker {type(tracker).__name__} cannot begin: {error}") from error

    def track(self, values: Mapping[str, float], update: int) -> None:
        """Give the values of an update to all."""
        self._each(lambda tracker: tracker.track(values, update))

    def close(self) -> None:
        """End all."""
        self._each(lambda tracker: tracker.close())

    def _each(self, do: Callable[[Tracker], None]) -> None:
        for tracker in [*self._trackers]:
            try:
                do(tracker)
            except Exception as error:  # a server that is down does not end a training run of days
                self._trackers.remove(tracker)
                self._warn(f"the tracker {type(tracker).__name__} has failed and gets nothing any more: {error}")
