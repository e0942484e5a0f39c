"""Users of other toolkits are led to the key that they mean."""

import pytest

from shared.errors import UsageError
from shared.recipe.recipe import Recipe

CASES = [
    ("own/mt", "lr", "learning_rate"),
    ("own/mt", "max-tokens", "batch_tokens"),
    ("own/st", "max_tokens", "batch_seconds"),
    ("own/mt", "update-freq", "grad_accumulation_factor"),
    ("own/mt", "warmup_updates", "warmup"),
    ("own/mt", "encoder_embed_dim", "width"),
    ("own/mt", "save_dir", "output_folder"),
    ("own/st", "accum_grad", "grad_accumulation_factor"),
    ("own/st", "lsm_weight", "smoothing"),
    ("own/st", "number_of_epochs", "updates"),
    ("own/mt", "num_train_epochs", "updates"),
    ("own/mt", "fp16", "precision"),
]


@pytest.mark.parametrize(("recipe", "given", "meant"), CASES)
def test_the_key_of_another_toolkit(recipe, given, meant):
    with pytest.raises(UsageError, match=rf"--{given}: no such key \(did you mean '{meant}'\?\)$"):
        Recipe.load(recipe, [f"--{given}", "1"])
