"""Export to Hugging Face's layout: what is written, and what is refused by name (transformers: tests/parity)."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from dragoman import DataError, System, UsageError
from dragoman.exchange.exporting import export_huggingface
from dragoman.exchange.huggingface import hf_translator_export
from dragoman.exchange.huggingface.hf_export import export
from dragoman.exchange.huggingface.hf_translator_export import plain_translator
from dragoman.mt.documents import of_documents
from dragoman.shared.batches.speech_field import SpeechField
from dragoman.shared.nn.embeddings import TypeVector
from dragoman.shared.nn.heads import CtcHead, TiedProjection
from dragoman.shared.nn.layer import Layer
from dragoman.shared.nn.positions import LearnedPositions, RelativePositions, SinusoidalPositions
from dragoman.shared.nn.transformer import Decoder, Encoder
from dragoman.shared.text.normalise import Lowercase, Policy
from dragoman.shared.text.tokenizer import SentencePieceTokenizer
from tests import small
from tests.small import refuses, slow_but


@pytest.fixture
def tokenizer() -> SentencePieceTokenizer:
    return small.tokenizer(["the low tower"] * 9, ["en", "de"])


def system_of(tokenizer: SentencePieceTokenizer, **changes: Any) -> System:
    """A translator of one layer a side, with some of its parts exchanged."""
    common = {"width": 12, "positions": True} | changes.get("embedding", {})
    source = small.embedding(tokenizer, **common)
    target = small.embedding(tokenizer, **common | {"shared_with": source} | changes.get("target", {}))
    layer = {"width": 12, "heads": 2, "feedforward": 16, "dropout": 0.1} | changes.get("layer", {})
    model = small.translator(
        tokenizer,
        embeddings={"source": source},
        encoder=Encoder(
            layer=changes.get("encoder_layer", Layer)(**layer),
            **{"layers": 1, "taps": [1]} | changes.get("encoder", {}),
        ),
        target_embedding=target,
        decoder=small.decoder(**layer | changes.get("decoder_layer", {})),
        projection=TiedProjection(embedding=target, bias=changes.get("bias", False)),
        heads=changes.get("heads"),
    )
    inputs = {"source": small.text(tokenizer, **changes.get("source", {}))}
    languages = changes.get("source_languages", ["en"])
    return small.system(tokenizer, model, inputs=inputs, source_languages=languages)


def exported(system: System, folder: Path) -> Path:
    system.save(folder / "ours")
    export(folder / "ours", folder / "theirs")
    return folder / "theirs"


def longest_output(folder: Path) -> int:
    return json.loads((folder / "generation_config.json").read_text(encoding="utf-8"))["max_length"]


def test_rows_move_with_their_symbols(tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    policy = Policy(events=True, punctuation=True, lowercase=False)  # it changes nothing
    system = system_of(tokenizer, source={"normalizers": [policy]})
    folder = exported(system, tmp_path)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert (config["model_type"], config["architectures"]) == ("m2m_100", ["M2M100ForConditionalGeneration"])
    assert (config["pad_token_id"], config["bos_token_id"], config["eos_token_id"]) == (1, 0, 2)
    vectors = load_file(folder / "model.safetensors")["model.shared.weight"]
    written = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    numbers = {token["content"]: token["id"] for token in written["added_tokens"]}
    assert config["decoder_start_token_id"] == numbers["<de>"]
    assert longest_output(folder) == 200
    ours = system.model.target_embedding.weight
    for symbol, number in numbers.items():
        assert torch.equal(vectors[number], ours[tokenizer.id(symbol)])
    assert len(vectors) == tokenizer.size == config["vocab_size"]
    template = written["post_processor"]["special_tokens"]
    assert {name: one["ids"] for name, one in template.items()} == {"<en>": [numbers["<en>"]], "</s>": [2]}


@pytest.mark.parametrize("scaled", [True, False])
def test_biases_move_with_their_symbols_and_scales_are_told(
    tokenizer: SentencePieceTokenizer, scaled: bool, tmp_path: Path
) -> None:
    positions = LearnedPositions(width=12, length=9, offset=2)
    system = system_of(tokenizer, bias=True, embedding={"positions": positions, "norm": True, "scaled": scaled})
    with torch.no_grad():
        system.model.projection.bias.copy_(torch.arange(float(tokenizer.size)))
    folder = exported(system, tmp_path)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert (config["model_type"], config["scale_embedding"]) == ("mbart", scaled)
    assert longest_output(folder) == 9, "there are no positions for more"
    [biases] = load_file(folder / "model.safetensors")["final_logits_bias"].tolist()
    written = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    for token in written["added_tokens"]:
        assert biases[token["id"]] == tokenizer.id(token["content"])
    assert biases != sorted(biases), "some symbol has moved"


class Wider(Layer):
    """Some paper's layer."""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layer": {"pre_norm": False, "norm_epsilon": 1e-6}}, "norms with an epsilon of 1e-06"),
        ({"decoder_layer": {"pre_norm": False}}, "pre_norm and final norms mixed norms"),
        ({"encoder": {"final_norm": False}}, "pre_norm and final norms mixed norms"),
        ({"embedding": {"positions": None}}, "positions none"),
        ({"embedding": {"positions": SinusoidalPositions(width=12, offset=7)}}, "positions sinusoidal from 7"),
        ({"embedding": {"positions": LearnedPositions(width=12, length=9)}}, "positions learned from row 0"),
        ({"target": {"norm": True}}, r"norm of embeddings of both kinds \(False, True\)"),
        ({"embedding": {"type_vector": TypeVector(width=12)}}, "an embedding with a type vector"),
        ({"bias": True}, "and a bias of its logits"),
        ({"decoder_layer": {"activation": "gelu"}}, "different activations"),
        ({"heads": {"ctc": CtcHead(tap=1, width=12, vocabulary=9, blank=0)}}, "the heads ctc"),
        ({"source": {"normalizers": [Lowercase()]}}, "no place for Lowercase before the tokenizer"),
        ({"source": {"normalizers": [Policy(events=True, punctuation=False, lowercase=True)]}},
         "no place for RemovePunctuation, Lowercase before the tokenizer"),
        ({"source_languages": ["en", "de"], "source": {"prefix": [], "suffix": ["<{language}>"]}}, "a language behind"),
    ],
)  # fmt: skip
def test_what_has_no_equal(
    tokenizer: SentencePieceTokenizer, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    system_of(tokenizer, **changes).save(tmp_path / "ours")
    refuses(UsageError, message, export, tmp_path / "ours", tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


def test_widths_of_both_sides_are_one(tokenizer: SentencePieceTokenizer) -> None:
    system = system_of(tokenizer)
    decoder = Decoder(layer=Layer(width=8, heads=2, feedforward=16, memories={"source": 12}), layers=1)
    object.__setattr__(system.model, "decoder", decoder)
    refuses(UsageError, "an encoder of width 12 with a decoder of width 8", plain_translator, system)


def test_matrices_that_are_not_shared_have_names_of_their_own(tokenizer: SentencePieceTokenizer) -> None:
    model = system_of(tokenizer, target={"shared_with": None}).model
    order = torch.arange(tokenizer.size).flip(0)
    kind = SimpleNamespace(name="mbart", bias=False)
    found = hf_translator_export.tensors_of(model, kind, order)
    source, target = model.embeddings["source"].weight[order], model.target_embedding.weight[order]
    both = [("model.shared.weight", source), ("model.encoder.embed_tokens.weight", source)]
    for name, expected in (*both, ("model.decoder.embed_tokens.weight", target), ("lm_head.weight", target)):
        assert torch.equal(found[name], expected), name
    tied = hf_translator_export.tensors_of(system_of(tokenizer).model, kind, order)
    assert "model.shared.weight" in tied and "lm_head.weight" not in tied


def test_other_systems_are_refused(tokenizer: SentencePieceTokenizer) -> None:
    system = system_of(tokenizer)
    assert plain_translator(system) is system.model
    speech = System(**system.arguments | {"inputs": {"speech": SpeechField()}})
    message = r"no native class for the system \(System of a Translator that reads \['speech'\]"
    refuses(UsageError, message, plain_translator, speech)
    refuses(UsageError, "for Encoder of Wider", lambda: plain_translator(system_of(tokenizer, encoder_layer=Wider)))
    documents = of_documents(system=system_of(tokenizer))
    refuses(UsageError, "no native class for a symbol between the sentences", plain_translator, documents)
    other = system_of(tokenizer)
    other.model.decoder.relative = RelativePositions(heads=2)
    refuses(UsageError, "for Decoder of Layers that are not the usual ones", plain_translator, other)
    refuses(UsageError, "the heads ctc", lambda: plain_translator(System.load(small.GOLDEN)))


def test_nothing_else_is_replaced(tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    system_of(tokenizer).save(tmp_path / "ours")
    refuses(DataError, "holds a model folder of this project", export, tmp_path / "ours", tmp_path / "ours")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "letter.txt").write_text("dear")
    refuses(DataError, "holds something other than a model", export, tmp_path / "ours", tmp_path / "theirs")


def test_the_command(tokenizer: SentencePieceTokenizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    system_of(tokenizer, source_languages=["en", "de"]).save(tmp_path / "ours")
    plain: dict[str, Any] = {"quantization": "float32", "compare": [], "limit": 0, "like": None}
    for _ in range(2):  # an earlier export is replaced
        export_huggingface(tmp_path / "ours", tmp_path / "theirs", **plain)
    lines = capsys.readouterr().out.splitlines()[:2]
    assert lines[0].endswith("theirs: M2M100ForConditionalGeneration (m2m_100)")
    assert "each source has to begin with the symbol of its language: <en>" in lines[1]
    message = "--quantization, --compare and --limit are for --format ctranslate2"
    for other in ({"quantization": "int8"}, {"compare": [tmp_path / "test.arrow"]}, {"limit": 5}):
        refuses(UsageError, message, export_huggingface, tmp_path / "ours", tmp_path / "theirs", **plain | other)


@pytest.mark.parametrize("name", slow_but(["config.json"], ["config.json", "tokenizer.json", "model.safetensors"]))
def test_a_full_disk_names_the_export(
    dragoman: Callable[..., tuple[int, str, str]],
    file_size_limit: Callable[[int], AbstractContextManager[None]],
    tokenizer: SentencePieceTokenizer,
    tmp_path: Path,
    name: str,
) -> None:
    whole = exported(system_of(tokenizer), tmp_path)
    with file_size_limit((whole / name).stat().st_size - 1):  # of every file, as on a disk that has no more room
        asked = ["export", tmp_path / "ours", "--format", "huggingface", "--out", tmp_path / "again"]
        code, _, messages = dragoman(*asked)
    assert code == 1
    assert len(messages.splitlines()) == 1 and str(tmp_path / "again") in messages
    assert not (tmp_path / "again").exists()


def test_a_matrix_is_said_to_be_shared_if_source_target_and_output_have_it():
    one, other = (SimpleNamespace(weight=torch.zeros(2, 2)) for _ in range(2))
    for source, output, shared in ((one, one, True), (other, one, False), (one, other, False)):
        model = SimpleNamespace(embeddings={"source": source}, target_embedding=one, projection=output)
        assert hf_translator_export._tied(model) is shared
