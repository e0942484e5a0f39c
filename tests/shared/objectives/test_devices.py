"""A step on a GPU: nothing of it stands on another device, and nothing of its forward pass waits for the GPU.

Made-up CUDA tensors show it without a GPU: operations on two devices, and reading a value, are errors for them.
"""

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from dragoman.shared.batch import Batch
from dragoman.shared.nn.specaugment import SpecAugment
from dragoman.shared.padded import Padded
from tests.gpu.conftest import speech_batch, speech_objective


def on_gpu(tensor):
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda")


def moved(field):
    return Padded(on_gpu(field.values), on_gpu(field.lengths))


@pytest.fixture
def no_values():
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        yield mode


def test_reading_a_value_and_mixing_devices_would_be_noticed(no_values):
    values = torch.empty(3, device="cuda")
    with pytest.raises(DataDependentOutputException):
        values.sum().item()
    with pytest.raises(RuntimeError, match="two (different )?devices"):
        values + torch.empty(3)


def test_features_masks_model_and_loss_stay_on_the_device_and_never_wait():
    objective = speech_objective()
    del objective.parts[1]  # torch's CTC reads the lengths
    batch = speech_batch()
    with FakeTensorMode(allow_non_fake_inputs=True):
        for module in objective.modules():
            for name, parameter in module.named_parameters(recurse=False):
                setattr(module, name, torch.nn.Parameter(on_gpu(parameter)))
            for name, buffer in module.named_buffers(recurse=False):
                module.register_buffer(name, on_gpu(buffer))
        fields = {name: moved(field) for name, field in batch.fields.items()}
        hidden = SpecAugment()(moved(Padded(torch.zeros(5, 50, 80), torch.zeros(5, dtype=torch.int64))))
        assert hidden.values.device.type == "cuda"
        there = Batch(fields, ids=batch.ids)
        total = objective.train()(there).total(objective.counts(there))
        assert total.device.type == "cuda"
