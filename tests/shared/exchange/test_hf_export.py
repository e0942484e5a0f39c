"""Export to Hugging Face's layout: what is written, and what is refused by name (transformers: tests/parity)."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from shared.corpus.fields import TextField
from shared.corpus.normalise import Lowercase, Policy
from shared.corpus.speech_field import SpeechField
from shared.errors import DataError, UsageError
from shared.exchange import hf_export
from shared.exchange.exporting import export_huggingface
from shared.exchange.hf_export import export, plain_translator
from shared.nn.embeddings import TextEmbedding, TypeVector
from shared.nn.heads import CtcHead, TiedProjection
from shared.nn.layer import Layer
from shared.nn.positions import LearnedPositions, RelativePositions, SinusoidalPositions
from shared.nn.transformer import Decoder, Encoder
from shared.nn.translator import Translator
from shared.systems.system import System
from shared.text.piece_model import train_sentencepiece
from shared.text.tokenizer import SentencePieceTokenizer

GOLDEN = Path(__file__).parents[2] / "golden" / "model"


@pytest.fixture
def tokenizer(tmp_path: Path) -> SentencePieceTokenizer:
    model = train_sentencepiece(["the low tower"] * 9, tmp_path / "m.model", kind="char", size=300)
    return SentencePieceTokenizer(model=str(model), tags=["en", "de"])


def system_of(tokenizer: SentencePieceTokenizer, **changes: Any) -> System:
    """A translator of one layer a side, with some of its parts exchanged."""
    common: dict[str, Any] = {"vocabulary": tokenizer.size, "width": 12, "padding": tokenizer.pad}
    common |= {"positions": SinusoidalPositions(width=12)} | changes.get("embedding", {})
    source = TextEmbedding(**common)
    target = TextEmbedding(**common | {"shared_with": source} | changes.get("target", {}))
    layer: dict[str, Any] = {"width": 12, "heads": 2, "feedforward": 16} | changes.get("layer", {})
    encoder = {"layers": 1, "taps": [1]} | changes.get("encoder", {})
    model = Translator(
        embeddings={"source": source},
        encoder=Encoder(layer=changes.get("encoder_layer", Layer)(**layer), **encoder),
        target_embedding=target,
        decoder=Decoder(layer=Layer(memories=["source"], **layer | changes.get("decoder_layer", {})), layers=1),
        projection=TiedProjection(embedding=target, bias=changes.get("bias", False)),
        heads=changes.get("heads"),
    )
    return System(
        model=model,
        inputs={"source": TextField(column="source_text", tokenizer=tokenizer, **changes.get("source", {}))},
        output=TextField(tokenizer=tokenizer),
        source_languages=changes.get("source_languages", ["en"]),
        target_languages=["de"],
    )


def exported(system: System, folder: Path) -> Path:
    system.save(folder / "ours")
    export(folder / "ours", folder / "theirs")
    return folder / "theirs"


def longest_output(folder: Path) -> int:
    return json.loads((folder / "generation_config.json").read_text(encoding="utf-8"))["max_length"]


def test_rows_move_with_their_symbols(tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    system = system_of(tokenizer)
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
    with pytest.raises(UsageError, match=message):
        export(tmp_path / "ours", tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


def test_a_policy_that_changes_nothing_is_no_obstacle(tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    policy = Policy(events=True, punctuation=True, lowercase=False)
    folder = exported(system_of(tokenizer, source={"normalizers": [policy]}), tmp_path)
    assert (folder / "tokenizer.json").is_file()


def test_other_systems_are_refused(tokenizer: SentencePieceTokenizer) -> None:
    system = system_of(tokenizer)
    assert plain_translator(system) is system.model
    speech = System(**system.arguments | {"inputs": {"speech": SpeechField()}})
    with pytest.raises(
        UsageError, match=r"no native class for the system \(System of a Translator that reads \['speech'\]"
    ):
        plain_translator(speech)
    with pytest.raises(UsageError, match="for Encoder of Wider"):
        plain_translator(system_of(tokenizer, encoder_layer=Wider))
    other = system_of(tokenizer)
    other.model.decoder.relative = RelativePositions(heads=2)
    with pytest.raises(UsageError, match="for Decoder of Layers that are not the usual ones"):
        plain_translator(other)
    with pytest.raises(UsageError, match="the heads ctc"):
        plain_translator(System.load(GOLDEN))


def test_nothing_else_is_replaced(tokenizer: SentencePieceTokenizer, tmp_path: Path) -> None:
    system_of(tokenizer).save(tmp_path / "ours")
    with pytest.raises(DataError, match="holds a model folder of this project"):
        export(tmp_path / "ours", tmp_path / "ours")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "letter.txt").write_text("dear")
    with pytest.raises(DataError, match="holds something other than a model"):
        export(tmp_path / "ours", tmp_path / "theirs")


def test_the_command(tokenizer: SentencePieceTokenizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    system_of(tokenizer, source_languages=["en", "de"]).save(tmp_path / "ours")
    plain: dict[str, Any] = {"quantization": "float32", "compare": [], "limit": 0}
    for _ in range(2):  # an earlier export is replaced
        export_huggingface(tmp_path / "ours", tmp_path / "theirs", **plain)
    lines = capsys.readouterr().out.splitlines()[:2]
    assert lines[0].endswith("theirs: M2M100ForConditionalGeneration (m2m_100)")
    assert "each source has to begin with the symbol of its language: <en>" in lines[1]
    with pytest.raises(UsageError, match="--quantization, --compare and --limit are for --format ctranslate2"):
        export_huggingface(tmp_path / "ours", tmp_path / "theirs", **plain | {"quantization": "int8"})
    for other in ({"compare": [tmp_path / "test.arrow"]}, {"limit": 5}):
        with pytest.raises(UsageError, match="are for --format ctranslate2"):
            export_huggingface(tmp_path / "ours", tmp_path / "theirs", **plain | other)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_full_disk_names_the_export(tokenizer: SentencePieceTokenizer, tmp_path: Path, name: str) -> None:
    whole = exported(system_of(tokenizer), tmp_path)
    limit = (whole / name).stat().st_size - 1  # of every file, as on a disk that has no more room
    done = subprocess.run(
        [sys.executable, "-m", "shared.cli", "export", str(tmp_path / "ours"), "--format", "huggingface",
         "--out", str(tmp_path / "again")],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and str(tmp_path / "again") in done.stderr
    assert not (tmp_path / "again").exists()


def test_a_matrix_is_said_to_be_shared_if_source_target_and_output_have_it():
    one, other = (SimpleNamespace(weight=torch.zeros(2, 2)) for _ in range(2))
    for source, output, shared in ((one, one, True), (other, one, False), (one, other, False)):
        model = SimpleNamespace(embeddings={"source": source}, target_embedding=one, projection=output)
        assert hf_export._tied(model) is shared
