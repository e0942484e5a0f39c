"""VECO's stack against BERT and the decoder that transformers makes of BERT."""

import pytest
import torch

from tests.mt.test_veco import FEEDFORWARD, HEADS, LAYERS, LONGEST, VOCABULARY, WIDTH, batch, variable

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity


def test_plugged_out_and_in_it_is_bert_and_a_decoder_of_bert():
    """The library's decoder attends to another text between self-attention and feed-forward net, each with its norm."""
    model = variable(False)
    sizes = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "intermediate_size": FEEDFORWARD}
    sizes |= {"vocab_size": VOCABULARY, "num_hidden_layers": LAYERS, "max_position_embeddings": LONGEST}
    config = transformers.BertConfig(
        **sizes, layer_norm_eps=1e-5, type_vocab_size=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    theirs = transformers.BertModel(config, add_pooling_layer=False)
    config = transformers.BertConfig(**config.to_dict() | {"is_decoder": True, "add_cross_attention": True})
    decoder = transformers.BertModel(config, add_pooling_layer=False)
    for other in (theirs, decoder):
        state = other.state_dict()
        state |= of_bert(model, crossed=other is decoder)
        other.load_state_dict(state)
        other.eval()
    rows = batch()
    source, target = rows["source"], rows["target"]
    memory = theirs(input_ids=source.values, attention_mask=source.mask.long()).last_hidden_state
    expected = decoder(
        input_ids=target.values, encoder_hidden_states=memory, encoder_attention_mask=source.mask.long()
    ).last_hidden_state
    known = model.encode(rows, "source").memories["source"]
    torch.testing.assert_close(known.values[source.mask], memory[source.mask], atol=1e-5, rtol=1e-4)
    found = model.cross(rows, "target", known).values
    torch.testing.assert_close(found[target.mask], expected[target.mask], atol=1e-5, rtol=1e-4)


def of_bert(model, crossed):
    """Return the parameters in the library's names."""
    text = model.embeddings["source"]
    state = {
        "embeddings.word_embeddings.weight": text.weight,
        "embeddings.position_embeddings.weight": text.positions.weight,
        "embeddings.token_type_embeddings.weight": torch.zeros(1, WIDTH),
        "embeddings.LayerNorm.weight": text.norm.weight,
        "embeddings.LayerNorm.bias": text.norm.bias,
    }
    for number, own in enumerate(model.encoder.layers):
        attention, memory = own.self_attention, own.memory_attention["source"]
        for kind in ("weight", "bias"):
            query, key, value = getattr(attention.queries_keys_values, kind).chunk(3)
            parts = {"attention.self.query": query, "attention.self.key": key, "attention.self.value": value}
            parts |= {"attention.output.dense": getattr(attention.output, kind)}
            parts |= {"attention.output.LayerNorm": getattr(own.self_attention_norm, kind)}
            parts |= {"intermediate.dense": getattr(own.inner, kind), "output.dense": getattr(own.outer, kind)}
            parts |= {"output.LayerNorm": getattr(own.feedforward_norm, kind)}
            if crossed:
                key, value = getattr(memory.keys_values, kind).chunk(2)
                parts |= {"crossattention.self.query": getattr(memory.queries, kind)}
                parts |= {"crossattention.self.key": key, "crossattention.self.value": value}
                parts |= {"crossattention.output.dense": getattr(memory.output, kind)}
                parts |= {"crossattention.output.LayerNorm": getattr(own.memory_attention_norm, kind)}
            state |= {f"encoder.layer.{number}.{name}.{kind}": tensor for name, tensor in parts.items()}
    return {name: tensor.detach() for name, tensor in state.items()}
