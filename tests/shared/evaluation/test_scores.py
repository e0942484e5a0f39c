"""Scores against hand counts, the edit distance of nltk, and what sacreBLEU says on its own."""

from __future__ import annotations

import importlib.util
import random
import sys
import unicodedata

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from nltk.metrics.distance import edit_distance
from sacrebleu.metrics import BLEU, CHRF, TER

from dragoman.shared.errors import DataError
from dragoman.shared.evaluation.counts import rate
from dragoman.shared.evaluation.metrics import bleu, chrf
from dragoman.shared.evaluation.scores import score
from tests.small import refuses


def value(metric, hypotheses, references, language="en"):
    [result] = score(hypotheses, references, language, [metric])
    assert result.name == metric and result.lines == len(hypotheses)
    return result.value


@pytest.mark.parametrize("seed", range(5))
def test_error_rates_are_edits_over_reference_length(seed):
    rng = random.Random(seed)
    texts = [[" ".join(rng.choices("ab cde fg".split(), k=rng.randint(1, 9))) for _ in range(6)] for _ in range(2)]
    hypotheses, references = texts
    hypotheses[2] = ""
    for metric, parts in (("wer_raw", str.split), ("cer_raw", list)):
        pairs = [(parts(one), parts(other)) for one, other in zip(hypotheses, references, strict=True)]
        edits, length = sum(edit_distance(*pair) for pair in pairs), sum(len(wanted) for _, wanted in pairs)
        assert value(metric, hypotheses, references) == pytest.approx(100 * edits / length)


def test_normalisation_drops_case_and_punctuation_but_not_apostrophes():
    assert value("wer", ["hello world don't"], ["Hello, world! Don't..."]) == 0
    assert value("wer_raw", ["hello world don't"], ["Hello, world! Don't..."]) == 100
    assert value("wer", ["dont"], ["Don't"]) == 100
    assert value("wer", ["was kostet das"], ["«Was kostet das?»"], "de") == 0
    assert value("wer", ["l\u2019aube col\u00b7lecció"], ["“L\u2019aube” – col\u00b7lecció…"], "ca") == 0
    assert value("wer", ["laube collecció"], ["L\u2019aube col\u00b7lecció"], "ca") == 100
    assert value("cer", ["ab c"], ["Ab, d."]) == pytest.approx(25)  # the space counts
    assert value("wer", ["a", "..."], ["a b", "!"]) == 50  # a line without words stays a line
    [wer] = score(["a"], ["a"], "en", ["wer"])
    assert wer.signature.startswith("wer|norm:nopunct+lower|lang:en|rapidfuzz:")


def test_languages_without_spaces():
    assert value("cer", ["你 好 世界"], ["你好\uff0c世间\uff01"], "zh") == 25
    refuses(DataError, "use cer", score, ["你好"], ["你好"], "zh", ["wer"])
    [bleu] = score(["你好,世界!今天"], ["你好,世界!今天"], "zh", ["bleu"])
    assert bleu.value == pytest.approx(100) and "tok:zh" in bleu.signature
    [ter] = score(["你好世界"], ["你好世间"], "zh", ["ter"])
    assert ter.value == pytest.approx(25) and "asian:yes" in ter.signature


def test_agrees_with_sacrebleu():
    hypotheses = ["The cat sat on a mat.", "", "It is 5:30 p.m., isn't it?"]
    references = ["The cat sat on the mat.", "Nothing to say.", "It's 5:30 p.m., isn't it?"]
    bleu, chrf, ter = score(hypotheses, references, "en")
    assert bleu.value == pytest.approx(sacrebleu.corpus_bleu(hypotheses, [references]).score)
    assert chrf.value == pytest.approx(sacrebleu.corpus_chrf(hypotheses, [references]).score)
    assert ter.value == pytest.approx(sacrebleu.corpus_ter(hypotheses, [references]).score)
    assert bleu.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp")
    assert "nc:6|nw:0" in chrf.signature and [s.higher_is_better for s in (bleu, chrf, ter)] == [True, True, False]
    several = [references, ["A cat sat on a mat.", "Nothing.", "It is 5:30 p.m., no?"]]
    [both] = score(hypotheses, several, "en", ["bleu"])
    assert both.value == pytest.approx(sacrebleu.corpus_bleu(hypotheses, several).score) and "nrefs:2" in both.signature
    assert value("bleu", ["a b c d", ""], ["a b c d", ""]) == pytest.approx(100)  # an empty reference is allowed


