"""Beam search against a slow one, against enumeration, and against another library."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from dragoman.shared.generator import Encoding, Generator
from dragoman.shared.padded import Padded
from dragoman.shared.search import BeamSearch, RepeatedNgrams, Rules, Search
from tests.small import refuses


def slow_beam(world, table, source, prefix, *, beam, length_penalty, limit, minimum, n_best, free):
    """fairseq's rules for one sentence, with lists; returns [(score, tokens)]."""
    forced = prefix[1:]
    limit = max(limit, len(forced))
    beams, finished = [(0.0, [])], []
    for step in range(limit + 1):
        candidates = []
        for total, tokens in beams:
            scores = table.log_probabilities(source, [prefix[0], *tokens])
            allowed = [v for v in range(world.vocabulary) if v != world.pad]
            if step < len(forced):
                allowed = [forced[step]]
            elif step >= limit:
                allowed = [world.end]
            elif step < minimum:
                allowed.remove(world.end)
            cost = {v: 0.0 if free and (step < len(forced) or step >= limit) else scores[v] for v in allowed}
            candidates += [(total + cost[v], [*tokens, v]) for v in allowed if cost[v] > -math.inf]
        candidates.sort(key=lambda pair: -pair[0])
        beams = []
        for rank, (total, tokens) in enumerate(candidates[: 2 * beam]):
            if tokens[-1] != world.end:
                beams.append((total, tokens))
            elif rank < beam and len(finished) < beam:
                finished.append((total / (step + 1) ** length_penalty, tokens))
        beams = beams[:beam]
        if len(finished) == beam or not beams:
            break
    return sorted(finished, key=lambda pair: -pair[0])[:n_best]


@pytest.mark.parametrize("case", range(100))
def test_agrees_with_a_slow_search(world, case):
    rng = np.random.default_rng(case)
    settings = {
        "beam": int(rng.integers(1, 7)),
        "length_penalty": float(rng.choice([0.0, 0.6, 1.0, 1.7, -0.5])),
        "minimum": int(rng.integers(0, 4)),
        "free": case % 4 == 3,
    }
    settings["n_best"] = int(rng.integers(1, settings["beam"] + 1))
    ratio, extra, maximum = float(rng.choice([0.0, 0.7, 1.3])), int(rng.integers(1, 6)), int(rng.integers(4, 9))
    sources = world.sources(case, int(rng.integers(1, 6)))
    prefixes = [[world.start, *rng.integers(3, world.vocabulary, size=rng.integers(0, 4)).tolist()] for _ in sources]
    table = world.table(case, impossible=float(rng.choice([0.0, 0.4])), sharpness=float(rng.choice([0.5, 2.0])))
    table_for_forced = table.logits

    def logits(source, history):  # what is forced must be possible, or there is nothing to find
        values = table_for_forced(source, history)
        for prefix in prefixes:
            values[prefix] = np.maximum(values[prefix], -8.0)
        return values

    table.logits = logits
    rules = Rules(
        forced_free=settings["free"],
        maximum_length_ratio=ratio,
        maximum_length_extra=extra,
        maximum_length=maximum,
        minimum_length=settings["minimum"],
    )
    search = BeamSearch(**{name: settings[name] for name in ("beam", "length_penalty", "n_best")}, rules=rules)
    found = world.find(search, table, sources, prefixes)
    for source, prefix, hypotheses in zip(sources, prefixes, found, strict=True):
        limit = max(settings["minimum"], min(maximum, math.floor(ratio * len(source)) + extra))
        expected = slow_beam(world, table, source, prefix, limit=limit, **settings)
        assert [h.tokens for h in hypotheses] == [tokens for _, tokens in expected]
        assert [h.score for h in hypotheses] == pytest.approx([score for score, _ in expected], abs=1e-4)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.0])
