"""Small models, tokenizers and data that tests of many rooms build: each with usual sizes, which a test may change."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings
from torch import Tensor, nn

from dragoman.shared.batch import Batch
from dragoman.shared.batches.fields import TextField
from dragoman.shared.batches.manifest import Manifest
from dragoman.shared.batches.stream import Budget
from dragoman.shared.machine.workspace import Workspace
from dragoman.shared.nn.embeddings import TextEmbedding
from dragoman.shared.nn.fbank import Fbank, UtteranceNorm
from dragoman.shared.nn.heads import TiedProjection
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.positions import LearnedPositions, SinusoidalPositions
from dragoman.shared.nn.speech import SpeechEmbedding
from dragoman.shared.nn.subsampler import Conv1dSubsampler
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.nn.translator import EncoderModel, Translator
from dragoman.shared.objectives import EncoderDecoderObjective
from dragoman.shared.padded import Padded
from dragoman.shared.search.beam import BeamSearch
from dragoman.shared.systems.system import System
from dragoman.shared.text.piece_model import train_sentencepiece
from dragoman.shared.text.tokenizer import SentencePieceTokenizer
from dragoman.shared.training.optimizer import Adam, set_learning_rate

GOLDEN = Path(__file__).parent / "golden" / "model"

# -- oracles and checks -----------------------------------------------------------------------------------------------


def torch_layer(own: Layer, memory: str = "", activation: str = "gelu", **more: Any) -> Any:
    """Return torch's layer of an encoder with a copy of our parameters; of a decoder, if a memory is named."""
    kind = nn.TransformerDecoderLayer if memory else nn.TransformerEncoderLayer
    inner, width = own.inner.weight.shape
    options = {"norm_first": own.pre_norm, "activation": activation, "batch_first": True, "dropout": 0.0}
    theirs = kind(width, own.self_attention.heads, inner, **options | more)
    parts = {"self_attn.in_proj_": own.self_attention.queries_keys_values, "linear1.": own.inner, "linear2.": own.outer}
    parts |= {"self_attn.out_proj.": own.self_attention.output}
    norms = [own.self_attention_norm, *([own.memory_attention_norm] if memory else []), own.feedforward_norm]
    parts |= {f"norm{number}.": norm for number, norm in enumerate(norms, 1)}
    state = {f"{name}{each}": getattr(part, each) for name, part in parts.items() for each in ("weight", "bias")}
    for each in ("weight", "bias") if memory else ():
        attention = own.memory_attention[memory]
        maps = [getattr(part, each) for part in (attention.queries, attention.keys_values)]
        state[f"multihead_attn.in_proj_{each}"] = torch.cat(maps)
        state[f"multihead_attn.out_proj.{each}"] = getattr(attention.output, each)
    theirs.load_state_dict(state)
    return theirs


def torch_attention(own: Any) -> nn.MultiheadAttention:
    """Return torch's attention with a copy of our parameters, of one that sees itself or states of another width."""
    width, heads = own.output.weight.shape[0], own.heads
    if hasattr(own, "queries_keys_values"):
        maps, bias = own.queries_keys_values.weight.chunk(3), own.queries_keys_values.bias
    else:
        maps = (own.queries.weight, *own.keys_values.weight.split(width))
        bias = torch.cat([own.queries.bias, own.keys_values.bias])
    read = maps[1].shape[1]
    theirs = nn.MultiheadAttention(width, heads, kdim=read, vdim=read, batch_first=True)
    names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
    state = dict(zip(names, maps, strict=True)) if read != width else {"in_proj_weight": torch.cat(maps)}
    state |= {"in_proj_bias": bias, "out_proj.weight": own.output.weight, "out_proj.bias": own.output.bias}
    theirs.load_state_dict(state)
    return theirs.eval()


