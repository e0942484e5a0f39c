"""Parts share one encoding, and their sums do not depend on how the work was divided."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.transformer import Encoder
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.objectives import CrossEntropy, Ctc, EncoderDecoderObjective, Part
from dragoman.shared.objectives.parts import check_embedded, check_head
from dragoman.shared.padded import Padded
from tests.small import refuses


class Model(nn.Module):
    """A translator with as little in it as can be: it adds the mean of the memory to each target embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(12, 6)
        self.projection = nn.Linear(6, 12)
        head = nn.Linear(6, 12)
        head.tap, head.blank = 1, 0
        self.heads = nn.ModuleDict({"ctc": head})
        self.encoded: list[str | None] = []

    def encode(self, batch: Batch, field: str | None = None) -> Encoding:
        self.encoded.append(field)
        source = batch[field or "source"]
        memory = source.map(lambda values: self.embedding(values) * source.mask[..., None])
        return Encoding({"source": memory}, {"tap.1": memory})

    def tap(self, encoding: Encoding, name: int | str) -> Padded:
        return encoding.extras[f"tap.{name}"]

    def decode(self, prefix: Padded, encoding: Encoding) -> torch.Tensor:
        memory = encoding.memories["source"]
        return self.embedding(prefix.values) + (memory.values.sum(1) / memory.lengths[:, None])[:, None]

    def project(self, states: torch.Tensor) -> torch.Tensor:
        return self.projection(states)


def make(rows: int, seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)

    def tokens(low: int, high: int) -> Padded:
        lengths = torch.randint(low, high, (rows,), generator=generator).tolist()
        return Padded.from_sequences([torch.randint(1, 12, (length,), generator=generator) for length in lengths])

    return Batch({"source": tokens(4, 12), "target": tokens(2, 9), "transcript": tokens(3, 6)})


def row(batch: Batch, index: int) -> Batch:
    """Cut out one row, without the others' padding."""
    return Batch(
        {
            name: Padded(field.values[index : index + 1, : int(field.lengths[index])], field.lengths[index : index + 1])
            for name, field in batch.fields.items()
        }
    )


def make_objective(**arguments) -> EncoderDecoderObjective:
    torch.manual_seed(0)
    system = nn.Module()
    system.model = Model()
    return EncoderDecoderObjective(system=system, parts=[CrossEntropy(chunk=7 * 12), Ctc(weight=0.3)], **arguments)


def test_encodes_once_and_counts_agree():
    objective, batch = make_objective(source_field="source"), make(5, seed=1)
    loss = objective(batch)
    assert objective.system.model.encoded == ["source"]
    assert set(loss.parts) == {"cross_entropy", "nll", "accuracy", "ctc", "ctc_infeasible"}
    assert {name: term.count.item() for name, term in loss.parts.items()} == {
        name: count.item() for name, count in objective.counts(batch).items()
    }
    total = loss.parts["cross_entropy"].sum / loss.parts["cross_entropy"].count
    total = total + 0.3 * loss.parts["ctc"].sum / loss.parts["ctc"].count
    assert loss.total().item() == pytest.approx(total.item())
    names = set(objective.state_dict())
    assert all(name.startswith("system.model.") for name in names)


def test_eight_accumulations_of_one_equal_one_of_eight():
    objective, batch = make_objective(), make(8, seed=2)
    objective(batch).total(objective.counts(batch)).backward()
    together = {name: parameter.grad.clone() for name, parameter in objective.named_parameters()}
    objective.zero_grad()
    parts = [row(batch, index) for index in range(8)]
    counts: dict[str, torch.Tensor] = {}
    for part in parts:
        for name, count in objective.counts(part).items():
            counts[name] = counts.get(name, 0) + count
    for part in parts:
        objective(part).total(counts).backward()
    for name, parameter in objective.named_parameters():
        torch.testing.assert_close(parameter.grad, together[name], rtol=1e-5, atol=1e-6)


def test_refuses_what_does_not_go_together():
    system = nn.Module()
    system.model = Model()
    refuses(UsageError, "'other'", lambda: EncoderDecoderObjective(system=system, parts=[Ctc(head="other")]))
    twice = EncoderDecoderObjective(system=system, parts=[CrossEntropy(), CrossEntropy()])
    refuses(UsageError, "accuracy, cross_entropy, nll", twice.counts, make(2, seed=0))


@pytest.mark.parametrize("named", ["source", "speech"])
def test_a_field_by_its_name_and_the_same_by_default_are_encoded_once(named):
    width, states = 6, Padded(torch.randn(2, 3, 6), torch.tensor([3, 2]))

    class Count(Part):
        """Asks for an encoding, and keeps it."""

        def evaluate(self, model, batch, encode):
            self.found = encode(self.source)
            return {}

    encoder = Encoder(layer=Layer(width=width, heads=2, feedforward=8), layers=1)
    system = nn.Module()
    system.model = EncoderModel(embeddings={"source": nn.Identity(), "speech": nn.Identity()}, encoder=encoder)
    parts = [Count(source=named), Count()]
    EncoderDecoderObjective(system=system, parts=parts)(Batch({"source": states, "speech": states}))
    # Speech comes before text, in whatever order the model lists them.
    assert (parts[0].found is parts[1].found) == (named == "speech")


def test_what_a_part_does_unless_it_says_more():
    part, model = Part(source="speech"), object()
    assert part.source == "speech" and Part().source is None
    assert part.check(model) is part.at(3) is None and part.alarms({}) == []
    asked = []
    part.check = asked.append
    part.check_system(SimpleNamespace(model=model))
    assert asked == [model]

    class Own(Part):
        pass

    said = r"^Own does not define terms\(model, batch, encoding\)$"
    refuses(TypeError, said, Own().evaluate, model, Batch({}), lambda field: None)
    refuses(TypeError, r"^Own does not define counts\(batch\)$", lambda: Own().counts(Batch({})))


def test_parts_and_heads_that_a_model_lacks_are_named():
    model = SimpleNamespace(embeddings={"a": 1, "b": 2}, heads={"ctc": 1, "mlm": 2})
    check_embedded(model, Part(), "a")
    check_embedded(model, Part(), None)
    check_embedded(object(), Part(), "c")
    said = "^Part reads the encoding of 'c', but the model has embeddings of a and b only$"
    refuses(UsageError, said, check_embedded, model, Part(), "c")
    check_head(model, "mlm")
    refuses(UsageError, "^the model has no head 'x', only ctc, mlm$", check_head, model, "x")
    refuses(UsageError, "^the model has no head 'x', only none$", lambda: check_head(object(), "x"))


def test_an_objective_tells_all_its_parts():
    class Told(Part):
        def __init__(self, weight=0.0):
            super().__init__()
            self.weight, self.seen = weight, []

        def at(self, update):
            self.seen.append(update)

        def alarms(self, means):
            return [f"{self.weight}: {means}"]

    system = SimpleNamespace(model=Model())
    refuses(UsageError, "^an objective needs at least one part$", EncoderDecoderObjective, system=system, parts=[])
    for weight in (-1.0, float("nan")):
        said = f"^Told: weight must not be negative, not {weight:g}$"
        refuses(UsageError, said, EncoderDecoderObjective, system=system, parts=[Told(), Told(weight)])
    one, other = Told(), Told(2.0)
    objective = EncoderDecoderObjective(system=system, parts=[one, other])
    objective.at(7)
    assert one.seen == other.seen == [7] and objective.alarms({"a": 1}) == ["0.0: {'a': 1}", "2.0: {'a': 1}"]
    assert objective.model is system.model and objective.source_field is None
