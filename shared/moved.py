"""The places of modules: how recipes call this project's packages, and where modules stood before they moved.

A recipe says ``shared.nn.layer.Layer`` for ``dragoman.shared.nn.layer.Layer``, and may name an earlier place of a
module or class. Fingerprints of phases are made of earliest places, so that a move does not make anybody's finished
work void.
"""

from __future__ import annotations

import json
import re
from typing import Any

HOME = "dragoman"
#: The packages below ``dragoman`` that recipes call by their own names.
PACKAGES = ("shared", "mt", "st")

_FROM_CORPUS = {
    "batches": "crop fields find growing_text joined_text lengths loader manifest masked_text noise plan randomness "
    "rewriting speech_field spoken_words stream workers",
    "preparing": "findings finished held_out journal line_pairs preparation probing reader report seen split_files",
    "sound": "audio channels media mpeg pauses segmentation shards silero speech_activity speech_gaps speech_spans",
    "text": "compressed lexicon lines normalise quoting word_vectors",
}
_FROM_SHARED = {
    "exchange.vocabularies": {"text": "json_file letters segmenters vocabulary"},
    "exchange.huggingface": {"nn": "log_mel"},
    "preparing": {"preparing": "finished journal preparation probing report seen"},
}
#: Of what only one of the two uses.
_FROM_BOTH = {
    "shared.batches.noise": "mt.noise",
    "shared.text.word_vectors": "mt.vector_tables",
    "shared.text.lexicon": "mt.lexicon",
    "shared.phases.CountForms": "mt.forms.CountForms",
    "shared.phases.ExtractPhrases": "mt.phrases.ExtractPhrases",
    "shared.phases.LexiconCoverage": "mt.covering.LexiconCoverage",
    "shared.phases.FitEach": "mt.fitting_each.FitEach",
    "shared.phases.AlignSpeech": "st.aligning.AlignSpeech",
    "shared.phases.ReadWords": "st.aligning.ReadWords",
    "shared.phases.Divide": "st.corpora.dividing.Divide",
    "shared.phases.CompareInputs": "st.comparing.CompareInputs",
    "shared.phases.MeasureFeatures": "st.measuring.MeasureFeatures",
    "shared.batches.crop": "st.crop",
    "shared.batches.joined_text": "st.joined_text",
    "shared.nn.tandem": "st.tandem",
    "shared.nn.slots": "st.slots",
    "shared.phases.Prepare": "dragoman.preparing.Prepare",
    "shared.phases.Simulate": "dragoman.simultaneous.simulating.Simulate",
    "shared.systems.policies": "dragoman.simultaneous.policies",
    "shared.nn.waveform_augmentation": "st.waveform_augmentation",
    "shared.batches.spoken_words": "st.spoken_words",
    "shared.systems.trimming": "dragoman.exchange.trimming",
    "shared.phases.Trim": "dragoman.exchange.trimming.Trim",
    **{
        f"shared.phases.{name}": f"mt.retrieving.{name}"
        for name in ("PairDistance", "Pictures", "Retrieve", "WordAccuracy", "WordSimilarity")
    },
}
#: Earlier place -> the next one; of a module that has moved twice, the way has two steps.
MOVED = (
    {f"shared.corpus.{name}": f"shared.{room}.{name}" for room, names in _FROM_CORPUS.items() for name in names.split()}
    | {
        f"shared.{room}.{name}": f"dragoman.{target}.{name}"
        for target, rooms in _FROM_SHARED.items()
        for room, names in rooms.items()
        for name in names.split()
    }
    | {"shared.almanac": "dragoman.almanac", "shared.phases.RunRecipe": "dragoman.runs.RunRecipe"}
    | _FROM_BOTH
)
_EARLIEST = {now: before for before, now in MOVED.items()}
#: The earlier name of an argument, by the present one.
_ARGUMENTS = {"label_smoothing": "smoothing"}
_CALL = re.compile(r'(?<="!)(new|name|apply|module):([\w.]+)')


def importable(path: str) -> str:
    """Return the name by which Python finds what a recipe calls ``path``."""
    path = _replaced(path, MOVED)
    return f"{HOME}.{path}" if path.partition(".")[0] in PACKAGES else path


def as_present(tag: str) -> str:
    """Return the tag of a recipe's object, ``!new:path``, with the place that is the present one."""
    kind, colon, path = tag.partition(":")
    return f"{kind}{colon}{_replaced(path, MOVED)}"


def as_earliest(value: Any) -> str:
    """Return plain data (:func:`shared.recipe.tree.plain`) as JSON: places and names of arguments are the earliest."""
    text = json.dumps(_with_earliest_arguments(value), sort_keys=True, ensure_ascii=False, default=str)
    return _CALL.sub(lambda call: f"{call[1]}:{_replaced(call[2], _EARLIEST)}", text)


def _with_earliest_arguments(value: Any) -> Any:
    if isinstance(value, dict):
        return {_ARGUMENTS.get(name, name): _with_earliest_arguments(inner) for name, inner in value.items()}
    return [*map(_with_earliest_arguments, value)] if isinstance(value, list) else value


def _replaced(path: str, places: dict[str, str]) -> str:
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        place = places.get(".".join(parts[:length]))
        if place is not None:
            return _replaced(".".join([place, *parts[length:]]), places)
    return path
