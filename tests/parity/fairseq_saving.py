"""What both programs that make fixtures of fairseq share, inside its environment and without this project."""

from __future__ import annotations

from pathlib import Path

import torch
from fairseq.modules import TransformerEncoderLayer
from omegaconf import OmegaConf
from safetensors.torch import save_file


def work_on_current_torch() -> None:
    """Undo what keeps fairseq 0.12.2 from running on a torch that is years younger."""
    load = torch.load
    torch.load = lambda *given, **named: load(*given, **{"weights_only": False, **named})
    build = TransformerEncoderLayer.__init__

    def without_fast_path(self, *given, **named):
        build(self, *given, **named)
        self.can_use_fastpath = False

    TransformerEncoderLayer.__init__ = without_fast_path


def disturb(model: torch.nn.Module, size: float) -> None:
    """Leave nothing at 0 or 1, where mistakes hide; fairseq's padding vectors stay zero."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * size)
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
                module.weight[module.padding_idx] = 0


def save(path: Path, model, args, cfg, form: str) -> None:
    """Save as fairseq does: 0.10 and older ("args"), 0.12 ("cfg", plain), or with omegaconf's own objects."""
    history = [{"criterion_name": "C", "optimizer_name": "O", "lr_scheduler_state": {}, "num_updates": 1}]
    state = {"model": model.state_dict(), "optimizer_history": history, "extra_state": {"epoch": 1}}
    state["last_optimizer_state"] = None
    if form == "args":  # before torch 1.6, which wrote no zip archives
        torch.save({"args": args, **state}, path, _use_new_zipfile_serialization=False)
    else:
        held = cfg if form == "omegaconf" else OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
        torch.save({"args": None, "cfg": held, "task_state": {}, **state}, path)


def write(numbers: dict[str, torch.Tensor], model, path: Path) -> None:
    """Write numbers and gradients, these by fairseq's names; a shared matrix has one name."""
    numbers |= {f"gradient.{name}": p.grad for name, p in model.named_parameters() if p.grad is not None}
    save_file({name: value.detach().contiguous().clone() for name, value in numbers.items()}, path)
