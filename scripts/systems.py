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

from dragoman.shared.evaluation import results
from dragoman.shared.evaluation.tables import markdown, render
from dragoman.shared.recipe.locations import header, is_base

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "systems.md"
TEMPLATE = ROOT / "scripts" / "systems.md"
#: Where figures are from: a corpus that is made, and real text.
GROUNDS = ("almanac", "help")
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
    """A section of the page.

    Attributes:
        title: its heading.
        home: the file whose docstring or header tells about it.
        recipes: patterns of the names of its recipes, without their folder or with it.
        files: further files.
        phases: patterns of further phases whose scores are shown.
        metrics: metrics that are shown beside those of RESULTS.md.

    """

    title: str
    home: str
    recipes: str
    files: str = ""
    phases: str = ""
    metrics: str = ""


TEXT = [
    System(
        "Transformer, text to text",
        "recipes/base/text.yaml",
        "mt mt_small mt_spoken text/finetune",
        "shared/nn/transformer.py",
    ),
    System("Multilingual translator", "recipes/text/multilingual_mt.yaml", "multilingual_mt", "shared/batches/find.py"),
    System(
        "BART and mBART",
        "mt/bart.py",
        "mt_from_mbart mt_from_mbart_wide mt_from_mbart_even mbart mbart_wide mbart_even bart transfer",
        "mt/noise.py mt/evaluating_each.py",
        "evaluate/*",
    ),
    System("BART before a foreign encoder", "mt/bart_translator.py", "mt_from_bart bart_ro-en"),
    System("MASS", "mt/mass.py", "*from_mass mass"),
    System("CSP", "mt/csp.py", "*from_csp csp", "mt/covering.py mt/forms.py"),
    System("mRASP", "mt/mrasp.py", "*from_mrasp mrasp", phases="zero_shot"),
    System(
        "mRASP2",
        "mt/mrasp2.py",
        "mrasp2 *from_mrasp2",
        "shared/objectives/contrastive.py",
        "zero_shot unsupervised retrieve",
    ),
    System("CSR", "mt/csr.py", "csr csr_*"),
    System("Word vectors", "mt/word_vectors.py", "*from_vectors", "mt/vector_tables.py mt/word2vec.py"),
    System("LSTM language models", "mt/lm_initialised.py", "*from_lms lstm_lm", "shared/nn/recurrent_translator.py"),
    System("Induced lexicons", "mt/mapping.py", "lexicon", "mt/word2vec.py mt/induction.py", "accuracy"),
    System("XLM", "recipes/base/xlm.yaml", "*from_xlm xlm mlm", "shared/nn/joined.py shared/objectives/masked.py"),
    System("ALM", "mt/alm.py", "*from_alm alm", "mt/phrases.py"),
    System("Begun from language models", "recipes/base/from_lm.yaml", "mt_from_lm"),
    System("XLM-T", "mt/xlmt.py", "xlmt xlmr"),
    System("VECO", "mt/veco.py", "*from_veco veco"),
    System("CTNMT", "mt/ctnmt.py", "ctnmt"),
    System("BERT-fused", "mt/bert_fused.py", "bert_fused", "mt/frozen.py"),
    System("APT", "mt/apt.py", "apt lm_low", "mt/apt_layers.py mt/apt_distillation.py mt/divergence.py"),
    System("Graformer", "mt/graformer.py", "graft mt_many ted/mt mlm_many lm_many"),
    System("LaSS", "mt/lass.py", "lass lass_new lass_tuned", "mt/pruning.py mt/fitting_each.py"),
    System("SGA", "mt/sga.py", "sga"),
    System(
        "Back-translation",
        "mt/back_translation.py",
        "back_translation back_translation_from_* finetune_back_translation mt_low",
    ),
    System("Unsupervised translation", "mt/unsupervised.py", "unsupervised"),
    System("Language model", "recipes/base/lm.yaml", "lm", "shared/systems/combining.py"),
    System(
        "Labels of texts and words",
        "recipes/base/labelling.yaml",
        "programs xnli paws_x panx udpos",
        "mt/understanding/labelling.py mt/understanding/heads.py mt/understanding/labels.py",
    ),
]
SPEECH = [
    System("Speech Transformer", "recipes/base/speech.yaml", "st asr asr_ctc"),
    System("LSTM translator of speech", "st/berard.py", "st_lstm wav2vec_lstm wav2vec_st"),
    System("Conformer", "shared/nn/conformer.py", "st_conformer asr_conformer"),
    System("Cascade", "st/cascade.py", "cascade cascade_* restorer", "st/marginal.py"),
    System("XSTNet", "st/xstnet.py", "xstnet", "shared/objectives/tasks.py"),
    System(
        "Chimera",
        "st/chimera.py",
        "chimera",
        "st/slots.py st/comparing.py st/modalities.py",
        "evaluate_text compare",
    ),
    System("COSTT", "st/costt.py", "costt", "st/tandem.py st/joined_text.py"),
    System("FAT-MLM and FAT-ST", "st/fat.py", "fat_st fat_mlm fat_*_waveform"),
    System("LUT", "st/lut.py", "lut mlm_source", "st/tandem.py"),
    System("Curriculum pre-training", "st/curriculum.py", "curriculum", "shared/text/word_aligner.py"),
    System("TCEN", "st/tcen.py", "tcen", "st/tandem.py shared/nn/recurrent.py"),
    System("Distillation", "st/distillation.py", "kd_word kd_sequence", "shared/objectives/teacher.py"),
    System("Self-training", "recipes/base/self_training.yaml", "self_training", phases="evaluate_with_lm"),
    System("wav2vec", "st/wav2vec.py", "wav2vec wav2vec_ctc"),
    System("wav2vec 2.0, pre-training", "st/wav2vec2.py", "wav2vec2_ctc wav2vec2 wav2vec2_large", "st/crop.py"),
    System("wav2vec2-Transformer", "recipes/base/waveform.yaml", "wav2vec2_st", "shared/nn/waveform.py"),
    System("Imported encoders of waveforms", "recipes/own/st_finetune.yaml", "st_finetune", "shared/nn/waveform.py"),
    System(
        "Imported translators of speech",
        "recipes/own/speech_finetune.yaml",
        "speech_finetune",
        "dragoman/exchange/huggingface/log_mel.py",
    ),
    System(
        "Simultaneous translation",
        "recipes/base/simultaneous.yaml",
        "simultaneous",
        "shared/systems/policies.py",
        "*",
        "laal",
    ),
    System("Wait-k", "st/wait_k.py", "wait_k", "st/measuring.py", phases="simulate", metrics="laal"),
    System("LNA", "st/lna.py", "lna", phases="zero_shot"),
]
SYSTEMS = {"Text": TEXT, "Speech": SPEECH}


