"""A system that is put together of others: which of its parameters are whose, and what its folder says of that."""

import torch

from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.phases import Assemble
from dragoman.shared.systems.pretrained import load
from dragoman.shared.systems.system import System
from dragoman.shared.training.initialise import Initialise
from tests.small import GOLDEN


def test_parts_come_from_other_folders(tmp_path):
    trained = System.load(GOLDEN)
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.add_(1)
    trained.save(tmp_path / "trained")
    encoder = Initialise(folder=str(tmp_path / "trained"), parts={"model.encoder": "model.encoder"})
    phase = Assemble(system=load(folder=str(GOLDEN)), initialise=[encoder])
    phase.run(Workspace(output=tmp_path, device="cpu", phase="together"))
    found, before = System.load(tmp_path / "together" / "model"), System.load(GOLDEN).state_dict()
    for name, tensor in found.state_dict().items():
        other = trained.state_dict() if name.startswith("model.encoder.") else before
        assert torch.equal(tensor, other[name]), name
    assert f"of {tmp_path / 'trained'}" in found.origin[-1]
