"""Systems that label texts and words."""

import math

import pytest
import torch

from dragoman import UsageError
from dragoman.mt.understanding.heads import LabelHead, WordLabelHead
from dragoman.mt.understanding.labelling import LabellingSystem
from dragoman.mt.understanding.labels import LabelField, LabelTokenizer, WordsField
from dragoman.runs.task import task_of
from dragoman.shared.batch import Batch
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.search.greedy import GreedySearch
from dragoman.shared.systems.system import System
from tests.small import encoder_model, evaluated, padded, refuses, row, text, tokenizer

NAMES = ["no", "yes", "perhaps"]


@pytest.fixture(scope="module")
def own():
    return tokenizer(["a good day", "bad nights"], tags=["en"])


def system_of(head, field, labels=NAMES):
    model = encoder_model(field.tokenizer, heads={"label": head}).eval()
    output = LabelField(tokenizer=LabelTokenizer(labels=labels))
    return LabellingSystem(model=model, inputs={"source": field}, output=output, source_languages=["en"])


def test_a_system_writes_labels_by_their_probability(own, tmp_path):
    torch.manual_seed(3)
    system = system_of(LabelHead(width=16, labels=3), text(own))
    best = system.hypotheses(["a good day"], beam=5, n_best=3)[0]
    assert sorted(one.texts["label"] for one in best) == sorted(NAMES)
    assert sum(math.exp(one.score) for one in best) == pytest.approx(1)
    assert best[0].score >= best[1].score >= best[2].score
    ids = torch.tensor([own.id("<en>"), *own.encode("a good day"), own.eos])
    states = system.model.encode(Batch({"source": padded([ids])})).memories["source"]
    logits = system.model.heads["label"](states)[0]
    assert [one.texts["label"] for one in best] == [NAMES[n] for n in logits.argsort(descending=True)]
    assert system.translate(["bad nights", ""]) == [system.translate("bad nights"), ""]
    system.save(tmp_path / "model")
    again = System.load(tmp_path / "model", "cpu")
    assert again.hypotheses(["a good day"], beam=5, n_best=3)[0][0].score == pytest.approx(best[0].score)
    assert task_of(again).pipeline == "text-classification" and task_of(again).sentence == "Labels English text."
    refuses(UsageError, "labels have no beginning", system.translate_batch, Batch({}), GreedySearch(), forced=[[1]])


def test_words_get_a_label_each(own):
    torch.manual_seed(4)
    field = WordsField(column="source_text", tokenizer=own)
    system = system_of(WordLabelHead(width=16, labels=3), field)
    together = system.translate(["a good day", "bad", "nights  day"])
    assert [len(line.split()) for line in together] == [3, 1, 2]
    assert together == [system.translate(one) for one in ("a good day", "bad", "nights day")]
    [[best]] = system.hypotheses(["a good day"], beam=4)
    assert best.score < 0 and best.texts["label"] == together[0]
    assert task_of(system).pipeline == "token-classification"


@pytest.mark.parametrize("other", ["en", "fr"])  # of the last text: labels of several languages are scored together
def test_labels_are_tested_as_translations_are(own, tmp_path, other):
    torch.manual_seed(5)
    system = system_of(LabelHead(width=16, labels=3), text(own, prefix=["<s>"]))
    written = [row(n, "a good day", label="yes") for n in range(20)]
    written += [row("x", "bad", label="no", source_language=other)]
    manifest = Manifest.write(tmp_path / "test.arrow", written, {"label": str})
    evaluation = evaluated(system, manifest, tmp_path, "accuracy")
    right = [system.translate(one["source_text"]) == one["label"] for one in written]
    assert evaluation.scores[0].value == pytest.approx(100 * sum(right) / 21)
    assert evaluation.language == ("en" if other == "en" else "mul")
    assert evaluation.off_target is None and evaluation.outputs.references[0][-1] == "no"
