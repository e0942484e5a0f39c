"""Changes between two starts of a phase: what it was started with, and what becomes of its work if that has changed.

``state/<phase>.json`` keeps the fingerprint of a phase, its values, the fingerprints of the earlier phases and of the
manifests that it reads. A later start compares them with the recipe and the disk.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import count, pairwise
from reprlib import repr as shown
from typing import Any

from dragoman.runs.restarting import affected, built_from
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.machine.nesting import from_json
from dragoman.shared.machine.workspace import Phase, PhaseRecord, Workspace, fingerprint
from dragoman.shared.recipe.planned import PlannedPhase
from dragoman.shared.recipe.recipe import Plan, Recipe
from dragoman.shared.recipe.run_keys import folder_of_run

#: A refusal names at most this many keys.
LISTED = 4
#: The value of an argument that is not given, in words, and of one that is given as null, in JSON.
NOTHING, NULL = "nothing", "null"


class Verdict(Enum):
    """The fate of the work of an earlier start."""

    SAME = "nothing has changed"
    AFRESH = "the phase failed before it left anything: it starts again, with what the recipe now says"
    FURTHER = "the phase goes on from where it is, to a later end than it was started for"
    AGAIN = "the phase chooses anew from what is there: it starts again, and so do the measurements that read from it"


@dataclass(frozen=True)
class PhaseNow:
    """A phase as its recipe now has it."""

    plan: Plan
    phase: PlannedPhase[Recipe]
    workspace: Workspace
    inputs: Mapping[str, str]

    @property
    def name(self) -> str:
        """The phase's name."""
        return self.phase.name

    @property
    def mark(self) -> str:
        """The phase's fingerprint."""
        return phase_mark(self.phase, self.inputs)

    def started_with(self) -> dict[str, Any]:
        """Return what the phase's record keeps for :meth:`compare`; its manifests are known when it has been built."""
        return {
            "fingerprint": self.mark,
            "seed": self.workspace.seed,
            "debug": self.workspace.debug,
            "inputs": dict(self.inputs),
            "values": {path: text for path, (text, _) in _values(self.phase).items()},
        }

    def compare(self, state: Mapping[str, Any]) -> Verdict:
        """Compare the phase with the record of an earlier start, which is empty if there was none.

        Raises:
            UsageError: for other keys, another seed, or other results of the phases that it reads from; names them.
            DataError: for another manifest.
        """
        if not state:
            return Verdict.SAME
        kind = self.phase.kind
        refusal = self._other_run(state) or self._other_manifest(state)
        if refusal is None and is_same(self.phase, self.inputs, state):
            return Verdict.SAME
        if state.get("status") != "finished" and kind.left_nothing(self.workspace.output / self.name):
            return Verdict.AFRESH
        if refusal is None:
            before = state.get("values") or self._recorded_values()
            if self._goes_further(kind, state, before):
                return Verdict.FURTHER
            if self._chooses_anew(kind, state, before):
                return Verdict.AGAIN
            refusal = self._other_values(kind, state, before)
        raise refusal

    def check_manifests(self, state: Mapping[str, Any], marks: Mapping[str, str]) -> None:
        """Refuse to go on if patterns match other files than at the earlier start; ``marks``: :func:`manifest_marks`.

        Raises:
            DataError: naming one that was added or is missing.
        """
        before = state.get("manifests", marks)
        for path in sorted(before.keys() ^ marks.keys()):
            what = "is missing, with which" if path in before else "was added since"
            raise DataError(f"{path}: {what} {self._title} was started; undo that, or {self._again()}")

    # -- what differs ------------------------------------------------------------------------------------------------

    def _other_run(self, state: Mapping[str, Any]) -> UsageError | None:
        for key in ("seed", "debug"):
            now = getattr(self.workspace, key)
            if state.get(key, now) != now:
                return UsageError(f"{self._title} was started with {key} {state[key]} (now {now}); {self._advice()}")
        return None

    def _other_manifest(self, state: Mapping[str, Any]) -> DataError | None:
        for path, before, now in changed_manifests(state):
            return DataError(
                f"{path}: is another manifest ({now}) than the one ({before}) that {self._title} was started with; "
                f"put that one back, or {self._again()}"
            )
        return None

    def _other_values(self, kind: type[Phase], state: Mapping[str, Any], before: Mapping[str, str]) -> UsageError:
        differing = list(self._differing(before)) if before else []
        if not differing:
            return UsageError(f"{self._title} {self._other_inputs(state)}; {self._again()}")
        shown: dict[str, str] = {}
        inside = "".join(f"phases.{phase}." for phase in self.workspace.inside.split(".") if phase)
        for _, key, old, new in differing:
            shown.setdefault(key, f"{inside}{key} {old} (now {new})")
        listed = ", ".join([*shown.values()][:LISTED])
        if len(shown) > LISTED:
            listed += f" and {len(shown) - LISTED} more"
        return UsageError(
            f"{self._title} was started with other keys: {listed}{_tied(kind, differing)}; {self._advice()}"
        )

    def _other_inputs(self, state: Mapping[str, Any]) -> str:
        recorded = state.get("inputs", {})
        redone = [name for name, mark in self.inputs.items() if recorded.get(name, mark) != mark]
        if redone:
            return f"reads from {', '.join(map(repr, redone))}, which has another result since then"
        return "was started with other keys or inputs than it now has"

    def _differing(self, before: Mapping[str, str]) -> Iterator[tuple[str, str, str, str]]:
        """Yield path, key, old and new value of all that differs."""
        now, kind = _values(self.phase), self.phase.kind
        for path in dict.fromkeys([*now, *before]):
            text, key = now.get(path, (NOTHING, f"phases.{self.name}.{path}"))
            old = before.get(path, NOTHING)
            if old != text and not (path in kind.without_effect and {old, text}.isdisjoint((NOTHING, NULL))):
                yield path, key, old, text

    def _goes_further(self, kind: type[Phase], state: Mapping[str, Any], before: Mapping[str, str]) -> bool:
        """Tell whether the phase is as it was but for arguments that may be larger at a later start."""
        plain = built_from(self.phase)
        for path in kind.extendable:
            now = _at(plain, path)
            if (
                now is not None
                and path in before
                and (now or math.inf) < (self._number(path, before[path]) or math.inf)
            ):
                return False
        return _is_but_for(self.phase, self.inputs, state, before, (*kind.extendable, *kind.without_effect))

    def _chooses_anew(self, kind: type[Phase], state: Mapping[str, Any], before: Mapping[str, str]) -> bool:
        """Tell whether nothing but a choice has changed, and nothing but measurements read what comes of it."""
        if not _is_but_for(self.phase, self.inputs, state, before, kind.choices):
            return False
        lost = affected(self.plan, self.workspace.output, {self.name}) - {self.name}
        return all(self.plan[name].kind.measures for name in lost)

    def _number(self, name: str, text: str) -> int:
        """Return a number that the phase's record keeps as text.

        Raises:
            DataError: if it is none.
        """
        if not re.fullmatch(r"\d{1,18}", text):
            record = PhaseRecord(self.workspace.output, self.name).path
            raise DataError(f"{record}: values.{name} is {shown(text)}, not a number; {self._again()}")
        return int(text)

    def _recorded_values(self) -> dict[str, str]:
        """Return the values of a run whose record does not keep them, from the recipe that it wrote down."""
        try:
            recorded = Recipe.load(self.workspace.output / "recipe.yaml")
            return {path: text for path, (text, _) in _values(recorded.plan[self.name]).items()}
        except (UsageError, KeyError):  # none was written, or it has no such phase
            return {}

    # -- what is said about it ---------------------------------------------------------------------------------------

    @property
    def _title(self) -> str:
        around = f" (run by phase {self.workspace.inside!r})" if self.workspace.inside else ""
        return f"{self.workspace.output}: phase {self.name!r} of {self.phase.recipe}{around}"

    def _advice(self) -> str:
        return f"to keep its work, give the old values{self._beside()}; or {self._again()}"

    def _beside(self) -> str:
        """Propose a run of its own, in a folder that there is not yet."""
        if self.workspace.inside:
            return ""
        given = [word for before, word in pairwise(self.workspace.command.split()) if before == "--run"]
        output, seed = str(self.workspace.output), str(self.workspace.seed)
        free = next(n for n in count(2) if not os.path.exists(folder_of_run(output, str(n), seed)))
        name = "-".join([*given[-1:], str(free)])
        return f", or run it in a folder of its own with {f'{self.workspace.command} --run {name}'.lstrip()}"

    def _again(self) -> str:
        restart = "--restart " + ".".join(filter(None, (self.workspace.inside, self.name)))
        if self.workspace.command:
            restart = f"{self.workspace.command} {restart}"
        return f"do it again with {restart}"


