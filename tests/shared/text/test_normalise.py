"""Punctuation and events by language, against hand values."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.shared.text.normalise import Lowercase, Policy, RemoveEvents, RemovePunctuation


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "“It’s a well-known fact: 3.5 or 1,000?”", "It's a well known fact 3 5 or 1 000"),
        ("en", "'tis the dogs' o＇clock rock ‘n’ roll", "tis the dogs o'clock rock n roll"),
        ("fr", "L’aube, aujourd’hui\u00a0; qu'est-ce\u202f?", "L'aube aujourd'hui qu'est ce"),
        ("uk", "п’ять об'єкт мʼята", "п'ять об'єкт м'ята"),
        ("ca", "«Col·lecció»: l’il·lús·", "Col·lecció l'il·lús"),
        ("zh", "约翰·史密斯（教授），你好！", "约翰 史密斯 教授 你好"),
        ("he", 'צה"ל וצה״ל, ג׳ירפה "שלום" ג\'ירפה־טוב', "צה\"ל וצה\"ל ג'ירפה שלום ג'ירפה טוב"),
        ("en", 'a"b a“b', "a b a b"),
        ("hy", "Ինչպե՞ս ես, լա՛վ։", "Ինչպես ես լավ"),
        ("el", "Τι κάνεις\u037e Καλά\u0387", "Τι κάνεις Καλά"),
        ("hi", "क़लम’फ़िल्म। कि'ताब?", "क़लम'फ़िल्म कि'ताब"),
        ("fa", "می\u200cخواهم، کتاب\u200cها؟", "می\u200cخواهم کتاب\u200cها"),
        ("ar", "كتـــاب؟ نعم، «لا»!", "كتـــاب نعم لا"),
        ("vi", unicodedata.normalize("NFD", "Tiếng'Việt, rất đẹp!"), "Tiếng'Việt rất đẹp"),
    ],
)
def test_punctuation(language: str, text: str, expected: str) -> None:
    assert RemovePunctuation()(text, language) == unicodedata.normalize("NFC", expected)


def test_nothing_is_kept_if_nothing_is_to_be() -> None:
    assert RemovePunctuation(keep="")('col·lecció l’aube צה"ל', "ca") == "col lecció l aube צה ל"


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("zh", "（笑声）谢谢大家（掌声）", "谢谢大家"),
        ("zh", "谢谢（掌声）大家 【音乐】 AI", "谢谢大家 AI"),
        ("zh", "（观众热烈鼓掌）好", "好"),
        ("zh", "（他说到这里的时候在场的观众都笑了）好", "（他说到这里的时候在场的观众都笑了）好"),  # 16 characters
        ("zh", "我（不）知道（一）总则，世卫组织（WHO）", "我（不）知道（一）总则，世卫组织（WHO）"),
        ("zh-TW", "（Applause）謝謝［掌聲］", "謝謝"),
        ("zh-TW", "（（笑聲））謝謝[[掌聲]] 【【音樂】】", "謝謝"),
        ("en", "((Laughter)) a ((Applause) b (c))", "a ( b (c))"),
        ("ja", "そうですね（笑）。（拍手）", "そうですね。"),
        ("ja", "東京（とうきょう）は首都（しゅと）だ", "東京（とうきょう）は首都（しゅと）だ"),
        ("th", "(เสียงปรบมือ) ขอบคุณ (กรุงเทพ)", "ขอบคุณ (กรุงเทพ)"),
        ("ar", "(تصفيق) شكرا (نعم) لكم", "شكرا (نعم) لكم"),
        ("he", "תודה (צחוק) רבה (עולם)", "תודה רבה (עולם)"),
        ("ko", "감사합니다 (박수) 서울(수도)", "감사합니다 서울(수도)"),
        ("hi", "(तालियाँ) धन्यवाद (यानी) आप", "धन्यवाद (यानी) आप"),
        ("ka", "(აპლოდისმენტები) გმადლობთ (კი)", "გმადლობთ (კი)"),
        ("ru", "Спасибо (Смех) вам (как он)", "Спасибо вам (как он)"),
        ("de", "ja （Beifall） (Musik] nein", "ja (Musik] nein"),
        ("en", "a (Laughter) (Applause) b", "a b"),
        ("en", "[♪ music ♪] it ($5) (-3) (“as he said”) (...)", "it ($5) (-3) (“as he said”)"),
        (None, "() (Applause)【笑】x", "() x"),
        ("xx-YY", "(Applause) x", "x"),
    ],
)
def test_events(language: str | None, text: str, expected: str) -> None:
    assert RemoveEvents()(text, language) == expected


#: Letters, marks, joiners and punctuation of many scripts, and what changes in another case or form.
SIGNS = (
    "aAiIİıßẞΣσςΌǅ’'ʼʻ‘\"”״׳·-‑.,!?،؟。，（）「」՞՛:;\u037e\u0387\u0301\u0307\u0308\u0323\u200c\u200d\u200f\u00ad 5٣"
)
SIGNS += "½²$€+שָׁלאّँक़िมำ한가\u1100\u1161\u11a8жЇԵΐŉǰẖTHᲐა日かガー\u3099ⅣÅK"
POLICY = Policy(events=True, punctuation=False, lowercase=True)


@given(text=st.text(st.one_of(st.sampled_from(SIGNS), st.characters(codec="utf-8")), max_size=14))
def test_a_text_that_has_been_changed_changes_no_more(text: str) -> None:
    """What policies made is what metrics leave; canonically equal texts become one."""
    for language in (None, "tr", "ca", "he", "hy", "el", "zh"):
        once = POLICY(text, language)
        assert POLICY(once, language) == once and unicodedata.is_normalized("NFC", once)
        assert POLICY(unicodedata.normalize("NFD", text), language) == once
        for change in (RemovePunctuation(), Lowercase()):
            assert change(change(text, language), language) == change(text, language)
