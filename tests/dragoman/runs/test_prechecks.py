"""Faults found before the first phase: wrong numbers of all objects, missing splits, missing folders."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from dragoman import DataError, Recipe, UsageError
from dragoman.runs.prechecks import check_values
from dragoman.runs.running import run_recipe
from dragoman.shared.recipe.values import LookedAt, Trial
from tests.small import refusal, refuses

HEADER = "id\tsource_text\ttarget_text\n"
NUMBERS = [
    *("learning_rate", "label_smoothing", "dropout", "max_grad_norm", "optimizer.eps", "optimizer.weight_decay"),
    *("optimizer.betas.0", "mixture_alpha", "length_penalty", "stream.filter.maximum_ratio", "phases.tokenizer.alpha"),
]
AT_LEAST_ONE = [
    *("batch_tokens", "maximum_tokens", "evaluation_budget.tokens", "updates", "warmup", "learning_rate", "beam"),
    *("encoder_layers", "grad_accumulation_factor", "validate_every"),
]
AT_LEAST_ZERO = [
    *("max_grad_norm", "optimizer.weight_decay", "mixture_alpha", "workers", "rules.minimum_length"),
    *("validation.first", "validation.limit", "validation.patience"),
]
TINY = {"width": 16, "heads": 2, "feedforward": 16, "encoder_layers": 1, "decoder_layers": 1, "pieces": 300}


@pytest.fixture
def own(tmp_path):
    """Return a function that loads own/mt on tables that nothing has been made of."""
    for split in ("train", "dev", "test"):
        rows = "".join(f"{split}{n}\tnumber {n} of {split}\tNummer {n} von {split}\n" for n in range(20))
        (tmp_path / f"{split}.tsv").write_text(HEADER + rows)

    def load(name: str = "own/mt", **changes) -> Recipe:
        given = {"data_folder": str(tmp_path), "source_language": "en", "target_language": "de", "device": "cpu"}
        given |= {"results_folder": str(tmp_path / "results"), "noprogressbar": True, **TINY}
        return Recipe.load(name, given | changes)

    return load


@pytest.mark.parametrize(
    "key, value",
    [
        *[("average", "last 0"), ("average", "best -1"), ("heads", 3), ("pieces", 200), ("piece_kind", "words")],
        *[("optimizer.betas", [0.9, 1.0]), ("phases.tokenizer.normalisation", "nfd"), ("optimizer.eps", -1e-8)],
        *[("label_smoothing", 1.5), ("dropout", 1.5), ("phases.tokenizer.alpha", 2), ("piece_coverage", 0.5)],
        *[("encoder_layers", 1_000_000), ("width", 1_000_000_000), ("feedforward", 10**15)],
        *((key, ["blue"]) for key in ("metrics", "validation_metrics")),
        *((key, 0) for key in AT_LEAST_ONE),
        *((key, -1) for key in AT_LEAST_ZERO),
        *((key, value) for key in NUMBERS for value in (math.nan, math.inf, -math.inf)),
        *((key, 10**22) for key in ("batch_tokens", "maximum_tokens", "pieces", "updates", "seed", "validate_every")),
    ],
)
def test_a_wrong_value_is_refused_before_the_first_phase(own, tmp_path, key, value):
    said = refusal(UsageError, lambda: run_recipe(own(**{key: value})))
    assert "\n" not in said and "nothing uses" not in said
    assert not (tmp_path / "manifests").exists()


def test_a_weight_of_a_language_model_is_refused_before_the_recipes_that_train(tmp_path):
    recipe = Recipe.load("almanac/lm", {"results_folder": str(tmp_path), "lm_weight": -0.5, "device": "cpu"})
    refuses(UsageError, r"lm_weight: must be above 0 and at most 10,000, not -0\.5 .*: --lm_weight", run_recipe, recipe)
    assert not [place for place in tmp_path.rglob("*") if place.is_file()]


def test_right_values_are_no_problem_and_nothing_is_written(own, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    check_values(own(), "cpu")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_recipe_inside_another_may_read_what_another_phase_has_written(tmp_path):
    """almanac/mt_from_lms: the source's language model has the tokenizer of the target's."""
    given = {"results_folder": str(tmp_path), "data_folder": str(tmp_path / "data"), "device": "cpu"}
    check_values(Recipe.load("almanac/mt_from_lms", given), "cpu")
    wrong = Recipe.load("almanac/mt_from_lms", given | {"phases.source_lm.tokenizer_file": f"{tmp_path}/nobody.model"})
    refuses(DataError, r"nobody\.model: no such tokenizer model", check_values, wrong, "cpu")


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_a_split_that_a_later_phase_needs_is_missed_before_the_first(own, tmp_path, split):
    (tmp_path / f"{split}.tsv").unlink()
    others = ", ".join(f"{other}.arrow" for other in ("train", "dev", "test") if other != split)
    advice = "put it there" if split == "train" else f"put {split} beside .*, or draw it from that with --split 0.02"
    left_out = r"; --phases\.evaluate null leaves the phase out" if split == "test" else "[^;]*"
    message = rf"manifests/{split}\.arrow: phase '\w+' reads .*: the data has only {others}; {advice}{left_out}$"
    refuses(DataError, message, run_recipe, own())
    assert not (tmp_path / "manifests").exists()


@pytest.mark.parametrize("key", ["tests", "dev", "train"])
@pytest.mark.parametrize("value", ["nothing", "nothing.arrow", "other/test.arrow", "manifests/tests.arrow"])
def test_a_manifest_that_nobody_writes_is_missed_before_the_first_phase(own, tmp_path, key, value):
    with pytest.raises(DataError, match=rf"^{value}: phase '\w+' reads this manifest, which is not there"):
        run_recipe(own(**{key: [value]}))
    assert not (tmp_path / "manifests").exists()


def test_phases_that_are_not_to_run_need_nothing(own, tmp_path):
    (tmp_path / "test.tsv").unlink()
    run_recipe(own(), until="prepare")
    assert (tmp_path / "manifests" / "train.arrow").is_file()


def test_a_manifest_that_is_there_already_needs_no_writer(own, tmp_path):
    run_recipe(own(), until="prepare")
    (tmp_path / "test.tsv").unlink()
    check_values(own(), "cpu")
    (tmp_path / "manifests" / "test.arrow").unlink()
    refuses(DataError, r"manifests/test\.arrow", check_values, own(), "cpu")


def test_a_model_folder_that_nothing_writes_is_missed_before_the_first_phase(own, tmp_path):
    for language, word in (("en", "number"), ("de", "Nummer")):
        for split in ("train", "dev", "test"):
            (tmp_path / f"{split}.{language}").write_text("".join(f"{word} {n}\n" for n in range(20)))
    given = {"data_folder": str(tmp_path), "source_language": "en", "target_language": "de", "device": "cpu"}
    given |= {"results_folder": str(tmp_path / "results"), "manifest_folder": str(tmp_path / "manifests")}
    recipe = Recipe.load("text/finetune", given | {"model_folder": str(tmp_path / "nowhere")})
    refuses(DataError, rf"{tmp_path}/nowhere: not a model folder", run_recipe, recipe)
    assert not (tmp_path / "manifests").exists()


LINEAR = "!new:shared.training.schedules.Linear {peak: 1.0, total: !ref <updates>, warmup: !ref <warmup>}"


class Reads:
    def __init__(self, *, file: str) -> None:
        if not Path(file).is_file():
            raise DataError(f"{file}: no such file")
        self.size = 3


class Asks:
    def __init__(self, *, part: Reads, number: int) -> None:
        if part.size > 2 and number < 1:
            raise UsageError(f"number must be positive, not {number}")


class Looks:
    def __init__(self, *, part: Reads, number: int) -> None:
        if number < 1 or not isinstance(part, Reads):
            raise UsageError(f"number must be positive, not {number}")


def trial(tmp_path: Path, kind: type, number: int) -> Trial:
    file = tmp_path / "recipe.yaml"
    name = f"{__name__}.{kind.__name__}"
    part = f"!new:{__name__}.Reads {{file: {tmp_path}/later.txt}}"
    file.write_text(f"output_folder: x\nphases:\n  fit: !new:{name} {{part: {part}, number: {number}}}\n")
    recipe = Recipe.load(file)
    return Trial(recipe.plan["fit"].node)


def test_a_number_is_refused_although_a_part_is_missing(tmp_path):
    said = r"recipe\.yaml:3: phases\.fit: .*Looks: number must be positive, not 0"
    refuses(UsageError, said, trial, tmp_path, Looks, 0)


@pytest.mark.parametrize("kind", [Asks, Looks])
def test_what_asks_a_missing_part_is_missing_itself_and_nobody_is_blamed(tmp_path, kind):
    found = trial(tmp_path, kind, 1)
    assert found.result is None
    assert [str(error) for _, error in found.unreadable] == [f"{tmp_path}/later.txt: no such file"]


def test_a_missing_part_gives_nothing_away(tmp_path):
    missing = trial(tmp_path, Asks, 1)._built
    (part,) = [built for node, built in missing.values() if node.path.endswith("Reads")]
    for look in (str, len, bool, list, int, hash, lambda x: x.size, lambda x: x == 1, lambda x: isinstance(x, int)):
        with pytest.raises(LookedAt):
            look(part)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"updates": 100, "schedule": LINEAR},
            "end before total, which is 100, not at 4000 (total is the key updates)",
        ),
        ({"learning_rate": -1}, "InverseSquareRoot), written at command line: --learning_rate"),
        ({"optimizer.lr": 1}, "has no argument 'lr' (the key is 'learning_rate')"),
        ({"optimizer.weight_decay": math.nan}, "--optimizer.weight_decay: must be a finite number at least 0, not nan"),
        ({"batch_tokens": 10**22}, "64 bits (shared.batches.stream.Budget), written at command line: --batch_tokens"),
        ({"seed": 10**22}, "--seed: 10000000000000000000000 is a number of more than 64 bits"),
    ],
)
def test_a_message_names_the_key_that_a_person_can_give(own, changes, message):
    assert message in refusal(UsageError, lambda: run_recipe(own(**changes)))


def test_a_number_that_references_compute_is_checked_too(own):
    said = r"must be a finite number above 0, not inf .*written at .*: --learning_rate"
    refuses(UsageError, said, lambda: run_recipe(own(learning_rate="!ref <dropout> * 1.0e308 * 1.0e10")))
