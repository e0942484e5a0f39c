"""Shared helpers of the tests that compare text models with transformers; they do not import it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from dragoman import BeamSearch, Rules
from dragoman.exchange.huggingface.hf_reading import Config, read_tensors
from dragoman.shared.batch import Batch
from dragoman.shared.padded import Padded
from tests.parity.compared import Compared

#: Twenty batches of ten sentences.
LENGTHS = [tuple(1 + (7 * number + 3 * row) % 11 for row in range(10)) for number in range(20)]


def disturbed(model: torch.nn.Module) -> torch.nn.Module:
    """Leave nothing at 0 or 1, where mistakes hide."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if "embed_positions" in name and not name.endswith("weight"):
                continue
            if tensor.is_floating_point() and not (isinstance(tensor, torch.nn.Parameter) and not tensor.requires_grad):
                tensor.add_(torch.randn(tensor.shape, generator=generator) * 0.1)
    return model.eval()


def loaded(kind: Any, folder: Path) -> tuple[Any, Any]:
    """Return what a reader of a kind of models makes of a folder, and the model."""
    tensors, path = read_tensors(folder)
    read = kind(Config(folder / "config.json"), tensors)
    model = read.build().eval()
    read.load(model, str(path)).check()
    return read, model


def batch(vocabulary: int, lengths: tuple[int, ...], padding: int) -> Padded:
    generator = torch.Generator().manual_seed(sum(2**n * length for n, length in enumerate(lengths)))
    rows = [torch.randint(4, vocabulary - 1, (length,), generator=generator) for length in lengths]
    return Padded.from_sequences(rows, padding=padding)


def same_searches(
    model: torch.nn.Module,
    theirs: Any,
    start: list[int],
    compared: Compared,
    *,
    length_penalty: float = 1.0,
    **given: Any,
) -> None:
    """Compare what beam search makes of two hundred sentences, of which some end before the limit and some do not.

    ``start`` is decoder_start_token_id, and forced_bos_token_id if there is one; the rest is for their ``generate``.
    """
    end, padding = theirs.config.eos_token_id, theirs.config.pad_token_id
    limit, seen, ended = 24, 0, 0
    for lengths in LENGTHS:
        source = batch(53, lengths, padding)
        expected = theirs.generate(
            source.values,
            attention_mask=source.mask.long(),
            num_beams=5,
            early_stopping=True,
            length_penalty=length_penalty,
            max_length=limit,
            decoder_start_token_id=start[0],
            forced_bos_token_id=start[1] if len(start) > 1 else None,
            forced_eos_token_id=end,
            suppress_tokens=[padding],
            return_dict_in_generate=True,
            output_scores=True,
            **given,
        )
        rules = Rules(maximum_length=limit - 2, minimum_length=0, forced_free=True)
        prefix = Padded.from_sequences([torch.tensor(start)] * len(source))
        asked = {"prefix": prefix, "end": end, "padding": padding}
        found = BeamSearch(length_penalty=length_penalty, rules=rules).search(model, Batch({"source": source}), **asked)
        for ours, tokens, score in zip(found, expected.sequences.tolist(), expected.sequences_scores, strict=True):
            after = tokens[1:]
            compared.same("hypotheses", [ours[0].tokens], [after[: after.index(end) + 1]])
            compared.close("scores", ours[0].score, score)
            seen += 1
            ended += len(ours[0].tokens) < limit - 1
    assert seen == 200 and 10 < ended < 190
