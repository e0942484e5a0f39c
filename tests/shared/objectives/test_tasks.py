"""Each stream has its own parts, fields are encoded once, and terms of one name are one mean over all streams."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.objectives import CrossEntropy, Ctc, EncoderDecoderObjective, TaskObjective
from tests.shared.objectives.test_parts import Model, make
from tests.small import refuses


def system() -> nn.Module:
    torch.manual_seed(0)
    found = nn.Module()
    found.model = Model()
    return found


def of(stream: str, seed: int, *fields: str) -> Batch:
    batch = make(4, seed)
    return Batch({name: batch[name] for name in fields}, {}, [], stream)


TRIPLES = ("source", "transcript", "target")


def translation(**options) -> CrossEntropy:
    return CrossEntropy(source="source", prefix="mt.", **options)


def joint() -> TaskObjective:
    recognition = CrossEntropy(source="transcript", target_field="source", prefix="asr.", weight=0.5)
    return TaskObjective(
        system=system(),
        tasks={"triples": [recognition, translation(), Ctc(source="source", weight=0.3)], "text": [translation()]},
    )


def test_a_batch_has_the_parts_of_its_stream_and_encodes_a_field_once():
    objective = joint()
    triples, text = of("triples", 1, *TRIPLES), of("text", 2, "source", "target")
    names = {f"{task}.{term}" for task in ("asr", "mt") for term in ("cross_entropy", "nll", "accuracy")}
    assert set(objective(triples).parts) == names | {"ctc", "ctc_infeasible"}
    assert objective.model.encoded == ["transcript", "source"]
    objective.model.encoded.clear()
    assert set(objective(text).parts) == {name for name in names if name.startswith("mt.")}
    assert objective.model.encoded == ["source"]
    for batch in (triples, text):
        objective(batch).check(objective.counts(batch))
    nameless = Batch(triples.fields)
    assert set(objective(nameless).parts) == set(objective(triples).parts)  # the first task


def test_the_terms_are_those_of_an_objective_for_each_task():
    objective, batch = joint(), of("triples", 3, *TRIPLES)
    found = objective(batch)
    for part, source in zip(objective.tasks["triples"], ("transcript", "source", "source"), strict=True):
        alone = EncoderDecoderObjective(system=objective.system, parts=[part], source_field=source)(batch)
        for name, term in alone.parts.items():
            torch.testing.assert_close(found.parts[name].sum, term.sum)
            assert found.parts[name].weight == term.weight


def test_one_name_in_two_streams_is_one_mean_over_the_tokens_of_both():
    objective = joint()
    batches = [of("triples", 4, *TRIPLES), of("text", 5, "source", "target")]
    counts: dict[str, torch.Tensor] = {}
    for batch in batches:
        for name, count in objective.counts(batch).items():
            counts[name] = counts.get(name, 0) + count
    losses = [objective(batch) for batch in batches]
    tokens = sum(int((batch["target"].lengths - 1).sum()) for batch in batches)
    expected = sum(loss.parts["mt.cross_entropy"].sum.item() for loss in losses) / tokens
    for name, weight in (("asr.cross_entropy", 0.5), ("ctc", 0.3)):
        expected += weight * losses[0].parts[name].sum.item() / losses[0].parts[name].count.item()
    assert sum(loss.total(counts).item() for loss in losses) == pytest.approx(expected)


def test_a_part_of_two_streams_is_there_once():
    shared = CrossEntropy(source="source")
    objective = TaskObjective(system=system(), tasks={"one": [shared], "two": [shared, Ctc(source="source")]})
    assert len(objective.parts) == 2
    assert objective.parts_of(of("two", 1, *TRIPLES))[0] is shared


def test_what_does_not_go_together_is_refused():
    refuses(UsageError, "at least one task", lambda: TaskObjective(system=system(), tasks={}))
    refuses(UsageError, "task 'text' has no parts", lambda: TaskObjective(system=system(), tasks={"text": []}))
    refuses(UsageError, "no head 'other'", lambda: TaskObjective(system=system(), tasks={"text": [Ctc(head="other")]}))
    objective = joint()
    objective.check_streams(["text"])
    said = "no task for stream 'audio', only for triples, text"
    refuses(UsageError, said, objective.check_streams, ["text", "audio"])
    refuses(UsageError, "no task for stream 'audio'", objective, of("audio", 1, "source"))
    refuses(UsageError, "stream 'triples' has no field 'transcript'", objective, of("triples", 1, "source", "target"))
