"""Positions, token embeddings, projections and heads; the size of a known model."""

import math
from types import SimpleNamespace

import pytest
import torch

from dragoman.shared.batch import Batch
from dragoman.shared.described import build, describe
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.embeddings import TextEmbedding, TypeVector, TypeVectors
from dragoman.shared.nn.fbank import Fbank
from dragoman.shared.nn.heads import CtcHead, MaskedTokenHead, OutputProjection, TiedProjection, head_log_probabilities
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.positions import LearnedPositions, SinusoidalPositions
from dragoman.shared.nn.subsampler import Conv1dSubsampler
from dragoman.shared.nn.translator import Translator
from dragoman.shared.padded import Padded
from tests import small
from tests.small import refusal, refuses


def test_sinusoidal_positions_by_hand() -> None:
    like = torch.zeros(1, dtype=torch.float32)
    vectors = SinusoidalPositions(width=6, offset=2)(4, 3, like=like)
    for row, position in enumerate((5, 6, 7, 8)):
        for i, wavelength in enumerate((1, 100, 10000)):
            assert vectors[row, i].item() == pytest.approx(math.sin(position / wavelength), abs=1e-5)
            assert vectors[row, i + 3].item() == pytest.approx(math.cos(position / wavelength), abs=1e-5)
    half = SinusoidalPositions(width=6)(2, 4000, like=like.bfloat16())
    assert half.dtype == torch.bfloat16
    assert not torch.equal(half[0], half[1])  # computed in float32, rounded at the end


def test_sinusoidal_positions_short_of_the_longest_wavelength_are_the_formula_of_the_paper() -> None:
    vectors = SinusoidalPositions(width=6, offset=0, endpoint=False)(3, 7, like=torch.zeros(1))
    for row, position in enumerate((7, 8, 9)):
        for i in range(3):
            angle = position / 10000 ** (2 * i / 6)
            assert vectors[row, i].item() == pytest.approx(math.sin(angle), abs=1e-5)
            assert vectors[row, i + 3].item() == pytest.approx(math.cos(angle), abs=1e-5)


def test_sinusoidal_positions_of_an_odd_width_end_with_a_zero() -> None:
    odd, even = (SinusoidalPositions(width=width)(5, like=torch.zeros(1)) for width in (7, 6))
    assert torch.equal(odd[:, :6], even) and odd.shape == (5, 7) and not odd[:, 6].any()


def test_learned_positions() -> None:
    positions = LearnedPositions(width=4, length=5, offset=2)
    like = torch.zeros(1)
    assert positions.weight.shape == (7, 4)
    torch.testing.assert_close(positions(3, 2, like=like), positions.weight[4:7])
    refuses(ValueError, "6 elements are more than the 5 positions", positions, 1, 5, like=like)


def test_text_embedding_is_scaled_tokens_plus_positions_and_type_normalised() -> None:
    torch.manual_seed(0)
    embedding = TextEmbedding(
        vocabulary=9,
        width=4,
        padding=3,
        positions=LearnedPositions(width=4, length=8),
        type_vector=TypeVector(width=4),
        norm=True,
    ).eval()
    tokens = Padded(torch.tensor([[5, 2, 8], [7, 3, 3]]), torch.tensor([3, 1]))
    result = embedding(tokens, start=2)
    for b, t in ((0, 0), (0, 2), (1, 0)):
        x = 2 * embedding.weight[tokens.values[b, t]] + embedding.positions.weight[2 + t] + embedding.type_vector.vector
        expected = (x - x.mean()) / (x.var(unbiased=False) + 1e-5).sqrt()
        torch.testing.assert_close(result.values[b, t], expected)
    assert torch.equal(embedding.embed(tokens.values, 2), result.values)


def test_types_of_tokens_and_the_epsilon_of_the_norm() -> None:
    torch.manual_seed(0)
    types = TypeVectors(width=4, types=3)
    embedding = TextEmbedding(
        vocabulary=9, width=4, padding=3, type_vector=types, scaled=False, norm=True, norm_epsilon=0.25
    ).eval()
    tokens, kinds = torch.tensor([[5, 2, 8]]), torch.tensor([[2, 0, 1]])
    for given, meant in ((kinds, kinds), (None, torch.zeros_like(kinds))):
        result = embedding.embed(tokens, types=given)
        for place in range(3):
            x = embedding.weight[tokens[0, place]] + types.weight[meant[0, place]]
            torch.testing.assert_close(result[0, place], (x - x.mean()) / (x.var(unbiased=False) + 0.25).sqrt())


