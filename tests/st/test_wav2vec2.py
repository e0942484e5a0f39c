"""The loss of wav2vec 2.0 against loops over rows, masked frames and distractors; tests/parity has transformers'."""

import math

import pytest
import torch

from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.errors import DataError, UsageError
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.quantiser import ContrastiveHead, ProductQuantiser
from dragoman.shared.nn.spans import SpanMasking
from dragoman.shared.nn.transformer import Encoder
from dragoman.shared.nn.translator import EncoderModel
from dragoman.shared.nn.waveform import ConvolutionalPositions, WaveformConvolutions, WaveformEmbedding
from dragoman.shared.padded import Padded
from dragoman.shared.systems.encoder_system import EncoderSystem
from dragoman.st.wav2vec2 import DISTRACTORS, MASKED, ContrastivePretraining
from tests.small import refuses
from tests.st.test_wav2vec import batch as batch_of

LENGTHS = [1600, 900, 1333]


def system(heads: bool = True, **masking) -> EncoderSystem:
    torch.manual_seed(1)
    embedding = WaveformEmbedding(
        convolutions=WaveformConvolutions(convolutions=[[6, 10, 5], [8, 4, 4]], norm_each=True),
        positions=ConvolutionalPositions(width=12, kernel=4, groups=2),
        masking=SpanMasking(width=12, **{"probability": 0.5, "span": 3} | masking),
    )
    quantiser = ProductQuantiser(inputs=8, width=6, groups=2, entries=3)
    layer = Layer(width=12, heads=2, feedforward=16, dropout=0.1, activation="gelu")
    model = EncoderModel(
        embeddings={"speech": embedding},
        encoder=Encoder(layer=layer, layers=2),
        heads={"contrastive": ContrastiveHead(quantiser=quantiser, width=12, compared=5)} if heads else None,
    )
    return EncoderSystem(model=model, inputs={"speech": SpeechField()})


def objective(**arguments) -> ContrastivePretraining:
    return ContrastivePretraining(system=system(), **{"distractors": 6} | arguments).eval()


def cosine(one, other) -> float:
    return float((one @ other) / (one.norm() * other.norm()))


def test_terms_equal_loops():
    """Each row of the padded batch alone, each masked frame, each distractor."""
    loss = objective(temperature=0.2, diversity=0.3, penalty=4.0)
    prepared = loss.prepare(batch_of(LENGTHS))
    head, embedding, model = loss.head, loss.embedding, loss.model
    contrastive = accurate = squares = real = 0.0
    probabilities, used, count = torch.zeros(2, 3), torch.zeros(2, 3), 0
    with torch.no_grad():
        for row, waveform in enumerate(prepared["speech"].rows()):
            convolved = embedding.convolved(Padded.from_sequences([waveform]))
            squares += float(convolved.values.square().sum()) / 8
            real += int(convolved.lengths)
            frames = convolved.map(embedding.frame_norm)
            masked = prepared[MASKED].values[row][: int(convolved.lengths)]
            states = model.encoder(embedding.embed(frames, masked[None]))[0].values[0]
            steps = masked.nonzero()[:, 0].tolist()
            codes, entries = [], []
            for step in steps:
                logits = head.quantiser.logits(frames.values[0, step]).view(2, 3)
                best = logits.argmax(1).tolist()
                vector = torch.cat([head.quantiser.codes[group, best[group]] for group in range(2)])
                codes.append(head.targets(vector))
                entries.append(best)
                probabilities += logits.softmax(1)
                for group in range(2):
                    used[group, best[group]] += 1
            for place, step in enumerate(steps):
                state = head.states(states[step])
                right = cosine(state, codes[place]) / 0.2
                chosen = prepared[DISTRACTORS].values[row, place].tolist()
                wrong = [cosine(state, codes[one]) / 0.2 for one in chosen if entries[one] != entries[place]]
                contrastive -= right - math.log(sum(map(math.exp, [right, *wrong])))
                accurate += bool(wrong) and right > max(wrong)
                count += 1
        found = loss(prepared)
    rows = [[p for p in group.tolist() if p] for shares in (probabilities, used) for group in shares / count]
    exponents = [math.exp(-sum(p * math.log(p) for p in row)) for row in rows]
    perplexities = [sum(exponents[:2]), sum(exponents[2:])]
    expected = {
        "contrastive": (contrastive, 1.0),
        "diversity": (count * (6 - perplexities[0]) / 6, 0.3),
        "penalty": (count * squares / real, 4.0),
        "code_perplexity": (count * perplexities[1], 0.0),
        "accuracy": (accurate, 0.0),
    }
    assert found.parts.keys() == expected.keys() == loss.counts(prepared).keys()
    for name, (total, weight) in expected.items():
        term = found.parts[name]
        assert float(term.sum) == pytest.approx(total, rel=1e-4), name
        assert (term.weight, int(term.count), int(loss.counts(prepared)[name])) == (weight, count, count)
    assert accurate > 0 and count > 60


