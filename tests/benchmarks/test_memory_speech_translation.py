"""The count of memory is what small real models take."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.profiler import ProfilerActivity, profile

from benchmarks.memory_speech_translation import Sizes, autocast, choose, count, lna, lora, loss_of, translator
from dragoman.shared.padded import Padded
from dragoman.shared.training.optimizer import Adam, Adam8bit
from tests.small import slow_but

SIZES = Sizes(width=64, heads=4, feedforward=128, vocabulary=400, speech_layers=2, encoder_layers=1, decoder_layers=2)
SHAPE = {"rows": 2, "samples": 6000, "tokens": 9}
OPTIMIZERS = {"all": Adam, "8 bits": Adam8bit}
OPTIMIZERS |= {"selected": lambda: Adam(tuning=lna()), "adapters": lambda: Adam(tuning=lora())}


def batch():
    torch.manual_seed(1)
    rows, samples, tokens = SHAPE.values()
    speech = Padded(torch.randn(rows, samples), torch.full((rows,), samples))
    return speech, Padded(torch.randint(5, 400, (rows, tokens)), torch.full((rows,), tokens))


def size(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@pytest.mark.parametrize("name", slow_but(["adapters"], OPTIMIZERS))
def test_parameters_gradients_and_moments_to_the_byte(name):
    pytest.importorskip({"8 bits": "bitsandbytes", "adapters": "peft"}.get(name, "torch"))
    settings = OPTIMIZERS[name]()
    model = translator(SIZES, recompute=False, frozen=True).train()
    optimizer = settings.build(model)
    counted = count(model, settings, **SHAPE)
    speech, prefix = batch()
    loss_of(model, speech, prefix, prefix.values).backward()
    optimizer.step()
    assert counted["parameters"] == size(model.parameters())
    assert counted["gradients"] == size(p.grad for p in model.parameters() if p.grad is not None)
    moments = ("exp_avg", "exp_avg_sq", "state1", "state2", "absmax1", "absmax2")
    states = optimizer.state.values()
    assert counted["moments"] == size(state[name] for state in states for name in moments if name in state)
    assert len(states) == sum(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize(("recompute", "name"), [(False, "all"), (True, "all"), (False, "adapters")])
def test_activations_without_content_are_what_a_real_pass_leaves_in_memory(recompute, name):
    pytest.importorskip("peft" if name == "adapters" else "torch")
    with FakeTensorMode(allow_non_fake_inputs=True):
        model, settings = translator(SIZES, recompute=recompute, frozen=True).train(), OPTIMIZERS[name]()
        choose(model, settings)
        counted = count(model, settings, **SHAPE)["activations"]
    model = translator(SIZES, recompute=recompute, frozen=True).train()
    OPTIMIZERS[name]().groups(model)
    speech, prefix = batch()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen, autocast():
        loss = loss_of(model, speech, prefix, prefix.values)
    left = sum(event.self_cpu_memory_usage for event in seen.key_averages())  # allocated and not given back
    assert loss.requires_grad
    # a layer that is to be computed again keeps a random state of 5 kB and its masks, too: nothing at full size
    assert counted == pytest.approx(left, rel=0.02, abs=10_000 * 5 if recompute else None)
