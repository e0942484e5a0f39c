"""Recipes: what is built is what HyperPyYAML builds; what is wrong is refused in one line that says where."""

from __future__ import annotations

import io
import json
import math
import re
from pathlib import Path

import pytest
from hyperpyyaml import load_hyperpyyaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dragoman.shared.recipe.locations
from dragoman import DataError, Recipe, UsageError
from dragoman.shared.recipe.run_keys import OPTIONS
from tests.shared import recipe_parts as parts
from tests.small import examples, refusal, refuses

GOOD = """\
# Somebody and others, 2024, section 3
# dragoman run good.yaml --output_folder runs/good

output_folder: !PLACEHOLDER  # where the run happens
seed: 3
d_model: 16
rate: 1e-4  # at the peak

layer: !new:parts.Slab
  size: !ref <d_model> * 2
  dropout: 0.1
model: !new:parts.Model
  layers: [!ref <layer>, !ref <layer>, !copy <layer>]
  shape: (3, 4)
  free: {text: "(Applause)", scale: !ref <d_model> / 5, seventeen: !name:parts.CONSTANT }
  folder: !ref <output_folder>/x<seed>

phases:
  fit: !new:parts.Fit
    model: !ref <model>
    copy: !ref <model>
    rate: !ref <rate>
  open: !new:parts.Open
    file: !ref <output_folder>/fit/there
"""


def whole(text: str) -> str:
    """Return a text with the place of the classes in full."""
    return text.replace(":parts.", ":tests.shared.recipe_parts.")


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str, name: str = "good.yaml") -> Path:
        (tmp_path / name).write_text(whole(text), encoding="utf-8", errors="surrogateescape")
        return tmp_path / name

    return write


@pytest.fixture
def load(write, tmp_path: Path):
    def load(text: str = GOOD, *overrides: str) -> Recipe:
        return Recipe.load(write(text), ["--output_folder", str(tmp_path / "out"), *map(whole, overrides)])

    return load


@pytest.fixture
def check(load):
    return lambda *given: load(*given).check()


def test_builds_what_hyperpyyaml_builds(load, tmp_path):
    fit = load().plan["fit"].build()
    theirs = load_hyperpyyaml(whole(GOOD).split("  open:")[0], {"output_folder": str(tmp_path / "out")})
    expected = theirs["phases"]["fit"]
    assert fit.rate == expected.rate == 1e-4
    assert [vars(layer) for layer in fit.model.layers] == [vars(layer) for layer in expected.model.layers]
    assert fit.model.shape == expected.model.shape == (3, 4)
    assert fit.model.folder == expected.model.folder == f"{tmp_path}/out/x3"
    assert fit.model.free == {"text": "(Applause)", "scale": 3.2, "seventeen": 17}  # HyperPyYAML makes text a tuple
    first, second, third = fit.model.layers
    assert fit.model is fit.copy and first is second and third is not first


def test_phases_are_built_one_at_a_time(load, tmp_path):
    recipe = load()
    parts.BUILT.clear()
    recipe.check()
    assert parts.BUILT == []
    refuses(DataError, "no such file", recipe.plan["open"].build)
    assert parts.BUILT == []
    (tmp_path / "out" / "fit").mkdir(parents=True)
    (tmp_path / "out" / "fit" / "there").touch()
    assert recipe.plan["open"].build().file == str(tmp_path / "out" / "fit" / "there")
    recipe.plan["fit"].build()
    assert parts.BUILT == ["Slab 32", "Slab 32", "Fit"]


def test_references_may_point_forward_through_each_other_and_to_attributes(load):
    """In angle brackets twice, a name is text."""
    text = GOOD + "first: !ref <second>\nsecond: !ref <third[deep]>\nthird: {deep: !ref <d_model> + 1}\n"
    text = text.replace("rate: !ref <rate>", "rate: !ref <first>")
    fit = load(text.replace("free: {", 'free: {from: !ref <layer.size>, tag: !ref "<<d_model>>", ')).plan["fit"].build()
    assert (fit.rate, fit.model.free["from"], fit.model.free["tag"]) == (17, 32, "<16>")


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=["C"]))


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc_ :#-"), inner)))
@pytest.mark.filterwarnings("ignore")
def test_plain_values_come_through_unchanged(tmp_path, value):
    given = {"output_folder": str(tmp_path), "phases.open.options": {"value": [value, "\n (x) "]}}
    recipe = Recipe.load(_recipe_with(tmp_path), given)
    built = recipe.plan["open"].build().options
    assert _equal(built, {"value": [value, "\n (x) "]})
    again = tmp_path / "again.yaml"
    again.write_text(recipe.text(), encoding="utf-8")
    assert _equal(Recipe.load(again).plan["open"].plain, recipe.plan["open"].plain)


