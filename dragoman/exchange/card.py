"""The card of a model folder: a README.md that says what the model does, how to use it and how good it is.

Its first lines are metadata as the Hugging Face Hub reads them. It is made of the folder and of results alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from dragoman.runs.task import task_of
from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.markdown import markdown
from dragoman.shared.evaluation.results import latest, read
from dragoman.shared.machine.files import replaced_file
from dragoman.shared.systems.model_folder import model_folder
from dragoman.shared.systems.reading_model import ReadingModel

CARD = "README.md"
#: How somebody who has a model, but not dragoman, gets it: it is in no registry (README.md, "Install").
INSTALL = "pip install '.[hf]'    # in a checkout of dragoman"
#: Our metrics that the Hub knows, under the same names.
METRICS = ("bleu", "chrf", "ter", "wer", "cer")
COLUMNS = {
    "split": "test set",
    "metric": "metric",
    "value": "value",
    "lines": "lines",
    "beam": "beam",
    "averaging": "averaging",
    "seed": "seed",
    "recipe": "recipe",
    "signature": "signature",
}


def write_card(
    model: str | Path, *, name: str | None = None, license: str | None = None, results: str | Path | None = None
) -> Path:
    """Write the README.md of a model folder; one that is there is replaced.

    Args:
        model: a model folder, or that of a run.
        name: what it is called on the Hub, ``owner/name``; by default by its folder.
        license: its short name on the Hub (apache-2.0, cc-by-4.0); without it the card says that none was stated.
        results: a run's output folder, or a results.jsonl, whose measurements are this model's.

    Returns:
        The path of the card.

    Raises:
        DataError: if the folder is no model folder, or the results cannot be read.
    """
    folder = model_folder(model)
    rows: list[dict[str, Any]] = []
    if results is not None:
        path = Path(results) / "results.jsonl" if Path(results).is_dir() else Path(results)
        if not path.is_file():
            raise DataError(f"{path}: no results there")
        rows = latest([row for row in read(path) if "kind" not in row])
    text = card(ReadingModel.load(folder), name=name or f"OWNER/{folder.resolve().name}", license=license, rows=rows)
    with replaced_file(folder / CARD) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return folder / CARD


def card(system: ReadingModel, *, name: str, license: str | None = None, rows: Sequence[dict[str, Any]] = ()) -> str:
    """Return the text of a card.

    Args:
        system: the model.
        name: ``owner/name``.
        license: its short name on the Hub.
        rows: measurements (see shared/evaluation/results.py).
    """
    task = task_of(system)
    codes = [*system.source_languages, *getattr(system, "target_languages", [])]
    results = _results(rows, task.pipeline)
    metadata = {
        "language": list(dict.fromkeys(code.split("-")[0] for code in codes)),
        "license": license,
        "library_name": "dragoman",
        "pipeline_tag": task.pipeline,
        "tags": ["dragoman", *task.tags],
        "metrics": [metric for metric in METRICS if any(row["metric"] == metric for row in rows)],
        "model-index": [{"name": name.rpartition("/")[2], "results": results}] if results else None,
    }
    said = {key: value for key, value in metadata.items() if value}
    header = yaml.safe_dump(said, sort_keys=False, allow_unicode=True)
    size = sum(parameter.numel() for parameter in system.parameters())
    usage = f"{INSTALL}\ndragoman pull {name} --out model\n{task.command}"
    parts = [
        f"---\n{header}---\n\n# {name.rpartition('/')[2]}\n\n{task.sentence} {size:,} parameters.",
        f"## How to use it\n\n```\n{usage}\n```",
    ]
    if rows:
        parts.append(f"## Results\n\n{markdown(rows, COLUMNS)}")
    if system.origin:
        parts.append("## Where its parameters began\n\n" + "\n".join(f"- {line}" for line in system.origin))
    if not license:
        parts.append("## License\n\nNone was stated.")
    return "\n\n".join(parts) + "\n"


def _results(rows: Sequence[dict[str, Any]], pipeline: str) -> list[dict[str, Any]]:
    """Return what the Hub calls results: a test set each, with its metrics."""
    sets: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if row["metric"] in METRICS:
            sets.setdefault((str(row["recipe"]).split("/")[0], row["split"]), []).append(row)
    return [
        {
            "task": {"type": pipeline},
            "dataset": {"type": corpus, "name": split},
            "metrics": [
                {"type": row["metric"], "value": row["value"], "args": {"signature": row["signature"]}} for row in some
            ],
        }
        for (corpus, split), some in sets.items()
    ]