def disturbed(module: Any, scale: float = 0.3) -> Any:
    """Add noise to all parameters of a module, so that no bias is 0 and no norm 1, where mistakes hide."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape), alpha=scale)
    return module.eval()


def objective(model: nn.Module, *parts: Any, cls: type = EncoderDecoderObjective, **options: Any) -> Any:
    """Return an objective of parts around a model that stands in no real system."""
    system = nn.Module()
    system.model = model
    return cls(system=system, **options or {"parts": list(parts)})


def alone(rows: Batch, number: int, *names: str) -> Batch:
    """Return one row of a batch without its padding; of all fields, or of some."""
    return Batch({name: padded([rows[name].rows()[number]]) for name in names or rows.fields})


def check_rows(model: Any, rows: Batch) -> None:
    """Assert that a sentence alone is decoded as in its batch."""
    whole = model.decode(rows["target"], model.encode(rows))
    for number in range(len(rows)):
        one = alone(rows, number)
        states = model.decode(one["target"], model.encode(one))[0]
        torch.testing.assert_close(states, whole[number][: len(states)], atol=1e-5, rtol=1e-5)


def check_beams(model: Any, rows: Batch, *names: str) -> None:
    """Assert that beams, written step by step, have the scores of all their tokens at once; names: what is read."""
    prefix = Padded(rows["target"].values[:, :1], torch.ones(len(rows), dtype=torch.int64))
    for number, hypotheses in enumerate(BeamSearch(beam=3).search(model, rows, prefix=prefix, end=2, padding=0)):
        encoding = model.encode(alone(rows, number, *names))
        for hypothesis in hypotheses:
            tokens = torch.tensor([int(prefix.values[number, 0]), *hypothesis.tokens])
            scores = model.log_probabilities(padded([tokens[:-1]]), encoding)[0]
            total = scores.gather(1, tokens[1:, None]).sum().item()
            assert hypothesis.score == pytest.approx(total / len(hypothesis.tokens), abs=1e-4)


def unmoved(objective: Any, rows: Batch, *frozen: nn.Module, recipe: Adam | None = None) -> set[str]:
    """Return the names of the model's tensors that three updates leave as they are; frozen parts never train."""
    model = objective.system.model
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = (recipe or Adam()).build(objective)
    for update in range(1, 4):
        objective.train()
        assert not any(module.training for one in frozen for module in one.modules())
        objective(rows).total().backward()
        set_learning_rate(optimizer, 0.01, update)
        optimizer.step()
    return {name for name, value in model.state_dict().items() if torch.equal(value, before[name])}


# -- text -----------------------------------------------------------------------------------------------------------


def pieces(texts: Iterable[str], *, kind: str = "char", size: int = 300, **options: Any) -> str:
    """Return the path of a SentencePiece model, ``tokenizer.model``, trained on texts once a session."""
    texts = list(texts)
    key = hashlib.sha256(repr((texts, kind, size, sorted(options.items()))).encode()).hexdigest()[:16]
    path = Path(os.environ["DRAGOMAN_TEST_TOKENIZERS"]) / key / "tokenizer.model"  # set by tests/conftest.py
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        own = path.with_name(f"{os.getpid()}.model")  # another worker may train the same one
        os.replace(train_sentencepiece(texts, own, kind=kind, size=size, **options), path)
    return str(path)


def tokenizer(
    texts: Iterable[str], tags: Sequence[str] = ("de", "en"), *, kind: str = "char", size: int = 300, **options: Any
) -> SentencePieceTokenizer:
    """Return a tokenizer trained on texts; see ``pieces``."""
    return SentencePieceTokenizer(model=pieces(texts, kind=kind, size=size, **options), tags=[*tags])


def text(tokenizer: Any, side: str = "source", **options: Any) -> TextField:
    """Return the field of the column "source_text" or "target_text"."""
    return TextField(column=f"{side}_text", tokenizer=tokenizer, **options)


def texts(tokenizer: Any, other: Any = None) -> dict[str, TextField]:
    """Return the fields "source" and "target", of one tokenizer or of two."""
    return {"source": text(tokenizer), "target": text(other or tokenizer, "target")}