def _recipe_with(folder: Path) -> Path:
    path = folder / "open.yaml"
    (folder / "there").touch()
    text = "output_folder: !PLACEHOLDER\nphases:\n  open: !new:parts.Open\n"
    path.write_text(whole(text) + f"    file: {folder}/there\n    options: 1\n", encoding="utf-8")
    return path


def _equal(a: object, b: object) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    return type(a) is type(b) and a == b


def test_what_a_recipe_says(load, tmp_path):
    recipe = load(GOOD, "--workers", "2", "--debug", "--max_grad_norm=5")
    assert recipe.phases == ["fit", "open"]
    assert recipe.header.splitlines()[0] == "Somebody and others, 2024, section 3"
    assert recipe.name == "good"
    assert (recipe.value("seed"), recipe.value("output_folder")) == (3, str(tmp_path / "out-debug"))
    defaults = {name: default for name, (_, default, _) in OPTIONS.items()}
    assert recipe.options == defaults | {"workers": 2, "debug": True, "max_grad_norm": 5}
    layer = {"!new:tests.shared.recipe_parts.Slab": {"size": 32, "dropout": 0.1}}
    plain = recipe.plan["fit"].plain["!new:tests.shared.recipe_parts.Fit"]
    assert plain["model"]["!new:tests.shared.recipe_parts.Model"]["layers"] == [layer] * 3
    assert json.loads(json.dumps(plain)) == plain


def test_saved_text_is_the_same_recipe(load, write):
    recipe = load(GOOD, "--layer.dropout", "0.3", "--model.shape", "(5, 6)")
    saved = Recipe.load(write(recipe.text(), "saved.yaml"))
    saved.check()
    assert saved.header == recipe.header
    assert saved.plan["fit"].plain == recipe.plan["fit"].plain
    assert saved.text() == recipe.text()
    assert saved.plan["fit"].build().model.shape == (5, 6)


def test_options_may_be_referred_to_without_being_written(load):
    text = GOOD.replace("rate: !ref <rate>", "rate: !ref <max_grad_norm>").replace("rate: 1e-4  # at the peak\n", "")
    recipe = load(text, "--max_grad_norm", "2")
    recipe.check()
    assert recipe.plan["fit"].build().rate == 2


@pytest.mark.parametrize("key", ["max_grad_norm", "grad_accumulation_factor"])
def test_an_option_that_no_phase_refers_to_is_refused(check, key):
    refuses(UsageError, f"command line: --{key}: nothing uses this key", check, GOOD, f"--{key}", "2")
    text = GOOD.replace("seed: 3", f"seed: 3\n{key}: 2")
    refuses(UsageError, rf"good\.yaml:6: {key}: nothing uses this key", check, text)
    check(GOOD, "--workers", "2")  # which the run itself reads


def test_a_change_may_leave_a_key_of_the_recipe_without_use(load, check):
    recipe = load(GOOD, "--phases.fit.rate", "2")
    recipe.check()
    assert "\nrate:" not in recipe.text()
    said = "--rate: nothing uses this key with the other changes of the recipe"
    refuses(UsageError, said, check, GOOD, "--phases.fit.rate", "2", "--rate", "3")


