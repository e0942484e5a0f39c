"""The arm of benchmarks/translation that is this project."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.translation.work import BEAM, LONGEST, arguments, work
from dragoman.shared.batch import Batch
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.nn.translator import Translator
from dragoman.shared.padded import Padded
from dragoman.shared.search import BeamSearch, Rules
from dragoman.shared.systems.combining import load_combined


class Counter:
    """Counts what a model does, by what its encoder and its decoder are called with.

    Attributes:
        encoded: elements that the encoder saw, without padding.
        steps: rows that the decoder saw, over all steps.
        batches: calls of the encoder.
        calls: calls of the decoder.

    """

    def __init__(self, model: Translator) -> None:
        self.model, self.encoded, self.steps, self.batches, self.calls = model, 0, 0, 0, 0
        model.encoder.register_forward_pre_hook(self._encode)
        model.decoder.register_forward_pre_hook(self._decode, with_kwargs=True)

    def _encode(self, module: torch.nn.Module, given: Any) -> None:
        self.encoded += int(given[0].lengths.sum())
        self.batches += 1

    def _decode(self, module: torch.nn.Module, given: Any, named: Any) -> None:
        self.steps += len(given[0])
        self.calls += 1

    def least(self) -> dict[str, Any]:
        """Return the floating point operations of the products with weights, and the bytes of weights read for them.

        Each batch reads the encoder, and each step the decoder, which no cache holds.
        """
        model = self.model
        vectors = sum(p.numel() for p in model.encoder.parameters() if p.dim() == 2)
        remembered = sum(
            p.numel()
            for name, p in model.decoder.named_parameters()
            if "keys_values.weight" in name and "queries" not in name
        )
        stepped = sum(p.numel() for p in model.decoder.parameters() if p.dim() == 2) - remembered
        stepped += model.projection.weight.numel()
        return {
            "flops": 2 * (self.encoded * (vectors + remembered) + self.steps * stepped),
            "bytes": 4 * (self.batches * (vectors + remembered) + self.calls * stepped),
            "bytes_of": "weights",
        }


@torch.inference_mode()
def main() -> None:
    """Serve."""
    task = arguments()
    place = Workspace(Path(), device=task.device, precision="bf16" if task.dtype == "bfloat16" else "fp32")
    # As `dragoman translate` does it.
    system = load_combined(task.folder / "ours", task.device, autocast_dtype=place.autocast_dtype)
    lengths = {"minimum_length": task.length, "maximum_length": task.length} if task.length else {}
    search = BeamSearch(beam=BEAM, rules=Rules(maximum_length_extra=task.length or LONGEST, **lengths))
    tokenizer = system.output.tokenizer
    name = next(iter(system.inputs))
    counter = Counter(system.model)

    def translate(inputs: Sequence[Any]) -> list[list[int]]:
        rows = [torch.as_tensor(row) for row in inputs]
        batch = Batch({name: Padded.from_sequences(rows, padding=tokenizer.pad if name == "source" else 0.0)})
        prefix = system.prefix(["de"] * len(batch))
        batch = batch.to(task.device)
        with place.autocast():
            found = search.search(system.model, batch, prefix=prefix, end=tokenizer.eos, padding=tokenizer.pad)
        return [hypotheses[0].tokens for hypotheses in found]

    def first(outputs: list[list[int]]) -> dict[str, Any]:
        return counter.least()

    facts = {"gpu": torch.cuda.get_device_name()} if task.device == "cuda" else {}
    compared_with = first if task.dtype == "float32" else None
    work(task, {"torch": torch.__version__}, translate, first=compared_with, facts=facts)


if __name__ == "__main__":
    main()
