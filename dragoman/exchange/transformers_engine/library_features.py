"""The features of waveforms that the library transformers computes for its models.

Legend: B batch, N samples, T frames, F features.
"""

from __future__ import annotations

from functools import cached_property
from inspect import signature
from typing import Any

from torch import Tensor

from dragoman.exchange.transformers_engine.library_folder import library
from dragoman.shared.described import Described
from dragoman.shared.errors import DataError, TooLongError, UsageError, one_line
from dragoman.shared.padded import Padded
from dragoman.shared.sound.audio import SAMPLE_RATE


class LibraryFeatures(Described):
    """A feature extractor of the library, which computes on the CPU.

    Args:
        settings: those of its ``preprocessor_config.json``, its class (``feature_extractor_type``) among them.

    Raises:
        DataError: if the library has no such class, or it hears sound at another rate.
        UsageError: if the settings ask for code of their own.
    """

    def __init__(self, *, settings: dict[str, Any]) -> None:
        if settings.get("auto_map"):
            raise UsageError("feature extractor: auto_map is refused: no code of a model is run")
        rate = settings.get("sampling_rate", SAMPLE_RATE)
        if rate != SAMPLE_RATE:
            raise DataError(f"sampling_rate is {rate}, and sound is read at {SAMPLE_RATE}")
        self.settings = settings

    @cached_property
    def _extractor(self) -> Any:
        library()
        from transformers.models.auto.feature_extraction_auto import feature_extractor_class_from_name

        name = self.settings.get("feature_extractor_type")
        kind = feature_extractor_class_from_name(name) if isinstance(name, str) else None
        if kind is None:
            raise DataError(f"transformers has no feature extractor {name!r}")
        return kind.from_dict(dict(self.settings))

    @cached_property
    def _usual(self) -> dict[str, Any]:
        """The options that all extractors are given, but for those that know them not."""
        known = signature(self._extractor.__call__).parameters
        usual = {"sampling_rate": SAMPLE_RATE, "return_tensors": "pt"}
        return {name: value for name, value in usual.items() if name in known}

    @property
    def longest(self) -> int | None:
        """The samples of the windows that all sound is brought to; None: as long as it is."""
        return getattr(self._extractor, "n_samples", None)

    @property
    def hop(self) -> int:
        """The samples from one frame to the next, of an extractor that says so."""
        return int(self._extractor.hop_length)

    def vectors(self, samples: list[int]) -> list[int]:
        """Return how many vectors a model makes of sounds of so many samples, of an extractor that says so."""
        return [int(count) for count in self._extractor._get_num_audio_features(samples)]

    def __call__(self, waveforms: Padded, **options: Any) -> dict[str, Tensor]:
        """Return what the library makes of waveforms (B, N) in [-1, 1], by its names: ``input_features`` (B, T, F).

        Raises:
            DataError: if a sound is shorter than the features can be.
            TooLongError: if one is longer than a window.
        """
        longest = self.longest
        if longest is not None and waveforms.values.shape[1] > longest and int(waveforms.lengths.max()) > longest:
            seconds = [int(waveforms.lengths.max()) / SAMPLE_RATE, longest / SAMPLE_RATE]
            raise TooLongError(f"{seconds[0]:.2f} s are more than the {seconds[1]:g} s of a window: divide it")
        rows = [row.float().cpu().numpy() for row in waveforms.rows()]
        try:
            found = self._extractor(rows, **self._usual, **options)
        except (ValueError, IndexError, RuntimeError) as error:
            shortest = min(map(len, rows)) / SAMPLE_RATE
            raise DataError(
                f"no features of {len(rows)} sounds, the shortest of {shortest:.3f} s: {one_line(error)}"
            ) from error
        return {name: value.to(waveforms.device) for name, value in found.items() if isinstance(value, Tensor)}
