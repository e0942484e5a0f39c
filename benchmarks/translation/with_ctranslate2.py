"""The arm of benchmarks/translation that is CTranslate2, with what ``dragoman export`` wrote for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import ctranslate2

from benchmarks.translation.work import BEAM, LONGEST, arguments, threads, work


def main() -> None:
    """Serve."""
    task = arguments()
    folder = task.folder / f"ctranslate2_{task.variant}"
    symbols = json.loads((folder / "shared_vocabulary.json").read_text(encoding="utf-8"))
    numbers = {symbol: number for number, symbol in enumerate(symbols)}
    options: dict[str, Any] = {"beam_size": BEAM, "max_batch_size": task.batch, "length_penalty": 1.0}
    options |= {"max_decoding_length": (task.length or LONGEST) + 1, "min_decoding_length": task.length or 1}

    engine = ctranslate2.Translator(str(folder), device=task.device, compute_type=task.variant, intra_threads=threads())

    def translate(inputs: Sequence[Any]) -> list[list[int]]:
        rows = [[symbols[number] for number in row] for row in inputs]
        found = engine.translate_batch(rows, target_prefix=[["</s>"]] * len(rows), **options)
        return [[numbers[symbol] for symbol in result.hypotheses[0]] for result in found]

    work(task, {"ctranslate2": ctranslate2.__version__}, translate)


if __name__ == "__main__":
    main()
