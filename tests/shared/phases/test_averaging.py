"""Averages of checkpoints: exact means of the system's tensors."""

from fractions import Fraction

import torch

from shared.phases.averaging import average
from shared.training.checkpoints import Checkpoints, list_checkpoints
from tests.shared.training.test_checkpoints import save


def test_average_is_the_mean_of_the_system(tmp_path):
    checkpoints = Checkpoints(keep="last 3")
    for update, value in enumerate([1.0, 2.0, 6.0], start=1):
        save(checkpoints, tmp_path, update, value=value)
    assert average(list_checkpoints(tmp_path))["weight"].tolist() == [[3.0, 3.0]]


def test_average_is_exact_where_float32_would_lose_small_numbers(tmp_path):
    """2**-24 vanishes beside 1 in float32; two of them do not in the mean."""
    checkpoints = Checkpoints(keep="last 3")
    values = [1.0, 2.0**-24, 2.0**-24]
    for update, value in enumerate(values, start=1):
        save(checkpoints, tmp_path, update, value=value)
    exact = float(sum(map(Fraction, values)) / 3)
    mean = average(list_checkpoints(tmp_path))["weight"]
    assert mean.dtype == torch.float32
    assert mean.tolist() == torch.tensor([[exact, exact]], dtype=torch.float64).float().tolist()
    assert mean[0, 0] != torch.tensor(1.0) / 3
