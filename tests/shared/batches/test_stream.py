"""Streams: which rows are kept, counted by a loop over the same rows."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from dragoman import DataError, Manifest, UsageError
from dragoman.shared.batches.stream import Budget, Filter, Stream
from tests import small
from tests.small import refuses


class Words:
    """A text field that counts words, with one symbol in front."""

    unit, padding, overhead = "tokens", 0.0, 1

    def __init__(self, column: str) -> None:
        self.column = column

    def __call__(self, row: dict, rng: np.random.Generator) -> Tensor:
        return torch.tensor([1] + [len(word) + 1 for word in row[self.column].split()])

    def length(self, row: dict) -> int:
        return 1 + len(row[self.column].split())

    def lengths(self, rows: Manifest, folder: Path | None = None) -> np.ndarray:
        return np.array([-1 if row[self.column] is None else self.length(row) for row in rows])

    def evaluating(self) -> Words:
        return self


class Seconds(Words):
    """A sound field without sound: it has the right number of samples."""

    unit, overhead = "samples", 0

    def __init__(self, slowest: float = 1.0) -> None:
        self.slowest = slowest

    def __call__(self, row: dict, rng: np.random.Generator) -> Tensor:
        return torch.zeros(int(row["duration"] * 16000))

    def length(self, row: dict) -> int:
        return int(row["duration"] * 16000 / self.slowest)

    def lengths(self, rows: Manifest, folder: Path | None = None) -> np.ndarray:
        return np.array([self.length(row) if row["audio"] else -1 for row in rows])


def make_rows(count: int, seed: int = 0, prefix: str = "r") -> list[dict]:
    rng = np.random.default_rng(seed)
    result = []
    for i in range(count):
        source, target = (int(n) for n in np.clip(rng.lognormal(1.5, 0.8, 2), 1, 60))
        row = {"id": f"{prefix}{i}", "audio": "x.wav", "start": 0.0, "duration": float(rng.uniform(0.5, 12))}
        row |= {"source_text": " ".join(["w"] * source), "source_language": "en"}
        row |= {"target_text": " ".join(["v"] * target), "target_language": str(rng.choice(["de", "fr", "tr"]))}
        result.append(row)
    return result


TEXT = {"source": Words("source_text"), "target": Words("target_text")}


def test_filters_against_a_loop(tmp_path: Path) -> None:
    rows = make_rows(300)
    rows[5]["target_text"], rows[6]["target_text"], rows[7]["audio"] = None, "", None
    manifest = Manifest.write(tmp_path / "m.arrow", rows)
    limits = Filter(minimum_seconds=1, maximum_seconds=10, maximum_tokens=20, maximum_ratio=3, maximum_dropped=1)
    fields = {"speech": Seconds(0.9), **TEXT}
    stream = Stream(
        name="s", manifests=[str(manifest.path)], fields=fields, budget=Budget(tokens=15, seconds=10.5), filter=limits
    )
    expected: dict[str, int] = {}
    kept = []
    for number, row in enumerate(rows):
        reasons = []
        if not row["audio"]:
            reasons.append("without speech")
        if row["target_text"] is None:
            reasons.append("without target")
        if row["target_text"] == "":
            reasons.append("empty target")
        source, target = (len((row[f"{side}_text"] or "").split()) for side in ("source", "target"))
        if row["duration"] < 1:
            reasons.append("shorter than 1 s")
        if row["duration"] > 10:
            reasons.append("longer than 10 s")
        if max(source, target) + 1 > 20:
            reasons.append("more than 20 tokens")
        if max(source, target) > 3 * min(source, target):
            reasons.append("ratio above 3")
        if max(source, target) + 1 > 15 or int(row["duration"] * 16000 / 0.9) > 168000:
            reasons.append("larger than the budget")
        if reasons:
            expected[reasons[0]] = expected.get(reasons[0], 0) + 1
        else:
            kept.append(number)
    assert stream.dropped == expected and len(expected) == 8
    assert stream.table.kept[0].tolist() == kept
    assert f"{len(kept)} rows, dropped 1 without speech" in stream.report()


def test_too_many_dropped_is_an_error(tmp_path: Path) -> None:
    manifest = Manifest.write(tmp_path / "m.arrow", make_rows(100))
    arguments = {"name": "mt", "manifests": [str(manifest.path)], "fields": TEXT, "budget": Budget(tokens=500)}
    Manifest.write(tmp_path / "e.arrow", [])
    change = "; change {} or maximum_dropped of the filter of 'mt'$"
    for changes, message in (
        (
            {"filter": Filter(maximum_ratio=1)},
            r"m\.arrow: stream 'mt' would drop \d+ of 100 rows \(\d+ ratio above 1\)",
        ),
        ({"filter": Filter(maximum_ratio=1)}, change.format("maximum_ratio")),
        ({"filter": Filter(maximum_tokens=4, maximum_ratio=1)}, change.format("maximum_tokens or maximum_ratio")),
        ({"manifests": [str(tmp_path / "e.arrow")]}, "there are none"),
        ({"manifests": [str(tmp_path / "none.arrow")]}, "none.arrow"),
    ):
        refuses(DataError, message, lambda changes=changes: Stream(**arguments | changes).table)


def test_rows_are_numbered_through_all_manifests(tmp_path: Path) -> None:
    for name in "ab":
        Manifest.write(tmp_path / f"{name}.arrow", make_rows(3, prefix=name))
    stream = Stream(name="s", manifests=[str(tmp_path / "*.arrow")], fields=TEXT, budget=Budget(rows=2))
    assert [part.tolist() for part in stream.table.kept] == [[0, 1, 2], [3, 4, 5]]
    assert [stream.locate(n)[0][stream.locate(n)[1]]["id"] for n in range(6)] == ["a0", "a1", "a2", "b0", "b1", "b2"]
    with pytest.raises(IndexError):
        stream.locate(6)
    copy = pickle.loads(pickle.dumps(stream))
    assert "table" not in copy.__dict__ and copy.table.lengths.tolist() == stream.table.lengths.tolist()


def test_groups(tmp_path: Path) -> None:
    rows = make_rows(30)
    manifest = Manifest.write(tmp_path / "m.arrow", rows)
    columns = ["source_language", "target_language"]
    arguments = {"name": "s", "manifests": [str(manifest.path)], "fields": TEXT, "budget": Budget(rows=2)}
    table = Stream(**arguments, group_by=columns).table
    assert [table.group_names[g] for g in table.groups] == [f"en-{row['target_language']}" for row in rows]
    numbered = Manifest.write(tmp_path / "n.arrow", [row | {"domain": i % 2} for i, row in enumerate(rows)])
    table = Stream(**arguments | {"manifests": [str(numbered.path)]}, group_by="domain").table
    assert [table.group_names[g] for g in table.groups] == [str(i % 2) for i in range(30)]
    rows[4]["target_language"] = None
    Manifest.write(manifest.path, rows)
    refuses(DataError, "'r4' has no target_language", lambda: Stream(**arguments, group_by=columns).table)


def test_capacities() -> None:
    budget = Budget(seconds=10, tokens=100, rows=7)
    lengths = np.array([[16000, 80000, 160001, 1, 16000], [10, 10, 10, 10, 100]])
    fields = {"speech": Seconds(), "target": Words("target_text")}
    assert budget.capacities(fields, lengths).tolist() == [7, 2, 0, 7, 1]


class Marks(Words):
    """An annotation of the words, of any number."""

    unit, overhead = "elements", 0


def test_no_budget_and_no_filter_counts_elements(tmp_path: Path) -> None:
    rows = [row | {"target_text": text} for row, text in zip(make_rows(3), ("", "a " * 50, "a"), strict=True)]
    manifest = Manifest.write(tmp_path / "m.arrow", [row | {"source_text": "a b"} for row in rows])
    stream = Stream(
        name="s",
        manifests=[str(manifest.path)],
        fields={"source": Words("source_text"), "marks": Marks("target_text")},
        budget=Budget(tokens=9),
        filter=Filter(maximum_tokens=5, maximum_ratio=2),
    )
    assert stream.dropped == {}
    assert stream.table.capacities.tolist() == [3, 3, 3]
    marks = Marks("target_text")
    marks.unit = "lines"
    refuses(UsageError, "'elements', not 'lines'", Budget(tokens=9).of, marks)


def test_arguments_are_checked() -> None:
    for wrong in ({}, {"tokens": 0}, {"seconds": -1.0}):
        with pytest.raises(UsageError):
            Budget(**wrong)
    for wrong in ({"minimum_seconds": 0}, {"maximum_ratio": 0.5}, {"maximum_dropped": 2}):
        refuses(UsageError, str(next(iter(wrong.values()))), Filter, **wrong)
    good = {"name": "s", "manifests": ["a"], "fields": TEXT, "budget": Budget(rows=1)}
    for wrong in ({"manifests": "a"}, {"manifests": []}, {"fields": {}}, {"weight": 0}, {"alpha": 2}):
        with pytest.raises(UsageError):
            Stream(**good | wrong)


def test_turned_manifests_are_read_in_the_other_direction_too(tmp_path):
    """Counts of tokens are kept by the column in the file: the sides must not be mixed up."""
    rows = [small.row(n, "a b c", "a") for n in range(5000)]
    path = Manifest.write(tmp_path / "train.arrow", rows).path
    tokenizer = small.tokenizer(["a b c"] * 9, ["en", "de"])
    fields = small.texts(tokenizer)
    stream = Stream(name="text", manifests=[str(path)], turned=[str(path)], fields=fields, budget=Budget(rows=64))
    lengths = stream.table.lengths
    assert lengths.shape == (2, 10000)
    straight, turned = lengths[:, 0].tolist(), lengths[:, 5000].tolist()
    assert straight == turned[::-1] and straight[0] > straight[1]
    assert (lengths[:, :5000] == lengths[:, :1]).all() and (lengths[:, 5000:] == lengths[:, 5000:5001]).all()
    again = Stream(name="text", manifests=[], turned=[str(path)], fields=fields, budget=Budget(rows=64))
    assert again.table.lengths[:, 0].tolist() == turned
    manifest, index = stream.locate(5000)
    assert manifest[index]["source_language"] == "de"
    short = Stream(name="text", manifests=[], turned=[str(path)], fields=fields, budget=Budget(tokens=2))
    said = f"^{re.escape(str(path))}: stream 'text' would drop 5,000 of 5,000 rows"
    refuses(DataError, said, lambda: short.table)
