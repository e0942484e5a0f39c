"""An encoder-decoder under a head, against one text at a time, moved by hand."""

import pytest
import torch

from dragoman import UsageError
from dragoman.mt.understanding.both_sides import BothSides, read_on_both_sides
from dragoman.mt.understanding.heads import LabelHead, label_logits
from dragoman.mt.understanding.labelling import LabellingSystem
from dragoman.mt.understanding.labels import LabelField, LabelTokenizer
from dragoman.shared.batch import Batch
from dragoman.shared.systems.system import System
from tests import small
from tests.small import drawn_batch, padded, refuses


@pytest.fixture(scope="module")
def own():
    return small.tokenizer(["a good day", "bad nights"], tags=["en", "de"])


def test_the_last_state_has_seen_all_of_the_text(own):
    torch.manual_seed(4)
    translating = small.system(own)
    head = LabelHead(width=16, labels=3, pooling="last")
    model = read_on_both_sides(system=translating, heads={"label": head}).eval()
    rows = drawn_batch({"source": [4, 1, 6]}, own.size)
    found = label_logits(model, rows, model.encode(rows), "label", "source")
    translator = translating.model.eval()
    for number, ids in enumerate(rows["source"].rows()):
        source = Batch({"source": padded([ids])})
        moved = padded([[ids[-1], *ids[:-1]]])
        state = translator.decode(moved, translator.encode(source))[0, -1]
        expected = head.output(torch.tanh(head.dense(state)))
        torch.testing.assert_close(found[number], expected, atol=1e-5, rtol=1e-5)
    assert model.symbol_fields() == {"embeddings.source": "source", "target_embedding": "source"}


def test_it_labels_as_other_systems_do(own, tmp_path):
    torch.manual_seed(5)
    model = read_on_both_sides(
        system=small.system(own), heads={"label": LabelHead(width=16, labels=2, pooling="last")}
    ).eval()
    output = LabelField(tokenizer=LabelTokenizer(labels=["no", "yes"]))
    given = {"inputs": {"source": small.text(own)}, "output": output, "source_languages": ["en"]}
    system = LabellingSystem(model=model, **given)
    texts = ["a good day", "bad", "nights"]
    assert system.translate(texts) == [system.translate(one) for one in texts]
    system.save(tmp_path / "model")
    again = System.load(tmp_path / "model", "cpu")
    assert isinstance(again.model, BothSides) and again.translate(texts) == system.translate(texts)
    assert again.hypotheses(texts)[0][0].score == pytest.approx(system.hypotheses(texts)[0][0].score)


def test_two_vocabularies_are_refused(own):
    other = small.tokenizer(["another text"], tags=["en", "de"])
    system = small.system(own, output=small.text(other, "target"))
    refuses(UsageError, "only if they have one tokenizer", read_on_both_sides, system=system)
    embeddings = {"a": small.embedding(9), "b": small.embedding(9)}
    parts = {"encoder": small.encoder(), "target_embedding": small.embedding(9), "decoder": small.decoder()}
    refuses(ValueError, "one text is read on both sides, not a and b", BothSides, embeddings=embeddings, **parts)
