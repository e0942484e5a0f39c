"""Layers with T5's parts (Raffel et al. 2020): by hand in double precision, step by step, and what is refused."""

from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F

from dragoman.shared.nn.attention import MemoryAttention, Prompts
from dragoman.shared.nn.conformer import ConformerLayer
from dragoman.shared.nn.cpu import MANY_HEADS
from dragoman.shared.nn.decoding import TokenDecoder
from dragoman.shared.nn.layer import Layer, Variant
from dragoman.shared.nn.positions import RelativePositions
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.padded import Padded
from tests.small import refuses

OTHER = {"norm": "rms", "bias": False, "gated": True, "head_width": 3, "scaled": False}


def layer(**given):
    torch.manual_seed(2)
    memories = given.pop("memories", None)
    variant = Variant(**OTHER | given)
    made = Layer(
        width=8, heads=2, feedforward=10, memories=memories, dropout=0.0, activation="swish", norm_epsilon=1e-3,
        variant=variant,
    ).double()  # fmt: skip
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(std=0.7)
    return made.eval()


def by_formula(module, x, bias):
    """One layer on rows x (L, D), with scores (H, L, S) added."""
    weights = {name.removesuffix(".weight"): parameter for name, parameter in module.named_parameters()}
    normed = F.rms_norm(x, (8,), weights["self_attention_norm"], 1e-3)
    parts = (normed @ weights["self_attention.queries_keys_values"].T).view(-1, 3, 2, 3)
    queries, keys, values = parts.permute(1, 2, 0, 3)  # (H, L, 3)
    attended = (queries @ keys.transpose(1, 2) + bias).softmax(-1) @ values
    x = x + attended.transpose(0, 1).flatten(1) @ weights["self_attention.output"].T
    entering = F.rms_norm(x, (8,), weights["feedforward_norm"], 1e-3)
    hidden = F.silu(entering @ weights["inner"].T) * (entering @ weights["gate"].T)
    return x + hidden @ weights["outer"].T


@pytest.mark.parametrize("causal", [False, True])
def test_a_layer_with_distances_is_its_formula(causal: bool) -> None:
    module, x = layer(), torch.randn(1, 5, 8, dtype=torch.float64)
    relative = torch.randn(2, 5, 5, dtype=torch.float64)
    later = torch.ones(5, 5, dtype=torch.bool).triu(1) & causal
    expected = by_formula(module, x[0], relative.masked_fill(later, float("-inf")))
    torch.testing.assert_close(module(x, causal=causal, relative=relative)[0], expected)


def test_each_distance_has_its_own_number_until_ranges_begin() -> None:
    positions = RelativePositions(heads=3, buckets=8, longest=16)
    scores = positions(6, 6)
    assert scores.shape == (3, 6, 6)
    weight = positions.weight
    for query in range(6):
        for key in range(6):
            behind, ahead = max(query - key, 0), max(key - query, 0)
            # Of 4 buckets a direction, 0 and 1 are single; 2 begins at a distance of 2, 3 at 2 * (16 / 2) ** (1 / 2).
            distance = behind + ahead
            number = distance if distance < 2 else 2 if distance < 2 * 8**0.5 else 3
            assert torch.equal(scores[:, query, key], weight[number + (4 if ahead else 0)])


def test_a_search_step_has_the_distances_to_all_that_was_before() -> None:
    torch.manual_seed(1)
    positions = RelativePositions(heads=2, buckets=8, longest=6, causal=True)
    decoder = Decoder(layer=layer(memories=["source"]), layers=2, relative=positions).double().eval()
    with torch.no_grad():
        positions.weight.normal_()
    memory = Padded(torch.randn(2, 4, 8, dtype=torch.float64), torch.tensor([4, 2]))
    x = torch.randn(2, 9, 8, dtype=torch.float64)
    whole = decoder(Padded(x, torch.tensor([9, 9])), {"source": memory}).values
    caches = decoder.caches({"source": memory})
    steps = [
        decoder(Padded(x[:, one], torch.tensor([x[:, one].shape[1]] * 2)), caches=caches).values
        for one in (slice(0, 3), slice(3, 4), slice(4, 9))
    ]
    torch.testing.assert_close(torch.cat(steps, 1), whole)
    with torch.no_grad():
        positions.weight.zero_()
    assert not torch.allclose(decoder(Padded(x, torch.tensor([9, 9])), {"source": memory}).values, whole)


