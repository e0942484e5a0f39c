"""Search: from a generator's distributions to hypotheses. Knows nothing of models but ``shared.generator``."""

from shared.search.beam import BeamSearch
from shared.search.ctc import CtcGreedySearch
from shared.search.greedy import GreedySearch
from shared.search.search import Search

__all__ = ["BeamSearch", "CtcGreedySearch", "GreedySearch", "Search"]
