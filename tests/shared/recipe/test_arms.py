"""Arms: an arm is what the command line would say in its place, with a name and a folder."""

from __future__ import annotations

import pytest

from dragoman import Recipe, UsageError
from tests.small import refuses

INNER = """\
output_folder: runs/inner/<seed>
size: 1
phases:
    prepare: !new:tests.shared.recipe_parts.Free {x: !ref <size>}
"""
BASE = """\
output_folder: !ref runs/mine/<seed>
rate: 0.5
slab: !new:tests.shared.recipe_parts.Slab
    size: 8
    dropout: 0.1
group: {size: 5}
phases:
    inner: !new:dragoman.runs.RunRecipe
        recipe: inner.yaml
        overrides: [!ref <group>, {output_folder: !ref <output_folder>-inner}]
    fit: !new:tests.shared.recipe_parts.Free
        x: {rate: !ref <rate>, slab: !ref <slab>, parts: [a, b]}
arms:
    slow: {rate: 0.25}
    gone: {rate: 0.1}
"""
RECIPE = """\
base: base.yaml
extra: [c]
share: 0.75
arms:
    small: {slab.size: 4, slab.dropout: 0.0, phases.fit.x.parts: !ref <extra>}
    alone: {phases.inner: null, rate: !ref <share>}
    inner: {phases.inner.size: 7}
    gone: null
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner.yaml").write_text(INNER)
    (tmp_path / "base.yaml").write_text(BASE)

    def load(*words: str, text: str = RECIPE) -> Recipe:
        (tmp_path / "mine.yaml").write_text(text)
        return Recipe.load("mine.yaml", words)

    return load


SAME = [
    ("small", ["--slab.size", "4", "--slab.dropout", "0.0", "--phases.fit.x.parts", "!ref <extra>"]),
    ("alone", ["--phases.inner", "null", "--rate", "!ref <share>"]),
    ("inner", ["--phases.inner.size", "7"]),
    ("slow", ["--rate", "0.25"]),
]


@pytest.mark.parametrize(("arm", "words"), SAME)
def test_an_arm_is_what_the_command_line_says_in_its_place(load, arm, words):
    named, written = load("--arm", arm), load(*words, "--output_folder", f"runs/mine-{arm}/<seed>-mine")
    named.check()
    assert named.phases == written.phases
    assert all(named.plan[phase].plain == written.plan[phase].plain for phase in named.phases if phase != "inner")
    assert named.arm == arm and named.changed == {} and written.arm == ""


def test_each_has_a_folder_of_its_own(load):
    assert load().value("output_folder") == "runs/mine/1-mine"
    assert load("--arm", "slow", "--seed", "2").value("output_folder") == "runs/mine-slow/2-mine"
    assert load("--arm=slow", "--run", "again").value("output_folder") == "runs/mine-slow-again/1-mine"
    assert load("--arm", "slow", "--output_folder", "x").value("output_folder") == "x"
    assert load("--arm", "inner").plan["inner"].inner.value("output_folder") == "runs/mine-inner/1-mine-inner"


def test_the_command_line_comes_later(load):
    recipe = load("--arm", "small", "--slab.size", "3")
    [arguments] = recipe.plan["fit"].plain.values()
    assert arguments["x"]["slab"] == {"!new:tests.shared.recipe_parts.Slab": {"size": 3, "dropout": 0.0}}
    assert recipe.changed == {"slab.size": 3}


def test_arms_of_a_base_are_arms_of_the_recipe(load):
    assert {*load().arms} == {"slow", "small", "alone", "inner"}
    refuses(UsageError, r"command line: --arm 'gone': no such arm \(did you mean 'alone'\?\)", load, "--arm", "gone")
    refuses(UsageError, "--arm 'slow': no such arm: the recipe has no arms", load, "--arm", "slow", text=INNER)


def test_what_a_run_writes_down_has_no_arms(load):
    assert "arms" not in load().text() and "arms" not in load("--arm", "slow").text()
    assert "small:" in load().shown() and "small:" not in load("--arm", "slow").shown()
    assert "rate: 0.25" in load("--arm", "slow").text()
    [line] = [line for line in load("--arm", "slow").shown().splitlines() if line.startswith("rate: 0.25")]
    assert line.endswith("# --arm slow (base.yaml:14)")


def test_a_key_that_only_arms_use(load):
    load().check()  # share and extra
    load("--arm", "slow").check()
    refuses(UsageError, "mine.yaml:9: other: nothing uses this key", load(text=RECIPE + "other: 3\n").check)


OUTER = """\
output_folder: runs/outer/<seed>
rate: 0.1
phases:
    mine: !new:dragoman.runs.RunRecipe
        recipe: mine.yaml
        overrides: {extra: [d]}
    fit: !new:tests.shared.recipe_parts.Free {x: !ref <rate>}
