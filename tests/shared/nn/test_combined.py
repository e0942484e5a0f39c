"""Ensembles and shallow fusion: what search finds has the score that loops over the whole models give it."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from dragoman import BeamSearch, DataError, GreedySearch, RepeatedNgrams, Rules, SamplingSearch
from dragoman.shared.batch import Batch
from dragoman.shared.generator import Generator, Scorer, Scoring
from dragoman.shared.nn.combined import Ensemble, ShallowFusion
from dragoman.shared.nn.heads import OutputProjection
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.positions import LearnedPositions
from dragoman.shared.nn.transformer import Decoder
from dragoman.shared.nn.translator import LanguageModel
from dragoman.shared.padded import Padded
from dragoman.shared.search.forced import forced_scores
from tests import small
from tests.small import refuses

PAD, START, END, VOCABULARY = 0, 1, 2, 8
SHAPE = {"width": 16, "heads": 2, "feedforward": 32}


def randomised(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.5, generator=generator)
    return model.eval()


def embedding(positions=None):
    return small.embedding(VOCABULARY, 16, positions, dropout=0.1)


def translator(seed, target_positions=None, source_positions=None):
    torch.manual_seed(seed)  # of the biases
    parts = {"embeddings": {"source": embedding(source_positions)}, "target_embedding": embedding(target_positions)}
    parts["projection"] = OutputProjection(width=16, vocabulary=VOCABULARY)
    return randomised(small.translator(VOCABULARY, sizes={"dropout": 0.1}, **parts), seed)


def language_model(seed):
    torch.manual_seed(seed)
    projection = OutputProjection(width=16, vocabulary=VOCABULARY)
    decoder = small.decoder(2, memories=None, dropout=0.1)
    return randomised(LanguageModel(target_embedding=embedding(), decoder=decoder, projection=projection), seed)


SOURCES = [torch.arange(n) % 5 + 3 for n in (3, 9, 1, 5, 4, 7, 2, 6)]


def batch_of(rows):
    sources = Padded.from_sequences([SOURCES[i] for i in rows], padding=PAD)
    return Batch({"source": sources}, ids=[f"row {i}" for i in rows])


def find(model, rows, search):
    prefix = Padded.from_sequences([torch.tensor([START, *[4, 5][: i % 3]]) for i in rows], padding=PAD)
    return search.search(model, batch_of(rows), prefix=prefix, end=END, padding=PAD)


def whole(model, row, tokens):
    """Log-probabilities (T, V) of each position of an output, from the whole decoder."""
    prefix = Padded(torch.tensor([[START, *tokens[:-1]]]), torch.tensor([len(tokens)]))
    states = model.decode(prefix, model.encode(batch_of([row])))
    return model.project(states)[0].double().log_softmax(-1)


ENSEMBLE = ([translator(1), translator(2), translator(3)], [1 / 3] * 3)


def of_ensemble(row, tokens):
    parts = [whole(model, row, tokens).exp() for model in ENSEMBLE[0]]
    return (sum(parts) / 3).log()


FUSED, LANGUAGE = translator(4), language_model(5)


def of_fusion(row, tokens):
    return whole(FUSED, row, tokens) + 0.6 * whole(LANGUAGE, row, tokens)


CASES = {
    "ensemble": (Ensemble(models=ENSEMBLE[0]).eval(), of_ensemble),
    "fusion": (ShallowFusion(model=FUSED, language_model=LANGUAGE, weight=0.6).eval(), of_fusion),
    "both": (
        ShallowFusion(model=Ensemble(models=ENSEMBLE[0]), language_model=LANGUAGE, weight=0.6).eval(),
        lambda row, tokens: of_ensemble(row, tokens) + 0.6 * whole(LANGUAGE, row, tokens),
    ),
}
LONG = Rules(maximum_length_extra=20)
SEARCHES = [
    GreedySearch(rules=LONG),
    BeamSearch(beam=4, n_best=3, rules=LONG),
    BeamSearch(beam=3, rules=Rules(maximum_length_extra=20, bans=[RepeatedNgrams(size=2)])),
    SamplingSearch(samples=3, top_k=6, rules=LONG),
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("search", SEARCHES[:2])
@torch.no_grad()
def test_scores_are_those_of_a_loop_over_the_models(case, search):
    model, expected = CASES[case]
    assert isinstance(model, Generator) and isinstance(model, Scorer) and isinstance(model, Scoring)
    found = find(model, list(range(8)), search)
    assert len({len(some[0].tokens) for some in found}) > 1
    for row, some in enumerate(found):
        for hypothesis in some:
            scores = expected(row, hypothesis.tokens)
            total = sum(float(scores[i, token]) for i, token in enumerate(hypothesis.tokens))
            assert hypothesis.score == pytest.approx(total / len(hypothesis.tokens), abs=1e-4)
            outputs = Padded(torch.tensor([[START, *hypothesis.tokens]]), torch.tensor([len(hypothesis.tokens) + 1]))
            forced = forced_scores(model, batch_of([row]), outputs)
            assert forced.values.sum().item() == pytest.approx(total, abs=1e-3)


def test_a_language_model_changes_what_is_found_and_equal_models_change_nothing():
    search = BeamSearch(beam=3, rules=LONG)
    plain = [[h.tokens for h in some] for some in find(FUSED, range(8), search)]
    assert [[h.tokens for h in some] for some in find(CASES["fusion"][0], range(8), search)] != plain
    same = find(Ensemble(models=[FUSED, FUSED]).eval(), range(8), search)
    assert [[h.tokens for h in some] for some in same] == plain


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("model", [FUSED, CASES["both"][0]], ids=["translator", "combination"])
def test_batch_size_and_order_do_not_matter(model, search):
    def run(order, size):
        found = {}
        for start in range(0, 8, size):
            rows = order[start : start + size]
            found |= dict(zip(rows, find(model, rows, search), strict=True))
        return [found[row] for row in range(8)]

    together = run(list(range(8)), 8)
    for order, size in ((range(8), 1), (range(8), 3), ([5, 2, 7, 0, 1, 6, 3, 4], 8), ([7, 6, 5, 4, 3, 2, 1, 0], 3)):
        for one, other in zip(run(list(order), size), together, strict=True):
            assert [h.tokens for h in one] == [h.tokens for h in other]
            assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)


@torch.no_grad()
def test_forced_scores_in_batches_are_those_of_a_loop(monkeypatch):
    from dragoman.shared.search import forced

    outputs = [torch.tensor([START, *[3, 4, 5, 6, 7][: i % 6], END]) for i in range(8)]
    padded = Padded.from_sequences(outputs, padding=PAD)
    for positions in (2048, 12, 1):
        monkeypatch.setattr(forced, "POSITIONS", positions)
        found = forced_scores(FUSED, batch_of(range(8)), padded)
        assert found.lengths.tolist() == [len(output) - 1 for output in outputs]
        for row, (output, scores) in enumerate(zip(outputs, found.values, strict=True)):
            expected = whole(FUSED, row, output[1:].tolist())
            for i, token in enumerate(output[1:].tolist()):
                assert scores[i].item() == pytest.approx(float(expected[i, token]), abs=1e-4)
            assert not scores[len(output) - 1 :].any()


def test_outputs_end_where_learned_positions_do_and_longer_inputs_are_named():
    short = translator(6, target_positions=LearnedPositions(width=16, length=7))
    rules = Rules(minimum_length=5, maximum_length_extra=50)
    for model in (short, Ensemble(models=[FUSED, short]).eval()):
        for search in (GreedySearch(rules=rules), BeamSearch(beam=3, rules=rules), SamplingSearch(rules=rules)):
            longest = max(len(h.tokens) for some in find(model, range(8), search) for h in some)
            assert longest <= 7  # with the start symbol, 6 tokens and the end symbol: 7 are consumed
    with pytest.raises(DataError, match="row 'row 1': its 'output' is too long for the model: 9 elements .* 7"):
        outputs = Padded.from_sequences([torch.ones(n, dtype=torch.int64) for n in (3, 10)])
        forced_scores(short, batch_of([0, 1]), outputs, field="output")
    small = translator(7, source_positions=LearnedPositions(width=16, length=8))
    with pytest.raises(DataError, match="row 'row 1': its 'source' is too long for the model: 9 elements .* 8"):
        find(small, [0, 1, 2], BeamSearch())


def test_an_output_is_as_long_as_all_models_allow():
    short, long = (translator(8, target_positions=LearnedPositions(width=16, length=length)) for length in (7, 12))
    endless = translator(8)
    for models, longest in (([short, long], 7), ([long, endless, short], 7), ([long, endless], 12), ([endless], None)):
        ensemble = Ensemble(models=models)
        assert ensemble.longest_output == ensemble.longest_outputs(ensemble.encode(batch_of([0, 1]))) == longest


def test_refuses_nonsense():
    for weight in (0.0, -1.0, math.inf):
        refuses(ValueError, str(weight), ShallowFusion, model=FUSED, language_model=LANGUAGE, weight=weight)
    refuses(ValueError, "at least one", Ensemble, models=[])
    with pytest.raises(ValueError, match=r"attends to \['source'\]"):
        LanguageModel(
            target_embedding=embedding(),
            decoder=Decoder(layer=Layer(**SHAPE, memories=["source"]), layers=1),
            projection=OutputProjection(width=16, vocabulary=VOCABULARY),
        )
