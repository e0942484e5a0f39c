"""The table of ratios in the README, from the files of results.

A column is a kind of processor or a GPU, as in the names of the files; a row is a benchmark and one of our arms. What
was not measured on a processor leaves its cell empty; a row that was measured nowhere is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.tables import gpu_of, seconds_of, short_name, table

MARKS = ("<!-- speed -->", "<!-- /speed -->")


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        text: what is done.
        benchmark: whose results.
        ours: our arm.
        others: the arms that it is compared with.
        gpu: whether GPUs alone have it.

    """

    text: str
    benchmark: str
    ours: str
    others: Sequence[str]
    gpu: bool = False


FP32 = ("transformers fp32", "fairseq fp32")
TRANSLATORS = ("transformers", "fairseq", "CTranslate2 float32")
ROWS = [
    Row("training step, Transformer base, float32", "text_base", "ours fp32", FP32),
    Row("training step, Transformer base, bf16", "text_bf16", "ours bf16", ("transformers bf16", "fairseq bf16")),
    Row("training step, 250,000 symbols, float32", "text_250k", "ours fp32", FP32),
    Row(
        "training step, 12+6 layers from waveforms, float32",
        "speech_small",
        "ours fp32",
        ("fairseq fp32", "speechbrain fp32"),
    ),
    Row("pre-training step, wav2vec 2.0 base, float32", "wav2vec2_base", "ours fp32", FP32),
    Row("training step, Transformer big, bf16", "gpu_text_big", "ours bf16 compiled", ("transformers bf16",)),
    Row("pre-training step, wav2vec 2.0 base, bf16", "gpu_waveform_base", "ours bf16", ("transformers bf16",)),
    Row("translation, beam 5, float32, 12 tokens", "translation_fixed", "ours", (*TRANSLATORS, "CTranslate2 int8")),
    Row(
        "translation, beam 5, bf16, 12 tokens",
        "translation_bf16",
        "ours bf16",
        ("transformers bf16", "CTranslate2 float32", "CTranslate2 int8"),
    ),
    Row(
        "translation, beam 5, bf16, 12 tokens, on a GPU",
        "translation_fixed",
        "ours bf16",
        ("transformers bf16",),
        gpu=True,
    ),
    Row("translation, beam 5, float32, lengths of the model's own", "translation_free", "ours", TRANSLATORS),
    Row("speech translation, beam 5, float32", "translation_speech", "ours", ("transformers", "fairseq")),
]


def speed(results: Sequence[dict[str, Any]]) -> str:
    """Return the table as Markdown.

    Args:
        results: the contents of the files, in any order.

    """
    found = {(result["name"], short_name(result)): result for result in results}
    heads = {short_name(result): head_of(result) for result in sorted(results, key=short_name)}
    rows = [["times as fast as", *heads.values()]]
    for row in ROWS:
        cells = [cell(row, found.get((row.benchmark, name))) for name in heads]
        if any(cells):
            rows.append([row.text, *cells])
    return "\n".join(table(rows)).replace("---:", "---")


def cell(row: Row, result: dict[str, Any] | None) -> str:
    """Return how many times as fast we are as each of the others; "" if that was not measured."""
    arms = result["arms"] if result else {}
    if result is None or row.ours not in arms or (row.gpu and not gpu_of(result)):
        return ""
    ours = median(seconds_of(arms[row.ours]))
    ratios = {other: median(seconds_of(arms[other])) / ours for other in row.others if other in arms}
    return ", ".join(f"{label(other, row.ours)} {value:.1f}" for other, value in ratios.items())


def label(arm: str, ours: str) -> str:
    """Return the name of an arm; its precision only where it is not ours."""
    name, _, precision = arm.partition(" ")
    same = precision == "bf16" if "bf16" in ours else precision in ("", "fp32", "float32")
    return name if same else f"{name} in {precision}"


def head_of(result: dict[str, Any]) -> str:
    """Return the name of the GPU, or of the processor with its widest vectors."""
    host = result["machine"]
    name = re.sub(r"\(\w+\)| Processor.*", "", host["processor"])
    return f"on {gpu_of(result) or ', '.join([name, *(host.get('vectors') or [])[-1:]])}"


def put(page: Path, text: str) -> None:
    """Put a table between its marks in a page.

    Raises:
        ValueError: if the page has no marks.

    """
    opening, closing = MARKS
    before, mark, rest = page.read_text(encoding="utf-8").partition(opening)
    _, end, after = rest.partition(closing)
    if not mark or not end:
        raise ValueError(f"{page} has no marks {opening} and {closing}")
    page.write_text(f"{before}{opening}\n{text}\n{closing}{after}", encoding="utf-8")
