"""``dragoman check``: a corpus by name, or manifests, as a table of what is wrong with them."""

from __future__ import annotations

import sys
from pathlib import Path

from shared.commands.prepare import corpora
from shared.corpus.find import find_manifests
from shared.corpus.inspection import Checked, check_corpus, check_manifests
from shared.errors import DataError, UsageError
from shared.machine.progress import progress
from shared.text.surrogates import printable


def check(targets: list[str], *, root: Path | None, workers: int, listen: bool, arguments: list[str]) -> None:
    """Print what is wrong or strange about a corpus or manifests.

    Args:
        targets: the name of one corpus, or manifests and patterns of them.
        root: the folder of the corpus.
        workers: processes; 0 means one per processor.
        listen: decode every sample.
        arguments: options of the corpus' reader.

    Raises:
        DataError: if there are errors among the findings.

    """
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
        if root is None:
            raise UsageError(f"check {targets[0]}: --root is missing")
        for corpus in corpora(targets[0], root=root, arguments=arguments):
            name = f"{corpus.name} {corpus.folder}".strip()
            with progress(name, enabled=enabled) as show:
                results[name] = check_corpus(corpus, workers=workers, listen=listen, progress=show)
    for name, checked in results.items():
        total = f"{checked.rows:,} rows, {checked.seconds / 3600:,.2f} hours"
        print(printable(f"{name}: {total}\n{checked.findings.render()}"))
    wrong = {name: checked.findings.errors for name, checked in results.items() if checked.findings.errors}
    if wrong:
        raise DataError("; ".join(f"{name}: {errors:,} errors" for name, errors in wrong.items()))