arms:
    slow: {phases.mine.arm: slow}
    gone: {phases.mine.arm: gone}
"""


def test_a_recipe_runs_an_arm_of_another_one(load, tmp_path):
    written = load("--rate", "0.25")
    (tmp_path / "outer.yaml").write_text(OUTER)
    for words in (["--arm", "slow"], ["--phases.mine.arm", "slow"]):
        recipe = Recipe.load("outer.yaml", words)
        recipe.check()
        inner = recipe.plan["mine"].inner
        assert inner.arm == "slow" and inner.value("output_folder") == "runs/mine-slow/1-mine"
        assert inner.plan["fit"].plain == written.plan["fit"].plain
        built = recipe.plan["mine"].build().recipe
        assert built.arm == "slow" and built.value("extra") == ["d"] and built.value("rate") == 0.25
    assert Recipe.load("outer.yaml").plan["mine"].inner.value("rate") == 0.5
    for words, place in ((["--arm"], r"--arm gone \(outer.yaml:10\)"), (["--phases.mine.arm"], "command line")):
        refuses(
            UsageError, rf"^{place}: .*\.arm 'gone': no such arm", Recipe.load("outer.yaml", [*words, "gone"]).check
        )


OTHER = """\
base: deeper.yaml
size: 3
results_folder: runs/other
phases:
    more: !new:tests.shared.recipe_parts.Free {x: !ref <size>}
    fit: {}
arms:
    brought: {size: 9}
"""
LAID = """\
base: base.yaml
results_folder: runs/mine
output_folder: !ref <results_folder>/laid/<seed>
arms:
    other:
        base: other.yaml
        share: 0.75
        phases.fit.x.rate: !ref <share>
        phases: {last: !new:tests.shared.recipe_parts.Free {x: !ref <deep>}}
        arms:
            within: {deep: 6}
    slow: {extra: 1, phases.fit.x.parts: !ref <extra>}
