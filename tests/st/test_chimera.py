"""The contrastive loss of two memories against a double loop; a memory of slots as all that the decoder sees."""

import math

import pytest
import torch
from torch import nn

from dragoman import Recipe, UsageError
from dragoman.runs.running import run_recipe
from dragoman.shared.batch import Batch
from dragoman.shared.nn.translator import Translator
from dragoman.shared.objectives import CrossEntropy, TaskObjective
from dragoman.shared.padded import Padded
from dragoman.st.chimera import BimodalContrastive
from dragoman.st.slots import MemoryLayer, SlotEncoder
from tests import small

WIDTH, SLOTS, TEMPERATURE = 8, 3, 0.1


def make_system(slots=SLOTS):
    torch.manual_seed(0)
    sizes = {"width": WIDTH, "feedforward": 12}
    encoder = small.encoder(**sizes)
    if slots:
        memory = MemoryLayer(width=WIDTH, heads=2, feedforward=12, dropout=0.0)
        options = {"memory_layer": memory, "memory_layers": 2, "slots": slots}
        encoder = SlotEncoder(layer=small.layer(**sizes), layers=1, **options)
    embeddings = {name: small.embedding(11, WIDTH) for name in ("speech", "source")}
    system = nn.Module()
    system.model = small.translator(11, embeddings=embeddings, encoder=encoder, sizes=sizes)
    return system


def make_batch(rows=4, seed=1, stream="speech"):
    generator = torch.Generator().manual_seed(seed)
    lengths = {"speech": [9, 5, 7, 8], "source": [4, 6, 3, 5], "target": [5, 3, 6, 4]}
    fields = {name: small.drawn(own[:rows], 11, generator=generator) for name, own in lengths.items()}
    return Batch(fields, {}, [], stream)


def make_objective(**options):
    parts = [
        CrossEntropy(source="speech", prefix="st.", label_smoothing=0.0),
        CrossEntropy(source="source", prefix="mt.", label_smoothing=0.0),
        BimodalContrastive(temperature=TEMPERATURE, **options),
    ]
    return TaskObjective(system=make_system(), tasks={"speech": parts, "text": [parts[1]]})


def test_the_loss_is_that_of_a_double_loop_over_the_slots_of_each_sentence():
    objective, batch = make_objective(weight=0.5), make_batch()
    memories = [objective.model.encode(batch, name).memories["source"] for name in ("speech", "source")]
    one, other = (memory.values.detach() for memory in memories)
    total, right = 0.0, 0
    for speech, text in zip(one, other, strict=True):
        for i in range(SLOTS):
            cosines = [float(torch.dot(speech[i], slot) / (speech[i].norm() * slot.norm())) for slot in text]
            total -= math.log(math.exp(cosines[i] / TEMPERATURE) / sum(math.exp(c / TEMPERATURE) for c in cosines))
            right += cosines[i] == max(cosines)
    loss = objective(batch)
    loss.check(objective.counts(batch))
    found = loss.parts["contrastive"]
    assert found.sum.item() == pytest.approx(total, rel=1e-5)
    assert found.count.item() == (4 + 2 + 5 + 3) == loss.parts["st.cross_entropy"].count.item()  # target tokens
    assert found.weight == 0.5
    accuracy = loss.parts["slot_accuracy"]
    assert (accuracy.sum.item(), accuracy.count.item(), accuracy.weight) == (pytest.approx(right / SLOTS), 4, 0.0)


def test_other_rows_change_nothing_and_both_sides_and_all_slots_learn():
    objective, batch = make_objective(), make_batch()
    whole = objective(batch).parts["contrastive"].sum
    alone = 0.0
    for row in range(4):
        fields = {name: Padded(one.rows()[row][None], one.lengths[row : row + 1]) for name, one in batch.fields.items()}
        alone += objective(Batch(fields, {}, [], "speech")).parts["contrastive"].sum
    torch.testing.assert_close(whole, alone)
    whole.backward()
    model = objective.model
    assert (model.encoder.slots.grad.abs().sum(1) > 0).all()
    for name in ("speech", "source"):
        assert model.embeddings[name].tokens.weight.grad.abs().sum() > 0


def test_the_decoder_sees_the_slots_alone():
    model, batch = make_system().model.eval(), make_batch()
    encoding = model.encode(batch, "speech")
    assert encoding.memories["source"].values.shape == (4, SLOTS, WIDTH)
    assert list(encoding.memories) == ["source"] and not encoding.extras


def test_a_check_leaves_nothing_behind_on_which_counts_depend():
    part, batch = BimodalContrastive(temperature=TEMPERATURE), make_batch()
    model = make_system().model
    found = part.evaluate(model, batch, lambda name: model.encode(batch, name))
    before = vars(part).copy()
    part.check(model)
    assert vars(part) == before
    assert {name: term.count for name, term in found.items()} == part.counts(batch)


def test_the_weight_grows_with_the_update():
    part = BimodalContrastive(weight=2.0, grow_until=4)
    objective = TaskObjective(system=make_system(), tasks={"speech": [part]})
    weights = []
    for update in (1, 2, 4, 9):
        objective.at(update)
        weights.append(objective(make_batch()).parts["contrastive"].weight)
    assert weights == [0.5, 1.0, 2.0, 2.0]


def test_a_memory_without_slots_is_refused_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe = Recipe.load("almanac/chimera", {"slots": 0, "device": "cpu"})
    message = r"chimera\.yaml:\d+: .*slots: must be at least 1, not 0"
    small.refuses(UsageError, message, run_recipe, recipe, command="a test")
    assert not list(tmp_path.rglob("*"))


def test_what_cannot_be_compared_is_refused_by_name():
    batch = make_batch()
    without = Batch({name: batch[name] for name in ("speech", "target")}, {}, [], "speech")
    message = "compares 'speech' and 'source', but stream 'speech' has no 'source'"
    small.refuses(UsageError, message, BimodalContrastive().counts, without)
    deaf = make_system()
    deaf.model = Translator(**deaf.model.arguments | {"embeddings": {"speech": deaf.model.embeddings["speech"]}})
    for system, message in (
        (make_system(slots=0), "encoder must be a SlotEncoder, not Encoder"),
        (deaf, "BimodalContrastive reads the encoding of 'source', but .* of speech only"),
    ):
        small.refuses(UsageError, message, TaskObjective, system=system, tasks={"speech": [BimodalContrastive()]})
    for wrong in ({"temperature": 0.0}, {"grow_until": 0}):
        small.refuses(UsageError, "not 0", BimodalContrastive, **wrong)
