"""Make docs/systems.md of docstrings, recipes and results: ``python -m scripts.systems``.

Each fact stands once. A method's docstring (for what needs no Python of its own, the header of a recipe) names the
paper, and in paragraphs of their own what differs from it, what is not established and what is not implemented.
Figures are those of recipes/{almanac,help}/results.jsonl. scripts/systems.md has what stands before the systems; in it,
``{almanac/costt}`` is the measured effect of that recipe, and ``{compared NAMES}`` a table of several recipes or arms
(``almanac/cascade_low:joint``).
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from dragoman.reporting.tables import render
from dragoman.shared.evaluation import results
from dragoman.shared.evaluation.markdown import markdown
from dragoman.shared.recipe.locations import header, is_base

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "systems.md"
TEMPLATE = ROOT / "scripts" / "systems.md"
LIST = ROOT / "scripts" / "systems.yaml"
#: Where figures are from: a corpus that is made, and real text.
GROUNDS = {"almanac": "Almanac", "help": "The help"}
#: What the word of a comparison says of a claim.
VERDICTS = {"better": "shows", "n.s.": "not significant", "worse": "contradicts"}
#: How paragraphs begin that the page repeats.
TOLD = ("Differs from", "Not implemented")
NAMES = r"[A-ZÀ-Ý][\w-]+(?:(?:, [A-Z]\w+)* and [A-Z]\w+| et al\.)?"
#: A paper: its authors and year; those with a title or a venue are what a method is of.
PAPER = re.compile(rf"({NAMES} (?:19|20)\d\d)(?=, ?\"|, arXiv|, [A-Z]|,\n)")
FIRST_PAPER = re.compile(rf"{NAMES} (?:19|20)\d\d")
#: What is code in a docstring's text: symbols, files and recipes.
CODE = re.compile(
    r"</?\w+>|(?<![\w/<])(?:recipes|mt|st|shared|docs|almanac|own|text|mustc|covost2)/[\w/.]*\w|(?<!\w)--[a-z]\S*"
)
#: Columns of a table of results that are no test sets.
NO_TESTS = ("recipe", "arm", "keys", "text", "metric", "seeds", "against", "learning (M)", "data", "minutes")

#: The controls of which the overview chooses one, by how their names begin; others come after these.
CONTROLS = ("none", "almanac/st_low")
#: How metrics are named; others have their own names.
SHOWN = {"bleu": "", "wer": "WER", "laal": "LAAL", "retrieval": "", "source.masked_accuracy": "restored (%)"}

Line = dict[str, str]


class System(NamedTuple):
    """A section of the page; scripts/systems.yaml tells what each part is.

    Attributes:
        title: its heading.
        home: the file whose docstring or header tells about it.
        recipes: patterns of the names of its recipes, without their folder or with it.
        files: further files.
        phases: patterns of further phases whose scores are shown.
        metrics: metrics that are shown beside those of RESULTS.md.
        reason: why it does not show what its paper claims, where that is known.

    """

    title: str
    home: str
    recipes: str
    files: str = ""
    phases: str = ""
    metrics: str = ""
    reason: str = ""


def _systems() -> dict[str, list[System]]:
    """Return the systems by group, in the page's order."""
    groups = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    return {group: [System(title, **each) for title, each in systems.items()] for group, systems in groups.items()}


SYSTEMS = _systems()


def page() -> str:
    """Return the page."""
    lines = measured()
    parts = [template(lines)]
    for heading, systems in SYSTEMS.items():
        parts.append(f"## {heading}\n\n{overview(systems, lines)}")
    parts += [section(system, lines) for systems in SYSTEMS.values() for system in systems if details(system, lines)]
    return "\n\n".join(parts) + "\n"


# -- results --------------------------------------------------------------------------------------------------------


def measured() -> list[Line]:
    """Return the lines of RESULTS.md, whose headings are its columns, and those of further metrics."""
    paths = [ROOT / "recipes" / ground / "results.jsonl" for ground in GROUNDS]
    rows = [row for path in paths if path.is_file() for row in results.latest(results.read(path))]
    found = _lines(render(rows, ""))
    for metric in dict.fromkeys(system.metrics for systems in SYSTEMS.values() for system in systems):
        found += _lines(render([row for row in rows if row["metric"] == metric], "")) if metric else []
    return found


