"""Losses and scores of a run, sent to where a group collects its experiments: the recipe's key ``trackers``.

TensorBoard's files are written in any case. A tracker says nothing about what is learned: it may be changed between two
starts of a run, and one that fails while a run goes on is left out of the rest of it.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from dragoman.shared.errors import UsageError
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.moved import HOME


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
        """End: training is done, has failed or was interrupted; or an earlier call has failed."""
        ...


class Wandb:
    """Weights & Biases: a run for each phase that trains.

    Args:
        project: where the run is shown.
        name: of the run; by default the phase's folder.
        mode: "online", or "offline" for machines without network (``wandb sync`` sends the files later).
    """

    library = "wandb"

    def __init__(self, *, project: str = "dragoman", name: str | None = None, mode: str = "online") -> None:
        self.project = project
        self.name = name
        self.mode = mode

    def begin(self, folder: Path) -> None:
        """Begin the run, or go on with the one that the folder remembers for this project and name.

        Raises:
            UsageError: if wandb is not installed.
        """
        check_libraries([self])
        import wandb

        self._run = wandb.init(
            project=self.project,
            name=self.name or str(folder),
            id=_remembered(folder, self.library, [self.project, self.name], lambda: uuid.uuid4().hex),
            resume="allow",
            reinit="create_new",  # whatever other run this process has
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
    """

    library = "mlflow"

    def __init__(self, *, experiment: str = "dragoman", uri: str | None = None) -> None:
        self.experiment = experiment
        self.uri = uri
        self._sent: list[Any] = []

    def begin(self, folder: Path) -> None:
        """Begin the run, or go on with the one that the folder remembers for this server and experiment.

        Raises:
            UsageError: if MLflow is not installed.
        """
        check_libraries([self])
        import mlflow

        uri = self.uri or mlflow.get_tracking_uri()
        self._client = mlflow.MlflowClient(tracking_uri=uri)

        def new() -> str:
            experiment = self._client.get_experiment_by_name(self.experiment)
            number = self._client.create_experiment(self.experiment) if experiment is None else experiment.experiment_id
            return str(self._client.create_run(number, run_name=str(folder)).info.run_id)

        self._run = _remembered(folder, self.library, [uri, self.experiment], new)

    def track(self, values: Mapping[str, float], update: int) -> None:
        """Hand the values of an update to MLflow, which sends them while the training goes on."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        # A name may not hold "+", as in chrf++.
        metrics = [Metric(name.replace("+", "p"), value, now, update) for name, value in values.items()]
        self._sent.append(self._client.log_batch(self._run, metrics=metrics, synchronous=False))

    def close(self) -> None:
        """Wait for what is still being sent, and say that the run is done; fails if something was not sent."""
        sent, self._sent = self._sent, []
        try:
            for operation in sent:
                operation.wait()
        finally:
            self._client.set_terminated(self._run)


def check_libraries(trackers: list[Any]) -> None:
    """Refuse trackers whose libraries are not installed.

    Raises:
        UsageError: naming the library.
    """
    for tracker in trackers:
        library = getattr(tracker, "library", None) if isinstance(tracker, Wandb | MLflow) else None
        if library is not None and find_spec(library) is None:
            raise UsageError(f"the tracker needs the library {library}: pip install 'dragoman[{library}]'")


def _remembered(folder: Path, library: str, settings: list[str | None], new: Callable[[], str]) -> str:
    """Return the name of the run there that has these settings, which a file keeps as long as the phase's folder is."""
    mark = hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:8]
    path = folder / f"{library}.{mark}.id"
    if not path.is_file():
        with replaced_file(path) as temporary:
            temporary.write_text(new(), encoding="utf-8")
    return path.read_text(encoding="utf-8")


#: What a recipe may name in one word.
NAMED: dict[str, type[Wandb] | type[MLflow]] = {"wandb": Wandb, "mlflow": MLflow}


def check_trackers(trackers: str | Sequence[Any]) -> list[Tracker]:
    """Return the trackers of a recipe.

    Args:
        trackers: objects, or names of ``NAMED``; or one name alone.

    Raises:
        UsageError: for what is no tracker, or for two of a run.
    """
    listed = [trackers] if isinstance(trackers, str) else trackers
    checked: list[Tracker] = []
    for given in listed:
        tracker = NAMED[given]() if isinstance(given, str) and given in NAMED else given
        if not isinstance(tracker, Tracker):
            example = f"[!new:{Wandb.__module__.removeprefix(f'{HOME}.')}.{Wandb.__name__} {{project: talks}}]"
            raise UsageError(f"trackers: {given!r} is no tracker: give {', '.join(NAMED)}, or an object: {example}")
        if isinstance(tracker, Wandb | MLflow) and any(_same(tracker, other) for other in checked):
            raise UsageError(f"trackers: two {type(tracker).__name__} would write the same run: leave one out")
        checked.append(tracker)
    return checked


def _same(one: Any, other: Any) -> bool:
    """Tell whether two trackers write the same run."""
    names = ("project", "name", "experiment", "uri")
    return type(one) is type(other) and all(getattr(one, name, "") == getattr(other, name, "") for name in names)


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
        """Begin with all; if one cannot, those that have begun are ended.

        Raises:
            UsageError: if one cannot begin: nobody is logged in, for example.
        """
        for number, tracker in enumerate(self._trackers):
            try:
                tracker.begin(folder)
            except BaseException as error:  # their libraries raise anything
                for begun in self._trackers[:number]:
                    _end(begun)
                if isinstance(error, UsageError) or not isinstance(error, Exception):
                    raise
                raise UsageError(f"the tracker {type(tracker).__name__} cannot begin: {error}") from error

    def track(self, values: Mapping[str, float], update: int) -> None:
        """Give the values of an update to all."""
        for tracker in [*self._trackers]:
            try:
                tracker.track(values, update)
            except Exception as error:  # a server that is down does not end a training run of days
                self._trackers.remove(tracker)
                self._warn(_failure(tracker, "has failed and gets nothing any more", error))
                _end(tracker)

    def close(self) -> None:
        """End all."""
        while self._trackers:
            tracker = self._trackers.pop(0)
            try:
                tracker.close()
            except Exception as error:
                self._warn(_failure(tracker, "has failed at its end", error))


def _failure(tracker: Tracker, what: str, error: Exception) -> str:
    return f"the tracker {type(tracker).__name__} {what}: {error}"


def _end(tracker: Tracker) -> None:
    """End a tracker, which may have failed before."""
    with suppress(Exception):
        tracker.close()
