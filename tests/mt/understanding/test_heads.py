"""Heads and losses of labels against loops over rows without padding."""

import math

import pytest
import torch
from torch.nn import functional as F

from dragoman import UsageError
from dragoman.mt.understanding.heads import LabelCrossEntropy, LabelHead, WordLabelHead
from tests.small import alone, drawn_batch, encoder_model, padded, refuses


def labelled(head, vocabulary=9):
    return encoder_model(vocabulary, heads={"label": head}).eval()


def states_of(model, rows, number):
    """The states (L, D) of one row that is encoded by itself."""
    return model.encode(alone(rows, number, "source")).memories["source"].values[0]


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("pooling", ["first", "last", "mean"])
def test_texts_are_labelled_from_one_vector(pooling, dense):
    torch.manual_seed(1)
    model = labelled(LabelHead(width=16, labels=3, pooling=pooling, dense=dense))
    rows = drawn_batch({"source": [3, 6, 1]}, 9).with_fields(label=padded([[2], [0], [1]]))
    terms = LabelCrossEntropy().evaluate(model, rows, lambda field: model.encode(rows, field))
    head, total, right = model.heads["label"], 0.0, 0
    for number, label in enumerate((2, 0, 1)):
        states = states_of(model, rows, number)
        vector = {"first": states[0], "last": states[-1], "mean": states.mean(0)}[pooling]
        if dense:
            vector = torch.tanh(head.dense.weight @ vector + head.dense.bias)
        scores = (head.output.weight @ vector + head.output.bias).softmax(0).detach()
        total -= math.log(scores[label])
        right += int(scores.argmax()) == label
    assert terms["label"].sum.item() == pytest.approx(total, rel=1e-4) and terms["label"].count == 3
    assert terms["label_accuracy"].sum.item() == right and terms["label_accuracy"].weight == 0
    assert LabelCrossEntropy().counts(rows) == {"label": 3, "label_accuracy": 3}


def test_words_are_labelled_from_their_first_pieces():
    torch.manual_seed(2)
    model = labelled(WordLabelHead(width=16, labels=3))
    rows = drawn_batch({"source": [4, 7]}, 9)
    rows = rows.with_fields(**{"source.places": padded([[1], [1, 3, 4]]), "label": padded([[2], [0, 1, 1]])})
    part = LabelCrossEntropy(label_smoothing=0.1)
    terms = part.evaluate(model, rows, lambda field: model.encode(rows, field))
    output, total = model.heads["label"].output, 0.0
    for number, places in enumerate(([1], [1, 3, 4])):
        labels = rows["label"].rows()[number]
        logits = states_of(model, rows, number)[places] @ output.weight.T + output.bias
        smoothed = F.one_hot(labels, 3) * 0.9 + 0.1 / 3
        total -= (smoothed * logits.log_softmax(-1)).sum().item()
    assert terms["label"].sum.item() == pytest.approx(total, rel=1e-4) and terms["label"].count == 4


def test_dropout_is_in_training_alone():
    head = LabelHead(width=16, labels=3, dropout=0.5)
    states = padded([torch.randn(4, 16)])
    assert not torch.equal(head.train()(states), head(states))
    assert torch.equal(head.eval()(states), head(states))


def test_an_objective_needs_the_head():
    refuses(UsageError, "the model has no head 'label', only none", LabelCrossEntropy().check, encoder_model(9))
