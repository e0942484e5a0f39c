"""The probabilities that search uses, from a model's logits, against the formula in double precision."""

import pytest
import torch

from shared.generator import normalised


@pytest.mark.parametrize("vocabulary", [7, 32000, 2**20 + 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_normalised_scores_are_logarithms_of_probabilities(vocabulary: int, dtype: torch.dtype) -> None:
    torch.manual_seed(vocabulary)
    logits = (torch.randn(5, vocabulary) * 4).to(dtype)
    logits[1, 2:5] = float("-inf")
    expected = logits.double() - logits.double().exp().sum(1, keepdim=True).log()
    found = normalised(logits)
    assert found.dtype == torch.float32
    assert (found.data_ptr() == logits.data_ptr()) == (dtype == torch.float32)  # no room is asked for twice
    torch.testing.assert_close(found.double(), expected, atol=3e-4, rtol=1e-5)
