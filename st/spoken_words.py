"""A recording with its words: when each is said, its pieces, and those of its translation.

The words and their times are the column ``words`` of a manifest, which ``AlignSpeech`` writes: for each word its text,
and start and end in seconds from the beginning of the row. Their translations are the column ``word_translations``,
which ``AlignWords`` writes ("" for none).

Legend: N samples, W words, P different pieces of words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from dragoman.shared.annotations import Checked
from dragoman.shared.batches.fields import Rows, TextField
from dragoman.shared.batches.manifest import Manifest, Row
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.errors import DataError
from dragoman.shared.phases.adding_columns import WORDS
from dragoman.shared.phases.linking import TRANSLATIONS
from dragoman.shared.ranges import Share
from dragoman.shared.sound.audio import SAMPLE_RATE
from dragoman.shared.text.normalise import apply


class SpokenWords(Checked):
    """A waveform, where its words are in it, which of them are to be hidden, and what they are.

    The batch gets, for a field called ``speech``:

    - ``speech``: the waveform, (N,) float32, at a speed that is drawn;
    - ``speech.words``: (W, 2) int64: the first sample of each word at that speed, and the one behind its last;
    - ``speech.hidden``: (W,) bool: which words were chosen to be hidden, ``share`` of them and at least one;
    - ``speech.said``: (P, 2) int64: a word's number and one of its pieces; ``speech.said_shares``: (P,) float32: the
      share of the word's pieces that are this one, which add up to 1 for each word that has pieces;
    - ``speech.translated``, ``speech.translated_shares``: likewise of the translations; a word without one has none.

    Args:
        speech: the recording.
        said: the words' form: their normalizers and tokenizer.
        translated: that of their translations.
        share: of the words that are chosen, rounded to the nearest number.
    """

    unit = "samples"
    padding = 0.0
    overhead = 0

    def __init__(self, *, speech: SpeechField, said: TextField, translated: TextField, share: Share = 0.15) -> None:
        self.speech = speech
        self.said = said
        self.translated = translated
        self.share = share

    def __call__(self, row: Row, rng: np.random.Generator) -> dict[str, Tensor]:
        """Return the tensors by key; "" is the waveform.

        Raises:
            DataError: if the row has no audio, no words or another number of translations, or it cannot be read.
        """
        words, translations = row.get(WORDS), row.get(TRANSLATIONS)
        if words is None or translations is None:
            missing = WORDS if words is None else TRANSLATIONS
            raise DataError(f"row {row.get('id')!r} has no {missing}")
        if len(words) != len(translations):
            raise DataError(f"row {row.get('id')!r} has {len(words)} words, but {len(translations)} translations")
        speed = self.speech.speed(rng)
        waveform = self.speech.waveform(row, speed)
        rate = SAMPLE_RATE / speed
        spans = [(math.floor(word["start"] * rate), math.ceil(word["end"] * rate)) for word in words]
        hidden = torch.zeros(len(words), dtype=torch.bool)
        if words and self.share:
            count = max(1, round(self.share * len(words)))
            hidden[torch.from_numpy(rng.choice(len(words), count, replace=False))] = True
        tensors = {
            "": waveform,
            "words": torch.tensor(spans, dtype=torch.int64).reshape(-1, 2).clamp(0, len(waveform)),
            "hidden": hidden,
        }
        texts = {"said": [word["text"] for word in words], "translated": translations}
        for key, field in (("said", self.said), ("translated", self.translated)):
            pieces, shares = pieces_of(texts[key], field, row.get(field.language_column))
            tensors |= {key: pieces, f"{key}_shares": shares}
        return tensors

    def length(self, row: Row) -> int:
        """Return the number of samples, N, at the slowest speed."""
        return self.speech.length(row)

    def lengths(self, rows: Rows, folder: Path | None = None) -> np.ndarray:
        """Return the numbers of samples at the slowest speed, -1 where there is no audio, or no words are known."""
        lengths = self.speech.lengths(rows, folder)
        if isinstance(rows, Manifest):
            complete = np.asarray(rows.column(WORDS).is_valid()) & np.asarray(rows.column(TRANSLATIONS).is_valid())
        else:
            complete = np.array([row.get(WORDS) is not None and row.get(TRANSLATIONS) is not None for row in rows])
        return np.where(complete, lengths, -1)

    def evaluating(self) -> SpeechField:
        """Return the recording alone, at its own speed."""
        return self.speech.evaluating()


def pieces_of(texts: Sequence[str], field: TextField, language: str | None) -> tuple[Tensor, Tensor]:
    """Return the different pieces of each text (P, 2) int64, with its number, and their shares of it (P,) float32."""
    pieces: list[tuple[int, int]] = []
    shares: list[float] = []
    for number, text in enumerate(texts):
        counted = Counter(field.encoded(apply(field.normalizers, text, language), language))
        total = counted.total()
        pieces += [(number, id) for id in counted]
        shares += [count / total for count in counted.values()]
    return torch.tensor(pieces, dtype=torch.int64).reshape(-1, 2), torch.tensor(shares, dtype=torch.float32)
