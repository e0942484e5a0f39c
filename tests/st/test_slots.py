"""A memory of slots: torch's attention with the same weights is the oracle, and nothing depends on the batch."""

import torch
from torch import nn

from dragoman.shared.described import build, describe
from dragoman.shared.nn.layer import Layer
from dragoman.shared.padded import Padded
from dragoman.st.slots import MemoryLayer, SlotEncoder
from tests.small import refuses, torch_attention

WIDTH = 8


def memory_layer(**options):
    return MemoryLayer(**({"width": WIDTH, "heads": 2, "feedforward": 12, "dropout": 0.0} | options))


def encoder(slots=3, **options):
    torch.manual_seed(0)
    layer = Layer(width=WIDTH, heads=2, feedforward=12, dropout=0.0)
    return SlotEncoder(layer=layer, layers=2, memory_layer=memory_layer(), memory_layers=2, slots=slots, **options)


def states(*lengths):
    return Padded(torch.randn(len(lengths), max(lengths), WIDTH), torch.tensor(lengths))


def test_a_layer_is_self_attention_over_states_and_slots_in_which_slots_are_not_seen():
    torch.manual_seed(1)
    layer, h, m = memory_layer(), states(5, 2), torch.randn(2, 3, WIDTH)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    theirs = torch_attention(layer.attention)
    joined = layer.attention_norm(torch.cat([h.values, m], dim=1))
    hidden = torch.cat([~h.mask, torch.ones(2, 3, dtype=torch.bool)], dim=1)
    read = theirs(joined, joined, joined, key_padding_mask=hidden)[0][:, 5:]
    expected = m + read
    inner = layer.inner(layer.feedforward_norm(expected)).clamp(min=0)
    expected = expected + layer.outer(inner)
    torch.testing.assert_close(layer(m, h), expected)


def test_the_slots_do_not_depend_on_padding_or_other_rows_and_have_one_length():
    model, x = encoder(taps=[2]).eval(), states(6, 3, 4)
    slots, tapped = model(x)
    assert slots.values.shape == (3, 3, WIDTH) and slots.lengths.tolist() == [3, 3, 3]
    assert tapped[2].values.shape == (3, 6, WIDTH) and torch.equal(tapped[2].lengths, x.lengths)
    for row, alone in enumerate(x.rows()):
        mine, _ = model(Padded(alone[None], torch.tensor([len(alone)])))
        torch.testing.assert_close(mine.values[0], slots.values[row])
    noisy = Padded(torch.where(x.mask[..., None], x.values, 99.0), x.lengths)
    torch.testing.assert_close(model(noisy)[0].values, slots.values)


def test_every_slot_learns_and_the_model_comes_back_from_its_description():
    model = encoder(slots=5)
    model(states(4, 2))[0].values.square().sum().backward()
    assert (model.slots.grad.abs().sum(1) > 0).all()
    assert all(parameter.grad is not None for parameter in model.parameters())
    again = build(describe(model))
    assert {name: tensor.shape for name, tensor in again.state_dict().items()} == {
        name: tensor.shape for name, tensor in model.state_dict().items()
    }
    one, other = model.memory_layers
    assert one.inner.weight is not other.inner.weight


def test_activation_dropout_drops_what_is_inside_the_feedforward_net_and_only_in_training():
    layer, h, m = memory_layer(activation_dropout=0.999), states(5, 2), torch.randn(2, 3, WIDTH)
    nn.init.constant_(layer.outer.bias, 0.25)
    read = layer.attention.remember(h.map(layer.attention_norm))
    attended = m + layer.attention(layer.attention_norm(m), read)
    torch.manual_seed(0)
    torch.testing.assert_close(layer(m, h), attended + 0.25)
    assert not torch.allclose(layer.eval()(m, h), attended + 0.25)


def test_without_a_norm_above_the_slots_they_are_the_sum_of_what_their_layers_add():
    normed, bare = encoder().eval(), encoder(norm=False).eval()
    bare.load_state_dict({k: v for k, v in normed.state_dict().items() if not k.startswith("memory_norm")})
    x = states(6, 3)
    slots = bare(x)[0].values
    expected = torch.nn.functional.layer_norm(slots, (WIDTH,))
    torch.testing.assert_close(normed(x)[0].values, expected)
    assert not torch.allclose(slots, expected)


def test_what_cannot_be_a_memory_is_refused():
    refuses(ValueError, "SlotEncoder: slots must be at least 1, not 0", encoder, slots=0)
    layer = Layer(width=WIDTH, heads=2, feedforward=12)
    sizes = {"layer": layer, "layers": 1, "memory_layer": memory_layer(width=4), "slots": 2}
    refuses(ValueError, "the memory's width 4 is not the encoder's 8", SlotEncoder, **sizes)
    for wrong in ({"feedforward": 0}, {"dropout": 1.0}, {"activation_dropout": -0.1}, {"norm_epsilon": 0.0}):
        refuses(ValueError, "must be", memory_layer, **wrong)
    memory_layer(feedforward=1)  # the least
