"""Language models inside of an LSTM translator: what they lend goes where it belongs, and is trained alone."""

import pytest
import torch
from torch.nn import functional as F

from dragoman.mt.lm_initialised import LmInitialisedTranslator, SideLanguageModel
from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.heads import OutputProjection
from dragoman.shared.nn.recurrent import LstmEncoder, RecurrentDecoder
from dragoman.shared.nn.recurrent_translator import RecurrentLanguageModel
from dragoman.shared.nn.symbols import OUTPUT
from tests import small
from tests.small import refuses

WIDTH, VOCABULARY, PADDING = 8, 20, 1


def embedding():
    return TextEmbedding(vocabulary=VOCABULARY, width=WIDTH, padding=PADDING)


def projection():
    return OutputProjection(width=WIDTH, vocabulary=VOCABULARY, bias=True)


SIZES = {"inputs": WIDTH, "width": WIDTH, "first_cells": 11}


def parts(**more):
    return {
        "embeddings": {"source": embedding()},
        "encoder": LstmEncoder(**SIZES, layers=2, taps=[1]),
        "target_embedding": embedding(),
        "decoder": RecurrentDecoder(**SIZES, layers=2, memories=["source", "tap.1"], residual=True),
        "projection": projection(),
        "source_projection": projection(),
        **more,
    }


def translator() -> LmInitialisedTranslator:
    torch.manual_seed(4)
    return LmInitialisedTranslator(**parts()).eval()


def language_model() -> RecurrentLanguageModel:
    torch.manual_seed(9)
    return RecurrentLanguageModel(
        target_embedding=embedding(), decoder=RecurrentDecoder(**SIZES, layers=1), projection=projection()
    ).eval()


def text(side, *lengths) -> Batch:
    generator = torch.Generator().manual_seed(7)
    return Batch({side: small.drawn(lengths, VOCABULARY, 2, generator=generator, padding=PADDING)})


#: What a language model lends, by side, and the same in the language model itself.
LENDS = ["target_embedding", "decoder.layers.0", "projection"]
LENT = {
    "source": dict(zip(["embeddings.source", "encoder.layers.0", "source_projection"], LENDS, strict=True)),
    "target": dict(zip(LENDS, LENDS, strict=True)),
}


@pytest.mark.parametrize("side", ["source", "target"])
def test_what_was_lent_is_the_language_model_still(side):
    """Its loss in the translator is that of the whole language model, whose states all go through its own code."""
    model, lender = translator(), language_model()
    for here, there in LENT[side].items():
        model.get_submodule(here).load_state_dict(lender.get_submodule(there).state_dict())
    batch = text(side, 6, 3)
    [(name, term)] = SideLanguageModel(side=side).evaluate(model, batch, lambda _: None).items()
    assert name == f"lm.{side}"
    rows = batch[side].rows()
    wanted = 0.0
    for row in rows:
        scores = lender.log_probabilities(small.padded([row[:-1]]), lender.encode(batch))[0]
        wanted += F.nll_loss(scores, row[1:], reduction="sum").item()
    assert term.sum.item() == pytest.approx(wanted, rel=1e-5)
    assert int(term.count) == sum(len(row) - 1 for row in rows) == int(SideLanguageModel(side=side).counts(batch)[name])


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_text_trains_what_was_lent_and_nothing_else(side):
    model = translator()
    [term] = SideLanguageModel(side=side).evaluate(model, text(side, 6, 3), lambda _: None).values()
    term.sum.backward()
    trained = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    lent = {name for name, _ in model.named_parameters() if name.startswith(tuple(f"{one}." for one in LENT[side]))}
    assert trained == lent


def test_the_softmax_of_the_source_is_of_the_sources_symbols():
    written = {"target_embedding": OUTPUT, "projection": OUTPUT}
    read = {"embeddings.source": "source", "source_projection": "source"}
    assert translator().symbol_fields() == written | read


def test_what_cannot_be_is_refused():
    both = LstmEncoder(inputs=WIDTH, width=WIDTH, layers=2, bidirectional=True, taps=[1])
    refuses(ValueError, "reads from left to right only", LmInitialisedTranslator, **parts(encoder=both))
    speech = parts(embeddings={"speech": embedding()})
    refuses(ValueError, "reads 'source' alone, not speech", LmInitialisedTranslator, **speech)
    message = "SideLanguageModel: side: 'both' is not one of 'source', 'target'"
    refuses(UsageError, message, SideLanguageModel, side="both")
    message = "needs an LmInitialisedTranslator, not a RecurrentLanguageModel"
    refuses(UsageError, message, SideLanguageModel(side="source").check, language_model())
