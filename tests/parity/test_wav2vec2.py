"""The loss of wav2vec 2.0 against transformers', with the same parameters, masks and distractors.

Gumbel noise is left out. transformers' loss has no penalty; its distractors are frames, numbered through the batch.
"""

import pytest
import torch

from dragoman.exchange.huggingface import hf_export
from dragoman.exchange.huggingface.hf_wav2vec2 import import_hf_waveform
from dragoman.shared.batch import Batch
from dragoman.shared.errors import UsageError
from dragoman.shared.padded import Padded
from dragoman.st.wav2vec2 import DISTRACTORS, MASKED, ContrastivePretraining
from tests.parity.speech_models import disturbed, without_noise

transformers = pytest.importorskip("transformers")
from tests.parity.test_huggingface_speech import BASE, CODES, LARGE, saved_waveform_model  # noqa: E402

pytestmark = pytest.mark.parity

#: Without dropout, so that both can be in training, where probabilities are those of the softmax.
PLAIN = dict.fromkeys(
    ("hidden_dropout", "attention_dropout", "activation_dropout", "feat_proj_dropout", "layerdrop"), 0.0
) | {"feat_quantizer_dropout": 0.0, "num_negatives": 7, "diversity_loss_weight": 0.3}


def each_alone(linear):
    """Project vectors so that equal ones stay equal: a product may round each row otherwise."""
    return lambda vectors: (vectors[..., None, :] * linear.weight).sum(-1) + linear.bias


def theirs(folder, settings):
    torch.manual_seed(1)
    model = transformers.Wav2Vec2ForPreTraining(transformers.Wav2Vec2Config(**settings, **CODES, **PLAIN))
    disturbed(model, 0.15)
    with torch.no_grad():  # so that several entries are in use
        model.quantizer.weight_proj.weight.normal_(std=3.0)
    model.save_pretrained(folder)
    transformers.Wav2Vec2FeatureExtractor(do_normalize=False).save_pretrained(folder)
    return model.train()


def prepared(objective, lengths):
    """Return a batch with masks and distractors, and the latter as transformers numbers them."""
    generator = torch.Generator().manual_seed(2)
    speech = Padded.from_sequences([torch.randn(length, generator=generator) * 0.1 for length in lengths])
    torch.manual_seed(4)
    batch = objective.prepare(Batch({"speech": speech}))
    masked, distractors = batch[MASKED].values, batch[DISTRACTORS]
    frames = masked.shape[1]
    numbers = torch.zeros(*masked.shape, distractors.values.shape[2], dtype=torch.int64)
    for row in range(len(speech)):
        steps = masked[row].nonzero()[:, 0]
        numbers[row, steps] = row * frames + steps[distractors.rows()[row]]
    return batch, numbers


@pytest.mark.parametrize(
    ("settings", "lengths"), [(BASE, [8000, 8000, 8000]), (LARGE, [9000, 6000, 7321])], ids=["base", "large"]
)
def test_terms_and_gradients(settings, lengths, tmp_path, monkeypatch, compared):
    compared.named("transformers", f"wav2vec 2.0 pre-training ({'base' if settings is BASE else 'large'})")
    monkeypatch.setattr(torch.nn.functional, "gumbel_softmax", without_noise)
    other = theirs(tmp_path, settings | {"mask_time_prob": 0.6, "mask_time_length": 5})
    system, report = import_hf_waveform(tmp_path)
    report.check()
    objective = ContrastivePretraining(system=system, distractors=7, diversity=0.3, penalty=0.0).train()
    batch, numbers = prepared(objective, lengths)
    other.set_gumbel_temperature(objective.code_temperature)
    monkeypatch.setattr(other.project_q, "forward", each_alone(other.project_q))
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    found = objective(batch)
    expected = other(
        batch["speech"].values,
        attention_mask=None if settings is BASE else mask,  # the base model's norm reads padding
        mask_time_indices=batch[MASKED].values,
        sampled_negative_indices=numbers,
    )
    count = objective.counts(batch)["contrastive"]
    assert int(count) == int(batch[MASKED].values.sum()) > 100
    close = {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(found.parts["contrastive"].sum, expected.contrastive_loss, **close)
    torch.testing.assert_close(found.parts["diversity"].sum, expected.diversity_loss, **close)
    loss = found.total(objective.counts(batch))
    compared.close("loss", loss, expected.loss / count)
    assert 2.5 < expected.codevector_perplexity < 8  # of 8 entries in 2 groups
    loss.backward()
    (expected.loss / count).backward()
    head, embedding = objective.head, objective.embedding
    for own, gradient in (
        (head.states.weight, other.project_hid.weight.grad),
        (head.targets.weight, other.project_q.weight.grad),
        (head.quantiser.logits.weight, other.quantizer.weight_proj.weight.grad),
        (head.quantiser.codes, other.quantizer.codevectors.grad.view_as(head.quantiser.codes)),
        (embedding.masking.vector, other.wav2vec2.masked_spec_embed.grad),
        (embedding.projection.weight, other.wav2vec2.feature_projection.projection.weight.grad),
        (embedding.convolutions.layers[0].convolution.weight, _first(other).grad),
    ):
        assert gradient.abs().max() > 0
        compared.close("gradients", own.grad / gradient.abs().max(), gradient / gradient.abs().max())


def _first(model):
    return model.wav2vec2.feature_extractor.conv_layers[0].conv.weight


@pytest.mark.parametrize("name", ["base_pretraining", "large_pretraining", "large_model", "base_model"])
def test_an_exported_encoder_has_equal_states_and_comes_back(name, tmp_path, compared):
    compared.named("transformers", f"wav2vec 2.0, exported ({name.replace('_', ' ')})")
    saved_waveform_model(name, tmp_path / "theirs")
    system, _ = import_hf_waveform(tmp_path / "theirs")
    system.save(tmp_path / "ours")
    system.eval()
    kind = "ForPreTraining" if "pretraining" in name else "Model"
    assert hf_export.export(tmp_path / "ours", tmp_path / "exported") == [f"Wav2Vec2{kind} (wav2vec2)"]
    architecture = getattr(transformers, f"Wav2Vec2{kind}")
    model, found = architecture.from_pretrained(tmp_path / "exported", output_loading_info=True)
    assert not (found["missing_keys"] or found["unexpected_keys"] or found["mismatched_keys"])
    extractor = transformers.AutoFeatureExtractor.from_pretrained(tmp_path / "exported")
    waveform = torch.randn(4000, generator=torch.Generator().manual_seed(1)) * 0.1 + 0.02
    given = extractor(waveform.numpy(), sampling_rate=16000, return_tensors="pt").input_values
    bare = model.wav2vec2 if "pretraining" in name else model
    with torch.no_grad():
        expected = bare.eval()(given).last_hidden_state[0]
        ours = system.model.encode(Batch({"speech": Padded.from_sequences([waveform])})).memories["source"]
    compared.close("states", ours.values[0], expected)
    again, report = import_hf_waveform(tmp_path / "exported")
    report.check()
    assert report.elsewhere == []
    before, after = system.state_dict(), again.state_dict()
    assert before.keys() == after.keys() and all(torch.equal(before[key], after[key]) for key in before)


def test_an_encoder_that_transformers_cannot_compute_is_refused_by_name(tmp_path):
    saved_waveform_model("base_model", tmp_path / "theirs")
    system, _ = import_hf_waveform(tmp_path / "theirs")
    system.model.embeddings["speech"].projection = torch.nn.Identity()
    with pytest.raises(UsageError, match="no native class for an encoder of waveforms with frames that are not projec"):
        hf_export.export_encoder(system.model, tmp_path / "exported")
