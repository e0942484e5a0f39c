"""Recipes: HyperPyYAML files that say what is run, read and checked before anything is built.

A recipe is a mapping of keys. ``phases:`` maps names to ``!new:`` phases, which are built when their turn comes;
``base: base.yaml`` names another recipe, or a list of them, each laid over the one before, and this one over all; one
that several name lies once, below them. They are files, seen from the recipe, or installed recipes (``own/mt``).
``output_folder`` is where the run happens, ``seed`` what its randomness comes from, and ``arms`` are changes that have
a name (arms.py). Classes are those of installed
packages, of modules beside the recipe, and of modules in the folders that ``modules: [../src]`` names. The run options
(``OPTIONS``) may always be given. Values are plain, or ``!new:path {arguments}``, ``!name:path``, ``!ref <key>``,
``!ref <a> * <b[c]>``, ``!copy <key>``, ``!apply:path``, ``!PLACEHOLDER``, as HyperPyYAML has them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dragoman.shared.errors import UsageError
from dragoman.shared.recipe.annotate import annotated, without_bases
from dragoman.shared.recipe.arms import PLUS, lay_arms, names_of_arms, take_arms
from dragoman.shared.recipe.belonging import moved_manifests
from dragoman.shared.recipe.inner import (
    Above,
    SwitchedOff,
    debug_folder,
    debugged_elsewhere,
    few,
    load_inner,
    switch_off,
    without_groups,
)
from dragoman.shared.recipe.locations import (
    ARMS,
    MODULES,
    Layers,
    add_to_path,
    bases,
    check_not_hidden,
    find,
    folders_of_modules,
    header,
    installed,
    is_base,
    title,
)  # fmt: skip
from dragoman.shared.recipe.overrides import Bare, node_of, pairs, start_options
from dragoman.shared.recipe.planned import PlannedPhase
from dragoman.shared.recipe.reach import Reach
from dragoman.shared.recipe.resolve import Resolver, override
from dragoman.shared.recipe.run_keys import OPTIONS, RUN_KEYS, RUN_OPTIONS, add_defaults, name_folder, name_run
from dragoman.shared.recipe.signatures import check_phase, mismatch
from dragoman.shared.recipe.tree import INNER, OF_ARM, Node, leaves, nearest, parse_value, plain, to_yaml

Names = list[str]
Listing = list[tuple[str, str]]
Off = list[SwitchedOff]
Plan = dict[str, PlannedPhase["Recipe"]]


class Recipe:
    """A recipe with its base and its overrides; see :meth:`load`.

    Attributes:
        name: "almanac/st".
        source: how messages name the file.
        header: the comment lines at the top of the file.
        arm: the name of the arm that was chosen, "" for none.
        changed: the keys that overrides gave other values, as plain data.
        switched_off: the recipes that it would run, but for a null in place of their phases.
    """

    def __init__(
        self,
        root: Node,
        *,
        name: str,
        source: str,
        header: str,
        changed: dict[str, Any],
        arms: Node,
        arm: str = "",
        above: Sequence[str] = (),
        module_folders: Sequence[str] = (),
        given: Sequence[Node] = (),
        trusts: bool = False,
    ) -> None:
        self.name = name
        self.source = source
        self.header = header
        self.changed = changed
        self.arm = arm
        self._arms = arms
        self._module_folders = module_folders
        self._reach = Reach.inside(module_folders, trusts)
        self._root = root
        self._above = Above((*above, name), Recipe.load)
        self.switched_off: Off = switch_off(root, self._above, given)

    @staticmethod
    def load(
        source: str | Path,
        overrides: Mapping[str, Any] | Sequence[str] = (),
        *,
        above: Sequence[str] = (),
        handed_on: bool = False,
    ) -> Recipe:
        """Read a recipe, its base and its overrides; nothing is imported or built.

        Args:
            source: a file, or the name of an installed recipe ("almanac/st").
            overrides: by dotted key ("model.encoder.layers"), or as on the command line ("--key", "value", ...).
                Texts are read as YAML; the last one wins. Beside keys, there are ``arm``, ``run`` and ``trust_recipe``.
            above: the names of the recipes that run this one, the outermost first.
            handed_on: the overrides are those of a recipe that now runs this one; objects in them are nodes.

        Raises:
            UsageError: naming file, line, key and value.
        """
        path, shown, name = find(source)
        layers = Layers(path, shown)
        root = layers.read()
        add_defaults(root)
        name_folder(root, path)
        start = start_options(pairs(overrides), inside=handed_on or bool(above))
        arms = take_arms(root)
        placed = any(key.replace("-", "_") == "results_folder" for key, _ in start.values)
        changed, given = {}, lay_arms(root, arms, start.arm, layers.lay, placed=placed)
        add_to_path(layers.folders)
        for key, value in start.values:
            if isinstance(value, Node) and not handed_on:  # of a recipe that runs this one
                new, name_in_results = value, key
                differs = override(root, key, value, of=shown)
            else:
                new = parse_value(str(value), key) if isinstance(value, str) else node_of(value, key)
                new.own = new.own and not handed_on
                new.bare = isinstance(value, Bare)
                differs = override(root, key, new)
                name_in_results = new.key
            if differs:
                changed[name_in_results] = plain(new)
            given.append(new)
        name_run(root, start.run)
        return Recipe(
            root, name=name, source=shown, header=header(path), changed=changed, arms=arms,
            arm=start.arm.value if start.arm else "", above=above, module_folders=layers.folders, given=given,
            trusts=start.trusts,
        )  # fmt: skip

    @staticmethod
    def list() -> Listing:
        """Return the installed recipes: name and title, which their headers begin with. Bases are no recipes."""
        return [(name, title(path)) for name, path in installed() if not is_base(path)]

    # -- what it says -----------------------------------------------------------------------------------------------

    @property
    def phases(self) -> Names:
        """The names of the phases, in order; a phase that is set to null is left out."""
        return [*self._phases()]

    @cached_property
    def plan(self) -> Plan:
        """The phases by name, in order; each is resolved when it is first looked at."""
        debug = self._debug
        output = self.value("output_folder", lenient=True) if "output_folder" in self.keys else ""
        output = debug_folder(output) if debug and output else output
        return {
            name: PlannedPhase(name, self.name, output, node, self._resolver, self._above, self._reach, debug)
            for name, node in self._phases().items()
        }

    @property
    def keys(self) -> Names:
        """The names of all top-level keys."""
        return [*self._root.value]

    @property
    def arms(self) -> Names:
        """The names of the arms; those that another arm has brought along are ``that+this``."""
        return [*names_of_arms(self._arms)]

    @property
    def used_keys(self) -> set[str]:
        """The names of the top-level keys that the run reads or phases refer to."""
        return self._used(Resolver(self._root, lenient=True))

    @property
    def options(self) -> dict[str, Any]:
        """The run options, given or default."""
        return {name: self._typed(name, kind) for name, (kind, _, _) in OPTIONS.items()}

    @cached_property
    def placeholders(self) -> Names:
        """The dotted keys that are used and still need a value."""
        resolver = Resolver(self._root, lenient=True)
        self._used(resolver)
        return [node.key for node in resolver.missing]

    def value(self, key: str, *, lenient: bool = False) -> Any:
        """Return the plain value of a top-level key, references followed; lenient: what has no value yet is empty text.

        Raises:
            UsageError: if there is no such key, or it has no value yet.
        """
        if key not in self._root.value:
            raise UsageError(f"{self.source}: no key {key!r}{nearest(key, self._root.value)}")
        if key in RUN_KEYS and not lenient:
            return self._typed(key, RUN_KEYS[key])
        resolver = Resolver(self._root, lenient=True) if lenient else self._resolver
        return plain(resolver.resolve(self._root.value[key]))

    def folders(self) -> Names:
        """Return the output folders of this recipe and of those that it runs, as they are without ``debug``."""
        resolver = Resolver(self._root)
        phases = [(node, resolver.resolve(node)) for node in self._phases().values()]  # one may be a reference
        inner = [
            load_inner(node, without_groups(node, resolved, self._above), self._above)
            for node, resolved in phases
            if resolved.tag == INNER
        ]
        output = resolver.resolve(self._root.value["output_folder"])
        return few([output.value, *(folder for recipe in inner for folder in recipe.folders())], output)

    def text(self) -> str:
        """Return the recipe, base and overrides included, as a recipe that can be run; unused keys are left out."""
        return self._comments + to_yaml(self._with_modules(self._used(Resolver(self._root))))

    def shown(self, phase: str | None = None, *, changed: bool = False) -> str:
        """Return the recipe as :meth:`text` does, each line with its place and comment; placeholders need no value.

        Args:
            phase: leave out what this phase is not built from, but for the keys that every run needs.
            changed: leave out what is said in the bases only, and name them instead.

        Raises:
            UsageError: for a phase that there is not, and references to nothing.
        """
        resolver = Resolver(self._root, lenient=True)
        if phase is None:
            root = self._with_modules(self._used(resolver))
            if self._arms.value and not self.arm:
                root.value[ARMS] = self._arms
        else:
            for node in [self._phase(phase), *(self._root.value[key] for key in RUN_KEYS if key in self._root.value)]:
                resolver.resolve(node)
            root = self._with_modules({"phases", *RUN_KEYS, *resolver.used})
            phases = root.value["phases"]
            root.value["phases"] = replace(phases, value={phase: phases.value[phase]})
        if changed:
            root = Node(bases(self.source) | (without_bases(root) or Node({})).value)
        return self._comments + annotated(root, self.source)

    @property
    def _comments(self) -> str:
        return "".join(f"# {line}".rstrip() + "\n" for line in self.header.splitlines())

    def _with_modules(self, keys: Collection[str]) -> Node:
        """Return some of the keys, and those folders of modules that they need."""
        written = Node({key: node for key, node in self._root.value.items() if key in keys})
        folders = folders_of_modules(written, self._module_folders)
        modules = {MODULES: Node([Node(folder) for folder in folders])} if folders else {}
        return Node(modules | written.value)

    def flat(self) -> dict[str, str]:
        """Return all that the run uses, as written: values as text by dotted key, references not followed."""
        used = self._used(Resolver(self._root))
        return dict(leaves(Node({key: node for key, node in self._root.value.items() if key in used})))

    # -- checking ---------------------------------------------------------------------------------------------------

    def check(self, inside: Names | None = None) -> None:
        """Check all phases: every path, argument, type and reference, and that every key is used.

        Imports what the recipe names; builds nothing. Keys of a base that this recipe does not use are ignored.

        Args:
            inside: filled with the names of the recipes that this one runs, and those run.

        Raises:
            UsageError: naming file, line, key and value.
        """
        resolver, seen = Resolver(self._root), set[int]()
        inside = [] if inside is None else inside
        for key, node in self._root.value.items():
            if key.endswith("_folder") and node.value == "":  # a variable of the shell that was not set
                node.refuse("is empty: give the folder's name, or . for the one that you are in")
        for key, kind in RUN_KEYS.items():
            if key not in self._root.value:
                raise UsageError(f"{self.source}: needs the key {key!r}")
            self._typed(key, kind)
        self.options  # noqa: B018  (their types)
        phases = {name: resolver.resolve(node) for name, node in self._phases().items()}
        check_not_hidden(Node(phases), self._module_folders)
        with self._reach.applied():
            for name, node in self._phases().items():
                is_inner = phases[name].tag == INNER
                resolved = without_groups(node, phases[name], self._above) if is_inner else phases[name]
                check_phase(resolved, node, seen)
        used = self._used(resolver)
        for key, node in self._root.value.items():
            if key in used or not node.own:
                continue
            one_of_several = PLUS in self.arm and node.place.startswith(OF_ARM)  # another may have taken its use away
            if (one_of_several or not node.given) and key in self._used_by_arms:
                continue
            taken_away = key in self._used_unchanged
            if node.given or not taken_away:
                hint = " with the other changes of the recipe" if taken_away else nearest(key, used, few=0)
                node.refuse(f"nothing uses this key{hint}")
        for phase in self.plan.values():
            for off in self.switched_off:
                off.refuse_reading(phase.node.walk())
            if phase.inner is not None:
                inside.append(phase.inner.name)
                few(inside, phase.written)
                phase.inner.check(inside)

    @cached_property
    def _used_unchanged(self) -> set[str]:
        """The keys that the recipe uses as its file says, some of which changes may leave without use."""
        return Recipe.load(self.source).used_keys if self.changed or self.arm else set()

    @cached_property
    def _used_by_arms(self) -> set[str]:
        """The keys that the recipe uses with one of its arms."""
        return {key for arm in self.arms for key in Recipe.load(self.source, {"arm": arm}).used_keys}

    def _used(self, resolver: Resolver) -> set[str]:
        """Return the top-level keys that the run reads or phases refer to."""
        read_by_run = {*RUN_KEYS, *RUN_OPTIONS} & {*self._root.value}
        for node in [*self._phases().values(), *(self._root.value[key] for key in sorted(read_by_run))]:
            resolver.resolve(node)
        return {"phases", *read_by_run, *resolver.used}

    # -- inside -----------------------------------------------------------------------------------------------------

    @cached_property
    def _debug(self) -> bool:
        return Resolver(self._root).resolve(self._root.value["debug"]).value is True

    @cached_property
    def _resolver(self) -> Resolver:
        """The resolver of the recipe's values; those of a debug run, and manifests of other data, are elsewhere."""
        debugged = self.folders() if self._debug and "output_folder" in self._root.value else []
        moved = {folder: debug_folder(folder) for folder in debugged if isinstance(folder, str) and folder}
        elsewhere = debugged_elsewhere if self._debug else str
        return Resolver(self._root, moved=moved_manifests(self._root) | moved, elsewhere=elsewhere)

    def _phases(self) -> dict[str, Node]:
        node = self._root.value.get("phases")
        if node is None:
            raise UsageError(f"{self.source}: has no phases")
        if not isinstance(node.value, dict) or node.tag:
            node.refuse("phases are a mapping of names to !new: objects")
        for name, child in node.value.items():
            if not name.replace("_", "").replace("-", "").isalnum():
                child.refuse(f"{name!r} cannot be a phase's name, which becomes a folder: use letters, digits, _ and -")
        phases = {name: child for name, child in node.value.items() if child.tag or child.value is not None}
        if not phases:
            node.refuse("has no phases")
        return phases

    def _phase(self, name: str) -> Node:
        phases = self._phases()
        if name not in phases:
            raise UsageError(f"{self.source}: no phase {name!r}{nearest(name, phases)}")
        return phases[name]

    def _typed(self, key: str, kind: Any) -> Any:
        node = self._root.value[key]
        resolved = self._resolver.resolve(node)
        problem = mismatch(resolved, kind)
        if problem:
            node.refuse(problem)
        return resolved.value