def _lines(text: str) -> list[Line]:
    """Return the lines of the tables whose first column is "recipe".

    Those by parts of a test are left to RESULTS.md, and those with further keys where lines of the recipe are without.
    """
    found, heading = [], None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("| ") else None
        if cells is None:
            heading = heading if line.startswith("|---") else None
        elif heading is None:
            heading = cells
        elif heading[0] == "recipe":
            found.append({name: cell for name, cell in zip(heading, cells, strict=True) if cell})
    known = [line for line in found if line["recipe"].partition("/")[0] in GROUNDS and not {"0", "1-9"} & {*line}]
    single = {_tested(line) for line in known if "keys" not in line}
    return [line for line in known if "keys" not in line or _tested(line) not in single]


def _tested(line: Line) -> tuple[str, ...]:
    return line["recipe"].partition(" ")[0], *tests(line)


def tests(line: Line) -> list[str]:
    """Return the test sets of a line, in its order."""
    return [name for name in line if name not in NO_TESTS]


def effect(recipe: str, lines: Sequence[Line], told: bool = False) -> str:
    """Return what a recipe was measured to bring on its first test set, against a control if it has one.

    Args:
        recipe: its name.
        lines: those of all recipes.
        told: say what an arm is for, if it is the control.

    """
    own = [line for line in lines if line["recipe"] == recipe]
    # An arm stands for a recipe only where that has no line of its own.
    found = min(own, key=lambda line: ("arm" in line, "against" not in line), default=None)
    if found is not None and "arm" in found and "against" not in found:
        found = None
    if found is None:
        return "not measured"
    score, _, verdicts = found[tests(found)[0]].replace(" ± ", "±").partition(", ")
    measured = f"{SHOWN.get(found['metric'], found['metric'])} {score}".strip()
    told_of = dict(zip(found.get("against", "").split("; "), verdicts.split("; "), strict=False))
    control = min(
        told_of, key=lambda name: next((n for n, wanted in enumerate(CONTROLS) if name.startswith(wanted)), 9)
    )
    if not told_of[control]:
        return measured
    named = f"`{control}`" if "/" in control else f"its arm `{control}`"
    named += f" ({_purpose(recipe, control)})" if told and _purpose(recipe, control) else ""
    return f"{measured}: {told_of[control]} {'against' if 'n.s.' in told_of[control] else 'than'} {named}"


def table(lines: Iterable[Line]) -> str:
    """Return tables of lines, one for those that were tested on the same sets; a line for each model."""
    groups: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
    for line in lines:
        rows = groups.setdefault(tuple(tests(line)), {})
        label = _label(line)
        row = rows.setdefault(label, {"name": label, "against": _controls(line) or None, "phase": ""})
        for test in tests(line):
            cell = _score(line, test, row["against"])
            cell = cell if _phase(line) == row["phase"] else f"{_phase(line)} {cell}"
            row[test] = "; ".join(filter(None, [row.get(test), cell]))
        row["phase"] = _phase(line)
    columns = [{"name": "", **{name: name for name in sets}, "against": "against"} for sets in groups]
    return "\n\n".join(
        markdown([*rows.values()], heading) for rows, heading in zip(groups.values(), columns, strict=True)
    )


def _controls(line: Line) -> str:
    return ", ".join(f"`{name}`" for name in line.get("against", "").split("; ") if name)


def _phase(line: Line) -> str:
    """Return the phase of a further evaluation, "" for the first."""
    return line["recipe"].partition(" ")[2].strip("()")


def _score(line: Line, test: str, controls: str) -> str:
    """Return a score with the name of its metric, and with its verdicts if they are about the controls."""
    score, _, verdicts = line[test].replace(" ± ", "±").partition(", ")
    told = f" ({verdicts})" if verdicts and _controls(line) == controls else ""
    return f"{SHOWN.get(line['metric'], line['metric'])} {score}".strip() + told


