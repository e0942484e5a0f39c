"""The training benchmarks: what is counted, and that their arms do the same work."""

from __future__ import annotations

from dataclasses import replace

import pytest
from torch import nn

from benchmarks import speech_training, text_ours, text_training, waveform_training
from benchmarks.ours import counted
from benchmarks.side_by_side import Benchmark, run
from benchmarks.tables import markdown

TEXT = text_training.Work(width=16, heads=2, feedforward=32, layers=1, vocabulary=100, tokens=30, lengths=(5, 10))
SMALL = {"width": 16, "heads": 2, "feedforward": 32, "encoder_layers": 1, "decoder_layers": 1, "channels": 8}
SPEECH = speech_training.Work(**SMALL, vocabulary=50, batches=((2, 0.6), (1, 1.0)))
SIZES = {"width": 32, "heads": 2, "feedforward": 48, "layers": 1, "channels": 24, "codes_width": 16}
WAVEFORM = waveform_training.Work(**SIZES, entries=5, distractors=6, seconds=1.0)


def test_counted_operations_by_hand():
    (batch, _) = text_ours.batches(TEXT)
    rows, source, target = len(batch), batch["source"].values.shape[1], batch["target"].values.shape[1] - 1
    model = text_ours.translator(TEXT, 0.0)

    def maps(part: nn.Module) -> int:
        return sum(module.weight.numel() for module in part.modules() if isinstance(module, nn.Linear))

    memory = maps(model.decoder.layers[0].memory_attention["source"].keys_values)
    once = source * (maps(model.encoder) + memory) + target * (maps(model.decoder) - memory + 100 * 16)
    attention = 2 * 16 * (source * source + target * target + target * source)  # scores, and their use
    # a product of (m, k) and (k, n) takes 2 m k n, and two such products backwards
    assert counted(model, [batch]) == 3 * 2 * rows * (once + attention)


def test_a_batch_has_about_the_tokens_that_are_asked_for():
    for batch in text_training.Work(tokens=1000).pairs():
        assert 900 < sum(len(target) for _, target in batch) < 1100
    assert text_training.padded([[5, 2], [5, 6, 2]]) == [[5, 2, 1], [5, 6, 2]]


@pytest.mark.parity
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", ["text", "speech"])
def test_arms_have_the_same_losses(kind, precision):
    pytest.importorskip("transformers")
    module, work = {"text": (text_training, TEXT), "speech": (speech_training, SPEECH)}[kind]
    benchmark: Benchmark = module.compared("tiny", "Tiny.", [replace(work, precision=precision)])
    arms = [arm for arm in benchmark.arms if arm.peak]  # not the peak itself, which takes long where bf16 is imitated
    result = run(replace(benchmark, arms=arms), rounds=1, threads=1, told=lambda line: None)  # refuses other losses
    assert len(result["arms"]) > 1 and all(len(arm["ready"]["checks"]) == 4 for arm in result["arms"].values())
    assert f"| ours {precision} |" in markdown(result)


@pytest.mark.parity
def test_arms_of_pretraining_have_the_same_losses():
    pytest.importorskip("transformers")
    benchmark = waveform_training.compared("tiny", "Tiny.", WAVEFORM)
    arms = [arm for arm in benchmark.arms if arm.peak]
    result = run(replace(benchmark, arms=arms), rounds=1, threads=1, told=lambda line: None)
    checks = [arm["ready"]["checks"] for arm in result["arms"].values()]
    assert len(checks) > 1 and all(len(set(check.values())) == 4 for check in checks)  # updates change the loss
    assert result["arms"]["ours fp32"]["ready"]["flops"] > 0
    assert "| ours fp32 |" in markdown(result)
