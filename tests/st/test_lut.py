"""LUT: its distance against torch's attention and a loop, and what learns from it."""

import pytest
import torch
from torch import nn

from shared.batch import Batch
from shared.corpus.fields import TextField
from shared.errors import UsageError
from shared.generator import Encoding
from shared.nn.embeddings import TextEmbedding
from shared.nn.layer import Layer
from shared.nn.transformer import Encoder
from shared.nn.translator import EncoderModel
from shared.objectives.teacher import Teacher
from shared.padded import Padded
from shared.systems.encoder_system import EncoderSystem
from shared.text.piece_model import train_sentencepiece
from shared.text.tokenizer import SentencePieceTokenizer
from st.lut import SemanticDistance

WIDTH, KNOWN, HEADS = 16, 12, 2
TOKENS = [[5, 6, 7, 2], [5, 8, 2]]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = train_sentencepiece(["abcdefg"] * 3, tmp_path_factory.mktemp("t") / "t.model", kind="char", size=290)
    return SentencePieceTokenizer(model=str(path), tags=["en"])


@pytest.fixture
def folder(tokenizer, tmp_path):
    torch.manual_seed(1)
    embedding = TextEmbedding(vocabulary=tokenizer.size, width=KNOWN, padding=tokenizer.pad, dropout=0.3)
    encoder = Encoder(layer=Layer(width=KNOWN, heads=2, feedforward=24, dropout=0.3), layers=2)
    inputs = {"source": TextField(column="source_text", tokenizer=tokenizer)}
    model = EncoderModel(embeddings={"source": embedding}, encoder=encoder)
    EncoderSystem(model=model, inputs=inputs, source_languages=["en"]).save(tmp_path / "teacher")
    return tmp_path / "teacher"


def part(folder, tokenizer, **changes):
    torch.manual_seed(2)
    teacher = Teacher(folder=str(folder), tokenizer=tokenizer, field="taught", reads="source")
    return SemanticDistance(**{"teacher": teacher, "width": WIDTH, "teacher_width": KNOWN, "heads": HEADS} | changes)


def batch():
    return Batch({"taught": Padded.from_sequences([torch.tensor(row) for row in TOKENS])})


def heard():
    torch.manual_seed(3)
    return Padded(torch.randn(2, 6, WIDTH, requires_grad=True), torch.tensor([4, 6]))


def test_the_distance_against_torch(folder, tokenizer):
    distance, states = part(folder, tokenizer), heard()
    own = distance.attention
    theirs = nn.MultiheadAttention(KNOWN, HEADS, kdim=WIDTH, vdim=WIDTH, batch_first=True)
    of_keys, of_values = own.keys_values.weight.split(KNOWN)
    names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
    for name, value in zip(names, (own.queries.weight, of_keys, of_values), strict=True):
        setattr(theirs, name, nn.Parameter(value.detach()))
    theirs.in_proj_bias = nn.Parameter(torch.cat([own.queries.bias, own.keys_values.bias]).detach())
    theirs.out_proj.weight, theirs.out_proj.bias = own.output.weight, own.output.bias
    model = EncoderSystem.load(folder).model
    total = 0.0
    for number, row in enumerate(TOKENS):  # each alone, without padding
        one = Batch({"source": Padded.from_sequences([torch.tensor(row)])})
        wanted = model.encode(one).memories["source"].values
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
    with pytest.raises(UsageError, match="teacher_width is 16, but the states of .* have 12 dimensions"):
        wrong.terms(None, batch(), Encoding({"source": heard()}))
