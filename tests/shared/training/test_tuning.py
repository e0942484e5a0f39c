"""Letting a part learn: what stays as it was, what is saved, and that a model folder is an ordinary one."""

import sys

import pytest
import torch
from torch import nn

from dragoman import System, UsageError
from dragoman.shared.batches.loader import Loader
from dragoman.shared.machine import extras
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases.averaging import Average
from dragoman.shared.training import tuning
from dragoman.shared.training.checkpoints import Checkpoints, list_checkpoints
from dragoman.shared.training.optimizer import Adam
from dragoman.shared.training.tuning import LoRA, Selected
from tests.small import refuses

TARGETS = r".*\.decoder\..*(queries_keys_values|keys_values|outer)"


@pytest.fixture
def workspace(tmp_path):
    def make(name="run", phase="fit"):
        torch.manual_seed(0)
        return Workspace(output=tmp_path / name, device="cpu", phase=phase, noprogressbar=True, workers=0)

    return make


@pytest.fixture
def adapters():
    pytest.importorskip("peft")
    return lambda **options: Adam(tuning=LoRA(**({"targets": TARGETS, "rank": 3, "alpha": 6} | options)))


def states(module):
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def adapted(module):
    """Yield the maps that the library has wrapped, by the name that they had."""
    return {name: part for name, part in module.named_modules() if hasattr(part, "lora_A") and hasattr(part, "merge")}


def test_only_what_is_named_learns(world, workspace):
    fit = world.fit(optimizer=Adam(tuning=Selected(parameters=r".*\.encoder\..*norm\..*")), updates=4)
    before = states(fit.objective)
    place = workspace()
    fit.run(place)
    for name, tensor in states(fit.objective).items():
        assert torch.equal(tensor, before[name]) != (".encoder." in name and "norm." in name), name
    state = list_checkpoints(place.folder / "checkpoints")[-1].training()["optimizer"]["state"]
    assert len(state) == 6  # factors and summands of three norms


def test_adapters_learn_and_all_else_stays(world, workspace, adapters):
    fit = world.fit(optimizer=adapters(learn=r".*\.decoder\.norm\.bias"), updates=4)
    before = states(fit.objective)
    place = workspace()
    fit.run(place)
    after = states(fit.objective)
    changed = {name for name in after if name.replace(".base_layer.", ".") not in before} | {
        name for name in before if name in after and not torch.equal(before[name], after[name])
    }
    layer = "system.model.decoder.layers.0."
    maps = ("self_attention.queries_keys_values", "memory_attention.source.keys_values", "outer")
    matrices = {f"{layer}{name}.lora_{side}.default.weight" for name in maps for side in "AB"}
    assert changed == matrices | {"system.model.decoder.norm.bias"}
    assert {name for name, p in fit.objective.named_parameters() if p.requires_grad} == changed
    assert all(torch.equal(tensor, after.get(name, tensor)) for name, tensor in before.items() if name not in changed)
    for name in maps:
        assert torch.equal(after[f"{layer}{name}.base_layer.weight"], before[f"{layer}{name}.weight"])
        assert after[f"{layer}{name}.lora_B.default.weight"].abs().sum() > 0
    state = list_checkpoints(place.folder / "checkpoints")[-1].training()["optimizer"]["state"]
    assert len(state) == len(changed)


def test_what_learns_beside_adapters_is_named_as_it_was_before(world, adapters):
    """The library puts the maps that it adapts, biases and all, under another name."""
    objective = world.fit().objective
    adapters(learn=r".*\.decoder\..*\.outer\.bias").build(objective)
    learning = {name for name, parameter in objective.named_parameters() if parameter.requires_grad}
    assert {name for name in learning if "lora" not in name} == {"system.model.decoder.layers.0.outer.base_layer.bias"}


def test_the_first_update_begins_with_the_model_as_it_is(world, adapters):
    plain, other = world.fit().objective.eval(), world.fit().objective.eval()
    adapters(dropout=0.5).build(other)
    batch = next(Loader(streams=[world.stream()], seed=1).epoch(0))
    assert torch.equal(plain(batch).total(), other(batch).total())


def test_the_model_folder_is_a_plain_one_with_the_librarys_own_sums(world, workspace, adapters, monkeypatch):
    fit = world.fit(optimizer=adapters(), updates=12)
    before = states(fit.objective)
    fit.run(workspace())
    Average(fit=str(workspace().folder), checkpoints="last 1").run(workspace(phase="average"))
    live = fit.objective.system.eval()
    texts = ["1234", "777", "0905"]
    expected = [hypotheses[0] for hypotheses in live.hypotheses(texts)]
    for part in adapted(live).values():
        part.merge()
    monkeypatch.setitem(sys.modules, "peft", None)  # an import of it fails
    loaded = System.load(workspace(phase="average").folder / "model")
    theirs = {name.replace(".base_layer.", "."): tensor for name, tensor in states(live).items()}
    ours = states(loaded)
    assert ours.keys() == {name.removeprefix("system.") for name in before}
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, theirs[name], rtol=1e-6, atol=1e-6)
    assert sum(not torch.equal(tensor, before[f"system.{name}"]) for name, tensor in ours.items()) == 3
    for one, other in zip(loaded.hypotheses(texts), expected, strict=True):
        assert one[0].texts == other.texts and one[0].score == pytest.approx(other.score, abs=1e-4)


