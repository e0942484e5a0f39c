"""What search and models hand each other: encodings, kept sentences, and probabilities against the formula."""

import pytest
import torch

from dragoman.shared.generator import Encoding, Hypothesis, check_fork, kept_sentences, next_scores, normalised
from dragoman.shared.padded import Padded
from tests.small import refuses


@pytest.mark.parametrize("vocabulary", [7, 32000, 2**20 + 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_normalised_scores_are_logarithms_of_probabilities(vocabulary: int, dtype: torch.dtype) -> None:
    torch.manual_seed(vocabulary)
    logits = (torch.randn(5, vocabulary) * 4).to(dtype)
    logits[1, 2:5] = float("-inf")
    expected = logits.double() - logits.double().exp().sum(1, keepdim=True).log()
    found = normalised(logits)
    assert found.dtype == torch.float32
    assert (found.data_ptr() == logits.data_ptr()) == (dtype == torch.float32)  # no room is asked for twice
    torch.testing.assert_close(found.double(), expected, atol=3e-4, rtol=1e-5)


def test_rows_of_an_encoding() -> None:
    memory = Padded(torch.arange(24.0).view(3, 4, 2), torch.tensor([4, 2, 3]))
    own = Padded(torch.arange(6).view(3, 2), torch.tensor([2, 1, 2]))
    encoding = Encoding({"source": memory}, {"lengths": torch.tensor([5, 6, 7]), "tap": own})
    assert len(encoding) == 3
    chosen = encoding.select(torch.tensor([2, 0, 2, 1]))
    assert len(chosen) == 4
    assert chosen.extras["lengths"].tolist() == [7, 5, 7, 6]
    assert chosen.memories["source"].lengths.tolist() == [3, 4, 3, 2]
    assert chosen.memories["source"].values.tolist() == [memory.values[row].tolist() for row in (2, 0, 2, 1)]
    assert chosen.extras["tap"].values.tolist() == [[4, 5], [0, 1], [4, 5], [2, 3]]
    assert len(Encoding({}, {"logits": own})) == 3
    assert Encoding({"source": memory}).extras == {}


@pytest.mark.parametrize(("present", "beams"), [(2, 4), (1, 0), (2, 0), (3, 1)])
def test_what_cannot_be_forked(present: int, beams: int) -> None:
    refuses(ValueError, rf"^{present} beams of a sentence cannot become {beams}$", check_fork, present, beams)
    check_fork(1, 1)
    check_fork(1, 4)
    check_fork(0, 4)


def test_sentences_that_reordering_keeps() -> None:
    assert kept_sentences(torch.tensor([1, 0, 2, 3]), 2, 2) is None
    found = kept_sentences(torch.tensor([3, 3, 2, 7, 6, 8]), 3, 4)
    assert found is not None and found.tolist() == [1, 2]
    for index, said in (([0, 1, 2], "3 rows cannot be 2"), ([0, 1, 2, 3, 4, 5], "6 rows cannot be 2")):
        refuses(ValueError, f"^{said} beams of at most 2 sentences$", kept_sentences, torch.tensor(index), 2, 2)


class Steps:
    """Gives the same logits always."""

    def encode(self, batch): ...

    def start(self, encoding, prefix): ...

    def step(self, tokens, state):
        return torch.tensor([[0.0, 0.0]]), state + 1


class OwnScores(Steps):
    def scores(self, logits):
        return logits + 5


def test_scores_of_a_step_are_log_probabilities_unless_a_generator_makes_its_own() -> None:
    scores, state = next_scores(Steps(), torch.tensor([1]), 3)
    assert scores.tolist() == [pytest.approx([-0.6931472, -0.6931472])] and state == 4
    scores, state = next_scores(OwnScores(), torch.tensor([1]), 3)
    assert scores.tolist() == [[5.0, 5.0]] and state == 4


def test_a_hypothesis_shows_its_score_and_not_its_tokens() -> None:
    assert repr(Hypothesis([4, 5], -1.5)) == "Hypothesis(score=-1.5, texts={}, cut=False)"
    with pytest.raises(AttributeError):
        Hypothesis([4, 5], -1.5).score = 2.0  # type: ignore[misc]
