"""Greedy search: always the most probable token; the same as a beam of one, and cheaper.

Legend: B sentences, A sentences still searched, P prefix, V vocabulary.
"""

from __future__ import annotations

import torch

from shared.batch import Batch
from shared.described import Described
from shared.generator import Generator, Hypothesis
from shared.padded import Padded
from shared.search.constraints import Constraints, LengthLimits, check_numbers, no_output


class GreedySearch(Described):
    """Greedy search; a hypothesis's score is ``sum of log-probabilities / length``, as in beam search.

    Args:
        maximum_length_ratio: longest output per position of the encoder's memory.
        maximum_length_extra: added to it; the end symbol comes on top.
        maximum_length: no output is longer than this, whatever the source.
        minimum_length: tokens before the end symbol may come.
        start_symbols: how many tokens of the prefix are the start: they are consumed at once, and do not count.

    """

    def __init__(
        self,
        *,
        maximum_length_ratio: float = 0.0,
        maximum_length_extra: int = 200,
        maximum_length: int = 1000,
        minimum_length: int = 1,
        start_symbols: int = 1,
    ) -> None:
        if start_symbols < 1:
            raise ValueError(f"start_symbols must be at least 1, not {start_symbols}")
        self.start_symbols = start_symbols
        self.limits = LengthLimits(
            ratio=maximum_length_ratio, extra=maximum_length_extra, minimum=minimum_length, maximum=maximum_length
        )

    @torch.no_grad()
    def search(
        self, generator: Generator, batch: Batch, *, prefix: Padded, end: int, padding: int
    ) -> list[list[Hypothesis]]:
        """Return one hypothesis per sentence; arguments and errors are those of :meth:`BeamSearch.search`."""
        if not len(batch):
            return []
        encoding = generator.encode(batch)
        rules = Constraints(self.limits, encoding, prefix, self.start_symbols, end, padding)
        state = generator.start(encoding, rules.primed, beams=1)
        tokens = rules.first
        active = list(range(len(batch)))
        outputs: list[list[int]] = [[] for _ in active]
        sums = [0.0] * len(active)
        step = 0
        while active:
            logits, state = generator.step(tokens, state)
            scores = rules.apply(torch.log_softmax(logits.float(), dim=-1)[:, None], step)[:, 0]
            best, tokens = scores.max(dim=1)
            best_here, *rest = torch.stack([best.view(torch.int32), tokens.to(torch.int32)]).cpu().unbind(0)
            best_here, tokens_here = best_here.view(torch.float32), rest[0].tolist()
            check_numbers(best_here[:, None], active, batch.ids, step)
            impossible = (best_here == float("-inf")).nonzero().flatten().tolist()
            if impossible:
                raise no_output([active[row] for row in impossible], batch.ids)
            for row, token, score in zip(active, tokens_here, best_here.tolist(), strict=True):
                outputs[row].append(token)
                sums[row] += score
            rows = torch.tensor([row for row, token in enumerate(tokens_here) if token != end], dtype=torch.int64)
            if len(rows) < len(active):
                there = rows.to(tokens.device)
                active = [active[row] for row in rows.tolist()]
                if active:
                    rules.keep(rows, there)
                    state, tokens = state.reorder(there), tokens.index_select(0, there)
            step += 1
        return [[Hypothesis(output, total / len(output))] for output, total in zip(outputs, sums, strict=True)]
