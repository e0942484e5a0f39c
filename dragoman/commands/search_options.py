"""Options of a search, and of a choice among what it finds."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from dragoman.commands.options import option
from dragoman.shared.errors import UsageError

SEARCH, SAMPLING, CHOICE = "Search", "Sampling", "Choice among hypotheses"


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """The search: beam search, sampling, or prefix search with a CTC head (docs/search.md)."""

    beam: Annotated[int, option("beam width; 1: greedy search", SEARCH, min=1)] = 5
    length_penalty: Annotated[float, option("exponent of the length by which scores are divided", SEARCH)] = 1.0
    minimum_length: Annotated[int, option("minimum length of an output in tokens", SEARCH, min=0)] = 1
    maximum_length_ratio: Annotated[
        float, option("maximum length of an output, in tokens per encoder position", SEARCH, min=0.0)
    ] = 0.0
    maximum_length_extra: Annotated[int, option("tokens added to that maximum length", SEARCH, min=0)] = 250
    no_repeat_ngram: Annotated[
        int, option("size of the n-grams that an output must not repeat; 0: no limit", SEARCH, min=0)
    ] = 0
    allowed: Annotated[
        Path | None, option("file with one token per line: the only tokens that an output may contain", SEARCH)
    ] = None
    forbidden: Annotated[
        Path | None, option("file with one token per line: tokens that an output must not contain", SEARCH)
    ] = None
    ctc: Annotated[
        bool, option("decode with the CTC head: prefix beam search, or the best path with --beam 1", SEARCH)
    ] = False
    length_bonus: Annotated[float, option("score added per output token, with --ctc", SEARCH)] = 0.0
    iterations: Annotated[
        int,
        option("passes of a model that fills masks, which tries --beam lengths; 0: as many as usual", SEARCH, min=0),
    ] = 0
    sample: Annotated[bool, option("sample outputs instead of searching for the best one", SAMPLING)] = False
    temperature: Annotated[float, option("below 1 sharpens the distribution, above 1 flattens it", SAMPLING)] = 1.0
    top_k: Annotated[int, option("sample from the K most probable tokens; 0: from all", SAMPLING, min=0)] = 0
    top_p: Annotated[
        float,
        option("sample from the smallest set of most probable tokens whose probabilities sum to at least P", SAMPLING),
    ] = 1.0
    seed: Annotated[int, option("seed of the sampling", SAMPLING)] = 1

    @property
    def samples_outputs(self) -> bool:
        """Tell whether outputs are sampled."""
        return self.sample

    def check(self) -> None:
        """Refuse options that the chosen search does not read.

        Raises:
            UsageError: names the first such option.
        """
        if self.ctc:
            kind, read = "decoding by CTC", {"ctc", "beam", "length_bonus"}
        elif self.iterations:
            kind, read = "filling masks", {"iterations", "beam"}
        elif self.samples_outputs:
            kind, read = "sampling", RULES | {"sample", "temperature", "top_k", "top_p", "seed"}
        else:
            kind, read = "beam search", RULES | {"beam", "length_penalty"}
        for field in fields(SearchOptions):
            if field.name not in read and getattr(self, field.name) != field.default:
                raise UsageError(f"--{field.name.replace('_', '-')} does not apply to {kind}")


@dataclass(frozen=True, kw_only=True)
class ChoosingOptions(SearchOptions):
    """The search, and the choice among several hypotheses that it finds (docs/search.md)."""

    samples: Annotated[
        int, option("number of outputs per input, with --sample, --mbr or --rerank", SAMPLING, min=1)
    ] = 1
    mbr: Annotated[
        str | None,
        option(
            "chrf, chrf++, bleu or the folder of a COMET model: choose the hypothesis that is most like all of them "
            "(minimum Bayes risk), of --samples or of the beam",
            CHOICE,
        ),
    ] = None
    rerank: Annotated[
        Path | None,
        option(
            "model folder: choose by score + weight x mean log-probability of a language model, or of a translator "
            "from the target language to the source language; or the folder of a COMET model without references, "
            "CometKiwi for example: choose by the quality that it estimates",
            CHOICE,
        ),
    ] = None
    rerank_weight: Annotated[float, option("that weight", CHOICE)] = 1.0

    @property
    def chooses(self) -> bool:
        """Tell whether a judge chooses among hypotheses."""
        return self.mbr is not None or self.rerank is not None

    @property
    def samples_outputs(self) -> bool:
        """Tell whether outputs are sampled: several samples to choose among need no further word."""
        return self.sample or (self.chooses and self.samples > 1)

    def check(self) -> None:
        """Refuse options that the chosen search does not read, two judges, and a judge without a choice.

        Raises:
            UsageError: names the first such option.
        """
        super().check()
        if self.samples > 1 and not self.samples_outputs:
            raise UsageError(f"--samples {self.samples} needs --sample")
        if self.mbr is not None and self.rerank is not None:
            raise UsageError("--mbr and --rerank do not go together")
        if self.chooses and (self.samples if self.samples_outputs else self.beam) == 1:
            judge = "--rerank" if self.mbr is None else "--mbr"
            raise UsageError(f"{judge} chooses among several hypotheses: give --samples, or a --beam above 1")
        if self.rerank is None and self.rerank_weight != type(self).rerank_weight:
            raise UsageError("--rerank-weight needs --rerank")


RULES = {"minimum_length", "maximum_length_ratio", "maximum_length_extra", "no_repeat_ngram", "allowed", "forbidden"}
