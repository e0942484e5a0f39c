"""w2v-BERT 2.0 against transformers' own: features, states, logits, gradients; what is refused.

transformers is given each waveform alone; ours are given all in one batch.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman import CtcGreedySearch, DataError, System
from dragoman.exchange.huggingface.hf_w2v_bert import counterparts, import_hf_conformer
from dragoman.exchange.importing import import_model
from dragoman.shared.batch import Batch
from dragoman.shared.padded import Padded
from dragoman.shared.systems.encoder_system import EncoderSystem
from dragoman.shared.systems.reading_model import ReadingModel
from tests.parity.compared import Compared
from tests.parity.speech_models import LETTERS, check_gradients, disturbed, read, weighted

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

SMALL = {
    "hidden_size": 18, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 22,
    "conv_depthwise_kernel_size": 5, "left_max_position_embeddings": 6, "right_max_position_embeddings": 2,
    "vocab_size": len(LETTERS), "feat_proj_dropout": 0.1,
}  # fmt: skip
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "w2v-BERT 2.0": ("Wav2Vec2BertModel", SMALL),
    "w2v-BERT 2.0, CTC": ("Wav2Vec2BertForCTC", SMALL | {"layer_norm_eps": 1e-3, "hidden_size": 24}),
}


def saved(name: str, folder: Path) -> Any:
    kind, settings = MODELS[name]
    torch.manual_seed(1)
    architecture = getattr(transformers, kind)
    model = disturbed(architecture(architecture.config_class(**settings)), 0.15)
    model.save_pretrained(folder)
    transformers.SeamlessM4TFeatureExtractor(padding_value=1).save_pretrained(folder)
    if kind.endswith("ForCTC"):
        (folder / "vocab.json").write_text(json.dumps({letter: i for i, letter in enumerate(LETTERS)}))
        transformers.Wav2Vec2CTCTokenizer(folder / "vocab.json").save_pretrained(folder)
    return model


def test_features(files: list[str], tmp_path: Path, compared: Compared) -> None:
    saved("w2v-BERT 2.0", tmp_path)
    model = import_hf_conformer(tmp_path)[0].model
    extract = transformers.SeamlessM4TFeatureExtractor(padding_value=1)
    waveforms = read(files)
    found = model.embeddings["speech"].features(Padded.from_sequences(waveforms))
    for row, waveform in enumerate(waveforms):
        made = extract(waveform.numpy(), sampling_rate=16000, return_tensors="pt")
        pairs = int(made.attention_mask.sum())  # a frame without another one is not seen
        assert pairs == found.lengths[row] // 2
        expected = made.input_features[0, :pairs].reshape(2 * pairs, 80)
        torch.testing.assert_close(found.values[row, : 2 * pairs], expected, atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_encoders(name: str, files: list[str], tmp_path: Path, compared: Compared) -> None:
    compared.named("transformers", name)
    theirs = saved(name, tmp_path)
    languages = ["en"] if "CTC" in name else None
    system, report = import_hf_conformer(tmp_path, source_languages=languages)
    report.check()
    assert report.elsewhere == [f"{'wav2vec2_bert.' if languages else ''}masked_spec_embed"]
    model = system.model.eval()
    extract = transformers.SeamlessM4TFeatureExtractor(padding_value=1)
    waveforms = read(files)
    batch = Batch({"speech": Padded.from_sequences(waveforms)})
    features = model.embeddings["speech"].features(batch["speech"])
    states = model.encode(batch).memories["source"]
    losses = [torch.zeros(()), torch.zeros(())]
    for row, waveform in enumerate(waveforms):
        inputs = extract(waveform.numpy(), sampling_rate=16000, return_tensors="pt")
        length = int(states.lengths[row])
        assert length == inputs.attention_mask.sum()
        # The same features for both, so that what the networks make of them is compared.
        same = features.values[row, : 2 * length].reshape(1, length, 160)
        expected = theirs(same, output_hidden_states=True)
        last = expected.hidden_states[-1][0]
        compared.close("states", states.values[row, :length], last)
        if languages:
            logits = states.map(model.heads["ctc"]).values[row, :length]
            compared.close("logits", logits, expected.logits[0])
            losses[0], losses[1] = losses[0] + weighted(logits), losses[1] + weighted(expected.logits[0])
        else:
            losses[0], losses[1] = losses[0] + weighted(states.values[row, :length]), losses[1] + weighted(last)
    for loss in losses:
        loss.backward()

    def there(ours: str) -> tuple[str, ...]:
        prefix = "wav2vec2_bert." if languages else ""
        return tuple(part if part.startswith("lm_head") else prefix + part for part in counterparts(ours))

    check_gradients(model, _Flat(theirs), there, compared)


class _Flat:
    """The parameters of a model, those of convolutions over one frame without their last dimension."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model

    def named_parameters(self):
        for name, parameter in self.model.named_parameters():
            grad = parameter.grad
            if "pointwise" in name and grad is not None:
                grad = grad.squeeze(-1)
            yield name, type("Parameter", (), {"grad": grad})