def test_installed_recipes_are_found_by_name(monkeypatch, write, tmp_path):
    (tmp_path / "almanac").mkdir()
    write(GOOD, "almanac/good.yaml")
    write("a: 1\n", "almanac/base.yaml")
    longer = "# A title that goes on\n# in a second line (Them\n# 2020)\n#\n#   dragoman run almanac/longer\n\na: 1\n"
    write(longer, "almanac/longer.yaml")
    monkeypatch.setattr(dragoman.shared.recipe.locations, "files", lambda package: tmp_path)
    assert Recipe.list() == [
        ("almanac/good", "Somebody and others, 2024, section 3"),
        ("almanac/longer", "A title that goes on in a second line (Them 2020)"),
    ]
    monkeypatch.chdir("/")
    for name in ("almanac/good", "almanac/good.yaml", "recipes/almanac/good.yaml", tmp_path / "almanac/good.yaml"):
        assert Recipe.load(name).name == "almanac/good"
    refuses(UsageError, r"no recipe 'almanac/goood'.*did you mean 'almanac/good'", Recipe.load, "almanac/goood")


def test_overrides(load):
    given = ["--layer.dropout", "0.3", "--layer.dropout=0.5", "--d-model", "8", "--layer.gain", "-1"]
    layer = load(GOOD, *given).plan["fit"].build().model.layers[0]
    assert (layer.dropout, layer.size, layer.gain) == (0.5, 16, -1)


def test_overrides_of_lists_objects_and_references(load):
    new = "!new:parts.Inherits {size: !ref <d_model>}"
    recipe = load(GOOD, "--model.layers.1", new, "--model.heads", "{a: !ref <layer>}", "--phases.fit.copy", "null")
    recipe.check()
    fit = recipe.plan["fit"].build()
    assert type(fit.model.layers[1]) is parts.Inherits and fit.model.layers[1].size == 16
    assert fit.model.heads["a"] is fit.model.layers[0]
    assert fit.copy is None


@pytest.mark.parametrize("text", ["a: b", "a #3", "*", "%x", "@", "C:\\x", "yes", "'q' and", "(", "- x", "a\tb", ""])
def test_text_that_is_not_yaml_is_text(load, text):
    if text == "'q' and":
        refuses(UsageError, "not YAML", load, GOOD, "--layer.name", text)
    else:
        assert load(GOOD, "--layer.name", text).plan["fit"].build().model.layers[0].name == text


def test_override_by_mapping(write):
    recipe = Recipe.load(write(GOOD), {"output_folder": Path("a"), "layer": {"size": 5}, "rate": 1, "seed": "7"})
    recipe.check()
    assert (recipe.value("output_folder"), recipe.value("seed")) == ("a", 7)
    assert recipe.plan["fit"].build().model.layers[0].dropout == 0.1


def test_base_recipe(write):
    write(GOOD + "extra: 3\n", "bottom.yaml")
    write("base: bottom.yaml\nrate: 2.0\nlayer: {dropout: 0.2}\n", "base.yaml")
    top = """\
# The top
base: base.yaml
output_folder: out
layer: !new:parts.Slab
  gain: 1.5
model: !new:parts.Model
  layers: [!ref <layer>]
phases:
  first: !new:parts.Open {file: a}
  fit: {updates: 5}
  average: !new:parts.Open {file: b}
  open: null
  last: !new:parts.Open {file: c}
"""
    recipe = Recipe.load(write(top))
    recipe.check()  # "extra" is the base's, and need not be used
    assert recipe.phases == ["first", "fit", "average", "last"]
    fit = recipe.plan["fit"].build()
    assert (fit.updates, fit.rate, len(fit.model.layers)) == (5, 2.0, 1)
    assert vars(fit.model.layers[0]).items() >= {"size": 32, "dropout": 0.2, "gain": 1.5}.items()
    assert "extra" not in recipe.text() and "base:" not in recipe.text()
    assert recipe.header == "The top"
    refuses(UsageError, "--extra: nothing uses this key", Recipe.load(write(top), ["--extra", "4"]).check)


def test_a_base_that_is_reached_twice_lies_below_all_that_name_it(write):
    write(GOOD, "bottom.yaml")
    write("base: bottom.yaml\nrate: 2.0\nphases: {fit: {updates: 7}}\n", "one.yaml")
    write("base: bottom.yaml\nlayer: {dropout: 0.2}\n", "other.yaml")
    for bases in ("one.yaml, other.yaml", "other.yaml, one.yaml", "bottom.yaml, one.yaml, other.yaml"):
        recipe = Recipe.load(write(f"base: [{bases}]\noutput_folder: out\n"))
        fit = recipe.plan["fit"].build()
        assert (fit.rate, fit.model.layers[0].dropout, fit.updates) == (2.0, 0.2, 7)
    write("rate: 3.0\n", "last.yaml")
    assert Recipe.load(write("base: [one.yaml, last.yaml]\noutput_folder: out\n")).plan["fit"].build().rate == 3.0


