"""Two encoders in tandem: what the head and the upper encoder read."""

import pytest
import torch

from dragoman.shared.described import build, describe
from dragoman.shared.generator import Encoding
from dragoman.shared.nn.heads import CtcHead, head_logits
from dragoman.shared.nn.positions import SinusoidalPositions
from dragoman.shared.padded import Padded
from dragoman.st.tandem import TandemTranslator
from tests import small
from tests.small import refuses

WIDTH, VOCABULARY = 8, 11


def embedding():
    return small.embedding(VOCABULARY, WIDTH)


def make(**changes):
    torch.manual_seed(3)
    sizes = {"width": WIDTH, "feedforward": 12}
    parts = {
        "embeddings": {"speech": embedding(), "source": embedding()},
        "acoustic": small.encoder(**sizes),
        "encoder": small.encoder(1, [1], **sizes),
        "positions": SinusoidalPositions(width=WIDTH),
        "heads": {"ctc": CtcHead(tap="acoustic", width=WIDTH, vocabulary=VOCABULARY, blank=1)},
    }
    model = small.translator(VOCABULARY, cls=TandemTranslator, sizes=sizes, **parts | changes).eval()
    with torch.no_grad():
        model.acoustic.norm.weight.normal_()  # so that what was not normalised would be seen
    return model


def batch():
    return small.batch(speech=[[3, 4, 5, 6, 7], [8, 9, 2]], source=[[4, 5], [6, 7, 8]])


@torch.no_grad()
@pytest.mark.parametrize("placed", [True, False])
def test_the_head_reads_normalised_states_and_the_semantic_encoder_counts_them_anew(placed):
    model = make() if placed else make(positions=None)
    assert model.taps == [1, "acoustic"]
    encoding = model.encode(batch())
    states = model.tap(encoding, "acoustic")
    for row, values in enumerate(batch()["speech"].rows()):  # each alone, by hand
        alone = model.embeddings["speech"](Padded(values[None], torch.tensor([len(values)])))
        mask = torch.ones(1, len(values), dtype=torch.bool)
        layer = model.acoustic.layers[0](alone.values, mask=mask, memories={})
        acoustic = model.acoustic.norm(layer)
        torch.testing.assert_close(states.rows()[row], acoustic[0])
        read = acoustic + model.positions(len(values), like=acoustic) if placed else acoustic
        expected = model.encoder.norm(model.encoder.layers[0](read, mask=mask, memories={}))
        torch.testing.assert_close(encoding.memories["source"].rows()[row], expected[0])
        logits = head_logits(model, encoding, "ctc").rows()[row]
        torch.testing.assert_close(logits, model.heads["ctc"].projection(acoustic[0]))


@torch.no_grad()
def test_text_enters_at_the_semantic_encoder_and_speech_alone_can_be_heard():
    model, rows = make(), batch()
    text = model.encode(rows, "source")
    expected, _ = model.encoder(model.embeddings["source"](rows["source"]))
    torch.testing.assert_close(text.memories["source"].values, expected.values)
    assert "tap.acoustic" not in text.extras
    heard = model.heard(rows)
    assert isinstance(heard, Encoding) and not heard.memories
    assert torch.equal(model.tap(heard, "acoustic").values, model.tap(model.encode(rows), "acoustic").values)


def test_a_model_is_built_from_its_description():
    model = make()
    again = build(describe(model)).eval()
    again.load_state_dict(model.state_dict())
    one, other = (each.encode(batch()).memories["source"].values for each in (model, again))
    assert torch.equal(one, other)


def test_a_head_that_reads_something_else_is_refused():
    refuses(ValueError, "an acoustic encoder learns by a head 'ctc' whose tap is 'acoustic'", make, heads={})
    other = {"ctc": CtcHead(tap=1, width=WIDTH, vocabulary=VOCABULARY, blank=1)}
    refuses(ValueError, "an acoustic encoder learns by a head 'ctc' whose tap is 'acoustic'", make, heads=other)
