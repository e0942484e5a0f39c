"""Speech and text translation: load a model and translate, run a recipe, evaluate a model.

    import dragoman

    model = dragoman.load("model")
    model.translate(["Good morning."])  # ["Guten Morgen."]
    run = dragoman.run("own/mt", data_folder="my_data", source_language="en", target_language="de")
    print(dragoman.evaluate(run, "manifests/en-de/test.arrow"))

Names are imported when they are first used, so that ``import dragoman`` is instant and changes nothing.
``help(dragoman.load)`` has the arguments of a name in full.

Functions:
    load             a model folder or a run, to translate with: returns a System
    run              run a recipe, as ``dragoman run`` does: returns the folder of the run
    evaluate         translate a manifest with a model, and score the output
    import_model     make a model folder of a checkpoint of fairseq or Hugging Face

Classes:
    System           a model with what it reads and writes: ``translate``, ``hypotheses``, ``timed``, ``save``
    Hypothesis       an output: its texts, tokens and score
    Recipe           a recipe file with its bases and changed keys: ``load``, ``list``, ``check``
    Manifest         the rows of a prepared corpus: ``open``

Searches, for ``search=`` of the calls above:
    BeamSearch       the usual one: beam, length_penalty, n_best, rules
    GreedySearch     the best token at each step
    SamplingSearch   tokens drawn by their probability
    CtcPrefixSearch  the usual one of models that are decoded by CTC
    CtcGreedySearch  the best symbol of each position
    Rules            lengths, start symbols and bans of a search
    RepeatedNgrams   a ban: no n-gram is written twice

Errors that a user can correct:
    DataError        a file or a corpus is not as it should be
    UsageError       an argument is not as it should be
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.functions import evaluate, import_model, load, run
    from dragoman.shared.batches.manifest import Manifest
    from dragoman.shared.errors import DataError, UsageError
    from dragoman.shared.generator import Hypothesis
    from dragoman.shared.recipe.recipe import Recipe
    from dragoman.shared.search import (
        BeamSearch,
        CtcGreedySearch,
        CtcPrefixSearch,
        GreedySearch,
        RepeatedNgrams,
        Rules,
        SamplingSearch,
    )
    from dragoman.shared.systems.system import System

    __version__: str

#: Where each public name is defined.
_PLACES = {
    "load": "dragoman.functions",
    "run": "dragoman.functions",
    "evaluate": "dragoman.functions",
    "__version__": "dragoman.version",
    "import_model": "dragoman.functions",
    "System": "dragoman.shared.systems.system",
    "Hypothesis": "dragoman.shared.generator",
    "Recipe": "dragoman.shared.recipe.recipe",
    "Manifest": "dragoman.shared.batches.manifest",
    "BeamSearch": "dragoman.shared.search",
    "CtcGreedySearch": "dragoman.shared.search",
    "CtcPrefixSearch": "dragoman.shared.search",
    "GreedySearch": "dragoman.shared.search",
    "SamplingSearch": "dragoman.shared.search",
    "RepeatedNgrams": "dragoman.shared.search",
    "Rules": "dragoman.shared.search",
    "DataError": "dragoman.shared.errors",
    "UsageError": "dragoman.shared.errors",
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
    """
    if name not in _PLACES:
        raise AttributeError(f"module 'dragoman' has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names; none for ``help(dragoman)``, which would print 2,000 lines below the table above."""
    caller = sys._getframe()
    while caller.f_back is not None and caller.f_globals["__name__"] in (__name__, "inspect"):
        caller = caller.f_back
    return [] if caller.f_globals["__name__"] == "pydoc" else __all__
