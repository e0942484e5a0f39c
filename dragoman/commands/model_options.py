"""Options of models: what they read and write, with which others, by what and where they compute."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from dragoman.commands.options import option
from dragoman.commands.text_options import names_of
from dragoman.shared.errors import UsageError, check_number

MODELS = "Models and machine"

ENGINES = ("native", "ctranslate2")


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The task, the further models, the engine and the device."""

    reads: Annotated[
        str | None,
        option("inputs to read, if the model was trained on several: speech, source, or speech,source", MODELS),
    ] = None
    writes: Annotated[
        str | None,
        option("text to write, if the model was trained to write several: translation, transcript", MODELS),
    ] = None
    ensemble: Annotated[
        list[Path] | None,
        option("another model, whose probabilities are averaged with the first's; repeatable", MODELS),
    ] = None
    lm: Annotated[Path | None, option("model folder of a language model (see recipes/text/lm.yaml)", MODELS)] = None
    lm_weight: Annotated[float, option("weight of the language model's log-probabilities", MODELS)] = 0.3
    ctc_weight: Annotated[
        float, option("share of the CTC head in a joint search with the decoder, below 1; 0: none", MODELS)
    ] = 0.0
    batch_size: Annotated[
        int, option("maximum number of inputs per batch; does not change the output", MODELS, min=1)
    ] = 32
    device: Annotated[str, option("auto, cpu, cuda, cuda:1, mps", MODELS)] = "auto"
    precision: Annotated[str, option("auto, fp32, bf16, fp16; int8: on a CPU", MODELS)] = "auto"
    memory: Annotated[
        str | None,
        option("weights a device may hold, if the model is larger than it: 0=20GB,cpu=60GB (docs/search.md)", MODELS),
    ] = None
    engine: Annotated[
        str, option("native, or ctranslate2 (text models, and their folders written by dragoman export)", MODELS)
    ] = "native"

    @property
    def inputs(self) -> list[str] | None:
        """The names of the inputs to read, None for the model's own choice."""
        return None if self.reads is None else names_of(self.reads)

    def check(self) -> None:
        """Refuse an unknown engine, a weight out of its range, and one without a language model, by UsageError."""
        if self.engine not in ENGINES:
            raise UsageError(f"--engine must be one of {', '.join(ENGINES)}, not {self.engine!r}")
        if self.engine != "native" and (self.ensemble or self.lm or self.ctc_weight or self.memory):
            raise UsageError(f"--ensemble, --lm, --ctc-weight and --memory need the native engine, not {self.engine}")
        if not 0 <= self.ctc_weight < 1:
            raise UsageError(f"--ctc-weight must be at least 0 and below 1, not {self.ctc_weight}")
        if self.lm is None and self.lm_weight != type(self).lm_weight:
            raise UsageError("--lm-weight needs --lm")
        if self.lm is not None:
            from dragoman.shared.systems.combining import LARGEST_WEIGHT  # which needs torch

            check_number("--lm-weight", self.lm_weight, above=0, most=LARGEST_WEIGHT)
