"""Several tasks in one training: each stream of batches has parts of its own.

Speech translation, recognition and text translation of one model (the joint loss of Ye et al. 2021, for example)::

    streams: [!ref <triples>, !ref <text>]
    objective: !new:shared.objectives.TaskObjective
        system: !ref <system>
        tasks:
            triples:
                - !new:shared.objectives.CrossEntropy {source: speech, prefix: st.}
                - !new:shared.objectives.CrossEntropy {source: speech, prefix: asr., target_field: transcript}
                - !new:shared.objectives.CrossEntropy {source: source, prefix: mt.}
            text:
                - !new:shared.objectives.CrossEntropy {source: source, prefix: mt.}

**Weights.** A term is divided by its count over the whole update. So terms of one name in two streams ("mt." above) are
one mean over the tokens of both, with the weight that each states; terms of two names are two means.

**Sums.** A batch is of one stream. The losses of several streams add up in one update only if it takes a batch of each:
``grad_accumulation_factor`` is then the sum of the streams' weights (times a whole number). With 1, updates alternate
between the tasks, which optimises something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.objectives.parts import EncoderDecoderObjective, Part

if TYPE_CHECKING:
    from dragoman.shared.systems.system import System


class TaskObjective(EncoderDecoderObjective):
    """Adds up the parts of the stream that a batch comes from.

    Args:
        system: what is trained; ``system.model`` is handed to the parts.
        tasks: the parts by the name of a stream. A batch without a stream's name has those of the first. A task whose
            stream a phase lacks rests, so that phases with other streams can share an objective.
        source_field: the batch field that parts without a ``source`` read; by default the model chooses, as it does
            when it translates.

    Raises:
        UsageError: without tasks, for a task without parts, or if a part does not fit the model.
    """

    def __init__(self, *, system: System, tasks: dict[str, list[Part]], source_field: str | None = None) -> None:
        if not tasks:
            raise UsageError("an objective of tasks needs at least one task")
        empty = [stream for stream, parts in tasks.items() if not parts]
        if empty:
            raise UsageError(f"task {empty[0]!r} has no parts")
        every = {id(part): part for parts in tasks.values() for part in parts}  # a part may serve several streams
        super().__init__(system=system, parts=list(every.values()), source_field=source_field)
        self.tasks = {stream: list(parts) for stream, parts in tasks.items()}

    def check_streams(self, names: Sequence[str]) -> None:
        """Raise UsageError for a stream without a task; tasks of other streams rest."""
        for name in names:
            self._task(name)

    def parts_of(self, batch: Batch) -> list[Part]:
        """Return the parts of the batch's stream."""
        return self._task(batch.stream or next(iter(self.tasks)))

    def _task(self, stream: str) -> list[Part]:
        if stream not in self.tasks:
            raise UsageError(f"the objective has no task for stream {stream!r}, only for {', '.join(self.tasks)}")
        return self.tasks[stream]