def _label(line: Line) -> str:
    """Return the recipe, or its arm and what that is for, and what else was changed."""
    recipe, arm = line["recipe"].partition(" ")[0], line.get("arm", "")
    named = f"`{recipe} {arm}`" if arm else f"`{recipe}`"
    others = [_purpose(recipe, arm), line.get("keys", "")]
    return ", ".join(filter(None, [named, *others]))


def _purpose(recipe: str, arm: str) -> str:
    """Return the comment beside an arm of a recipe, "" if it has none; beside the last of several."""
    path = ROOT / "recipes" / f"{recipe}.yaml"
    if not arm or not path.is_file():
        return ""
    _, _, arms = path.read_text(encoding="utf-8").partition("\narms:\n")
    found = re.search(rf"^ +{re.escape(arm.rpartition('+')[2])}:[^\n#]*#([^\n]*)", arms, re.MULTILINE)
    return found[1].strip() if found else ""


# -- texts ----------------------------------------------------------------------------------------------------------


def paragraphs(home: str) -> list[str]:
    """Return the paragraphs of a module's docstring or of a recipe's header, in Markdown."""
    path = ROOT / home
    if path.suffix == ".py":
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    else:
        text = header(path)
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`")
    text = "`".join(
        CODE.sub(r"`\g<0>`", part) if place % 2 == 0 else part for place, part in enumerate(text.split("`"))
    )
    return [re.sub(r"\s+", " ", part).strip() for part in text.split("\n\n")]


def papers(home: str) -> str:
    """Return authors and years of the papers that a file is of."""
    text = " ".join(paragraphs(home))
    found = [match[1] for match in PAPER.finditer(text)] or FIRST_PAPER.findall(text)[:1]
    return "; ".join(dict.fromkeys(found))


def recipes_of(system: System) -> list[str]:
    """Return the names of a system's recipes: Almanac's first, then those for data of one's own."""
    every = sorted(path for path in (ROOT / "recipes").rglob("*.yaml") if not is_base(path))
    names = [path.relative_to(ROOT / "recipes").with_suffix("").as_posix() for path in every]
    order = {"almanac": 0, "own": 1, "text": 2}
    return [
        name
        for place in range(4)
        for pattern in system.recipes.split()
        for name in names
        if order.get(name.partition("/")[0], 3) == place
        if fnmatch(name, pattern if "/" in pattern else f"*/{pattern}")
    ]


def template(lines: Sequence[Line]) -> str:
    """Return what stands before the systems."""
    text = TEMPLATE.read_text(encoding="utf-8")

    def filled(match: re.Match[str]) -> str:
        if not match[1]:
            return effect(match[2], lines, told=True)
        names = match[2].split()
        return table(
            among([name.replace(":", " ") for name in names], line)
            for name in names
            for line in lines
            if ":".join(filter(None, (line["recipe"], line.get("arm")))) == name and "keys" not in line
        )

    return re.sub(r"\{(compared )?([\w/: ]+)\}", filled, text).strip()


def among(names: Sequence[str], line: Line) -> Line:
    """Return a line with those verdicts alone that are about some recipes, and without further metrics."""
    kept = [place for place, name in enumerate(line.get("against", "").split("; ")) if name in names]
    cells: Line = {}
    for test in tests(line):
        score, _, verdicts = line[test].partition(", ")
        told = [verdicts.split("; ")[place] for place in kept]
        cells[test] = ", ".join(filter(None, [score, "; ".join(told)]))
    return line | cells | {"against": "; ".join(line["against"].split("; ")[place] for place in kept) if kept else ""}


def overview(systems: Sequence[System], lines: Sequence[Line]) -> str:
    """Return the table of systems: paper, file, recipes, and what each ground shows."""
    rows = []
    for system in systems:
        names = dict.fromkeys(recipes_of(system))
        row = {
            "system": f"[{system.title}](#{anchor(system.title)})" if details(system, lines) else system.title,
            "paper": papers(system.home),
            "file": ", ".join(f"[`{file}`](../{file})" for file in (system.home, *system.files.split())),
            "recipes": ", ".join(f"`{name}`" for name in names),
        }
        rows.append(row | {ground: verdict(ground, names, lines, shown(system, lines)) for ground in GROUNDS})
    headings = {"system": "", "paper": "paper", "file": "file", "recipes": "recipes"}
    return markdown(rows, headings | {"almanac": "Almanac", "help": "the help"})


