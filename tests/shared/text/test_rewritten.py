"""Texts that come back from a tokenizer as others: counted by hand."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.shared.text.rewritten import rewritten
from dragoman.shared.text.tokenizer import SentencePieceTokenizer
from tests import small


def tokenizer(folder: Path, normalisation: str) -> SentencePieceTokenizer:
    return small.tokenizer(["a b"] * 3, [], normalisation=normalisation)


def test_a_count_a_share_and_three_of_them(tmp_path: Path) -> None:
    texts = ["a", " ", "b\u00a0b", "你好，", "x²", "a…", "b", unicodedata.normalize("NFD", "é"), "（a）"]
    found = rewritten(texts, tokenizer(tmp_path, "nmt_nfkc"))
    assert found == (
        "5 of 8 texts, 62.50%, cannot be written back as they are, 1 of them in white space alone: "
        "'你好，' becomes '你好,'; 'x²' becomes 'x2'; 'a…' becomes 'a...'"
    )
    found = rewritten(texts, tokenizer(tmp_path, "nfc"))
    assert found is not None and found.endswith("white space alone: 'b\\xa0b' becomes 'b b'") and found[:6] == "1 of 8"
    assert rewritten(["a", "é", "e\u0301"], tokenizer(tmp_path, "nfc")) is None
    assert rewritten([], tokenizer(tmp_path, "nfc")) is rewritten([" "], tokenizer(tmp_path, "nfc")) is None


def test_what_differs_is_shown_and_what_cannot_be_seen_is_spelled(tmp_path: Path) -> None:
    found = rewritten(["a" * 100 + "می\u200cخواهم" + "b" * 100], tokenizer(tmp_path, "nmt_nfkc"))
    excerpts = [f"'...{'a' * 10}می{sign}خواهم{'b' * 22}...'" for sign in ("\\u200c", " ")]
    assert found is not None and found.endswith(" becomes ".join(excerpts))


@pytest.mark.parametrize(("number", "limit", "looked"), [(10, 10, 10), (11, 10, 6), (1000, 10, 10), (25, 10, 9)])
def test_many_texts_are_sampled_evenly(number: int, limit: int, looked: int) -> None:
    seen: list[str] = []
    forgetful: Any = SimpleNamespace(encode=lambda text: seen.append(text) or [], decode=lambda ids: "")
    found = rewritten([f"text {n}" for n in range(number)], forgetful, limit)
    step = int(seen[1].split()[1])
    assert seen == [f"text {n}" for n in range(0, number, step)] and len(seen) == looked
    sampled = f" (looked at evenly, of {number:,})" if number > limit else ""
    assert found is not None and found.startswith(f"{looked} of {looked} texts{sampled}, 100.00%, cannot be")
