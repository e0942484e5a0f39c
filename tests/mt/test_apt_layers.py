"""The fusion of a pre-trained model's layers into those of a translator, against loops over layers and tokens."""

import numpy as np
import pytest
import torch

from dragoman.mt.apt_layers import ADAPTED, MEANS, FusingDecoder, FusionLayer, LayerFusion, RunningSum
from dragoman.shared.nn.layer import Layer
from dragoman.shared.padded import Padded

WIDTH, DEPTH = 16, 3
SIZES = {"width": WIDTH, "heads": 2, "feedforward": 32}


def net(module, x):
    """Return what two linear maps with a ReLU make of a vector, in numpy."""
    parameters = (module[0].weight, module[0].bias, module[2].weight, module[2].bias)
    first, bias, second, last = (one.detach().double().numpy() for one in parameters)
    return second @ np.maximum(first @ x + bias, 0) + last


def fused(fusion, states, adapted, upto=None):
    """Return equations 8 to 11 for one text: states (L, D) and adapted (L, P, D), by loops over layers and tokens."""
    length, depth, width = adapted.shape
    found = np.zeros_like(states)
    for place in range(length):
        until = length if upto is None else place + 1
        mean = sum(states[i] for i in range(until)) / until
        if fusion.scores is None:
            shares = np.full(depth, 1 / depth)
        else:
            means = [sum(adapted[i, one] for i in range(until)) / until for one in range(depth)]
            scores = np.array([net(fusion.scores, own * mean)[0] for own in means])
            shares = np.exp(scores) / np.exp(scores).sum()
        context = sum(shares[one] * adapted[place, one] for one in range(depth))
        if fusion.gate is not None:
            context = context / (1 + np.exp(-net(fusion.gate, states[place] * context)[0]))
        found[place] = states[place] + context
    assert found.shape == (length, width)
    return found


@pytest.mark.parametrize("options", [{}, {"attention": False}, {"gate": False}, {"inner": 5}])
@pytest.mark.parametrize("causal", [False, True])
def test_a_layer_fuses_as_the_equations_say(options, causal):
    torch.manual_seed(2)
    fusing = FusionLayer(**SIZES, dropout=0.0, fusion=LayerFusion(width=WIDTH, **options)).eval()
    plain = Layer(**SIZES, dropout=0.0).eval()
    plain.load_state_dict({name: x for name, x in fusing.state_dict().items() if not name.startswith("fusion.")})
    lengths = torch.tensor([5, 3])
    x, adapted = torch.randn(2, 5, WIDTH), Padded(torch.randn(2, 5, DEPTH, WIDTH), lengths)
    means = adapted.map(RunningSum().means) if causal else Padded(adapted.mean()[:, None], torch.ones(2).long())
    mask = None if causal else adapted.mask
    found = fusing(x, mask=mask, causal=causal, memories={ADAPTED: adapted, MEANS: means}).detach().numpy()
    states = plain(x, mask=mask, causal=causal).detach().double().numpy()
    for row, length in enumerate(lengths.tolist()):
        known = adapted.values[row, :length].double().numpy()
        expected = fused(fusing.fusion, states[row, :length], known, upto=True if causal else None)
        np.testing.assert_allclose(found[row, :length], expected, atol=1e-5)


def test_a_fusion_has_the_width_of_its_layer():
    with pytest.raises(ValueError, match="^the fusion has the width 8, but the layer 16$"):
        FusionLayer(**SIZES, fusion=LayerFusion(width=8))
    layer = FusionLayer(**SIZES, fusion=LayerFusion(width=WIDTH), memories=["source"])
    assert layer.memories == ["source", ADAPTED, MEANS]


def test_running_means_go_on_with_their_rows():
    values = torch.arange(24.0).view(2, 4, 3)
    past = RunningSum()
    past.repeat(1), past.reorder(torch.tensor([0]))  # nothing was seen
    torch.testing.assert_close(past.means(values[:, :2]), torch.stack([values[:, 0], values[:, :2].mean(1)], 1))
    past.repeat(2)
    past.reorder(torch.tensor([1, 3, 2]))
    rows = values[[0, 1, 1]]
    expected = torch.stack([rows[:, :3].mean(1), rows.mean(1)], 1)
    torch.testing.assert_close(past.means(rows[:, 2:]), expected)
    assert past.means(rows[:, :1].bfloat16()).dtype == torch.float32


def test_a_decoder_keeps_adapted_states_from_what_it_checks():
    layer = FusionLayer(**SIZES, dropout=0.0, fusion=LayerFusion(width=WIDTH), memories=["source"])
    decoder = FusingDecoder(layer=layer, layers=2).eval()
    assert decoder.memories == ["source"]
    source = Padded(torch.randn(2, 3, WIDTH), torch.tensor([3, 2]))
    adapted = Padded(torch.randn(2, 4, DEPTH, WIDTH), torch.tensor([4, 4]))
    checked = decoder.check({"source": source, ADAPTED: adapted, MEANS: adapted})
    assert checked[ADAPTED] is adapted and checked[MEANS] is adapted and {*checked} == {"source", ADAPTED, MEANS}
    caches = decoder.caches({"source": source})
    assert len(caches) == 2 and all(isinstance(cache.past, RunningSum) for cache in caches)
    assert caches[0].past is not caches[1].past


def test_a_fusion_has_both_of_its_nets_unless_told_otherwise():
    plain = LayerFusion(width=WIDTH)
    assert plain.scores is not None and plain.gate is not None
    assert LayerFusion(width=WIDTH, attention=False).scores is None
    assert LayerFusion(width=WIDTH, gate=False).gate is None
