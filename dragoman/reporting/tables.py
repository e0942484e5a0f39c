"""RESULTS.md and the table of headline scores, made of rows of results; and tables for a terminal.

Rows are described in shared/evaluation/results.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from dragoman.reporting import directions
from dragoman.reporting.significance import NO_DIFFERENCE, verdict
from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.counts import HIGHER_IS_BETTER
from dragoman.shared.evaluation.markdown import Row, cell, markdown
from dragoman.shared.machine.files import replaced_file

#: Rows that agree in these, and in the number of models, measured the same, perhaps with other seeds.
SAME = ("corpus", "lm_weight", "ctc_weight")
#: The metrics that RESULTS.md shows; the others are in results.jsonl. Of a row that has none of them, any is shown.
HEADLINES = ("bleu", "wer", "perplexity")
#: Between the name of a test set and that of a part of it, such as the words of some frequency.
PART = ":"
#: The most test sets that get a column each; of more, RESULTS.md shows the mean.
MOST_SPLITS = 4
#: The metrics of which it then shows tables of sources by targets, if the test sets are directions.
OF_DIRECTIONS = ("bleu", "off_target")
#: The kind of rows that compare means over directions; their "split" names all of these, sorted.
MEANS = "comparison of means"
LEGEND = """\
A line is made by `dragoman seeds RECIPE --arm ARM --seeds 1,2,3 --against CONTROL`, with `--KEY VALUE` for other keys.
Scores are means over seeds ± their standard deviation. After a comma: the difference from each control in the column
"against" and what a test over seeds and sentences says of it ("n.s.": no significant difference; docs/results.md).
Where "data" says what was learned from, minutes are those of all training, that of recipes run before included;
elsewhere those of the run until its evaluation. "learning" is how many parameters were tuned, where only a part was.
`dragoman results --into FOLDER --details` prints directions and parts of test sets.
"""


def render(rows: Iterable[Row], source: str) -> str:
    """Return RESULTS.md: for each folder of recipes, a table of those that were tested on the same sets.

    A line shows a headline metric of a recipe's arm: the mean score and its deviation over seeds on each test set, and
    the verdicts of its comparisons with controls. What else the same models did, such as transcripts beside
    translations, has a table of its own. Single runs and other metrics are left to the source, directions and parts of
    test sets to :func:`details`.

    Args:
        rows: one of each measurement, oldest first.
        source: the name of the file that they come from.
    """
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[str(row["recipe"]).rpartition("/")[0] or "others"].append(row)
    parts = [f"# Results\n\nMade from `{source}`, which has every run, by command; do not edit.\n\n{LEGEND}"]
    for group, members in sorted(groups.items()):
        shown = [row for row in _headlines(members) if PART not in row["split"]]
        tests = _without_columns(_by_tests(_arms(shown)))
        tables = [table for splits, arms in tests.items() for table in _tables(arms, splits)]
        parts.append(f"## {group}\n\n" + "\n\n".join(tables) + f"\n\n{_signatures(shown)}")
    return "\n".join(parts)


def _tables(arms: Sequence[Sequence[Row]], splits: Sequence[str]) -> list[str]:
    """Return the table of arms that were tested on the same sets, and one of what else their models did."""
    main: dict[tuple[str, ...], Sequence[Row]] = {}
    for arm in sorted(arms, key=_rank):
        main.setdefault(_model_of(arm[0]), arm)
    chosen = {id(arm) for arm in main.values()}
    others = [arm for arm in arms if id(arm) not in chosen]
    columns = {split: split for split in splits}
    tables = [_table([arm for arm in arms if id(arm) in chosen], columns)]
    return [*tables, f"Other texts and phases of the same models:\n\n{_table(others, columns)}"] if others else tables


def _rank(arm: Sequence[Row]) -> tuple[bool, int]:
    """Return how far an arm is from a recipe's main result: its phase `evaluate`, by the first of HEADLINES."""
    metric = arm[0]["metric"]
    place = HEADLINES.index(metric) if metric in HEADLINES else len(HEADLINES)
    return (arm[0].get("phase") or "evaluate") != "evaluate", place


def _table(arms: Sequence[Sequence[Row]], tests: Mapping[str, str]) -> str:
    """Return the table of arms that were tested on the same sets, whose headings are given."""
    columns = {"recipe": "recipe", "arm": "arm", "keys": "keys", "text": "text", "metric": "metric", "seeds": "seeds"}
    columns |= tests if len(tests) <= MOST_SPLITS else {"mean": "mean of tests"}
    columns |= {"against": "against", "learning": "learning (M)", "data": "data", "minutes": "minutes"}
    return markdown([_line_of(arm, list(tests)) for arm in arms], columns)


