"""Attention against loops, and its parts (prompts, past, memories) against one plain formula."""

import math

import pytest
import torch
from torch import Tensor

from dragoman.shared.nn.attention import MemoryAttention, Past, Prompts, SelfAttention, added, by_products
from dragoman.shared.nn.cpu import FEW_QUERIES, MANY_HEADS, SHORT
from dragoman.shared.padded import Padded
from tests.small import refuses


def by_hand(queries: Tensor, keys: Tensor, values: Tensor, heads: int, seen) -> Tensor:
    """Attend by the formula; ``seen(i, j)`` tells whether query i may see key j."""
    queries, keys, values = (x.view(len(x), heads, -1).transpose(0, 1) for x in (queries, keys, values))
    hidden = torch.tensor([[not seen(i, j) for j in range(keys.shape[1])] for i in range(queries.shape[1])])
    scores = queries @ keys.transpose(1, 2) / math.sqrt(queries.shape[2])
    return (scores.masked_fill(hidden, -math.inf).softmax(-1) @ values).transpose(0, 1).flatten(1)


def self_attention(width: int = 8, heads: int = 2) -> SelfAttention:
    torch.manual_seed(0)
    return SelfAttention(width=width, heads=heads).double().eval()


def projected(attention: SelfAttention, x: Tensor) -> list[Tensor]:
    return [x @ w.T + b for w, b in zip(*(p.chunk(3) for p in attention.queries_keys_values.parameters()), strict=True)]


def finish(attention: SelfAttention | MemoryAttention, attended: Tensor) -> Tensor:
    return attended @ attention.output.weight.T + attention.output.bias


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("prompted", ["no", "all", "some"])
@pytest.mark.parametrize("length", [5, 1])
def test_self_attention_equals_a_loop(causal: bool, prompted: str, length: int) -> None:
    attention = self_attention()
    x = torch.randn(2, length, 8, dtype=torch.float64)
    lengths = torch.tensor([length, min(3, length)])
    keys, values = torch.randn(2, 2, 3, 8, dtype=torch.float64)
    shown = {"no": [[], []], "all": [[0, 1, 2], [0, 1, 2]], "some": [[0, 1], [2]]}[prompted]
    mask = torch.tensor([[number in row for number in range(3)] for row in shown]) if prompted == "some" else None
    prompts = None if prompted == "no" else Prompts(keys, values, mask)
    if whole := causal or length == 1:  # there is no mask of the input
        lengths[:] = length
    result = attention(x, mask=None if whole else Padded(x, lengths).mask, causal=causal, prompts=prompts)
    for row, (own, chosen) in enumerate(zip(lengths.tolist(), shown, strict=True)):
        q, k, v = projected(attention, x[row, :own])
        k, v, extra = torch.cat([keys[row, chosen], k]), torch.cat([values[row, chosen], v]), len(chosen)
        attended = by_hand(q, k, v, 2, lambda i, j, extra=extra: not causal or j - extra <= i)
        torch.testing.assert_close(result[row, :own], finish(attention, attended))


@pytest.mark.parametrize("prompted", [False, True])
def test_self_attention_under_a_mask_of_pairs_equals_a_loop(prompted: bool) -> None:
    attention = self_attention()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    mask = torch.rand(2, 5, 5, generator=torch.Generator().manual_seed(1)) < 0.4
    mask |= torch.eye(5, dtype=torch.bool)
    keys, values = torch.randn(2, 1, 3, 8, dtype=torch.float64)
    extra = 3 if prompted else 0
    result = attention(x, mask=mask, prompts=Prompts(keys, values) if prompted else None)
    for row in range(2):
        q, k, v = projected(attention, x[row])
        k, v = torch.cat([keys[0, :extra], k]), torch.cat([values[0, :extra], v])
        attended = by_hand(q, k, v, 2, lambda i, j, row=row: j < extra or bool(mask[row, i, j - extra]))
        torch.testing.assert_close(result[row], finish(attention, attended))


def test_joined_prompts() -> None:
    first = Prompts(
        torch.randn(2, 3, 4), torch.randn(2, 3, 4), torch.tensor([[True, True, False], [True, False, False]])
    )
    second = Prompts(torch.randn(1, 2, 4), torch.randn(1, 2, 4))
    joined = first.joined(second)
    for row in range(2):
        for name in ("keys", "values"):
            expected = torch.cat([getattr(first, name)[row], getattr(second, name)[0]])
            assert torch.equal(getattr(joined, name)[row], expected)
        assert joined.mask[row].tolist() == [*first.mask[row].tolist(), True, True]
    assert second.joined(second).mask is None
    assert second.joined(first).mask[:, :2].all()


