"""Folders in Hugging Face's layout without that library: what is read, and what is refused in one line."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from dragoman import DataError, System, UsageError
from dragoman.exchange.huggingface.hf_model import BIAS, EncoderDecoder, counterparts_of
from dragoman.exchange.huggingface.hf_reading import Config, read_tensors
from dragoman.exchange.huggingface.hf_tokenizer import new_order, write_tokenizer
from dragoman.exchange.importing import import_model
from dragoman.exchange.vocabularies.segmenters import SentencePieces
from dragoman.shared.batches.fields import TextField
from dragoman.shared.text.piece_model import train_sentencepiece
from tests.small import Bomb, refuses

SIZES = {
    "d_model": 12, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 3,
    "encoder_ffn_dim": 16, "decoder_ffn_dim": 10, "activation_function": "swish", "scale_embedding": True,
}  # fmt: skip


def change(path: Path, **values: Any) -> None:
    old = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    path.write_text(json.dumps(old | values), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A Marian folder: two SentencePiece models, a vocabulary for both, and weights."""
    place = tmp_path / "opus"
    place.mkdir()
    texts = {"source.spm": ["the low lower tower"] * 9, "target.spm": ["der lange lauf"] * 9}
    pieces: set[str] = set()
    for name, lines in texts.items():
        train_sentencepiece(lines, place / name, kind="char", size=300, byte_fallback=False)
        pieces |= {*SentencePieces(model=str(place / name)).pieces()}
    rows = ["</s>", "<unk>", *sorted(pieces), "<pad>"]
    change(place / "vocab.json", **{row: number for number, row in enumerate(rows)})
    change(place / "tokenizer_config.json", source_lang="eng", target_lang="deu")
    symbols = {"pad_token_id": len(rows) - 1, "decoder_start_token_id": len(rows) - 1, "eos_token_id": 0}
    change(place / "config.json", model_type="marian", vocab_size=len(rows), **SIZES, **symbols)
    torch.manual_seed(0)
    model = EncoderDecoder(Config(place / "config.json"), {BIAS: torch.ones(1, len(rows))}).build()
    tensors = {"model.shared.weight": model.embeddings["source"].weight}
    for name, value in model.state_dict().items():
        parts = counterparts_of(name)
        tensors |= dict(zip(parts, value.chunk(len(parts)), strict=True)) if "tokens" not in name else {}
    tensors[BIAS] = torch.arange(float(len(rows)))[None]
    save_file({name: value.detach().clone() for name, value in tensors.items()}, place / "model.safetensors")
    return place


def test_a_folder_becomes_a_system(folder: Path, tmp_path: Path) -> None:
    report = import_model(folder, tmp_path / "model")
    assert not (report.missing or report.unexpected or report.reshaped or report.elsewhere)
    system = System.load(tmp_path / "model")
    assert (system.source_languages, system.target_languages) == (["en"], ["de"])
    assert system.output.prefix_ids("de") == [system.output.tokenizer.pad]
    assert system.model.projection.bias.tolist() == list(range(system.output.tokenizer.size))
    assert isinstance(system.translate("the tower"), str)
    source, target = system.inputs["source"].tokenizer, system.output.tokenizer
    assert source.decode(source.encode("the low tower")) == "the low tower"
    assert target.decode(target.encode("der lauf")) == "der lauf"
    assert source.encode("low")[0] == target.encode("low")[0] == json.loads((folder / "vocab.json").read_text())["▁"]


def test_it_is_written_back_with_both_models(folder: Path, tmp_path: Path) -> None:
    import_model(folder, tmp_path / "model")
    system = System.load(tmp_path / "model")
    order = new_order(system)
    written = tmp_path / "written"
    written.mkdir()
    write_tokenizer(system, order, written)
    for name in ("source.spm", "target.spm"):
        assert (written / name).read_bytes() == (folder / name).read_bytes()
    assert json.loads((written / "vocab.json").read_text()) == json.loads((folder / "vocab.json").read_text())
    field = system.inputs["source"]
    for around in ({"prefix": ["<pad>"]}, {"suffix": []}):
        inputs = {"source": TextField(**field.arguments | around)}
        changed = System(**system.arguments | {"inputs": inputs})
        with pytest.raises(UsageError, match="no native class for two SentencePiece models with symbols around"):
            write_tokenizer(changed, order, written)


