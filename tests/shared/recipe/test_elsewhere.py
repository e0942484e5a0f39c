"""Users of other toolkits are led to the key that they mean."""

import pytest

from dragoman import Recipe, UsageError
from tests.small import refuses

CASES = [
    ("own/mt", "lr", "learning_rate"),
    ("own/mt", "max-tokens", "batch_tokens"),
    ("own/st", "max_tokens", "batch_seconds"),
    ("own/mt", "update-freq", "grad_accumulation_factor"),
    ("own/mt", "warmup_updates", "warmup"),
    ("own/mt", "encoder_embed_dim", "width"),
    ("own/mt", "save_dir", "output_folder"),
    ("own/st", "accum_grad", "grad_accumulation_factor"),
    ("own/st", "lsm_weight", "label_smoothing"),
    ("own/st", "number_of_epochs", "updates"),
    ("own/mt", "num_train_epochs", "updates"),
    ("own/mt", "fp16", "precision"),
    ("own/st", "mtlalpha", "ctc_weight"),
    ("own/mt", "adam_betas", "optimizer.betas"),
    ("own/mt", "adam-eps", "optimizer.eps"),
    ("own/mt", "criterion", "objective"),
    ("own/mt", "max_len_a", "rules.maximum_length_ratio"),
    ("own/mt", "max-len-b", "rules.maximum_length_extra"),
    ("own/st", "lm_weight", "phases.evaluate.lm_weight"),
    ("own/mt", "finetune-from-model", "phases.fit.initialise"),
    ("own/st", "load-pretrained-encoder-from", "phases.fit.initialise"),
    ("own/mt", "patience", "validation.patience"),
    ("own/mt", "no_repeat_ngram_size", "rules.bans"),
    ("own/mt", "lr_scheduler", "schedule"),
    ("own/st", "report_to", "trackers"),
]
FILLED = {"data_folder": "there", "source_language": "en", "target_language": "de"}
PATHS = [
    ("optimizer.betas", [0.9, 0.999]),
    ("optimizer.eps", 1e-6),
    ("rules.maximum_length_ratio", 1.2),
    ("rules.maximum_length_extra", 10),
    ("rules.minimum_length", 2),
    ("phases.evaluate.lm_weight", 0.2),
    ("phases.evaluate.language_model", "lm"),
    ("validation.patience", 3),
]


@pytest.mark.parametrize(("recipe", "given", "meant"), CASES)
def test_the_key_of_another_toolkit(recipe, given, meant):
    with pytest.raises(UsageError, match=rf"--{given}: no such key \(did you mean '{meant}'\?\)$"):
        Recipe.load(recipe, [f"--{given}", "1"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("arch", r" \(a recipe says it: `dragoman recipes` lists them\)"),
        (
            "use_tensorboard",
            r" \(with TensorBoard installed, every run writes its files, into FIT_FOLDER/tensorboard\)",
        ),
        ("resume_from_checkpoint", r" \(the same command once more goes on where a run was stopped\)"),
        ("mtlalpha", ""),  # this recipe has no CTC, and a mixture is something else
    ],
)
def test_what_is_no_key_of_this_recipe(given, said):
    refuses(UsageError, rf"--{given}: no such key{said}$", Recipe.load, "own/mt", [f"--{given}", "1"])


@pytest.mark.parametrize("given", ["lm_weight", "lm_file"])
def test_a_phase_that_is_switched_off_has_no_arguments(given):
    """The recipe accepts each key that a message suggests."""
    refuses(UsageError, rf"--{given}: no such key$", Recipe.load, "almanac/mlm", [f"--{given}", "1"])


@pytest.mark.parametrize(("name", "values"), PATHS)
def test_the_suggested_path_is_one_of_a_recipe(name, values):
    """A suggested argument that the recipe does not give is accepted, too."""
    recipe = Recipe.load("own/mt", {name: values})
    assert recipe.changed == {name: values}
    Recipe.load("own/mt", FILLED | {name: values}).check()