def test_another_class_takes_no_arguments_from_the_base(write):
    write(GOOD, "base.yaml")
    recipe = Recipe.load(write("base: base.yaml\noutput_folder: o\nlayer: !new:parts.Inherits {size: 1}\n", "top.yaml"))
    assert recipe.plan["fit"].build().model.layers[0].dropout == 0.0


def test_hyphens_in_keys_of_an_inner_recipe_are_as_that_recipe_has_them():
    given = ["--phases.mt.corpus.sizes.tst-COMMON", "4", "--phases.mt.learning_rate", "0.5"]
    inner = Recipe.load("almanac/lm", [*given, "--phases.mt.learning-rate", "0.25"]).plan["mt"].inner
    written = dict((path, text) for path, text, _ in inner.plan["corpus"].values())
    assert written["corpus.sizes.tst-COMMON"] == "4"
    assert inner.value("learning_rate") == 0.25
    bare = Recipe.load("almanac/lm", ["--phases.mt.name"])
    refuses(UsageError, "command line: --phases.mt.name: stands without a value", lambda: bare.plan["mt"].inner)


def test_phases_in_another_order_than_the_base(write):
    write(GOOD, "base.yaml")
    path = write("base: base.yaml\nphases:\n  open: {file: x}\n  fit: {updates: 2}\n", "top.yaml")
    refuses(UsageError, r"top\.yaml:2: phases: .* another order in .*base\.yaml:18: open, fit", Recipe.load, path)


