"""A language model that hears: a prompt with a sound in it, which the library turns into vectors of its own.

Legend: B sentences, N samples, S prompt, F features, T frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from dragoman.exchange.transformers_engine.causal import CausalModel
from dragoman.exchange.transformers_engine.library_features import LibraryFeatures
from dragoman.exchange.transformers_engine.prompt import TEXT
from dragoman.shared.batch import Batch, naming_longest
from dragoman.shared.described import Described
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.translator import MEMORY, SPEECH
from dragoman.shared.padded import Padded
from dragoman.shared.text import languages
from dragoman.shared.text.tokenizer import Tokenizer

FEATURES, MASK, VECTORS = "input_features", "feature_attention_mask", "vectors"


class SpokenPrompt(Described):
    """A prompt around a sound.

    Args:
        prompt: its parts in order: symbols of the tokenizer, one of which stands for the sound, and texts in which
            ``{source_language}`` and ``{target_language}`` stand for the English names of a row's languages.
        tokenizer: see shared/text/tokenizer.py; each text between symbols is tokenised as a whole.
        sound: the symbol that stands for a vector of the sound.

    Raises:
        UsageError: if the sound has no place in the prompt or two, or a text has one.
    """

    def __init__(self, *, prompt: list[str], tokenizer: Tokenizer, sound: str) -> None:
        if prompt.count(sound) != 1 or TEXT in "".join(prompt):
            raise UsageError(f"a prompt around a sound has it, {sound}, once, and no {TEXT}: {''.join(prompt)!r}")
        self.prompt = list(prompt)
        self.tokenizer = tokenizer
        self.sound = sound

    def whole(self, row: Mapping[str, Any], vectors: int) -> list[int]:
        """Return the ids of the prompt of a row, with as many symbols as the sound has vectors.

        Raises:
            DataError: if the row lacks a language that the prompt names.
        """
        ids: list[int] = []
        for part in self.prompt:
            if part == self.sound:
                ids += [self.tokenizer.id(part)] * vectors
            elif part in self.tokenizer.symbols:
                ids.append(self.tokenizer.id(part))
            else:
                ids += self.tokenizer.encode(languages.with_languages(part, row))
        return ids


class HearingModel(CausalModel):
    """A language model that hears, such as Qwen2-Audio: what it "encodes" is a prompt, and the sound in it.

    The library puts the vectors of the sounds into the prompts when it reads these.

    Args:
        config: the library's ``config.json``.
        ends: ids of the symbols that end an output, the tokenizer's ``</s>`` first.
        features: of speech.
        prompt: around it; the output begins with its last symbol.

    Raises:
        DataError: as :class:`CausalModel`.
        UsageError: likewise.
    """

    found_by = "AutoModelForMultimodalLM"

    def __init__(
        self, *, config: dict[str, Any], ends: list[int], features: LibraryFeatures, prompt: SpokenPrompt
    ) -> None:
        super().__init__(config=config, ends=ends)
        self.features = features
        self.prompt = prompt

    def encode(self, batch: Batch, field: str | None = None) -> Encoding:
        """Return the prompts (B, S), and what is heard of the sounds in them.

        Raises:
            DataError: if a sound is too long or too short, or a row lacks a language that the prompt names.
        """
        with naming_longest(batch, SPEECH):
            heard, counts = self.heard(batch[SPEECH])
            prompts = [torch.tensor(ids, dtype=torch.int64) for ids in self._prompts(batch, counts)]
            ids = Padded.from_sequences(prompts, padding=self.prompt.tokenizer.pad).to(batch[SPEECH].device)
            self._check_prompts(ids.lengths)
        return Encoding({MEMORY: ids}, heard)

    def longest_prompt(self, batch: Batch) -> int:
        """Return S, how many tokens the longest prompt of a batch has, those of its sound among them."""
        return max(map(len, self._prompts(batch, self.vectors(batch[SPEECH].lengths))))

    def vectors(self, samples: Tensor) -> list[int]:
        """Return how many vectors sounds of so many samples (B,) will have."""
        frames = -(-samples // self.features.hop)
        return self.lm.model.audio_tower._get_feat_extract_output_lengths(frames)[1].tolist()

    def _prompts(self, batch: Batch, vectors: list[int]) -> Iterator[list[int]]:
        """Yield the ids of the prompts of a batch whose sounds have so many vectors, without the last one."""
        for number, count in enumerate(vectors):
            row = {f"{side}_language": codes[number] for side, codes in batch.languages.items()}
            row["id"] = batch.ids[number] if batch.ids else str(number)
            yield self.prompt.whole(row, count)[:-1]

    def heard(self, waveforms: Padded) -> tuple[dict[str, Tensor | Padded], list[int]]:
        """Return the features (B, F, T) of waveforms (B, N), and how many vectors each will have."""
        found = self.features(waveforms, padding="max_length", return_attention_mask=True)
        mask = found["attention_mask"]
        _, counts = self.lm.model.audio_tower._get_feat_extract_output_lengths(mask.sum(-1))
        return {FEATURES: found[FEATURES], MASK: mask}, counts.tolist()

    def beside(self, encoding: Encoding, prompts: Tensor) -> dict[str, Tensor | None]:
        """Return the features of the sounds, and which of their frames are heard."""
        features, mask = encoding.extras[FEATURES], encoding.extras.get(MASK)
        assert isinstance(features, Tensor) and (mask is None or isinstance(mask, Tensor))
        given: dict[str, Tensor | None] = {FEATURES: features.to(self.lm.dtype)}
        return given if mask is None else given | {MASK: mask}


class WindowHearingModel(HearingModel):
    """Voxtral: its encoder hears the silence behind a sound, too, and a prompt has all vectors of a window."""

    def heard(self, waveforms: Padded) -> tuple[dict[str, Tensor | Padded], list[int]]:
        """Return the features (B, F, T) of waveforms (B, N), and how many vectors each will have."""
        return {FEATURES: self.features(waveforms, padding="max_length")[FEATURES]}, self.vectors(waveforms.lengths)

    def vectors(self, samples: Tensor) -> list[int]:
        """Return how many vectors sounds of so many samples (B,) will have: several states make one."""
        audio = self.lm.config.audio_config
        return [audio.max_source_positions * audio.hidden_size // audio.intermediate_size] * len(samples)


class ApartHearingModel(HearingModel):
    """Granite speech: its encoder hears padding, so sounds are encoded one at a time, and put into the prompts here."""

    def heard(self, waveforms: Padded) -> tuple[dict[str, Tensor | Padded], list[int]]:
        """Return the vectors (B, N, D) of waveforms, and how many each has."""
        rows = []
        for waveform in waveforms.rows():
            found = self.features(Padded.from_sequences([waveform]).to(waveform.device))
            features = found[FEATURES].to(self.lm.dtype)
            rows.append(self.lm.get_audio_features(features, return_dict=True).pooler_output[0])
        vectors = Padded.from_sequences(rows).to(waveforms.device)
        return {VECTORS: vectors}, vectors.lengths.tolist()

    def vectors(self, samples: Tensor) -> list[int]:
        """Return how many vectors sounds of so many samples (B,) will have."""
        return self.features.vectors(samples.tolist())

    def beside(self, encoding: Encoding, prompts: Tensor) -> dict[str, Tensor | None]:
        """Return the vectors of the prompts (B, S, D), those of sounds among them, in the place of the ids."""
        vectors = encoding.extras[VECTORS]
        assert isinstance(vectors, Padded)
        sound = prompts == self.prompt.tokenizer.id(self.prompt.sound)
        embedded = self.lm.get_input_embeddings()(prompts)
        inputs = embedded.masked_scatter(sound[..., None], vectors.values[vectors.mask].to(embedded.dtype))
        return {"input_ids": None, "inputs_embeds": inputs}
