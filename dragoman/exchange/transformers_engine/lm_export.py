"""Export of a language model that was imported and trained on, one that hears included: whole, or its adapter.

Whole, it is the folder that it was imported from with other weights. The adapter (Hu et al. 2022) is found in the
difference to these weights, because model folders hold the sums; averages of several checkpoints have higher ranks.

Legend: I what enters a linear map, O what leaves it, R rank.
"""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from dragoman.exchange.huggingface.hf_like import check_back, check_out, copied, differing
from dragoman.exchange.huggingface.hf_reading import CONFIG, Config
from dragoman.exchange.huggingface.hf_writing import write_weights
from dragoman.exchange.transformers_engine.causal import CausalModel
from dragoman.exchange.transformers_engine.library_folder import (
    opened,
    opened_tokenizer,
    plain,
    quiet,
    tokenizer_file,
)
from dragoman.shared.errors import UsageError, shown
from dragoman.shared.machine.extras import require
from dragoman.shared.machine.files import replaced_folder
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.systems.system import System

#: In what folder and by what names peft finds an adapter.
ADAPTER, PREFIX = "adapter_model.safetensors", "base_model.model."
#: The highest rank that is looked for, and the first one.
MOST, FIRST = 512, 8


def holds_language_model(model: str | Path) -> bool:
    """Tell whether a model folder holds a decoder-only language model of the library, by its description."""
    with torch.device("meta"):
        return isinstance(ReadingModel.from_description(Path(model)).model, CausalModel)


def export_language_model(model: str | Path, original: str | Path, out: str | Path) -> list[str]:
    """Write a folder that was imported before, with the weights of a model folder that was trained on.

    Tokenizer, chat template and settings of outputs are the folder's; the prompt is not in it. What was written is
    opened again and compared.

    Args:
        model: a model folder.
        original: the folder in Hugging Face's layout that it was imported from.
        out: where to write; an earlier export there is replaced once the new one is complete.

    Returns:
        The class that loads it, and what is left out.

    Raises:
        DataError: if a folder cannot be read, or ``out`` holds something other than such a folder.
        UsageError: if the model is not the original's: other settings, or another tokenizer.
    """
    original, out = Path(original), Path(out)
    check_out(model, original, out)
    lm = language_model(model, original)
    with replaced_folder(out) as temporary, quiet():
        lm.lm.save_pretrained(temporary)
        for path in copied(original):
            if path.name != CONFIG:
                shutil.copyfile(path, temporary / path.name)
        for path in temporary.glob("*.safetensors"):
            path.chmod((temporary / CONFIG).stat().st_mode & 0o777)
        back, _ = opened(temporary, lm.found_by)
        check_back(back.state_dict(), lm.lm.state_dict(), set())
    return [f"{type(lm.lm).__name__} ({lm.lm.config.model_type}), as {original}", *left_out(lm)]


def language_model(model: str | Path, original: Path) -> CausalModel:
    """Load the language model of a model folder that was imported from a folder of the library, and trained on.

    Raises:
        DataError: if a folder cannot be read.
        UsageError: if the model is not the original's: other settings, or another tokenizer.
    """
    system = System.load(model)
    lm = system.model
    assert isinstance(lm, CausalModel)
    theirs = plain(Config(original / CONFIG).values)
    for place, one, other in differing(lm.arguments["config"], theirs, CONFIG):
        raise UsageError(f"{model}: is no model like {original}: {place} is {shown(one)}, not {shown(other)}")
    with TemporaryDirectory() as scratch:
        file = tokenizer_file(original, opened_tokenizer(original), Path(scratch))
        tokenizer: Any = system.output.tokenizer
        if file.read_bytes() != Path(tokenizer.arguments["file"]).read_bytes():
            raise UsageError(f"{model}: is no model like {original}: its tokenizer is another one")
    return lm


def left_out(lm: CausalModel) -> list[str]:
    """Say which parts of a model have no counterpart in the library: what a language model hears with."""
    parts = [name for name, _ in lm.named_children() if name != "lm"]
    if not parts:
        return []
    count = sum(p.numel() for name in parts for p in lm.get_submodule(name).parameters())
    return [
        f"without the encoder of speech and the projector ({count:,} parameters), which the library has no place for"
    ]