def test_masked_frames_are_not_heard_and_others_are():
    """A change at a masked step changes its target, but not the state that has to find it."""
    loss = objective()
    prepared = loss.prepare(batch_of(LENGTHS))
    masked = prepared[MASKED].values
    frames = loss.embedding.frames(prepared["speech"])
    changed = frames.map(lambda values: torch.where(masked[..., None], values + 3, values))
    embedded = loss.embedding.embed(frames, masked).values
    assert torch.equal(embedded, loss.embedding.embed(changed, masked).values)
    heard = frames.map(lambda values: torch.where(masked[..., None], values, values + 3))
    assert not torch.isclose(embedded, loss.embedding.embed(heard, masked).values)[~masked & frames.mask].all(-1).any()


def test_distractors_are_other_masked_frames_of_the_row():
    prepared = objective(distractors=300).prepare(batch_of(LENGTHS))
    steps, drawn = prepared[MASKED].values.sum(1), prepared[DISTRACTORS]
    assert torch.equal(drawn.lengths, steps)
    for row, count in zip(drawn.rows(), steps.tolist(), strict=True):
        assert row.shape == (count, 300) and 0 <= row.min() and row.max() == count - 1
        assert not (row == torch.arange(count)[:, None]).any()


def test_masks_and_distractors_follow_torchs_seed():
    loss, first = objective(), []
    for _ in range(2):
        torch.manual_seed(11)
        first.append(loss.prepare(batch_of(LENGTHS)))
    for name in (MASKED, DISTRACTORS):
        assert torch.equal(first[0][name].values, first[1][name].values)
    again = loss.prepare(batch_of(LENGTHS))
    assert not torch.equal(again[MASKED].values, first[0][MASKED].values)
    assert torch.equal(again[MASKED].lengths, loss.embedding.lengths(torch.tensor(LENGTHS)))
    assert not again[MASKED].values[~again[MASKED].mask].any()


def test_all_parameters_learn_but_quantised_frames_alone_learn_from_diversity():
    loss = objective().train()
    terms = loss(loss.prepare(batch_of(LENGTHS))).parts
    terms["diversity"].sum.backward(retain_graph=True)
    assert loss.head.quantiser.logits.weight.grad.abs().sum() > 0
    assert loss.head.states.weight.grad is None and loss.embedding.masking.vector.grad is None
    terms["contrastive"].sum.backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in loss.parameters())


def test_the_temperature_of_codes_follows_the_update():
    loss = objective()
    assert loss.code_temperature == 2.0
    for update, expected in ((1, 2.0), (10_001, 2.0 * 0.999995**10_000), (1_000_001, 0.5)):
        loss.at(update)
        assert loss.code_temperature == pytest.approx(expected)


def test_a_collapsed_codebook_is_seen():
    """With one code for all frames nothing can be told apart, the loss is zero, and a warning names the perplexity."""
    loss = objective()
    with torch.no_grad():
        loss.head.quantiser.logits.bias.view(2, 3)[:, 1] = 1000
    parts = loss(loss.prepare(batch_of(LENGTHS))).parts
    parts["diversity"].sum.backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in loss.parameters())
    means = {name: float(term.sum.detach() / term.count) for name, term in parts.items()}
    assert means["contrastive"] == means["accuracy"] == 0
    assert means["diversity"] == pytest.approx(4 / 6)
    [alarm] = loss.alarms(means)
    assert "perplexity is 2.0 of 6" in alarm
    assert loss.alarms(means | {"code_perplexity": 3.0}) == [] == loss.alarms({})


def test_frames_that_are_told_apart_by_chance_are_seen():
    """Of four distractors a guess is right in 20 % of all cases; at first that is no alarm."""
    loss = objective(distractors=4, code_temperature=[2.0, 0.5, 0.999])
    guessed = {"accuracy": 0.39, "code_perplexity": 5.0}
    assert loss.alarms(guessed) == []
    loss.at(287)  # 2.0 * 0.999 ** 286 = 1.502
    assert loss.alarms(guessed) == []
    loss.at(289)  # 1.499
    [alarm] = loss.alarms(guessed)
    assert "39.0% of the masked frames" in alarm and "20.0% would be by chance" in alarm
    assert loss.alarms(guessed | {"accuracy": 0.4}) == []
    assert len(objective(distractors=4, code_temperature=[0.5, 0.5, 1.0]).alarms(guessed)) == 1


def test_a_row_without_two_masked_frames_is_named():
    refuses(DataError, r"'row1': 1 of its 1 frames masked.*minimum_seconds", objective().prepare, batch_of([1600, 20]))


def test_a_row_may_have_fewer_masked_frames_than_distractors():
    loss = objective(distractors=50)
    prepared = loss.prepare(batch_of([300, 200]))
    assert 2 <= int(prepared[DISTRACTORS].lengths.min()) < 50
    assert loss(prepared).total(loss.counts(prepared)).isfinite()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"distractors": 0}, "ContrastivePretraining: distractors must be at least 1, not 0"),
        ({"temperature": 0.0}, "ContrastivePretraining: temperature must be above 0, not 0\\.0"),
        ({"code_temperature": [0.5, 2.0, 0.9]}, "first, least, factor"),
    ],
)
def test_refuses_arguments(arguments, message):
    refuses(UsageError, message, objective, **arguments)


def test_refuses_models_without_quantiser_or_masking():
    message = "no head 'contrastive'.*only none: begin with a checkpoint of pre-training"
    refuses(UsageError, message, ContrastivePretraining, system=system(heads=False))
    refuses(UsageError, "masks no frames", ContrastivePretraining, system=system(probability=0.0))
