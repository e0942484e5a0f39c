"""Whatever happens to the files of a checkpoint, a run goes on as it would have, or says in one line what is wrong."""

import json
import random
import re
import shutil

import pytest
import torch

from dragoman.shared.errors import DataError
from dragoman.shared.training.checkpoints import list_checkpoints
from tests.small import refusal, refuses

FILES = ("meta.json", "objective.safetensors", "training.pt")


@pytest.fixture(scope="module")
def whole(world, tmp_path_factory):
    """The folder of a training that was stopped at update 8, and the parameters of one that went on."""
    from dragoman.shared.machine.workspace import Workspace

    def run(name, updates):
        torch.manual_seed(0)
        place = Workspace(
            output=tmp_path_factory.mktemp(name), device="cpu", phase="fit", noprogressbar=True, workers=0
        )
        world.fit(updates=updates).run(place)
        return place.output

    return run("cut", 8), list_checkpoints(run("whole", 12) / "fit" / "checkpoints")[-1].tensors()


@pytest.fixture
def resumed(world, workspace, whole, caplog):
    """Return a function that harms a copy of the run's last checkpoint, and goes on; it returns the last checkpoint."""

    def resume(harm):
        shutil.rmtree(workspace().output, ignore_errors=True)
        shutil.copytree(whole[0], workspace().output)
        harm(workspace().folder / "checkpoints" / "00000008")
        caplog.clear()
        world.fit(updates=12).run(workspace())
        return list_checkpoints(workspace().folder / "checkpoints")[-1]

    return resume


def is_whole(checkpoint, whole):
    return all(torch.equal(tensor, whole[1][name]) for name, tensor in checkpoint.tensors().items())


def mutation(seed):
    """Return a function that harms one file of a checkpoint."""
    rng = random.Random(seed)

    def harm(folder):
        file = folder / rng.choice(FILES)
        content = file.read_bytes()
        at = rng.randrange(len(content))
        kind = rng.choice(["empty", "cut", "bytes", "noise", "gone", "folder", "link", "older", "longer"])
        if kind in ("gone", "folder", "link"):
            file.unlink()
        if kind == "folder":
            file.mkdir()
        elif kind == "link":
            file.symlink_to(folder / "nowhere")
        elif kind == "older":
            shutil.copy(folder.parent / "00000004" / file.name, file)
        elif kind != "gone":
            changed = bytes(rng.randrange(256) for _ in range(1 + rng.randrange(16)))
            file.write_bytes(
                {
                    "empty": b"",
                    "cut": content[:at],
                    "bytes": content[:at] + changed + content[at + len(changed) :],
                    "noise": bytes(rng.randrange(256) for _ in range(at)),
                    "longer": content + changed,
                }[kind]
            )

    return harm


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_file_is_named_or_harmless(resumed, whole, seed):
    try:
        checkpoint = resumed(mutation(seed))
    except DataError as error:
        assert "/00000008/" in str(error) and "; delete " in str(error) and "\n" not in str(error)
    else:
        assert is_whole(checkpoint, whole)


def changed_state(**changes):
    """Return a function that edits a training state, in a checkpoint of a version that wrote no digests."""

    def harm(folder):
        meta = json.loads((folder / "meta.json").read_text())
        (folder / "meta.json").write_text(json.dumps({k: v for k, v in meta.items() if k != "files"}))
        state = torch.load(folder / "training.pt", weights_only=True)
        for path, value in changes.items():
            *way, last = path.split("__")
            inside = state
            for name in way:
                inside = inside[int(name) if name.isdigit() else name]
            if value is KeyError:
                del inside[last]
            else:
                inside[int(last) if last.isdigit() else last] = value
        torch.save(state, folder / "training.pt")

    return harm


NAN = float("nan")
WRONG = {
    "position__update": [-8, 7, NAN, "8", 10**30],
    "position__epoch": [10**12, -1, KeyError],
    "position__batch": [7, 10**15, 1.5, None, torch.zeros(3)],
    "position__due": ["no"],
    "position__end": [-1],
    "position__forgiven": ["x"],
    "position__strange": [1],
    "position": [[], KeyError],
    "optimizer": [{}],
    "optimizer__param_groups": [[], 3],
    "optimizer__param_groups__0__params": [[0]],
    "optimizer__state": [{}],
    "optimizer__state__0__exp_avg": [torch.zeros(1, 2), "x", KeyError],
    "optimizer__state__0__exp_avg_sq": [torch.full((1,), NAN)],
    "optimizer__state__0__step": [torch.tensor(NAN)],
    "ranks": [[], [None]],
    "ranks__0": [{}],
    "ranks__0__cpu": [torch.zeros(2), "x"],
    "ranks__0__meter": [{}, 5],
    "planned": [-2, 0, "1"],
}


@pytest.mark.parametrize(
    ("key", "value"),
    [(key, value) for key, values in WRONG.items() for value in values],
    ids=lambda part: str(part)[:40],
)
def test_a_state_that_cannot_be_is_refused(resumed, key, value):
    message = refusal(DataError, resumed, changed_state(**{key: value}))
    assert re.search(r"00000008/training\.pt: not a readable training state \(.*\); delete ", message)
    assert "\n" not in message


def test_a_state_without_digests_or_later_fields_goes_on(resumed, whole):
    assert is_whole(resumed(changed_state(position__end=KeyError, position__forgiven=KeyError)), whole)


def test_settings_of_the_optimiser_are_those_of_the_recipe(resumed, whole):
    harm = changed_state(optimizer__param_groups__0__eps="x", optimizer__param_groups__0__betas=[NAN, 3.0])
    assert is_whole(resumed(harm), whole)


def test_a_score_that_is_no_number_is_refused(resumed):
    def harm(folder):
        meta = json.loads((folder / "meta.json").read_text())
        (folder / "meta.json").write_text(json.dumps(meta | {"score": NAN}))

    refuses(DataError, r"meta\.json: not a .*\('score' is nan, not a finite number\); delete ", resumed, harm)


def test_the_checkpoint_before_a_deleted_one_is_gone_on_from(resumed, whole):
    assert is_whole(resumed(shutil.rmtree), whole)


def test_without_any_checkpoint_it_begins_anew_and_says_so(resumed, whole, caplog):
    checkpoint = resumed(lambda folder: shutil.rmtree(folder.parent))
    assert "fit: warning: no checkpoint is left, though it had come to update 8: it begins anew" in caplog.text
    assert is_whole(checkpoint, whole)


def test_a_new_training_says_nothing_of_checkpoints(world, workspace, caplog):
    world.fit(updates=2).run(workspace())
    assert "begins anew" not in caplog.text
