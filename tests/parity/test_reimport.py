"""Folders that were exported here, and others with odd first symbols, imported: the outputs of transformers."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman import BeamSearch, Rules, System
from dragoman.exchange.huggingface.hf_export import export
from dragoman.exchange.importing import import_model
from dragoman.shared.systems.reading_model import ReadingModel
from dragoman.shared.text.tokenizer import SentencePieceTokenizer

transformers = pytest.importorskip("transformers")

from tests.parity import test_export, test_import  # noqa: E402
from tests.parity import tokenizers_of_others as others  # noqa: E402
from tests.parity.test_export import CASES, models, system_of  # noqa: E402, F401 (one is a fixture)

pytestmark = pytest.mark.parity

LIMIT = 16
SEARCH = BeamSearch(rules=Rules(maximum_length=LIMIT - 2, minimum_length=0, forced_free=True))


def written(system: System, texts: list[str], source: str, target: str) -> list[list[str]]:
    """Return the pieces of the best outputs; symbols of a model's own have the same names after an export."""
    found = system.hypotheses(texts, search=SEARCH, source_language=source, target_language=target)
    return [[*map(system.output.tokenizer.symbol, best[0].tokens)] for best in found]


def written_there(folder: Path, texts: list[str], below: str = "", reads: str = "", **options: Any) -> list[list[str]]:
    """Return what transformers makes of texts with a folder, all whose settings of a search are said anew.

    ``below`` and ``reads`` are folders in it with the tokenizers of the texts' language and of the output's.
    """
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / below)
    inputs = tokenizer(texts, return_tensors="pt", padding=True)
    inputs.pop("token_type_ids", None)
    rules = {"forced_eos_token_id": tokenizer.eos_token_id, "suppress_tokens": [tokenizer.pad_token_id]}
    tokens = model.generate(**inputs, num_beams=5, early_stopping=True, max_length=LIMIT, **rules, **options)
    ends = [row.index(tokenizer.eos_token_id, 1) + 1 for row in tokens.tolist()]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / reads)
    return [tokenizer.convert_ids_to_tokens(row[1:end]) for row, end in zip(tokens.tolist(), ends, strict=True)]