def test_an_embedding_can_share_token_vectors_and_keep_positions_and_norm_of_its_own() -> None:
    torch.manual_seed(0)
    common = {"vocabulary": 9, "width": 4, "padding": 3, "dropout": 0.0, "norm": True}
    owner = TextEmbedding(positions=LearnedPositions(width=4, length=8), **common)
    other = TextEmbedding(positions=LearnedPositions(width=4, length=8), shared_with=owner, **common)
    tied = TiedProjection(embedding=other)
    assert set(other.state_dict()) == {"positions.weight", "norm.weight", "norm.bias"}
    tokens = torch.tensor([[5, 2]])
    tied(other.embed(tokens)).sum().backward()
    assert owner.weight.grad[5].any() and owner.positions.weight.grad is None
    x = 2 * owner.weight[5] + other.positions.weight[0]
    torch.testing.assert_close(other.embed(tokens)[0, 0], torch.nn.functional.layer_norm(x, (4,)))
    again = build(describe({"source": owner, "target": other, "projection": tied}))
    assert again["target"].weight is again["source"].weight is again["projection"].weight


def test_projections() -> None:
    embedding = TextEmbedding(vocabulary=9, width=4, padding=3)
    tied = TiedProjection(embedding=embedding)
    states = torch.randn(2, 3, 4)
    torch.testing.assert_close(tied(states), states @ embedding.weight.T)
    assert not list(tied.parameters())
    own = OutputProjection(width=4, vocabulary=9)
    torch.testing.assert_close(own(states), states @ own.weight.T)
    for biased in (TiedProjection(embedding=embedding, bias=True), OutputProjection(width=4, vocabulary=9, bias=True)):
        biased.bias.data.normal_()
        torch.testing.assert_close(biased(states), states @ biased.weight.T + biased.bias)


def test_masked_token_head_is_dense_gelu_norm_and_projection() -> None:
    torch.manual_seed(0)
    embedding = TextEmbedding(vocabulary=9, width=4, padding=3)
    head = MaskedTokenHead(width=4, projection=TiedProjection(embedding=embedding, bias=True), norm_epsilon=0.5)
    head.projection.bias.data.normal_()
    state = torch.randn(4)
    dense = head.dense.weight @ state + head.dense.bias
    x = torch.tensor([v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in dense.tolist()])
    x = (x - x.mean()) / (x.var(unbiased=False) + 0.5).sqrt()
    torch.testing.assert_close(head(state), embedding.weight @ x + head.projection.bias)
    assert set(head.state_dict()) == {
        "dense.weight", "dense.bias", "norm.weight", "norm.bias", "projection.bias"
    }  # fmt: skip


def test_ctc_head() -> None:
    head = CtcHead(tap=2, width=4, vocabulary=9, blank=8).eval()
    states = Padded(torch.randn(2, 3, 4), torch.tensor([3, 2]))
    model = SimpleNamespace(heads={"ctc": head}, tap=lambda encoding, name: encoding.extras[f"tap.{name}"])
    encoding = Encoding({}, {"tap.2": states})
    log_probabilities = head_log_probabilities(model, encoding, "ctc")
    logits = states.values @ head.projection.weight.T + head.projection.bias
    torch.testing.assert_close(head(states.values), logits)
    torch.testing.assert_close(log_probabilities.values.exp(), logits.exp() / logits.exp().sum(-1, keepdim=True))
    assert torch.equal(log_probabilities.lengths, states.lengths)
    refuses(ValueError, "blank symbol 9 is outside the vocabulary of 9", CtcHead, tap=2, width=4, vocabulary=9, blank=9)


def test_a_ctc_head_may_score_states_by_the_vectors_of_an_embedding() -> None:
    embedding = TextEmbedding(vocabulary=9, width=4, padding=0)
    tied = TiedProjection(embedding=embedding, bias=True)
    torch.nn.init.normal_(tied.bias)
    head, states = CtcHead(tap=2, width=4, vocabulary=9, blank=8, projection=tied), torch.randn(2, 3, 4)
    torch.testing.assert_close(head(states), states @ embedding.weight.T + tied.bias)
    assert [*head.state_dict()] == head.symbol_tensors() == ["projection.bias"]
    projection = OutputProjection(width=4, vocabulary=9, bias=True)
    whole = CtcHead(tap=2, width=4, vocabulary=9, blank=8, projection=projection)
    assert [*whole.state_dict()] == whole.symbol_tensors() == ["projection.weight", "projection.bias"]
    said = r"a projection of \(9, 4\) makes no logits of 9 symbols from width 5"
    refuses(ValueError, said, CtcHead, tap=2, width=5, vocabulary=9, blank=8, projection=tied)