#  what is changed in GOOD, to what, and the message: place, key, value, and the nearest name
REFUSED = [
    ("  size: !ref", "  sise: !ref", r":10: layer\.sise: .*Slab has no argument 'sise' \(did you mean 'size'\?\)"),
    ("  size: !ref <d_model> * 2\n", "", r":9: layer: .*Slab needs the argument 'size'"),
    ("dropout: 0.1", "dropout: 0.1\n  dropout: 0.2", r":12: layer\.dropout: is defined twice .*:11\)"),
    ("dropout: 0.1", "0: 0.1", r":11: layer\.0: the name '0' is not text"),
    ("d_model: 16", "d_model: 1e5", r":10: layer\.size: 200000\.0 is not an int: write 200000"),
    ("d_model: 16", "d_model: [16]", r":10: layer\.size: !ref <d_model> \* 2: <d_model> .* is not a plain value"),
    ("<d_model> * 2", "<d_modle> * 2", r":10: layer\.size: !ref <d_modle>: no key 'd_modle' \(did you mean 'd_model'"),
    ("<d_model> * 2", "<d_model> / 0", r":10: layer\.size: !ref <d_model> / 0: 16 / 0 cannot be calculated"),
    ("<d_model> * 2", "d_model", r":10: layer\.size: !ref d_model: write the key in angle brackets"),
    ("<d_model> * 2", "<layer>", r":9: layer: refers to itself: layer -> layer\.size -> layer"),
    ("<d_model> * 2", "<model[layrs]>", r":10: layer\.size: !ref <model\[layrs\]>: no key 'layrs' .*'layers'"),
    ("<d_model> * 2", "<rate>", r":10: layer\.size: 0\.0001 is not an int .*, written at .*good\.yaml:7: rate"),
    ("parts.Slab\n", "parts.Slap\n", r":9: layer: .*Slap: there is no 'Slap' in .*recipe_parts \(did you mean 'Slab'"),
    ("parts.Slab\n", "tests.shared.recipe_pats.Slab\n", r":9: layer: .*there is no 'recipe_pats' in tests\.shared"),
    ("!new:parts.Slab\n", "!nwe:x\n", r":9: unknown tag !nwe:x \(did you mean '!new:'\?\)"),
    ("parts.Slab\n", "parts.Slab 5\n", r"good\.yaml:10: not YAML"),
    ("parts.Slab\n", "parts.Plain\n", r":13: model\.layers: item 0: !new:.*Plain is not a Slab"),
    ("free: {", "free: {a: !new:parts.Plain {x: 1}, ", r":15: model\.free\.a\.x: .*Plain has no argument .x.$"),
    ("free: {", "free: {a: !new:parts.Bare {x: 1}, ", r":15: model\.free\.a\.x: .* no argument 'x'$"),
    ("shape: (3, 4)", "heads: {a: !ref <rate>}", r":14: model\.heads: a: 0\.0001 is not a Slab"),
    ("shape: (3, 4)", "free: !new:parts.Abstract", r":15: model\.free: is defined twice"),
    ("layers: [!ref <layer>, ", "layers: [!ref <model>, ", r":12: model: refers to itself: model"),
    ("[!ref <layer>, !ref <layer>, !copy <layer>]", "!ref <layer>", r":13: model\.layers: !new:.*not list"),
    ("rate: !ref <rate>", "rate: 1", r":7: rate: nothing uses this key"),
    ("seed: 3", "sede: 3", r":5: sede: nothing uses this key \(did you mean 'seed'\?\)"),
    ("seed: 3", "seed: three", r":5: seed: 'three' is not an int"),
    ("seed: 3", "seed: 3\ndevice: 0", r":6: device: 0 is not a str"),
    ("seed: 3", "seed: 3\nseed: 4", r":6: seed: is defined twice \(first: .*:5\)"),
    ("seed: 3", "seed: 3\n  x: 4", r"good\.yaml:6: not YAML"),
    ("seed: 3", "seed: &a [*a]", r"good\.yaml:5: seed\.0: contains itself"),
    ("seed: 3", "seed: !include:other.yaml", r":5: !include:other\.yaml: not supported: use base"),
    ("  open: !new:parts.Open\n", "  open: !new:parts.Plain\n", r":23: .*no run\(\)"),
    ("  open: !new:parts.Open\n", "  open:\n", r":23: phases\.open: a phase is an object"),
    ("  open: !new:parts.Open\n", "  ../open: !new:parts.Open\n", r":23: .*folder"),
    ("phases:", "phasen:", r"good\.yaml: has no phases"),
    (GOOD, "- 1\n", r"good\.yaml: a recipe is a mapping"),
    (GOOD, "a: \udcff\n", r"good\.yaml: cannot be read"),
    (GOOD, "", r"good\.yaml: is empty"),
]


@pytest.mark.parametrize(("old", "new", "message"), REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_refused(write, old, new, message):
    assert GOOD.count(old) >= 1
    text = GOOD.replace(old, new, 1) if old == GOOD else GOOD.replace(old, new, 1).replace("!PLACEHOLDER", "out")
    said = refusal(UsageError, lambda: Recipe.load(write(text)).check())
    assert re.search(message, said) and "\n" not in said and "good.yaml" in said, said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sede", "3"], r"command line: --sede: no such key \(did you mean 'seed'\?\)"),
        (["--layer.sise", "3"], r"--layer\.sise: .*Slab has no argument 'sise' \(did you mean 'size'\?\)"),
        (["--layr.size", "3"], r"--layr\.size: no such key \(did you mean 'layer'\?\)"),
        (["--layer.size", "big"], r"--layer\.size: 'big' is not an int"),
        (["--d_model", "big"], r":10: layer\.size: 'big \* 2' is not an int"),
        (["--d_model.x", "1"], r"--d_model\.x: d_model has no keys inside, so 'x' names nothing"),
        (["--phases.fit.model.free", "1"], r"phases\.fit\.model is a reference, !ref <model>: override what it refers"),
        (["--model.layers.7", "1"], r"--model\.layers\.7: no such key in model\.layers \(there is 0, 1, 2\)"),
        (["--workers", "many"], r"command line: --workers: 'many' is not an int"),
        (["--compile", "maybe"], r"command line: --compile: 'maybe' is not a bool"),
        (["workers", "2"], r"expected --key, not 'workers'"),
        (["--model", "[1"], r"command line: --model: not YAML"),
        (["--shape", "1"], r"no such key \(did you mean 'model\.shape'\?\)$"),
        (["--scale", "1"], r"no such key \(did you mean 'model\.free\.scale'\?\)$"),
        (["--free.scale", "1"], r"no such key \(did you mean 'model\.free\.scale'\?\)$"),
        (["--dropot", "1"], r"no such key \(did you mean 'layer\.dropout'\?\)$"),
        (["--file", "x"], r"no such key \(did you mean 'phases\.open\.file'\?\)$"),
        (["--output-folder"], r"--output_folder: stands without a value: give it with --output_folder VALUE$"),
        (["--rate", "--debug"], r"--rate: stands without a value"),
        (["--model"], r"--model: stands without a value"),
        (["--device"], r"--device: True is not a str"),
        (["--run"], r"--run: stands without a value: give it with --run NAME"),
    ],
)
def test_refused_overrides(check, arguments, message):
    said = refusal(UsageError, check, GOOD, *arguments)
    assert re.search(message, said) and "\n" not in said, said


