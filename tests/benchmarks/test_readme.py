"""The README's table of speed says what the files of results hold."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.readme import ROWS, put, speed

ROOT = Path(__file__).parent.parent.parent
FILES = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
RESULTS = [json.loads(path.read_text(encoding="utf-8")) for path in FILES]


def cells():
    """Return the words of every cell of the table by row and by the head of its column, and the heads."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"<!-- speed -->\n(.*?)\n<!-- /speed -->", text, re.DOTALL)
    (_, *heads), _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines())
    return {(row, head): cell for row, *told in rows for head, cell in zip(heads, told, strict=True)}, heads


def gpu(result):
    """Return the GPU of a result; "" if it was measured without."""
    return "".join({arm["ready"]["gpu"] for arm in result["arms"].values() if arm["ready"].get("gpu")})


def column(result):
    """Return the head of the column of a result."""
    host = result["machine"]
    name = host["processor"].replace("(R)", "").partition(" Processor")[0]
    return f"on {gpu(result) or ', '.join([name, host['vectors'][-1]])}"


def test_every_ratio_of_the_readme_is_that_of_a_file():
    told, heads = cells()
    checked = 0
    for (text, head), cell in told.items():
        (row,) = [row for row in ROWS if row.text == text]
        fitting = [result for result in RESULTS if result["name"] == row.benchmark and column(result) == head]
        fitting = [result for result in fitting if {*result["arms"]} & {*row.others} and (not row.gpu or gpu(result))]
        assert len(fitting) == bool(cell), f"{text}, {head}: python -m benchmarks report"
        for result in fitting:
            seconds = {name: [one["seconds"] for one in arm["repetitions"]] for name, arm in result["arms"].items()}
            medians = {name: np.median(own) for name, own in seconds.items()}
            compared = [name for name in row.others if name in medians]
            figures = [float(part.rsplit(" ", 1)[1]) for part in cell.split(", ")]
            assert len(figures) == len(compared) > 0
            for part, name, figure in zip(cell.split(", "), compared, figures, strict=True):
                assert part.split()[0] == name.split()[0]
                assert figure == pytest.approx(medians[name] / medians[row.ours], abs=0.051)
                checked += 1
    assert checked >= 20 and len(heads) == len({name.split(".")[1] for name in (path.name for path in FILES)})


def test_the_readme_is_what_the_command_writes(tmp_path):
    page = tmp_path / "README.md"
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    page.write_text(text, encoding="utf-8")
    put(page, speed(RESULTS))
    assert page.read_text(encoding="utf-8") == text


def test_only_what_was_measured_has_a_row_and_where_we_are_slower_is_told():
    arms = {name: {"ready": {}, "repetitions": [{"seconds": s}]} for name, s in (("ours", 4.0), ("fairseq", 3.0))}
    host = {"processor": "Intel(R) Xeon(R) Processor @ 2.80GHz", "vectors": ["avx2", "avx512f"]}
    new = {"name": "translation_speech", "machine": host, "arms": arms}
    old = new | {"name": "text_base", "machine": {"processor": "AMD EPYC", "vectors": ["avx2"]}}
    lines = speed([new, old]).splitlines()
    assert lines[0] == "| times as fast as | on AMD EPYC, avx2 | on Intel Xeon, avx512f |"
    assert lines[2:] == ["| speech translation, beam 5, float32 |  | fairseq 0.8 |"]


def test_a_gpu_has_a_column_of_its_own_beside_that_of_its_processor():
    host = {"processor": "Intel(R) Xeon(R) Processor @ 2.80GHz", "vectors": ["avx2", "avx512f"]}

    def result(name, gpu, **seconds):
        arms = {arm: {"ready": {"gpu": gpu}, "repetitions": [{"seconds": s}]} for arm, s in seconds.items()}
        arms = {arm.replace("_", " "): values for arm, values in arms.items()}
        return {"name": name, "machine": host, "arms": arms}

    found = [
        result("translation_fixed", "NVIDIA H100", ours=3.0, ours_bf16=2.0, transformers_bf16=9.0),
        result("translation_fixed", None, ours=3.0, ours_bf16=2.0, transformers=6.0, transformers_bf16=9.0),
        result("gpu_text_big", "NVIDIA H100", ours_bf16_compiled=2.0, transformers_bf16=2.8),
    ]
    assert speed(found).splitlines()[::2] == [
        "| times as fast as | on Intel Xeon, avx512f | on NVIDIA H100 |",
        "| training step, Transformer big, bf16 |  | transformers 1.4 |",
        "| translation, beam 5, bf16, 12 tokens, on a GPU |  | transformers 4.5 |",
    ]


def test_a_page_without_marks_is_refused(tmp_path):
    page = tmp_path / "README.md"
    page.write_text("<!-- speed -->\n", encoding="utf-8")
    with pytest.raises(ValueError, match="has no marks"):
        put(page, "")