"""


@pytest.fixture
def laid(load, tmp_path):
    (tmp_path / "laid").mkdir()
    (tmp_path / "laid" / "other.yaml").write_text(OTHER)
    (tmp_path / "laid" / "deeper.yaml").write_text("deep: 5\nsize: 2\n")
    (tmp_path / "laid" / "mine.yaml").write_text(LAID.replace("base.yaml", "../base.yaml"))
    load()  # writes what they go on from
    return lambda *words: Recipe.load("laid/mine.yaml", words)


def test_an_arm_is_laid_over_its_recipe_with_its_bases(laid, tmp_path):
    """The same as a recipe over both, whose phases stand where that recipe would have them."""
    whole = LAID[: LAID.index("arms:")].replace("base: base.yaml", "base: [laid/mine.yaml, laid/other.yaml]")
    whole += "share: 0.75\nphases:\n    fit: {x: {rate: !ref <share>}}\n"
    whole += "    last: !new:tests.shared.recipe_parts.Free {x: !ref <deep>}\n"
    (tmp_path / "whole.yaml").write_text(whole.replace("results_folder: runs/mine\n", ""))
    named, written = laid("--arm", "other"), Recipe.load("whole.yaml")
    named.check()
    assert named.phases == written.phases == ["inner", "more", "fit", "last"]
    assert [named.plan[name].plain for name in ("more", "fit", "last")] == [
        {"!new:tests.shared.recipe_parts.Free": {"x": 3}},
        {"!new:tests.shared.recipe_parts.Free": {"x": {"rate": 0.75, "slab": slab(), "parts": ["a", "b"]}}},
        {"!new:tests.shared.recipe_parts.Free": {"x": 5}},
    ]
    assert all(named.plan[name].plain == written.plan[name].plain for name in ("more", "fit", "last"))
    laid().check()  # without what the arm brings


def slab():
    return {"!new:tests.shared.recipe_parts.Slab": {"size": 8, "dropout": 0.1}}


def test_arms_are_laid_over_each_other(laid):
    recipe = laid("--arm", "other+slow")
    recipe.check()
    [arguments] = recipe.plan["fit"].plain.values()
    assert (arguments["x"]["rate"], arguments["x"]["parts"]) == (
        0.75,
        1,
    )  # slow changes the key that other has replaced
    assert recipe.value("rate") == 0.25 and recipe.arm == "other+slow"
    assert laid().arms == ["other", "other+within", "slow", "gone"]
    assert laid("--arm", "other+within").value("deep") == 6
    assert laid("--arm", "other+brought").value("size") == 9  # an arm of its base
    for name, said in (("within", "within"), ("slow+within", "within"), ("other+", ""), ("other+slwo", "slwo")):
        refuses(UsageError, f"command line: --arm '{said}': no such arm", laid, "--arm", name)


def test_a_key_of_an_arm_may_lose_its_use_by_another_arm_alone(load):
    text = "base: base.yaml\narms:\n    a: {more: 1, phases.fit.x.parts: !ref <more>}\n    c: {share: 1}\n"
    text += "    b: {phases.fit.x.parts: []}\n"
    load("--arm", "a+b", text=text).check()
    for arm in ("c", "c+b", "b+c"):
        refuses(UsageError, "--arm c .*: nothing uses this key", load("--arm", arm, text=text).check)


def test_each_arm_is_put_into_the_folder_unless_results_have_another(laid):
    assert laid("--arm", "gone+slow").value("output_folder") == "runs/mine/laid-gone-slow/1"
    assert laid("--arm", "other").value("output_folder") == "runs/other/laid/1"
    assert laid("--arm", "other", "--results_folder", "here").value("output_folder") == "here/laid-other/1"
    all_three = laid("--arm", "slow+other+gone", "--run", "again")
    assert all_three.value("output_folder") == "runs/other/laid-slow-gone-again/1"


def test_what_gives_results_a_folder_that_the_run_is_not_in_has_its_name_put_in(load):
    text = "base: base.yaml\nresults_folder: a\nrate: !ref <results_folder>\narms: {other: {results_folder: b}}\n"
    assert load("--arm", "other", text=text).value("output_folder") == "runs/mine-other/1-mine"


def test_a_recipe_that_an_arm_runs_is_seen_from_its_file(load, tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "second.yaml").write_text(INNER.replace("runs/inner", "runs/second"))
    text = "base: ../base.yaml\narms: {a: {phases: {inner: {recipe: second.yaml}}}}\n"
    (tmp_path / "deep" / "mine.yaml").write_text(text)
    load()  # writes what it goes on from
    assert Recipe.load("deep/mine.yaml", {"arm": "a"}).plan["inner"].inner.source == "deep/second.yaml"
    assert Recipe.load("deep/mine.yaml").plan["inner"].inner.source == "inner.yaml"


def test_a_base_that_lies_below_already_stays_there(load):
    text = "base: base.yaml\nrate: 3.0\narms: {a: {base: base.yaml, group.size: 6}}\n"
    assert load("--arm", "a", text=text).value("rate") == 3.0


WRONG = [
    ("arms: {a: {base: none.yaml}}", r"mine.yaml:1: arms.a.base: no file 'none.yaml' beside the recipe"),
    ("arms: {a: {base: mine.yaml}}", r"base recipes include each other in a circle"),
    ("arms: {a: {arms: {b: 3}}}", r"--arm a \(mine.yaml:1\): arms.b: an arm is a mapping of keys"),
    ("arms: {a: {phases: {other: 3, fit: {}, inner: {}}}}", "these phases have another order in base.yaml"),
    ("arms: {b: {base: base.yaml, arms: {a: {rate: 3}}}}", "--arm 'a': no such arm"),
    ("arms: [a]", "mine.yaml:1: arms: is a mapping of the arms' names"),
    ("arms: {a: 3}", r"arms.a: an arm is a mapping of keys"),
    ("arms: {a: {}}", r"arms.a: an arm is a mapping of keys"),
    ("arms: {a: {output_folder: x}}", "arms.a.output_folder: an arm has this from its recipe"),
    ("arms: {a: {seed: 3}}", "arms.a.seed: an arm has this from its recipe"),
    ("arms: {a: {raet: 3}}", r"--arm a \(mine.yaml:1\): raet: nothing uses this key \(did you mean 'rate'\?\)"),
    ("arms: {a: {rate: !ref <nothing>}}", r" \(mine.yaml:1\): rate: !ref <nothing>: no key 'nothing'"),
    ("arms: {a: {slab.size: many}}", r"--arm a \(mine.yaml:1\): slab.size: .*int"),
    ("arms: {a: {slab.more: 2}}", r"--arm a \(mine.yaml:1\): slab.more: .* has no argument 'more'"),
    ("arms: {a/b: {rate: 3}}", "--arm 'a/b': becomes a part of a folder's name"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_what_is_no_arm(load, text, message):
    with pytest.raises(UsageError, match=message):
        load("--arm", "a/b" if "a/b" in text else "a", text=f"{text}\nbase: base.yaml\n").check()
