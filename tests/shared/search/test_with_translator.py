"""Search drives the real decoder, with its caches: what it finds must have the score that the decoder gives it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dragoman.shared.batch import Batch
from dragoman.shared.nn.heads import OutputProjection
from dragoman.shared.nn.translator import Translator
from dragoman.shared.padded import Padded
from dragoman.shared.search import BeamSearch, GreedySearch, Rules
from tests import small

PAD, START, END, VOCABULARY = 0, 1, 2, 8
LONG = Rules(maximum_length_extra=25)


@pytest.fixture
def model() -> Translator:
    projection = OutputProjection(width=16, vocabulary=VOCABULARY)
    plain = {"positions": None}
    translator = small.translator(VOCABULARY, seed=2, layers=2, embedded=plain, projection=projection).eval()
    for parameter in translator.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.5)
    return translator


@pytest.mark.parametrize("search", [GreedySearch(rules=LONG), BeamSearch(beam=4, rules=LONG)])
def test_scores_are_those_of_the_whole_decoder_and_batches_do_not_matter(model, search):
    generator = torch.Generator().manual_seed(1)
    sources = [torch.randint(3, VOCABULARY, (n,), generator=generator) for n in (3, 9, 1, 5, 5, 7)]
    prefixes = [torch.tensor([START, *[4, 5][: i % 3]]) for i in range(6)]

    def run(rows: list[int]):
        batch = Batch({"source": Padded.from_sequences([sources[i] for i in rows], padding=PAD)})
        prefix = Padded.from_sequences([prefixes[i] for i in rows], padding=PAD)
        return [best for best, *_ in search.search(model, batch, prefix=prefix, end=END, padding=PAD)]

    together = run(list(range(6)))
    assert len({len(hypothesis.tokens) for hypothesis in together}) > 1
    for i, hypothesis in enumerate(together):
        [alone] = run([i])
        assert alone.tokens == hypothesis.tokens and alone.score == pytest.approx(hypothesis.score, abs=1e-4)
        tokens = torch.tensor([[START, *hypothesis.tokens]])
        encoding = model.encode(Batch({"source": Padded(sources[i][None], torch.tensor([len(sources[i])]))}))
        prefix = Padded(tokens[:, :-1], torch.tensor([tokens.shape[1] - 1]))
        scores = model.project(model.decode(prefix, encoding)).log_softmax(-1)
        total = scores[0].gather(1, tokens[0, 1:, None]).sum().item()
        assert hypothesis.score == pytest.approx(total / len(hypothesis.tokens), abs=1e-4)
        assert hypothesis.tokens[: len(prefixes[i]) - 1] == prefixes[i][1:].tolist()
    assert [h.tokens for h in run([5, 1, 3])] == [together[i].tokens for i in (5, 1, 3)]