def test_placeholder_without_value(write):
    recipe = Recipe.load(write(GOOD))
    assert recipe.placeholders == ["output_folder"]
    more = GOOD.replace("rate: 1e-4", "rate: !PLACEHOLDER").replace("  open:", "  # open:")
    more = more.replace("    file:", "    # file:")
    assert Recipe.load(write("unused: !PLACEHOLDER\n" + more)).placeholders == ["output_folder", "rate"]
    for use in (recipe.check, lambda: recipe.value("output_folder"), lambda: recipe.plan["open"].plain):
        refuses(UsageError, r":4: output_folder: has no value yet.*--output_folder.*\(where the run hap", use)


def test_a_constructor_that_refuses_a_value_is_found(load):
    plan = load(GOOD.replace(", !copy <layer>", ""), "--layer.dropout", "1.5").plan
    said = r"command line: --layer\.dropout|good\.yaml:9: layer: !new:.*Slab: dropout must"
    refuses(UsageError, said, plan["fit"].build)
    import ruamel.yaml

    assert ruamel.yaml.constructor.BaseConstructor.construct_object.__defaults__ == (False,)


def test_abstract_classes_and_broken_modules(check, tmp_path, monkeypatch):
    text = GOOD.replace("free: {", "free: {a: !new:parts.Abstract , ")
    refuses(UsageError, r"Abstract is abstract \(it lacks other, run\)", check, text)
    (tmp_path / "broken_module.py").write_text("import nothing_of_this_name\n")
    (tmp_path / "failing_module.py").write_text("raise RuntimeError('no\\nluck')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name, message in {
        "broken_module": r"broken_module cannot be imported: No module named 'nothing_of_this_name'",
        "failing_module": r"failing_module cannot be imported: RuntimeError: no luck",
    }.items():
        refuses(UsageError, message, check, GOOD.replace("!name:parts.CONSTANT", f"!name:{name}.x"))


def test_functions(load, check):
    call = GOOD.replace("scale: ", "twice: !apply:parts.double {x: 4}, scale: ")
    recipe = load(call)
    recipe.check()
    assert recipe.plan["fit"].build().model.free["twice"] == 8
    said = r"model\.free\.twice\.x: 'a' is not an int \(tests.*double\)"
    refuses(UsageError, said, check, call.replace("{x: 4}", "{x: a}"))
    named = call.replace("!apply", "!name")
    partial = load(named.replace("double {x", "times {by"))
    partial.check()
    assert partial.plan["fit"].build().model.free["twice"](5) == 20
    refuses(UsageError, r"double has no argument 'y'", check, named.replace("{x: 4}", "{y: 4}"))


def test_reading_leaves_hyperpyyaml_as_it_was(load):
    load().plan["fit"].build()
    found = load_hyperpyyaml(io.StringIO("a: (1, 2)\nb: !new:collections.Counter {x: 1}\n"))
    assert found == {"a": (1, 2), "b": {"x": 1}}


@pytest.mark.parametrize("debug", ["true", "false"])
def test_a_folder_without_a_name_is_refused(check, debug):
    empty = "is empty: give the folder's name"
    given = ["--output_folder", "", "--debug", debug]
    refuses(UsageError, f"command line: --output_folder: {empty}", check, GOOD, *given)
    text = GOOD.replace("folder: !ref <output_folder>/x<seed>", "folder: !ref <data_folder>/x") + "data_folder: ''\n"
    refuses(UsageError, rf"good\.yaml:\d+: data_folder: {empty}", check, text, "--debug", debug)


