"""Next tokens averaged over versions of an input: against sums over versions, each read alone."""

import pytest
import torch

from dragoman.shared.padded import Padded
from dragoman.shared.search import Rules
from dragoman.st.marginal import MarginalGenerator
from tests import small

START = 1
#: Of each of two sentences, three versions; the last one of the second is not heard.
VERSIONS = [[[5, 6, 7], [5, 6], [8]], [[9, 10, 11, 12], [9], [3, 3]]]
WEIGHTS = torch.tensor([[0.5, 0.3, 0.2], [0.6, 0.4, 0.0]])


@pytest.fixture(scope="module")
def model():
    made = small.translator(small.tokenizer(["a b c d e f g h"]), seed=4).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5) if parameter.dim() > 1 else None
    return made


def batch_of(versions):
    return small.batch(source=versions)


def marginal(model):
    flat = batch_of([ids for versions in VERSIONS for ids in versions])
    return MarginalGenerator(model, flat, WEIGHTS.log())


@torch.no_grad()
def by_hand(model, sentence, tokens):
    """Return the probabilities (V,) of the token after some, each version being a batch of its own."""
    prefix = Padded.from_sequences([torch.tensor(tokens)])
    alone = [model.log_probabilities(prefix, model.encode(batch_of([ids])))[0, -1].exp() for ids in VERSIONS[sentence]]
    return sum(float(weight) * scores for weight, scores in zip(WEIGHTS[sentence], alone, strict=True))


@torch.no_grad()
def test_probabilities_are_sums_over_versions_however_beams_move(model):
    generator = marginal(model)
    encoding = generator.encode(batch_of([[5], [9]]))
    assert len(encoding) == 2 and encoding.memories["versions"].lengths.tolist() == [3, 4]  # of the longest version
    state = generator.start(encoding, None)
    scores, state = generator.step(torch.tensor([START, START]), state)
    for row in range(2):
        torch.testing.assert_close(generator.scores(scores)[row].exp(), by_hand(model, row, [START]))
    assert scores.exp().sum(-1).tolist() == pytest.approx([1, 1], abs=1e-5)
    state = state.fork(2)
    outputs = [[START, 5], [START, 6], [START, 7], [START, 8]]
    _, state = generator.step(torch.tensor([tokens[-1] for tokens in outputs]), state)
    state, outputs = state.reorder(torch.tensor([1, 1, 3, 2])), [outputs[row] for row in (1, 1, 3, 2)]
    outputs = [[*tokens, new] for tokens, new in zip(outputs, (5, 6, 7, 5), strict=True)]
    scores, state = generator.step(torch.tensor([5, 6, 7, 5]), state)
    for row, tokens in enumerate(outputs):
        torch.testing.assert_close(scores[row].exp(), by_hand(model, row // 2, tokens), atol=1e-5, rtol=1e-4)
    scores, _ = generator.step(torch.tensor([9, 4]), state.reorder(torch.tensor([3, 2])))  # the first sentence is done
    for row, tokens in enumerate(([*outputs[3], 9], [*outputs[2], 4])):
        torch.testing.assert_close(scores[row].exp(), by_hand(model, 1, tokens), atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_some_sentences_start_alone_with_a_prefix(model):
    generator = marginal(model)
    encoding = generator.encode(batch_of([[5], [9]])).select(torch.tensor([1]))
    state = generator.start(encoding, Padded.from_sequences([torch.tensor([START, 6])]))
    scores, _ = generator.step(torch.tensor([7]), state)
    torch.testing.assert_close(scores[0].exp(), by_hand(model, 1, [START, 6, 7]), atol=1e-5, rtol=1e-4)


def test_an_output_is_as_long_as_all_versions_of_its_sentence_allow(model):
    generator = marginal(model)
    encoding = generator.encode(batch_of([[5], [9]]))
    assert generator.longest_outputs(encoding) is None  # sines have no end

    class Prompted(type(model)):
        """A model with ten positions, of which its input takes some, as the prompt of a language model does."""

        def longest_outputs(self, encoding):
            return 10 - encoding.memories["source"].lengths

    model.__class__, kind = Prompted, type(model)
    try:
        assert generator.longest_outputs(encoding).tolist() == [7, 6]
        starts = torch.tensor([1, 2])
        assert Rules(maximum_length_extra=20).longest(encoding, generator, starts).tolist() == [6, 4]
    finally:
        model.__class__ = kind
