"""Speech and text translation: load a model and translate, run a recipe, evaluate a model.

    import dragoman

    model = dragoman.load("model")
    model.translate(["Good morning."])  # ["Guten Morgen."]
    dragoman.run("own/mt", data_folder="my_data", source_language="en", target_language="de")
    dragoman.evaluate("model", "manifests/en-de/test.arrow").scores

Names are imported when they are first used, so that ``import dragoman`` is instant and changes nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.packages import check_packages

if TYPE_CHECKING:
    from dragoman.functions import evaluate, load, run
    from shared.corpus.manifest import Manifest
    from shared.errors import DataError, UsageError
    from shared.exchange.importing import import_model
    from shared.generator import Hypothesis
    from shared.recipe.recipe import Recipe
    from shared.search import (
        BeamSearch,
        CtcGreedySearch,
        CtcPrefixSearch,
        GreedySearch,
        RepeatedNgrams,
        Rules,
        SamplingSearch,
    )
    from shared.systems.system import System

    __version__: str

#: Where each public name is defined.
_PLACES = {
    "load": "dragoman.functions",
    "run": "dragoman.functions",
    "evaluate": "dragoman.functions",
    "__version__": "dragoman.functions",
    "import_model": "shared.exchange.importing",
    "System": "shared.systems.system",
    "Hypothesis": "shared.generator",
    "Recipe": "shared.recipe.recipe",
    "Manifest": "shared.corpus.manifest",
    "BeamSearch": "shared.search",
    "CtcGreedySearch": "shared.search",
    "CtcPrefixSearch": "shared.search",
    "GreedySearch": "shared.search",
    "SamplingSearch": "shared.search",
    "RepeatedNgrams": "shared.search",
    "Rules": "shared.search",
    "DataError": "shared.errors",
    "UsageError": "shared.errors",
}

__all__ = [
    "BeamSearch",
    "CtcGreedySearch",
    "CtcPrefixSearch",
    "DataError",
    "GreedySearch",
    "Hypothesis",
    "Manifest",
    "Recipe",
    "RepeatedNgrams",
    "Rules",
    "SamplingSearch",
    "System",
    "UsageError",
    "__version__",
    "evaluate",
    "import_model",
    "load",
    "run",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used.

    Raises:
        AttributeError: for a name that is not public.
        ImportError: if another package is in the way of one of this project's.

    """
    if name not in _PLACES:
        raise AttributeError(f"module 'dragoman' has no attribute {name!r}")
    check_packages()
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