def test_a_debug_run_in_the_folder_that_one_is_in_takes_no_empty_text_for_a_path(load):
    recipe = load(GOOD.replace("(Applause)", ""), "--output_folder", ".", "--debug", "true")
    assert recipe.value("output_folder") == ".-debug" and recipe.plan["fit"].build().model.free["text"] == ""


def bounded(write, text, *overrides):
    text = f"output_folder: out\nphases: {{p: !new:parts.Free {{x: !ref <last>}}}}\n{text}"
    return Recipe.load(write(text), overrides)


@pytest.mark.parametrize(
    "line, first, message",
    [
        ("!ref " + "<{before}>" * 10, "0123456789", "becomes a text of more than 100,000 characters"),
        ("[" + ", ".join(["!ref <{before}>"] * 10) + "]", "0", "references make more than 200,000 values of it"),
        ("[" + ", ".join(["!copy <{before}>"] * 10) + "]", "[0]", "copies make more than 200,000 values"),
    ],
)
def test_references_that_grow_tenfold_a_line_are_refused(write, line, first, message):
    lines = [f"k{n}: {line.format(before=f'k{n - 1}')}\n" for n in range(1, 40)]
    recipe = bounded(write, f"k0: {first}\n{''.join(lines)}last: !ref <k39>\n")
    refuses(UsageError, rf"good\.yaml:\d+: k[\d.]+: .*{message}", recipe.text)


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000])
def test_numbers_of_thousands_of_digits_are_refused(write, number):
    said = r"good\.yaml:3: last: .* (has more than 1024 bits|cannot be read as int)"
    refuses(UsageError, said, bounded, write, f"last: {number}\n")
    seeded = bounded(write, "last: 1\n", "--seed", number)
    refuses(UsageError, r"command line: --seed: '.{50,60}\.\.\. is not an int$", seeded.check)


def test_a_recipe_runs_a_bounded_number_of_others(write):
    for depth in range(4):
        inner = "".join(
            f"  p{n}: !new:dragoman.runs.RunRecipe {{recipe: d{depth + 1}.yaml, overrides: {{output_folder: o{n}}}}}\n"
            for n in range(6)
        )
        write(f"output_folder: out\nphases:\n{inner}", f"d{depth}.yaml")
    path = write("output_folder: out\nphases: {p: !new:parts.Free {x: 1}}\n", "d4.yaml")
    for words in ([], ["--debug"]):
        recipe = Recipe.load(path.with_name("d0.yaml"), words)
        refuses(UsageError, "the recipe runs more than 200 others", recipe.check)
    Recipe.load(path.with_name("d2.yaml")).check()


@pytest.mark.parametrize(
    "folder, named",
    [
        ("!ref results/mt/<seed>", "results/mt-wide/3"),
        ("!ref results/mt/<seed>-mine", "results/mt-wide/3-mine"),
        ("runs/one", "runs/one-wide"),
        ("!ref <place>", "here-wide"),
        ("out/", "out-wide"),
    ],
)
def test_a_named_run_has_a_folder_of_its_own(write, folder, named):
    text = "seed: 3\nplace: here\nphases: {p: !new:parts.Free {x: !ref <place>}}\n"
    path = write(f"output_folder: {folder}\n{text}")
    assert Recipe.load(path, ["--run", "wide"]).value("output_folder") == named
    assert Recipe.load(path, {"run": "wide"}).value("output_folder") == named
    assert Recipe.load(path, {"run": "wide"}).changed == {}
    assert Recipe.load(path, ["--run", "wide", "--debug"]).value("output_folder") == f"{named}-debug"


@pytest.mark.parametrize("name", ["", "a/b", "..", ".a", "-a", "a b", "x" * 65, "a-debug", "a\n", "<seed>"])
def test_names_that_no_folder_should_have(load, name):
    refuses(UsageError, "--run .*becomes a part of a folder's name", load, GOOD, f"--run={name}")
