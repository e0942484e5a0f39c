"""docs/systems.md is what its command writes, and the command finds what it is to tell."""

import re

import pytest

from scripts import systems

SYSTEMS = [system for group in systems.SYSTEMS.values() for system in group]
LINES = [
    {
        "recipe": "almanac/a",
        "metric": "bleu",
        "de-en/test": "40.4 ± 1.0, -0.1 n.s.; +6.6 better",
        "against": "almanac/b; none",
    },
    {"recipe": "almanac/a", "arm": "none", "metric": "bleu", "de-en/test": "33.8"},
    {"recipe": "almanac/a (zero_shot)", "metric": "bleu", "de-en/test": "12.0, +1.0 n.s.", "against": "none"},
]


def test_the_page_is_what_the_command_writes():
    assert systems.PAGE.read_text(encoding="utf-8") == systems.page(), "run: python -m scripts.systems"


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.title)
def test_a_system_has_a_home_and_recipes(system):
    assert systems.paragraphs(system.home)[0] and systems.papers(system.home)
    assert all((systems.ROOT / name).is_file() for name in system.files.split())
    names = systems.recipes_of(system)
    unknown = [
        pattern for pattern in system.recipes.split() if not systems.recipes_of(system._replace(recipes=pattern))
    ]
    assert names and unknown == []


def test_every_method_has_a_section():
    told = {name for system in SYSTEMS for name in (system.home, *system.files.split())}
    files = (path for room in ("mt", "st") for path in (systems.ROOT / room).glob("[!_]*.py"))
    methods = {path.relative_to(systems.ROOT).as_posix() for path in files}
    assert sorted(methods - told) == []


def test_papers_and_paragraphs(tmp_path, monkeypatch):
    monkeypatch.setattr(systems, "ROOT", tmp_path)
    (tmp_path / "a.py").write_text(
        '"""A: of ``b`` and\n:class:`c.D`.\n\nMa et al. 2019, "T", as in Ba and Li 2020, ACL, "U". See Xu 1999.\n"""\n'
    )
    (tmp_path / "b.yaml").write_text("# Of texts (Xu 1999)\n#\n# Differs from\n# it.\n\na: 1\n")
    assert systems.paragraphs("a.py")[0] == "A: of `b` and `c.D`."
    assert systems.paragraphs("b.yaml") == ["Of texts (Xu 1999)", "Differs from it."]
    assert (systems.papers("a.py"), systems.papers("b.yaml")) == ("Ma et al. 2019; Ba and Li 2020", "Xu 1999")


def test_the_effect_is_that_against_the_control_that_lacks_the_method():
    assert systems.effect("almanac/a", LINES) == "40.4±1.0: +6.6 better than its arm `none`"
    assert systems.effect("almanac/a", LINES[2:]) == systems.effect("almanac/b", LINES) == "not measured"
    arm = {
        "recipe": "almanac/c",
        "arm": "joint",
        "metric": "bleu",
        "de-en/test": "7.1, +5.5 better",
        "against": "almanac/b",
    }
    assert systems.effect("almanac/c", [arm]) == "7.1: +5.5 better than `almanac/b`"
    assert systems.effect("almanac/c", [arm, {"recipe": "almanac/c", "metric": "bleu", "de-en/test": "6.0"}]) == "6.0"


def test_a_table_has_a_line_for_each_model():
    rows = [re.split(r" *\| *", row)[1:-1] for row in systems.table(LINES).splitlines()]
    assert rows[0] == ["", "de-en/test", "against"]
    of_a = ["`almanac/a`", "40.4±1.0 (-0.1 n.s.; +6.6 better); zero_shot 12.0", "`almanac/b`, `none`"]
    assert rows[2:] == [of_a, ["`almanac/a none`", "33.8", ""]]


def test_a_table_of_some_recipes_has_verdicts_about_them_alone():
    line = systems.among(["almanac/b"], LINES[0])
    assert line["de-en/test"] == "40.4 ± 1.0, -0.1 n.s." and line["against"] == "almanac/b"


def test_evidence_has_what_was_compared_and_each_recipe_alone():
    told = systems.evidence(LINES)
    of_a = "`almanac/a` 40.4±1.0 (-0.1 n.s. against `almanac/b`; +6.6 better than `none`)"
    assert told == f"{of_a}, zero_shot 12.0 (+1.0 n.s. against `none`)"
    assert systems.evidence(LINES[1:2]) == ""


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (LINES, "shows (+6.6)"),
        ([LINES[0] | {"de-en/test": "1.0, -0.2 n.s.", "against": "none"}], "not significant (-0.2)"),
        ([LINES[0] | {"de-en/test": "1.0, -3.0 worse", "against": "almanac/b"}], "contradicts (-3.0)"),
        ([{"recipe": "almanac/a", "metric": "bleu", "de-en/test": "1.0"}], "no control"),
        ([{"recipe": "almanac/a (found)", "metric": "found", "de-en": "41.6"}], "no control"),
        ([], "not measured"),
    ],
)
def test_a_verdict_is_that_against_the_control_that_lacks_the_method(lines, told):
    assert systems.verdict("almanac", ["almanac/a"], lines, lines) == told
    assert systems.verdict("help", ["almanac/a"], lines, lines) == ""


def test_a_reason_stands_behind_the_figures():
    system = systems.System("T", "mt/mass.py", "mass", reason="R.")
    assert systems.details(system, [])[0] == "- **Reason:** R."
