"""The simulation of many GPUs: hand values of its formulas, counts of operators, and the papers' figures."""

from __future__ import annotations

import json

import pytest
from torch import nn

from benchmarks.launches import HOST_SECONDS, PEAK, RESULTS
from benchmarks.scale import (
    MACHINE,
    NETWORKS,
    TEXT_SHARE,
    Job,
    Network,
    computing,
    convolutions_flop,
    decoder_flop,
    encoder_flop,
    implied,
    jobs,
    layer_flop,
    main,
    mbart25,
    reduced,
    scattered,
    sharded,
    step,
    takes_over,
    wav2vec2_large,
)

#: 100 bytes a second inside a machine, 10 between machines.
SLOW = Network("slow", 100.0, 10.0)
JOB = Job("job", parameters=100, flop=96_000, launches=0, updates=10, rate=100, cards=4, days=0.5)


@pytest.mark.parametrize(("cards", "seconds"), [(1, 0.0), (2, 2.0), (8, 3.5), (16, 3.5 + 20), (64, 3.5 + 35)])
def test_a_scatter_carries_all_but_ones_own_part_over_each_kind_of_link(cards, seconds):
    """400 bytes: 7/8 at 100 bytes a second, then all but one machine's part at 10."""
    assert scattered(400, cards, SLOW) == pytest.approx(seconds)
    assert reduced(100, cards, SLOW) == pytest.approx(2 * seconds)
    assert sharded(100, cards, SLOW) == pytest.approx(2 * seconds)  # 2 x 2 bytes, and once 4


def test_an_update_hides_the_exchange_behind_the_backward_pass_or_waits_for_it():
    assert computing(JOB, 8) == 120
    assert step(JOB, 8, SLOW) == pytest.approx(120)  # 7 s of 80
    assert step(JOB, 64, SLOW) == pytest.approx(5 + 77)  # 10 s behind which 77 do not fit
    waiting = Job("job", 100, 96_000, 1e9, 10, 100, 4, 0.5)
    assert step(waiting, 64, SLOW) == pytest.approx(1e9 * HOST_SECONDS)


def test_the_exchange_takes_over_where_a_search_by_hand_finds_it():
    # 8: 7 of 120 s; 16: 47 of 60 s, more than the backward pass has (40); 24: 60.3 of 40 s
    assert takes_over(JOB, SLOW, 2 / 3) == 2 * MACHINE
    assert takes_over(JOB, SLOW, 1.0) == 3 * MACHINE
    assert takes_over(JOB, Network("quick", 1e9, 1e9), 1.0) is None


def test_a_layer_has_six_operations_a_parameter_of_its_products():
    encoder = nn.TransformerEncoderLayer(64, 4, 256, bias=False)
    decoder = nn.TransformerDecoderLayer(64, 4, 256, bias=False)
    for layer, crosses in ((encoder, False), (decoder, True)):
        matrices = sum(one.numel() for one in layer.parameters() if one.dim() == 2)
        assert layer_flop(64, 256, crosses=crosses) == 6 * matrices


def test_the_formulas_give_what_was_counted_operator_by_operator():
    """A Transformer big, whose logits say how many tokens an update has."""
    groups = json.loads((RESULTS / "gpu_text_big.json").read_text())["groups"]
    tokens = groups["loss, products"]["gflop"] * 1e9 / (6 * 1024 * 64000)
    layers = 6 * (layer_flop(1024, 4096) + layer_flop(1024, 4096, crosses=True))
    assert tokens * layers == pytest.approx(groups["products"]["gflop"] * 1e9, rel=0.02)


def test_attention_and_convolutions_by_hand():
    # two products of 10 keys with 4 numbers, two operations each, three times
    assert encoder_flop(1, 4, 0, 10) - layer_flop(4, 0) == 3 * 2 * 2 * 10 * 4
    assert decoder_flop(1, 4, 0, 10, 100) - layer_flop(4, 0, crosses=True) == 3 * 2 * 2 * 15 * 4 + 6 * 4 * 100
    # 3,200 frames of 10 x 512, then 3,000 of 3 x 512 x 512, and 150 of 2 x 512 x 512
    assert convolutions_flop() == 6 * (3200 * 5120 + 3000 * 786_432 + 150 * 524_288)


def test_models_have_the_sizes_of_the_papers():
    large, mbart = wav2vec2_large(), mbart25(128e3, "mBART25")
    assert large.flop / (128 * 75) == pytest.approx(6 * 302e6 * 50 * 1.3, rel=0.05)  # 24 layers of 12.6 M; and others
    assert mbart.flop / 128e3 == pytest.approx(6 * (151e6 + 201e6 + 256e6) * 1.05, rel=0.05)
    assert mbart.rate == pytest.approx(TEXT_SHARE * PEAK)
    assert implied(JOB) == pytest.approx(96_000 * 10 / 4 / 43_200)
    assert 0.05 < implied(large) / 125e12 < 0.2
    assert implied(jobs()[1]) > 125e12  # 128 K tokens a card are more than a V100 can compute in the time that is told


def test_more_cards_and_better_links_are_quicker(capsys):
    for job in jobs():
        days = [[step(job, cards, network) for network in NETWORKS] for cards in (8, 64)]
        assert all(slower >= quicker for slower, quicker in zip(*days, strict=True))
        assert all(row == sorted(row) for row in days)
    main_with(["--cards", "8", "512"])
    out = capsys.readouterr().out
    assert out.count("| computing, ms |") == len(jobs()) and "512 cards" in out


def main_with(words):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["scale", *words])
        main()
