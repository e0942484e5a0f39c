"""Waveform embeddings and encoders: each row of a padded batch against torchaudio's wav2vec 2.0 on that row alone."""

import pytest
import torch
from torch import Tensor, nn
from torchaudio.models import wav2vec2_model

from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.spans import SpanMasking
from dragoman.shared.nn.transformer import Encoder
from dragoman.shared.nn.waveform import (
    ConvolutionalPositions,
    WaveformConvolutions,
    WaveformEmbedding,
    WaveformEncoder,
    WaveformNorm,
)
from dragoman.shared.padded import Padded
from tests.small import refuses

CONVOLUTIONS = [[14, 10, 5], [10, 3, 2], [10, 3, 2], [7, 2, 2]]
LENGTHS = (1999, 3000, 107, 600)


def torchaudios(large: bool, kernel: int = 6) -> nn.Module:
    torch.manual_seed(1)
    model = wav2vec2_model(
        extractor_mode="layer_norm" if large else "group_norm",
        extractor_conv_layer_config=[tuple(size) for size in CONVOLUTIONS],
        extractor_conv_bias=large,
        encoder_embed_dim=18,
        encoder_projection_dropout=0.0,
        encoder_pos_conv_kernel=kernel,
        encoder_pos_conv_groups=3,
        encoder_num_layers=2,
        encoder_num_heads=3,
        encoder_attention_dropout=0.0,
        encoder_ff_interm_features=22,
        encoder_ff_interm_dropout=0.0,
        encoder_dropout=0.0,
        encoder_layer_norm_first=large,
        encoder_layer_drop=0.0,
        aux_num_out=None,
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def encoder(large: bool, kernel: int = 6, **convolutions) -> WaveformEncoder:
    return WaveformEncoder(
        embedding=WaveformEmbedding(
            convolutions=WaveformConvolutions(convolutions=CONVOLUTIONS, bias=large, norm_each=large, **convolutions),
            positions=ConvolutionalPositions(width=18, kernel=kernel, groups=3),
            norm=not large,
            dropout=0.0,
        ),
        encoder=Encoder(
            layer=Layer(width=18, heads=3, feedforward=22, dropout=0.0, activation="gelu", pre_norm=large), layers=2
        ),
    )


def test_a_state_comes_every_hop() -> None:
    """By counting: a longer row has one state more for each hop."""
    model = encoder(large=True)
    rows = torch.arange(4000, 4000 + 9 * model.hop, model.hop)
    assert model.lengths(rows).diff().tolist() == [1] * 8


def ours_from(theirs: nn.Module, large: bool, kernel: int = 6, **convolutions) -> tuple[WaveformEncoder, dict]:
    """Return our model with their weights, and their parameters by our names."""
    ours = encoder(large, kernel, **convolutions)
    place = "encoder.transformer"
    pairs = {
        "embedding.frame_norm": "encoder.feature_projection.layer_norm",
        "embedding.projection": "encoder.feature_projection.projection",
        "embedding.positions.convolution": f"{place}.pos_conv_embed.conv",
        ("encoder.norm" if large else "embedding.norm"): f"{place}.layer_norm",
    }
    for i in range(len(CONVOLUTIONS)):
        pairs[f"embedding.convolutions.layers.{i}.convolution"] = f"feature_extractor.conv_layers.{i}.conv"
        pairs[f"embedding.convolutions.layers.{i}.norm"] = f"feature_extractor.conv_layers.{i}.layer_norm"
    for i in range(2):
        pairs |= {
            f"encoder.layers.{i}.self_attention.output": f"{place}.layers.{i}.attention.out_proj",
            f"encoder.layers.{i}.self_attention_norm": f"{place}.layers.{i}.layer_norm",
            f"encoder.layers.{i}.inner": f"{place}.layers.{i}.feed_forward.intermediate_dense",
            f"encoder.layers.{i}.outer": f"{place}.layers.{i}.feed_forward.output_dense",
            f"encoder.layers.{i}.feedforward_norm": f"{place}.layers.{i}.final_layer_norm",
        }
    given = dict(theirs.named_parameters())
    matched = {}
    for name, parameter in ours.named_parameters():
        if ".queries_keys_values." in name:
            layer, kind = name.split(".")[2], name.split(".")[-1]
            matched[name] = [f"{place}.layers.{layer}.attention.{part}_proj.{kind}" for part in "qkv"]
        else:
            here = next(here for here in pairs if name.startswith(here + "."))
            matched[name] = [pairs[here] + name[len(here) :]]
        with torch.no_grad():
            parameter.copy_(torch.cat([given[part] for part in matched[name]]))
    assert sorted(sum(matched.values(), [])) == sorted(given)
    return ours, {name: [given[part] for part in parts] for name, parts in matched.items()}


def waveforms(*lengths: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(2)
    return [torch.randn(length, generator=generator) * 0.3 + 0.1 for length in lengths]


@pytest.mark.parametrize("kernel", [6, 5])
@pytest.mark.parametrize("large", [False, True], ids=["base", "large"])
def test_states_and_gradients_of_a_batch_equal_those_of_single_rows(large: bool, kernel: int) -> None:
    theirs = torchaudios(large, kernel)
    ours, matched = ours_from(theirs, large, kernel)
    rows = waveforms(*LENGTHS)
    batch = Padded.from_sequences(rows, padding=7.0)  # what is padding must not matter
    states = ours.eval()(batch)
    assert states.lengths.tolist() == ours.lengths(batch.lengths).tolist()
    total = torch.zeros(())
    for row, state in zip(rows, states.rows(), strict=True):
        expected = theirs.eval()(row[None])[0][0]
        assert state.shape == expected.shape
        torch.testing.assert_close(state, expected, atol=1e-5, rtol=1e-5)
        total = total + (expected * torch.linspace(-1, 1, expected.numel()).view_as(expected)).sum()
    total.backward()
    sum((state * torch.linspace(-1, 1, state.numel()).view_as(state)).sum() for state in states.rows()).backward()
    for name, parameter in ours.named_parameters():
        expected = torch.cat([part.grad for part in matched[name]])
        torch.testing.assert_close(parameter.grad, expected, atol=1e-4, rtol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("large", [False, True], ids=["base", "large"])
def test_rows_shorter_than_a_frame_are_filled_up_with_silence(large: bool) -> None:
    theirs = torchaudios(large)
    ours, _ = ours_from(theirs, large)
    ours.eval()
    window = ours.embedding.convolutions.window
    assert window == 10 + 5 * (3 - 1) + 10 * (3 - 1) + 20 * (2 - 1)
    assert WaveformConvolutions().window == 400
    rows = [torch.empty(0), *waveforms(1, 3 * window)]
    for batch in (rows, rows[:2]):
        states = ours(Padded.from_sequences(batch))
        assert states.lengths[:2].tolist() == [1, 1]
        for row, state in zip(batch, states.rows(), strict=True):
            filled = nn.functional.pad(row, (0, max(0, window - len(row))))
            torch.testing.assert_close(state, theirs.eval()(filled[None])[0][0], atol=1e-5, rtol=1e-5)
    batch = Padded.from_sequences([torch.full((window - 1,), 0.5), torch.zeros(window + 19)])
    assert ours.lengths(batch.lengths).tolist() == [1, 1]


@pytest.mark.parametrize("large", [False, True], ids=["base", "large"])
def test_a_model_in_bfloat16_reads_waveforms_in_single_precision(large: bool) -> None:
    torch.manual_seed(0)
    model = encoder(large).eval()
    speech = Padded.from_sequences(waveforms(900, 700))
    with torch.no_grad():
        expected = model(speech)
        result = model.to(torch.bfloat16)(speech)
    assert result.values.dtype == torch.bfloat16 and torch.equal(result.lengths, expected.lengths)
    for ours, exact in zip(result.rows(), expected.rows(), strict=True):
        torch.testing.assert_close(ours.float(), exact, atol=0.1, rtol=0.1)


def test_what_is_not_a_number_stays_in_its_row() -> None:
    ours, _ = ours_from(torchaudios(False), False)
    ours.embedding.normalisation = WaveformNorm()
    rows = waveforms(600, 2000)
    clean = ours.eval()(Padded.from_sequences(rows)).rows()[0]
    rows[1][5] = torch.nan
    batch = Padded.from_sequences(rows, padding=torch.nan)
    states = ours(batch).rows()
    torch.testing.assert_close(states[0], clean)
    assert states[1].isnan().any()


def test_waveform_norm_is_that_of_each_row() -> None:
    rows = waveforms(500, 1, 77)
    for epsilon in (1e-5, 1e-3):
        normalised = WaveformNorm(epsilon=epsilon)(Padded.from_sequences(rows, padding=9.0))
        for row, ours in zip(rows, normalised.rows(), strict=True):
            torch.testing.assert_close(
                ours, nn.functional.layer_norm(row, row.shape, eps=epsilon), atol=1e-5, rtol=1e-4
            )
        assert normalised.values[1, 1:].abs().sum() == 0


def test_gradients_of_convolutions_are_scaled_or_none() -> None:
    gradients = {}
    for scale in (1.0, 0.25, 0.0):
        ours, _ = ours_from(torchaudios(False), False, gradient_scale=scale)
        ours(Padded.from_sequences(waveforms(900))).values.square().sum().backward()
        gradients[scale] = {name: parameter.grad for name, parameter in ours.named_parameters()}
        frozen = [name for name, parameter in ours.named_parameters() if not parameter.requires_grad]
        assert bool(frozen) == (scale == 0)
        assert all(name.startswith("embedding.convolutions.") for name in frozen)
    for name, gradient in gradients[1.0].items():
        inside = name.startswith("embedding.convolutions.")
        torch.testing.assert_close(gradients[0.25][name], gradient * (0.25 if inside else 1))
        if inside:
            assert gradients[0.0][name] is None
        else:
            torch.testing.assert_close(gradients[0.0][name], gradient)


def test_recomputing_changes_no_number_and_keeps_less() -> None:
    numbers = []
    for recompute in (False, True):
        ours, _ = ours_from(torchaudios(True), True, recompute=recompute)
        ours.encoder.recompute = recompute
        ours.embedding.dropout = 0.1
        for layer in ours.encoder.layers:
            layer.dropout = 0.1
        kept: dict[int, int] = {}

        def pack(tensor: Tensor, kept: dict[int, int] = kept) -> Tensor:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        torch.manual_seed(4)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss = ours(Padded.from_sequences(waveforms(3000, 2000))).values.square().sum()
        size = sum(kept.values())
        loss.backward()
        numbers.append((loss, [parameter.grad for parameter in ours.parameters()], size))
    torch.testing.assert_close(numbers[0][:2], numbers[1][:2])
    assert numbers[1][2] < numbers[0][2] / 2


def test_an_embedding_masks_the_frames_that_it_is_given() -> None:
    """Masked frames are the vector, whatever was heard there; without masking they cannot be masked."""
    torch.manual_seed(1)
    convolutions = WaveformConvolutions(convolutions=CONVOLUTIONS)
    positions = ConvolutionalPositions(width=18, kernel=6, groups=3)
    masking = SpanMasking(width=18, channel_probability=0.9)
    embedding = WaveformEmbedding(convolutions=convolutions, positions=positions, masking=masking).eval()
    frames = embedding.frames(Padded.from_sequences([torch.randn(1999), torch.randn(600)]))
    masked = torch.rand(frames.values.shape[:2]) < 0.5
    other = Padded(torch.where(masked[..., None], torch.randn_like(frames.values), frames.values), frames.lengths)
    embedded = embedding.embed(frames, masked)
    torch.testing.assert_close(embedding.embed(other, masked).values, embedded.values, atol=1e-6, rtol=1e-5)
    assert not torch.allclose(embedding.embed(frames).values, embedded.values)
    assert torch.equal(embedding.embed(frames).values, embedding.embed(frames, torch.zeros_like(masked)).values)
    bare = WaveformEmbedding(convolutions=convolutions, positions=positions).eval()
    refuses(ValueError, "cannot be masked", bare.embed, frames, masked)


@pytest.mark.parametrize(
    ("build", "value"),
    [
        (lambda: WaveformConvolutions(convolutions=[[3, 2]]), r"\[3, 2\]"),
        (lambda: ConvolutionalPositions(width=10, groups=3), "10 cannot be divided into 3 groups"),
        (lambda: embedding(projected=False), "512 channels"),
        (lambda: embedding(dropout=1.0), "1.0"),
        (lambda: embedding(masking=SpanMasking(width=5)), "5"),
    ],
)
def test_refuses(build, value) -> None:
    refuses(ValueError, value, build)


def embedding(**arguments) -> WaveformEmbedding:
    return WaveformEmbedding(
        convolutions=WaveformConvolutions(), positions=ConvolutionalPositions(width=16, groups=2), **arguments
    )


@pytest.mark.parametrize(
    ("large", "parameters"), [(False, 94_371_712), (True, 315_438_720)], ids=["base", "XLS-R 300M"]
)
def test_published_sizes(large: bool, parameters: int) -> None:
    width, heads, feedforward, layers = (1024, 16, 4096, 24) if large else (768, 12, 3072, 12)
    with torch.device("meta"):
        layer = Layer(width=width, heads=heads, feedforward=feedforward, activation="gelu", pre_norm=large)
        model = WaveformEncoder(
            embedding=WaveformEmbedding(
                convolutions=WaveformConvolutions(bias=large, norm_each=large),
                positions=ConvolutionalPositions(width=width),
                masking=SpanMasking(width=width),
                norm=not large,
            ),
            encoder=Encoder(layer=layer, layers=layers),
        )
    # of Wav2Vec2Model of transformers
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


def test_positions_begin_as_published():
    """Of wav2vec 2.0: a deviation of sqrt(4 / (kernel x width)), and no bias."""
    torch.manual_seed(0)
    positions = ConvolutionalPositions(width=64, kernel=32, groups=4)
    assert positions.convolution.weight.std().item() == pytest.approx((4 / (32 * 64)) ** 0.5, rel=0.02)
    assert not positions.convolution.bias.any() and (positions.width, positions.kernel) == (64, 32)
    plain = ConvolutionalPositions(width=32)
    assert plain.convolution.weight.shape == (32, 2, 128)
    x = Padded(torch.randn(2, 9, 64), torch.tensor([9, 4]))
    alone = Padded(x.values[1:, :4], torch.tensor([4]))
    torch.testing.assert_close(positions(x)[1, :4], positions(alone)[0])
    assert positions(x).shape == (2, 9, 64)