@pytest.mark.parametrize(
    ("code", "module", "text"), [("ja", "MeCab", "今日は良い天気です。"), ("ko", "mecab_ko", "오늘은 날씨가 좋네요.")]
)
def test_a_missing_tokenizer_says_what_to_install(code, module, text, monkeypatch):
    if importlib.util.find_spec(module):
        assert value("bleu", [text], [text], code) == pytest.approx(100)
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"sacrebleu.tokenizers.tokenizer_{code}_mecab", raising=False)
    with pytest.raises(DataError, match=rf"needs the tokenizer {code}-mecab: pip install 'dragoman\[{code}\]'"):
        score([text], [text], code, ["bleu"])
    assert value("chrf", [text], [text], code) == pytest.approx(100)


@given(data=st.data())
def test_formulas_are_sacrebleus_on_any_sums(data):
    size = st.integers(0, 30)
    totals = data.draw(st.lists(st.integers(0, 9), min_size=4, max_size=4))
    correct = [data.draw(st.integers(0, total)) for total in totals]
    counts = [data.draw(size), data.draw(size), *correct, *totals]
    expected = BLEU()._compute_score_from_stats(list(counts)).score
    assert float(bleu(np.array(counts, dtype=float))) == pytest.approx(expected, abs=1e-9)
    words = data.draw(st.sampled_from([0, 2]))  # chrF and chrF++
    counts = []
    for _ in range(6 + words):
        sides = data.draw(size), data.draw(size)
        counts += [*sides, data.draw(st.integers(0, min(sides)))]
    expected = CHRF(word_order=words)._compute_score_from_stats(counts).score
    assert float(chrf(np.array(counts, dtype=float))) == pytest.approx(expected, abs=1e-9)
    counts = [data.draw(size), data.draw(size)]
    assert float(rate(np.array(counts, dtype=float))) == pytest.approx(TER()._compute_score_from_stats(counts).score)


def test_a_sentence_may_have_fewer_references_than_others():
    hypotheses = ["the cat sat on the mat", "a dog barked at the old man"]
    first, second = ["a cat sat on the mat", "the dog barked at an old man"], ["the cat sat on a mat", None]
    for metric, scorer in (("bleu", BLEU()), ("chrf", CHRF()), ("ter", TER())):
        [result] = score(hypotheses, [first, second], "en", [metric])
        assert result.value == pytest.approx(scorer.corpus_score(hypotheses, [first, second]).score)
        assert "nrefs:var" in result.signature


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a"], ["a", "b"], "en"), "^1 hypotheses, but 2 lines of references$"),
        ((["a"], [["a"], ["a", "b"]], "en"), "but 2 lines of references 2"),
        (([], [], "en"), "0 references"),
        ((["a"], [], "en"), "0 references"),
        ((["a", "b"], ["a", " "], "en", ["wer"]), "line 2: ' ' is empty"),
        ((["a"], ["?!"], "en", ["cer"]), "once punctuation is removed"),
        ((["a"], [["a"], ["b"]], "en", ["wer"]), "one set of references, not 2"),
        ((["a"], ["a"], "en", ["blue"]), "unknown metric 'blue'"),
        ((["a"], ["a"], "xx", ["bleu"]), "'xx'"),
        ((["a"], "a", "en"), "not one string"),
        ((["a", "b"], ["a", ["b"]], "en"), "not both"),
    ],
)
def test_refuses(arguments, message):
    refuses(DataError, message, score, *arguments)


def test_bleu_without_case_and_without_marks():
    """sacreBLEU itself, of texts whose letters were replaced by hand: with comma, with cedilla, in two parts."""
    hypotheses = ["Şi pisica stă pe masă.", "Aceasta este tara mea.", "Un om merge i\u0302n sat azi."]
    references = ["și pisica stă pe o masă.", "Aceasta este țara mea.", "un om merge în sat azi."]
    bare = ["Si pisica sta pe masa.", "Aceasta este tara mea.", "Un om merge in sat azi."]
    wanted = ["si pisica sta pe o masa.", "Aceasta este tara mea.", "un om merge in sat azi."]
    composed = [unicodedata.normalize("NFC", line) for line in hypotheses]
    found = score(hypotheses, references, "ro", ["bleu", "bleu_lc", "bleu_bare"])
    assert found[1].value == pytest.approx(sacrebleu.corpus_bleu(composed, [references], lowercase=True).score)
    assert found[2].value == pytest.approx(sacrebleu.corpus_bleu(bare, [wanted]).score)
    assert len({one.value for one in found}) == 3
    assert "case:lc" in found[1].signature and found[2].signature.endswith("|marks:removed")
