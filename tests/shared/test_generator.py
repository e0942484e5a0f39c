"""What search makes of a model's logits, against the formula in double precision."""

import pytest
import torch

from shared.generator import AT_ONCE, normalised


@pytest.mark.parametrize("vocabulary", [7, AT_ONCE // 2, AT_ONCE + 1])  # all rows together, two, one at a time
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_normalised_scores_are_logarithms_of_probabilities(vocabulary: int, dtype: torch.dtype) -> None:
    torch.manual_seed(vocabulary)
    logits = (torch.randn(5, vocabulary) * 4).to(dtype)
    logits[1, 2:5] = float("-inf")
    expected = logits.double() - logits.double().exp().sum(1, keepdim=True).log()
    found = normalised(logits)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, atol=3e-4, rtol=1e-5)
