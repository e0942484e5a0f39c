"""CTNMT: the switch by hand, distillation against numpy, and a rate that rises and falls by what it changes."""

import numpy as np
import pytest
import torch
from torch import nn

from dragoman import DataError, UsageError
from dragoman.mt.ctnmt import AsymptoticDistillation, DynamicSwitch
from dragoman.shared.batch import Batch
from dragoman.shared.nn.heads import MaskedTokenHead, TiedProjection
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.objectives import EncoderDecoderObjective
from dragoman.shared.objectives.teacher import Teacher
from dragoman.shared.systems.encoder_system import EncoderSystem
from dragoman.shared.training.optimizer import Adam, clip_gradient, set_learning_rate
from dragoman.shared.training.schedules import Linear
from tests import small

WIDTH = 16
TOKENS = [[5, 6, 7, 2], [5, 8, 2]]


@pytest.fixture(scope="module")
def tokenizer():
    return small.tokenizer(["abcdefg"] * 3, ["en", "de"])


def embedding(size, width=WIDTH):
    return small.embedding(size, width, padding=0)


def encoder(width=WIDTH):
    return small.encoder(width=width, feedforward=32, dropout=0.1)


def reader(size=300, width=WIDTH, name="source", headed=False):
    read = embedding(size, width)
    head = MaskedTokenHead(width=width, projection=TiedProjection(embedding=read, bias=True))
    return EncoderModel(embeddings={name: read}, encoder=encoder(width), heads={"masked": head} if headed else None)


def padded():
    return small.padded(TOKENS)


def test_the_switch_mixes_states_and_vectors():
    torch.manual_seed(1)
    switch = DynamicSwitch(embedding=embedding(300), reader=reader()).eval()
    known = switch.reader.encode(Batch({"source": padded()})).memories["source"].values.detach().numpy()
    own = switch.embedding(padded()).values.detach().numpy()
    w, u, b = (x.detach().numpy() for x in (switch.of_states.weight, switch.of_tokens.weight, switch.of_tokens.bias))
    assert switch.of_states.bias is None
    found = switch(padded())
    for number, length in enumerate(found.lengths.tolist()):
        for place in range(length):
            h, e = known[number, place], own[number, place]
            gate = 1 / (1 + np.exp(-(w @ h + u @ e + b)))
            expected = gate * h + (1 - gate) * e
            np.testing.assert_allclose(found.values[number, place].detach().numpy(), expected, atol=1e-5)


def test_vectors_of_both_are_symbols():
    switch = DynamicSwitch(embedding=embedding(300), reader=reader())
    assert torch.equal(switch.weight, switch.embedding.tokens.weight)
    assert switch.symbol_tensors() == ["embedding.tokens.weight", "reader.embeddings.source.tokens.weight"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"width": 8}, "the reader's width is 8, that of the token vectors 16"),
        ({"size": 200}, "the reader's vocabulary is 200, that of the token vectors 300"),
        ({"name": "target"}, "the reader must read 'source' alone, not target"),
        ({"headed": True}, "the reader has heads that nobody reads: masked"),
    ],
)
def test_a_reader_that_does_not_fit_is_refused(wrong, message):
    small.refuses(ValueError, message, DynamicSwitch, embedding=embedding(300), reader=reader(**wrong))


def system(tokenizer, seed, width=WIDTH):
    torch.manual_seed(seed)
    model = EncoderModel(embeddings={"source": embedding(tokenizer.size, width)}, encoder=encoder(width))
    return EncoderSystem(model=model, inputs={"source": small.text(tokenizer)}, source_languages=["en"])


def test_distillation_against_numpy(tokenizer, tmp_path):
    system(tokenizer, 1).save(tmp_path / "teacher")
    theirs, own = EncoderSystem.load(tmp_path / "teacher"), system(tokenizer, 2).eval()
    part = AsymptoticDistillation(teacher=Teacher(folder=str(tmp_path / "teacher"), tokenizer=tokenizer), weight=0.3)
    objective = EncoderDecoderObjective(system=own, parts=[part])
    batch = Batch({"source": padded()})
    total = 0.0
    for row in TOKENS:  # each alone, without padding
        one = small.batch(source=[row])
        wanted, found = (
            each.model.encode(one).memories["source"].values[0].detach().double() for each in (theirs, own)
        )
        total += ((wanted - found).numpy() ** 2).sum()
    term = objective(batch).parts["distillation"]
    assert (int(term.count), term.weight) == (7, 0.3)
    assert int(objective.counts(batch)["distillation"]) == 7
    assert term.sum.item() == pytest.approx(total, rel=1e-5)
    term.sum.backward()
    assert own.model.embeddings["source"].weight.grad.abs().sum() > 0
    assert not any("teacher" in name for name in objective.state_dict())
    assert torch.equal(part.teacher.states(batch).values, part.teacher.states(batch).values)  # without dropout


def test_what_cannot_be_compared_is_refused(tokenizer, tmp_path):
    system(tokenizer, 1, width=8).save(tmp_path / "narrow")
    batch = Batch({"source": padded()})
    part = AsymptoticDistillation(teacher=Teacher(folder=str(tmp_path / "narrow"), tokenizer=tokenizer))
    objective = EncoderDecoderObjective(system=system(tokenizer, 2), parts=[part])
    message = r"the encoder's states have the shape \(2, 4, 16\), those of the teacher .*8\)"
    small.refuses(UsageError, message, objective, batch)
    imported = small.system(tokenizer, system(tokenizer, 3).model)  # as those of other toolkits are
    imported.save(tmp_path / "imported")
    for teacher in (part.teacher, Teacher(folder=str(tmp_path / "imported"), tokenizer=tokenizer)):
        message = "this teacher is an encoder, which writes nothing"
        small.refuses(DataError, message, teacher.best, batch, padded(), top=1)


def test_a_rate_that_rises_and_falls():
    torch.manual_seed(1)
    module = nn.ModuleDict({"reader": nn.Linear(2, 2), "rest": nn.Linear(2, 2)})
    rate = Linear(peak=1.0, warmup=2, total=4)
    assert [rate(update) for update in range(7)] == [0, 0.5, 1, 0.5, 0, 0, 0]
    optimizer = Adam(multipliers={r"reader\..*": rate}).build(module)
    moved = []
    for update in range(7):
        before = {name: value.clone() for name, value in module.named_parameters()}
        set_learning_rate(optimizer, 0.1, update)
        module["rest"](module["reader"](torch.ones(2))).sum().backward()
        clip_gradient(optimizer, 1.0)  # which passes what does not learn by
        optimizer.step()
        optimizer.zero_grad()
        moved.append(not torch.equal(before["reader.weight"], module["reader"].weight))
    assert moved == [False, True, True, True, False, False, False]
