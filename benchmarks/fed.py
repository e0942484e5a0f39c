"""Training that the loader feeds: what is done in a second, and how much of the time is spent waiting for data.

    python -m benchmarks.fed text [--device cuda] [--updates 60] [--workers 4] [--toy] [--json FILE]

The kind of training is "text", "speech", or "waveform", the pre-training of wav2vec 2.0. The corpus is made up:
sentences of random words, or noises in sound files. The same updates are timed twice, on batches that are in memory
and on batches as the loader delivers them; what they take longer by is the waiting for data. The utilisation is the
share of the speed of one large product that the products of the model reach while it is fed.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import soundfile
import torch
from sentencepiece import sentencepiece_model_pb2

from benchmarks import gpu_training, speech_ours, text_ours, waveform_ours
from benchmarks.graphics import Sampler, peak
from benchmarks.ours import Trainer, counted
from benchmarks.training import RATE as LEARNING_RATE
from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.loader import Loader
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.batches.stream import Budget, Stream
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.text.tokenizer import SentencePieceTokenizer
from dragoman.st.crop import Crop

SAMPLE_RATE = 16000
WARM_UP, COUNTED = 4, 4  # updates that are not timed, and batches whose operations are counted
SOUNDS, WORDS_A_SECOND, WORDS = 200, 4, 100


def words(folder: Path, number: int) -> SentencePieceTokenizer:
    """Return a tokenizer that knows made-up words, each as one piece."""
    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    for symbol, kind in (("<unk>", 2), ("<s>", 3), ("</s>", 3)):
        proto.pieces.add(piece=symbol, score=0.0, type=kind)
    for place in range(number):
        proto.pieces.add(piece=f"▁word{place}", score=-10.0, type=1)
    proto.trainer_spec.model_type = 1
    proto.normalizer_spec.name = "identity"
    path = folder / "words.model"
    path.write_bytes(proto.SerializeToString())
    return SentencePieceTokenizer(model=str(path), tags=["en", "de"])


def sentence(rng: np.random.Generator, length: int, vocabulary: int) -> str:
    """Return this many random words."""
    return " ".join(f"word{number}" for number in rng.integers(0, vocabulary, length))


def text_rows(rng: np.random.Generator, rows: int, vocabulary: int) -> Iterator[dict[str, Any]]:
    """Yield pairs of sentences as long as those of news, 24 words in the median."""
    for number, length in enumerate(np.clip(rng.lognormal(np.log(24), 0.5, rows), 4, 80).astype(int)):
        texts = {f"{side}_text": sentence(rng, int(length), vocabulary) for side in ("source", "target")}
        yield {"id": f"r{number}", "source_language": "en", "target_language": "de", **texts}


def speech_rows(rng: np.random.Generator, rows: int, vocabulary: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield recordings as long as those of lectures, 5 seconds in the median; some of them share a file."""
    files: list[tuple[Path, float]] = []
    for number, seconds in enumerate(np.clip(rng.lognormal(np.log(5), 0.6, min(rows, SOUNDS)), 0.8, 25)):
        waveform = 0.1 * rng.standard_normal(int(seconds * SAMPLE_RATE)).clip(-5, 5)
        path = folder / f"{number}.wav"
        soundfile.write(path, waveform, SAMPLE_RATE, subtype="PCM_16")
        files.append((path, len(waveform) / SAMPLE_RATE))
    for number in range(rows):
        path, duration = files[number % len(files)]
        text = sentence(rng, max(1, int(duration * WORDS_A_SECOND)), vocabulary)
        row = {"id": f"r{number}", "audio": str(path), "duration": duration, "target_text": text}
        yield row | {"target_language": "de"}


