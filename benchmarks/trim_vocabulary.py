"""A vocabulary of 250,000 pieces is trimmed to two languages: what is still translated alike, and what memory is left.

    python benchmarks/trim_vocabulary.py [--pieces 250000 --sentences 300]

The model that fairseq trained for tests/parity (English to German, 48 wide) is given the vocabulary of a multilingual
one: made-up pieces in scripts that it never saw. Their vectors lie near those of pieces that it never writes, and a
bias gives all of them together as much probability as those have. It is trimmed to 2,000 pairs, and translates other
sentences before and after. Those whose translations differ are translated again in float64, where a difference of
rounding would vanish, and both outputs are scored by both models.
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from sentencepiece import sentencepiece_model_pb2

from dragoman.almanac.frames import draw
from dragoman.almanac.sentences import sentence
from dragoman.exchange.fairseq.fairseq_import import import_fairseq
from dragoman.exchange.trimming import trim
from dragoman.exchange.vocabularies.segmenters import SentencePieces
from dragoman.exchange.vocabularies.vocabulary import FIRST, VocabularyTokenizer
from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.described import build, describe
from dragoman.shared.padded import Padded
from dragoman.shared.search.beam import BeamSearch
from dragoman.shared.search.forced import forced_scores
from dragoman.shared.systems.system import System

TRAINED = Path(__file__).parent.parent / "tests" / "parity" / "fairseq" / "trained"
PAIRS = 2000
#: First and last letters of Georgian, Devanagari, Hangul and Chinese: none is in the model's texts.
SCRIPTS = [(0x10D0, 0x10F0), (0x0915, 0x0939), (0xAC00, 0xD7A3), (0x4E00, 0x9FFF)]


def main() -> None:
    """Build, trim, translate with both, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pieces", type=int, default=250_000)
    parser.add_argument("--sentences", type=int, default=300)
    arguments = parser.parse_args()
    sayings = draw("train", PAIRS + arguments.sentences, random.Random(5))
    pairs = [(sentence(saying, "en"), sentence(saying, "de")) for saying in sayings]
    texts = [source for source, _ in pairs[PAIRS:]]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        enlarged(folder, arguments.pieces, [target for _, target in pairs[:PAIRS]]).save(folder / "whole")
        report = trim(folder / "whole", [manifest(folder / "covering.arrow", pairs[:PAIRS])], folder / "trimmed")
        print(report)
        models = {name: System.load(folder / name) for name in ("whole", "trimmed")}
        outputs = {name: translated(name, system, texts) for name, system in models.items()}
        compare(models, texts, outputs)


def enlarged(folder: Path, size: int, written: list[str]) -> System:
    """Return the trained model with more pieces: `size` in all."""
    system, report = import_fairseq(TRAINED, source_languages=["en"], target_languages=["de"])
    report.check()
    old = system.output.tokenizer
    torch.manual_seed(1)
    more = list(made_up(size - old.size))
    model = sentencepiece_model_pb2.ModelProto.FromString((TRAINED / "sentencepiece.bpe.model").read_bytes())
    lowest = min(piece.score for piece in model.pieces)
    for number, piece in enumerate(more):
        model.pieces.add(piece=piece, score=lowest - 1 - number / len(more))
    (folder / "large.model").write_bytes(model.SerializeToString())
    rows = [old.symbol(number) for number in range(len(FIRST), old.size)] + more
    (folder / "dict.txt").write_text("".join(f"{row} 1\n" for row in rows), encoding="utf-8")
    tokenizer = VocabularyTokenizer(
        segmenter=SentencePieces(model=str(folder / "large.model")), vocabulary=str(folder / "dict.txt")
    )
    used = {id for text in written for id in old.encode(text)}
    never = torch.tensor([id for id in range(len(FIRST), old.size) if id not in used])
    tensors = dict(system.state_dict())
    for name, tensor in tensors.items():
        if tensor.shape[:1] == (old.size,):
            vectors = tensor[never[torch.randint(len(never), (len(more),))]]
            tensors[name] = torch.cat([tensor, vectors + 0.01 * torch.randn_like(vectors)])
    bias = torch.zeros(tokenizer.size)
    bias[old.size :] = -math.log(len(more) / len(never))
    description = with_rows(describe(system.model), old.size, tokenizer.size)
    description["arguments"]["projection"]["arguments"]["bias"] = True
    large = System(
        model=build(description),
        inputs={"source": moved(system.inputs["source"], tokenizer)},
        output=moved(system.output, tokenizer),
        source_languages=["en"],
        target_languages=["de"],
    )
    large.load_state_dict(tensors | {"model.projection.bias": bias})
    return large.eval()