def row(id: Any, source: str | None = None, target: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a manifest's row of English and German; a side that is None is left out."""
    sides = {"source": (source, "en"), "target": (target, "de")}
    made: dict[str, Any] = {"id": str(id)}
    for side, (words, language) in sides.items():
        made |= {} if words is None else {f"{side}_text": words, f"{side}_language": language}
    return made | more


def sides(rows: Iterable[Any]) -> list[tuple[str, str]]:
    """Return the source and the target text of each row."""
    return [(row["source_text"], row["target_text"]) for row in rows]


# -- tensors --------------------------------------------------------------------------------------------------------


def padded(rows: Iterable[Sequence[Any] | Tensor], padding: float = 0) -> Padded:
    """Pad rows of numbers, or tensors."""
    return Padded.from_sequences([torch.as_tensor(row) for row in rows], padding)


def drawn(
    lengths: Iterable[int], high: int, low: int = 1, *, generator: torch.Generator | None = None, padding: int = 0
) -> Padded:
    """Draw tokens from ``low`` to ``high`` - 1 for rows of some lengths."""
    rows = [torch.randint(low, high, (length,), generator=generator) for length in lengths]
    return Padded.from_sequences(rows, padding)


def drawn_batch(lengths: dict[str, Iterable[int]], high: int, low: int = 1, *, seed: int = 5) -> Batch:
    """Draw tokens for the rows of each field."""
    torch.manual_seed(seed)
    return Batch({name: drawn(own, high, low) for name, own in lengths.items()})


def batch(*, padding: int = 0, **fields: Any) -> Batch:
    """Return a batch of fields that are given as rows of tokens, or padded."""
    return Batch({name: own if isinstance(own, Padded) else padded(own, padding) for name, own in fields.items()})


# -- modules --------------------------------------------------------------------------------------------------------


def embedding(vocabulary: Any, width: int = 16, positions: Any = True, **changes: Any) -> TextEmbedding:
    """Return the embedding of a tokenizer, or of a number of tokens of which 0 pads; without dropout.

    ``positions``: True for sinusoidal ones, a number for so many learned ones, None for none, or a module.
    """
    size, padding = (vocabulary, 0) if isinstance(vocabulary, int) else (vocabulary.size, vocabulary.pad)
    if positions is True:
        positions = SinusoidalPositions(width=width)
    elif isinstance(positions, int):
        positions = LearnedPositions(width=width, length=positions)
    options = {"vocabulary": size, "padding": padding, "positions": positions, "dropout": 0.0}
    return TextEmbedding(**options | {"width": width} | changes)


def speech_embedding(width: int = 16, *, bins: int = 16, channels: int = 8, **changes: Any) -> SpeechEmbedding:
    """Return the embedding of filter banks that two convolutions shorten by a factor of four; without dropout."""
    if "subsampler" not in changes:  # one that is not used would draw parameters all the same
        changes["subsampler"] = Conv1dSubsampler(inputs=bins, channels=channels, width=width)
    positions = SinusoidalPositions(width=width)
    options = {"frontend": Fbank(bins=bins), "normalisation": UtteranceNorm(), "positions": positions}
    return SpeechEmbedding(**options | {"dropout": 0.0} | changes)


def layer(width: int = 16, **changes: Any) -> Layer:
    """Return a layer of two heads, without dropout."""
    return Layer(**{"width": width, "heads": 2, "feedforward": 2 * width, "dropout": 0.0} | changes)


def encoder(layers: int = 1, taps: Sequence[int] = (), **changes: Any) -> Encoder:
    """Return an encoder; ``changes`` are its layer's."""
    return Encoder(layer=layer(**changes), layers=layers, taps=[*taps])


def decoder(layers: int = 1, **changes: Any) -> Decoder:
    """Return a decoder that looks at "source"; ``changes`` are its layer's."""
    return Decoder(layer=layer(**{"memories": ["source"]} | changes), layers=layers)


def translator(
    vocabulary: Any,
    *,
    seed: int | None = None,
    cls: type = Translator,
    layers: int = 1,
    embedded: dict[str, Any] | None = None,
    sizes: dict[str, Any] | None = None,
    **changes: Any,
) -> Any:
    """Return a translator of one layer each, whose projection is tied to the embedding of what it writes.

    Args:
        vocabulary: a tokenizer, or a number of tokens of which 0 pads.
        seed: of the parameters; None draws them as the generator stands.
        cls: the class.
        layers: of the encoder and of the decoder.
        embedded: what its text embeddings have otherwise than ``embedding``.
        sizes: what its layers have otherwise than ``layer``.
        changes: other arguments of the class; those that are given are not built.

    """
    if seed is not None:
        torch.manual_seed(seed)
    sizes = sizes or {}
    options = {key: sizes[key] for key in ("width", "dropout") if key in sizes} | (embedded or {})
    if "target_embedding" not in changes:
        changes["target_embedding"] = embedding(vocabulary, **options)
    made = {
        "embeddings": lambda: {"source": embedding(vocabulary, **options)},
        "encoder": lambda: encoder(layers, **sizes),
        "decoder": lambda: decoder(layers, **sizes),
        "projection": lambda: TiedProjection(embedding=changes["target_embedding"]),
    }
    return cls(**{name: build() for name, build in made.items() if name not in changes} | changes)


def encoder_model(
    vocabulary: Any, *, layers: int = 1, embedded: Any = None, heads: Any = None, **sizes: Any
) -> EncoderModel:
    """Return a model that reads "source" and writes nothing; ``sizes`` are its layers'."""
    options = {key: sizes[key] for key in ("width", "dropout") if key in sizes} | (embedded or {})
    read = {"source": embedding(vocabulary, **options)}
    return EncoderModel(embeddings=read, encoder=encoder(layers, **sizes), heads=heads)


def system(tokenizer: Any, model: nn.Module | None = None, *, cls: type = System, **changes: Any) -> Any:
    """Return a system from English to German around a model, or around ``translator(tokenizer)``."""
    options = {
        "model": translator(tokenizer) if model is None else model,
        "inputs": {"source": text(tokenizer)},
        "output": text(tokenizer, "target"),
        "source_languages": ["en"],
        "target_languages": ["de"],
    }
    return cls(**options | changes)


def trimmed(system: Any, folder: Path) -> tuple[Any, Any]:
    """Save a system and one whose vocabulary is trimmed to that of a short text; return both as they are read again."""
    from dragoman.exchange.trimming import trim

    system.save(folder / "model")
    texts = Manifest.write(folder / "texts.arrow", [row("1", "one two", "eins")]).path
    trim(folder / "model", [texts], folder / "trimmed")
    whole, few = (System.load(folder / name) for name in ("model", "trimmed"))
    assert len(few.output.tokenizer.kept) < whole.output.tokenizer.size
    return whole, few


def run(phase: Any, output: Path, name: str, **options: Any) -> Workspace:
    """Run a phase on the CPU without further processes; return the workspace, whose folder has its results."""
    workspace = Workspace(output=output, phase=name, **{"device": "cpu", "workers": 0, "noprogressbar": True} | options)
    phase.run(workspace)
    return workspace


def evaluated(system: Any, manifest: Any, folder: Path, *metrics: str) -> Any:
    """Return the evaluation of a system on a manifest by some metrics, with German in play and a beam of 2."""
    from dragoman.shared.evaluation.scoring import evaluate_system

    place = Workspace(output=folder, device="cpu", workers=0, noprogressbar=True)
    given = {"search": BeamSearch(beam=2), "budget": Budget(tokens=100), "metrics": [*metrics], "in_play": ["de"]}
    return evaluate_system(system, manifest, workspace=place, **given)


# -- refusals -------------------------------------------------------------------------------------------------------


def slow_but(quick: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    """Return values of a parameter, whose tests are slow ones but those of ``quick``."""
    quick = list(quick)
    return [value if value in quick else pytest.param(value, marks=pytest.mark.slow) for value in values]


def examples(number: int) -> int:
    """Return how many examples hypothesis tries: a number, or a fifth of it in the profile "quick" of ``make test``."""
    return max(10, number // 5) if settings.default.max_examples < 100 else number


def refuses(error: type[Exception], match: str, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> None:
    """Assert that a call raises an error with a message that matches: for tables of bad arguments, a line each."""
    with pytest.raises(error, match=match):
        call(*arguments, **named)


def refusal(error: type[Exception], call: Callable[..., Any], /, *arguments: Any, **named: Any) -> str:
    """Return the message of the error that a call must raise."""
    with pytest.raises(error) as caught:
        call(*arguments, **named)
    return str(caught.value)


class Bomb:
    """Leaves a trace where it is unpickled."""

    def __init__(self, trace: Any) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.trace), "w")
