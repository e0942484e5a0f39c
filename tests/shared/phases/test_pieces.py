"""The tokenizer's training: which texts it warns of, and what of its arguments counts as another training."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from dragoman import DataError, Manifest, Recipe, UsageError
from dragoman.runs.phase_changes import phase_mark
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases import pieces
from dragoman.shared.phases.pieces import CountPieces, TrainTokenizer
from dragoman.shared.text.normalise import Lowercase, Policy
from tests import small
from tests.small import refusal, refuses


def manifest(path: Path, sources: list[str], targets: list[str]) -> str:
    pairs = enumerate(zip(sources, targets, strict=True))
    return str(Manifest.write(path, [small.row(i, *pair, target_language="zh") for i, pair in pairs]).path)


@pytest.mark.parametrize(("normalisation", "expected"), [("nfc", None), ("nmt_nfkc", "3 of 16 texts, 18.75%")])
def test_texts_that_cannot_be_written_back_are_counted_on_both_sides(normalisation, expected, tmp_path, caplog) -> None:
    """Of training and dev texts, as their policies leave them; without dev texts, of the others."""
    train = manifest(tmp_path / "train.arrow", ["one.", "two…", "three!", "four"], ["一。", "二，", "三，", "四"])
    dev = manifest(tmp_path / "dev.arrow", ["five", "six", "a", "b"], ["五。", "六（6）", "甲", "乙"])
    workspace = Workspace(output=tmp_path, phase="tokenizer", device="cpu")
    workspace.folder.mkdir()
    phase = TrainTokenizer(
        manifests=[train],
        columns=["source_text", "target_text"],
        size=300,
        normalisation=normalisation,
        normalizers={"source_text": [Policy(events=True, punctuation=False, lowercase=True)]},
        dev=[dev, str(tmp_path / "none-*.arrow"), str(tmp_path / "none.arrow")],
    )
    assert phase.manifests == [train]
    with caplog.at_level(logging.WARNING, "dragoman"):
        phase.run(workspace)
    found = [message for message in caplog.messages if "written back" in message]
    assert len(found) == (expected is not None)
    if expected:
        assert f"tokenizer.model: {expected}, cannot" in found[0] and "'六（6）' becomes '六(6)'" in found[0]


def test_reading_dev_texts_is_no_other_training() -> None:
    recipe = Recipe.load("almanac/mt", {"data_folder": "x"})
    mark = phase_mark(recipe.plan["tokenizer"], {})
    assert phase_mark(Recipe.load("almanac/mt", {"data_folder": "x", "dev": ["y"]}).plan["tokenizer"], {}) == mark
    assert recipe.value("phases")["tokenizer"]  # and the rule of measured results is what it was
    assert recipe.value("piece_normalisation") == "nmt_nfkc"
    other = Recipe.load("almanac/mt", {"data_folder": "x", "piece_normalisation": "nfc"})
    assert phase_mark(other.plan["tokenizer"], {}) != mark


@pytest.mark.parametrize("pieces", [200, 99999999999, 10**23])
def test_a_refusal_of_a_size_names_the_key_and_says_why(pieces: int) -> None:
    given = {"data_folder": "x", "source_language": "en", "target_language": "de", "pieces": pieces}
    too_long = r"is a number of more than 64 bits .*--pieces"
    why = too_long if pieces >= 2**64 else r"pieces \(.*unknown piece and the 256 bytes.* above 257 and at most 10,"
    refuses(UsageError, why, Recipe.load("own/mt", given).plan["tokenizer"].try_values)


class Letters:
    """A tokenizer whose pieces are a, b and c."""

    size = 3

    def encode(self, text: str) -> list[int]:
        return ["abc".index(letter) for letter in text]


def test_pieces_are_counted_in_the_texts_that_a_model_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = manifest(tmp_path / "one.arrow", ["A", "ab", "c"], ["b", "b", "b"])
    other = manifest(tmp_path / "other.arrow", ["aab", "c"], ["c", "c"])
    written: list = []
    monkeypatch.setattr(pieces, "write_counts", lambda counts, tokenizer, path: written.append((counts.tolist(), path)))
    given = {"manifests": {"read": [one], "heard": [other]}, "tokenizer": Letters()}
    lower = {"read": [Lowercase()]}
    workspace = Workspace(output=tmp_path, phase="count", device="cpu")
    for changes, counts in (
        ({"normalizers": lower}, [4, 2, 2]),
        ({"normalizers": lower, "limit": 1}, [3, 1, 0]),
        ({"column": "target_text"}, [0, 3, 2]),
    ):
        phase = CountPieces(**given | changes)
        assert phase.manifests == [one, other]
        phase.run(workspace)
        assert written[-1] == (counts, workspace.folder / "pieces.tsv")
    workspace.debug = True
    CountPieces(**given | {"normalizers": lower}).run(workspace)
    assert written[-1][0] == [4, 2, 1]  # two of each
    empty = manifest(tmp_path / "empty.arrow", ["", ""], ["a", "a"])
    phase = CountPieces(manifests={"a": [empty]}, tokenizer=Letters())
    assert refusal(DataError, phase.run, workspace) == f"{empty}: no text in source_text"
    assert CountPieces(**given).limit == 1_000_000


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"column": "audio"}, "columns must be source_text and target_text, not ['audio']"),
        ({"normalizers": {"b": []}}, "normalizers of ['b'] without manifests"),
    ],
)
def test_what_cannot_be_counted(changes: dict, said: str) -> None:
    assert refusal(UsageError, CountPieces, **{"manifests": {"a": []}, "tokenizer": Letters()} | changes) == said


def test_columns_of_a_training_hold_text(tmp_path: Path) -> None:
    for columns, normalizers, wrong in (
        ([], None, []),
        (["audio"], None, ["audio"]),
        (["source_text"], {"x": []}, ["x"]),
    ):
        given = {"columns": columns, "normalizers": normalizers, "manifests": [], "size": 300}
        said = f"columns must be source_text and target_text, not {wrong}"
        assert refusal(UsageError, TrainTokenizer, **given) == said
    empty = manifest(tmp_path / "empty.arrow", ["", ""], ["", ""])
    phase = TrainTokenizer(manifests=[empty], columns=["source_text", "target_text"], size=300)
    workspace = Workspace(output=tmp_path, phase="tokenizer", device="cpu")
    assert refusal(DataError, phase.run, workspace) == f"{empty}: no text in source_text, target_text"