def test_a_folder_writes_transcripts(files: list[str], tmp_path: Path) -> None:
    theirs = saved("w2v-BERT 2.0, CTC", tmp_path / "theirs")
    import_model(str(tmp_path / "theirs"), tmp_path / "ours", source_languages=["en"])
    system = System.load(tmp_path / "ours")
    extract = transformers.SeamlessM4TFeatureExtractor(padding_value=1)
    tokenizer = transformers.Wav2Vec2CTCTokenizer.from_pretrained(tmp_path / "theirs")
    found = system.hypotheses(files, search=CtcGreedySearch(), keep_silence=True)
    for hypotheses, waveform in zip(found, read(files), strict=True):
        made = extract(waveform.numpy(), sampling_rate=16000, return_tensors="pt")
        ids = theirs(**made).logits[0, : int(made.attention_mask.sum())].argmax(-1)
        text = re.sub("<s>|</s>|<unk>", "", tokenizer.decode(ids.tolist())).strip()
        assert hypotheses[0].texts["transcript"] == text


def test_an_encoder_is_saved_and_read(tmp_path: Path) -> None:
    saved("w2v-BERT 2.0", tmp_path / "theirs")
    import_model(str(tmp_path / "theirs"), tmp_path / "ours")
    system = ReadingModel.load(tmp_path / "ours")
    assert isinstance(system, EncoderSystem)
    embedding = system.model.embeddings["speech"]
    sound = Padded(torch.randn(3, 16000), torch.tensor([16000, 400, 7]))
    states = system.model.eval().encode(Batch({"speech": sound})).memories["source"]
    assert states.lengths.tolist() == embedding.lengths(sound.lengths).tolist() == [49, 1, 1]
    assert states.values.isfinite().all() and embedding.stride == 320


@pytest.mark.parametrize(
    ("file", "settings", "message"),
    [
        ("config.json", {"position_embeddings_type": "rotary"}, "position_embeddings_type 'rotary' has no counterpart"),
        ("config.json", {"add_adapter": True}, "add_adapter True has no counterpart here, only False"),
        ("config.json", {"feature_projection_input_dim": 240}, "240 is not that of two frames of 80 bins"),
        ("config.json", {"hidden_act": "gelu"}, "hidden_act 'gelu' has no counterpart here"),
        ("preprocessor_config.json", {"num_mel_bins": 128}, "num_mel_bins 128 has no counterpart here, only 80"),
    ],
)
def test_what_has_no_counterpart_is_refused(file: str, settings: dict, message: str, tmp_path: Path) -> None:
    saved("w2v-BERT 2.0", tmp_path / "theirs")
    path = tmp_path / "theirs" / file
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    with pytest.raises(DataError, match=message):
        import_model(str(tmp_path / "theirs"), tmp_path / "ours")
    assert not (tmp_path / "ours").exists()
