"""The counter of launches, bytes and operations, and the device that is not there: hand values, torch's own engine."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from benchmarks.fake_cuda import FakeCuda, OnCuda, TwoDevicesError, UnknownValueError
from benchmarks.launches import KNOWN, RESULTS, WAITS, Counter, main
from benchmarks.operators import over_many
from dragoman.exchange.huggingface.log_mel import LogMel
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.nn.fbank import Fbank
from dragoman.shared.objectives.cross_entropy import label_smoothed_cross_entropy
from dragoman.shared.padded import Padded
from dragoman.shared.training.optimizer import Adam, clip_gradient, set_learning_rate, step_if_finite
from tests.small import slow_but

VALUES = pytest.mark.parametrize("values", [True, False], ids=["with values", "without"])


def counted(values: bool) -> tuple[Counter, FakeCuda]:
    counter = Counter()
    return counter, FakeCuda(values=values, observer=counter.see)


# -- hand values -----------------------------------------------------------------------------------------------------


@VALUES
def test_a_linear_map_forward_and_backward_by_hand(values):
    """6 rows, 4 inputs, 3 outputs, fp32: x is 96 bytes, the matrix 48, the bias 12, the output 72."""
    counter, gpu = counted(values)
    with gpu:
        layer = nn.Linear(4, 3).to("cuda")
        x = torch.randn(6, 4, device="cuda", requires_grad=True)
        gradient = torch.randn(6, 3, device="cuda")
        counter.groups.clear()
        layer(x).backward(gradient)
    assert counter.groups.keys() == {"products", "sums"}
    products, sums = counter.groups["products"], counter.groups["sums"]
    forward, of_x, of_weight = 96 + 48 + 12 + 72, 72 + 48 + 96, 72 + 96 + 48
    assert (products.launches, products.bytes, products.flop) == (3, forward + of_x + of_weight, 3 * 2 * 6 * 4 * 3)
    assert (sums.launches, sums.bytes, sums.flop) == (1, 72 + 12, 0)


def test_autocast_copies_a_matrix_once_and_its_input_each_time():
    counter, gpu = counted(False)
    with gpu:
        layer = nn.Linear(8, 8, bias=False).to("cuda")
        counter.groups.clear()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            for _ in range(3):
                layer(torch.empty(2, 8, device="cuda"))
    casts = counter.groups["casts"]
    assert (casts.launches, casts.bytes) == (4, 64 * (4 + 2) + 3 * 16 * (4 + 2))
    bytes = 3 * (2 * 64 + 2 * 16 + 2 * 16)
    assert counter.groups["products"].seconds == pytest.approx(bytes / 3.35e12)  # far from the peak of operations


def test_views_launch_nothing_and_repeated_elements_are_read_once():
    counter, gpu = counted(False)
    with gpu:
        x = torch.zeros(5, 1, 6, device="cuda").expand(5, 7, 6)
        counter.groups.clear()
        y = x.transpose(0, 1)[1:].detach().unsqueeze(0).view(6, 5, 6)
        assert counter.groups == {}
        y.contiguous()
        assert counter.groups["copies"].bytes == 4 * (30 + 180)
        torch.zeros(1000, 8, device="cuda").index_select(0, torch.zeros(2, dtype=torch.int64, device="cuda"))
    assert counter.groups["look-ups"].bytes == 2 * 8 * 4 * 2 + 2 * 8


def test_kernels_over_many_tensors_by_hand():
    """At most 110 tensors of a list, 36 of four lists, 320 chunks of 65,536 elements each."""
    small, large = torch.empty(10, device="meta"), torch.empty(65536 * 321, device="meta")
    assert over_many([small] * 110, 1) == 1 and over_many([small] * 111, 1) == 2 and over_many([small] * 73, 4) == 3
    assert over_many([large], 1) == 2 and over_many([large] * 3, 1) == 4 and over_many([], 1) == 0


def test_attention_is_flash_without_a_mask_and_memory_efficient_with_one():
    names: list[str] = []
    with FakeCuda(values=False, observer=lambda func, *_: names.append(str(func))):
        torch.backends.cuda.enable_cudnn_sdp(False)
        heads = [torch.empty(2, 4, 10, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
        F.scaled_dot_product_attention(*heads, is_causal=True).sum().backward()
        assert sum("flash_attention" in name for name in names) == 2
        names.clear()
        mask = torch.ones(2, 1, 1, 10, dtype=torch.bool, device="cuda")
        F.scaled_dot_product_attention(*heads, attn_mask=mask).sum().backward()
    assert sum("efficient_attention" in name for name in names) == 2
    assert names.index("aten.constant_pad_nd.default") < len(names)  # rows of ten numbers are made rows of sixteen


# -- the device ------------------------------------------------------------------------------------------------------


class Net(nn.Module):
    """A matrix that is used twice, a checkpoint, a hook, a function of our own, gradients that meet."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.inner = nn.Linear(8, 8)
        self.output = nn.Linear(8, 11)
        self.output.weight = self.table.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.table(tokens)
        x.register_hook(lambda gradient: 0.5 * gradient)
        x = x + checkpoint(lambda y: self.inner(y).relu(), x, use_reentrant=False) * x
        return label_smoothed_cross_entropy(
            x.flatten(0, 1), self.output, tokens.flatten(), label_smoothing=0.1, chunk=33
        ).loss


