"""This project's top-level packages have common names: notice when Python finds somebody else's in their place."""

from __future__ import annotations

from functools import cache
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("shared", "mt", "st", "recipes")


@cache
def check_packages() -> None:
    """Check that the packages that this project imports are its own.

    Raises:
        ImportError: in one line that names the package that is in the way, its place and who installed it.

    """
    for name in PACKAGES:
        spec = find_spec(name)
        place = Path(spec.origin) if spec is not None and spec.origin is not None else None
        first_line = place.read_text(encoding="utf-8", errors="replace").partition("\n")[0] if place else ""
        if "dragoman" not in first_line:
            raise ImportError(f"{_culprit(name, place)} is in the way of dragoman's own package {name!r}: {ADVICE}")


ADVICE = "uninstall or rename it, or give dragoman an environment of its own"


def _culprit(name: str, place: Path | None) -> str:
    owners = sorted({owner for owner in packages_distributions().get(name, []) if owner != "dragoman"})
    installed = f", installed by {', '.join(owners)}," if owners else ""
    return f"the package {name!r} at {place.parent if place else 'no file'}{installed}"
