"""Windows of rows with times: which rows they have, their times and texts, and what is left out."""

import json
from types import SimpleNamespace

import pytest

from dragoman import DataError, Manifest
from dragoman.exchange.huggingface.whisper_times import TimestampedText
from dragoman.exchange.vocabularies.json_file import JsonTokenizer
from dragoman.shared.batches.fields import TextField
from dragoman.st.windows import PackWindows
from tests import small
from tests.small import refuses

SYMBOLS = ["<|end|>", "<|prev|>", "<|lm|>", "<|none|>", *(f"<|{0.02 * n:.2f}|>" for n in range(1501))]


@pytest.fixture(scope="module")
def field(tmp_path_factory):
    """Return a text whose pieces are letters."""
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    letters = {letter: number for number, letter in enumerate("abcdefghijklmnopqrstuvwxyz ")}
    added = [
        {"id": len(letters) + number, "content": symbol, "special": True, "normalized": False}
        | dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
        for number, symbol in enumerate(SYMBOLS)
    ]
    content = {"version": "1.0", "added_tokens": added, "model": {"type": "BPE", "vocab": letters, "merges": []}}
    path.write_text(json.dumps(content | dict.fromkeys(["normalizer", "pre_tokenizer", "post_processor", "decoder"])))
    names = {"</s>": "<|end|>", "<unk>": "<|prev|>", "<pad>": "<|lm|>", "<notimestamps>": "<|none|>"}
    tokenizer = JsonTokenizer(file=str(path), symbols=names)
    return TimestampedText(field=TextField(column="source_text", tokenizer=tokenizer, prefix=["<notimestamps>"]))


def row(id, start, end, text="ab", **more):
    sound = {"audio": "talk.wav", "start": start, "duration": None if end is None else end - (start or 0.0)}
    return small.row(id, text, text.upper(), **sound) | more


def packed(tmp_path, field, rows, *, lines=None, **options):
    """Return the windows of rows, by their ids."""
    Manifest.write(tmp_path / "de-en" / "train.arrow", rows)
    options = {"without": 0.0} | options
    phase = PackWindows(
        manifests=[str(tmp_path / "*" / "train.arrow")], field=field, out=str(tmp_path / "out"), **options
    )
    said = [] if lines is None else lines
    log = SimpleNamespace(info=lambda form, *values: said.append(form % values))
    phase.work(SimpleNamespace(seed=1, phase="windows", log=log))
    return {one["id"]: one for one in Manifest.open(tmp_path / "out" / "de-en" / "train.arrow")}


def shown(field, window):
    """Return a window's target, as its symbols."""
    return "".join(map(field.tokenizer.symbol, field(window, None).tolist()))


def times(window):
    return [(round(one["start"], 3), one["end"] and round(one["end"], 3)) for one in window["segments"]]


def test_rows_that_follow_each_other_are_packed_with_their_times(tmp_path, field):
    """In the order of their starts, whatever that of the manifest; each recording by itself."""
    lines = []
    rows = [row("b", 12.5, 15.1, "cd"), row("x", None, 3.0, audio="other.wav"), row("a", 10.1, 12.5)]
    windows = packed(tmp_path, field, rows, lines=lines)
    assert [*windows] == ["a", "x"]
    one = windows["a"]
    assert (one["audio"], one["start"], one["duration"]) == ("talk.wav", 10.1, pytest.approx(5.0))
    assert (one["source_text"], one["target_text"]) == ("ab cd", "AB CD")
    assert [part["target_text"] for part in one["segments"]] == ["AB", "CD"]
    assert shown(field, one) == "<|0.00|> ab<|2.40|><|2.40|> cd<|5.00|><|end|>"
    assert shown(field, windows["x"]) == "<|0.00|> ab<|3.00|><|end|>" and windows["x"]["start"] == 0.0
    assert lines == [
        f"windows: {tmp_path / 'out' / 'de-en' / 'train.arrow'}: 3 rows in 2 windows, 0 rows too long for one"
    ]