def unsaid(folder: Path) -> None:
    """Take away what later exports say about themselves."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    del config["dragoman"]
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_an_export_comes_back(name: str, older: bool, lines: list[str], models: Any, tmp_path: Path) -> None:  # noqa: F811
    system = system_of(SentencePieceTokenizer(model=models["unigram"], tags=["en", "de"]), **CASES[name][0])
    system.save(tmp_path / "ours")
    export(tmp_path / "ours", tmp_path / "theirs")
    if older:
        unsaid(tmp_path / "theirs")
    report = import_model(tmp_path / "theirs", tmp_path / "back")
    assert not (report.missing or report.unexpected or report.reshaped)
    back = System.load(tmp_path / "back")
    assert (back.source_languages, back.target_languages) == (["en"], ["de"])
    texts = [line for line in lines[:-20:90] if line.strip()]
    found = written(back, texts, "en", "de")
    assert found == written(system, texts, "en", "de") == written_there(tmp_path / "theirs", texts)
    assert len({*map(tuple, found)}) > 3


def test_several_languages_come_back(lines: list[str], models: Any, tmp_path: Path) -> None:  # noqa: F811
    tokenizer = SentencePieceTokenizer(model=models["unigram"], tags=["en", "de", "fr"])
    system = system_of(tokenizer, (["en", "fr"], ["de", "fr"]), **CASES["recipe"][0])
    system.save(tmp_path / "ours")
    export(tmp_path / "ours", tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "back")
    back = System.load(tmp_path / "back")
    assert (back.source_languages, back.target_languages) == (["en", "fr"], ["de", "fr"])
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    texts = [line for line in lines[:-20:90] if line.strip()]
    outputs = []
    for source, target in itertools.product(["en", "fr"], ["de", "fr"]):
        found = written(back, texts, source, target)
        assert found == written(system, texts, source, target)
        outputs.append(back.translate(texts, source_language=source, target_language=target))
        start = theirs.convert_tokens_to_ids(f"<{target}>")
        typed = [f"<{source}>{text}" for text in texts]
        assert found == written_there(tmp_path / "theirs", typed, decoder_start_token_id=start)
    assert len({*map(tuple, outputs)}) > 2


@pytest.mark.parametrize("name", ["mbart50", "marian", "bart"])
def test_what_was_imported_and_exported_comes_back(name: str, lines: list[str], tmp_path: Path) -> None:  # noqa: F811
    kind, model_kind, tag = test_import.CASES[name]
    folder = tmp_path / "theirs"
    model = others.train(lines, tmp_path / "sentencepiece.bpe.model", "unigram")
    if kind == "Marian":
        test_export.marian(folder, lines, separate=False)
        tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    else:
        folder.mkdir()
        tokenizer = test_import.tokenizer_for(kind, lines, model, folder)
    more: dict[str, Any] = {}
    if kind == "Marian":
        more = {"pad_token_id": tokenizer.pad_token_id, "decoder_start_token_id": 1, "eos_token_id": 0}
    test_import.random_model(model_kind, folder, vocab_size=len(tokenizer), **more)
    languages = {"source_languages": ["de"], "target_languages": ["fr"]}
    import_model(folder, tmp_path / "ours", **languages)
    export(tmp_path / "ours", tmp_path / "exported")
    import_model(tmp_path / "exported", tmp_path / "back")
    ours, back = System.load(tmp_path / "ours"), System.load(tmp_path / "back")
    assert (back.source_languages, back.target_languages) == (["de"], ["fr"])
    texts = [line for line in lines[::90] if line.strip()]
    found = written(back, texts, "de", "fr")
    assert found == written(ours, texts, "de", "fr")
    if kind == "MBart50":
        ids = {"decoder_start_token_id": 2, "forced_bos_token_id": tokenizer.convert_tokens_to_ids(tag)}
        assert found == written_there(tmp_path / "exported", texts, **ids)


@pytest.mark.parametrize("start", [0, 3, 250])
@pytest.mark.parametrize("forced", [None, 0, 77])
def test_any_symbol_starts_outputs(start: int, forced: int | None, lines: list[str], tmp_path: Path) -> None:  # noqa: F811
    folder = tmp_path / "theirs"
    folder.mkdir()
    tokenizer = test_import.tokenizer_for("Bart", lines, "", folder)
    test_import.random_model("Bart", folder, vocab_size=len(tokenizer), decoder_start_token_id=start)
    said = {"decoder_start_token_id": start, "forced_bos_token_id": forced}
    (folder / "generation_config.json").write_text(json.dumps(said), encoding="utf-8")
    import_model(folder, tmp_path / "ours", source_languages=["de"], target_languages=["fr"])
    system = System.load(tmp_path / "ours")
    expected = [start, tokenizer.bos_token_id if forced is None else forced]
    assert system.output.prefix_ids("fr") == expected
    texts = [line for line in lines[::60] if line.strip()]
    assert written(system, texts, "de", "fr") == written_there(folder, texts, forced_bos_token_id=expected[1])


def test_encoders_of_waveforms_come_back(tmp_path: Path) -> None:
    config = {
        "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20,
        "conv_dim": [8, 8], "conv_kernel": [10, 3], "conv_stride": [5, 2], "num_conv_pos_embeddings": 8,
        "num_conv_pos_embedding_groups": 2, "codevector_dim": 8, "proj_codevector_dim": 8,
        "num_codevectors_per_group": 6,
    }  # fmt: skip
    for kind in ("Model", "ForPreTraining"):
        folder = tmp_path / kind
        torch.manual_seed(3)
        theirs = getattr(transformers, f"Wav2Vec2{kind}")(transformers.Wav2Vec2Config(**config)).eval()
        theirs.save_pretrained(folder)
        transformers.Wav2Vec2FeatureExtractor().save_pretrained(folder)
        import_model(folder, tmp_path / f"{kind}-ours", source_languages=["de"])
        export(tmp_path / f"{kind}-ours", tmp_path / f"{kind}-exported")
        report = import_model(tmp_path / f"{kind}-exported", tmp_path / f"{kind}-back", source_languages=["de"])
        assert not (report.missing or report.unexpected or report.reshaped or report.elsewhere)
        back = getattr(transformers, f"Wav2Vec2{kind}").from_pretrained(tmp_path / f"{kind}-exported")
        for name, value in theirs.state_dict().items():
            torch.testing.assert_close(back.state_dict()[name], value, atol=0, rtol=0)
        states = [ReadingModel.load(tmp_path / f"{kind}-{which}").model.state_dict() for which in ("ours", "back")]
        assert states[0].keys() == states[1].keys()
        assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