@pytest.mark.parametrize("scaled", [False, True])
def test_attention_to_a_memory_is_scaled_or_not_however_it_is_computed(scaled: bool) -> None:
    torch.manual_seed(0)
    memory = Padded(torch.randn(MANY_HEADS, 5, 6), torch.arange(MANY_HEADS) % 5 + 1)
    given = {"width": 8, "heads": 2, "memory_width": 6, "head_width": 3, "bias": False, "scaled": scaled}
    attention = MemoryAttention(**given).eval()
    x = torch.randn(2 * MANY_HEADS, 1, 8)
    kept = attention.remember(memory)
    by_kernel = attention(x, kept)  # with gradient; without, by products of matrices
    with torch.no_grad():
        torch.testing.assert_close(attention(x, kept), by_kernel)
    queries, keys = attention.queries(x[::2]).view(-1, 2, 3), kept.keys
    scores = torch.einsum("bhd,bhsd->bhs", queries, keys) / (3**0.5 if scaled else 1)
    expected = scores.masked_fill(~memory.mask[:, None], float("-inf")).softmax(-1)
    torch.testing.assert_close(attention.weights(x[::2], kept)[:, :, 0], expected)
    values = torch.einsum("bhs,bhsd->bhd", expected, kept.values).flatten(1)
    torch.testing.assert_close(by_kernel[::2, 0], values @ attention.output.weight.T)


def test_padding_is_not_seen_and_prompts_have_no_distance() -> None:
    positions = RelativePositions(heads=2, buckets=8, longest=6)
    encoder = Encoder(layer=layer(), layers=2, relative=positions).double().eval()
    x = torch.randn(1, 6, 8, dtype=torch.float64)
    short, _ = encoder(Padded(x[:, :4], torch.tensor([4])))
    padded, _ = encoder(Padded(x, torch.tensor([4])))
    torch.testing.assert_close(padded.values[:, :4], short.values)
    with torch.no_grad():
        positions.weight.normal_()
    assert not torch.allclose(encoder(Padded(x[:, :4], torch.tensor([4])))[0].values, short.values)
    prompts = Prompts(torch.zeros(1, 2, 6, dtype=torch.float64), torch.zeros(1, 2, 6, dtype=torch.float64))
    attention = layer().self_attention
    relative = torch.full((2, 6, 6), 30.0, dtype=torch.float64)  # so large that nothing else is seen, of the rest
    without = attention(x, relative=relative)
    torch.testing.assert_close(attention(x, relative=relative, prompts=prompts), without, atol=1e-6, rtol=1e-5)


def test_a_search_knows_how_much_memory_its_state_takes() -> None:
    """Heads of another width: what the caches have allocated, in both of their buffers."""
    decoder = Decoder(layer=layer(memories=["source"], head_width=16), layers=2).double().eval()
    vectors = SimpleNamespace(like=torch.zeros(1, dtype=torch.float64))
    model = TokenDecoder.__new__(TokenDecoder)
    model.__dict__ |= {"decoder": decoder, "target_embedding": vectors}
    memory = Padded(torch.randn(1, 4, 8, dtype=torch.float64), torch.tensor([4]))
    caches = decoder.caches({"source": memory})
    decoder(Padded(torch.randn(1, 9, 8, dtype=torch.float64), torch.tensor([9])), caches=caches)
    allocated = sum(cache.past._stored.nbytes for cache in caches)
    assert TokenDecoder.state_bytes(model, 9) == 2 * allocated == 2 * 2 * 2 * 16 * 32 * 8


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RelativePositions(heads=2, buckets=3), "relative positions cannot have 3 buckets up to 128"),
        (lambda: RelativePositions(heads=2, buckets=32, longest=8), "32 buckets up to 8"),
        (lambda: layer(norm="batch"), "norm must be one of layer, rms, not 'batch'"),
        (lambda: layer(head_width=0), "head_width must be at least 1, not 0"),
    ],
)
def test_what_is_refused(make, message) -> None:
    refuses(ValueError, message, make)
    given = {"layer": ConformerLayer(width=8, heads=2, feedforward=8), "relative": RelativePositions(heads=2)}
    refuses(ValueError, "do not fit ConformerLayers of None", Encoder, layers=1, **given)
