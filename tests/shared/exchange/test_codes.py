"""Other projects' codes for languages."""

from __future__ import annotations

import pytest

from shared.exchange.codes import SHORTER, language_of
from shared.text.languages import LANGUAGES


@pytest.mark.parametrize(
    ("symbol", "code"),
    [
        ("de_DE", "de"), ("en_XX", "en"), ("[zh_CN]", "zh"), ("__gu__", "gu"), ("deu_Latn", "de"), ("ace_Latn", "ace"),
        ("ace_Arab", "ace-Arab"), ("zho_Hans", "zh"), ("zho_Hant", "zh-Hant"), ("srp_Cyrl", "sr"), ("kor_Hang", "ko"),
        (">>fra<<", "fr"), (">>pt_br<<", "pt"), ("__ns__", "nso"), ("qqq_Latn", None), ("<mask>", None), ("▁de", None),
        ("<2de>", "de"), ("<2zh_Hant>", "zh-Hant"), ("<2Arab>", None), ("<2back_translated>", None), ("<de>", None),
    ],
)  # fmt: skip
def test_codes(symbol: str, code: str | None) -> None:
    assert language_of(symbol) == code


def test_every_code_is_known_here() -> None:
    assert {*SHORTER.values()} <= LANGUAGES.keys()
