"""The stated bytes are those of the buffers that a search holds."""

from __future__ import annotations

import pytest
import torch

from shared.nn.attention import Past
from shared.nn.decoding import DecoderState
from shared.nn.layer import Layer
from shared.nn.transformer import Decoder
from shared.padded import Padded
from shared.search.memory import STEP, beam_search_bytes


@pytest.mark.parametrize("length", [1, 16, 17, 40])
def test_bytes_of_a_decoders_caches(length):
    sentences, beam, memory, layers, width = 3, 4, 9, 2, 16
    decoder = Decoder(layer=Layer(width=width, heads=2, feedforward=8, memories=["source"]), layers=layers).eval()
    encoded = Padded(torch.randn(sentences, memory, width), torch.full((sentences,), memory))
    caches = decoder.caches({"source": encoded})
    state = DecoderState(caches, sentences, beam, 0)
    rows = sentences * beam
    with torch.no_grad():
        for _ in range(length):
            x = Padded(torch.randn(rows, 1, width), torch.ones(rows, dtype=torch.int64))
            decoder(x, caches=caches)
            state = state.reorder(torch.arange(rows))
    expected = beam_search_bytes(
        sentences=sentences,
        beam=beam,
        length=length,
        memory=memory,
        vocabulary=10,
        layers=layers,
        width=width,
    )
    held = [tensor for cache in state.caches for tensor in (cache.past._stored, cache.past._spare)]
    assert sum(tensor.nbytes for tensor in held) == expected["past"]
    kept = [tensor for cache in state.caches for m in cache.memories.values() for tensor in (m.keys, m.values)]
    assert sum(tensor.nbytes for tensor in kept) == expected["memory"]
    assert expected["scores"] == rows * 10 * 8 and Past.STEP == STEP


def test_refuses_nonsense():
    with pytest.raises(ValueError, match="at least 1"):
        beam_search_bytes(sentences=1, beam=0, length=1, memory=1, vocabulary=1, layers=1, width=1)