def export_adapter(model: str | Path, original: str | Path, out: str | Path) -> list[str]:
    """Write what a model learned beside the maps of the folder that it was imported from, as peft's adapter.

    Args:
        model: a model folder that was trained with LoRA.
        original: the folder in Hugging Face's layout that it was imported from.
        out: where to write; an earlier adapter there is replaced once the new one is complete.

    Returns:
        How it is loaded, and what is left out.

    Raises:
        DataError: if a folder cannot be read, or ``out`` holds something other than an adapter.
        UsageError: if the model is not the original's, has learned nothing, or more than an adapter holds, naming it;
            if peft is not installed.
    """
    require("peft", "adapters", "--format peft")
    from peft import LoraConfig

    original, out = Path(original), Path(out)
    check_out(model, original, out, ADAPTER)
    lm = language_model(model, original)
    theirs, _ = opened(original, lm.found_by)
    before, after = theirs.state_dict(), lm.lm.state_dict()
    maps = {f"{name}.weight": name for name, part in lm.lm.named_modules() if isinstance(part, nn.Linear)}
    found: dict[str, tuple[Tensor, Tensor]] = {}
    for name, tensor in after.items():
        if tensor.equal(before[name].to(tensor.dtype)):
            continue
        pair = difference(before[name], tensor) if name in maps else None
        if pair is None:
            raise UsageError(
                f"{model}: {name} has learned more than an adapter of rank {MOST} holds, or is no linear map: "
                f"--format huggingface writes the whole model"
            )
        found[maps[name]] = pair
    if not found:
        raise UsageError(f"{model}: has the weights of {original}: there is no adapter")
    rank = max(len(down) for down, _ in found.values())
    tensors = {}
    for name, (down, up) in found.items():
        tensors[f"{PREFIX}{name}.lora_A.weight"] = nn.functional.pad(down, (0, 0, 0, rank - len(down)))
        tensors[f"{PREFIX}{name}.lora_B.weight"] = nn.functional.pad(up, (0, rank - len(down)))
    names = [name for name in maps.values() if name.rpartition(".")[2] in {one.rpartition(".")[2] for one in found}]
    targets = sorted({name.rpartition(".")[2] for name in names} if {*names} == {*found} else found)
    config = LoraConfig(r=rank, lora_alpha=rank, target_modules=targets, task_type="CAUSAL_LM", inference_mode=True)
    config.base_model_name_or_path = str(original)
    with replaced_folder(out) as temporary:
        config.save_pretrained(str(temporary))
        write_weights(temporary / ADAPTER, tensors, "adapter_config.json")
        check_back(load_file(temporary / ADAPTER), tensors, set())
    beside = f"an adapter of rank {rank} beside {len(found)} maps"
    return [f"{beside}: peft.PeftModel.from_pretrained(model, ...) puts it into {original}", *left_out(lm)]


def difference(before: Tensor, after: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return matrices (R, I) and (O, R) whose product is the difference of two (O, I), but for the rounding of these.

    The product with random vectors has all directions of a difference of as many at most.

    Returns:
        None, if they would have a rank above :data:`MOST`, or of half the matrix.
    """
    wanted = after.double() - before.double()
    most = min(MOST, max(1, min(wanted.shape) // 2))
    #: What sums in the precision of the weights leave, by the size of the largest.
    noise = 4 * torch.finfo(after.dtype).eps * float(torch.maximum(before.abs().max(), after.abs().max()))
    generator = torch.Generator().manual_seed(0)
    rank = min(FIRST, most)
    while True:
        drawn = torch.randn(wanted.shape[1], rank, dtype=torch.float64, generator=generator)
        basis, _ = torch.linalg.qr(wanted @ drawn)
        left, sizes, right = torch.linalg.svd(basis.T @ wanted, full_matrices=False)
        kept = int((sizes > noise * math.sqrt(max(wanted.shape))).sum())
        up, down = basis @ left[:, :kept] * sizes[:kept].sqrt(), sizes[:kept, None].sqrt() * right[:kept]
        if float((wanted - up @ down).abs().max()) <= noise:
            return down.float().contiguous(), up.float().contiguous()
        if rank == most:
            return None
        rank = min(2 * rank, most)