def test_a_huge_beam_enumerates_everything(world, length_penalty):
    limit, vocabulary, source = 3, 5, [7, 7]
    table = world.table(1, vocabulary=vocabulary)
    words = [v for v in range(vocabulary) if v not in (world.pad, world.end)]
    scored = []
    for length in range(limit + 1):
        for sentence in itertools.product(words, repeat=length):
            tokens = [*sentence, world.end]
            steps = [(table.log_probabilities(source, [world.start, *tokens[:i]]), t) for i, t in enumerate(tokens)]
            total = sum(scores[token] for scores, token in steps)
            scored.append((total / len(tokens) ** length_penalty, tokens))
    scored.sort(key=lambda pair: -pair[0])
    beam = len(scored) + 10
    rules = Rules(maximum_length_extra=limit, minimum_length=0)
    search = BeamSearch(beam=beam, n_best=beam, length_penalty=length_penalty, rules=rules)
    [found] = world.find(search, table, [source])
    assert [h.tokens for h in found] == [tokens for _, tokens in scored]
    assert [h.score for h in found] == pytest.approx([score for score, _ in scored], abs=1e-4)


def test_finished_sentences_leave_the_batch(world):
    table = world.table(2, sharpness=3.0)
    search = BeamSearch(beam=2, rules=Rules(maximum_length_ratio=2.0, maximum_length_extra=0))
    world.find(search, table, [[1], [1, 2, 3, 4]])
    first, *others = table.steps
    assert first == 2  # one row a sentence, before there are beams
    assert others[0] == 4 and others[-1] == 2 and others == sorted(others, reverse=True)


def test_a_sentence_that_nothing_can_go_on_with_is_done(world):
    """Two tokens and the end: what follows is impossible, and no further step is computed for a fuller beam."""
    table = world.table(0)
    only = {1: 5, 2: 6, 3: world.end}
    table.logits = lambda source, history: np.where(np.arange(9) == only[len(history)], 0.0, -np.inf).astype(np.float32)
    [[found]] = world.find(BeamSearch(beam=3, rules=Rules(maximum_length_extra=20)), table, [[1]])
    assert found.tokens == [5, 6, world.end] and len(table.steps) == 3


def test_start_symbols_are_consumed_at_once_and_do_not_count(world):
    table, source = world.table(4), [5, 6]
    counting = BeamSearch(beam=3, rules=Rules(maximum_length_extra=6))
    [[counted]] = world.find(counting, table, [source], [[4, 5, 6, 7]])
    steps = len(table.steps)
    table.steps.clear()
    priming = BeamSearch(beam=3, rules=Rules(maximum_length_extra=3, start_symbols=4))
    [[primed]] = world.find(priming, table, [source], [[4, 5, 6, 7]])
    assert counted.tokens == [5, 6, 7, *primed.tokens] and len(table.steps) == steps - 3
    forced = sum(table.log_probabilities(source, [4, 5, 6, 7][: i + 1])[token] for i, token in enumerate([5, 6, 7]))
    total = primed.score * len(primed.tokens) + forced
    assert counted.score == pytest.approx(total / len(counted.tokens), abs=1e-5)


def test_names_the_rows_whose_scores_are_not_numbers(world):
    table = world.table(0)
    fine = table.logits
    table.logits = lambda source, history: (
        fine(source, history) * (math.nan if source == [2] and len(history) == 3 else 1.0)
    )
    search = BeamSearch(beam=2, rules=Rules(minimum_length=6, maximum_length_extra=7))
    refuses(ValueError, r"position 3 of: id1$", world.find, search, table, [[1], [2], [3]], [[1]] * 3)


def test_refuses_what_cannot_be_searched(world):
    def run(prefix, **settings):
        return world.find(BeamSearch(**settings), world.table(0), [[1]], prefix)

    refuses(ValueError, "2 prefixes for 1", run, [[1], [1]])
    refuses(ValueError, "end symbol 2", run, [[1, 2]])
    refuses(ValueError, "fewer than 2", lambda: run([[1]], rules=Rules(start_symbols=2)))
    refuses(ValueError, r"n_best must be at most beam \(2\), not 3", BeamSearch, beam=2, n_best=3)
    table = world.table(0)
    table.logits = lambda source, history: np.where(np.arange(9) == world.end, -np.inf, 0.0).astype(np.float32)
    search = BeamSearch(beam=2, rules=Rules(maximum_length_extra=2))
    refuses(ValueError, "above zero for: id0", world.find, search, table, [[1]])


def test_an_empty_batch_and_the_protocols(world):
    assert isinstance(BeamSearch(), Search) and isinstance(world.table(0), Generator)
    empty = Padded(torch.zeros(0, 1, dtype=torch.int64), torch.zeros(0, dtype=torch.int64))
    assert BeamSearch().search(world.table(0), world.batch([[1]]).__class__({}), prefix=empty, end=2, padding=0) == []