def made_up(count: int) -> Iterator[str]:
    """Yield different pieces of two to five letters."""
    seen: set[str] = set()
    generator = random.Random(3)
    while len(seen) < count:
        first, last = generator.choice(SCRIPTS)
        piece = "".join(chr(generator.randint(first, last)) for _ in range(generator.randint(2, 5)))
        if piece not in seen:
            seen.add(piece)
            yield piece


def with_rows(description: Any, old: int, new: int) -> Any:
    """Return a model's description with another number of symbols."""
    if isinstance(description, list):
        return [with_rows(item, old, new) for item in description]
    if not isinstance(description, dict):
        return description
    return {
        name: new if name == "vocabulary" and value == old else with_rows(value, old, new)
        for name, value in description.items()
    }


def moved(field: Any, tokenizer: VocabularyTokenizer) -> TextField:
    """Return a field with another tokenizer."""
    return TextField(**field.arguments | {"tokenizer": tokenizer})


def manifest(path: Path, pairs: list[tuple[str, str]]) -> Path:
    """Write pairs as a manifest."""
    languages = {"source_language": "en", "target_language": "de"}
    rows = [{"id": str(n), "source_text": s, "target_text": t} | languages for n, (s, t) in enumerate(pairs)]
    return Manifest.write(path, rows).path


def translated(name: str, system: System, texts: list[str]) -> list[list[str]]:
    """Return the pieces of the best translations."""
    started = time.perf_counter()
    found = system.hypotheses(texts, search=BeamSearch(beam=5))
    print(f"{name}: {len(texts)} sentences in {time.perf_counter() - started:.1f} s")
    return [[system.output.tokenizer.symbol(token) for token in hypotheses[0].tokens] for hypotheses in found]


def compare(models: dict[str, System], texts: list[str], outputs: dict[str, list[list[str]]]) -> None:
    """Say how many translations are the same; translate the others in float64, and score what comes out."""
    different = [text for text, *both in zip(texts, *outputs.values(), strict=True) if both[0] != both[1]]
    print(f"{len(texts) - len(different)} of {len(texts)} translations are the same")
    again = {name: translated(f"{name}, float64", system.double(), different) for name, system in models.items()}
    rows = {name: numbers(system) for name, system in models.items()}
    for text, before, after in zip(different, *again.values(), strict=True):
        print(f"{text}{' (the same in float64)' if before == after else ''}")
        for label, pieces in (("before", before), ("after", after)):
            if any(piece not in rows["trimmed"] for piece in pieces):
                print(f"  {label}: {' '.join(pieces)}: needs a piece that is gone")
                continue
            scores = [score(system, rows[name], text, pieces) for name, system in models.items()]
            print(f"  {label}: {' '.join(pieces)}: {scores[0]:.6f} whole, {scores[1]:.6f} trimmed")


def numbers(system: System) -> dict[str, int]:
    """Return the ids of pieces."""
    tokenizer = system.output.tokenizer
    return {tokenizer.symbol(number): number for number in range(tokenizer.size)}


def score(system: System, rows: dict[str, int], text: str, pieces: list[str]) -> float:
    """Return the mean log-probability of an output in float64, as beam search has it."""
    tokenizer = system.output.tokenizer
    source = torch.tensor([*system.inputs["source"].tokenizer.encode(text), tokenizer.eos])
    output = torch.tensor([tokenizer.eos, *(rows[piece] for piece in pieces)])
    batch = Batch({"source": Padded.from_sequences([source], padding=tokenizer.pad)})
    found = forced_scores(system.model, batch, Padded.from_sequences([output], padding=tokenizer.pad))
    return float(found.values.mean())


if __name__ == "__main__":
    main()