def test_languages_that_the_folder_does_not_say(folder: Path, tmp_path: Path) -> None:
    change(folder / "tokenizer_config.json", source_lang="roa", target_lang=None)
    message, out = "calls its source language 'roa': name it with --source-languages", tmp_path / "model"
    refuses(DataError, message, import_model, folder, out)
    message = "does not say its target language: name it with --target-languages"
    refuses(DataError, message, import_model, folder, out, source_languages=["fr", "es"])
    import_model(folder, tmp_path / "model", source_languages=["fr", "es"], target_languages=["en"])
    assert System.load(tmp_path / "model").source_languages == ["fr", "es"]


def test_symbols_of_languages(folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = json.loads((folder / "vocab.json").read_text())
    tags = [">>fr_BE<<", ">>zh_TW<<", ">>fr<<", ">>pob<<", ">>zh_CN<<", ">>por<<", ">>haw<<"]
    letters = [row for row in rows if len(row) == 1 and row.isalpha()]
    rows = {dict(zip(letters, tags, strict=False)).get(row, row): number for row, number in rows.items()}
    (folder / "vocab.json").write_text(json.dumps(rows))
    import_model(folder, tmp_path / "model", source_languages=["en"])
    assert f"{folder}: 2 of 7 language tags have no code here: >>fr_BE<<, >>haw<<" in caplog.messages
    system = System.load(tmp_path / "model")
    assert sorted(system.target_languages) == ["fr", "pt", "pt-BR", "zh", "zh-TW"]
    for code, tag in {"fr": ">>fr<<", "pt-BR": ">>pob<<", "pt": ">>por<<", "zh": ">>zh_CN<<"}.items():
        row = {"id": "1", "source_text": "", "source_language": "en", "target_language": code}
        assert system.inputs["source"](row, None).tolist() == [rows[tag], 0]
    other = {{">>fr<<": ">>xx<<"}.get(t, t.replace("_", "")): n for t, n in rows.items()}
    (folder / "vocab.json").write_text(json.dumps(other))
    with pytest.raises(UsageError, match="no symbol for fr"):
        import_model(folder, tmp_path / "model", source_languages=["en"], target_languages=["fr"])


def test_pickles_and_shards(folder: Path) -> None:
    tensors, path = read_tensors(folder)
    names = sorted(tensors)
    path.unlink()
    weights = {}
    for number, part in enumerate((names[:5], names[5:])):
        torch.save({name: tensors[name] for name in part}, folder / f"part-{number}.bin")
        weights |= dict.fromkeys(part, f"part-{number}.bin")
    change(folder / "pytorch_model.bin.index.json", weight_map=weights)
    again, _ = read_tensors(folder)
    assert sorted(again) == names and all(torch.equal(again[name], tensors[name]) for name in names)
    change(folder / "pytorch_model.bin.index.json", weight_map={"a": "../../etc/passwd"})
    refuses(DataError, "'../../etc/passwd' is not a file of the folder", read_tensors, folder)


def test_nothing_is_run(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"model.shared.weight": Bomb(folder / "trace")}, folder / "pytorch_model.bin")
    refuses(DataError, r"refused, because it asks for (_?io|builtins)\.open", read_tensors, folder)
    assert not (folder / "trace").exists()


