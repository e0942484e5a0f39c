"""Changes between two starts of a phase: what it was started with, and what becomes of its work if that has changed.

``state/<phase>.json`` keeps the fingerprint of a phase, its values, the fingerprints of the earlier phases and of the
manifests that it reads. A later start compares them with the recipe and the disk.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from reprlib import repr as shown
from typing import Any

from shared.errors import DataError, UsageError
from shared.machine.workspace import Phase, PhaseRecord, Workspace, fingerprint
from shared.recipe.recipe import Recipe

#: A refusal names at most this many keys.
LISTED = 4


class Verdict(Enum):
    """The fate of the work of an earlier start."""

    SAME = "nothing has changed"
    AFRESH = "the phase failed before it left anything: it starts again, with what the recipe now says"
    FURTHER = "the phase goes on from where it is, to more updates than it was started for"


@dataclass(frozen=True)
class PhaseNow:
    """A phase as its recipe now has it.

    Attributes:
        recipe: the recipe.
        name: the phase's name.
        workspace: the run.
        inputs: the fingerprints of the earlier phases that it reads from, by name.

    """

    recipe: Recipe
    name: str
    workspace: Workspace
    inputs: Mapping[str, str]

    @property
    def mark(self) -> str:
        """The phase's fingerprint."""
        return phase_mark(self.recipe, self.name, self.inputs)

    def started_with(self) -> dict[str, Any]:
        """Return what the phase's record keeps for :meth:`compare`; its manifests are known when it has been built."""
        return {
            "fingerprint": self.mark,
            "seed": self.workspace.seed,
            "debug": self.workspace.debug,
            "inputs": dict(self.inputs),
            "values": {path: text for path, (text, _) in _values(self.recipe, self.name).items()},
        }

    def compare(self, state: Mapping[str, Any]) -> Verdict:
        """Compare the phase with the record of an earlier start.

        Args:
            state: the record; empty if there was no earlier start.

        Raises:
            UsageError: for other keys, another seed, or other results of the phases that it reads from; names them.
            DataError: for another manifest.

        """
        if not state:
            return Verdict.SAME
        kind = self.recipe.phase_type(self.name)
        refusal = self._other_run(state) or self._other_manifest(state)
        further = False
        if refusal is None and state["fingerprint"] != self.mark:
            before = state.get("values") or self._recorded_values()
            further = self._goes_further(kind, state, before)
            refusal = self._other_values(kind, state, before)
        if refusal is None:
            return Verdict.SAME
        if state.get("status") != "finished" and kind.left_nothing(self.workspace.output / self.name):
            return Verdict.AFRESH
        if further:
            return Verdict.FURTHER
        raise refusal

    def check_manifests(self, state: Mapping[str, Any], marks: Mapping[str, str]) -> None:
        """Refuse to go on if patterns match other files than at the earlier start.

        Args:
            state: the record of that start.
            marks: of the manifests that the phase now reads (:func:`manifest_marks`).

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
        known = state.get("inputs", {})
        redone = [name for name, mark in self.inputs.items() if known.get(name, mark) != mark]
        if redone:
            return f"reads from {', '.join(map(repr, redone))}, which has another result since then"
        return "was started with other keys or inputs than it now has"

    def _differing(self, before: Mapping[str, str]) -> Iterator[tuple[str, str, str, str]]:
        """Yield path, key, old and new value of all that differs."""
        now = _values(self.recipe, self.name)
        for path in dict.fromkeys([*now, *before]):
            text, key = now.get(path, ("nothing", f"phases.{self.name}.{path}"))
            if before.get(path, "nothing") != text:
                yield path, key, before.get(path, "nothing"), text

    def _goes_further(self, kind: type[Phase], state: Mapping[str, Any], before: Mapping[str, str]) -> bool:
        """Tell whether the phase is as it was but for arguments that may be larger at a later start."""
        [(tag, arguments)] = _plain(self.recipe, self.name).items()
        known = [name for name in kind.extendable if name in before and name in arguments]
        old = {name: self._number(name, before[name]) for name in known}
        if not all(arguments[name] >= value for name, value in old.items()):
            return False
        plain = {tag: arguments | old}
        return fingerprint(plain, dict(self.inputs), self.recipe.value("output_folder")) == state["fingerprint"]

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
            return {path: text for path, (text, _) in _values(recorded, self.name).items()}
        except UsageError:  # none was written, or it has no such phase
            return {}

    # -- what is said about it ---------------------------------------------------------------------------------------

    @property
    def _title(self) -> str:
        around = f" (run by phase {self.workspace.inside!r})" if self.workspace.inside else ""
        return f"{self.workspace.output}: phase {self.name!r} of {self.recipe.name}{around}"

    def _advice(self) -> str:
        elsewhere = "" if self.workspace.inside else " or another --output_folder"
        return f"to keep its work, give the old values{elsewhere}; or {self._again()}"

    def _again(self) -> str:
        restart = "--restart " + ".".join(filter(None, (self.workspace.inside, self.name)))
        if self.workspace.command:
            restart = f"{self.workspace.command} {restart}"
        return f"do it again with {restart}"


def phase_mark(recipe: Recipe, name: str, inputs: Mapping[str, str]) -> str:
    """Return the fingerprint of a phase: a hash of its resolved keys and of the fingerprints of its inputs."""
    return fingerprint(_plain(recipe, name), dict(inputs), recipe.value("output_folder"))


def _plain(recipe: Recipe, name: str) -> dict[str, dict[str, Any]]:
    """Return what a phase is built from as plain data, but for arguments that change nothing of what it makes."""
    [(tag, arguments)] = recipe.plain(name).items()
    aside = recipe.phase_type(name).aside
    return {tag: _without(arguments, aside) if aside else arguments}


def _without(value: Any, aside: Sequence[str]) -> Any:
    """Leave out the keys of plain data whose last part is one of these, and the mappings that hold nothing else."""
    if isinstance(value, list):
        return [_without(item, aside) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _without(inside, aside) for key, inside in value.items() if not _is_aside(key, aside)}
    return {key: inside for key, inside in kept.items() if inside != {} or value[key] == {}}


def _is_aside(key: str, aside: Sequence[str]) -> bool:
    return not key.startswith("!") and key.rpartition(".")[2] in aside  # what has a tag is an object


def changed_manifests(state: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield path, old and new fingerprint of the manifests in a phase's record that hold other rows by now.

    One that is not there any more is not another one.
    """
    from shared.corpus.manifest import Manifest

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
    from shared.corpus.find import find_manifests
    from shared.corpus.manifest import Manifest

    return {str(path): Manifest.open(path).fingerprint for path in find_manifests(phase.manifests)}


def _values(recipe: Recipe, name: str) -> dict[str, tuple[str, str]]:
    """Return the values of a phase as text, and the keys that set them, by path inside the phase."""
    output = json.dumps(recipe.value("output_folder"), ensure_ascii=False)[1:-1]
    aside = recipe.phase_type(name).aside
    return {
        path: (text.replace(output, "<output>"), key)
        for path, text, key in recipe.values(name)
        if not {*path.split(".")} & {*aside}
    }


def _tied(kind: type[Phase], differing: list[tuple[str, str, str, str]]) -> str:
    """Say why a phase cannot go on to more updates, if that is what was asked for."""
    for path, key, _, _ in differing:
        tied = [other for other, its_key, _, _ in differing if its_key == key and other != path]
        if path in kind.extendable and tied:
            return f"; it cannot go on to another number of {path}, from which {', '.join(tied)} follows"
    return ""
