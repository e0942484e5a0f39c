"""Answers as spans: the loss and the search over windows, against loops over one window at a time."""

import math

import numpy as np
import pytest
import torch

from dragoman import Manifest, UsageError
from dragoman.mt.understanding.heads import SpanCrossEntropy, SpanHead
from dragoman.mt.understanding.labelling import AnsweringSystem
from dragoman.mt.understanding.spans import AnswerField, WindowsField, windows_of
from dragoman.runs.task import task_of
from dragoman.shared.batches.loader import collate
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.systems.system import System
from tests.small import alone, encoder_model, evaluated, refuses, row, text, tokenizer

RNG = np.random.default_rng(1)
ROWS = [
    ("who fed", "the old man fed a black cat  and a dog", "old man"),
    ("what", "a  cat", "cat"),
    ("x", "the old man fed a black cat", "the old man fed a black cat"),
]


@pytest.fixture(scope="module")
def system():
    torch.manual_seed(6)
    own = tokenizer([text for one in ROWS for text in one], tags=["en"])
    field = WindowsField(tokenizer=own, prefix=["<s>"], maximum=18, stride=6, longest_question=8)
    below, head = encoder_model(own), SpanHead(width=16)
    torch.nn.init.normal_(head.output.weight)
    model = EncoderModel(**below.arguments | {"heads": {"label": head}})
    given = {"inputs": {"source": field}, "output": AnswerField(source=field), "source_languages": ["en"]}
    return AnsweringSystem(model=model, longest=7, **given).eval()


def rows_of():
    given = enumerate(ROWS)
    return [row(n, c, question_text=q, answer_text=a, answer_start=c.find(a)) for n, (q, c, a) in given]


def window_logits(system, batch):
    """Logits (L, 2) and places of each window, encoded by itself."""
    windows = windows_of(batch, "source")
    for number in range(len(windows)):
        one = alone(windows, number)
        states = system.model.encode(one).memories["source"].values[0]
        head = system.model.heads["label"].output
        yield (states @ head.weight.T + head.bias).detach(), one["source.places"].values[0].tolist()


def test_the_loss_is_that_of_each_window(system):
    batch = collate(rows_of(), {"source": system.inputs["source"], "label": system.output}, RNG)
    part = SpanCrossEntropy()
    terms = part.evaluate(system.model, batch, None)
    wanted = [span for spans in batch["label"].rows() for span in spans.tolist()]
    total, right = 0.0, 0
    logits = list(window_logits(system, batch))
    assert len(logits) == len(wanted) > 6 and any(span == [0, 0] for span in wanted)
    for (scores, _), (first, last) in zip(logits, wanted, strict=True):
        chances = scores.softmax(0)
        total -= (math.log(chances[first, 0]) + math.log(chances[last, 1])) / 2
        right += scores.argmax(0).tolist() == [first, last]
    assert terms["label"].sum.item() == pytest.approx(total, rel=1e-4)
    assert terms["label"].count == len(wanted) and terms["label_accuracy"].sum.item() == right
    assert terms["label_accuracy"].weight == 0
    assert part.counts(batch) == {"label": len(wanted), "label_accuracy": len(wanted)}
    refuses(UsageError, "no head 'span'", SpanCrossEntropy(head="span").check, system.model)


@pytest.mark.parametrize("at_a_time", [64, 2])
def test_the_answer_is_the_best_span_of_all_windows(system, at_a_time, monkeypatch):
    monkeypatch.setattr("dragoman.mt.understanding.labelling.MOST_WINDOWS", at_a_time)
    for number, (question, context, _) in enumerate(ROWS):
        batch = collate([rows_of()[number]], {"source": system.inputs["source"]}, RNG)
        found, total = {}, 0.0
        for scores, places in window_logits(system, batch):
            for first, (begin, end) in enumerate(places):
                for last in range(first, min(first + 7, len(places))):
                    if begin < end and places[last][0] < places[last][1]:
                        score = float(scores[first, 0] + scores[last, 1])
                        total += math.exp(score)
                        span = begin, places[last][1]
                        found[span] = max(found.get(span, -math.inf), score)
        best = sorted(found, key=found.get, reverse=True)
        [hypotheses] = system.hypotheses([f"{question}\t{context}"], beam=20, n_best=20)
        count = min(20, len(best))
        assert [tuple(one.tokens) for one in hypotheses] == best[:count]
        assert [one.texts["answer"] for one in hypotheses] == [" ".join(context[a:b].split()) for a, b in best[:count]]
        expected = [found[span] - math.log(total) for span in best[:count]]
        assert [one.score for one in hypotheses] == pytest.approx(expected, abs=1e-4)


def test_rows_do_not_see_each_other(system, tmp_path):
    asked = [f"{question}\t{context}" for question, context, _ in ROWS]
    together = system.translate(asked)
    assert together == [system.translate(one) for one in asked]
    assert system.translate(["who\t", "\t", "who\t\u3000 "]) == ["", "", ""]
    system.save(tmp_path / "model")
    again = System.load(tmp_path / "model", "cpu")
    assert again.translate(asked) == together and again.output.source is again.inputs["source"]
    assert task_of(again).pipeline == "question-answering"
    assert task_of(again).sentence == "Answers questions about English text."


def test_what_is_no_question_is_refused(system):
    refuses(Exception, "'who': this system reads question and source, with a tab between", system.translate, "who")
    refuses(Exception, "with a tab between them", system.translate, "a\tb\tc")
    plain = {"inputs": {"source": text(system.output.tokenizer)}, "output": system.output, "source_languages": ["en"]}
    message = "answers are found in a WindowsField, but 'source' is a TextField"
    refuses(UsageError, message, AnsweringSystem, model=system.model, **plain)


def test_answers_are_tested_as_translations_are(system, tmp_path):
    columns = {"question_text": str, "answer_text": str, "answer_text_1": str, "answer_start": int}
    written = rows_of()
    said = system.translate([f"{one['question_text']}\t{one['source_text']}" for one in written])
    written[1] |= {"answer_text_1": f"The {said[1]}!"}
    manifest = Manifest.write(tmp_path / "test.arrow", written, columns)
    evaluation = evaluated(system, manifest, tmp_path, "exact_match", "answer_f1")
    right = [n == 1 or said[n] == one["answer_text"] for n, one in enumerate(written)]
    assert evaluation.scores[0].value == pytest.approx(100 * sum(right) / 3)
    assert evaluation.scores[1].value >= evaluation.scores[0].value and evaluation.off_target is None
    assert evaluation.outputs.hypotheses == said and len(evaluation.outputs.references) == 2
