"""Outputs that end at the limit of length: cut where the model would have gone on, and only there."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dragoman import BeamSearch, DataError, GreedySearch, Rules, SamplingSearch, UsageError
from dragoman.shared.generator import Encoding
from dragoman.shared.padded import Padded
from dragoman.shared.search.constraints import Constraints, check_numbers, named_rows, no_output
from tests.small import refuses

LIMIT = 4


@pytest.fixture
def counting(world):
    """A model that writes as many tokens as its source says, and then the end."""
    table = world.table(0)

    def logits(source, history):
        scores = np.zeros(world.vocabulary, dtype=np.float32)
        scores[3 if len(history) - 1 < source[0] else world.end] = 60.0
        return scores

    table.logits = logits
    return table


@pytest.mark.parametrize(
    "search",
    [
        GreedySearch(rules=Rules(maximum_length_extra=LIMIT)),
        BeamSearch(beam=3, rules=Rules(maximum_length_extra=LIMIT)),
        BeamSearch(beam=2, rules=Rules(maximum_length_extra=LIMIT, forced_free=True)),
        SamplingSearch(rules=Rules(maximum_length_extra=LIMIT)),
    ],
    ids=["greedy", "beam", "free", "sampling"],
)
@pytest.mark.parametrize("together", [True, False])
def test_what_is_longer_than_the_limit_is_cut(world, counting, search, together):
    """Of sources that ask for 2, 4, 5 and 8 tokens, the last two are cut at 4; the second ends there by itself."""
    sources = [[2], [4], [5], [8], [1]]
    batches = [sources] if together else [[source] for source in sources]
    found = [hypotheses for batch in batches for hypotheses in world.find(search, counting, batch)]
    assert [h[0].cut for h in found] == [False, False, True, True, False]
    assert [len(h[0].tokens) - 1 for h in found] == [2, 4, 4, 4, 1]


def test_each_sample_is_judged_by_itself(world, counting):
    counting.logits = lambda source, history: np.array(
        [-60, -60, 0, 0, 0, -60, -60, -60, -60], dtype=np.float32
    )  # the end, or one of two tokens, a third each
    [samples] = world.find(
        SamplingSearch(samples=60, rules=Rules(maximum_length_extra=2, minimum_length=0)), counting, [[1]]
    )
    short = [sample for sample in samples if len(sample.tokens) < 3]
    assert short and not any(sample.cut for sample in short)


def test_the_limit_of_the_source_and_of_the_model_cut_too(world, counting):
    by_source = GreedySearch(rules=Rules(maximum_length_ratio=1.0, maximum_length_extra=1))
    found = world.find(by_source, counting, [[3, 3, 3], [3]])
    assert [h[0].cut for h in found] == [False, True]
    counting.longest_output = 3  # one of them is the start symbol
    found = world.find(GreedySearch(), counting, [[3], [2]])
    assert [h[0].cut for h in found] == [True, False]


def constraints(prefix, generator=None, end=1, padding=0, beams=2, lengths=None, **settings):
    prefix = Padded.from_sequences([torch.tensor(row, dtype=torch.int64) for row in prefix])
    memory = Padded(torch.zeros(len(prefix), 3, 1), torch.tensor(lengths or [3] * len(prefix)))
    options = {"prefix": prefix, "beams": beams, "end": end, "padding": padding}
    return Constraints(Rules(**settings), generator, Encoding({"source": memory}), None, **options)


def allowed(found):
    """Return the tokens of each beam that are not forbidden."""
    return [[row.isfinite().nonzero().flatten().tolist() for row in beams] for beams in found]


def test_what_may_not_begin_a_search():
    refuses(UsageError, "^row 1: a prefix has fewer than 2 start symbols$", constraints, [[2, 3], [2]], start_symbols=2)
    said = "^a forced prefix contains the end symbol 1 after its 1 start symbols$"
    refuses(UsageError, said, constraints, [[2, 3], [2, 1]])
    constraints([[1, 3], [1]])  # the end may be the start
    constraints([[2, 3], [2]], end=0)  # padding is not read
    options = {"prefix": Padded(torch.tensor([[2]]), torch.tensor([1])), "beams": 1, "end": 1, "padding": 0}
    encoding = Encoding({"s": Padded(torch.zeros(2, 3, 1), torch.tensor([3, 3]))})
    refuses(ValueError, "^1 prefixes for 2 sentences$", Constraints, Rules(), None, encoding, None, **options)


def test_start_symbols_are_consumed_at_once_but_the_last():
    one = constraints([[2, 3], [4, 3]])
    assert one.primed is None and one.first.tolist() == [2, 4] and one.cut is None
    three = constraints([[2, 3, 4, 5], [6, 7, 8]], start_symbols=3)
    assert three.primed.values.tolist() == [[2, 3], [6, 7]] and three.primed.lengths.tolist() == [2, 2]
    assert three.first.tolist() == [4, 8]


def test_a_whole_prefix_is_consumed_at_once_but_its_last_symbol():
    """Bans see padding in front of shorter ones."""
    openings = []
    ban = SimpleNamespace(begin=openings.append)
    found = constraints([[2, 3, 4], [6], [7, 8]], generator=SimpleNamespace(ragged=True), whole_prefix=True, bans=[ban])
    assert [row.tolist() for row in found.primed.rows()] == [[2, 3], [], [7]] and found.first.tolist() == [4, 6, 8]
    assert openings[0].start.tolist() == [[2, 3, 4], [0, 0, 6], [0, 7, 8]]
    refuses(UsageError, "a SimpleNamespace takes no", constraints, [[2, 3], [4]], SimpleNamespace(), whole_prefix=True)


def test_forced_tokens_alone_are_allowed_where_there_are_some():
    asked = constraints([[2, 3, 4], [2, 5], [2]])
    at = [allowed(asked.apply(torch.full((3, 2, 6), -2.0), step)) for step in range(3)]
    assert at[0] == [[[3]] * 2, [[5]] * 2, [[2, 3, 4, 5]] * 2]  # neither padding nor, before one token, the end
    assert at[1] == [[[4]] * 2, [[1, 2, 3, 4, 5]] * 2, [[1, 2, 3, 4, 5]] * 2]
    assert at[2] == [[[1, 2, 3, 4, 5]] * 2] * 3


@pytest.mark.parametrize("free", [False, True])
def test_what_is_forced_counts_unless_it_is_free(free):
    asked = constraints([[2, 3], [2]], maximum_length_extra=1, forced_free=free)
    scores = torch.arange(12.0).view(2, 1, 6) - 20
    found = asked.apply(scores, 0)
    assert found is scores and asked.cut is None
    assert found[0, 0, 3] == (0.0 if free else -17.0)
    assert found[1, 0, 2:].tolist() == [-12.0, -11.0, -10.0, -9.0]
    last = asked.apply(torch.arange(12.0).view(2, 1, 6) - 20, 1)
    assert allowed(last) == [[[1]], [[1]]]
    assert last[..., 1].tolist() == ([[0.0], [0.0]] if free else [[-19.0], [-13.0]])
    assert asked.cut.tolist() == [[True], [True]]


def test_outputs_end_at_limits_of_their_own():
    asked = constraints([[2], [2, 3, 4, 3], [2]], maximum_length_ratio=1.0, maximum_length_extra=0, lengths=[1, 1, 2])
    assert [asked.exhausted(step).tolist() for step in range(4)] == [
        [False, False, False],
        [True, False, False],
        [True, False, True],
        [True, True, True],  # a forced beginning is never cut
    ]
    scores = torch.full((3, 2, 6), -2.0)
    scores[0, 1, 1] = -1.0  # the end is the best by itself
    found = asked.apply(scores, 1)
    assert allowed(found) == [[[1]] * 2, [[4]] * 2, [[1, 2, 3, 4, 5]] * 2]
    assert asked.cut[[0, 2]].tolist() == [[False, False], [False, False]]
    scores = torch.full((3, 2, 6), -2.0)
    scores[0, 0, 4] = -1.0
    asked.apply(scores, 1)
    assert asked.cut[[0, 2]].tolist() == [[True, False], [False, False]]


def test_kept_sentences_keep_what_is_theirs():
    asked = constraints([[2, 3, 4], [2], [2, 5, 3]], maximum_length_ratio=1.0, maximum_length_extra=0)
    rows = torch.tensor([2, 1])
    asked.keep(rows, rows)
    assert allowed(asked.apply(torch.full((2, 1, 6), -2.0), 0)) == [[[5]], [[2, 3, 4, 5]]]
    assert allowed(asked.apply(torch.full((2, 1, 6), -2.0), 1)) == [[[3]], [[1, 2, 3, 4, 5]]]
    assert asked.exhausted(3).tolist() == [True, True]


def test_scores_that_are_not_numbers_name_their_rows():
    scores = torch.zeros(3, 2)
    check_numbers(scores, [0, 4, 5], [], 0)
    scores[1, 1] = scores[2, 0] = float("nan")
    said = "^the model's log-probabilities are not numbers at output position 3 of: row 4, row 5$"
    refuses(DataError, said, check_numbers, scores, [0, 4, 5], [], 2)
    assert str(no_output([1, 0], ["a", "b"])).endswith(" a probability above zero for: b, a")
    assert named_rows([1], []) == "row 1"