def prepared(kind: str, folder: Path, updates: int, toy: bool) -> tuple[Stream, Any]:
    """Make the corpus; return its stream, and sizes and vocabulary of the model."""
    rng = np.random.default_rng(1)
    work = gpu_training.toy(kind) if toy else gpu_training.WORKS[kind]
    if kind == "waveform":
        seconds = work.rows * work.seconds
        rows = speech_rows(rng, 4 + int(updates * seconds / 4), WORDS, folder)
        fields: dict[str, Any] = {"speech": Crop(field=SpeechField(), seconds=work.seconds)}
        return stream_of(kind, folder, rows, fields, Budget(seconds=seconds)), work
    tokenizer = words(folder, work.vocabulary)
    target = TextField(column="target_text", tokenizer=tokenizer)
    if kind == "text":
        tokens = work.tokens
        rows = text_rows(rng, 4 + updates * tokens // 20, work.vocabulary)
        fields = {"source": TextField(column="source_text", tokenizer=tokenizer), "target": target}
        budget = Budget(tokens=tokens)
    else:
        seconds = max(count * length for count, length in work.batches)
        rows = speech_rows(rng, 4 + int(updates * seconds / 4), work.vocabulary, folder)
        fields, budget = {"speech": SpeechField(), "target": target}, Budget(seconds=seconds)
    return stream_of(kind, folder, rows, fields, budget), replace(work, vocabulary=tokenizer.size)


def stream_of(
    name: str, folder: Path, rows: Iterable[dict[str, Any]], fields: dict[str, Any], budget: Budget
) -> Stream:
    """Write a manifest; return a stream of its rows."""
    manifest = Manifest.write(folder / "train.arrow", list(rows))
    return Stream(name=name, manifests=[str(manifest.path)], fields=fields, budget=budget)


def built(kind: str, work: Any, dropout: float, place: Workspace) -> tuple[Any, Callable[[list[Batch]], int]]:
    """Return what does the updates, and what counts the operations of batches without dropout."""
    if kind == "waveform":
        work = replace(work, precision=place.precision, device=place.device)

        def operations(batches: list[Batch]) -> int:  # which masks decide, so that they have to be done
            alone = waveform_ours.objective_of(work, 0.0).to(place.device)
            return sum(waveform_ours.counted(alone, batch.to(place.device)) for batch in batches)

        return waveform_ours.Trainer(work, dropout, LEARNING_RATE, None), operations
    module = {"text": text_ours, "speech": speech_ours}[kind]
    model = module.translator(work, 0.0)
    trainer = Trainer(module.translator(work, dropout), place, LEARNING_RATE, module.names)
    return trainer, lambda batches: counted(model, batches)


def amount(batch: Batch) -> float:
    """Return the seconds of sound, or the target tokens, of a batch."""
    if "speech" in batch:
        return float(batch["speech"].lengths.sum()) / SAMPLE_RATE
    return float(batch["target"].lengths.sum() - len(batch))  # start symbols are no labels


def timed(trainer: Trainer, batches: Iterator[Batch], updates: int, device: str) -> tuple[float, float]:
    """Return the seconds that updates take, and those in which the host waited for a batch to be there."""
    waited = 0.0
    if device != "cpu":
        torch.cuda.synchronize()
    clock = time.perf_counter()
    for _ in range(updates):
        asked = time.perf_counter()
        batch = next(batches)
        waited += time.perf_counter() - asked
        trainer.update(batch)
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - clock, waited


def measured(kind: str, *, device: str, updates: int, workers: int, toy: bool, folder: Path) -> dict[str, Any]:
    """Do the updates, and return what they took."""
    stream, work = prepared(kind, folder, updates, toy)
    precision = "fp32" if toy else "bf16"
    place = Workspace(folder, device=device, precision=precision)
    trainer, operations = built(kind, work, 0.1, place)

    def loader() -> Iterator[Batch]:
        made = Loader(streams=[stream], seed=1, workers=workers, pin_memory=device != "cpu")
        return chain.from_iterable(map(made.epoch, repeat(0)))

    kept = list(islice(loader(), updates))
    flops = operations(kept[:COUNTED]) / sum(map(amount, kept[:COUNTED]))
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
    for batch in kept[:WARM_UP]:
        trainer.update(batch)
    in_memory, _ = timed(trainer, iter(kept), updates, device)
    arriving = loader()
    first = next(arriving)  # workers have started, as they have in all but the first update of a run
    with Sampler() as sampler:
        fed, waited = timed(trainer, chain([first], arriving), updates, device)
    units = sum(map(amount, kept))
    ceiling = peak(device, precision)
    return {
        "unit": "target tokens" if kind == "text" else "seconds of sound",
        "updates": updates,
        "workers": workers,
        "units_per_second": round(units / fed, 1),
        "units_per_second_in_memory": round(units / in_memory, 1),
        "share_of_time_waiting_for_data": round(max(0.0, 1 - in_memory / fed), 4),
        "share_of_time_the_host_waited": round(waited / fed, 4),
        "share_of_peak": round(flops * units / fed / ceiling, 4),
        "share_of_peak_in_memory": round(flops * units / in_memory / ceiling, 4),
        "peak_tflops": round(ceiling / 1e12, 2),
        "utilisation": sampler.found(),
        "memory_gb": round(torch.cuda.max_memory_allocated() / 1e9, 2) if device != "cpu" else None,
    }


def main() -> None:
    """Measure, print, and write JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kind", choices=["text", "speech", "waveform"])
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--toy", action="store_true", help="a tiny model in fp32, to see that it runs")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        given = {name: getattr(arguments, name) for name in ("device", "updates", "workers", "toy")}
        found = measured(arguments.kind, folder=Path(folder), **given)
    text = json.dumps(found, indent=1)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
