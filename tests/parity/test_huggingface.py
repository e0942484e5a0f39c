"""Imported models against transformers' own: states, logits, gradients, and what beam search makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from dragoman.exchange.huggingface.hf_model import EncoderDecoder, MaskedEncoder, counterparts_of
from dragoman.shared.batch import Batch
from dragoman.shared.padded import Padded
from tests.parity.compared import Compared
from tests.parity.text_models import batch, disturbed, loaded, same_searches

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

SMALL = {
    "vocab_size": 53, "d_model": 18, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 3,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 22, "decoder_ffn_dim": 31, "max_position_embeddings": 40,
    "init_std": 0.3,
}  # fmt: skip
LARGER = SMALL | {"d_model": 64, "encoder_attention_heads": 4, "encoder_layers": 3, "encoder_ffn_dim": 130}
MARIAN = {"pad_token_id": 52, "decoder_start_token_id": 52, "eos_token_id": 0, "forced_eos_token_id": 0}
TRANSLATORS: dict[str, tuple[str, dict[str, Any]]] = {
    "mbart": ("MBart", SMALL | {"scale_embedding": True}),
    "mbart_larger": ("MBart", LARGER | {"activation_function": "relu"}),
    "mbart_untied": ("MBart", SMALL | {"tie_word_embeddings": False}),
    "bart": ("Bart", SMALL | {"activation_function": "gelu_new"}),
    "m2m": ("M2M100", SMALL),
    "m2m_odd": ("M2M100", LARGER | {"d_model": 33, "encoder_attention_heads": 3, "decoder_attention_heads": 11}),
    "marian": ("Marian", SMALL | MARIAN | {"activation_function": "swish", "scale_embedding": True}),
    "marian_two_vocabularies": (
        "Marian",
        LARGER | MARIAN | {"decoder_vocab_size": 59, "share_encoder_decoder_embeddings": False},
    ),
}
#: What the vector of the end symbol is multiplied by, so that some outputs end before the limit.
LOUDER = {"mbart": 3, "mbart_language_first": 3, "m2m": 4, "bart": 1.5, "marian": 2, "marian_two_vocabularies": 1}
ENCODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", {"type_vocab_size": 2}),
    "bert_larger": ("Bert", {"hidden_size": 60, "hidden_act": "relu", "layer_norm_eps": 1e-3}),
    "xlm_roberta": ("XLMRoberta", {"type_vocab_size": 1, "pad_token_id": 1}),
}


def saved(name: str, table: dict[str, tuple[str, dict[str, Any]]], suffix: str, folder: Path) -> Any:
    """Build a random model of transformers and save it."""
    kind, options = table[name]
    torch.manual_seed(3)
    config = getattr(transformers, f"{kind}Config")(**options)
    model = disturbed(getattr(transformers, f"{kind}{suffix}")(config))
    model.tie_weights()
    model.save_pretrained(folder)
    return model


def described(name: str) -> str:
    """Return what a case is called in the table."""
    kinds = {"mbart": "mBART", "bart": "BART", "m2m": "M2M-100, NLLB", "marian": "MarianMT", "bert": "BERT"}
    kinds |= {"xlm": "RoBERTa, XLM-R"}
    kind, _, rest = name.partition("_")
    return f"{kinds[kind]} ({rest.replace('_', ' ') or 'small'})"


def gradients_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    named = model.named_parameters(remove_duplicate=False)
    return {name: parameter.grad for name, parameter in named if parameter.grad is not None}


@pytest.mark.parametrize("name", TRANSLATORS)
def test_encoder_decoders(name: str, tmp_path: Path, compared: Compared) -> None:
    compared.named("transformers", described(name))
    theirs = saved(name, TRANSLATORS, "MTModel" if "marian" in name else "ForConditionalGeneration", tmp_path)
    _, model = loaded(EncoderDecoder, tmp_path)
    padding, rows = theirs.config.pad_token_id, model.target_embedding.vocabulary
    source = batch(SMALL["vocab_size"], (7, 1, 12), padding)
    target = batch(rows, (5, 9, 2), padding)
    given = {"input_ids": source.values, "attention_mask": source.mask.long()}
    expected = theirs(**given, decoder_input_ids=target.values[:, :-1])
    encoding = model.encode(Batch({"source": source}))
    states, mask = encoding.memories["source"].values, source.mask
    compared.close("states", states[mask], expected.encoder_last_hidden_state[mask])
    consumed = Padded(target.values[:, :-1], target.lengths - 1)
    logits = model.project(model.decode(consumed, encoding))
    compared.close("logits", logits[consumed.mask], expected.logits[consumed.mask])
    labels = target.values[:, 1:].masked_fill(~consumed.mask, -100)
    pair = (one.flatten(0, 1) for one in (logits, expected.logits))
    losses = [F.cross_entropy(one, labels.flatten(), ignore_index=-100) for one in pair]
    compared.close("loss", *losses)
    for loss in losses:
        loss.backward()
    gradients = gradients_of(theirs)
    seen = 0
    for ours, parameter in model.named_parameters():
        others = [gradients[part] for part in counterparts_of(ours) if part in gradients]
        if others:
            compared.close("gradients", parameter.grad, torch.cat(others), message=ours)
            seen += 1
    assert seen >= len(list(model.parameters())) - 3  # token vectors are below
    vectors = gradients.get("model.shared.weight", gradients.get("model.encoder.embed_tokens.weight"))
    compared.close("gradients", model.embeddings["source"].weight.grad, vectors)


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders(name: str, tmp_path: Path, compared: Compared) -> None:
    compared.named("transformers", described(name))
    small = {"vocab_size": 53, "hidden_size": 18, "num_hidden_layers": 2, "num_attention_heads": 3}
    small |= {"intermediate_size": 22, "max_position_embeddings": 40, "initializer_range": 0.3}
    table = {name: (kind, small | options) for name, (kind, options) in ENCODERS.items()}
    theirs = saved(name, table, "ForMaskedLM", tmp_path)
    read, model = loaded(MaskedEncoder, tmp_path)
    source = batch(53, (7, 1, 12), theirs.config.pad_token_id)
    expected = theirs(input_ids=source.values, attention_mask=source.mask.long(), output_hidden_states=True)
    states = model.encode(Batch({"source": source})).memories["source"]
    compared.close("states", states.values[source.mask], expected.hidden_states[-1][source.mask])
    logits = model.heads["masked_tokens"](states.values)
    compared.close("logits", logits[source.mask], expected.logits[source.mask])
    for one in (logits, expected.logits):
        one[source.mask].log_softmax(-1)[:, 7].mean().backward()
    gradients = gradients_of(theirs)
    for ours, parameter in model.named_parameters():
        compared.close("gradients", parameter.grad, torch.cat([gradients[part] for part in read.counterparts(ours)]))


@pytest.mark.parametrize(
    ("name", "length_penalty"), [*((name, 1.0) for name in LOUDER), ("mbart", 0.4), ("marian", 0.4)]
)
def test_beam_search(name: str, length_penalty: float, tmp_path: Path, compared: Compared) -> None:
    """Two hundred sentences: the same outputs and scores, whatever starts and is forced."""
    compared.named("transformers", described(name))
    table = TRANSLATORS | {"mbart_language_first": TRANSLATORS["mbart_larger"]}
    theirs = saved(name, table, "MTModel" if "marian" in name else "ForConditionalGeneration", tmp_path)
    _, model = loaded(EncoderDecoder, tmp_path)
    end, padding, tag = theirs.config.eos_token_id, theirs.config.pad_token_id, 11
    starts = {"mbart_language_first": [tag]} | dict.fromkeys(("marian", "marian_two_vocabularies"), [padding])
    start = starts.get(name, [end, tag])  # decoder_start_token_id, and forced_bos_token_id
    with torch.no_grad():  # so that some outputs end before the limit, and others do not
        for vectors in (theirs.get_output_embeddings().weight, model.target_embedding.weight):
            vectors[end] *= LOUDER[name]
        if name == "marian_two_vocabularies":
            for bias in (theirs.final_logits_bias[0], model.projection.bias):
                bias[end] += 7
    same_searches(model, theirs, start, compared, length_penalty=length_penalty)