@pytest.mark.parametrize("prompted", [False, True])
def test_pieces_with_a_past_equal_the_whole(prompted: bool) -> None:
    attention = self_attention()
    x = torch.randn(3, 40, 8, dtype=torch.float64)
    prompts = Prompts(torch.randn(1, 2, 8, dtype=torch.float64), torch.randn(1, 2, 8, dtype=torch.float64))
    more = {"prompts": prompts if prompted else None, "causal": True}
    past = Past()
    with torch.no_grad():
        pieces = [attention(piece, past=past, **more) for piece in x.split([4, 1, 1, 17, 1, 16], dim=1)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), attention(x, **more))


@pytest.mark.parametrize("shared", [None, False, True], ids=["all is seen", "each sentence", "all alike"])
def test_memory_attention_equals_a_loop_for_every_beam(shared: bool | None) -> None:
    torch.manual_seed(0)
    attention = MemoryAttention(width=8, heads=2, memory_width=6).double().eval()
    memory = Padded(torch.randn(2, 4, 6, dtype=torch.float64), torch.tensor([4, 2]))
    x = torch.randn(6, 3, 8, dtype=torch.float64)  # three beams a sentence
    seen = None if shared is None else torch.rand(1 if shared else 2, 3, 4) < 0.5
    if seen is not None:
        seen[..., 0] = True
    remembered = attention.remember(memory)
    result = attention(x, remembered, seen)
    torch.testing.assert_close(attention(x, remembered.for_many_calls(), seen), result)
    weights, biases = attention.keys_values.weight.chunk(2), attention.keys_values.bias.chunk(2)
    for row in range(6):
        keys, values = (memory.rows()[row // 3] @ w.T + b for w, b in zip(weights, biases, strict=True))
        queries = x[row] @ attention.queries.weight.T + attention.queries.bias
        shown = torch.ones(3, 4) if seen is None else seen[0 if shared else row // 3]
        attended = by_hand(queries, keys, values, 2, lambda i, j, shown=shown: bool(shown[i, j]))
        torch.testing.assert_close(result[row], finish(attention, attended))
    if seen is None:
        torch.testing.assert_close(attention(x[3:], remembered.select(torch.tensor([1]))), result[3:])


@pytest.mark.parametrize("many_calls", [False, True])
def test_weights_to_a_memory_equal_torchs(many_calls: bool) -> None:
    torch.manual_seed(0)
    attention = MemoryAttention(width=8, heads=2, memory_width=8).eval()
    memory = Padded(torch.randn(2, 4, 8), torch.tensor([4, 2]))
    x = torch.randn(2, 3, 8)
    other = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    with torch.no_grad():
        other.in_proj_weight.copy_(torch.cat([attention.queries.weight, attention.keys_values.weight]))
        other.in_proj_bias.copy_(torch.cat([attention.queries.bias, attention.keys_values.bias]))
    _, wanted = other(x, memory.values, memory.values, key_padding_mask=~memory.mask, average_attn_weights=False)
    remembered = attention.remember(memory)
    remembered = remembered.for_many_calls() if many_calls else remembered
    torch.testing.assert_close(attention.weights(x, remembered), wanted)


def test_attention_dropout_happens_in_training_only() -> None:
    attention = SelfAttention(width=8, heads=2, dropout=0.5)
    x = torch.randn(1, 6, 8)
    assert not torch.equal(attention(x), attention(x))
    attention.eval()
    assert torch.equal(attention(x), attention(x))


def test_projections_start_as_fairseqs_do() -> None:
    """Xavier's bound for one (D, D) matrix, times the gain 1 / sqrt(2), although three stand in one tensor."""
    torch.manual_seed(0)
    attention = SelfAttention(width=128, heads=2)
    bound = math.sqrt(6 / 256)
    for part in attention.queries_keys_values.weight.chunk(3):
        assert part.abs().max() <= bound / math.sqrt(2)
        assert part.std().item() == pytest.approx(bound / math.sqrt(2) / math.sqrt(3), rel=0.03)
    assert attention.output.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03)
    assert not attention.output.bias.any()


def test_what_is_refused() -> None:
    refuses(ValueError, "width 10 cannot be divided among 4 heads", SelfAttention, width=10, heads=4)
    refuses(ValueError, "1.0", SelfAttention, width=8, heads=4, dropout=1.0)
    refuses(ValueError, "causal", lambda: self_attention()(torch.zeros(1, 1, 8, dtype=torch.float64), past=Past()))


@pytest.mark.parametrize("seen", ["all", "lengths", "each query's own"])
def test_attention_by_products_is_torchs(seen: str) -> None:
    torch.manual_seed(0)
    queries, keys, values = (torch.randn(2, 3, length, 4, dtype=torch.float64) for length in (5, 7, 7))
    masks = {
        "all": None,
        "lengths": torch.arange(7) < torch.tensor([7, 2])[:, None, None, None],
        "each query's own": torch.ones(5, 7, dtype=torch.bool).tril(2),
    }
    mask = masks[seen]
    result = by_products(queries, keys, values, mask)
    if mask is not None:
        assert torch.equal(by_products(queries, keys, values, added(mask, queries.dtype)), result)
    wanted = torch.nn.functional.scaled_dot_product_attention(queries, keys, values, mask)
    torch.testing.assert_close(result, wanted)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_a_memory_for_many_calls_holds_what_is_added_to_scores(kind: torch.dtype) -> None:
    attention = MemoryAttention(width=8, heads=2, memory_width=6).to(kind).eval()
    memory = Padded(torch.randn(2, 5, 6).to(kind), torch.tensor([5, 2]))
    remembered = attention.remember(memory)
    kept = remembered.for_many_calls()
    hidden = float("-inf")
    assert kept.mask.dtype == kind and kept.mask.flatten(1).tolist() == [[0] * 5, [0, 0, hidden, hidden, hidden]]
    assert kept.keys.is_contiguous() and torch.equal(kept.keys, remembered.keys)
    x = torch.randn(6, 1, 8).to(kind)  # 3 beams
    close = {"atol": 0.02, "rtol": 0.02} if kind == torch.bfloat16 else {}
    for learning in (False, True):
        with torch.set_grad_enabled(learning):
            torch.testing.assert_close(attention(x, kept), attention(x, remembered), **close)


def noted(called: list[int]):
    """Return what attends by products, and notes that it was called."""

    def attend(*given, **named):
        called.append(1)
        return by_products(*given, **named)

    return attend


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_one_query_of_many_rows_attends_by_products_in_bfloat16(
    monkeypatch: pytest.MonkeyPatch, kind: torch.dtype
) -> None:
    torch.manual_seed(0)
    attention, rows = self_attention().to(kind), MANY_HEADS
    x, before = (torch.randn(rows, length, 8).to(kind) for length in (1, 4))
    past, called = Past(), []
    monkeypatch.setattr("dragoman.shared.nn.attention.by_products", noted(called))
    with torch.no_grad():
        attention(before, causal=True, past=past)
        result = attention(x, causal=True, past=past)
        expected = attention(torch.cat([before, x], dim=1), causal=True)[:, -1:]
    assert len(called) == (kind == torch.bfloat16)
    close = {"atol": 0.02, "rtol": 0.02} if kind == torch.bfloat16 else {}
    torch.testing.assert_close(result, expected, **close)


def test_a_few_beams_of_many_sentences_attend_alike_with_and_without_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    heads, beams = 4, FEW_QUERIES
    attention = MemoryAttention(width=16, heads=heads, memory_width=6).double().eval()
    sentences = MANY_HEADS // heads
    memory = Padded(torch.randn(sentences, 9, 6, dtype=torch.float64), torch.arange(sentences) % 9 + 1)
    x = torch.randn(sentences * beams, 1, 16, dtype=torch.float64)
    by_kernel = attention(x, attention.remember(memory))
    called = []
    monkeypatch.setattr("dragoman.shared.nn.attention.by_products", noted(called))
    with torch.no_grad():
        torch.testing.assert_close(attention(x, attention.remember(memory)), by_kernel)
    assert called


@pytest.mark.parametrize("cast", [True, False], ids=["autocast", "converted"])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    ("length", "learning", "kind"),
    [(5, True, torch.float32), (SHORT + 1, True, torch.bfloat16), (5, False, torch.bfloat16)],
)
def test_short_attention_in_bfloat16_is_learnt_in_single_precision(
    monkeypatch: pytest.MonkeyPatch, length: int, learning: bool, kind: torch.dtype, causal: bool, cast: bool
) -> None:
    kernel, kinds = torch.nn.functional.scaled_dot_product_attention, []

    def noted(queries: Tensor, *others: Tensor, **options: object) -> Tensor:
        result = kernel(queries, *others, **options)
        kinds.append(result.dtype)
        return result

    monkeypatch.setattr("dragoman.shared.nn.attention.F.scaled_dot_product_attention", noted)
    torch.manual_seed(0)
    exact = SelfAttention(width=8, heads=2)
    ours = SelfAttention(width=8, heads=2)
    ours.load_state_dict(exact.state_dict())
    x, mask = torch.randn(2, length, 8), torch.ones(2, length, dtype=torch.bool)
    mask[1, 3:] = False
    given = x if cast else x.bfloat16()
    ours = ours if cast else ours.bfloat16()
    with torch.set_grad_enabled(learning), torch.autocast("cpu", torch.bfloat16, enabled=cast):
        result = ours(given, mask=mask, causal=causal)
    assert kinds == [kind] and result.dtype == torch.bfloat16
    expected = exact(x, mask=mask, causal=causal)
    torch.testing.assert_close(result.float(), expected, atol=0.02, rtol=0.05)
    if learning:
        weight = torch.randn(2, length, 8)
        (result.float() * weight).sum().backward()
        (expected * weight).sum().backward()
        for found, right in zip(ours.parameters(), exact.parameters(), strict=True):
            assert (found.grad.float() - right.grad).norm() < 0.03 * right.grad.norm()