def test_of_a_row_that_the_window_cuts_there_is_the_start_alone(tmp_path, field):
    rows = [row("a", 1.0, 21.0), row("b", 22.0, 32.0, "cd"), row("c", 33.0, 34.0, "e")]
    windows = packed(tmp_path, field, rows)
    assert times(windows["a"]) == [(0.0, 20.0), (21.0, None)]
    assert windows["a"]["duration"] == 30.0 and windows["a"]["source_text"] == "ab"
    assert shown(field, windows["a"]) == "<|0.00|> ab<|20.00|><|21.00|><|end|>"
    assert times(windows["b"]) == [(0.0, 10.0), (11.0, 12.0)]
    # Without times, the window ends before it.
    plain = packed(tmp_path, field, rows, without=1.0)
    assert plain["a"]["duration"] == 20.0 and plain["a"]["segments"] is None
    assert shown(field, plain["b"]) == "<|none|> cd e<|end|>"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row("a", 0.0, 10.0), row("b", 10.0, 30.0)], {"a": [(0.0, 10.0), (10.0, 30.0)]}),
        ([row("a", 0.0, 10.0), row("b", 15.1, 20.0)], {"a": [(0.0, 10.0)], "b": [(0.0, 4.9)]}),  # a gap
        ([row("a", 0.0, 10.0), row("b", 9.0, 20.0)], {"a": [(0.0, 10.0)], "b": [(0.0, 11.0)]}),  # two speakers
        ([row("a", 0.0, 10.0), row("b", 9.99, 20.0)], {"a": [(0.0, 10.0), (10.0, 20.0)]}),  # rounded
        ([row("a", 0.0, 31.0), row("b", 31.0, 32.0)], {"b": [(0.0, 1.0)]}),  # too long
        ([row("a", 0.0, 1.0), row("b", 30.0, 32.0)], {"a": [(0.0, 1.0)], "b": [(0.0, 2.0)]}),
        (
            [row("a", 0.0, 1.0), row("b", 1.0, 2.0, target_language="fr")],
            {"a": [(0.0, 1.0)], "b": [(0.0, 1.0)]},
        ),
    ],
)  # fmt: skip
def test_which_rows_a_window_has(rows, expected, tmp_path, field):
    windows = packed(tmp_path, field, rows)
    assert {id: times(window) for id, window in windows.items()} == expected


def test_a_window_has_no_more_tokens_than_the_decoder_has_positions(tmp_path, field):
    rows = [row(str(number), number, number + 1.0, "abcdefg") for number in range(5)]  # with times, 10 tokens each
    windows = packed(tmp_path, field, [*rows, row("long", 5.0, 6.0, "a" * 30)], tokens=24)
    assert {id: len(window["segments"]) for id, window in windows.items()} == {"0": 2, "2": 2, "4": 1}
    assert max(field.length(window) for window in windows.values()) <= 24


def test_a_share_of_the_windows_has_no_times(tmp_path, field):
    rows = [row(str(number), 0.0, 1.0, audio=f"{number}.wav") for number in range(200)]
    windows = packed(tmp_path, field, rows, without=0.3)
    timed = {id for id, window in windows.items() if window["segments"]}
    assert 120 <= len(timed) <= 160  # 140, and three standard deviations
    again = packed(tmp_path, field, rows[::-1], without=0.3)
    assert timed == {id for id, window in again.items() if window["segments"]}


def test_what_cannot_be_packed_is_refused(tmp_path, field):
    for wrong, why in (
        (row("a", 0.0, 1.0, audio=None), "row 'a' has no audio"),
        (row("a", 0.0, None), "row 'a' has no duration"),
        (row("a", 0.0, 1.0) | {"source_text": None}, "row 'a' has no source_text"),
    ):
        refuses(DataError, f"train.arrow: {why}", packed, tmp_path, field, [wrong])
    path = tmp_path / "de-en" / "train.arrow"
    phase = PackWindows(manifests=[str(path)], field=field, out=str(tmp_path))
    refuses(DataError, "what is read would be written over", phase.work, None)