def phase_mark(phase: PlannedPhase[Recipe], inputs: Mapping[str, str]) -> str:
    """Return the fingerprint of a phase: a hash of its resolved keys and of the fingerprints of its inputs."""
    return fingerprint(built_from(phase), dict(inputs), phase.output)


def is_same(phase: PlannedPhase[Recipe], inputs: Mapping[str, str], state: Mapping[str, Any]) -> bool:
    """Tell whether a phase is what its record says, but for arguments that have no effect on its result."""
    free = phase.kind.without_effect
    return state["fingerprint"] == phase_mark(phase, inputs) or (
        bool(free) and _is_but_for(phase, inputs, state, state.get("values", {}), free)
    )


def _is_but_for(
    phase: PlannedPhase[Recipe],
    inputs: Mapping[str, str],
    state: Mapping[str, Any],
    before: Mapping[str, str],
    paths: Sequence[str],
) -> bool:
    """Tell whether a phase would be the one of a record if the arguments at some paths were as they were then.

    Null is another thing than a value: nothing is free to become something.
    """
    plain = built_from(phase)
    for path in paths:
        if before.get(path, NULL) != NULL and _at(plain, path) is not None:
            try:
                plain = _changed(plain, path.split("."), from_json(before[path]))
            except ValueError:  # a damaged record, or one that shortened paths
                return False
    return fingerprint(plain, dict(inputs), phase.output) == state["fingerprint"]


