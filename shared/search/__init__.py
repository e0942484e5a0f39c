"""Search: from a generator's distributions to hypotheses. Knows nothing of models but ``shared.generator``."""

from shared.search.bans import AllowedTokens, ForbiddenFirst, ForbiddenTokens, RepeatedNgrams
from shared.search.beam import BeamSearch
from shared.search.ctc_greedy import CtcGreedySearch
from shared.search.ctc_prefix import CtcPrefixSearch
from shared.search.greedy import GreedySearch
from shared.search.rules import Rules
from shared.search.sampling import SamplingSearch
from shared.search.search import AnySearch, CtcSearch, Search

__all__ = [
    "AllowedTokens",
    "AnySearch",
    "BeamSearch",
    "CtcGreedySearch",
    "CtcPrefixSearch",
    "CtcSearch",
    "ForbiddenFirst",
    "ForbiddenTokens",
    "GreedySearch",
    "RepeatedNgrams",
    "Rules",
    "SamplingSearch",
    "Search",
]