def verdict(ground: str, names: Iterable[str], lines: Sequence[Line], figures: Sequence[Line]) -> str:
    """Return whether recipes of a ground show their method: of the first with a control, the first figure beside it."""
    effects = [effect(name, lines) for name in names if name.startswith(f"{ground}/")]
    told = re.search(r": (\S+) (\S+)", next((found for found in effects if ": " in found), ""))
    if told is None:
        there = any(line["recipe"].startswith(f"{ground}/") for line in figures)
        return "no control" if there else "not measured" if effects else ""
    return f"{VERDICTS[told[2]]} ({told[1]})"


def anchor(title: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def section(system: System, lines: Sequence[Line]) -> str:
    """Return what the page says of a system beside its line in the overview."""
    first = paragraphs(system.home)[0]
    name, _, rest = first.partition(": ")
    first = re.split(r"(?<! al)\. (?=[A-Z])", rest if name.lower() in system.title.lower() else first)[0].rstrip(".")
    first = first[0].upper() + first[1:]
    return "\n".join([f"## {system.title}\n", f"{first}.", "", *details(system, lines)])


def details(system: System, lines: Sequence[Line]) -> list[str]:
    """Return a system's figures by ground, why it does not show, and in what it differs from its paper."""
    measured = shown(system, lines)
    told = []
    for ground, name in GROUNDS.items():
        if own := evidence([line for line in measured if line["recipe"].startswith(f"{ground}/")]):
            told.append(f"- **{name}:** {own}.")
    told += [f"- **Reason:** {system.reason}"] if system.reason else []
    return told + [
        re.sub(r"^([^:]+:)", r"- **\1**", part) for part in paragraphs(system.home)[1:] if part.startswith(TOLD)
    ]


def evidence(lines: Iterable[Line]) -> str:
    """Return the figures of recipes on their first test sets; of arms that have controls where a recipe has no line."""
    told: dict[str, list[str]] = {}
    lines = list(lines)
    alone = {line["recipe"].partition(" ")[0] for line in lines if "arm" not in line}
    for line in lines:
        score, _, verdicts = line[tests(line)[0]].replace(" ± ", "±").partition(", ")
        if line.get("arm") and (not verdicts or line["recipe"].partition(" ")[0] in alone):
            continue
        controls = [f"`{name}`" for name in line.get("against", "").split("; ")]
        pairs = zip(verdicts.split("; "), controls, strict=False)
        than = [f"{each} {'against' if 'n.s.' in each else 'than'} {name}" for each, name in pairs if each]
        figure = f"{SHOWN.get(line['metric'], line['metric'])} {score}".strip()
        figures = told.setdefault(_label(line), [])
        named = f"{_phase(line)} {figure}" if _phase(line) else figure
        figures.append(named + (f" ({'; '.join(than)})" if than else ""))
    return "; ".join(f"{name} {', '.join(figures)}" for name, figures in told.items())


def shown(system: System, lines: Sequence[Line]) -> list[Line]:
    """Return the lines of a system's recipes: of their first phase, and of the phases and metrics that it names."""

    def is_shown(line: Line) -> bool:
        told = any(fnmatch(_phase(line), pattern) for pattern in system.phases.split())
        return not _phase(line) or told or line["metric"] in system.metrics.split()

    names = dict.fromkeys(recipes_of(system))
    return [line for name in names for line in lines if line["recipe"].partition(" ")[0] == name and is_shown(line)]


def main() -> None:
    """Write the page."""
    text = page()
    PAGE.write_text(text, encoding="utf-8")
    print(f"{PAGE}: {len(text.splitlines())} lines", file=sys.stderr)


if __name__ == "__main__":
    main()
