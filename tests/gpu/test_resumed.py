"""With --deterministic, a run on a GPU that is killed and started again ends with the same bits."""

import signal

import pytest
import torch

from tests.gpu.conftest import gradients, speech_batch, speech_objective
from tests.resume.conftest import Runs, differences

pytestmark = pytest.mark.gpu


def test_killed_in_an_epoch_and_started_again(tmp_path, device):
    """Every phase of everything.yaml: corpus, tokenizer, two trainings, average, evaluation, generation."""
    runs = Runs(tmp_path, device)
    options = ["--deterministic", "--precision", "bf16"]
    try:
        whole = runs.start("whole", options=options)
        assert whole.returncode == 0, whole.stderr
        killed = runs.start("killed", "update", 8, options=options)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        again = runs.start("killed", options=options)
        assert again.returncode == 0, again.stderr
    finally:
        if runs.server is not None:
            runs.server.communicate()
    content = runs.content("whole")
    assert any(name.endswith("model.safetensors") for name in content)
    assert differences(runs.content("killed"), content) == []


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def test_speech_with_ctc_has_the_same_gradient_each_time(place, deterministic):
    """On GPUs, torch's own gradient of CTC would be refused here."""
    there = place(precision="bf16")
    losses, vectors = zip(*(gradients(speech_objective(), speech_batch(), there) for _ in range(3)), strict=True)
    assert losses[0] == losses[1] == losses[2]
    assert torch.equal(vectors[0], vectors[1]) and torch.equal(vectors[0], vectors[2])


def without_key_biases(state):
    """Return parameters without the biases of keys: a softmax ignores them, so that rounding alone moves them."""
    kept = dict(state)
    for name, tensor in state.items():
        if name.endswith("queries_keys_values.bias"):
            queries, _, values = tensor.chunk(3)
            kept[name] = torch.cat([queries, values])
        elif name.endswith("keys_values.bias"):
            kept[name] = tensor.chunk(2)[1]
    return kept


def test_random_numbers_of_the_device_go_on(world, place):
    """Dropout is drawn on the device: without the state in the checkpoint, the second half would drop other units."""
    whole = world.fit(dropout=0.2)
    whole.run(place("whole"))
    world.fit(dropout=0.2, updates=8).run(place("cut"))
    there = place("cut")
    torch.manual_seed(999)  # whatever the new process starts with
    resumed = world.fit(dropout=0.2)
    resumed.run(there)
    wanted = without_key_biases(whole.objective.state_dict())
    for name, tensor in without_key_biases(resumed.objective.state_dict()).items():
        torch.testing.assert_close(tensor, wanted[name], atol=1e-5, rtol=1e-4, msg=name)