def details(rows: Iterable[Row]) -> Iterator[str]:
    """Yield tables that RESULTS.md has no room for: by parts of test sets, and by directions, sources by targets."""
    measured = [row for row in rows if row.get("kind") is None]
    for test in sorted({row["split"].partition(PART)[0] for row in measured if PART in row["split"]}):
        arms = _arms([row for row in measured if row["split"].startswith(test + PART)])
        parts = {row["split"]: row["split"].partition(PART)[2] for arm in arms.values() for row in arm}
        yield f"By parts of {test}:\n\n{_table([arms[name] for name in sorted(arms)], parts)}"
    for arm in _arms([row for row in measured if row["metric"] in OF_DIRECTIONS]).values():
        for test, splits in directions.by_name(dict.fromkeys(row["split"] for row in arm)).items():
            scores = {split: mean(_values(_newest(arm, split))) for split in splits}
            heading, *lines = (f"| {' | '.join(cells)} |" for cells in directions.table(scores))
            ruler = f"|---|{'---:|' * (heading.count('|') - 2)}"
            given = cell("keys", arm[0].get("keys") or {})
            name = " ".join(filter(None, [_name(arm[0]), arm[0].get("arm"), given, arm[0].get("text")]))
            yield "\n".join([f"{name}, {arm[0]['metric']} on {test}, sources by targets:", "", heading, ruler, *lines])


def _name(row: Row) -> str:
    """Return the name of a recipe, and the phase of its evaluation if that is a further one."""
    phase = row.get("phase") or "evaluate"
    return str(row["recipe"]) if phase == "evaluate" else f"{row['recipe']} ({phase})"


def _by_tests(arms: Mapping[tuple[str, ...], list[Row]]) -> dict[tuple[str, ...], list[list[Row]]]:
    """Return arms, sorted, by the test sets of their recipe: what lacks one of them stays with the others.

    Arms that were tested on other data than all others of their recipe stand apart.
    """
    tests: dict[tuple[str, ...], set[tuple[str, str | None]]] = defaultdict(set)
    for rows in arms.values():
        tests[_model_of(rows[0])] |= {(row["split"], row.get("corpus")) for row in rows if row.get("kind") is None}
    joined: dict[str, list[set[tuple[str, str | None]]]] = defaultdict(list)
    for (recipe, *_), sets in tests.items():
        apart = [others for others in joined[recipe] if not others & sets]
        joined[recipe] = [*apart, sets.union(*(others for others in joined[recipe] if others & sets))]
    groups: dict[tuple[str, ...], list[list[Row]]] = defaultdict(list)
    for (recipe, *_), rows in sorted(arms.items()):
        sets = tests[_model_of(rows[0])]
        splits = {split for whole in joined[recipe] if sets <= whole for split, _ in whole}
        groups[tuple(sorted(splits))].append(rows)
    return groups


def _without_columns(groups: Mapping[tuple[str, ...], list[list[Row]]]) -> dict[tuple[str, ...], list[list[Row]]]:
    """Return groups of arms by their test sets, those in one that have more sets than columns, behind the others."""
    few = {splits: arms for splits, arms in groups.items() if len(splits) <= MOST_SPLITS}
    many = {splits: arms for splits, arms in groups.items() if len(splits) > MOST_SPLITS}
    splits = tuple(sorted({split for of_group in many for split in of_group}))
    return few | ({splits: [arm for arms in many.values() for arm in arms]} if many else {})


