"""The largest batches: found by trying, tried before the first update, and refused in one line."""

import pytest
import torch

from dragoman.commands.trial import try_out
from dragoman.shared.batches.loader import Loader
from dragoman.shared.errors import DataError
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective
from dragoman.shared.training.update import try_largest
from tests.dragoman.commands.test_batch_size import TINY, batch_size, text_corpus

pytestmark = pytest.mark.gpu


def test_the_command_finds_the_largest_batch_and_a_limit_is_kept(tmp_path, device):
    text_corpus(tmp_path, rows=4000)
    common = ["--data_folder", str(tmp_path), "--source_language", "en", "--target_language", "de", *TINY]
    common += ["--device", device, "--results_folder", str(tmp_path / "results")]
    common += ["--manifest_folder", str(tmp_path / "manifests")]
    limit = ["--memory", "12GB"] if device == "cpu" else []
    done = batch_size("own/mt", *common, "--batch_tokens", "30000", *limit, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    *_, fewer, used = done.stdout.splitlines()
    assert "fewer than 10" in fewer, done.stdout  # for memory alone, all rows would stand in one batch
    tried = [line.split() for line in done.stdout.splitlines()[2:-2]]
    best = max((one for one in tried if int(one[3]) >= 10), key=lambda one: float(one[0]))
    most = max(tried, key=lambda one: float(one[0]))
    assert used == f"use: --batch_tokens {best[0]}" and int(most[3]) < 10, done.stdout
    largest = f"--batch_tokens={most[0]}"

    def trial(key, limit):
        return try_out("own/mt", [*common, key], phase="fit", stream=0, limit=limit)

    half = (int(float(most[1]) * 1024**3) + trial("--batch_tokens=1000", 12 * 1024**3).peak) // 2
    assert trial("--batch_tokens=1000", half).fits
    assert not trial(largest, half).fits


class Greedy(EncoderDecoderObjective):
    """Wants more memory than there is."""

    def forward(self, batch):
        torch.empty(2**50, dtype=torch.uint8, device=batch["target"].device)
        return super().forward(batch)


def test_a_batch_that_does_not_fit_is_named_before_the_first_update(world, place, device):
    if device == "cpu":
        pytest.skip("a CPU's batches are not tried before the first update")
    objective = Greedy(system=world.system(), parts=[CrossEntropy()])
    with pytest.raises(DataError, match=r"stream 'text': a batch of .* does not fit into the GPU's memory"):
        world.fit(objective=objective).run(place())


def test_the_trial_leaves_gradients_and_random_numbers_as_they_were(world, place):
    torch.manual_seed(5)
    fit = world.fit(dropout=0.2, updates=1)
    there = place()
    objective = fit.objective.to(there.device)
    state = torch.cuda.get_rng_state() if there.device.startswith("cuda") else torch.get_rng_state()
    try_largest(objective, fit.optimizer, Loader(streams=fit.streams, seed=1), there)
    after = torch.cuda.get_rng_state() if there.device.startswith("cuda") else torch.get_rng_state()
    assert torch.equal(state, after) and all(parameter.grad is None for parameter in objective.parameters())
