"""The contrast of mRASP2 against the definition in numpy and the arithmetic of the authors' criterion."""

import numpy as np
import pytest
import torch

from dragoman import System, UsageError
from dragoman.mt.mrasp2 import Contrast
from dragoman.shared.batches.fields import TextField
from dragoman.shared.objectives.objective import Loss, Term
from tests import small

SOURCES = [[5, 6, 7, 2], [5, 8, 2], [5, 9, 10, 11, 12, 2], [5, 13, 2]]
TARGETS = [[4, 14, 2], [4, 15, 16, 2], [4, 17, 2], [4, 18, 19, 20, 2]]


def batch(sources=SOURCES, targets=TARGETS):
    return small.batch(source=sources, target=targets)


@pytest.fixture
def model():
    torch.manual_seed(1)
    return small.encoder_model(30, layers=2, embedded={"positions": None}, dropout=0.2)


def vectors(model, rows):
    """Each sentence by itself, without padding: the mean over all its states."""
    with torch.no_grad():
        states = [model.encode(small.batch(source=[row])).memories["source"].values[0] for row in rows]
    return [one.mean(0).double().numpy() for one in states]


def loop(xs, ys, temperature):
    total = 0.0
    for i, x in enumerate(xs):
        cosines = [x @ y / np.linalg.norm(x) / np.linalg.norm(y) / temperature for y in ys]
        total -= np.log(np.exp(cosines[i]) / np.exp(cosines).sum())
    return total


def evaluate(part, model, data):
    return part.evaluate(model, data, lambda field: model.encode(data, field))


def test_the_loss_is_the_papers_over_targets_for_each_source(model):
    model.eval()
    found = evaluate(Contrast(temperature=0.1), model, batch())
    xs, ys = vectors(model, SOURCES), vectors(model, TARGETS)
    assert found["contrast"].sum.item() == pytest.approx(loop(xs, ys, 0.1), rel=1e-4)
    assert abs(loop(ys, xs, 0.1) - loop(xs, ys, 0.1)) > 1e-2  # the other direction is another loss
    assert found["contrast"].count.item() == 4 and found["contrast_accuracy"].weight == 0.0


def test_sources_are_encoded_again_unless_their_states_are_reused(model):
    model.train()
    passes = []
    model.encoder.register_forward_hook(lambda *_: passes.append(1))
    data = batch()
    encoding = model.encode(data)
    for reuse, wanted in ((True, 1), (False, 2)):
        passes.clear()
        part = Contrast(reuse=reuse)
        part.evaluate(model, data, lambda field: encoding)["contrast"].sum.backward(retain_graph=True)
        assert len(passes) == wanted
    assert model.embeddings["source"].weight.grad.abs().sum() > 0


def test_the_total_is_that_of_the_authors_criterion(model):
    """They add weight * L_ctr * tokens / sentences to the cross entropy's sum, and divide by tokens."""
    model.eval()
    part = Contrast(weight=0.7)
    contrast = evaluate(part, model, batch())["contrast"]
    cross_entropy, tokens = torch.tensor(37.5), torch.tensor(11)
    total = Loss({"cross_entropy": Term(cross_entropy, tokens), "contrast": contrast}).total()
    wanted = (cross_entropy + 0.7 * contrast.sum * tokens / len(batch())) / tokens
    torch.testing.assert_close(total, wanted)
    counts = {name: count.item() for name, count in part.counts(batch()).items()}
    assert counts == dict.fromkeys(("contrast", "contrast_accuracy", "contrast_candidates"), 4)


def test_candidates_are_counted_per_sentence_over_batches(model):
    """Of batches of 4 and 2 sentences, four sources have four candidates each, two have two."""
    model.eval()
    terms = [evaluate(Contrast(), model, batch(SOURCES[:n], TARGETS[:n]))["contrast_candidates"] for n in (4, 2)]
    assert [term.weight for term in terms] == [0.0, 0.0]
    assert float(sum(term.sum for term in terms) / sum(term.count for term in terms)) == pytest.approx(20 / 6)


def test_what_does_not_fit_is_refused(model):
    small.refuses(UsageError, "Contrast: temperature must be above 0, not 0", Contrast, temperature=0)
    small.refuses(UsageError, r"weight must be at least 0, not -0\.5", Contrast, weight=-0.5)
    small.refuses(UsageError, "reads text in the field 'speech'", Contrast(source="speech").check, model)


def test_few_candidates_in_training_are_an_alarm(model):
    """Batches of 2 and 29 sentences in training; one of 400 in validation does not count."""

    def seen(part, *sizes):
        for size in sizes:
            part.evaluate(model, batch([[5, 6, 2]] * size, [[4, 7, 2]] * size), None)
        return part.alarms({"contrast_candidates": 400.0})

    part = Contrast()
    assert part.alarms({}) == [] == seen(part.eval(), 4)
    [alarm] = seen(part.train(), 2, 29)
    assert "with 15.5 translations, fewer than 16" in alarm
    assert part.alarms({}) == []  # it counts anew
    assert seen(part, 3, 29) == [] == seen(Contrast(weight=0.0), 2)


@pytest.fixture(scope="module")
def tokenizers():
    texts = (["abc abd", "der Hund"], ["xyz", "a cat"])
    return [small.tokenizer(own, ["en", "de"], size=275, kind="bpe") for own in texts]


def test_translations_that_the_encoder_cannot_read_as_sources_are_refused(model, tokenizers):
    one, two = tokenizers

    def check(**changes):
        source = TextField(column="source_text", tokenizer=one)
        output = TextField(column="target_text", **{"tokenizer": one} | changes)
        languages = {"source_languages": ["en"], "target_languages": ["de"]}
        Contrast().check_system(System(model=model, inputs={"source": source}, output=output, **languages))

    check()
    for changes in ({"prefix": []}, {"suffix": []}, {"tokenizer": two}):
        small.refuses(UsageError, "both need one tokenizer, and the same prefix and suffix", check, **changes)