def test_a_backward_pass_has_the_gradients_of_torchs_engine():
    tokens = torch.randint(0, 11, (3, 5))
    torch.manual_seed(1)
    there, here = Net(), Net()
    here.load_state_dict(there.state_dict())
    here(tokens).backward()
    with FakeCuda(values=True):
        there.to("cuda")
        assert there.output.weight is there.table.weight and isinstance(there.inner.bias, OnCuda)
        loss = there(tokens.to("cuda"))
        loss.backward()
        torch.testing.assert_close(loss.cpu(), here(tokens))
        for (name, found), expected in zip(there.named_parameters(), here.parameters(), strict=True):
            torch.testing.assert_close(found.grad.cpu(), expected.grad, msg=name)
        [again] = torch.autograd.grad(there(tokens.to("cuda")), [there.inner.bias])
        torch.testing.assert_close(again.cpu(), here.inner.bias.grad)
    here(tokens).backward()  # torch's engine is in its place again
    assert not torch.cuda.is_available() or torch.cuda.device_count()


def test_views_of_parameters_in_inference_mode_and_losses_of_alignments_work():
    scores = torch.randn(6, 2, 5).log_softmax(-1)
    given = torch.tensor([[1, 2, 0], [3, 1, 2]]), torch.tensor([6, 5]), torch.tensor([2, 3])
    expected = F.ctc_loss(scores, *given, reduction="none")
    with FakeCuda(values=True) as gpu:
        parameter = nn.Parameter(torch.ones(4, 2, device="cuda"))
        with torch.inference_mode():
            assert (parameter[1:].to(torch.float32) + 1).sum().item() == 12
        found = F.ctc_loss(scores.to("cuda"), *(x.to("cuda") for x in given), reduction="none")
        assert "aten._ctc_loss.Tensor" in gpu.waits  # lengths are read on the CPU
        torch.testing.assert_close(found.cpu(), expected)


def test_the_loss_adds_products_to_the_gradient_of_its_matrix_without_a_copy():
    """Three chunks of rows, in bf16; the loss of all rows at once, in fp32."""
    draw = torch.Generator().manual_seed(0)
    states, labels = torch.randn(12, 16, generator=draw), torch.randint(0, 9, (12,), generator=draw)
    layer = nn.Linear(16, 9)
    logits = layer(states)
    (expected,) = torch.autograd.grad(F.cross_entropy(logits, labels, reduction="sum"), [layer.weight])
    seen: list[str] = []
    with FakeCuda(values=True, observer=lambda func, *_: seen.append(str(func))):
        layer.to("cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = label_smoothed_cross_entropy(states.to("cuda"), layer, labels.to("cuda"), chunk=4 * 9).loss
        loss.backward()
        found = layer.weight.grad.cpu()
    assert seen.count("aten.addmm.dtype_out") == 3
    assert (found - expected).norm() < 0.02 * expected.norm()


@pytest.mark.parametrize("maximum", [0.0, 0.5, 1e9], ids=["not clipped", "clipped", "short enough"])
def test_the_fused_optimiser_clips_as_one_does_before_it(maximum):
    """Adam is told what to divide by; the gradient is multiplied beforehand on the CPU."""
    torch.manual_seed(1)
    given = [torch.randn(3, 4), torch.randn(4)]
    gradients = [[torch.randn(3, 4), torch.randn(4)] for _ in range(3)]
    seen: list[str] = []

    def updated(device: str) -> list[torch.Tensor]:
        holder = nn.ParameterList([nn.Parameter(x.clone().to(device)) for x in given])
        optimizer = Adam(weight_decay=0.1).build(holder)
        for step, some in enumerate(gradients):
            set_learning_rate(optimizer, 0.1)
            for parameter, gradient in zip(holder, some, strict=True):
                parameter.grad = gradient.to(device) * (torch.nan if step == 1 else 1)
            norm = clip_gradient(optimizer, maximum)
            assert step_if_finite(optimizer, norm).item() == (step == 1)
            assert step == 1 or norm.item() == pytest.approx(torch.cat([x.flatten() for x in some]).norm().item())
        return [parameter.detach().cpu() for parameter in holder]

    expected = updated("cpu")
    with FakeCuda(values=True, observer=lambda func, *_: seen.append(str(func))):
        found = updated("cuda")
    torch.testing.assert_close(found, expected)
    assert not any("_foreach_mul" in name for name in seen)


@pytest.mark.parametrize("projected", [0, 3])
def test_an_lstm_has_the_outputs_and_gradients_of_the_cpu(projected):
    torch.manual_seed(1)
    layer = nn.LSTM(5, 4, batch_first=True, proj_size=projected, bidirectional=True)
    x = torch.randn(3, 6, 5)
    packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([6, 4, 1]), batch_first=True)
    expected = layer(packed)[0].data
    expected.square().sum().backward()
    gradients = [parameter.grad.clone() for parameter in layer.parameters()]
    with FakeCuda(values=True):
        layer.zero_grad()
        layer.to("cuda")
        packed = nn.utils.rnn.pack_padded_sequence(x.to("cuda"), torch.tensor([6, 4, 1]), batch_first=True)
        found = layer(packed)[0].data
        found.square().sum().backward()
        torch.testing.assert_close(found.cpu(), expected)
        for parameter, gradient in zip(layer.parameters(), gradients, strict=True):
            torch.testing.assert_close(parameter.grad.cpu(), gradient)