def _headlines(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of headline metrics, and all rows of those phases of recipes that have none."""
    with_headline = {_phase_of(row) for row in rows if row["metric"] in HEADLINES}
    return [row for row in rows if row["metric"] in HEADLINES or _phase_of(row) not in with_headline]


def _model_of(row: Row) -> tuple[str, ...]:
    given = cell("keys", row.get("keys") or {})
    return row["recipe"], row.get("arm") or "", given, row.get("model") or ""


def _phase_of(row: Row) -> tuple[str, str]:
    return row["recipe"], row.get("phase") or ""


def _arms(rows: Sequence[Row]) -> dict[tuple[str, ...], list[Row]]:
    """Return the rows of each line of the table, by what identifies the line."""
    arms: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        arms[(*_model_of(row), row.get("phase") or "", row.get("text") or "", row["metric"])].append(row)
    return arms


def _line_of(rows: Sequence[Row], splits: Sequence[str]) -> Row:
    """Return a line of the table: from the rows of one recipe, arm, keys, phase and metric, oldest first."""
    measured = {split: newest for split in splits if (newest := _newest(rows, split))}
    all_tests = ", ".join(sorted(measured))
    compared: dict[str, dict[str, Row]] = {split: {} for split in (*splits, all_tests)}
    for row in rows:
        if row.get("kind") == "comparison" or (row.get("kind") == MEANS and row["split"] == all_tests):
            compared[row["split"]][_control(row)] = row
    controls = dict.fromkeys(control for by_control in compared.values() for control in by_control)
    trained = [row for newest in measured.values() for row in newest if "data" in row]
    timed = trained or [row for newest in measured.values() for row in newest]
    minutes = {row.get("seed"): row["minutes"] for row in timed if row.get("minutes") is not None}
    means = [mean(_values(newest)) for newest in measured.values()]
    return {
        "recipe": _name(rows[0]),
        "arm": rows[0].get("arm") or None,
        "keys": rows[0].get("keys") or rows[0].get("model"),
        "text": rows[0].get("text"),
        "metric": rows[0]["metric"],
        "seeds": max((len(_values(newest)) for newest in measured.values()), default=None),
        **{split: _shown(_values(newest), compared[split], controls) for split, newest in measured.items()},
        "mean": _shown([mean(means)], compared[all_tests], controls) if means else None,
        "against": "; ".join(controls) or None,
        "learning": trained[-1].get("learning") if trained else None,
        "data": trained[-1]["data"] if trained else None,
        "minutes": mean(minutes.values()) if minutes else None,
    }


def _newest(rows: Sequence[Row], split: str) -> list[Row]:
    """Return the rows of one test set that measured the same as the newest one, with any seed."""
    measured = [row for row in rows if row["split"] == split and row.get("kind") is None]
    return [row for row in measured if _measured_by(row) == _measured_by(measured[-1])]


def _measured_by(row: Row) -> tuple[Any, ...]:
    """Return what rows of other seeds have in common: the folders of further models have a seed in their names."""
    return *(row.get(key) for key in SAME), len(row.get("ensemble") or ())


def _values(rows: Sequence[Row]) -> list[float]:
    """Return the newest score of each seed."""
    return list({row.get("seed"): row["value"] for row in rows}.values())


def _shown(values: Sequence[float], comparisons: Mapping[str, Row], controls: Iterable[str]) -> str:
    deviation = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
    verdicts = [_verdict(comparisons.get(control)) for control in controls]
    return f"{mean(values):.1f}{deviation}" + (f", {'; '.join(verdicts)}" if any(verdicts) else "")


def _verdict(comparison: Row | None) -> str:
    if comparison is None:
        return ""
    said = verdict(comparison["value"], comparison["p"], comparison["metric"] in HIGHER_IS_BETTER)
    return f"{comparison['value']:+.1f} {'n.s.' if said == NO_DIFFERENCE else said}"


def _control(comparison: Row) -> str:
    keys = cell("keys", comparison.get("against_keys") or {})
    arm = comparison.get("against_arm") or ""
    other = "" if comparison["against"] == comparison["recipe"] and (arm or keys) else comparison["against"]
    return " ".join(filter(None, [other, arm, keys]))


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows, the first of them headings, as a table for a terminal; columns of numbers are flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = [all(_is_number(cell) for cell in column[1:]) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(row, widths, right, strict=True)
        )
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def _is_number(cell: str) -> bool:
    try:
        float(cell or "0")
    except ValueError:
        return False
    return True


def _signatures(rows: Sequence[Row]) -> str:
    measured: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.get("kind") is None:
            measured.setdefault(row["metric"], {})[f"`{row['signature']}`"] = None
    lines = (f"- {metric}: {', '.join(signatures)}\n" for metric, signatures in measured.items())
    return f"Signatures:\n\n{''.join(lines)}"


def summarise(rows: Sequence[Row], file: Path) -> None:
    """Put a table of the headline scores (BLEU, WER) between the marks ``<!-- results -->`` of a text file.

    Raises:
        DataError: if the file lacks the marks.
    """
    opening, closing = "<!-- results -->", "<!-- /results -->"
    before, mark, rest = file.read_text(encoding="utf-8").partition(opening)
    _, end, after = rest.partition(closing)
    if not (mark and end):
        raise DataError(f"{file}: has no {opening} ... {closing}")
    headlines = [row for row in rows if row["metric"] in ("bleu", "wer") and "kind" not in row]
    splits = list(dict.fromkeys(row["split"] for row in headlines))
    table: dict[tuple[str, str], Row] = {}
    for row in headlines:
        cells = table.setdefault((row["recipe"], row["metric"]), {})
        cells |= {row["split"]: f"{row['value']:.1f}", "minutes": f"{row.get('minutes') or 0:.0f}"}
        cells |= {"hardware": row.get("hardware", "")}
    lines = ["| recipe | score | " + " | ".join(splits) + " | minutes | hardware |"]
    lines.append("|---|---|" + "---:|" * (len(splits) + 1) + "---|")
    for (recipe, metric), cells in sorted(table.items()):
        values = " | ".join(cells.get(name, "") for name in [*splits, "minutes", "hardware"])
        lines.append(f"| {recipe} | {metric.upper()} | {values} |")
    with replaced_file(file) as temporary:
        temporary.write_text(before + opening + "\n" + "\n".join(lines) + "\n" + closing + after, encoding="utf-8")
