"""``dragoman check``: what is wrong with a corpus or manifests, as a table, or with a recipe and its arms."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from dragoman.commands.inspection import Checked, check_corpus, check_manifests
from dragoman.commands.prepare import corpora, corpus_class
from dragoman.runs.prechecks import try_values
from dragoman.shared.batches.find import find_manifests
from dragoman.shared.errors import DataError, UsageError, plural
from dragoman.shared.machine.progress import progress
from dragoman.shared.recipe.recipe import Recipe
from dragoman.shared.text.surrogates import printable

#: For keys that are up to who runs a recipe, and that not any word can be the value of.
STAND_INS = {
    "source_language": "en",
    "target_language": "de",
    "more_manifests": "[more.arrow]",
    "made_rows": "[made.arrow]",
}


def check(targets: list[str], *, root: Path | None, workers: int, listen: bool, arguments: list[str]) -> None:
    """Print what is wrong or strange about a corpus or manifests, or check a recipe.

    Args:
        targets: the name of one corpus, or manifests and patterns of them, or one recipe.
        root: the folder of the corpus.
        workers: processes; 0 means one per processor.
        listen: decode every sample.
        arguments: options of the corpus' reader, or keys of the recipe.

    Raises:
        DataError: if there are errors among the findings.
        UsageError: if something is wrong with the recipe.
    """
    if len(targets) == 1 and root is None and _is_recipe(targets[0]):
        check_recipe(targets[0], arguments)
        return
    results: dict[str, Checked] = {}
    enabled = sys.stderr.isatty()
    if all(target.endswith(".arrow") for target in targets):
        if root is not None or arguments:
            raise UsageError(f"manifests need no {'--root' if root else arguments[0]}")
        name = ", ".join(targets)
        with progress(name, enabled=enabled) as show:
            results[name] = check_manifests(find_manifests(targets), workers=workers, listen=listen, progress=show)
    else:
        if len(targets) > 1:
            raise UsageError(f"give one corpus or several manifests (*.arrow), not {' '.join(targets)}")
        corpus_class(targets[0])  # an unknown name, such as that of a folder, is the first thing to say
        if root is None:
            raise UsageError(f"check {targets[0]}: --root is missing")
        for corpus in corpora(targets[0], root=root, arguments=arguments):
            name = f"{corpus.name} {corpus.folder}".strip()
            with progress(name, enabled=enabled) as show:
                results[name] = check_corpus(corpus, workers=workers, listen=listen, progress=show)
    for name, checked in results.items():
        total = f"{plural(checked.rows, 'row')}, {checked.seconds / 3600:,.2f} hours"
        print(printable(f"{name}: {total}\n{checked.findings.render()}"))
    wrong = {name: checked.findings.errors for name, checked in results.items() if checked.findings.errors}
    if wrong:
        raise DataError("; ".join(f"{name}: {plural(errors, 'error')}" for name, errors in wrong.items()))


def _is_recipe(target: str) -> bool:
    return target.endswith(".yaml") or target in {name for name, _ in Recipe.list()}


def check_recipe(source: str, overrides: Sequence[str]) -> None:
    """Check all phases of a recipe, and of each of its arms: paths, arguments, types, references and values.

    Args:
        source: a file, or the name of an installed recipe.
        overrides: ``--key value ...``; of a recipe with arms also of each of these.

    Raises:
        UsageError: naming file, line, key and value.
    """
    recipe = Recipe.load(source, overrides)
    arms = [] if recipe.arm else [["--arm", name] for name in recipe.arms]
    for words in ([], *arms):
        given = [*overrides, *words]
        missing = Recipe.load(source, given).placeholders  # up to who runs it
        filled = {key: STAND_INS.get(key, key.upper()) for key in missing}
        arm = Recipe.load(source, [*given, *(word for key, value in filled.items() for word in (f"--{key}", value))])
        arm.check()
        _try_values(arm)
        print(f"{' '.join([arm.name, *words])}: {', '.join(arm.phases)}")


def _try_values(recipe: Recipe) -> None:
    try_values(recipe)
    for phase in recipe.plan.values():
        if phase.inner is not None:
            _try_values(phase.inner)
