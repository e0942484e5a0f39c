"""Vectors of rows do not depend on batches; the picture joins the pairs."""

import math

import pytest
import torch
from matplotlib.figure import Figure
from torch.nn import functional as F

from dragoman import DataError, Manifest, UsageError
from dragoman.shared.batches.loader import collate
from dragoman.shared.batches.stream import Budget
from dragoman.shared.machine.workspace import Workspace
from dragoman.st.modalities import input_vectors, plot_pairs
from tests import small
from tests.shared.training.conftest import World, small_model
from tests.small import refuses


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("world"))


def test_vectors_of_rows(world, tmp_path):
    torch.manual_seed(0)
    model = small_model(world.tokenizer)
    system = small.system(world.tokenizer, model)
    rows = [small.row(number, text, "1") for number, text in enumerate(["123", "456", "789", "12", "3"])]
    manifest = Manifest.open(Manifest.write(tmp_path / "a.arrow", rows).path)
    place = Workspace(output=tmp_path, device="cpu", phase="p", workers=0)
    given = {"budget": Budget(rows=2), "workspace": place}
    means = input_vectors(system, manifest, "source", mean=True, **given)
    apart = input_vectors(system, manifest.select(range(3)), "source", mean=False, **given)
    system.eval()
    for row in range(5):
        batch = collate([manifest[row]], system.inputs, None)
        states = model.encode(batch).memories["source"].values[0].detach()
        torch.testing.assert_close(means[row], F.normalize(states.mean(0), dim=0))
        if row < 3:
            joined = torch.cat([F.normalize(state, dim=0) for state in states]) / math.sqrt(len(states))
            torch.testing.assert_close(apart[row], joined)
    torch.testing.assert_close(apart.norm(dim=1), torch.ones(3))
    message = "different numbers of states: compare their means"
    refuses(DataError, message, input_vectors, system, manifest, "source", mean=False, **given)
    refuses(UsageError, "can read source, not 'speech'", input_vectors, system, manifest, "speech", mean=True, **given)


def test_the_picture_joins_the_pairs(tmp_path, monkeypatch):
    figures = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (figures.append(self), save(self, *a, **k))[1])
    one, other = torch.randn(5, 2), torch.randn(5, 2)
    plot_pairs(one, other, tmp_path / "pairs.png", ("speech", "text"))
    axis = figures[0].axes[0]
    lengths = [math.dist(*line.get_xydata().tolist()) for line in axis.lines]
    assert lengths == pytest.approx((one - other).norm(dim=1).tolist(), rel=1e-4)  # of two dimensions, all is kept
    assert (tmp_path / "pairs.png").stat().st_size > 1000
