"""A Conformer layer against transformers' of wav2vec 2.0 Conformers, channels of a frame being normalised in both."""

import pytest
import torch
from torch import nn

from dragoman.shared.nn.conformer import ConformerLayer

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

WIDTH, HEADS, INNER, KERNEL = 24, 4, 40, 7


class OverChannels(nn.LayerNorm):
    """Layer normalisation of (B, D, L), where transformers has a batch normalisation."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


@pytest.fixture
def layers():
    from transformers.models.wav2vec2_conformer import modeling_wav2vec2_conformer as theirs

    torch.manual_seed(11)
    config = transformers.Wav2Vec2ConformerConfig(
        hidden_size=WIDTH, num_attention_heads=HEADS, intermediate_size=INNER, conv_depthwise_kernel_size=KERNEL,
        position_embeddings_type="relative", hidden_act="swish", attn_implementation="eager",
    )  # fmt: skip
    other = theirs.Wav2Vec2ConformerEncoderLayer(config)
    other.conv_module.batch_norm = OverChannels(WIDTH)
    for parameter in other.parameters():
        nn.init.normal_(parameter, std=0.3)
    ours = ConformerLayer(width=WIDTH, heads=HEADS, feedforward=INNER, kernel=KERNEL)
    attention, convolution = other.self_attn, other.conv_module
    projections = (attention.linear_q, attention.linear_k, attention.linear_v)
    by_kind = torch.arange(WIDTH).view(-1, 2).T.flatten()  # they alternate sines and cosines
    taken = {
        "self_attention.queries_keys_values.weight": torch.cat([p.weight for p in projections]),
        "self_attention.queries_keys_values.bias": torch.cat([p.bias for p in projections]),
        "self_attention.distance_keys.weight": attention.linear_pos.weight[:, by_kind],
        "self_attention.content_bias": attention.pos_bias_u[:, None],
        "self_attention.distance_bias": attention.pos_bias_v[:, None],
        "convolution.gated.weight": convolution.pointwise_conv1.weight[..., 0],
        "convolution.depthwise.weight": convolution.depthwise_conv.weight,
        "convolution.output.weight": convolution.pointwise_conv2.weight[..., 0],
    }
    modules = {
        "self_attention.output": attention.linear_out,
        "self_attention_norm": other.self_attn_layer_norm,
        "convolution.norm": convolution.layer_norm,
        "convolution.depthwise_norm": convolution.batch_norm,
        "norm": other.final_layer_norm,
        "first.norm": other.ffn1_layer_norm,
        "first.inner": other.ffn1.intermediate_dense,
        "first.outer": other.ffn1.output_dense,
        "second.norm": other.ffn2_layer_norm,
        "second.inner": other.ffn2.intermediate_dense,
        "second.outer": other.ffn2.output_dense,
    }
    for name, module in modules.items():
        taken |= {f"{name}.{kind}": tensor for kind, tensor in module.named_parameters()}
    ours.load_state_dict(taken)
    places = theirs.Wav2Vec2ConformerRelPositionalEmbedding(config)
    return ours.eval(), other.eval(), places


@pytest.mark.parametrize("length", [1, 2, 13])
def test_a_layer_makes_the_same_states_and_gradients(layers, length):
    ours, other, places = layers
    x = torch.randn(2, length, WIDTH)
    one, two = x.clone().requires_grad_(), x.clone().requires_grad_()
    found = ours(one)
    expected = other(two, relative_position_embeddings=places(two))
    expected = expected[0] if isinstance(expected, tuple) else expected
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    weights = torch.randn_like(found)
    (found * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(one.grad, two.grad, rtol=1e-4, atol=1e-5)
