"""What beam search needs of memory, beside the model's parameters.

Legend: B sentences, K beams, T longest output, S longest memory, D model width, V vocabulary, N decoder layers.
"""

from __future__ import annotations

STEP = 16  # caches grow by so many positions (shared/nn/attention.py)


def beam_search_bytes(
    *,
    sentences: int,
    beam: int,
    length: int,
    memory: int,
    vocabulary: int,
    layers: int,
    width: int,
    number_bytes: int = 4,
) -> dict[str, int]:
    """Return bytes by what they are for, with the Transformer of shared/nn, when the longest output is reached.

    Args:
        sentences: B, in a batch.
        beam: K; or the samples of each sentence, when sampling.
        length: T, tokens of the longest output, start and end symbols included.
        memory: S, positions of the longest encoder memory.
        vocabulary: V.
        layers: N.
        width: D.
        number_bytes: of a number in the model's type: 4 for fp32, 2 for bf16.

    Returns:
        "past": keys and values of the outputs, twice, because beams are reordered from one buffer into another:
        ``4 N B K T D`` numbers, T rounded up to a multiple of 16; "memory": keys and values of the encoder's output,
        once for all beams, ``2 N B S D`` numbers; "scores": the logits, ``B K V`` numbers, and as many
        log-probabilities in float32 (on a CPU those of float32 logits take their place).

    Raises:
        ValueError: if a number is below 1.

    """
    sizes = (sentences, beam, length, memory, vocabulary, layers, width, number_bytes)
    if min(sizes) < 1:
        raise ValueError(f"sizes must be at least 1, not {sizes}")
    positions = -(-length // STEP) * STEP
    rows = sentences * beam
    return {
        "past": 4 * layers * rows * positions * width * number_bytes,
        "memory": 2 * layers * sentences * memory * width * number_bytes,
        "scores": rows * vocabulary * (number_bytes + 4),
    }
