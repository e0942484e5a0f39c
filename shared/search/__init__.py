"""Search: from a generator's distributions to hypotheses. Knows nothing of models but ``dragoman.shared.generator``."""

from dragoman.shared.search.bans import AllowedTokens, ForbiddenFirst, ForbiddenTokens, RepeatedNgrams
from dragoman.shared.search.beam import BeamSearch
from dragoman.shared.search.choosing import ChoosingSearch, Judge
from dragoman.shared.search.ctc_greedy import CtcGreedySearch
from dragoman.shared.search.ctc_prefix import CtcPrefixSearch
from dragoman.shared.search.filling import FillingSearch
from dragoman.shared.search.greedy import GreedySearch
from dragoman.shared.search.rules import Rules
from dragoman.shared.search.sampling import SamplingSearch
from dragoman.shared.search.search import AnySearch, CtcSearch, Search

__all__ = [
    "AllowedTokens",
    "AnySearch",
    "BeamSearch",
    "ChoosingSearch",
    "CtcGreedySearch",
    "CtcPrefixSearch",
    "CtcSearch",
    "FillingSearch",
    "ForbiddenFirst",
    "ForbiddenTokens",
    "GreedySearch",
    "Judge",
    "RepeatedNgrams",
    "Rules",
    "SamplingSearch",
    "Search",
]
