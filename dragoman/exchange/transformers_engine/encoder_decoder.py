"""An encoder-decoder of the library transformers, as search sees it.

Legend: B sentences, K outputs of each, R = B x K rows, S encoder states, P prefix, T tokens, D width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.exchange.transformers_engine.causal import cache_bytes, select_rows
from dragoman.exchange.transformers_engine.library_features import LibraryFeatures
from dragoman.exchange.transformers_engine.library_folder import library, library_model, without_tied
from dragoman.exchange.transformers_engine.mixture import MODEL_TYPE as MIXTURE
from dragoman.exchange.transformers_engine.mixture import check_routing, with_both_experts
from dragoman.shared.batch import Batch, naming_longest
from dragoman.shared.described import Described
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding, check_fork, kept_sentences
from dragoman.shared.nn.translator import MEMORY, SPEECH
from dragoman.shared.padded import Padded

TEXT_IN, SPEECH_IN = "AutoModelForSeq2SeqLM", "AutoModelForSpeechSeq2Seq"
#: Two models there that share a decoder, and two encoders of one model here.
BOTH = ("seamless_m4t", "seamless_m4t_v2")


@dataclass
class EncoderDecoderState:
    """The outputs of R rows so far, and what they attend to.

    Attributes:
        cache: the library's: keys and values of outputs, and those of the encoder's states, once these are computed.
        states: (R, S, D) of the encoder.
        mask: (R, S) which of them are real.
        beams: K.
    """

    cache: Any
    states: Tensor
    mask: Tensor
    beams: int = 1

    def fork(self, beams: int) -> EncoderDecoderState:
        """See :class:`dragoman.shared.generator.State`."""
        check_fork(self.beams, beams)
        if beams == 1:
            return self
        if self.cache.get_seq_length():
            self.cache.batch_repeat_interleave(beams)
        states, mask = (part.repeat_interleave(beams, dim=0) for part in (self.states, self.mask))
        return EncoderDecoderState(self.cache, states, mask, beams)

    def reorder(self, index: Tensor) -> EncoderDecoderState:
        """See :class:`dragoman.shared.generator.State`; all rows of a sentence attend to the same states."""
        kept = kept_sentences(index, self.beams, len(self.mask) // self.beams)
        select_rows(self.cache.self_attention_cache, index)
        if kept is None:
            return self
        select_rows(self.cache.cross_attention_cache, index)
        return replace(self, states=self.states.index_select(0, index), mask=self.mask.index_select(0, index))


class EncoderDecoderModel(Described, nn.Module):
    """An encoder-decoder; or two that share the decoder, of which one reads text and one hears speech.

    Args:
        config: the library's ``config.json``.
        reads: what it was made to read: "speech", "source" (text), or both.
        features: of speech.

    Raises:
        DataError: if the library knows no such model.
        UsageError: if it reads nothing, or speech without features; if the library is not installed, or the
            configuration asks for code or quantised weights.
    """

    lm: Any

    def __init__(self, *, config: dict[str, Any], reads: list[str], features: LibraryFeatures | None = None) -> None:
        super().__init__()
        if not reads or {*reads} - {SPEECH, MEMORY} or (SPEECH in reads and features is None):
            raise UsageError(f"an encoder-decoder reads speech, by its features, or source, not {reads}")
        self.reads = list(reads)
        self.features = features
        self.lm = joined(lambda kind: library_model(config, kind, "encoder-decoder"), config, reads)
        self.register_state_dict_post_hook(without_tied)

    @property
    def longest_output(self) -> int | None:
        """The positions of the decoder, if the model says how many it has."""
        return getattr(self.lm.config.get_text_config(), "max_position_embeddings", None)

    def state_bytes(self, length: int) -> int:
        """Return about how many bytes of keys and values an output of ``length`` tokens has, without the encoder's."""
        return cache_bytes(self.lm, length)

    def read_bytes(self, batch: Batch, outputs: int) -> int:
        """Return about how many bytes states of text and their keys and values take, each output with its own.

        Those of speech, whose number the library tells for some models only, are not counted.
        """
        if SPEECH in batch:
            return 0
        states = batch[MEMORY].values.shape[1]
        width = self.lm.config.get_text_config().hidden_size
        return len(batch) * outputs * (cache_bytes(self.lm, states) + states * width * self.lm.dtype.itemsize)

    def encode(self, batch: Batch) -> Encoding:
        """Return the states (B, S, D) of speech, if there is any, or else of text.

        Raises:
            DataError: if a sound is too long or too short.
        """
        if SPEECH in batch:
            with naming_longest(batch, SPEECH):
                return Encoding({MEMORY: self._heard(batch[SPEECH])})
        text = batch[MEMORY]
        states = self.lm.get_encoder()(input_ids=text.values, attention_mask=text.mask.long()).last_hidden_state
        return Encoding({MEMORY: Padded(states, text.lengths)})

    def start(self, encoding: Encoding, prefix: Padded | None) -> EncoderDecoderState:
        """Read a prefix (B, P), of equal lengths."""
        memory = encoding.memories[MEMORY]
        transformers = library()
        config = self.lm.config.get_text_config()
        caches = (transformers.DynamicCache(config=config) for _ in range(2))
        state = EncoderDecoderState(transformers.EncoderDecoderCache(*caches), memory.values, memory.mask)
        return state if prefix is None or not prefix.values.shape[1] else self._read(prefix.values, state)[1]

    def step(self, tokens: Tensor, state: EncoderDecoderState) -> tuple[Tensor, EncoderDecoderState]:
        """Read a token a row (R,); return logits (R, V) and the state."""
        logits, state = self._read(tokens[:, None], state)
        return logits[:, -1], state

    def log_probabilities(self, prefix: Padded, encoding: Encoding) -> Tensor:
        """Return the scores (B, T, V) of the token after each token of prefix (B, T)."""
        state = self.start(encoding, None)
        return torch.log_softmax(self._read(prefix.values, state)[0].float(), dim=-1)

    def _read(self, tokens: Tensor, state: EncoderDecoderState) -> tuple[Tensor, EncoderDecoderState]:
        """Return logits (R, T, V) after tokens (R, T), and the state after them."""
        # A mixture of experts asks for the fields of this output, others for a mask beside the states.
        encoded = library().modeling_outputs.MoEModelOutput(last_hidden_state=state.states)
        encoded.attention_mask = state.mask
        read = self.lm(
            encoder_outputs=encoded,
            attention_mask=state.mask.long(),
            decoder_input_ids=tokens,
            past_key_values=state.cache,
            use_cache=True,
        )
        return read.logits, replace(state, cache=read.past_key_values)

    def _heard(self, waveforms: Padded) -> Padded:
        """Return the encoder's states (B, S, D) of waveforms (B, N)."""
        assert self.features is not None
        if self.lm.config.model_type in BOTH:
            return self._heard_apart(waveforms, self.features)
        heard = self.features(waveforms)
        features = heard["input_features"].to(self.lm.dtype)
        read = self.lm.get_encoder()(input_features=features, attention_mask=heard["attention_mask"])
        return Padded(read.last_hidden_state, read.attention_mask.long().sum(-1))

    def _heard_apart(self, waveforms: Padded, features: LibraryFeatures) -> Padded:
        """Return the states of SeamlessM4T's encoder, which are shortened one sound at a time.

        There the library takes padding into the last state of a sound, so that what is heard depends on the batch.
        """
        heard = [features(Padded.from_sequences([row]).to(row.device)) for row in waveforms.rows()]
        frames = Padded.from_sequences([one["input_features"][0].to(self.lm.dtype) for one in heard])
        masks = Padded.from_sequences([one["attention_mask"][0] for one in heard]).values
        encoder, parts = self.lm.speech_encoder, []
        states = encoder.encoder(encoder.feature_projection(frames.values), attention_mask=masks)
        states = states + 0.5 * encoder.intermediate_ffn(states)
        for row, mask, length in zip(states[:, None], masks[:, None], frames.lengths.tolist(), strict=True):
            row, mask, count = row[:, :length], mask[:, :length], int(mask.sum())
            if encoder.adapter is not None:
                row = encoder.adapter(row, attention_mask=mask)
                count = int(self.lm._compute_sub_sample_lengths_from_attention_mask(mask))
            parts.append(encoder.inner_layer_norm(row)[0, :count])
        return Padded.from_sequences(parts).to(waveforms.device)


def joined(make: Any, config: dict[str, Any], reads: list[str]) -> Any:
    """Return the library's model of a configuration, with the encoders of what it is to read and no others.

    Args:
        make: makes a model of one of the library's classes that find a model's by the configuration.
        config: the library's ``config.json``.
        reads: "speech", "source", or both.
    """
    kind = config.get("model_type")
    if kind == MIXTURE:
        check_routing(config)
        return with_both_experts(make(TEXT_IN))
    if kind not in BOTH:
        return make(SPEECH_IN if SPEECH in reads else TEXT_IN)
    model = make(TEXT_IN)
    if SPEECH in reads:
        model.speech_encoder = make(SPEECH_IN).speech_encoder
    if MEMORY not in reads:
        model.text_encoder = None
    return model