def page() -> str:
    """Return the page."""
    lines = measured()
    parts = [template(lines)]
    for heading, systems in SYSTEMS.items():
        parts.append(f"## {heading}\n\n{overview(systems, lines)}")
    for systems in SYSTEMS.values():
        parts += [section(system, lines) for system in systems]
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
    own = [line for line in lines if line["recipe"] == recipe and "arm" not in line]
    found = next((line for line in own if "against" in line), own[0] if own else None)
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


def table(lines: Iterable[Line], by_phase: bool = False) -> str:
    """Return tables of lines, one for those that were tested on the same sets; a line for each model, or its phases."""
    groups: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
    for line in lines:
        rows = groups.setdefault(tuple(tests(line)), {})
        label = _label(line, by_phase)
        row = rows.setdefault(label, {"name": label, "against": _controls(line) or None, "phase": ""})
        for test in tests(line):
            cell = _score(line, test, row["against"])
            cell = cell if by_phase or _phase(line) == row["phase"] else f"{_phase(line)} {cell}"
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


def _label(line: Line, by_phase: bool) -> str:
    """Return the recipe, or its arm and what that is for, and what else was changed."""
    recipe, arm = line["recipe"].partition(" ")[0], line.get("arm", "")
    named = f"`{recipe} {arm}`" if arm else f"`{recipe}`"
    others = [_purpose(recipe, arm), line.get("keys", ""), _phase(line) if by_phase else ""]
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


def _best(names: Sequence[str], lines: Sequence[Line]) -> str:
    """Return the first recipe of one ground with what it was measured to bring, best against a control; "" for none."""
    effects = {name: found for name in names if (found := effect(name, lines)) != "not measured"}
    best = next((name for name, found in effects.items() if ":" in found), next(iter(effects), ""))
    return f"`{best}` {effects[best]}" if best else ""


def overview(systems: Sequence[System], lines: Sequence[Line]) -> str:
    """Return the table of systems: paper, file, recipes, measured effect."""
    rows = []
    for system in systems:
        names = dict.fromkeys(recipes_of(system))
        effects = [_best([name for name in names if name.startswith(f"{ground}/")], lines) for ground in GROUNDS]
        told = "; ".join(filter(None, effects))
        rows.append(
            {
                "system": f"[{system.title}](#{anchor(system.title)})",
                "paper": papers(system.home),
                "file": f"`{system.home}`",
                "recipes": ", ".join(f"`{name}`" for name in names),
                "effect": told or ("below" if shown(system, lines) else "not measured"),
            }
        )
    return markdown(rows, {"system": "", "paper": "paper", "file": "file", "recipes": "recipes", "effect": "measured"})


def anchor(title: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def section(system: System, lines: Sequence[Line]) -> str:
    """Return what the page says of a system."""
    first, *others = paragraphs(system.home)
    name, _, rest = first.partition(": ")
    first = re.split(r"(?<! al)\. (?=[A-Z])", rest if name.lower() in system.title.lower() else first)[0].rstrip(".")
    first = first[0].upper() + first[1:]
    files = ", ".join(f"`{name}`" for name in system.files.split())
    own = shown(system, lines)
    lead = f"{first}." + (f" Also: {files}." if files else "") + ("" if own else " Not measured.")
    told = [re.sub(r"^([^:]+:)", r"- **\1**", part) for part in others if part.startswith(TOLD)]
    parts = [f"## {system.title}", lead, table(own, bool(system.metrics)), "\n".join(told)]
    return "\n\n".join(filter(None, parts))


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
