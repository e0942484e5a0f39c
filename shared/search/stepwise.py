"""Searches that take one token at a time and never look back: what greedy search and sampling share.

Legend: B sentences, A sentences still searched, K outputs of a sentence, V vocabulary.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from dragoman.shared.batch import Batch
from dragoman.shared.generator import Generator, Hypothesis, next_scores
from dragoman.shared.padded import Padded
from dragoman.shared.search.constraints import Constraints, check_numbers, no_output
from dragoman.shared.search.rules import Rules


class Choice(Protocol):
    """Chooses tokens."""

    def __call__(self, scores: Tensor, sentences: Tensor, step: int) -> Tensor:
        """Return the next tokens (A, K) of sentences (A,) by log-probabilities (A, K, V) after ``step`` tokens."""
        ...


def generate(
    generator: Generator,
    batch: Batch,
    choose: Choice,
    *,
    outputs: int,
    rules: Rules,
    prefix: Padded,
    end: int,
    padding: int,
) -> list[list[Hypothesis]]:
    """Generate ``outputs`` = K outputs for each sentence, the tokens of which ``choose`` chooses.

    A hypothesis's score is the mean of its tokens' log-probabilities. For arguments and errors see
    :meth:`dragoman.shared.search.beam.BeamSearch.search`.
    """
    encoding = generator.encode(batch)
    constraints = Constraints(rules, generator, encoding, batch, prefix=prefix, beams=outputs, end=end, padding=padding)
    state = generator.start(encoding, constraints.primed).fork(outputs)
    tokens = constraints.first[:, None].expand(-1, outputs)
    sentences = torch.arange(len(batch), device=tokens.device)
    active = list(range(len(batch)))
    texts: list[list[list[int]]] = [[[] for _ in range(outputs)] for _ in active]
    sums = [[0.0] * outputs for _ in active]
    cut = [[False] * outputs for _ in active]
    running = torch.ones(len(batch), outputs, dtype=torch.bool)
    step = 0
    while active:
        scores, state = next_scores(generator, tokens.reshape(-1), state)
        scores = constraints.apply(scores.view(*tokens.shape, -1), step)
        tokens = choose(scores, sentences, step)
        chosen, tokens_here = _fetch(scores.gather(-1, tokens[..., None])[..., 0], tokens)
        chosen = chosen.masked_fill(running.logical_not(), 0.0)  # what comes after an end is read by no one
        check_numbers(chosen, active, batch.ids, step)
        impossible = (chosen == float("-inf")).any(1).nonzero().flatten().tolist()
        if impossible:
            raise no_output([active[row] for row in impossible], batch.ids)
        tokens_listed, chosen_listed = tokens_here.tolist(), chosen.tolist()  # faster to read than tensors
        for row, output in running.nonzero().tolist():
            texts[active[row]][output].append(tokens_listed[row][output])
            sums[active[row]][output] += chosen_listed[row][output]
            cut[active[row]][output] = constraints.cut is not None and bool(constraints.cut[row, output])
        running &= tokens_here != end
        rows = running.any(1).nonzero().flatten()
        index = None
        if len(rows) < len(active):
            active, running = [active[row] for row in rows.tolist()], running[rows]
            if not active:
                break
            there = rows.to(tokens.device)
            index = (there[:, None] * outputs + torch.arange(outputs, device=tokens.device)).flatten()
            state, tokens = state.reorder(index), tokens.index_select(0, there)
            sentences = sentences.index_select(0, there)
            constraints.keep(rows, there)
        constraints.advance(index, tokens)
        step += 1
    return [
        [Hypothesis(text, total / len(text), cut=ends) for text, total, ends in zip(*of_sentence, strict=True)]
        for of_sentence in zip(texts, sums, cut, strict=True)
    ]


def _fetch(scores: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Copy scores and tokens (A, K) to the CPU in one transfer, the only time a step waits for the device."""
    packed = torch.stack([scores.view(torch.int32), tokens.to(torch.int32)]).cpu()
    return packed[0].view(torch.float32), packed[1]
