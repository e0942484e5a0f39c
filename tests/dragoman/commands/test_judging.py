"""Judges: expected metrics against sacreBLEU, sentence by sentence; other models against their own scores."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from dragoman import DataError, UsageError
from dragoman.commands.judging import ExpectedMetric, OtherModel
from dragoman.shared.generator import Hypothesis
from dragoman.shared.search import ChoosingSearch, Rules, SamplingSearch
from dragoman.shared.systems.system import System
from tests import small
from tests.small import refuses

TEXTS = ["the cat sat on the mat", "a cat sat on the mat", "the cat sat on the mat", "dogs", "", "The cat sits there ."]
SCORERS = {
    "chrf": lambda h, r: CHRF().sentence_score(h, [r]).score / 100,
    "chrf++": lambda h, r: CHRF(word_order=2).sentence_score(h, [r]).score / 100,
    "bleu": lambda h, r: BLEU(effective_order=True).sentence_score(h, [r]).score / 100,
}


@pytest.mark.parametrize("metric", SCORERS)
def test_the_expected_metric_is_the_mean_over_all_hypotheses(metric):
    expected = [np.mean([SCORERS[metric](text, other) for other in TEXTS]) for text in TEXTS]
    assert ExpectedMetric(metric=metric).expected(TEXTS, "en") == pytest.approx(expected, abs=1e-9)


def test_of_equal_texts_one_is_kept_and_the_best_come_first():
    class Length:
        def judge(self, system, rows, outputs):
            return [[float(len(one.texts["translation"])) for one in some] for some in outputs]

    texts = {1: "a", 2: "bbb", 3: "a", 4: "cc"}
    hypotheses = [Hypothesis([token], 0.0, texts={"translation": text}) for token, text in texts.items()]
    search = ChoosingSearch(search=SamplingSearch(samples=4), judge=Length(), n_best=3)
    [best] = search.best(SimpleNamespace(output_name="translation"), [{}], [hypotheses])
    assert [(one.texts["translation"], one.score, one.tokens) for one in best] == [
        ("bbb", 3, [2]), ("cc", 2, [4]), ("a", 1, [1])
    ]  # fmt: skip


@pytest.fixture(scope="module")
def forth_and_back(tmp_path_factory):
    """A system from English to German, the folder of one back, and that of a language model of German."""
    tokenizer = small.tokenizer(["ein haus", "a house", "der hund"])
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(1)
    forth = small.system(tokenizer).eval()
    turned = {"source_languages": ["de"], "target_languages": ["en"]}
    back = small.system(tokenizer, small.translator(tokenizer, seed=2), **turned)
    back.eval().save(folder / "back")
    return forth, folder


def test_search_and_judge_work_behind_translate(forth_and_back):
    forth, _ = forth_and_back
    sampling = SamplingSearch(samples=8, rules=Rules(maximum_length_extra=4))
    rows = ["a house", "ein"]
    choosing = ChoosingSearch(search=sampling, judge=ExpectedMetric(metric="chrf"))
    chosen = forth.hypotheses(rows, search=choosing, source_language="en")
    for drawn, [best] in zip(forth.hypotheses(rows, search=sampling), chosen, strict=True):
        texts = [one.texts["translation"] for one in drawn]
        means = [np.mean([SCORERS["chrf"](text, other) for other in texts]) for text in texts]
        assert best.score == pytest.approx(max(means)) and best.texts["translation"] == texts[int(np.argmax(means))]


def test_a_model_translates_back(forth_and_back):
    forth, folder = forth_and_back
    hypotheses = [Hypothesis([], -1.0, texts={"translation": text}) for text in ("der hund", "ein", "")]
    judge = OtherModel(model=str(folder / "back"), weight=0.5)
    [values] = judge.judge(forth, [small.row("1", "a house") | {"target_language": "de"}], [hypotheses])
    back = System.load(folder / "back")
    written = back.output.tokenizer.encode("a house")
    for text, value in zip(("der hund", "ein"), values, strict=False):
        read = [*back.inputs["source"].framed(back.inputs["source"].tokenizer.encode(text), "de")]
        ids = [*back.output.prefix_ids("en"), *written, back.output.tokenizer.eos]
        total = 0.0
        for place in range(1, len(ids)):
            states = back.model.encode(small.batch(source=[read]))
            with torch.no_grad():
                scores = back.model.log_probabilities(small.padded([ids[:place]]), states)
            total += float(scores[0, place - 1, ids[place]])
        assert value == pytest.approx(-1.0 + 0.5 * total / (len(ids) - 1), abs=1e-5)
    assert values[2] < -1e6


def test_what_cannot_judge_is_refused(forth_and_back):
    forth, folder = forth_and_back
    judge = OtherModel(model=str(folder / "back"))
    one = [[Hypothesis([], 0.0, texts={"translation": "hund"})]]
    refuses(UsageError, "compared by chrf, chrf.., bleu, not 'comet'", ExpectedMetric, metric="comet")
    refuses(DataError, "row '1' has no source_text", judge.judge, forth, [small.row("1", target="ein")], one)
    french = small.row("1", "a house") | {"target_language": "fr"}
    refuses(UsageError, "reads de, not the outputs' 'fr'", judge.judge, forth, [french], one)
