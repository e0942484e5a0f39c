"""Batches on a grid of sizes: few shapes, no row lost, within the budget, and the same loss and gradient."""

import pickle

import numpy as np
import pytest
import torch

from dragoman.shared.batches.grid import rounded_down, rounded_up
from dragoman.shared.batches.loader import Loader, collate
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.plan import cut, plan_pass
from dragoman.shared.batches.randomness import generator
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.batches.stream import Budget, Stream
from dragoman.shared.errors import UsageError
from dragoman.shared.objectives import CrossEntropy
from tests import small
from tests.shared.batches.test_plan import batches, make_stream, speech_lengths, token_lengths

#: Four sizes to a doubling, by hand.
FOUR = [*range(9), 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80]


def test_sizes_are_rounded_to_the_grid():
    sizes = np.arange(81)
    assert rounded_up(sizes, 4).tolist() == [min(one for one in FOUR if one >= size) for size in sizes]
    assert rounded_down(sizes, 4).tolist() == [max(one for one in FOUR if one <= size) for size in sizes]
    assert rounded_up(np.array([480_000, 262_145], dtype=np.int32), 8).tolist() == [491_520, 294_912]
    assert rounded_up(np.array([3, 5, 33]), 1).tolist() == [4, 8, 64]


@pytest.mark.parametrize("grid", [3, 12, 0])
def test_a_grid_that_is_no_power_of_two_is_refused(grid):
    small.refuses(UsageError, f"{grid}", Budget, tokens=100, grid=grid)


def test_batches_are_cut_down_to_the_grid_but_for_rests():
    groups = np.repeat([0, 1], [40, 11])
    assert cut(np.full(51, 19), groups, 4).tolist() == [0, 16, 32, 40, 51]
    assert cut(np.full(51, 19), groups).tolist() == [0, 19, 38, 40, 51]


@pytest.mark.parametrize(
    ("lengths", "units", "sizes", "grid", "fewer", "most"),
    [
        (token_lengths(20_000), "tokens tokens", {"tokens": 1000}, 4, 3, 0.1),
        (speech_lengths(20_000), "samples tokens", {"seconds": 100}, 8, 3, 0.09),
    ],
)
def test_a_grid_makes_few_shapes_and_some_padding(lengths, units, sizes, grid, fewer, most):
    found = {}
    for steps in (None, grid):
        stream = make_stream(lengths, Budget(**sizes, grid=steps), units=units)
        one, padded = plan_pass(stream, seed=1, number=0), stream.table.padded
        volume, shapes = np.zeros(2), set()
        for batch in batches(one):
            longest = [max(row[batch]) for row in padded]
            shapes.add((len(batch), *longest))
            volume += np.array(longest) * len(batch)
            for field, length in zip(stream.fields.values(), longest, strict=True):
                assert length * len(batch) <= (stream.budget.of(field) or np.inf)
        assert sorted(row for batch in batches(one) for row in batch) == [*range(lengths.shape[1])]
        assert {*map(tuple, one.shapes(padded).tolist())} == shapes
        assert one.padding(lengths, padded) == pytest.approx(1 - lengths.sum(1) / volume)
        found[steps] = len(shapes), 1 - lengths.sum(1) / volume
    assert fewer * found[grid][0] < found[None][0] and (found[grid][1] < most).all()
    assert (padded >= lengths).all() and (padded <= lengths.max(1)[:, None]).all() and (padded > lengths).any()


@pytest.fixture(scope="module")
def uneven(tmp_path_factory, write_sound):
    """Recordings of half a second to two, with translations of about 1 to 30 letters."""
    folder, rng = tmp_path_factory.mktemp("uneven"), np.random.default_rng(2)
    write_sound(folder / "talk.wav", seconds=4)
    rows = []
    for number in range(40):
        letters = "".join(rng.choice([*"abcde "], rng.integers(3, 30)))
        placed = {"audio": str(folder / "talk.wav"), "start": float(rng.uniform(0, 2))}
        rows.append(small.row(number, letters, letters[::-1], **placed, duration=float(rng.uniform(0.5, 2))))
    path = Manifest.write(folder / "train.arrow", rows).path
    tokenizer = small.tokenizer([row["source_text"] for row in rows])

    def stream(**fields):
        fields |= {"target": small.text(tokenizer, "target")}
        return Stream(name="st", manifests=[str(path)], fields=fields, budget=Budget(tokens=300, seconds=20, grid=4))

    return tokenizer, stream


def loss_and_gradients(objective, batch):
    objective.zero_grad()
    total = objective(batch).total()
    total.backward()
    return [total.detach(), *(p.grad.clone() for p in objective.parameters() if p.grad is not None)]


@pytest.mark.parametrize("kind", ["text", "speech"])
def test_padding_to_the_grid_changes_neither_loss_nor_gradient(uneven, kind):
    """Beside the same rows padded to the longest of them."""
    tokenizer, made = uneven
    stream = made(**{"source": small.text(tokenizer)} if kind == "text" else {"speech": SpeechField()})
    torch.manual_seed(3)
    changes = {} if kind == "text" else {"embeddings": {"speech": small.speech_embedding()}}
    model = small.translator(tokenizer, **changes)
    objective = small.objective(model, CrossEntropy(label_smoothing=0.1))
    rows = {row["id"]: row for row in stream.manifests[0]}
    padded = 0
    for batch in Loader(streams=[stream], seed=4).epoch(0):
        plain = collate([rows[id] for id in batch.ids], stream.fields, generator(0))
        for name, field in batch.fields.items():
            length, longest = field.values.shape[1], plain[name].values.shape[1]
            sizes = [1, 2, 3, *(start * 2**power for start in (4, 5, 6, 7) for power in range(20))]
            assert length == min([size for size in sizes if size >= longest] + [stream.longest[name]])
            assert not field.full or length == longest
            assert torch.equal(field.lengths, plain[name].lengths)
            padded += length - longest
        for one, other in zip(loss_and_gradients(objective, batch), loss_and_gradients(objective, plain), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert padded > 0


def test_workers_know_the_longest_rows_without_the_table(uneven):
    _, made = uneven
    stream = made(speech=SpeechField())
    longest = int(stream.table.lengths[list(stream.fields).index("speech")].max())
    sent = pickle.loads(pickle.dumps(stream))
    assert "table" not in vars(sent) and sent.padded("speech", longest - 1) == longest
    assert sent.padded("speech", 16_385) == 20_480


@pytest.mark.parametrize("world", [1, 2])
def test_parts_of_a_batch_are_cut_on_the_grid(world):
    """Compared with parts of any size, there are fewer shapes, and rows of one length are sorted by the other."""
    stream = make_stream(speech_lengths(5_000), Budget(seconds=1500, grid=8), units="samples tokens")
    loaders = [Loader(streams=[stream], seed=1, rank=rank, world=world, passes=4) for rank in range(world)]
    plan = loaders[0].plan(0)
    sizes = []
    for index in range(len(plan)):
        parts = [part.rows for loader in loaders for part in loader._parts(plan, index)]
        assert sorted(np.concatenate(parts)) == sorted(plan.step(index, 0).rows) and len(parts) % world == 0
        sizes.append([len(part) for part in parts])
    wanted = 4 * world
    assert all(len(of_step) in (wanted, wanted - world) or sum(of_step) < 2 * wanted for of_step in sizes)
    on_grid = [size in rounded_down(np.array([size]), 8) for of_step in sizes for size in of_step]
    assert sum(on_grid) > 0.9 * len(on_grid)