class Wrapped:
    """A model of another library as a Generator: no cache, the whole history is decoded again at every step."""

    def __init__(self, model) -> None:
        self.model = model

    def encode(self, batch):
        source = batch["source"]
        states = self.model.get_encoder()(source.values, attention_mask=source.mask.long()).last_hidden_state
        return Encoding({"source": Padded(states, source.lengths)})

    def start(self, encoding, prefix):
        assert prefix is None
        memory = encoding.memories["source"]
        return WrappedState(memory, torch.zeros(len(memory), 0, dtype=torch.int64))

    def step(self, tokens, state):
        history = torch.cat([state.history, tokens[:, None]], dim=1)
        output = self.model(
            encoder_outputs=(state.memory.values,),
            attention_mask=state.memory.mask.long(),
            decoder_input_ids=history,
            use_cache=False,
        )
        return output.logits[:, -1], WrappedState(state.memory, history)


class WrappedState:
    """Memories and histories, repeated for each beam."""

    def __init__(self, memory, history) -> None:
        self.memory, self.history = memory, history

    def fork(self, beams):
        return self.reorder(torch.arange(len(self.memory)).repeat_interleave(beams))

    def reorder(self, index):
        return WrappedState(self.memory.select(index), self.history.index_select(0, index))


@pytest.mark.parametrize(("beam", "length_penalty", "ngram"), [(1, 1.0, 2), (3, 0.5, 2), (4, 1.0, 0), (5, 1.8, 1)])
def test_agrees_with_transformers(world, beam, length_penalty, ngram):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(beam)
    sizes = {"layers": 1, "attention_heads": 2, "ffn_dim": 32}
    sides = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in sizes.items()}
    symbols = {"pad_token_id": world.pad, "bos_token_id": world.start, "eos_token_id": world.end}
    symbols["forced_eos_token_id"] = None  # its log-probability would be set to 0; fairseq's stays what it is
    config = transformers.BartConfig(
        **{"vocab_size": 30, "d_model": 16, "max_position_embeddings": 64, "init_std": 0.6} | sides | symbols,
        tie_word_embeddings=False,
        decoder_start_token_id=world.start,
    )
    model = transformers.BartForConditionalGeneration(config).eval()
    model.final_logits_bias[0, world.end] = 4.5  # so that all hypotheses end before the limit
    limit = 40
    bans = [RepeatedNgrams(size=ngram)] if ngram else []
    compared = same = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        sources = [rng.integers(3, 30, size=rng.integers(2, 9)).tolist() for _ in range(8)]
        batch = world.batch(sources)
        expected = model.generate(
            batch["source"].values,
            attention_mask=batch["source"].mask.long(),
            num_beams=beam,
            num_return_sequences=beam,
            early_stopping=beam > 1,
            length_penalty=length_penalty,
            max_new_tokens=limit + 1,
            no_repeat_ngram_size=ngram,
            do_sample=False,
            suppress_tokens=[world.pad],
            return_dict_in_generate=True,
            output_scores=True,
        )
        rules = Rules(maximum_length_extra=limit, minimum_length=0, bans=bans)
        search = BeamSearch(beam=beam, n_best=beam, length_penalty=length_penalty, rules=rules)
        found = world.find(search, Wrapped(model), batch)
        rows = expected.sequences[:, 1:].view(8, beam, -1).tolist()
        scores = expected.sequences_scores.view(8, beam).tolist() if beam > 1 else [[math.nan]] * 8
        for hypotheses, others, other_scores in zip(found, rows, scores, strict=True):
            if not all(world.end in row for row in others):
                continue  # cut off at the limit, where fairseq forces the end and transformers does not
            others = [row[: row.index(world.end) + 1] for row in others]
            assert hypotheses[0].tokens == others[0]
            assert beam == 1 or hypotheses[0].score == pytest.approx(other_scores[0], abs=1e-4)
            compared += 1
            # When more end in the last step than are still wanted, fairseq takes the first, transformers the best.
            ours = [h.tokens for h in hypotheses]
            last = max(len(tokens) for tokens in ours)
            assert all(len(tokens) == last for tokens in others if tokens not in ours)
            assert all(h.score <= min(other_scores) for h in hypotheses if h.tokens not in others)
            same += ours == others
    assert compared >= 24 and same > 0.3 * compared
