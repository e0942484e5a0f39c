"""LUT: its distance against torch's attention and a loop, and what learns from it."""

import pytest
import torch

from dragoman.shared.errors import UsageError
from dragoman.shared.generator import Encoding
from dragoman.shared.objectives.teacher import Teacher
from dragoman.shared.padded import Padded
from dragoman.shared.systems.encoder_system import EncoderSystem
from dragoman.st.lut import SemanticDistance
from tests import small

WIDTH, KNOWN, HEADS = 16, 12, 2
TOKENS = [[5, 6, 7, 2], [5, 8, 2]]


@pytest.fixture(scope="module")
def tokenizer():
    return small.tokenizer(["abcdefg"] * 3, ["en"], size=290)


@pytest.fixture
def folder(tokenizer, tmp_path):
    torch.manual_seed(1)
    model = small.encoder_model(tokenizer, layers=2, embedded={"positions": None}, width=KNOWN, dropout=0.3)
    inputs = {"source": small.text(tokenizer)}
    EncoderSystem(model=model, inputs=inputs, source_languages=["en"]).save(tmp_path / "teacher")
    return tmp_path / "teacher"


def part(folder, tokenizer, **changes):
    torch.manual_seed(2)
    teacher = Teacher(folder=str(folder), tokenizer=tokenizer, field="taught", reads="source")
    return SemanticDistance(**{"teacher": teacher, "width": WIDTH, "teacher_width": KNOWN, "heads": HEADS} | changes)


def batch():
    return small.batch(taught=TOKENS)


def heard():
    torch.manual_seed(3)
    return Padded(torch.randn(2, 6, WIDTH, requires_grad=True), torch.tensor([4, 6]))


def test_the_distance_against_torch(folder, tokenizer):
    distance, states = part(folder, tokenizer), heard()
    theirs = small.torch_attention(distance.attention)
    model = EncoderSystem.load(folder).model
    total = 0.0
    for number, row in enumerate(TOKENS):  # each alone, without padding
        wanted = model.encode(small.batch(source=[row])).memories["source"].values
        speech = states.values[number : number + 1, : int(states.lengths[number])]
        found = theirs(wanted, speech, speech)[0]
        total += ((found - wanted) ** 2).mean(-1).sum().item()
    term = distance.terms(None, batch(), Encoding({"source": states}))["distance"]
    assert (int(term.count), term.weight) == (7, 0.05)
    assert int(distance.counts(batch())["distance"]) == 7
    assert term.sum.item() == pytest.approx(total, rel=1e-5)


def test_what_learns(folder, tokenizer):
    distance, states = part(folder, tokenizer), heard()
    distance.terms(None, batch(), Encoding({"source": states}))["distance"].sum.backward()
    gradients = states.values.grad.abs().sum(-1) > 0
    assert torch.equal(gradients, states.mask)
    assert all(parameter.grad.abs().sum() > 0 for name, parameter in distance.named_parameters() if "weight" in name)
    assert {name.split(".")[0] for name in distance.state_dict()} == {"attention"}  # and no teacher
    assert not any(p.grad is not None for p in distance.teacher._system.parameters())


def test_another_width_is_refused(folder, tokenizer):
    wrong = part(folder, tokenizer, teacher_width=16)
    message = "teacher_width is 16, but the states of .* have 12 dimensions"
    small.refuses(UsageError, message, wrong.terms, None, batch(), Encoding({"source": heard()}))


def test_a_part_has_its_defaults(folder, tokenizer):
    plain = part(folder, tokenizer)
    assert (plain.weight, plain.prefix, plain.source, plain.attention.heads) == (0.05, "", None, 2)
    named = part(folder, tokenizer, prefix="a.", source="speech", weight=2.0)
    assert (named.weight, named.source) == (2.0, "speech") and [*named.counts(batch())] == ["a.distance"]
    states = heard()
    states.lengths[1] = 0  # a row of no positions still has one to attend to
    term = named.terms(None, batch(), Encoding({"source": states}))["a.distance"]
    assert term.sum.isfinite() and term.weight == 2.0
    filled = states.values.detach().clone()
    filled[1, 1:] = 9.0  # beyond the one position that counts
    one = Encoding({"source": Padded(filled, torch.tensor([int(states.lengths[0]), 0]))})
    torch.testing.assert_close(named.terms(None, batch(), one)["a.distance"].sum, term.sum)
