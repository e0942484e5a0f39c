"""Search drives the real decoder, with its caches: what it finds must have the score that the decoder gives it."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.nn.heads import OutputProjection
from dragoman.shared.nn.positions import RelativePositions
from dragoman.shared.nn.transformer import Decoder
from dragoman.shared.padded import Padded
from dragoman.shared.search import BeamSearch, GreedySearch, Rules
from dragoman.shared.search.bans import RepeatedNgrams
from tests import small

PAD, START, END, VOCABULARY = 0, 1, 2, 8
LONG = Rules(maximum_length_extra=25)


#: What outputs begin with, which is the start of the search; of the longest, the model has few positions left.
BEGUN = [[START], [START, 4, 5, 3, 6, 7], [START, 6, 6], [START, *[3, 4, 5, 6, 7, 5, 3] * 2], [START, 4, 5, 3, 6, 7]]


def continued(positions):
    """A decoder with positions of a kind, of which there are twenty if they are learned."""
    relative = RelativePositions(heads=2, causal=True) if positions == "relative" else None
    decoder = Decoder(layer=small.layer(memories=["source"]), layers=2, relative=relative)
    embedded = {"positions": {"sines": True, "learned": 20, "relative": None}[positions]}
    projection = OutputProjection(width=16, vocabulary=VOCABULARY)
    changes = {"embedded": embedded, "decoder": decoder, "projection": projection}
    translator = small.translator(VOCABULARY, seed=3, layers=2, **changes).eval()
    for parameter in translator.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.5)
    return translator


@pytest.mark.parametrize("positions", ["sines", "learned", "relative"])
@pytest.mark.parametrize("search", [GreedySearch, partial(BeamSearch, beam=4, n_best=3)])
def test_outputs_that_have_begun_go_on_in_one_batch_as_alone(positions, search):
    """The oracle has one sentence, whose beginning is as many start symbols."""
    model = continued(positions)
    assert model.ragged
    generator = torch.Generator().manual_seed(1)
    sources = [torch.randint(3, VOCABULARY, (n,), generator=generator) for n in (3, 9, 1, 5, 7)]
    rules = {"maximum_length_extra": 12, "minimum_length": 5, "bans": [RepeatedNgrams(size=3)]}

    def run(rows: list[int], **start):
        batch = Batch({"source": Padded.from_sequences([sources[i] for i in rows], padding=PAD)})
        prefix = Padded.from_sequences([torch.tensor(BEGUN[i]) for i in rows], padding=PAD)
        how = search(rules=Rules(**rules, **start))
        return [
            [(h.tokens, pytest.approx(h.score, abs=1e-4), h.cut) for h in found]
            for found in how.search(model, batch, prefix=prefix, end=END, padding=PAD)
        ]

    alone = [run([i], start_symbols=len(BEGUN[i]))[0] for i in range(5)]
    assert run([*range(5)], whole_prefix=True) == alone
    assert run([3, 1], whole_prefix=True) == [alone[3], alone[1]]
    assert run([2], whole_prefix=True) == [alone[2]]
    assert run([1, 4], whole_prefix=True) == [alone[1], alone[4]]  # equally long
    best = [tokens for (tokens, *_), *_ in alone]
    assert len({*map(tuple, best)}) == 5 and (positions != "learned" or len(best[3]) == 20 - len(BEGUN[3]) + 1)


def test_a_decoder_that_counts_its_steps_takes_no_beginnings_of_different_lengths():
    class Counting(Decoder):
        """Looks at how much has been read."""

    model = small.translator(VOCABULARY, decoder=Counting(layer=small.layer(memories=["source"]), layers=1))
    assert not model.ragged
    batch = small.batch(source=[[4, 5], [6]])
    prefix = small.padded([[START, 4], [START]])
    search = GreedySearch(rules=Rules(whole_prefix=True))
    said = "a Translator takes no prefixes of different lengths at once"
    small.refuses(UsageError, said, search.search, model, batch, prefix=prefix, end=END, padding=PAD)