def test_autocast_reaches_recurrent_layers_in_inference_mode():
    with FakeCuda(values=True), torch.inference_mode(), torch.autocast("cuda", dtype=torch.bfloat16):
        layer = nn.LSTM(5, 4, batch_first=True).to("cuda")
        x = nn.Linear(3, 5).to("cuda")(torch.ones(2, 6, 3, device="cuda"))
        outputs, state = layer(x)
        assert x.dtype == torch.bfloat16 and outputs.shape == (2, 6, 4)
        assert layer(x[:, :1], state)[1][0].shape == state[0].shape == (1, 2, 4)


def test_tensors_of_two_devices_are_refused_and_numbers_are_not():
    with FakeCuda(values=True):
        x = torch.ones(3, 4, device="cuda")
        assert (x + torch.tensor(2.0)).sum().item() == 36
        assert x[torch.tensor([0, 2])].shape == (2, 4)
        with pytest.raises(TwoDevicesError, match=r"aten.add.Tensor.*\(3, 4\) cuda, \(4,\) cpu"):
            x + torch.ones(4)
        with pytest.raises(TwoDevicesError, match=r"aten.index.Tensor"):
            torch.ones(3)[torch.tensor([1], device="cuda")]
        with pytest.raises(TwoDevicesError, match=r"aten.where"):
            torch.where(x > 0, torch.ones(3, 4), x)


def test_what_the_host_waits_for_is_known_and_needs_values():
    with FakeCuda(values=True) as gpu:
        x = torch.arange(4, device="cuda")
        assert not gpu.waits
        x.max().item(), x.nonzero(), x[x > 2], x.tolist(), x.cpu(), torch.zeros(4, dtype=torch.int64).copy_(x)
    copied = ["aten._to_copy.default"] * 2 + ["aten.copy_.default"]
    assert gpu.waits == ["aten._local_scalar_dense.default", "aten.nonzero.default", "aten.index.Tensor", *copied]
    with FakeCuda(values=False), pytest.raises(UnknownValueError, match="aten._local_scalar_dense"):
        torch.ones(3, device="cuda").sum().item()


def test_a_machine_is_believed_to_have_the_device(tmp_path):
    with FakeCuda(values=False):
        place = Workspace(tmp_path, compile=False)
    assert place.device == "cuda:0" and place.precision == "bf16"


@pytest.mark.parametrize("features", [Fbank(), LogMel(seconds=1.0)], ids=["fbank", "log mel"])
def test_what_features_keep_for_a_device_goes_with_it(features):
    waveform = Padded(torch.randn(1, 8000) / 9, torch.tensor([8000]))
    expected = features(waveform).values
    for _ in range(2):
        with FakeCuda(values=True):
            values = features(Padded(waveform.values.to("cuda"), waveform.lengths.to("cuda"))).values
            torch.testing.assert_close(values.cpu(), expected)


# -- figures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", slow_but(["gpu_text_big", "search"], KNOWN))
def test_an_update_or_a_step_costs_what_is_committed(name):
    """Fewer launches or bytes are welcome: commit them, by the command that the message names."""
    committed = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["total"]
    counter, waits = KNOWN[name]()
    assert waits <= WAITS.get(name, set()), "a new wait for the device"
    total = counter.total()
    again = f"python -m benchmarks.launches {name} --json {RESULTS}"
    assert total.launches == pytest.approx(committed["launches"], rel=0.1), again
    assert total.bytes / 1e6 == pytest.approx(committed["megabytes"], rel=0.1), again
    assert total.flop / 1e9 == pytest.approx(committed["gflop"], rel=0.1), again


def test_the_command_prints_a_table_and_writes_json(tmp_path, monkeypatch, capsys):
    counter = Counter()
    with FakeCuda(values=False, observer=counter.see):
        torch.empty(1000, 1000, device="cuda") @ torch.empty(1000, 1000, device="cuda")
    monkeypatch.setitem(KNOWN, "search", lambda: (counter, {"aten.nonzero.default"}))
    monkeypatch.setattr("sys.argv", ["launches", "search", "--json", str(tmp_path)])
    main()
    said = capsys.readouterr().out
    assert "| products | 1 | 12.0 | 2.0 | 0.03 |" in said and "it waits for aten.nonzero.default" in said
    assert json.loads((tmp_path / "search.json").read_text())["total"]["gflop"] == 2.0
