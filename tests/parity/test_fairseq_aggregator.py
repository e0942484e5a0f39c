"""fairseq's wav2vec of 2019: latents, contexts, and the loss of pre-training, whatever batch a waveform stands in."""

import pytest
import torch
from safetensors.torch import load_file

from dragoman.exchange.fairseq.fairseq_import import import_fairseq
from dragoman.exchange.fairseq.fairseq_wav2vec import MAPS, counterparts, with_maps
from dragoman.shared.batch import Batch
from dragoman.shared.padded import Padded
from dragoman.shared.systems.encoder_system import EncoderSystem
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.st.wav2vec import NEGATIVES, FutureModel, FuturePrediction
from tests.parity.fairseq_cases import HERE, beginnings, check_gradients, waveforms, weighted

CASES = ["wav2vec_2019", "wav2vec_scaled", "wav2vec_plain"]


@pytest.fixture(params=CASES)
def case(request, tmp_path) -> tuple[str, EncoderSystem]:
    """Return the imported system, saved and loaded again."""
    system, report = import_fairseq(HERE / request.param)
    report.check()
    assert report.elsewhere == []
    system.save(tmp_path / "model")
    return request.param, ReadingModel.load(tmp_path / "model")


def theirs(model: FutureModel):
    names = counterparts(model)
    return lambda ours: list(names[ours])


def test_latents_contexts_and_gradients(case, compared):
    name, system = case
    compared.named("fairseq", f"wav2vec ({name.partition('_')[2]})")
    numbers = load_file(HERE / name / "expected.safetensors")
    front = system.model.frontend
    latents = front.latents(waveforms())
    contexts = front.aggregator(latents).rows()
    for row, (z, c) in enumerate(zip(latents.rows(), contexts, strict=True)):
        compared.close("states", z, numbers[f"latents.{row}"], tolerance=1e-5)
        compared.close("states", c, numbers[f"states.{row}"], tolerance=1e-5)
    for c, again in zip(contexts, front(waveforms()).rows(), strict=True):
        assert torch.equal(c, again)
    sum(weighted(values) for values in contexts).backward()
    check_gradients(system.model, theirs(system.model), numbers, compared)


def test_the_loss_of_pretraining_and_its_gradients(case, compared):
    name, system = case
    compared.named("fairseq", f"wav2vec pre-training ({name.partition('_')[2]})")
    numbers = load_file(HERE / name / "pretraining.safetensors")
    negatives, speech = numbers["negatives"].long(), beginnings()
    lengths = system.model.frontend.lengths(speech.lengths)
    assert {*lengths.tolist()} == {negatives.shape[1]}
    objective = FuturePrediction(system=system, negatives=negatives.shape[2])
    batch = Batch({"speech": speech}).with_fields(**{NEGATIVES: Padded(negatives, lengths)})
    found, counts = objective(batch), objective.counts(batch)
    assert int(counts["prediction"]) == int(numbers["sample_size"])
    loss = found.total(counts)
    compared.close("loss", loss / (numbers["loss"] / numbers["sample_size"]), 1.0, tolerance=1e-5)
    loss.backward()
    bias, steps = system.model.maps.bias, system.model.steps
    bias.grad = bias.grad.unflatten(0, (steps, -1)).sum(0).repeat(steps)  # fairseq's maps share one summand
    gradients = {name.removeprefix("gradient."): value for name, value in numbers.items() if "gradient." in name}
    assert gradients[f"{MAPS}.weight"].any()
    renamed = {f"gradient.{name}": value for name, value in with_maps(gradients).items()}
    check_gradients(system.model, theirs(system.model), renamed, compared, least=1e-3)
