"""The import of fairseq's wav2vec of 2019: what it asks for, what it refuses, and the command.

That it computes what fairseq computes is tested in tests/parity/test_fairseq_aggregator.py.
"""

from pathlib import Path

import pytest
import torch

from dragoman import DataError, System
from dragoman.exchange.fairseq.fairseq_import import import_fairseq
from dragoman.exchange.fairseq.fairseq_wav2vec import MAPS
from dragoman.exchange.importing import import_model
from dragoman.exchange.unpickling import read_checkpoint
from dragoman.shared.systems.encoder_system import EncoderSystem
from tests.small import refuses

FIXTURES = Path(__file__).parents[3] / "parity" / "fairseq_speech"
AGGREGATOR = "feature_aggregator.conv_layers.1"


def changed(folder: Path, change, case: str = "wav2vec_2019") -> Path:
    """Write a fixture's checkpoint after a change to what it holds."""
    content = read_checkpoint(FIXTURES / case / "checkpoint.pt")
    content["model"] = {name: tensor.clone() for name, tensor in content["model"].items()}
    change(content)
    torch.save(content, folder / "them.pt")
    return folder / "them.pt"


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("sample_rate", 8000, "sample_rate = 8000 has no counterpart here"),
        ("normalize", True, "normalize = True has no counterpart here"),
        ("activation", "gelu", "activation = 'gelu' has no counterpart here"),
        ("skip_connections_feat", True, "skip_connections_feat = True has no counterpart here"),
        ("non_affine_group_norm", True, "non_affine_group_norm = True has no counterpart here"),
        ("vq_type", "gumbel", "vq_type = 'gumbel' has no counterpart here"),
        ("aggregator", "gru", "aggregator = 'gru' has no counterpart here"),
        ("agg_zero_pad", True, "agg_zero_pad = True has no counterpart here"),
        ("no_conv_bias", True, "no_conv_bias = True has no counterpart here"),
        ("project_features", "new", "project_features = 'new' has no counterpart here"),
        ("residual_scale", 0, "do not fit together ./frontend/aggregator/residual_scale: must be above 0, not 0.0"),
        ("conv_feature_layers", None, "its settings do not say conv_feature_layers"),
        ("conv_feature_layers", "open('x')", r"conv_feature_layers \"open\('x'\)\" is not a list of convolutions"),
        ("conv_feature_layers", "[(14, 10)]", r"fit together .convolutions must be \[channels, kernel, stride\]"),
        ("conv_aggregator_layers", "[(14, 2, 1), (12, 3, 1)]", "conv_aggregator_layers .*only .* with the 14 channels"),
        ("conv_aggregator_layers", "[(14, 2, 2)]", "conv_aggregator_layers .* and stride 1"),
        ("conv_aggregator_layers", "[(14, 2, 1)]", r"layers\.1\.1\.weight is unexpected"),
        ("conv_aggregator_layers", "[(14, 2, 1), (14, 3, 1), (14, 7, 1)]", r"\(14, 14, 6\) instead of \(14, 14, 7\)"),
    ],
)
def test_what_has_no_counterpart_is_named(tmp_path, setting, value, message):
    path = changed(tmp_path, lambda content: content["args"].update({setting: value}))
    refuses(DataError, rf"them\.pt: .*{message}", lambda: import_fairseq(path)[1].check())


@pytest.mark.parametrize("name", [f"{AGGREGATOR}.1.bias", f"{MAPS}.weight"])
def test_a_tensor_that_is_missing_is_named(tmp_path, name):
    path = changed(tmp_path, lambda content: content["model"].pop(name))
    with pytest.raises(DataError, match=r"(layers\.1\.convolution\.bias|maps\.weight) is missing"):
        import_model(path, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_quantised_one_is_refused_by_its_setting_not_by_its_tensors(tmp_path):
    def quantised(content):
        content["args"]["vq_type"] = "kmeans"
        content["model"]["vector_quantizer.embedding"] = torch.zeros(4, 2, 7)

    refuses(DataError, "vq_type = 'kmeans' has no counterpart here", import_fairseq, changed(tmp_path, quantised))


def test_what_is_not_said_is_what_fairseq_takes(tmp_path):
    names = ("residual_scale", "log_compression", "skip_connections_agg", "aggregator", "vq_type", "prediction_steps")

    def without(content):
        for name in names:
            del content["args"][name]

    front = import_fairseq(changed(tmp_path, without))[0].model.frontend
    assert (front.log_compression, front.aggregator.skip, front.aggregator.scale**2) == (True, True, pytest.approx(0.5))
    front = import_fairseq(FIXTURES / "wav2vec_scaled")[0].model.frontend
    found = (front.log_compression, front.aggregator.skip, front.aggregator.scale**2)
    assert found == (False, True, pytest.approx(0.3))
    assert not import_fairseq(FIXTURES / "wav2vec_plain")[0].model.frontend.aggregator.skip


def test_the_maps_of_the_steps_share_fairseqs_summand():
    model = import_fairseq(FIXTURES / "wav2vec_2019")[0].model
    theirs = read_checkpoint(FIXTURES / "wav2vec_2019" / "checkpoint.pt")["model"]
    x = torch.randn(2, 14, 6, generator=torch.Generator().manual_seed(1))  # (B, C, S)
    weight, bias = theirs[f"{MAPS}.weight"], theirs[f"{MAPS}.bias"]
    expected = torch.nn.functional.conv_transpose2d(x[..., None], weight, bias).permute(0, 2, 3, 1)
    torch.testing.assert_close(model.predictions(x.transpose(1, 2)), expected)


def test_the_command_imports_an_encoder_that_writes_nothing(dragoman, tmp_path):
    source, out = FIXTURES / "wav2vec_2019" / "checkpoint.pt", tmp_path / "model"
    code, said, messages = dragoman("import", source, "--out", out)
    assert code == 0, messages
    counts = "35 tensors loaded, 0 missing, 0 unexpected, 0 reshaped"
    assert counts in said
    system = EncoderSystem.load(out)
    assert system.origin == [f"imported from checkpoint.pt (fairseq, arch wav2vec): {counts}"]
    refuses(DataError, "this model is an encoder, which writes nothing", System.load, out)
