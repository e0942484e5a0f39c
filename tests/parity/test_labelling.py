"""Heads for labels above imported encoders against transformers' models for sequence and token classification."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from dragoman.exchange.huggingface.hf_model import EncoderDecoder, MaskedEncoder
from dragoman.mt.understanding.both_sides import BothSides
from dragoman.mt.understanding.heads import (
    LabelCrossEntropy,
    LabelHead,
    SpanCrossEntropy,
    SpanHead,
    WordLabelHead,
    label_logits,
)
from dragoman.shared.batch import Batch
from dragoman.shared.nn.translator import EncoderModel
from tests.parity.compared import Compared
from tests.parity.text_models import batch, disturbed, loaded
from tests.small import padded

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

SIZES = {"vocab_size": 53, "hidden_size": 18, "num_hidden_layers": 2, "num_attention_heads": 3, "num_labels": 5}
SIZES |= {"intermediate_size": 22, "max_position_embeddings": 40, "initializer_range": 0.3}


KINDS: dict[str, dict[str, int]] = {"Bert": {}, "XLMRoberta": {"type_vocab_size": 1, "pad_token_id": 1}}


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_logits_losses_and_gradients(kind: str, words: bool, tmp_path: Path, compared: Compared) -> None:
    compared.named("transformers", f"{kind} (labels of {'words' if words else 'texts'})")
    config = getattr(transformers, f"{kind}Config")(**SIZES | KINDS[kind])
    torch.manual_seed(3)
    suffix = "ForTokenClassification" if words else "ForSequenceClassification"
    theirs = disturbed(getattr(transformers, f"{kind}{suffix}")(config))
    theirs.base_model.save_pretrained(tmp_path)
    _, below = loaded(MaskedEncoder, tmp_path)
    head = WordLabelHead(width=18, labels=5) if words else LabelHead(width=18, labels=5)
    theirs_output = theirs.classifier.out_proj if hasattr(theirs.classifier, "out_proj") else theirs.classifier
    head.output.load_state_dict(theirs_output.state_dict())
    if isinstance(head, LabelHead):
        dense = theirs.classifier.dense if kind == "XLMRoberta" else theirs.bert.pooler.dense
        head.dense.load_state_dict(dense.state_dict())
    model = EncoderModel(
        embeddings={"source": below.embeddings["source"]}, encoder=below.encoder, heads={"label": head}
    )
    model.eval()

    source = batch(53, (7, 3, 12), config.pad_token_id)
    rows = Batch({"source": source, "label": padded([[4], [0], [2]])})
    wanted = torch.tensor([4, 0, 2])
    if words:
        places = [[1, 2, 5], [1], [3, 4, 10]]
        rows = rows.with_fields(**{"source.places": padded(places), "label": padded([[0, 4, 1], [2], [3, 3, 0]])})
        wanted = torch.full(source.values.shape, -100)
        for row, (at, labels) in enumerate(zip(places, rows["label"].rows(), strict=True)):
            wanted[row, at] = labels
    expected = theirs(input_ids=source.values, attention_mask=source.mask.long(), labels=wanted)
    encoding = model.encode(rows)
    logits = label_logits(model, rows, encoding, "label", "source")
    theirs_logits = expected.logits[wanted != -100] if words else expected.logits
    compared.close("logits", logits[rows["label"].mask] if words else logits, theirs_logits)
    term = LabelCrossEntropy().evaluate(model, rows, lambda field: encoding)["label"]
    loss = term.sum / term.count
    compared.close("loss", loss, expected.loss)
    losses = F.cross_entropy(theirs_logits, wanted[wanted != -100], reduction="none")
    compared.close("loss", term.sum, losses.sum())
    for one in (loss, expected.loss):
        one.backward()
    compared.close("gradients", head.output.weight.grad, theirs_output.weight.grad)
    ours = model.embeddings["source"].weight.grad
    compared.close("gradients", ours, theirs.base_model.embeddings.word_embeddings.weight.grad)


@pytest.mark.parametrize("kind", KINDS)
def test_answers(kind: str, tmp_path: Path, compared: Compared) -> None:
    """Of windows without padding, which transformers lets have probability."""
    compared.named("transformers", f"{kind} (spans of texts)")
    config = getattr(transformers, f"{kind}Config")(**SIZES | KINDS[kind] | {"num_labels": 2})
    torch.manual_seed(4)
    theirs = disturbed(getattr(transformers, f"{kind}ForQuestionAnswering")(config))
    theirs.base_model.save_pretrained(tmp_path)
    _, below = loaded(MaskedEncoder, tmp_path)
    head = SpanHead(width=18)
    head.output.load_state_dict(theirs.qa_outputs.state_dict())
    model = EncoderModel(
        embeddings={"source": below.embeddings["source"]}, encoder=below.encoder, heads={"label": head}
    ).eval()
    windows = batch(53, (9, 9, 9), config.pad_token_id)
    spans = [[2, 4], [0, 0], [8, 8]]
    one, two = windows.values[:1], windows.values[1:].flatten()[None]
    rows = Batch(
        {
            "source": padded([one[0], two[0]], config.pad_token_id),
            "source.windows": padded([[9], [9, 9]]),
            "label": padded([torch.tensor(spans[:1]), torch.tensor(spans[1:])]),
        }
    )
    starts, ends = torch.tensor(spans).T
    expected = theirs(input_ids=windows.values, start_positions=starts, end_positions=ends)
    logits = head(model.encode(Batch({"source": windows})).memories["source"])
    compared.close("logits", logits, torch.stack([expected.start_logits, expected.end_logits], dim=-1))
    term = SpanCrossEntropy().evaluate(model, rows, lambda field: model.encode(rows))["label"]
    loss = term.sum / term.count
    compared.close("loss", loss, expected.loss)
    for each in (loss, expected.loss):
        each.backward()
    compared.close("gradients", head.output.weight.grad, theirs.qa_outputs.weight.grad)
    ours = model.embeddings["source"].weight.grad
    compared.close("gradients", ours, theirs.base_model.embeddings.word_embeddings.weight.grad)


def test_an_encoder_decoder_reads_on_both_sides(tmp_path: Path, compared: Compared) -> None:
    compared.named("transformers", "Bart (labels of texts)")
    sizes = {"vocab_size": 53, "d_model": 18, "num_labels": 5, "max_position_embeddings": 40, "init_std": 0.3}
    sizes |= {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in (("layers", 2), ("ffn_dim", 22))}
    heads = {"encoder_attention_heads": 3, "decoder_attention_heads": 2}
    torch.manual_seed(5)
    theirs = disturbed(transformers.BartForSequenceClassification(transformers.BartConfig(**sizes | heads)))
    theirs.model.save_pretrained(tmp_path)
    _, below = loaded(EncoderDecoder, tmp_path)
    head = LabelHead(width=18, labels=5, pooling="last")
    head.dense.load_state_dict(theirs.classification_head.dense.state_dict())
    head.output.load_state_dict(theirs.classification_head.out_proj.state_dict())
    model = BothSides(
        embeddings=dict(below.embeddings.items()),
        encoder=below.encoder,
        target_embedding=below.target_embedding,
        decoder=below.decoder,
        heads={"label": head},
    ).eval()
    texts = [torch.cat([row, torch.tensor([2])]) for row in batch(53, (7, 3, 12), 1).rows()]
    for text in texts:  # one by one: transformers reads padding in the decoder
        rows = Batch({"source": padded([text])})
        expected = theirs(input_ids=text[None]).logits
        compared.close("logits", label_logits(model, rows, model.encode(rows), "label", "source"), expected)
    together = Batch({"source": padded(texts, 1)})
    logits = label_logits(model, together, model.encode(together), "label", "source")
    compared.close("logits", logits, torch.cat([theirs(input_ids=text[None]).logits for text in texts]))
