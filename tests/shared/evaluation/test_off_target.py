"""The off-target rate: sentences of which the language is known, and the honest answer where it cannot be."""

from __future__ import annotations

import pytest

from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.off_target import OffTarget, judge
from tests.small import refuses

SENTENCES = {
    "de": ["Der Zug nach Bern fährt um sieben Uhr dreißig ab.", "Wie lange dauert die Fahrt bis zum Bahnhof?"],
    "en": ["The train to Bern leaves at half past seven.", "How long does it take to get to the station?"],
    "fr": ["Le train pour Berne part à sept heures et demie.", "Combien de temps faut-il pour aller à la gare ?"],
    "tr": ["Bern treni saat yedi buçukta kalkıyor.", "İstasyona gitmek ne kadar sürüyor?"],
}


def test_languages_are_told_apart():
    lines = [line for pair in SENTENCES.values() for line in pair]
    codes = [code for code in SENTENCES for _ in range(2)]
    found = judge(lines, "de", list(SENTENCES))
    assert found.codes == codes and found.judged == 8
    assert found.wrong == [2, 3, 4, 5, 6, 7] and found.share == 0.75
    assert found.score.value == 75 and found.score.lines == 8 and found.score.name == "off_target"
    assert "among:de+en+fr+tr|certain:0.9" in found.signature
    assert judge(SENTENCES["de"], "de", list(SENTENCES)).wrong == []


def test_what_is_too_short_is_not_judged():
    found = judge(["Ja.", "", "17:30", *SENTENCES["de"], SENTENCES["en"][0]], "de", ["en", "de"])
    assert found.codes[:3] == [None, None, None] and found.judged == 3
    assert found.share == pytest.approx(1 / 3) and found.score.lines == 3
    nothing = judge(["", "12"], "de", ["en", "de"])
    assert nothing.judged == 0 and nothing.share == 0 and nothing.score is None
    assert judge([], "de", ["en", "de"]).score is None


def test_one_language_is_held_against_all():
    found = judge([*SENTENCES["en"], "Der Zug nach Bern fährt um sieben Uhr dreißig ab, und wir warten."], "en", ["en"])
    assert found.wrong == [2] and "among:all" in found.signature


def test_regions_are_one_language_and_unknown_languages_are_not_judged():
    chinese = ["火车什么时候开往伯尔尼,我们要等多久才能到车站?"]
    assert judge(chinese, "zh-CN", ["zh-CN", "en"]).wrong == []
    assert judge(chinese, "en", ["zh-CN", "en"]).wrong == [0]
    assert judge(SENTENCES["de"], "cv", ["cv", "de", "en"]).judged == 0
    refuses(DataError, "xx", judge, chinese, "xx", ["en"])


def test_codes_of_the_library_are_other_ones_at_times():
    found = OffTarget("nb", ["no", "sv", None], "by hand")
    assert found.wrong == [1] and found.share == 0.5 and found.judged == 2
    for code, label in (("fil", "tl"), ("yue", "zh"), ("nn-NO", "no"), ("de-DE", "de")):
        assert OffTarget(code, [label], "").wrong == []
    german = judge(SENTENCES["de"], "de", ["de-DE"])
    assert "among:all" in german.signature and german.wrong == []
    assert judge(SENTENCES["de"], "de", ["de", "cv"]).codes == [None, None]  # one of them is known alone
    again = judge(SENTENCES["fr"], "fr", ["fr"])
    assert again.codes == ["fr", "fr"]  # what was asked before is forgotten