@pytest.mark.parametrize(
    ("file", "values", "message"),
    [
        ("config.json", {"model_type": "umt5"}, "model_type 'umt5' has no counterpart here, only bart, mbart"),
        ("config.json", {"activation_function": "tanh"}, "activation_function 'tanh' has no counterpart"),
        ("config.json", {"d_model": None}, "does not say d_model"),
        ("config.json", {"d_model": 18}, r"is \(\d+, 12\) instead of \(\d+, 18\)"),
        ("config.json", {"encoder_layers": 2}, r"encoder\.layers\.1\.\S+ is missing"),
        ("config.json", {"pad_token_id": 3}, "pad_token_id is 3, but the tokenizer's is"),
        ("config.json", {"decoder_start_token_id": 99}, r"config\.json: decoder_start_token_id is 99, which is none"),
        ("config.json", {"decoder_start_token_id": "a"}, "decoder_start_token_id is 'a', which is none of the tokeni"),
        ("config.json", {"dragoman": {"symbols": {}}}, "dragoman does not say what an export says"),
        ("config.json", {"vocab_size": 7}, "vocab_size is 7, but the tokenizer has"),
        ("vocab.json", {"</s>": 5}, "number its"),
        ("tokenizer_config.json", {"separate_vocabs": True}, "has no target_vocab.json"),
    ],
)
def test_what_is_refused(folder: Path, tmp_path: Path, file: str, values: dict[str, Any], message: str) -> None:
    change(folder / file, **values)
    with pytest.raises(DataError, match=message) as raised:
        import_model(folder, tmp_path / "model")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("id", [0, 1, 5])
def test_outputs_start_with_the_symbol_that_the_folder_says(folder: Path, tmp_path: Path, id: int) -> None:
    (piece,) = (row for row, number in json.loads((folder / "vocab.json").read_text()).items() if number == id)
    change(folder / "config.json", decoder_start_token_id=id)
    import_model(folder, tmp_path / "model")
    system = System.load(tmp_path / "model")
    assert system.output.prefix_ids("de") == [id]
    assert system.output.tokenizer.decode([id]) == (piece.strip() if id == 5 else ""), "a piece stays one"
    change(folder / "generation_config.json", decoder_start_token_id=4, forced_bos_token_id=3)
    import_model(folder, tmp_path / "other")
    assert System.load(tmp_path / "other").output.prefix_ids("de") == [4, 3]


@pytest.mark.parametrize("name", ["model.safetensors", "vocab.json", "target.spm", "config.json"])
def test_missing_files_and_options_of_the_other_kind(folder: Path, tmp_path: Path, name: str) -> None:
    message, out = "--dictionary and --pieces are for fairseq's", tmp_path / "model"
    refuses(UsageError, message, import_model, folder, out, dictionary=folder)
    (folder / name).unlink()
    refuses(DataError, str(folder), import_model, folder, out)


VALUES: tuple[Any, ...] = (None, True, 5, -3, 0, 10**9, 10**30, 0.5, 1e308, "x", [], [1], {}, {"a": 1})


def test_settings_of_any_type_never_end_in_a_traceback(folder: Path, tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer_config.json"):
        settings = json.loads((folder / name).read_text(encoding="utf-8"))
        cases = [(key, value) for key in [*settings, "tie_word_embeddings"] for value in VALUES]
        for key, value in random.Random(2).sample(cases, 40):
            (folder / name).write_text(json.dumps(settings | {key: value}), encoding="utf-8")
            try:
                import_model(folder, tmp_path / "model", source_languages=["en"], target_languages=["de"])
            except DataError as error:
                assert "\n" not in str(error) and str(folder) in str(error)
        (folder / name).write_text(json.dumps(settings), encoding="utf-8")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"encoder_layers": 10**9}, "encoder_layers must be a whole number from 1 to 1,000,000, not 1000000000"),
        ({"decoder_layers": 1000}, r"describes more than \d+ tensors, and its weights are \d+"),
        ({"encoder_ffn_dim": 10**6, "d_model": 999_996}, r"describes [\d,]+ parameters, and its weights are [\d,]+$"),
        ({"vocab_size": 10**9}, r"vocab_size is 1000000000, but no tensor of the weights has more than \d+ rows"),
    ],
)
def test_sizes_beyond_the_weights_take_no_memory(
    folder: Path, tmp_path: Path, values: dict[str, Any], message: str
) -> None:
    change(folder / "config.json", **values)
    with pytest.raises(DataError, match=message) as raised:
        import_model(folder, tmp_path / "model")
    assert str(folder) in str(raised.value)
