"""Libraries that only a part of the project needs, each brought by an extra: what is said where one is missing."""

from __future__ import annotations

import logging
from functools import cache
from importlib.util import find_spec

from dragoman.shared.errors import UsageError


def require(library: str, extra: str, user: str) -> None:
    """Refuse what cannot work (``user``, which begins the message) without a library that an extra brings.

    Raises:
        UsageError: naming library and extra, if it is not installed.
    """
    if find_spec(library) is None:
        raise UsageError(f"{user} needs the library {library}: pip install 'dragoman[{extra}]'")


@cache
def present(library: str, extra: str, lacking: str) -> bool:
    """Tell whether a library of an extra is there; if not, warn once of what is ``lacking`` for want of it."""
    if find_spec(library) is not None:
        return True
    logging.getLogger("dragoman").warning("%s: install %s (pip install 'dragoman[%s]')", lacking, library, extra)
    return False