@pytest.mark.parametrize(
    "build",
    [
        lambda: SinusoidalPositions(width=3),
        lambda: Layer(width=4, heads=2, feedforward=8, norm_epsilon=-1.0),
        lambda: LearnedPositions(width=4, length=0),
        lambda: OutputProjection(width=0, vocabulary=5),
        lambda: Conv1dSubsampler(width=5, kernels=[4]),
        lambda: Fbank(bins=400),
        lambda: Fbank(hop=0.0),
    ],
)
def test_impossible_sizes_are_refused_with_the_value(build) -> None:
    refuses(ValueError, r"[0-9]", build)


def s2t_small(vocabulary: int) -> Translator:
    """Build fairseq's s2t_transformer_s; its "31M" count the tied matrix twice."""
    layer = {"width": 256, "heads": 4, "feedforward": 2048}
    speech = small.speech_embedding(256, bins=80, channels=1024)
    target = TextEmbedding(vocabulary=vocabulary, width=256, padding=1, positions=SinusoidalPositions(width=256))
    stacks = {"encoder": small.encoder(12, **layer), "decoder": small.decoder(6, **layer)}
    return small.translator(vocabulary, embeddings={"speech": speech}, target_embedding=target, **stacks)


def test_fairseqs_small_speech_model_has_its_parameters_and_runs_on_the_meta_device() -> None:
    with torch.device("meta"):
        model = s2t_small(8000)
    d, f = 256, 2048
    attention, norm = 4 * (d * d + d), 2 * d
    feedforward = 2 * d * f + f + d
    convolutions = 80 * 5 * 1024 + 1024 + 512 * 5 * 512 + 512
    layers = 12 * (attention + feedforward + 2 * norm) + 6 * (2 * attention + feedforward + 3 * norm)
    expected = convolutions + layers + 2 * norm + 8000 * d
    assert sum(p.numel() for p in model.parameters()) == expected == 29_024_256
    assert all(p.is_meta for p in model.parameters())
    speech = Padded(torch.empty(2, 32000, device="meta"), torch.empty(2, dtype=torch.int64, device="meta"))
    target = Padded(torch.empty(2, 7, dtype=torch.int64, device="meta"), speech.lengths)
    encoding = model.encode(Batch({"speech": speech}))
    assert encoding.memories["source"].values.shape == (2, 50, 256)
    logits = model.project(model.decode(target, encoding))
    assert logits.shape == (2, 7, 8000)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"padding": 5}, "the padding symbol 5 is outside the vocabulary of 5"),
        ({"padding": -1}, "the padding symbol -1 is outside the vocabulary of 5"),
        ({"positions": SinusoidalPositions(width=6)},
         "positions of width 6 cannot be added to token vectors of width 4"),
        ({"shared_with": TextEmbedding(vocabulary=5, width=4, padding=2)},
         "token vectors 5 x 4 with padding 2 cannot be shared with an embedding of 5 x 4 with padding 0"),
    ],
)  # fmt: skip
def test_what_an_embedding_refuses(changes: dict, said: str) -> None:
    assert refusal(ValueError, TextEmbedding, **{"vocabulary": 5, "width": 4, "padding": 0} | changes) == said


def test_an_embedding_has_its_defaults_and_its_beginning() -> None:
    torch.manual_seed(0)
    plain = TextEmbedding(vocabulary=2000, width=16, padding=3)
    assert (plain.dropout, plain.scale, plain.positions, plain.type_vector) == (0.1, 4.0, None, None)
    assert isinstance(plain.norm, torch.nn.Identity) and plain.symbol_tensors() == ["tokens.weight"]
    assert plain.weight[3].eq(0).all() and plain.weight.std().item() == pytest.approx(0.25, rel=0.02)
    shared = TextEmbedding(vocabulary=2000, width=16, padding=3, shared_with=plain, scaled=False, norm=True)
    assert shared.weight is plain.weight and shared.symbol_tensors() == [] and not hasattr(shared, "tokens")
    assert shared.scale == 1.0 and shared.norm.eps == 1e-5
    assert "weight" not in dict(shared.named_parameters()) and TextEmbedding(vocabulary=1, width=1, padding=0)
