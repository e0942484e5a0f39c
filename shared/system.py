"""A system: a model together with what it needs to meet the world, and its folder on disk.

The folder is plain data: ``model.safetensors``, ``config.json`` (how the system is built, see shared/described.py) and
the tokenizer files. Loading it constructs classes of this project and reads tensors; nothing in it is executed.

Legend: B batch, P prefix.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from shared.batch import Batch
from shared.corpus.audio import probe
from shared.corpus.fields import Field, TextField
from shared.corpus.loader import collate
from shared.described import Described, build, describe
from shared.errors import DataError, UsageError
from shared.files import replaced_folder
from shared.generator import Generator, Hypothesis
from shared.padded import Padded
from shared.search.search import Search

FORMAT = 1
AUDIO_SUFFIXES = {".wav", ".flac", ".ogg", ".mp3"}


class System(Described, nn.Module):
    """A model, the fields that turn rows of a manifest into its input, and the field that its output is text of.

    Args:
        model: a module that is a Generator (see shared/generator.py).
        inputs: what the model reads, by batch field: ``{"speech": SpeechField()}``, ``{"source": TextField(...)}``.
        output: the text field that the model was trained to produce.
        output_name: "translation" or "transcript": the key of the output in ``Hypothesis.texts``.
        source_languages: the language codes that the system was trained to read.
        target_languages: the language codes that it was trained to write.

    """

    def __init__(
        self,
        *,
        model: nn.Module,
        inputs: dict[str, Field],
        output: TextField,
        output_name: str = "translation",
        source_languages: list[str],
        target_languages: list[str],
    ) -> None:
        super().__init__()
        if not inputs:
            raise UsageError("a system needs at least one input field")
        for side, codes in (("source_languages", source_languages), ("target_languages", target_languages)):
            if not codes or isinstance(codes, str):
                raise UsageError(f"{side} must be a list of language codes, not {codes!r}")
        self.model = model
        self.inputs = {name: field.evaluating() for name, field in inputs.items()}
        self.output = output.evaluating()
        self.output_name = output_name
        self.source_languages = list(source_languages)
        self.target_languages = list(target_languages)

    @property
    def device(self) -> torch.device:
        """Where the parameters live."""
        return next(self.parameters()).device

    # -- translating ------------------------------------------------------------------------------------------------

    def prefix(self, languages: Sequence[str]) -> Padded:
        """Return the forced start of the output, (B, P), for rows in these target languages."""
        rows = [torch.tensor(self.output.prefix_ids(language), dtype=torch.int64) for language in languages]
        return Padded.from_sequences(rows, padding=self.output.tokenizer.pad).to(self.device)

    def translate_batch(self, batch: Batch, search: Search) -> list[list[Hypothesis]]:
        """Translate a batch on the system's device; the best hypothesis of each row comes first."""
        tokenizer = self.output.tokenizer
        found = search.search(
            cast(Generator, self.model),
            batch,
            prefix=self.prefix(batch.languages[self.output.side]),
            end=tokenizer.eos,
            padding=tokenizer.pad,
        )
        return [
            [Hypothesis(h.tokens, h.score, {self.output_name: tokenizer.decode(h.tokens)}) for h in hypotheses]
            for hypotheses in found
        ]

    @torch.inference_mode()
    def translate(
        self,
        inputs: str | Path | Sequence[str | Path],
        *,
        source_language: str | None = None,
        target_language: str | None = None,
        search: Search | None = None,
        batch_size: int = 16,
    ) -> Any:
        """Translate text, or sound files if the system reads speech.

        Args:
            inputs: one sentence or sound file, or a list of them. Blank sentences give empty output.
            source_language: needed if the system was trained on several.
            target_language: likewise.
            search: beam search with its defaults if not given.
            batch_size: how many inputs are translated at a time; it does not change the output.

        Returns:
            A list with the n-best :class:`Hypothesis` list of each input; for a single input, the best text.

        Raises:
            DataError: if a file cannot be read.
            UsageError: if a language is unknown to the system or has to be named.

        """
        from shared.search.beam import BeamSearch

        single = isinstance(inputs, str | Path)
        items: list[str | Path] = [inputs] if isinstance(inputs, str | Path) else list(inputs)
        source = self._language("source", source_language, self.source_languages)
        target = self._language("target", target_language, self.target_languages)
        rows = [self._row(item, number, source, target) for number, item in enumerate(items)]
        results: list[list[Hypothesis]] = [
            [Hypothesis(tokens=[], score=0.0, texts={self.output_name: ""})] for _ in items
        ]
        todo = [i for i, row in enumerate(rows) if row["audio"] or row["source_text"].strip()]
        lengths = {i: next(iter(self.inputs.values())).length(rows[i]) for i in todo}
        todo.sort(key=lambda i: lengths[i])
        was_training = self.training
        self.eval()
        try:
            for start in range(0, len(todo), batch_size):
                part = todo[start : start + batch_size]
                batch = collate([rows[i] for i in part], self.inputs, np.random.default_rng(0)).to(self.device)
                for i, hypotheses in zip(part, self.translate_batch(batch, search or BeamSearch()), strict=True):
                    results[i] = hypotheses
        finally:
            self.train(was_training)
        return results[0][0].texts[self.output_name] if single else results

    def _language(self, side: str, given: str | None, known: list[str]) -> str:
        if given is None:
            if len(known) > 1:
                raise UsageError(f"the system knows several {side} languages ({', '.join(known)}): name one")
            return known[0]
        if given not in known:
            raise UsageError(f"{side} language {given!r} is unknown to this system, which knows {', '.join(known)}")
        return given

    def _row(self, item: str | Path, number: int, source: str, target: str) -> dict[str, Any]:
        row: dict[str, Any] = {"id": str(number), "audio": None, "source_text": None}
        row |= {"source_language": source, "target_language": target, "start": 0.0, "duration": None}
        if "speech" in self.inputs:
            path = Path(item)
            if not path.is_file():
                raise DataError(f"{path}: no such sound file")
            row |= {"id": str(path), "audio": str(path), "duration": probe(path)}
        else:
            row["source_text"] = str(item)
        return row

    # -- the folder -------------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> None:
        """Write the model folder; an existing one is replaced only when the new one is complete."""
        with replaced_folder(Path(folder)) as temporary:
            self.save_description(temporary)
            save_file(contiguous(self.state_dict()), temporary / "model.safetensors")

    def save_description(self, folder: Path) -> None:
        """Write ``config.json`` and the tokenizer files into a folder."""
        assets: dict[str, Path] = {}
        config = {"format": FORMAT, "system": describe(self, assets)}
        (folder / "config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        for name, file in assets.items():
            (folder / name).write_bytes(file.read_bytes())

    @staticmethod
    def load(folder: str | Path, device: str | torch.device = "cpu") -> System:
        """Load a model folder, in eval mode.

        Raises:
            DataError: naming the file, if something is missing, cut short, or is not what a model folder holds.

        """
        folder = Path(folder)
        system = System.from_description(folder)
        weights = folder / "model.safetensors"
        try:
            tensors = load_file(weights, device=str(device))
        except (FileNotFoundError, SafetensorError, OSError) as error:
            raise DataError(f"{weights}: not a readable weights file ({error})") from error
        load_exactly(system.to(device), tensors, str(weights))
        return system.eval()

    @staticmethod
    def from_description(folder: Path) -> System:
        """Build the system that ``config.json`` describes, with fresh parameters."""
        config_file = folder / "config.json"
        if not config_file.is_file():
            raise DataError(f"{folder}: not a model folder (it has no config.json)")
        try:
            config = json.loads(config_file.read_text(encoding="utf-8"))
            if config["format"] != FORMAT:
                raise DataError(f"{config_file}: format {config['format']!r} is not the known one, {FORMAT}")
            system = build(config["system"], folder)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{config_file}: {error}") from error
        if not isinstance(system, System):
            raise DataError(f"{config_file}: describes a {type(system).__name__}, not a system")
        return system


def contiguous(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copy tensors that share memory (tied embeddings) apart, which is what the file format asks for."""
    seen: set[int] = set()
    result = {}
    for name, tensor in state.items():
        tensor = tensor.detach().cpu().contiguous()
        result[name] = tensor.clone() if tensor.data_ptr() in seen else tensor
        seen.add(tensor.data_ptr())
    return result


def load_exactly(module: nn.Module, tensors: dict[str, torch.Tensor], source: str) -> None:
    """Load a state dict that must match in every name and shape.

    Raises:
        DataError: naming the source and what is missing, unexpected or differently shaped.

    """
    own = module.state_dict()
    problems = [f"missing {name}" for name in own if name not in tensors]
    problems += [f"unexpected {name}" for name in tensors if name not in own]
    problems += [
        f"{name} is {tuple(tensors[name].shape)} instead of {tuple(own[name].shape)}"
        for name in own
        if name in tensors and tensors[name].shape != own[name].shape
    ]
    if problems:
        more = f" and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise DataError(f"{source}: does not fit the model: {'; '.join(problems[:5])}{more}")
    module.load_state_dict(tensors)
