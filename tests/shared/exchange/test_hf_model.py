"""Models of the library transformers without it: where each family's positions begin, from its formulas by hand.

That whole models compute what transformers computes is tested in tests/parity/test_huggingface.py.
"""

import json
import math

import pytest
import torch

from shared.exchange.hf_model import EncoderDecoder, MaskedEncoder
from shared.exchange.hf_reading import Config

WIDTH, LENGTH, PAD = 8, 5, 3
TRANSLATOR = {
    "d_model": WIDTH, "vocab_size": 11, "max_position_embeddings": LENGTH, "pad_token_id": PAD,
    "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "activation_function": "relu",
}  # fmt: skip
ENCODER = {
    "hidden_size": WIDTH, "vocab_size": 11, "max_position_embeddings": 9, "pad_token_id": PAD, "type_vocab_size": 1,
    "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "hidden_act": "gelu",
}  # fmt: skip


def positions(tmp_path, build, settings):
    """The module of positions in front of the encoder."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(settings))
    return build(Config(file), {}).build().embeddings["source"].positions


def vectors(module, length):
    return module(length, like=torch.zeros(1))


def sinusoids(number, exponents):
    angles = [number / 10000**exponent for exponent in exponents]
    return [*map(math.sin, angles), *map(math.cos, angles)]


@pytest.mark.parametrize("kind", ["bart", "mbart"])
def test_the_first_two_rows_of_barts_positions_are_unused(tmp_path, kind):
    """BartLearnedPositionalEmbedding: a table of max_position_embeddings + 2 rows; token i has row i + 2."""
    module = positions(tmp_path, EncoderDecoder, TRANSLATOR | {"model_type": kind})
    assert module.weight.shape == (LENGTH + 2, WIDTH)
    assert torch.equal(vectors(module, LENGTH), module.weight[2:])


def test_m2ms_sinusoids_are_counted_from_behind_the_number_of_padding(tmp_path):
    """M2M100SinusoidalPositionalEmbedding: token i has number padding_idx + 1 + i, and D/2 - 1 equal ratios."""
    module = positions(tmp_path, EncoderDecoder, TRANSLATOR | {"model_type": "m2m_100"})
    expected = [sinusoids(PAD + 1 + i, [j / (WIDTH // 2 - 1) for j in range(WIDTH // 2)]) for i in range(LENGTH)]
    assert torch.allclose(vectors(module, LENGTH), torch.tensor(expected), atol=1e-6)


def test_marians_sinusoids_are_counted_from_zero(tmp_path):
    """MarianSinusoidalPositionalEmbedding: token i has number i, and D/2 ratios."""
    module = positions(tmp_path, EncoderDecoder, TRANSLATOR | {"model_type": "marian"})
    expected = [sinusoids(i, [2 * j / WIDTH for j in range(WIDTH // 2)]) for i in range(LENGTH)]
    assert torch.allclose(vectors(module, LENGTH), torch.tensor(expected), atol=1e-6)


@pytest.mark.parametrize(("kind", "first"), [("bert", 0), ("roberta", PAD + 1), ("xlm-roberta", PAD + 1)])
def test_encoders_leave_the_rows_up_to_padding_unused_or_none(tmp_path, kind, first):
    """RobertaEmbeddings: token i has row padding_idx + 1 + i of max_position_embeddings rows; BertEmbeddings: row i."""
    module = positions(tmp_path, MaskedEncoder, ENCODER | {"model_type": kind})
    assert module.weight.shape == (9, WIDTH)
    assert torch.equal(vectors(module, 9 - first), module.weight[first:])
