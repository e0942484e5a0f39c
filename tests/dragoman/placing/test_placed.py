"""Models larger than a device: what stands where by hand, and outputs as without it while weights come and go."""

import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from typer.testing import CliRunner

import dragoman
from dragoman import DataError, UsageError
from dragoman.cli.main import app
from dragoman.placing.budgets import memory_budgets
from dragoman.shared.batch import Batch
from dragoman.shared.nn.transformer import fresh
from dragoman.shared.padded import Padded
from dragoman.shared.systems.combining import load_combined
from tests import small
from tests.small import refuses

pytest.importorskip("accelerate")
from dragoman.placing.placed import FOLDER, _Place, layers_of, plan, rest_of, size_of_all  # noqa: E402

TEXTS = ["one two", "eight seven", "five five", "six three"]
#: Of the golden system, whose rest is 85.4 KB, a layer of the encoder 22.1 KB and one of the decoder 31.7 KB.
BOTH, NONE = "cpu=140KB", "cpu=118KB"
LAYERS = {"e0": 10, "e1": 10, "d0": 20, "d1": 20}


def test_sizes_are_read():
    assert memory_budgets("0=20GB, cuda:1=1.5 GB,cpu=3KB") == {"cuda:0": 20 * 2**30, "cuda:1": 3 * 2**29, "cpu": 3072}
    for wrong in ("", "20GB", "0=20", "gpu=2GB", "0=-1GB", "cpu=1GB,", "0=1e3GB"):
        refuses(UsageError, "is no DEVICE=SIZE", memory_budgets, wrong)
    refuses(UsageError, "cuda:0 is named twice", memory_budgets, "0=1GB,cuda=2GB")


@pytest.mark.parametrize(
    "budgets, places",
    [
        ({"cuda:0": 65}, ["cuda:0"] * 4),
        ({"cuda:0": 64}, [FOLDER, "cuda:0", FOLDER, "cuda:0"]),  # 5 rest, 20 for what comes: 39 left, the last first
        ({"cuda:0": 45, "cpu": 30}, [FOLDER, "cpu", "cpu", "cuda:0"]),
        ({"cuda:0": 45, "cpu": 100}, ["cpu", "cpu", "cpu", "cuda:0"]),
        ({"cuda:0": 25, "cuda:1": 45}, ["cuda:1", "cuda:1", "cuda:1", "cuda:0"]),  # nothing comes: no room is kept
        ({"cuda:0": 25, "cuda:1": 20, "cpu": 20}, [FOLDER, FOLDER, "cpu", "cuda:1"]),
    ],
)
def test_layers_are_placed_whole_and_the_last_ones_first(budgets, places):
    assert [*plan(LAYERS, 5, budgets, "cuda:0").values()] == places


def test_what_cannot_be_placed_is_refused():
    refuses(UsageError, "cuda:0 has 24 B|24.0 B, and needs 25.0 B", plan, LAYERS, 5, {"cuda:0": 24}, "cuda:0")
    refuses(UsageError, "names cpu, and not cuda:0, on which", plan, LAYERS, 5, {"cpu": 99}, "cuda:0")


def test_invented_devices_hold_a_model_without_memory():
    """As wide as NLLB 3.3B, whose vectors are shared by both sides and the projection, and count once."""
    with torch.device("meta"):
        model = small.translator(256206, layers=2, seed=None, sizes={"width": 2048, "heads": 16, "feedforward": 8192})
    layers = layers_of(model)
    sizes = {name: size_of_all([layer]) for name, layer in layers.items()}
    assert [*sizes] == [f"{side}.layers.{number}" for side in ("encoder", "decoder") for number in range(2)]
    assert rest_of(model, layers) + sum(sizes.values()) == 4 * sum(p.numel() for p in model.parameters())
    assert rest_of(model, layers) >= 4 * 256206 * 2048


def shown(found):
    return [[(one.tokens, pytest.approx(one.score, abs=1e-5)) for one in row] for row in found]


@pytest.mark.parametrize("memory, away", [(BOTH, []), (NONE, ["encoder", "decoder"])])
def test_outputs_are_as_without_it_while_layers_stay_in_the_folder(memory, away):
    expected = load_combined(small.GOLDEN).hypotheses(TEXTS, n_best=3)
    system = dragoman.load(small.GOLDEN, device="cpu", memory=memory)

    def in_folder():
        return [
            side for side in ("encoder", "decoder") if next(getattr(system.model, side).layers.parameters()).is_meta
        ]

    assert in_folder() == away
    assert shown(system.hypotheses(TEXTS, n_best=3)) == shown(expected)
    assert in_folder() == away and system.device.type == "cpu"
    refuses(UsageError, "loaded for autocast, int8 or by memory", system.save, "somewhere")