def _at(plain: Any, path: str) -> Any:
    """Return the value at a path in plain data, where objects have a tag above their arguments; None without one."""
    for name in path.split("."):
        plain = _inside(plain).get(name)
    return plain


def _changed(plain: Any, path: Sequence[str], value: Any) -> Any:
    """Return plain data with another value at a path that there is."""
    if not path:
        return value
    if _is_object(plain):
        return {tag: _changed(inside, path, value) for tag, inside in plain.items()}
    return plain | {path[0]: _changed(plain[path[0]], path[1:], value)}


def _inside(plain: Any) -> dict[str, Any]:
    inside = next(iter(plain.values())) if _is_object(plain) else plain
    return inside if isinstance(inside, dict) else {}


def _is_object(plain: Any) -> bool:
    return isinstance(plain, dict) and len(plain) == 1 and next(iter(plain)).startswith("!")


def changed_manifests(state: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield path, old and new fingerprint of the manifests in a phase's record that hold other rows by now.

    One that is not there any more is not another one.
    """
    from dragoman.shared.batches.manifest import Manifest

    for path, mark in state.get("manifests", {}).items():
        if os.path.isfile(path):
            now = Manifest.open(path).fingerprint
            if now != mark:
                yield path, mark, now


def manifest_marks(phase: Phase) -> dict[str, str]:
    """Return the fingerprints of the manifests that a phase reads, by path.

    Raises:
        DataError: if one is missing or cannot be read.
    """
    from dragoman.shared.batches.find import find_manifests
    from dragoman.shared.batches.manifest import Manifest

    return {str(path): Manifest.open(path).fingerprint for path in find_manifests(phase.manifests)}


def _values(phase: PlannedPhase[Recipe]) -> dict[str, tuple[str, str]]:
    """Return the values of a phase as text, and the keys that set them, by path inside the phase."""
    output = json.dumps(phase.output, ensure_ascii=False)[1:-1]
    kind = phase.kind
    unset = {path: json.dumps(value) for path, value in kind.later.items()}
    return {
        path: (text.replace(output, "<output>"), key)
        for path, text, key in phase.values()
        if not {*path.split(".")} & {*kind.aside} and unset.get(path.rpartition(".")[2]) != text
    }


def _tied(kind: type[Phase], differing: list[tuple[str, str, str, str]]) -> str:
    """Say why a phase cannot go on to more updates, if that is what was asked for."""
    for path, key, _, _ in differing:
        tied = [other for other, its_key, _, _ in differing if its_key == key and other != path]
        if path in kind.extendable and tied:
            return f"; it cannot go on to another number of {path}, from which {', '.join(tied)} follows"
    return ""
