"""wav2vec (2019): its loss against nested loops with torch's cross entropy, its convolutions against torch's."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dragoman.shared.batch import Batch
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.nn.frame_norms import WholeNorm
from dragoman.shared.nn.speech import SpeechEmbedding
from dragoman.shared.nn.subsampler import Conv1dSubsampler
from dragoman.shared.nn.waveform import WaveformConvolutions
from dragoman.shared.padded import Padded
from dragoman.shared.systems.encoder_system import EncoderSystem
from dragoman.st.wav2vec import NEGATIVES, Aggregator, FutureModel, FuturePrediction, Wav2Vec
from tests.small import refuses

LENGTHS = [460, 300, 75]
PAPER = [[512, 10, 5], [512, 8, 4], [512, 4, 2], [512, 4, 2], [512, 4, 2], [512, 1, 1], [512, 1, 1]]


def front_end(frozen: bool = False, **arguments) -> Wav2Vec:
    torch.manual_seed(1)
    made = Wav2Vec(
        convolutions=WaveformConvolutions(convolutions=[[6, 10, 5], [8, 4, 2]], norm_whole=True, activation="relu"),
        aggregator=Aggregator(channels=8, kernels=[2, 3], **arguments),
        frozen=frozen,
    )
    for name, parameter in made.named_parameters():  # norms that begin with 1 and 0 would hide what they do
        if "norm" in name:
            nn.init.normal_(parameter, mean=1.0)
    return made


def objective(steps: int = 4, **arguments) -> FuturePrediction:
    model = FutureModel(frontend=front_end(), steps=steps)
    return FuturePrediction(system=EncoderSystem(model=model, inputs={"speech": SpeechField()}), **arguments)


def batch(lengths=LENGTHS) -> Batch:
    generator = torch.Generator().manual_seed(7)
    rows = [torch.randn(length, generator=generator) for length in lengths]
    return Batch({"speech": Padded.from_sequences(rows, padding=0.3)}, ids=[f"row{n}" for n in range(len(rows))])


def test_the_loss_equals_nested_loops():
    """Each row alone, each step, each frame, each negative."""
    loss = objective(negatives=5)
    prepared = loss.prepare(batch())
    offset, model = loss.offset, loss.model
    total, accurate, pairs = 0.0, 0, 0
    with torch.no_grad():
        for row, waveform in enumerate(prepared["speech"].rows()):
            alone = Padded.from_sequences([waveform])
            z, c = model.frontend.latents(alone).values[0], model.frontend(alone).values[0]
            for step in range(4):
                weight, bias = (part.view(4, 8, *part.shape[1:])[step] for part in (model.maps.weight, model.maps.bias))
                for here in range(len(c)):
                    there = here + offset + step
                    if there >= len(z):
                        continue
                    predicted = weight @ c[here] + bias
                    others = prepared[NEGATIVES].values[row, there].tolist()
                    scores = torch.stack([predicted @ z[place] for place in (there, *others)])
                    truth = torch.tensor([1.0] + [0.0] * 5)
                    total += float(F.binary_cross_entropy_with_logits(scores, truth, reduction="sum"))
                    accurate += bool(scores[0] > scores[1:].max())
                    pairs += 1
        found = loss(prepared)
    assert pairs == int(found.parts["prediction"].count) == int(loss.counts(prepared)["prediction"])
    assert float(found.parts["prediction"].sum) == pytest.approx(total, rel=1e-5)
    assert int(found.parts["accuracy"].sum) == accurate and found.parts["accuracy"].weight == 0
    assert 0 < accurate < pairs


def test_a_row_shorter_than_the_first_step_has_no_pairs():
    loss = objective(steps=2)
    prepared = loss.prepare(batch([45]))  # three frames, the first step is three frames away
    assert loss.offset == 3 and int(loss.model.frontend.lengths(torch.tensor([45]))) == 3
    found = loss(prepared)
    assert int(found.parts["prediction"].count) == 0 and not found.parts["prediction"].sum.detach()


def test_negatives_are_other_frames_of_the_row_and_all_equally_likely():
    torch.manual_seed(3)
    negatives = objective(negatives=4000).prepare(batch([460, 120]))[NEGATIVES]
    assert negatives.lengths.tolist() == [44, 10]
    for length, drawn in zip((44, 10), negatives.rows(), strict=True):
        for frame in range(length):
            counts = drawn[frame].bincount(minlength=length)
            assert len(counts) == length and counts[frame] == 0
            expected = 4000 / (length - 1)
            square = ((counts - expected) ** 2 / expected).sum() - expected  # without the frame itself
            assert square < (length - 2) + 6 * (2 * (length - 2)) ** 0.5


def test_the_first_step_shares_no_sample_with_the_present():
    """With the paper's sizes: frames of 465 samples, 160 apart; the authors' code has 3 as well."""
    convolutions = WaveformConvolutions(convolutions=PAPER, norm_whole=True, activation="relu")
    aggregator = Aggregator(channels=512, kernels=[*range(2, 14)])
    frontend = Wav2Vec(convolutions=convolutions, aggregator=aggregator)
    assert (frontend.convolutions.window, frontend.hop, frontend.bins) == (465, 160, 512)
    model = FutureModel(frontend=frontend)
    assert FuturePrediction(system=EncoderSystem(model=model, inputs={"speech": SpeechField()})).offset == 3
    # Convolutions, factors and summands of the norms; aggregator; maps. wav2vec_large has 32.5 million.
    features = 512 * 10 + 512**2 * (8 + 3 * 4 + 2) + 7 * 2 * 512
    aggregator = 512**2 * sum(range(2, 14)) + 12 * 3 * 512
    assert sum(p.numel() for p in model.parameters()) == features + aggregator + 12 * (512**2 + 512) == 32_542_720


def test_the_whole_norm_is_group_normalisation_with_one_group():
    torch.manual_seed(2)
    norm, expected = WholeNorm(channels=3), nn.GroupNorm(1, 3)
    for one, other in zip(norm.parameters(), expected.parameters(), strict=True):
        nn.init.normal_(one)
        other.data = one.data
    x = torch.randn(2, 3, 9)
    torch.testing.assert_close(norm(x, torch.tensor([9, 9])), expected(x))
    torch.testing.assert_close(norm(x, torch.tensor([9, 5]))[1:, :, :5], expected(x[1:, :, :5]))


@pytest.mark.parametrize(("skip", "scale"), [(True, {}), (True, {"residual_scale": 0.3}), (False, {})])
def test_the_aggregator_equals_torchs_convolutions_frame_by_frame(skip, scale):
    """A loop over frames, which sees the present and the past alone; before the first frame, that is repeated."""
    made = Aggregator(channels=4, kernels=[3], skip=skip, **scale)
    x = torch.randn(1, 6, 4)
    [layer] = made.layers
    convolved = []
    for frame in range(6):
        seen = torch.stack([x[0, max(0, frame - back)] for back in (2, 1, 0)])  # (3, 4)
        weight, bias = layer.convolution.weight, layer.convolution.bias
        convolved.append(torch.einsum("ock,kc->o", weight, seen) + bias)
    normed = F.relu(nn.GroupNorm(1, 4)(torch.stack(convolved, dim=1)[None]))[0].T
    expected = (x[0] + normed) * scale.get("residual_scale", 0.5) ** 0.5 if skip else normed
    torch.testing.assert_close(made(Padded.from_sequences([x[0]])).values[0], expected)


def test_latents_are_compressed():
    made = front_end()
    convolved = made.convolutions(batch()["speech"]).values
    assert convolved.min() == 0  # ReLU
    torch.testing.assert_close(made.latents(batch()["speech"]).values, torch.log(1 + convolved))


def test_a_frozen_front_end_feeds_a_subsampler_and_learns_nothing():
    made = front_end(frozen=True)
    subsampler = Conv1dSubsampler(inputs=8, channels=6, width=4, kernels=[3])
    embedding = SpeechEmbedding(frontend=made, subsampler=subsampler, dropout=0.0)
    embedded = embedding(batch()["speech"])
    embedded.values.sum().backward()
    assert embedding.stride == 10 * 2
    assert embedded.lengths.tolist() == embedding.lengths(torch.tensor(LENGTHS)).tolist()
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in made.parameters())
    assert all(parameter.grad is not None for parameter in embedding.subsampler.parameters())


def test_all_parameters_learn_in_pre_training():
    loss = objective()
    loss(loss.prepare(batch())).total().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in loss.model.parameters())


def test_refusals():
    refuses(DataError, "row 'row1' has one frame.*minimum_seconds", objective().prepare, batch([200, 20]))
    refuses(UsageError, "FuturePrediction: negatives must be at least 1, not 0", objective, negatives=0)
    narrow = WaveformConvolutions(convolutions=[[6, 4, 2]])
    wrong = {"convolutions": narrow, "aggregator": Aggregator(channels=8, kernels=[2])}
    refuses(ValueError, "6 channels cannot enter an aggregator of 8", Wav2Vec, **wrong)
    alone = EncoderSystem(model=front_end(), inputs={"speech": SpeechField()})
    refuses(UsageError, "by a FutureModel, not by a Wav2Vec", FuturePrediction, system=alone)
    refuses(ValueError, "an aggregator needs kernels", Aggregator, channels=8, kernels=[])
    refuses(ValueError, "residual_scale must be above 0, not 0", Aggregator, channels=8, kernels=[2], residual_scale=0)
    refuses(ValueError, "exclude each other", WaveformConvolutions, norm_each=True, norm_whole=True)
    refuses(ValueError, "activation must be one of gelu, relu, not 'tanh'", WaveformConvolutions, activation="tanh")
