"""A model for each direction: each begins as the same one, sees its own direction alone, and is not done twice."""

import json
from functools import partial

import pytest
import torch

from dragoman import Manifest, System, UsageError
from dragoman.mt.fitting_each import FitEach
from dragoman.shared.batches.stream import Budget, Stream
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective
from dragoman.shared.phases import Fit
from dragoman.shared.training.checkpoints import Checkpoints
from dragoman.shared.training.initialise import Initialise
from dragoman.shared.training.optimizer import Adam
from dragoman.shared.training.schedules import Constant
from dragoman.shared.training.validation import Validation
from tests import small
from tests.shared.training.conftest import small_model
from tests.small import refuses

PAIRS = [["de", "en"], ["en", "de"]]


@pytest.fixture
def world(tmp_path):
    """Manifests of two directions, and the model folder that all begin with."""
    tokenizer = small.tokenizer(["abcdefg"] * 3, ["en", "de"])
    for source, target in PAIRS:
        for split, count in (("train", 12), ("dev", 4)):
            codes = {"source_language": source, "target_language": target}
            rows = [small.row(f"{source}{n}", "abc"[: n % 3 + 1], "gfe", **codes) for n in range(count)]
            (tmp_path / "manifests" / f"{source}-{target}").mkdir(parents=True, exist_ok=True)
            Manifest.write(tmp_path / "manifests" / f"{source}-{target}" / f"{split}.arrow", rows)
    system_of(tokenizer, seed=1).save(tmp_path / "start")
    return tokenizer


def system_of(tokenizer, seed):
    torch.manual_seed(seed)
    languages = {"source_languages": ["de", "en"], "target_languages": ["de", "en"]}
    return small.system(tokenizer, small_model(tokenizer, dropout=0.1), **languages)


def phase(tokenizer, folder, validated=True, **changes):
    fields = small.texts(tokenizer)
    arguments = {
        "pairs": PAIRS,
        "folder": str(folder / "manifests"),
        "objective": EncoderDecoderObjective(system=system_of(tokenizer, seed=2), parts=[CrossEntropy()]),
        "stream": partial(Stream, name="text", fields=fields, budget=Budget(rows=4)),
        "validation": partial(Validation, budget=Budget(rows=4), every=2) if validated else None,
        "fit": partial(
            Fit,
            optimizer=Adam(),
            schedule=Constant(peak=0.01),
            updates=3,
            checkpoints=Checkpoints(keep="last 1", every=2),
            initialise=[Initialise(folder=str(folder / "start"), parts={"model": "model"})],
        ),
        "checkpoints": "last 1",
    }
    return FitEach(**arguments | changes)


def workspace(folder, name="run"):
    return Workspace(output=folder / name, device="cpu", noprogressbar=True, phase="tune")


def weights(folder, pair):
    return System.load(folder / "tune" / pair / "model").state_dict()


@pytest.mark.parametrize("initialised", [True, False])
def test_a_direction_is_trained_as_by_a_fit_of_its_own(world, tmp_path, initialised):
    """Whatever was trained before it: the second one is a Fit of the second manifests alone."""
    own = phase(world, tmp_path)
    if not initialised:
        own.fit.keywords["initialise"] = []
    own.run(workspace(tmp_path))
    assert [path.split("/")[-2:] for path in own.manifests] == [
        [pair, f"{split}.arrow"] for pair in ("de-en", "en-de") for split in ("train", "dev")
    ]
    alone = workspace(tmp_path, "alone")
    alone.phase = "tune/en-de"
    manifests = tmp_path / "manifests" / "en-de"
    fit = own.fit(
        objective=phase(world, tmp_path).objective,
        streams=[own.stream(manifests=[str(manifests / "train.arrow")])],
        validation=own.validation(manifests=[str(manifests / "dev.arrow")]),
    )
    torch.manual_seed(alone.seed_for("tune/en-de"))
    fit.run(alone)
    found = weights(tmp_path / "run", "en-de")
    for name, tensor in fit.objective.system.state_dict().items():
        assert torch.equal(found[name], tensor)
    assert any(not torch.equal(found[name], other) for name, other in weights(tmp_path / "run", "de-en").items())
    rows = [json.loads(line) for line in (tmp_path / "run/tune/en-de/history.jsonl").read_text().splitlines()]
    assert any("validation" in row for row in rows)
    assert not list((tmp_path / "run").rglob("checkpoints"))


def test_a_direction_that_is_done_is_not_done_again(world, tmp_path):
    phase(world, tmp_path, validated=False).run(workspace(tmp_path))
    first = tmp_path / "run/tune/de-en/model/model.safetensors"
    written, expected = first.stat().st_mtime_ns, weights(tmp_path / "run", "en-de")
    for file in (tmp_path / "run/tune/en-de").glob("*.jsonl"):
        file.unlink()
    (tmp_path / "run/tune/en-de/model").rename(tmp_path / "lost")
    phase(world, tmp_path, validated=False).run(workspace(tmp_path))
    assert first.stat().st_mtime_ns == written
    found = weights(tmp_path / "run", "en-de")
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_directions_that_are_refused(world, tmp_path):
    for pairs in ([], [["de", "en"], ["de", "en"]]):
        refuses(UsageError, "pairs must be directions, each once", phase, world, tmp_path, pairs=pairs)


def test_the_memory_that_is_needed_is_that_of_one_fit(world, tmp_path):
    own = phase(world, tmp_path)
    size = sum(4 * parameter.numel() for parameter in own.objective.parameters())
    assert own.memory_needed() == 4 * size  # with gradients and two moments


def test_what_is_not_installed_is_asked_of_one_fit(world, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(Fit, "check_libraries", lambda self: asked.append(self.manifests[0]))
    made = phase(world, tmp_path)
    made.check_libraries()
    assert asked == [str(tmp_path / "manifests" / "-".join(made.pairs[0]) / "train.arrow")]
    assert len(made.manifests) == 2 * len(made.pairs)