def test_sums_by_hand():
    """W + alpha / r B A, under the names that the maps had before they were adapted; no library is needed for it."""
    tensors = {
        "map.base_layer.weight": torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        "map.base_layer.bias": torch.tensor([7.0, 8.0, 9.0]),
        "map.lora_A.default.weight": torch.tensor([[1.0, -1.0]]),
        "map.lora_B.default.weight": torch.tensor([[1.0], [0.0], [2.0]]),
        "norm.weight": torch.tensor([1.0]),
    }
    plain = tuning.merged(tensors, scale=0.5)
    assert sorted(plain) == ["map.bias", "map.weight", "norm.weight"]
    assert plain["map.weight"].tolist() == [[1.5, 1.5], [3.0, 4.0], [6.0, 5.0]]
    assert plain["map.bias"].tolist() == [7.0, 8.0, 9.0]


def test_an_average_is_that_of_the_sums_not_of_the_matrices(world, workspace, adapters):
    settings = Checkpoints(keep="last 3", every=4)
    world.fit(optimizer=adapters(), updates=12, checkpoints=settings).run(workspace())
    Average(fit=str(workspace().folder), checkpoints="last 3").run(workspace(phase="average"))
    name = "model.decoder.layers.0.outer"
    wanted = torch.zeros(16, 32)
    for checkpoint in list_checkpoints(workspace().folder / "checkpoints"):
        tensors = checkpoint.tensors()
        down, up = (tensors[f"system.{name}.lora_{side}.default.weight"] for side in "AB")
        for o in range(16):
            for i in range(32):
                product = sum(float(up[o, r]) * float(down[r, i]) for r in range(3))
                wanted[o, i] += (float(tensors[f"system.{name}.base_layer.weight"][o, i]) + 6 / 3 * product) / 3
    found = System.load(workspace(phase="average").folder / "model").state_dict()[f"{name}.weight"]
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_what_does_not_exist_is_refused(world, adapters, monkeypatch):
    objective = world.fit().objective
    said = r"targets: '\.\*attentoin' matches the name of no linear map \(such are syst"
    refuses(UsageError, said, adapters(targets=".*attentoin").build, objective)
    refuses(UsageError, "learn: 'norms' matches the name of no parameter", adapters(learn="norms").build, objective)
    said = "parameters: 'inner' matches the name of no parameter"
    refuses(UsageError, said, Selected(parameters="inner").apply, objective)
    assert all(isinstance(part, nn.Linear) for name, part in objective.named_modules() if name.endswith("outer"))
    refuses(UsageError, r"targets '\(' is no regular expression", LoRA, targets="(")
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "bitsandbytes" else name)
    refuses(UsageError, r"bitsandbytes: pip install 'dragoman\[adam8bit\]'", LoRA, targets=".*", four_bit=True)
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    refuses(UsageError, r"peft: pip install 'dragoman\[adapters\]'", LoRA, targets=".*")


@pytest.fixture
def four_bits(adapters, monkeypatch):
    """An optimiser of adapters beside maps in 4 bits, here on a CPU, where the library computes them slowly."""
    pytest.importorskip("bitsandbytes")

    class Anywhere(LoRA):
        def apply(self, module):
            names = [name for name, part in module.named_modules() if isinstance(part, nn.Linear)]
            tuning.in_four_bits(module, [name for name in names if self.targets.fullmatch(name)])
            super().apply(module)

    return lambda: Adam(tuning=Anywhere(targets=TARGETS, rank=3, alpha=6))


def test_maps_in_four_bits_are_saved_as_what_these_stand_for(world, workspace, four_bits):
    import bitsandbytes

    fit = world.fit(optimizer=four_bits(), updates=12)
    before = states(fit.objective)
    place = workspace()
    fit.run(place)
    tensors = list_checkpoints(place.folder / "checkpoints")[-1].tensors()
    Average(fit=str(place.folder), checkpoints="last 1").run(workspace(phase="average"))
    found = System.load(workspace(phase="average").folder / "model").state_dict()
    for name in ("self_attention.queries_keys_values", "memory_attention.source.keys_values", "outer"):
        layer = f"model.decoder.layers.0.{name}"
        weight = before[f"system.{layer}.weight"]
        packed, state = bitsandbytes.functional.quantize_4bit(weight, compress_statistics=True, quant_type="nf4")
        rounded = bitsandbytes.functional.dequantize_4bit(packed, state)
        assert torch.equal(tensors[f"system.{layer}.base_layer.weight"], rounded) and not rounded.equal(weight)
        down, up = (tensors[f"system.{layer}.lora_{side}.default.weight"] for side in "AB")
        torch.testing.assert_close(found[f"{layer}.weight"], rounded + 6 / 3 * up @ down)
        assert up.abs().sum() > 0


@pytest.mark.parametrize("kind", ["adapters", "four_bits"])
def test_a_run_that_was_cut_goes_on_bit_for_bit(world, workspace, request, kind):
    make = request.getfixturevalue(kind)
    options = {"dropout": 0.1} if kind == "adapters" else {}

    def fit(name, updates, seed=0):
        fit = world.fit(optimizer=make(**options), dropout=0.2, updates=updates)
        place = workspace(name)
        torch.manual_seed(seed)
        fit.run(place)
        return states(fit.objective)

    wanted, _ = fit("whole", 12), fit("cut", 8)
    found = fit("cut", 12, seed=999)
    assert wanted.keys() == found.keys() and all(torch.equal(wanted[name], found[name]) for name in wanted)


def test_four_bits_are_for_a_gpu_and_for_the_same_matrices(world, four_bits):
    objective = world.fit().objective
    four_bit = Adam(tuning=LoRA(targets=TARGETS, four_bit=True))
    refuses(UsageError, "four_bit: 4-bit weights need a GPU, and this runs on cpu", four_bit.build, objective)
    four_bits().build(objective)
    tensors = states(objective)
    name = "system.model.decoder.layers.0.outer.base_layer.weight"
    tensors[name][0, 0] += 1
    refuses(RuntimeError, f"{name} is not what the 4 bits of this model stand for", objective.load_state_dict, tensors)