def test_some_layers_stay_and_others_come_and_go(tmp_path):
    """Two layers of the decoder have room beside one that comes: those of the encoder do not."""
    tokenizer = dragoman.System.load(small.GOLDEN).output.tokenizer
    plain = small.system(tokenizer, small.translator(tokenizer, layers=2)).eval()
    plain.save(tmp_path / "model")
    layers = layers_of(plain)
    sizes = [size_of_all([layer]) for layer in layers.values()]
    budget = -(-(rest_of(plain, layers) + sizes[-1] * 3) // 1024)
    placed = dragoman.load(tmp_path / "model", device="cpu", memory=f"cpu={budget}KB")
    assert [next(layer.parameters()).is_meta for layer in layers_of(placed).values()] == [True, True, False, False]
    search = dragoman.BeamSearch(beam=3, rules=dragoman.Rules(maximum_length_extra=6))
    assert shown(placed.hypotheses(TEXTS, search=search)) == shown(plain.hypotheses(TEXTS, search=search))


def test_half_precision_is_as_without_it():
    def half(memory=None):
        system = dragoman.load(small.GOLDEN, device="cpu", precision="bf16", memory=memory)
        with system.autocast():
            return shown([[one] for one, *_ in system.hypotheses(TEXTS)])

    assert [[t for t, _ in row] for row in half("cpu=103KB")] == [[t for t, _ in row] for row in half()]


def test_weights_go_after_an_error_and_come_again(monkeypatch):
    system = dragoman.load(small.GOLDEN, device="cpu", memory=NONE)
    layer = system.model.decoder.layers[0]
    with monkeypatch.context() as patch:
        patch.setattr(layer.inner, "forward", lambda x: 1 / 0)
        refuses(ZeroDivisionError, "division", system.translate, TEXTS)
    assert all(parameter.is_meta for parameter in layer.parameters())
    assert system.translate(TEXTS) == load_combined(small.GOLDEN).translate(TEXTS)


def test_shared_layers_stay_where_the_model_computes():
    model = small.translator(20, layers=2)
    model.encoder.layers[1].inner.weight = model.encoder.layers[0].inner.weight
    model.decoder.layers[0].outer.read_outside = True
    assert [*layers_of(model)] == ["decoder.layers.1"]


def test_states_cross_between_cards():
    """Tensors without values that know a device: what meets another's is an error."""
    home = torch.device("cuda:0")
    with FakeTensorMode(), torch.no_grad():
        with home:
            model = small.translator(20, layers=2).eval()
        for stack in (model.encoder, model.decoder):
            with torch.device("cuda:1"):
                stack.layers[0] = fresh(stack.layers[0]).eval()
            _Place(stack.layers[0], "cuda:1", None)
        ones = torch.ones(3, 4, dtype=torch.int64, device=home)
        encoding = model.encode(Batch({"source": Padded(ones, ones[:, 0])}))
        state = model.start(encoding, None).fork(2)
        for rows in (6, 4):
            logits, state = model.step(torch.ones(6, dtype=torch.int64, device=home), state)
            state = state.reorder(torch.arange(rows, device=home))
        assert logits.device == home
        assert [str(cache.memories["source"].keys.device) for cache in state.caches] == ["cuda:1", "cuda:0"]


PEAK = """
import sys, dragoman
from dragoman import GreedySearch, Rules
from dragoman.shared.systems.combining import load_combined
def kilobytes(name):
    return int(open("/proc/self/status").read().split(name + ":")[1].split()[0])
dragoman.load(sys.argv[2], device="cpu", memory="cpu=1GB").translate("one two")
open("/proc/self/clear_refs", "w").write("5")
before = kilobytes("VmRSS")
system = dragoman.load(sys.argv[1], device="cpu", memory=sys.argv[3])
system.translate("one two", search=GreedySearch(rules=Rules(maximum_length_extra=3)))
print((kilobytes("VmHWM") - before) * 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks of memory are read as Linux tells them")
def test_a_process_takes_less_memory_than_the_weights(tmp_path):
    tokenizer = dragoman.System.load(small.GOLDEN).output.tokenizer
    model = small.translator(tokenizer, layers=4, sizes={"width": 512, "heads": 4, "feedforward": 2048})
    small.system(tokenizer, model).eval().save(tmp_path / "model")
    weights = (tmp_path / "model" / "model.safetensors").stat().st_size

    def peak(memory):
        words = [sys.executable, "-c", PEAK, str(tmp_path / "model"), str(small.GOLDEN), memory]
        return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)

    some, all_of_it = peak("cpu=40MB"), peak("cpu=1GB")
    print(
        f"weights {weights / 2**20:.0f} MB, peak {some / 2**20:.0f} MB with 40 MB, {all_of_it / 2**20:.0f} MB with all"
    )
    assert some < 0.6 * weights
    assert all_of_it > 0.9 * weights  # or the first says nothing


def test_the_command_and_what_it_refuses(monkeypatch):
    def told(*words):
        result = CliRunner().invoke(app, ["translate", str(small.GOLDEN), "--device", "cpu", *words], input="one two\n")
        return result.stdout.strip() if result.exception is None else str(result.exception)

    assert told("--memory", NONE) == told() != ""
    assert "native engine, not ctranslate2" in told("--memory", NONE, "--engine", "ctranslate2")
    assert "no precision int8" in told("--memory", NONE, "--precision", "int8")
    assert "without ensemble" in told("--memory", NONE, "--ensemble", str(small.GOLDEN))
    assert "there is no GPU 97" in told("--memory", "cpu=1GB,97=1GB")
    refuses(DataError, "nothing is there", dragoman.load, "nowhere", device="cpu", memory=NONE)
    monkeypatch.setattr("dragoman.shared.machine.extras.find_spec", lambda name: find_spec(name + "_missing"))
    assert "pip install 'dragoman[offload]'" in told("--memory", NONE)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "one process" in told("--memory", NONE)
