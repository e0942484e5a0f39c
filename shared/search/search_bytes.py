"""About how much memory a search needs at once, beside the model and what it has encoded.

Legend: B sentences, K beams or samples, S positions, C candidates, V vocabulary.
"""

from __future__ import annotations

from dragoman.shared.errors import UsageError
from dragoman.shared.search.beam import BeamSearch
from dragoman.shared.search.ctc_prefix import CtcPrefixSearch
from dragoman.shared.search.filling import FillingSearch
from dragoman.shared.search.sampling import SamplingSearch
from dragoman.shared.search.search import AnySearch


def search_bytes(search: AnySearch, *, sentences: int, vocabulary: int, state: int = 0, positions: int = 0) -> int:
    """Return about how many bytes a search needs at once.

    Args:
        search: beam search, sampling, prefix search through a CTC head, or filling masks; others keep one output of
            each sentence.
        sentences: B, in a batch.
        vocabulary: V.
        state: bytes of the decoder's state of one output.
        positions: S, of a CTC head's output, or of outputs with masks.
    """
    if isinstance(search, CtcPrefixSearch):
        candidates = min(search.candidates + 1, vocabulary) if search.candidates else vocabulary
        # Prefixes are compared with each other by all their tokens and by the symbols that they may grow by, a byte
        # each; a pair of prefixes has three numbers more.
        pairs = search.beam * (max(2 * positions, candidates) + 16)
        return sentences * search.beam * (pairs + 24 * (positions + candidates))
    outputs = kept_outputs(search)
    if isinstance(search, FillingSearch):  # logits and log-probabilities of all positions
        return sentences * outputs * positions * vocabulary * 8
    # Logits and log-probabilities; a sample also the changed ones, and the bits and numbers of its noise.
    scores = 24 if isinstance(search, SamplingSearch) else 8
    return sentences * outputs * (vocabulary * scores + state)


def kept_outputs(search: AnySearch) -> int:
    """Return K, how many outputs of each sentence a search works on at once."""
    if isinstance(search, BeamSearch | CtcPrefixSearch | FillingSearch):
        return search.beam
    return search.samples if isinstance(search, SamplingSearch) else 1


def check_beam(search: AnySearch, symbols: int) -> None:
    """Refuse a beam with more outputs than there are symbols, which helps nobody, by UsageError."""
    beam = getattr(search, "beam", 1)
    if beam > symbols:
        raise UsageError(f"a beam of {beam:,} is more than the {symbols:,} symbols of the model")
